//! The store of the simulation: a log of atomic units, of which a crash keeps a prefix that holds at least
//! what was flushed; and the claims, which live in memory (one node) or in the shared store (two nodes).

use std::collections::BTreeMap;

use oncepoint::{
    exchange::duplicate,
    model::{MessageKey, Seen, Span, Timestamp},
};

use super::words::Prng;

pub(crate) type Tick = u64;

/// One accepted message as the log keeps it.
#[derive(Clone)]
pub(crate) struct Record {
    pub(crate) seen: Seen,
    pub(crate) receipt: u64,
    pub(crate) payload: u64,
}

/// An atomic unit of the log.
#[derive(Clone)]
pub(crate) enum Unit {
    /// Key, answer and inbox entry: the transaction.
    Accept(Record),
    /// Key and answer without inbox entry: half of a transaction that was split, or an id that was burned.
    KeyOnly(Record),
    /// An inbox entry alone.
    InboxOnly(Record),
}

#[derive(Clone, Copy)]
pub(crate) struct Claim {
    pub(crate) process: u64,
    pub(crate) epoch: u64,
    pub(crate) node: usize,
    pub(crate) since: Tick,
    pub(crate) lease_until: Tick,
}

#[derive(Default)]
pub(crate) struct Store {
    units: Vec<Unit>,
    flushed: usize,
    pub(crate) claims: BTreeMap<MessageKey, Claim>,
    /// What became durable, purged or not: what the judge of the run looks at.
    pub(crate) history: Vec<Record>,
    pub(crate) delivered: Vec<Record>,
    purged: Vec<u64>,
}

impl Store {
    /// Durable records that were not purged.
    pub(crate) fn records(&self) -> impl Iterator<Item = &Record> {
        let durable = self.units.iter().take(self.flushed);
        let keyed = durable.filter_map(|unit| match unit {
            Unit::Accept(record) | Unit::KeyOnly(record) => Some(record),
            Unit::InboxOnly(_) => None,
        });
        keyed.filter(|record| !self.purged.contains(&record.receipt))
    }

    pub(crate) fn append(&mut self, unit: Unit) {
        self.units.push(unit);
    }

    pub(crate) fn flush(&mut self) {
        self.flush_to(self.units.len());
    }

    fn flush_to(&mut self, end: usize) {
        for unit in self.units[self.flushed..end].iter().cloned() {
            match unit {
                Unit::Accept(record) => {
                    self.history.push(record.clone());
                    self.delivered.push(record);
                }
                Unit::KeyOnly(record) => self.history.push(record),
                Unit::InboxOnly(record) => self.delivered.push(record),
            }
        }
        self.flushed = end;
    }

    /// Power loss: of what was written and not flushed, some prefix survives.
    pub(crate) fn crash(&mut self, prng: &mut Prng) {
        let unflushed = (self.units.len() - self.flushed) as u64;
        let survives = usize::try_from(prng.below(unflushed + 1)).unwrap();
        self.flush_to(self.flushed + survives);
        self.units.truncate(self.flushed);
        self.claims.clear();
    }

    /// Removes what is outside its window, as the sweeper does.
    pub(crate) fn purge(&mut self, window: Span, now: Timestamp) {
        let ended: Vec<u64> = self
            .records()
            .filter(|record| !duplicate::is_live(&record.seen, window, now))
            .map(|record| record.receipt)
            .collect();
        self.purged.extend(ended);
    }

    /// Removes what is outside half its window: a mistake.
    pub(crate) fn purge_early(&mut self, window: Span, now: Timestamp) {
        let half = Span::millis(window.as_millis() / 2);
        let ended: Vec<u64> = self
            .records()
            .filter(|record| record.seen.accepted_at.plus(half) < now)
            .map(|record| record.receipt)
            .collect();
        self.purged.extend(ended);
    }
}

impl Store {
    /// Lets a record count longer: a mistake. What the judge of the run looks at keeps the truth.
    pub(crate) fn prolong(&mut self, item: oncepoint::model::ItemId, until: Timestamp) {
        for unit in &mut self.units {
            if let Unit::Accept(record) = unit
                && record.seen.item == item
            {
                record.seen.expires_at = until;
            }
        }
    }
}
