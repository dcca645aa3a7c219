//! The log as the contract sees it: frames go in, durable ones are found again. Two backends.

use std::ops::Range;

use bytes::Bytes;

use crate::model::Timestamp;

use super::{
    StoreError,
    embedded::EmbeddedLog,
    frame::{Entry, Head, IndexKey},
    journal::{Location, PurgeBudget},
    memory::MemoryLog,
};

/// Where a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// Number in the memory log.
    Memory(usize),
    /// Place in the journal.
    Embedded(Location),
}

/// What is called once the frames of one append are durable, or are not: by the thread that knows first.
pub(crate) type Done = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// Whether a frame outlives a purge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It does.
    Live,
    /// It may go.
    Expired,
}

/// What a purge did to the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Purged {
    pub segments: u64,
    pub octets: u64,
    pub dropped: u64,
    pub forwarded: u64,
    pub left: u64,
}

/// A frame as verification meets it.
#[derive(Debug)]
pub(crate) struct Met<'a> {
    pub head: &'a Head,
    pub body: &'a [u8],
    pub expires_at: Timestamp,
}

/// The log.
#[derive(Debug)]
pub(crate) enum Log {
    Memory(MemoryLog),
    Embedded(Box<EmbeddedLog>),
}

impl Log {
    /// Appends frames as one unit: after a crash all of them are there or none. `done` hears of it from the
    /// thread that knows first, so it must be quick, and the caller must hold no lock that it takes.
    pub(crate) fn append(&self, entries: Vec<Entry>, done: Done) {
        match self {
            Self::Memory(log) => log.append(entries, done),
            Self::Embedded(log) => log.append(entries, done),
        }
    }

    /// Appends frames that nobody waits for.
    pub(crate) fn append_relaxed(&self, entries: Vec<Entry>) {
        match self {
            Self::Memory(log) => log.append(entries, Box::new(|_| {})),
            Self::Embedded(log) => log.append_relaxed(entries),
        }
    }

    /// The durable frames that may have this key, in the order of appending: never one too few. A frame may be
    /// named twice, and a key is shared by chance: compare with the head.
    pub(crate) fn heads(&self, key: &IndexKey) -> Result<Vec<(Place, Head)>, StoreError> {
        match self {
            Self::Memory(log) => log.heads(key),
            Self::Embedded(log) => log.heads(key),
        }
    }

    /// Reads some bytes of a body. What they should be is checked by whoever knows (SHA-256).
    pub(crate) fn body(&self, place: Place, range: Range<u64>) -> Result<Bytes, StoreError> {
        match (self, place) {
            (Self::Memory(log), Place::Memory(number)) => log.body(number, range),
            (Self::Embedded(log), Place::Embedded(at)) => log.body(at, range),
            _ => Err(StoreError::Damaged("a place of another log".to_owned())),
        }
    }

    /// Up to `max` ids that are keys of a prefix, after `after`, ascending; and whether there may be more.
    pub(crate) fn range(
        &self,
        prefix: u8,
        after: Option<[u8; 16]>,
        max: usize,
    ) -> Result<(Vec<[u8; 16]>, More), StoreError> {
        match self {
            Self::Memory(log) => Ok(log.range(prefix, after, max)),
            Self::Embedded(log) => log.range(prefix, after, max),
        }
    }

    /// Removes frames that `judge` gives up, within the budget.
    pub(crate) fn purge(
        &self,
        now: Timestamp,
        budget: PurgeBudget,
        judge: &dyn Fn(&Head, Place) -> Verdict,
    ) -> Result<Purged, StoreError> {
        match self {
            Self::Memory(log) => log.purge(budget, judge),
            Self::Embedded(log) => log.purge(now, budget, judge),
        }
    }

    /// Shows every frame that can be read, oldest first, and returns what cannot.
    pub(crate) fn verify(&self, each: &mut dyn FnMut(&Met<'_>)) -> Result<Vec<String>, StoreError> {
        match self {
            Self::Memory(log) => log.verify(each),
            Self::Embedded(log) => log.verify(each),
        }
    }

    /// Whether new messages are taken.
    pub(crate) fn accepting(&self) -> Result<(), StoreError> {
        match self {
            Self::Memory(log) => log.fault().map_or(Ok(()), Err),
            Self::Embedded(log) => log.accepting(),
        }
    }
}

/// Whether a range goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum More {
    /// It ended.
    None,
    /// It may go on.
    Perhaps,
}
