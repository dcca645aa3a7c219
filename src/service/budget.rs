//! How many bytes of bodies may be in memory, over all connections (`memory_budget`).

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// The budget. Clones share it.
#[derive(Debug, Clone)]
pub struct Budget(Arc<AtomicUsize>);

impl Budget {
    /// A budget of so many bytes.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(bytes)))
    }

    /// A grant of nothing, to be grown.
    #[must_use]
    pub fn grant(&self) -> Grant {
        Grant { budget: self.clone(), bytes: 0 }
    }

    /// Bytes that are not granted.
    #[must_use]
    pub fn left(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }

    fn take(&self, bytes: usize) -> bool {
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(bytes)).is_ok()
    }
}

/// Bytes that somebody may keep in memory; they go back when this is dropped.
#[derive(Debug)]
pub struct Grant {
    budget: Budget,
    bytes: usize,
}

/// Whether a grant could be grown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grown {
    /// The bytes may be kept.
    Yes,
    /// They may not: they go to a file.
    No,
}

impl Grant {
    /// Asks for more.
    pub fn grow(&mut self, bytes: usize) -> Grown {
        if !self.budget.take(bytes) {
            return Grown::No;
        }
        self.bytes = self.bytes.saturating_add(bytes);
        Grown::Yes
    }

    /// Gives everything back.
    pub fn release(&mut self) {
        self.budget.0.fetch_add(std::mem::take(&mut self.bytes), Ordering::AcqRel);
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_gives_what_it_has_and_not_a_byte_more() {
        let budget = Budget::new(10);
        let (mut one, mut other) = (budget.grant(), budget.grant());
        assert_eq!((one.grow(4), other.grow(6)), (Grown::Yes, Grown::Yes));
        assert_eq!(one.grow(1), Grown::No);
        drop(other);
        assert_eq!(budget.left(), 6);
        assert_eq!(one.grow(6), Grown::Yes);
        one.release();
        assert_eq!(budget.left(), 10);
    }
}
