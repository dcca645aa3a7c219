//! Little-endian numbers in octets, read without ever going beyond the end.

/// Reads from the front of a slice.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(octets: &'a [u8]) -> Self {
        Self(octets)
    }

    pub(super) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[one]| one)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn size(&mut self) -> Option<usize> {
        usize::try_from(self.u32()?).ok()
    }
}

/// Splits off a checksum of the last four octets; `None` when it does not fit what is before.
pub(super) fn checked(octets: &[u8]) -> Option<&[u8]> {
    let (inner, sum) = octets.split_at_checked(octets.len().checked_sub(4)?)?;
    let sum: [u8; 4] = sum.try_into().ok()?;
    (crc32c::crc32c(inner) == u32::from_le_bytes(sum)).then_some(inner)
}

/// Appends the checksum of all that `octets` holds from `start` on.
pub(super) fn seal(octets: &mut Vec<u8>, start: usize) {
    let sum = crc32c::crc32c(octets.get(start..).unwrap_or_default());
    octets.extend_from_slice(&sum.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_read_beyond_the_end() {
        let mut reader = Reader::new(&[1, 2, 0, 3, 0, 0, 0]);
        assert_eq!((reader.u8(), reader.u16(), reader.u32()), (Some(1), Some(2), Some(3)));
        assert_eq!((reader.u8(), reader.take(0)), (None, Some(&[][..])));
    }

    #[test]
    fn a_changed_octet_breaks_the_checksum() {
        let mut octets = b"skipped:contents".to_vec();
        seal(&mut octets, 8);
        assert_eq!(checked(&octets[8..]), Some(&b"contents"[..]));
        octets[9] ^= 1;
        assert_eq!(checked(&octets[8..]), None);
        assert_eq!(checked(&[1, 2, 3]), None);
    }
}
