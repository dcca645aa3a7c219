//! `journal/PURGED`: which segments were removed on purpose, so that one that is missing is noticed.

use std::{collections::BTreeSet, path::Path};

use super::{
    JournalError,
    codec::{self, Reader},
};
use crate::store::vfs::{Vfs, read_small, replace};

const NAME: &str = "PURGED";
const MAGIC: [u8; 8] = *b"OPGONE01";
/// Longest such file, in octets: half a million gaps.
const OCTETS_MAX: usize = 8 << 20;

/// Ranges of numbers of removed segments, each from and to, inclusive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Purged(Vec<(u64, u64)>);

impl Purged {
    pub(super) fn read(vfs: &dyn Vfs, dir: &Path) -> Result<Self, JournalError> {
        let found = match read_small(vfs, &dir.join(NAME), OCTETS_MAX) {
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => Some(Vec::new()),
            read => read.map_err(JournalError::io("read PURGED"))?,
        };
        match found {
            None => Ok(Self::default()),
            Some(octets) => Self::decode(&octets).ok_or(JournalError::FileDamaged { file: "journal/PURGED" }),
        }
    }

    fn decode(octets: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(codec::checked(octets)?);
        if reader.array()? != MAGIC {
            return None;
        }
        let mut ranges = Vec::new();
        while let Some(from) = reader.u64() {
            ranges.push((from, reader.u64()?));
        }
        Some(Self(ranges))
    }

    /// Durable on return.
    pub(super) fn write(&self, vfs: &dyn Vfs, dir: &Path) -> std::io::Result<()> {
        let mut octets = MAGIC.to_vec();
        for (from, to) in &self.0 {
            octets.extend_from_slice(&from.to_le_bytes());
            octets.extend_from_slice(&to.to_le_bytes());
        }
        codec::seal(&mut octets, 0);
        replace(vfs, &dir.join(NAME), &octets)
    }

    pub(super) fn has(&self, number: u64) -> bool {
        self.0.iter().any(|(from, to)| (from..=to).contains(&&number))
    }

    /// Adds one, joining ranges.
    pub(super) fn add(&mut self, number: u64) {
        let all: BTreeSet<(u64, u64)> = self.0.drain(..).chain([(number, number)]).collect();
        for (from, to) in all {
            match self.0.last_mut() {
                Some((_, end)) if from <= end.saturating_add(1) => *end = to.max(*end),
                _ => self.0.push((from, to)),
            }
        }
    }

    /// The first number from 1 up to `last` that is neither in `there` nor purged.
    pub(super) fn first_missing(&self, there: &BTreeSet<u64>, last: u64) -> Option<u64> {
        let mut expected = 1;
        let present = there.iter().map(|number| (*number, *number));
        let all: BTreeSet<(u64, u64)> = self.0.iter().copied().chain(present).collect();
        for (from, to) in all {
            if from > expected {
                break;
            }
            expected = expected.max(to.saturating_add(1));
        }
        (expected <= last).then_some(expected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::vfs::{Cut, Directories, FaultyVfs};

    #[test]
    fn ranges_join_and_come_back_from_the_disk() {
        let vfs = FaultyVfs::new(1, Cut::All, Directories::Strict);
        let dir = Path::new("/d");
        let mut purged = Purged::read(&vfs, dir).unwrap();
        for number in [5, 1, 2, 9, 3, 4, 1] {
            purged.add(number);
        }
        assert_eq!(purged, Purged(vec![(1, 5), (9, 9)]));
        purged.write(&vfs, dir).unwrap();
        let vfs = vfs.reboot();
        assert_eq!(Purged::read(&vfs, dir).unwrap(), purged);
        assert!(purged.has(5) && !purged.has(6));
        let mut octets = vfs.contents(&dir.join(NAME)).unwrap();
        octets[9] ^= 1;
        vfs.put(&dir.join(NAME), &octets);
        assert!(matches!(Purged::read(&vfs, dir), Err(JournalError::FileDamaged { .. })));
    }

    #[test]
    fn a_segment_that_is_neither_there_nor_purged_is_missing() {
        let purged = Purged(vec![(1, 2), (4, 4)]);
        let there = |numbers: &[u64]| numbers.iter().copied().collect::<BTreeSet<_>>();
        assert_eq!(purged.first_missing(&there(&[3, 5]), 5), None);
        assert_eq!(purged.first_missing(&there(&[5]), 5), Some(3));
        assert_eq!(purged.first_missing(&there(&[3]), 5), Some(5));
        assert_eq!(Purged::default().first_missing(&there(&[]), 0), None);
        assert_eq!(Purged::default().first_missing(&there(&[2]), 2), Some(1));
    }
}
