//! A segment: a file of batches. Its first sector names it, its epoch and the end of the one before.

use std::path::{Path, PathBuf};

use super::{
    JournalError,
    batch::{BATCH_HEAD, BATCH_MAGIC, Batch, BatchHead, Position, SECTOR, SECTOR_OCTETS, fits},
    codec::{self, Reader},
};
use crate::store::vfs::{VfsFile, read_exact_at, read_up_to_at};

const MAGIC: [u8; 8] = *b"OPSEG001";
/// Where the first batch lies, in octets.
pub(super) const FIRST: u64 = SECTOR;
/// How much is read at once when looking for batches behind damage, in octets.
const STRIDE: usize = 1 << 20;

/// What a segment says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentHead {
    pub(super) number: u64,
    pub(super) epoch: u64,
    /// Valid end of the segment before; segment 0 when there is none.
    pub(super) previous: Position,
    /// Octets that it may hold, this head included.
    pub(super) capacity: u64,
}

impl SegmentHead {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        for number in [self.number, self.epoch, self.previous.segment, self.previous.offset, self.capacity] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        codec::seal(&mut out, 0);
        out
    }

    pub(super) const OCTETS: usize = 8 + 5 * 8 + 4;

    fn decode(octets: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(codec::checked(octets)?);
        if reader.array()? != MAGIC {
            return None;
        }
        Some(Self {
            number: reader.u64()?,
            epoch: reader.u64()?,
            previous: Position { segment: reader.u64()?, offset: reader.u64()? },
            capacity: reader.u64()?,
        })
    }

    /// Reads the head of segment `number`; `None` when there is no valid one.
    pub(super) fn read(file: &dyn VfsFile, number: u64) -> Result<Option<Self>, JournalError> {
        let mut octets = [0; Self::OCTETS];
        let read = read_up_to_at(file, &mut octets, 0).map_err(JournalError::io("read a segment"))?;
        Ok(octets.get(..read).and_then(Self::decode).filter(|head| head.number == number))
    }
}

/// `journal/00000001.seg`.
pub(super) fn segment_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:08}.seg"))
}

/// `journal/00000001.keys`.
pub(super) fn keys_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:08}.keys"))
}

/// The number in a name with this ending.
pub(super) fn numbered(name: &str, ending: &str) -> Option<u64> {
    let digits = name.strip_suffix(ending)?;
    let plain = digits.len() >= 8 && digits.bytes().all(|b| b.is_ascii_digit());
    if plain { digits.parse().ok() } else { None }
}

/// Reads the batches of one segment, one after the other.
#[derive(Debug)]
pub(super) struct BatchReader<'a> {
    file: &'a dyn VfsFile,
    number: u64,
    epoch: u64,
    /// Where it stands.
    pub(super) at: u64,
    /// Where it stops.
    pub(super) limit: u64,
}

impl<'a> BatchReader<'a> {
    pub(super) fn new(file: &'a dyn VfsFile, number: u64, epoch: u64, limit: u64) -> Self {
        Self { file, number, epoch, at: FIRST, limit }
    }

    /// The epoch of the first valid batch, for a segment whose head is damaged.
    pub(super) fn find_epoch(&mut self) -> Result<Option<u64>, JournalError> {
        let mut octets = [0; BATCH_HEAD];
        for at in (FIRST..self.limit).step_by(SECTOR_OCTETS) {
            let read =
                read_up_to_at(self.file, &mut octets, at).map_err(JournalError::io("read a segment"))?;
            let head = octets.get(..read).and_then(BatchHead::decode);
            if let Some((head, _)) = head.filter(|(head, _)| head.at.segment == self.number) {
                self.epoch = head.epoch;
                if self.valid_at(at)?.is_some() {
                    return Ok(Some(head.epoch));
                }
            }
        }
        Ok(None)
    }

    /// The batch here, or `None` when there is no valid one (also at the limit); it then stays where it is.
    pub(super) fn next(&mut self) -> Result<Option<Batch>, JournalError> {
        let batch = self.valid_at(self.at)?;
        if let Some(batch) = &batch {
            self.at = super::batch::to_sector(self.at.saturating_add(batch.head.whole()));
        }
        Ok(batch)
    }

    fn valid_at(&self, at: u64) -> Result<Option<Batch>, JournalError> {
        let io = |error| JournalError::io("read a segment")(error);
        let room = self.limit.saturating_sub(at);
        if room < BATCH_HEAD as u64 {
            return Ok(None);
        }
        let mut head_octets = [0; BATCH_HEAD];
        if read_up_to_at(self.file, &mut head_octets, at).map_err(io)? < BATCH_HEAD {
            return Ok(None);
        }
        let here = Position { segment: self.number, offset: at };
        let Some((head, sum)) = BatchHead::decode(&head_octets) else { return Ok(None) };
        if head.at != here || head.epoch != self.epoch || head.whole() > room {
            return Ok(None);
        }
        let mut octets = vec![0; usize::try_from(head.length).unwrap_or(0)];
        let from = at.saturating_add(BATCH_HEAD as u64);
        match read_exact_at(self.file, &mut octets, from) {
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read.map_err(io)?,
        }
        Ok(fits(&head_octets, &octets, sum).then_some(Batch { head, octets }))
    }

    /// Moves to the next valid batch behind a bad place; `false` when there is none up to the limit.
    pub(super) fn resume(&mut self) -> Result<bool, JournalError> {
        let mut at = super::batch::to_sector(self.at.saturating_add(1));
        let mut window = vec![0; STRIDE];
        while at < self.limit {
            let read =
                read_up_to_at(self.file, &mut window, at).map_err(JournalError::io("read a segment"))?;
            let sectors = window.get(..read).unwrap_or_default().chunks(SECTOR_OCTETS);
            for (index, sector) in sectors.enumerate() {
                let place = at.saturating_add(index as u64 * SECTOR);
                if sector.starts_with(&BATCH_MAGIC) && self.valid_at(place)?.is_some() {
                    self.at = place;
                    return Ok(true);
                }
            }
            if read < STRIDE {
                break;
            }
            at = at.saturating_add(STRIDE as u64);
        }
        Ok(false)
    }

    /// Where the last octet that is not zero ends, from here on; here when there is none.
    pub(super) fn used_end(&self) -> Result<u64, JournalError> {
        let (mut at, mut used) = (self.at, self.at);
        let mut window = vec![0; STRIDE];
        while at < self.limit {
            let read =
                read_up_to_at(self.file, &mut window, at).map_err(JournalError::io("read a segment"))?;
            let octets = window.get(..read).unwrap_or_default();
            if let Some(last) = octets.iter().rposition(|octet| *octet != 0) {
                used = at.saturating_add(last as u64 + 1);
            }
            if read < STRIDE {
                break;
            }
            at = at.saturating_add(STRIDE as u64);
        }
        Ok(used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{
        journal::{Lsn, batch::BatchWriter},
        vfs::{Cut, Directories, FaultyVfs, Vfs, write_all_at},
    };

    const EPOCH: u64 = 7;

    fn empty_batch(epoch: u64, segment: u64, offset: u64) -> Vec<u8> {
        let at = Position { segment, offset };
        BatchWriter::new().finish(epoch, at, Lsn(1), Position::default())
    }

    fn reads(octets: &[u8]) -> bool {
        let vfs = FaultyVfs::new(1, Cut::All, Directories::Strict);
        let file = vfs.open(Path::new("/s"), crate::store::vfs::OpenMode::CreateNew).unwrap();
        write_all_at(&*file, octets, FIRST).unwrap();
        let limit = file.size().unwrap();
        BatchReader::new(&*file, 3, EPOCH, limit).next().unwrap().is_some()
    }

    #[test]
    fn a_batch_counts_only_in_its_segment_epoch_and_place() {
        assert!(reads(&empty_batch(EPOCH, 3, FIRST)));
        assert!(!reads(&empty_batch(EPOCH - 1, 3, FIRST)));
        assert!(!reads(&empty_batch(EPOCH, 2, FIRST)));
        assert!(!reads(&empty_batch(EPOCH, 3, FIRST + SECTOR)));
    }

    #[test]
    fn a_batch_that_is_cut_short_or_claims_too_much_is_none() {
        let whole = empty_batch(EPOCH, 3, FIRST);
        assert!(!reads(&whole[..BATCH_HEAD - 1]));
        let mut greedy = whole;
        greedy[44..48].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(!reads(&greedy));
    }

    #[test]
    fn only_numbers_of_eight_digits_and_more_name_segments() {
        assert_eq!(numbered("00000012.seg", ".seg"), Some(12));
        assert_eq!(numbered("123456789.seg", ".seg"), Some(123_456_789));
        for other in
            ["12.seg", "0000001x.seg", "00000012.keys", "spare-00000001.seg", "99999999999999999999999.seg"]
        {
            assert_eq!(numbered(other, ".seg"), None, "{other}");
        }
    }
}
