//! A batch: what one sync makes durable.
//!
//! ```text
//! "OPB1" · version u32 · epoch u64 · segment u64 · offset u64 · first LSN u64 · frames u32 · length u32
//! synced up to: segment u64, offset u64 · CRC32C of all before and of the frames                    (68)
//! frames · zeros to the next sector
//! ```
//!
//! A batch starts on a sector of its own, so that no write touches a sector that holds something durable. It
//! names its place and its epoch, so that octets that lie elsewhere or are older are never taken for it. Half of
//! the epoch is random, so that nobody can send a payload that passes for a batch.

use super::{
    Frame, FrameRef, Location, Lsn, Origin,
    codec::Reader,
    frame::{Decoded, FRAME_MIN},
};

/// What batches and headers are aligned to, in octets.
pub(super) const SECTOR: u64 = SECTOR_OCTETS as u64;
pub(super) const SECTOR_OCTETS: usize = 512;
/// Head of a batch, in octets.
pub(super) const BATCH_HEAD: usize = 68;
/// Checksum at its end.
const CRC: usize = 4;
pub(super) const BATCH_MAGIC: [u8; 4] = *b"OPB1";
const VERSION: u32 = 1;

/// A place in the journal; later ones are greater.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Position {
    pub(super) segment: u64,
    pub(super) offset: u64,
}

/// The next sector at or after `offset`.
pub(super) fn to_sector(offset: u64) -> u64 {
    offset.next_multiple_of(SECTOR)
}

/// What a batch says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BatchHead {
    pub(super) epoch: u64,
    pub(super) at: Position,
    pub(super) first_lsn: Lsn,
    pub(super) frames: u32,
    pub(super) length: u32,
    /// Known to be durable when it was written.
    pub(super) synced: Position,
}

impl BatchHead {
    /// Length of the batch without the padding, in octets.
    pub(super) fn whole(&self) -> u64 {
        BATCH_HEAD as u64 + u64::from(self.length)
    }

    /// Reads the fields, without knowing yet whether the checksum fits.
    pub(super) fn decode(octets: &[u8]) -> Option<(Self, u32)> {
        let mut reader = Reader::new(octets);
        if reader.array()? != BATCH_MAGIC || reader.u32()? != VERSION {
            return None;
        }
        let head = Self {
            epoch: reader.u64()?,
            at: Position { segment: reader.u64()?, offset: reader.u64()? },
            first_lsn: Lsn(reader.u64()?),
            frames: reader.u32()?,
            length: reader.u32()?,
            synced: Position { segment: reader.u64()?, offset: reader.u64()? },
        };
        Some((head, reader.u32()?))
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(BATCH_HEAD);
        out.extend_from_slice(&BATCH_MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        for number in [self.epoch, self.at.segment, self.at.offset, self.first_lsn.0] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.frames.to_le_bytes());
        out.extend_from_slice(&self.length.to_le_bytes());
        out.extend_from_slice(&self.synced.segment.to_le_bytes());
        out.extend_from_slice(&self.synced.offset.to_le_bytes());
        out
    }
}

/// Does the checksum of a head fit it and the frames that follow?
pub(super) fn fits(head: &[u8], frames: &[u8], sum: u32) -> bool {
    let covered = head.get(..BATCH_HEAD - CRC).unwrap_or_default();
    crc32c::crc32c_append(crc32c::crc32c(covered), frames) == sum
}

/// A batch being put together.
#[derive(Debug)]
pub(super) struct BatchWriter {
    octets: Vec<u8>,
    frames: u32,
}

impl BatchWriter {
    pub(super) fn new() -> Self {
        Self { octets: vec![0; BATCH_HEAD], frames: 0 }
    }

    /// Adds a frame and says where in the batch it lies: offset and length.
    pub(super) fn push(&mut self, frame: &Frame, lsn: Lsn, origin: Origin) -> (u32, u32) {
        let start = self.octets.len();
        frame.encode(lsn, origin, &mut self.octets);
        self.frames = self.frames.saturating_add(1);
        let size = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        (size(start), size(self.octets.len() - start))
    }

    /// Octets on the disk, padding included.
    pub(super) fn octets_on_disk(&self) -> u64 {
        to_sector(self.octets.len() as u64)
    }

    /// A batch without frames that covers so many octets on the disk, whole sectors.
    pub(super) fn cover(octets: usize) -> Self {
        Self { octets: vec![0; octets.max(BATCH_HEAD)], frames: 0 }
    }

    /// Completes the head and pads.
    pub(super) fn finish(self, epoch: u64, at: Position, first_lsn: Lsn, synced: Position) -> Vec<u8> {
        let Self { mut octets, frames } = self;
        let length = u32::try_from(octets.len() - BATCH_HEAD).unwrap_or(u32::MAX);
        let mut head = BatchHead { epoch, at, first_lsn, frames, length, synced }.encode();
        let contents = octets.get(BATCH_HEAD..).unwrap_or_default();
        let sum = crc32c::crc32c_append(crc32c::crc32c(&head), contents);
        head.extend_from_slice(&sum.to_le_bytes());
        if let Some(place) = octets.get_mut(..BATCH_HEAD) {
            place.copy_from_slice(&head);
        }
        octets.resize(usize::try_from(to_sector(octets.len() as u64)).unwrap_or(octets.len()), 0);
        octets
    }
}

/// An undamaged batch that was read.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) head: BatchHead,
    /// The frames, one after the other.
    pub(super) octets: Vec<u8>,
}

impl Batch {
    /// The frames and their places; a frame that does not decode ends the walk with `false`. A batch without
    /// frames may be of any length: a repair covers damage with one.
    pub(super) fn for_each(&self, on: &mut dyn FnMut(&FrameRef<'_>, Location)) -> bool {
        let mut rest = self.octets.as_slice();
        let mut offset = self.head.at.offset.saturating_add(BATCH_HEAD as u64);
        for _ in 0..self.head.frames {
            let Some((octets, after)) = split_frame(rest) else { return false };
            let Some(Decoded::Whole(frame)) = FrameRef::decode(octets) else { return false };
            let (Ok(place), Ok(length)) = (u32::try_from(offset), u32::try_from(octets.len())) else {
                return false;
            };
            on(&frame, Location { segment: self.head.at.segment, offset: place, length });
            offset = offset.saturating_add(octets.len() as u64);
            rest = after;
        }
        rest.is_empty() || self.head.frames == 0
    }
}

/// Splits the first frame off, by the length that it names.
pub(super) fn split_frame(octets: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = Reader::new(octets).size()?;
    if length < FRAME_MIN { None } else { octets.split_at_checked(length) }
}
