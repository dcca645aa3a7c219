//! How a journal is opened.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use crate::model::Timestamp;

/// Reads a clock that only goes forward, for measuring syncs; the journal itself asks no clock.
pub type Monotonic = Arc<dyn Fn() -> Duration + Send + Sync>;
/// Told what an operator should see, as it happens.
pub type Alarm = Arc<dyn Fn(&str) + Send + Sync>;

/// Who does the work behind an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Threads of the journal: a committer, and one for spares, sidecars and the index.
    Threads,
    /// Whoever appends, before `append` returns; for tests.
    Inline,
    /// Whoever calls `Journal::pump`; for tests that must run the same way each time.
    Pumped,
}

/// The cache over the `.keys` sidecars.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexChoice {
    /// None: sidecars and filters alone.
    Sidecars,
    /// sled 0.34 below this directory of the real file system, in generations.
    Sled(PathBuf),
}

/// How a journal is opened.
#[derive(Clone)]
pub struct JournalOptions {
    /// Length of a segment, in octets.
    pub segment_bytes: u64,
    /// New frames are refused below so many free octets (storage §3.5).
    pub reserve_bytes: u64,
    /// Who works.
    pub work: Work,
    /// The cache over the sidecars.
    pub index: IndexChoice,
    /// Where the system tells which boot this is.
    pub boot_id_path: PathBuf,
    /// For measuring syncs.
    pub monotonic: Monotonic,
    /// Told of index faults, quarantined tails, failures.
    pub alarm: Alarm,
    /// The time of the start, for a new FORMAT file.
    pub now: Timestamp,
}

impl JournalOptions {
    /// Length of a segment unless told otherwise, in octets.
    pub const SEGMENT_BYTES: u64 = 64 << 20;
    /// Reserve unless told otherwise, in octets.
    pub const RESERVE_BYTES: u64 = 256 << 20;
    /// Where Linux names the boot.
    pub const BOOT_ID_PATH: &'static str = "/proc/sys/kernel/random/boot_id";

    /// The defaults, with no index cache, no measuring and nobody told.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self {
            segment_bytes: Self::SEGMENT_BYTES,
            reserve_bytes: Self::RESERVE_BYTES,
            work: Work::Threads,
            index: IndexChoice::Sidecars,
            boot_id_path: PathBuf::from(Self::BOOT_ID_PATH),
            monotonic: Arc::new(|| Duration::ZERO),
            alarm: Arc::new(|_| {}),
            now,
        }
    }
}

impl fmt::Debug for JournalOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JournalOptions")
            .field("segment_bytes", &self.segment_bytes)
            .field("reserve_bytes", &self.reserve_bytes)
            .field("work", &self.work)
            .field("index", &self.index)
            .field("boot_id_path", &self.boot_id_path)
            .finish_non_exhaustive()
    }
}
