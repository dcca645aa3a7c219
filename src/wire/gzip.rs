//! gzip in bounded memory (RFC 1952).
//!
//! Output is handed out as it is made, so it must be kept apart until [`Inflater::finish`] agreed: a wrong
//! checksum shows only at the end. Memory does not depend on the stream: one window, one output buffer.

use flate2::{Decompress, FlushDecompress, Status};

/// Most output per octet of input once the ratio counts (`as4-wire` §10.6).
pub const RATIO_MAX: u64 = 200;
/// The ratio counts when there is more output than this, in bytes.
pub const RATIO_FROM: u64 = 1024 * 1024;
/// Most members of one stream: twice what 4 GiB in blocks of 64 KiB need. Each costs a fresh window.
pub const MEMBERS_MAX: usize = 128 * 1024;

/// Size of the output buffer, in bytes.
const BUFFER_BYTES: usize = 64 * 1024;
/// Base-2 logarithm of deflate's largest window.
const WINDOW_BITS: u8 = 15;
/// The first octet of a member.
const MAGIC: u8 = 0x1F;

/// What a stream may grow to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GzipLimits {
    /// Most output, in bytes.
    pub output_max: u64,
    /// Most output per octet of input.
    pub ratio_max: u64,
    /// The ratio counts when there is more output than this, in bytes.
    pub ratio_from: u64,
}

impl GzipLimits {
    /// So much output, at the usual ratio.
    #[must_use]
    pub const fn new(output_max: u64) -> Self {
        Self { output_max, ratio_max: RATIO_MAX, ratio_from: RATIO_FROM }
    }
}

/// Why a stream is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GzipError {
    /// Not gzip, or damaged: a wrong checksum or length is damage too.
    #[error("not a sound gzip stream")]
    Damaged,
    /// The stream ends inside a member, or is empty.
    #[error("the gzip stream is cut off")]
    Truncated,
    /// Behind a member stands something that is no member.
    #[error("octets that are not gzip behind the gzip stream")]
    TrailingGarbage,
    /// More output than allowed, in bytes.
    #[error("decompresses to more than {0} bytes")]
    TooLarge(u64),
    /// Output grows faster than allowed.
    #[error("decompresses to more than {0} times its size")]
    Ratio(u64),
    /// More members than [`MEMBERS_MAX`].
    #[error("more than {0} gzip members")]
    TooManyMembers(usize),
}

/// Undoes gzip, fed in pieces of any size. After an error nothing makes the stream sound again.
#[derive(Debug)]
pub struct Inflater {
    limits: GzipLimits,
    members_max: usize,
    member: Option<Decompress>,
    members: usize,
    taken: u64,
    given: u64,
    buffer: Vec<u8>,
    failed: bool,
}

impl Inflater {
    /// A reader that is held to `limits`.
    #[must_use]
    pub fn new(limits: GzipLimits) -> Self {
        let buffer = vec![0; BUFFER_BYTES];
        Self {
            limits,
            members_max: MEMBERS_MAX,
            member: None,
            members: 0,
            taken: 0,
            given: 0,
            buffer,
            failed: false,
        }
    }

    /// Takes the next piece and hands out what it decompresses to.
    ///
    /// # Errors
    /// When the stream is no sound gzip or beyond a limit, or `out` fails.
    pub fn feed<E: From<GzipError>>(
        &mut self,
        bytes: &[u8],
        out: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.failed {
            return Err(GzipError::Damaged.into());
        }
        let result = self.take(bytes, out);
        self.failed = result.is_err();
        result
    }

    fn take<E: From<GzipError>>(
        &mut self,
        bytes: &[u8],
        out: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rest = bytes;
        while let Some(first) = rest.first() {
            let mut member = match self.member.take() {
                Some(member) => member,
                None => self.begin(*first)?,
            };
            let (consumed, ended) = self.inflate(&mut member, rest, out)?;
            rest = rest.get(consumed..).unwrap_or_default();
            self.member = (!ended).then_some(member);
        }
        Ok(())
    }

    /// Ends the stream.
    ///
    /// # Errors
    /// [`GzipError::Truncated`] when a member has not ended or none began; [`GzipError::Damaged`] when a
    /// piece was refused before.
    pub fn finish(self) -> Result<(), GzipError> {
        if self.failed {
            return Err(GzipError::Damaged);
        }
        if self.member.is_none() && self.members > 0 { Ok(()) } else { Err(GzipError::Truncated) }
    }

    fn begin(&mut self, first: u8) -> Result<Decompress, GzipError> {
        if self.members > 0 && first != MAGIC {
            return Err(GzipError::TrailingGarbage);
        }
        if self.members == self.members_max {
            return Err(GzipError::TooManyMembers(self.members_max));
        }
        self.members += 1;
        Ok(Decompress::new_gzip(WINDOW_BITS))
    }

    /// Inflates until `input` is used up or the member ends: how much was used, and whether it ended.
    fn inflate<E: From<GzipError>>(
        &mut self,
        member: &mut Decompress,
        input: &[u8],
        out: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(usize, bool), E> {
        let mut rest = input;
        loop {
            let (taken, given) = (member.total_in(), member.total_out());
            let status = member.decompress(rest, &mut self.buffer, FlushDecompress::None);
            let status = status.map_err(|_| GzipError::Damaged)?;
            let (taken, given) = (member.total_in() - taken, member.total_out() - given);
            self.count(taken, given)?;
            rest = usize::try_from(taken).ok().and_then(|n| rest.get(n..)).unwrap_or_default();
            let produced = usize::try_from(given).ok().and_then(|n| self.buffer.get(..n)).unwrap_or_default();
            if !produced.is_empty() {
                out(produced)?;
            }
            let ended = status == Status::StreamEnd;
            // A full buffer may hide more output even when the input is used up.
            if ended || (rest.is_empty() && produced.len() < BUFFER_BYTES) {
                return Ok((input.len() - rest.len(), ended));
            }
            if taken == 0 && given == 0 {
                return Err(GzipError::Damaged.into());
            }
        }
    }

    fn count(&mut self, taken: u64, given: u64) -> Result<(), GzipError> {
        self.taken += taken;
        self.given += given;
        if self.given > self.limits.output_max {
            return Err(GzipError::TooLarge(self.limits.output_max));
        }
        let allowed = self.taken.saturating_mul(self.limits.ratio_max);
        if self.given > self.limits.ratio_from && self.given > allowed {
            return Err(GzipError::Ratio(self.limits.ratio_max));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::{Compression, GzBuilder, write::GzEncoder};
    use proptest::prelude::*;

    use super::*;

    const LIMITS: GzipLimits = GzipLimits::new(64 * 1024 * 1024);

    fn gzip(plain: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    }

    fn inflate(mut inflater: Inflater, stream: &[u8], piece: usize) -> Result<Vec<u8>, GzipError> {
        let mut plain = Vec::new();
        for chunk in stream.chunks(piece) {
            inflater.feed::<GzipError>(chunk, &mut |bytes| {
                plain.extend_from_slice(bytes);
                Ok(())
            })?;
        }
        inflater.finish().map(|()| plain)
    }

    fn check(stream: &[u8], expected: &Result<Vec<u8>, GzipError>) {
        for piece in [1, 2, 7, 4096, usize::MAX] {
            let got = inflate(Inflater::new(LIMITS), stream, piece);
            assert!(&got == expected, "in pieces of {piece}: {:?}", got.map(|plain| plain.len()));
        }
    }

    /// Octets that do not compress, made without randomness.
    fn noise(bytes: usize) -> Vec<u8> {
        let mut state = 0x9E37_79B9_u32;
        let next = || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state.to_le_bytes()[1]
        };
        std::iter::repeat_with(next).take(bytes).collect()
    }

    #[test]
    fn members_follow_each_other() {
        check(&gzip(b"one"), &Ok(b"one".to_vec()));
        check(&[gzip(b"one"), gzip(b""), gzip(b"Point")].concat(), &Ok(b"onePoint".to_vec()));
        let large = noise(300_000);
        check(&gzip(&large), &Ok(large));
    }

    #[test]
    fn every_optional_header_field_is_skipped() {
        let mut encoder = GzBuilder::new()
            .filename("invoice.xml")
            .comment("a comment")
            .extra([7; 300])
            .mtime(1)
            .write(Vec::new(), Compression::best());
        encoder.write_all(b"x").unwrap();
        check(&encoder.finish().unwrap(), &Ok(b"x".to_vec()));
    }

    #[test]
    fn what_is_cut_off_is_refused_at_every_length() {
        let stream = gzip(b"onePoint onePoint");
        for length in 0..stream.len() {
            check(&stream[..length], &Err(GzipError::Truncated));
        }
        let half = [stream.clone(), stream[..stream.len() / 2].to_vec()].concat();
        check(&half, &Err(GzipError::Truncated));
    }

    #[test]
    fn any_damage_is_refused() {
        let stream = gzip(b"onePoint onePoint");
        for at in 0..stream.len() {
            // MTIME, XFL and OS mean nothing to the content.
            if (4..10).contains(&at) {
                continue;
            }
            let mut damaged = stream.clone();
            damaged[at] ^= 0x40;
            for piece in [1, usize::MAX] {
                let result = inflate(Inflater::new(LIMITS), &damaged, piece);
                assert!(result.is_err(), "octet {at}");
            }
        }
        check(b"<Invoice/>", &Err(GzipError::Damaged));
    }

    #[test]
    fn anything_behind_the_stream_is_refused() {
        for garbage in [&b"\0"[..], b"\n", b"garbage"] {
            check(&[&gzip(b"x"), garbage].concat(), &Err(GzipError::TrailingGarbage));
        }
        check(&[&gzip(b"x"), &b"\x1F\x8Bgarbage"[..]].concat(), &Err(GzipError::Damaged));
    }

    #[test]
    fn output_fits_at_the_limit_and_not_beyond() {
        let plain = noise(200_000);
        let limited = |output_max| Inflater::new(GzipLimits { output_max, ..LIMITS });
        for piece in [1, 4096, usize::MAX] {
            assert!(inflate(limited(200_000), &gzip(&plain), piece).as_ref() == Ok(&plain));
            let beyond = inflate(limited(199_999), &gzip(&plain), piece).map(|plain| plain.len());
            assert_eq!(beyond, Err(GzipError::TooLarge(199_999)));
        }
    }

    #[test]
    fn the_ratio_counts_from_its_threshold_on() {
        let zeros = vec![0; 1024 * 1024];
        let stream = gzip(&zeros);
        assert!(inflate(Inflater::new(LIMITS), &stream, 1) == Ok(zeros));
        let beyond = gzip(&vec![0; 1024 * 1024 + 1]);
        check(&beyond, &Err(GzipError::Ratio(RATIO_MAX)));
    }

    #[test]
    fn the_ratio_fits_at_the_limit_and_not_beyond() {
        let mut inflater = Inflater::new(LIMITS);
        assert_eq!(inflater.count(10_000, 10_000 * RATIO_MAX), Ok(()));
        assert_eq!(inflater.count(0, 1), Err(GzipError::Ratio(RATIO_MAX)));
    }

    #[test]
    fn a_refused_stream_stays_refused() {
        let mut inflater = Inflater::new(LIMITS);
        assert!(inflater.feed::<GzipError>(b"no gzip", &mut |_| Ok(())).is_err());
        assert_eq!(inflater.feed::<GzipError>(b"", &mut |_| Ok(())), Err(GzipError::Damaged));
        assert_eq!(inflater.finish(), Err(GzipError::Damaged));
    }

    #[test]
    fn members_fit_at_the_limit_and_not_beyond() {
        let limited = || Inflater { members_max: 3, ..Inflater::new(LIMITS) };
        assert_eq!(inflate(limited(), &gzip(b"x").repeat(3), 5), Ok(b"xxx".to_vec()));
        assert_eq!(inflate(limited(), &gzip(b"x").repeat(4), 5), Err(GzipError::TooManyMembers(3)));
    }

    proptest! {
        #[test]
        fn anything_comes_back(plain in prop::collection::vec(any::<u8>(), 0..5000), piece in 1..600_usize) {
            prop_assert_eq!(inflate(Inflater::new(LIMITS), &gzip(&plain), piece), Ok(plain));
        }

        #[test]
        fn soup_is_never_taken_for_gzip(soup in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(inflate(Inflater::new(LIMITS), &soup, 3).is_err());
        }
    }
}
