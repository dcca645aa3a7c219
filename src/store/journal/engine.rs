//! The journal as its users see it. (First version: frames in memory, so that users can build against it.)

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::{
    Committed, Failure, Frame, FrameRef, Health, IndexState, JournalError, JournalOptions, Keep, Key,
    Location, Lsn, PurgeBudget, PurgeStats, Recovery, StoredFrame, Ticket, VerifyReport,
    frame::{Decoded, Origin},
    ticket::Once,
};
use crate::{model::Timestamp, store::vfs::Vfs};

#[derive(Debug, Default)]
struct Held {
    octets: Vec<u8>,
    keys: BTreeMap<Key, Vec<Location>>,
    lsn: u64,
}

/// The append-only journal. All methods may be called from any thread.
#[derive(Debug)]
pub struct Journal {
    held: Mutex<Held>,
    failure: Arc<Once<JournalError>>,
}

impl Journal {
    /// Opens or makes the journal in `dir`, recovers, and gives every frame that had to be scanned (those since
    /// the last seal) to `replay`; what lies in sealed segments is found by [`Journal::for_each_key`] and
    /// [`Journal::scan`].
    ///
    /// # Errors
    /// When the directory is in use, damaged (storage §3.3 I4), of a newer format, or the disk fails.
    pub fn open(
        _vfs: Arc<dyn Vfs>,
        _dir: &Path,
        _options: JournalOptions,
        _replay: &mut dyn FnMut(&FrameRef<'_>, Location),
    ) -> Result<(Self, Recovery), JournalError> {
        Ok((Self { held: Mutex::default(), failure: Once::new() }, Recovery::default()))
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues frames as one atomic unit: after a crash all are there or none.
    pub fn append(&self, frames: Vec<Frame>) -> Ticket {
        let mut held = self.held();
        let mut locations = Vec::new();
        for frame in &frames {
            held.lsn += 1;
            let lsn = Lsn(held.lsn);
            let offset = u32::try_from(held.octets.len()).unwrap_or(u32::MAX);
            frame.encode(lsn, Origin::Appended, &mut held.octets);
            let length = u32::try_from(frame.encoded_len()).unwrap_or(u32::MAX);
            let location = Location { segment: 1, offset, length };
            for key in &frame.keys {
                held.keys.entry(*key).or_default().push(location);
            }
            locations.push(location);
        }
        let once = Once::new();
        once.set(Ok(Committed { locations }));
        Ticket(once)
    }

    /// Queues frames that nobody waits for; durable with the next batch.
    ///
    /// # Errors
    /// When they were not queued: failed, closed, full, or too much waits.
    pub fn append_relaxed(&self, frames: Vec<Frame>) -> Result<(), JournalError> {
        drop(self.append(frames));
        Ok(())
    }

    /// Reads a frame, all of it checked.
    ///
    /// # Errors
    /// [`JournalError::BodyDamaged`] when only the head can be read ([`Journal::read_head`]),
    /// [`JournalError::Gone`] when it was purged meanwhile, [`JournalError::Damaged`] otherwise.
    pub fn read(&self, at: Location) -> Result<StoredFrame, JournalError> {
        let held = self.held();
        let octets = bytes::Bytes::copy_from_slice(
            held.octets.get(at.offset as usize..(at.offset + at.length) as usize).unwrap_or_default(),
        );
        match FrameRef::decode(&octets) {
            Some(Decoded::Whole(frame)) => Ok(StoredFrame::from_parts(&octets, &frame)),
            _ => Err(JournalError::Damaged { segment: 1, offset: at.offset.into(), what: "frame" }),
        }
    }

    /// Reads a frame without its body, which may be damaged (storage §3.3 I2).
    ///
    /// # Errors
    /// [`JournalError::Gone`] when it was purged meanwhile, [`JournalError::Damaged`] when the head is.
    pub fn read_head(&self, at: Location) -> Result<StoredFrame, JournalError> {
        self.read(at)
    }

    /// Every place where a frame with this key lies: never one too few; the same frame may be named twice
    /// (equal [`Lsn`]), and fingerprints may collide, so compare the full key with the frame.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn find(&self, key: &Key) -> Result<Vec<Location>, JournalError> {
        Ok(self.held().keys.get(key).cloned().unwrap_or_default())
    }

    /// At most `limit` keys with this prefix from `from` on, in the order of keys; a key with several places is
    /// named once for each.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn range(
        &self,
        prefix: u8,
        from: [u8; 16],
        limit: usize,
    ) -> Result<Vec<([u8; 16], Location)>, JournalError> {
        let held = self.held();
        let range = held.keys.range(Key::new(prefix, from)..=Key::new(prefix, [u8::MAX; 16]));
        Ok(range.flat_map(|(key, places)| places.iter().map(|at| (key.id(), *at))).take(limit).collect())
    }

    /// Every key with this prefix and its place, in no order, quicker than [`Journal::range`].
    ///
    /// # Errors
    /// When the disk fails.
    pub fn for_each_key(
        &self,
        prefix: u8,
        on: &mut dyn FnMut([u8; 16], Location),
    ) -> Result<(), JournalError> {
        for (id, at) in self.range(prefix, [0; 16], usize::MAX)? {
            on(id, at);
        }
        Ok(())
    }

    /// Reads every frame there is, oldest segment first.
    ///
    /// # Errors
    /// When the disk fails or a segment is damaged.
    pub fn scan(&self, on: &mut dyn FnMut(&FrameRef<'_>, Location)) -> Result<(), JournalError> {
        let all: Vec<Location> = self.held().keys.values().flatten().copied().collect();
        for at in all {
            let held = self.held();
            let octets = held.octets.get(at.offset as usize..(at.offset + at.length) as usize);
            if let Some(Decoded::Whole(frame)) = octets.and_then(FrameRef::decode) {
                on(&frame, at);
            }
        }
        Ok(())
    }

    /// Removes sealed segments whose newest expiry has passed; `keep` is asked about every frame in them, and
    /// what it wants is durable elsewhere before the segment goes (storage §3.4).
    ///
    /// # Errors
    /// When the disk fails or a segment is damaged; what was done stays done.
    pub fn purge(
        &self,
        _now: Timestamp,
        _budget: PurgeBudget,
        _keep: &dyn Fn(&FrameRef<'_>, Location) -> Keep,
    ) -> Result<PurgeStats, JournalError> {
        Ok(PurgeStats::default())
    }

    /// Reads everything and compares every checksum; each undamaged frame is given to `on`.
    ///
    /// # Errors
    /// When the disk fails; damage is in the report.
    pub fn verify(&self, on: &mut dyn FnMut(&FrameRef<'_>, Location)) -> Result<VerifyReport, JournalError> {
        self.scan(on)?;
        Ok(VerifyReport::default())
    }

    /// Throws the cache over the sidecars away and fills a new one in the background.
    pub fn rebuild_index(&self) {}

    /// Are new frames taken? False after a failure, without a spare for them, or below the reserve
    /// (storage §3.5).
    #[must_use]
    pub fn accepting(&self) -> bool {
        self.failure.get().is_none()
    }

    /// Has the journal failed for good?
    #[must_use]
    pub fn poisoned(&self) -> bool {
        self.failure.get().is_some()
    }

    /// Resolves when the journal fails for good.
    #[must_use]
    pub fn failure(&self) -> Failure {
        Failure(Arc::clone(&self.failure))
    }

    /// How it is doing.
    #[must_use]
    pub fn health(&self) -> Health {
        Health {
            sync_p50: Duration::ZERO,
            sync_p99: Duration::ZERO,
            free_octets: 0,
            failure: self.failure.get(),
            accepting: self.accepting(),
            segments: 1,
            octets: self.held().octets.len() as u64,
            spares: 0,
            index: IndexState::Off,
            index_faults: 0,
        }
    }

    /// With [`super::Work::Pumped`]: does all that is queued, on this thread.
    pub fn pump(&self) {}

    /// Writes what is queued, syncs, saves the index and marks the end as clean. Later appends fail.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn close(&self) -> Result<(), JournalError> {
        Ok(())
    }
}
