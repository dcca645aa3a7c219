//! Bytes of one part on their way, in memory while the budget lasts, else in a file without a name.

use std::io::{self, Read, Write as _};

use crate::{
    service::budget::{Budget, Grant, Grown},
    store::{Spool, SpoolReader, Store},
};

/// Most bytes of one part in memory.
pub(super) const HELD_BYTES_MAX: usize = 256 * 1024;

/// Bytes that are written once and read once.
#[derive(Debug)]
pub(super) struct Held {
    spool: Spool,
    grant: Grant,
    spilled: bool,
}

impl Held {
    pub(super) fn new(store: &Store, budget: &Budget) -> Self {
        Self { spool: store.spool(HELD_BYTES_MAX), grant: budget.grant(), spilled: false }
    }

    /// How much was written, in bytes.
    pub(super) const fn size(&self) -> u64 {
        self.spool.size()
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let fits = self.spool.in_memory().saturating_add(bytes.len()) <= HELD_BYTES_MAX;
        if !self.spilled && (!fits || self.grant.grow(bytes.len()) == Grown::No) {
            self.spool.spill()?;
            self.grant.release();
            self.spilled = true;
        }
        self.spool.write_all(bytes)
    }

    pub(super) fn into_reader(self) -> HeldReader {
        HeldReader { spool: self.spool.into_reader(), _grant: self.grant }
    }
}

/// Reads what was held; its share of the budget goes back when this is dropped.
#[derive(Debug)]
pub(super) struct HeldReader {
    spool: SpoolReader,
    _grant: Grant,
}

impl Read for HeldReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.spool.read(into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(held: Held) -> Vec<u8> {
        let mut bytes = Vec::new();
        held.into_reader().read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_part_takes_its_share_of_the_budget_and_gives_it_back() {
        let (store, budget) = (Store::memory(), Budget::new(HELD_BYTES_MAX));
        let mut held = Held::new(&store, &budget);
        held.write(&[7; 1000]).unwrap();
        assert_eq!(budget.left(), HELD_BYTES_MAX - 1000);
        held.write(&[7; HELD_BYTES_MAX - 1000]).unwrap();
        assert_eq!(budget.left(), 0);
        held.write(&[7]).unwrap();
        assert_eq!(budget.left(), HELD_BYTES_MAX, "one byte beyond the limit and all of it goes to a file");
        assert_eq!(content(held), vec![7; HELD_BYTES_MAX + 1]);
    }

    #[test]
    fn without_budget_a_part_goes_to_a_file_at_once() {
        let (store, budget) = (Store::memory(), Budget::new(9));
        let mut held = Held::new(&store, &budget);
        held.write(b"0123456789").unwrap();
        assert_eq!(budget.left(), 9);
        assert_eq!(content(held), b"0123456789");
    }
}
