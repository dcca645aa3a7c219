//! What all parts of an open journal share.

use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock,
    atomic::{AtomicU64, Ordering},
};

use super::{
    JournalError, JournalOptions,
    cache::Cache,
    chores::Chores,
    committer::{Committer, Queue},
    files::Files,
    home::{Home, Lock},
    live::Live,
    meter::Meter,
    purged::Purged,
    sidecar::Sidecar,
    spares::Spares,
    ticket::Once,
};
use crate::store::vfs::Vfs;

/// Where keys are looked for, oldest first.
#[derive(Debug, Clone, Default)]
pub(super) struct Sources {
    pub(super) sealed: Vec<Arc<Sidecar>>,
    /// The last one is the open segment.
    pub(super) live: Vec<Arc<Live>>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) vfs: Arc<dyn Vfs>,
    pub(super) home: Home,
    pub(super) options: JournalOptions,
    pub(super) files: Arc<Files>,
    pub(super) sources: RwLock<Arc<Sources>>,
    pub(super) queue: Mutex<Queue>,
    /// Something was queued, or the queue was closed.
    pub(super) queued: Condvar,
    pub(super) committer: Mutex<Committer>,
    pub(super) spares: Spares,
    pub(super) chores: Mutex<Chores>,
    /// There is a chore, or the end has come.
    pub(super) chore: Condvar,
    pub(super) failure: Arc<Once<JournalError>>,
    pub(super) meter: Mutex<Meter>,
    pub(super) cache: Cache,
    pub(super) faults: AtomicU64,
    /// Held while purging.
    pub(super) purged: Mutex<Purged>,
    pub(super) lock: Lock,
}

/// Takes a lock; a thread that panicked while it had it left consistent data behind, as all updates here are
/// single assignments.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// The sources as they are now.
    pub(super) fn sources(&self) -> Arc<Sources> {
        Arc::clone(&self.sources.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the sources; who looks meanwhile sees the old ones or the new.
    pub(super) fn change_sources(&self, change: impl FnOnce(&mut Sources)) {
        let mut sources = self.sources.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut sources));
    }

    /// Nothing is written from now on (storage §3.3 I8).
    pub(super) fn fail(&self, error: &JournalError) {
        self.failure.set(error.clone());
        (self.options.alarm)(&error.to_string());
        self.spares.close();
        let waiting = locked(&self.queue).close();
        for unit in waiting {
            unit.resolve(Err(error.clone()));
        }
        self.queued.notify_all();
        self.chore.notify_all();
    }

    /// Fails unless it is only for lack of space.
    pub(super) fn fail_unless_full(&self, error: &JournalError) {
        if !error.is_full() {
            self.fail(&JournalError::Poisoned(error.to_string().into()));
        }
    }

    /// One more key that the cache or a sidecar had lost.
    pub(super) fn count_fault(&self, what: &str) {
        self.faults.fetch_add(1, Ordering::Relaxed);
        (self.options.alarm)(what);
    }
}
