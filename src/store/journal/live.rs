//! The keys of a segment that has no sidecar yet, in memory.

use std::{
    collections::BTreeMap,
    sync::{
        OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU64, Ordering},
    },
};

use super::{Expiry, FrameRef, Key, Location, Lsn};
use crate::model::Timestamp;

/// A place within a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Spot {
    pub(super) offset: u32,
    pub(super) length: u32,
}

impl Spot {
    pub(super) fn within(self, segment: u64) -> Location {
        Location { segment, offset: self.offset, length: self.length }
    }
}

/// What is known of a segment's frames without reading them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) frames: u64,
    pub(super) oldest: Option<Timestamp>,
    pub(super) newest: Option<Timestamp>,
    /// When the last frame that expires at all does.
    pub(super) newest_expiry: Option<Timestamp>,
    pub(super) last_lsn: u64,
}

impl Summary {
    pub(super) fn add(&mut self, lsn: Lsn, received_at: Timestamp, expires: Expiry) {
        self.frames += 1;
        self.oldest = Some(self.oldest.map_or(received_at, |oldest| oldest.min(received_at)));
        self.newest = self.newest.max(Some(received_at));
        if let Expiry::At(at) = expires {
            self.newest_expiry = self.newest_expiry.max(Some(at));
        }
        self.last_lsn = self.last_lsn.max(lsn.0);
    }
}

/// Keys in their order, each with its places.
pub(super) type KeyMap = BTreeMap<Key, Vec<Spot>>;

#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) keys: KeyMap,
    pub(super) summary: Summary,
}

impl Contents {
    pub(super) fn add(&mut self, frame: &FrameRef<'_>, at: Location) {
        self.summary.add(frame.lsn, frame.received_at, frame.expires);
        self.add_keys(frame.keys(), Spot { offset: at.offset, length: at.length });
    }

    pub(super) fn add_keys(&mut self, keys: impl Iterator<Item = Key>, spot: Spot) {
        for key in keys {
            let spots = self.keys.entry(key).or_default();
            if spots.last() != Some(&spot) {
                spots.push(spot);
            }
        }
    }
}

/// A segment that has no sidecar yet: the open one, or one that waits to be sealed.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) number: u64,
    pub(super) epoch: u64,
    contents: RwLock<Contents>,
    /// End of what is committed.
    committed: AtomicU64,
    /// Set when nothing more will be written.
    closed: OnceLock<u64>,
}

impl Live {
    pub(super) fn new(number: u64, epoch: u64, contents: Contents, committed: u64) -> Self {
        Self {
            number,
            epoch,
            contents: RwLock::new(contents),
            committed: AtomicU64::new(committed),
            closed: OnceLock::new(),
        }
    }

    pub(super) fn contents(&self) -> RwLockReadGuard<'_, Contents> {
        self.contents.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn contents_mut(&self) -> RwLockWriteGuard<'_, Contents> {
        self.contents.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn commit_to(&self, end: u64) {
        self.committed.store(end, Ordering::Release);
    }

    pub(super) fn close(&self) {
        let _ = self.closed.set(self.committed());
    }

    /// Where the committed frames end, in octets.
    pub(super) fn committed(&self) -> u64 {
        self.committed.load(Ordering::Acquire)
    }

    /// Its final end, once it is closed.
    pub(super) fn closed(&self) -> Option<u64> {
        self.closed.get().copied()
    }
}
