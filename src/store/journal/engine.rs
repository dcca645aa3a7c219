//! The journal as its users see it.

use std::{
    path::Path,
    sync::{Arc, Condvar, Mutex, RwLock, atomic::AtomicU64, atomic::Ordering},
    thread::JoinHandle,
};

use super::{
    Failure, Frame, FrameRef, Health, IndexChoice, JournalError, JournalOptions, Keep, Key, Location,
    PurgeBudget, PurgeStats, Recovery, StoredFrame, Ticket, VerifyReport, Work,
    cache::Cache,
    chores::Chores,
    committer::{QUEUE_OCTETS, Queue, RELAXED_OCTETS},
    files::Files,
    home::{Lock, Past},
    meter::Meter,
    recover::{make_home, recover},
    shared::{Shared, locked},
    ticket::Once,
};
use crate::{model::Timestamp, store::vfs::Vfs};

/// Shortest segment, in octets.
const SEGMENT_MIN: u64 = 16 << 10;
/// Longest segment, in octets: places in it are 32 bits.
const SEGMENT_MAX: u64 = 1 << 30;

/// The append-only journal. All methods may be called from any thread; those that say "disk" may block.
#[derive(Debug)]
pub struct Journal {
    shared: Arc<Shared>,
    committer: Mutex<Option<JoinHandle<()>>>,
    helpers: Mutex<Vec<JoinHandle<()>>>,
}

impl Journal {
    /// Opens or makes the journal in `dir`, recovers, and gives every frame that had to be scanned (those since
    /// the last seal) to `replay`, at the place where it lies from now on; what lies in sealed segments is found
    /// by [`Journal::for_each_key`] and [`Journal::scan`].
    ///
    /// # Errors
    /// When the directory is in use, damaged (storage §3.3 I4), of a newer format, or the disk fails.
    pub fn open(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        mut options: JournalOptions,
        replay: &mut dyn FnMut(&FrameRef<'_>, Location),
    ) -> Result<(Self, Recovery), JournalError> {
        options.segment_bytes = options.segment_bytes.clamp(SEGMENT_MIN, SEGMENT_MAX);
        let home = make_home(&*vfs, dir)?;
        let (lock, past) = Lock::take(&*vfs, dir, &options.boot_id_path)?;
        home.check_format(&*vfs, options.now)?;
        let files = Arc::new(Files::new(Arc::clone(&vfs), home.journal.clone()));
        let recovered = recover(&*vfs, &files, &home, &options, replay)?;
        let cache = match &options.index {
            IndexChoice::Sidecars => Cache::none(),
            IndexChoice::Sled(index) => Cache::sled(dir, index, past, Arc::clone(&options.alarm)),
        };
        cache.open(recovered.sources.sealed.clone());
        let report = Recovery { clean: past == Past::Clean, ..recovered.report };
        let shared = Arc::new(Shared {
            files,
            vfs,
            home,
            options,
            sources: RwLock::new(Arc::new(recovered.sources)),
            queue: Mutex::new(Queue::default()),
            queued: Condvar::new(),
            committer: Mutex::new(recovered.committer),
            spares: recovered.spares,
            chores: Mutex::new(Chores::default()),
            chore: Condvar::new(),
            failure: Once::new(),
            meter: Mutex::new(Meter::default()),
            cache,
            faults: AtomicU64::new(0),
            purged: Mutex::new(recovered.purged),
            lock,
        });
        let journal = Self { shared, committer: Mutex::new(None), helpers: Mutex::default() };
        journal.start()?;
        Ok((journal, report))
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    fn start(&self) -> Result<(), JournalError> {
        if self.shared.options.work != Work::Threads {
            return Ok(());
        }
        let spawn = |name: &str, work: fn(&Shared)| {
            let shared = Arc::clone(&self.shared);
            let builder = std::thread::Builder::new().name(name.to_owned());
            builder.spawn(move || work(&shared)).map_err(JournalError::io("start a thread"))
        };
        self.shared.wake_chores();
        *locked(&self.committer) = Some(spawn("journal-commit", Shared::run_committer)?);
        let mut helpers = locked(&self.helpers);
        helpers.push(spawn("journal-chores", Shared::run_chores)?);
        if self.shared.options.index != IndexChoice::Sidecars {
            helpers.push(spawn("journal-index", |shared| shared.cache.run())?);
        }
        Ok(())
    }

    /// Queues frames as one atomic unit: after a crash all are there or none.
    pub fn append(&self, frames: Vec<Frame>) -> Ticket {
        let frames = frames.into_iter().map(|frame| (frame, None)).collect();
        self.shared.enqueue(frames, QUEUE_OCTETS)
    }

    /// Queues frames that nobody waits for; durable with the next batch.
    ///
    /// # Errors
    /// When they were not queued: failed, closed, or too much waits.
    pub fn append_relaxed(&self, frames: Vec<Frame>) -> Result<(), JournalError> {
        let frames = frames.into_iter().map(|frame| (frame, None)).collect();
        match self.shared.enqueue(frames, RELAXED_OCTETS).outcome() {
            Some(Err(error)) => Err(error),
            _ => Ok(()),
        }
    }

    /// Reads a frame, all of it checked. Disk.
    ///
    /// # Errors
    /// [`JournalError::BodyDamaged`] when only the head can be read ([`Journal::read_head`]),
    /// [`JournalError::Gone`] when it was purged meanwhile, [`JournalError::Damaged`] otherwise.
    pub fn read(&self, at: Location) -> Result<StoredFrame, JournalError> {
        self.shared.read(at)
    }

    /// Reads a frame without its body, which may be damaged (storage §3.3 I2); the body is left empty. Disk.
    ///
    /// # Errors
    /// [`JournalError::Gone`] when it was purged meanwhile, [`JournalError::Damaged`] when the head is.
    pub fn read_head(&self, at: Location) -> Result<StoredFrame, JournalError> {
        self.shared.read_head(at)
    }

    /// Every place where a frame with this key lies, oldest segment first: never one too few; the same frame may
    /// be named twice (equal [`super::Lsn`]), and fingerprints may collide, so compare the full key with the
    /// frame. Disk.
    ///
    /// # Errors
    /// When the disk fails, or a sidecar and its segment are both damaged.
    pub fn find(&self, key: &Key) -> Result<Vec<Location>, JournalError> {
        self.shared.find(key)
    }

    /// At most `limit` keys with this prefix from `from` on, in the order of keys; a key with several places is
    /// named once for each. Disk.
    ///
    /// # Errors
    /// When the disk fails, or a sidecar and its segment are both damaged.
    pub fn range(
        &self,
        prefix: u8,
        from: [u8; 16],
        limit: usize,
    ) -> Result<Vec<([u8; 16], Location)>, JournalError> {
        self.shared.range(prefix, from, limit)
    }

    /// Every key with this prefix and its place, segment by segment, oldest first: for building state at a
    /// start. Disk.
    ///
    /// # Errors
    /// When the disk fails, or a sidecar and its segment are both damaged.
    pub fn for_each_key(
        &self,
        prefix: u8,
        on: &mut dyn FnMut([u8; 16], Location),
    ) -> Result<(), JournalError> {
        self.shared.for_each_key(prefix, on)
    }

    /// Reads every frame there is, oldest segment first. Disk.
    ///
    /// # Errors
    /// When the disk fails or a segment is damaged.
    pub fn scan(&self, on: &mut dyn FnMut(&FrameRef<'_>, Location)) -> Result<(), JournalError> {
        self.shared.scan(on)
    }

    /// Removes sealed segments whose newest expiry has passed; `keep` is asked about every frame in them, and
    /// what it wants is durable elsewhere before the segment goes (storage §3.4). Disk.
    ///
    /// # Errors
    /// When the disk fails; what was done stays done. A damaged segment is left and reported.
    pub fn purge(
        &self,
        now: Timestamp,
        budget: PurgeBudget,
        keep: &dyn Fn(&FrameRef<'_>, Location) -> Keep,
    ) -> Result<PurgeStats, JournalError> {
        self.shared.purge(now, budget, keep)
    }

    /// Reads everything and compares every checksum; each undamaged frame is given to `on`. Disk.
    ///
    /// # Errors
    /// When the disk fails; damage is in the report.
    pub fn verify(&self, on: &mut dyn FnMut(&FrameRef<'_>, Location)) -> Result<VerifyReport, JournalError> {
        self.shared.verify(on)
    }

    /// Throws the cache over the sidecars away and fills a new one in the background.
    pub fn rebuild_index(&self) {
        self.shared.cache.rebuild(self.shared.sources().sealed.clone());
    }

    /// Are new frames taken? False after a failure, without a spare for them, or below the reserve
    /// (storage §3.5). Asks the file system for its free space.
    #[must_use]
    pub fn accepting(&self) -> bool {
        !self.poisoned()
            && self.shared.spares.room_for_new()
            && !self.shared.spares.failing()
            && self.free_octets().is_some_and(|free| free >= self.shared.options.reserve_bytes)
    }

    fn free_octets(&self) -> Option<u64> {
        self.shared.vfs.free_space(&self.shared.home.journal).ok()
    }

    /// Has the journal failed for good? The process must then end with a status other than 0.
    #[must_use]
    pub fn poisoned(&self) -> bool {
        self.shared.failure.get().is_some()
    }

    /// Resolves when the journal fails for good.
    #[must_use]
    pub fn failure(&self) -> Failure {
        Failure(Arc::clone(&self.shared.failure))
    }

    /// How it is doing.
    #[must_use]
    pub fn health(&self) -> Health {
        let extents = self.shared.extents();
        let spares = self.shared.spares.count() as u64;
        let meter = locked(&self.shared.meter);
        Health {
            sync_p50: meter.percentile(50),
            sync_p99: meter.percentile(99),
            free_octets: self.free_octets().unwrap_or(0),
            failure: self.shared.failure.get(),
            accepting: self.accepting(),
            segments: extents.len() as u64,
            octets: extents.iter().map(|(end, _)| end.offset).sum::<u64>()
                + spares * self.shared.options.segment_bytes,
            spares,
            index: self.shared.cache.state(),
            index_faults: self.shared.faults.load(Ordering::Relaxed),
        }
    }

    /// With [`Work::Pumped`] and [`Work::Inline`]: does all that is queued and all chores, on this thread.
    pub fn pump(&self) {
        if self.shared.options.work != Work::Threads {
            self.shared.commit_queued();
            if !self.poisoned() {
                self.shared.do_chores();
                self.shared.cache.run_queued();
            }
        }
    }

    /// Writes what is queued, syncs, saves the index and marks the end as clean. Later appends fail.
    ///
    /// # Errors
    /// When the journal had failed, or the disk does now.
    pub fn close(&self) -> Result<(), JournalError> {
        let shared = &self.shared;
        self.pump();
        let was_open = locked(&shared.queue).finish();
        shared.queued.notify_all();
        if let Some(committer) = locked(&self.committer).take() {
            // A panic in it was caught and reported already.
            let _ = committer.join();
        }
        shared.end_chores();
        shared.spares.close();
        shared.cache.end();
        for helper in std::mem::take(&mut *locked(&self.helpers)) {
            let _ = helper.join();
        }
        if was_open {
            shared.cache.close();
            shared.sync_proof();
        }
        match shared.failure.get() {
            Some(error) => Err(error),
            None if was_open => shared.lock.mark_clean().map_err(JournalError::io("write LOCK")),
            None => Ok(()),
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // Whoever wants to know of a failure closes the journal itself.
        let _ = self.close();
    }
}
