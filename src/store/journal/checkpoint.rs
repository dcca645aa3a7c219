//! `CHECKPOINT`: which segments an index generation surely holds, on the disk and not only in a cache.

use std::{collections::BTreeSet, io, path::Path};

use super::codec::{self, Reader};
use crate::store::vfs::{RealVfs, read_small, replace};

const NAME: &str = "CHECKPOINT";
const MAGIC: [u8; 8] = *b"OPCHKP01";
/// Longest such file, in octets: a million segments.
const OCTETS_MAX: usize = 8 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Checkpoint {
    pub(super) generation: u64,
    pub(super) segments: BTreeSet<u64>,
}

impl Checkpoint {
    /// `None` when there is none that can be relied on.
    pub(super) fn read(root: &Path) -> Option<Self> {
        Self::decode(&read_small(&RealVfs, &root.join(NAME), OCTETS_MAX).ok()??)
    }

    fn decode(octets: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(codec::checked(octets)?);
        if reader.array()? != MAGIC {
            return None;
        }
        let generation = reader.u64()?;
        let segments = std::iter::from_fn(|| reader.u64()).collect();
        Some(Self { generation, segments })
    }

    fn encode(&self) -> Vec<u8> {
        let mut octets = MAGIC.to_vec();
        octets.extend_from_slice(&self.generation.to_le_bytes());
        for segment in &self.segments {
            octets.extend_from_slice(&segment.to_le_bytes());
        }
        codec::seal(&mut octets, 0);
        octets
    }

    /// Durable on return.
    pub(super) fn write(&self, root: &Path) -> io::Result<()> {
        replace(&RealVfs, &root.join(NAME), &self.encode())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_back_and_a_damaged_one_does_not_count() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(Checkpoint::read(place.path()), None);
        let saved = Checkpoint { generation: 3, segments: [1, 5, 6].into() };
        saved.write(place.path()).unwrap();
        assert_eq!(Checkpoint::read(place.path()).as_ref(), Some(&saved));
        let mut octets = saved.encode();
        octets[12] ^= 1;
        assert_eq!(Checkpoint::decode(&octets), None);
    }
}
