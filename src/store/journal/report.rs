//! What the journal says of itself, and what purge is told and tells.

use std::time::Duration;

use super::{Frame, JournalError};

/// What was found when the journal was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Segments there, without the new open one.
    pub segments: u64,
    /// Frames given to the replay callback.
    pub replayed: u64,
    /// Frames written again because no later batch proved their sync (storage §3.3 I9).
    pub rewritten: u64,
    /// Octets of a torn tail that were copied to `quarantine/`.
    pub torn_octets: u64,
    /// Sidecars made anew from their segments.
    pub sidecars_rebuilt: u64,
    /// The process before ended by closing the journal.
    pub clean: bool,
}

/// State of the cache over the sidecars.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexState {
    /// Not wanted.
    Off,
    /// Being opened or filled; sidecars answer.
    Building,
    /// Holds every sealed segment.
    Ready,
    /// Given up until the next start; sidecars answer.
    Dead,
}

/// What an operator should know.
#[derive(Debug, Clone)]
pub struct Health {
    /// Median of the last syncs.
    pub sync_p50: Duration,
    /// 99th percentile of the last syncs.
    pub sync_p99: Duration,
    /// Octets free on the disk.
    pub free_octets: u64,
    /// Why nothing is written any more.
    pub failure: Option<JournalError>,
    /// New frames are taken.
    pub accepting: bool,
    /// Segments, the open one included.
    pub segments: u64,
    /// Octets of the journal's files, spares included.
    pub octets: u64,
    /// Spare segments ready.
    pub spares: u64,
    /// State of the cache.
    pub index: IndexState,
    /// Keys that the cache lacked or a sidecar had lost since the start.
    pub index_faults: u64,
}

/// What becomes of a frame when its segment is purged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keep {
    /// It goes.
    Drop,
    /// It is still needed: it is copied forward, with its number.
    Forward,
    /// Something shorter takes its place, with its number (a record without its payload).
    Replace(Box<Frame>),
}

/// How much one purge may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PurgeBudget {
    /// Segments to look into.
    pub segments: u64,
    /// Octets to copy forward.
    pub octets: u64,
}

impl Default for PurgeBudget {
    /// 64 segments and 256 MiB: some seconds of work.
    fn default() -> Self {
        Self { segments: 64, octets: 256 << 20 }
    }
}

/// What a purge did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PurgeStats {
    /// Segments removed.
    pub segments: u64,
    /// Octets given back.
    pub octets: u64,
    /// Frames that went.
    pub dropped: u64,
    /// Frames copied forward, replaced ones included.
    pub forwarded: u64,
    /// Segments that are due and were left for the next time.
    pub left: u64,
}

/// One place where the journal is not what was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyFault {
    /// Which segment.
    pub segment: u64,
    /// Where in it, in octets.
    pub offset: u64,
    /// What does not fit.
    pub what: &'static str,
}

/// What `Journal::verify` found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Segments read.
    pub segments: u64,
    /// Batches read.
    pub batches: u64,
    /// Frames read, copies included.
    pub frames: u64,
    /// The first [`VerifyReport::FAULTS_MAX`] faults.
    pub faults: Vec<VerifyFault>,
}

impl VerifyReport {
    /// Most faults that are listed.
    pub const FAULTS_MAX: usize = 1000;
}
