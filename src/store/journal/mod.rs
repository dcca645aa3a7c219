//! The append-only journal and its rebuildable index.
//!
//! The journal is the only truth: frames in segments of a fixed size that are filled with zeros ahead of time
//! and then only overwritten; one committer writes whatever is queued as one batch and syncs it once. Who waits
//! on a [`Ticket`] is woken only after that sync returned 0. The index (`.keys` sidecars with filters, and sled
//! as a cache over them) can be thrown away at any time: it can cost time, never a missed key.

mod batch;
mod cache;
mod checkpoint;
mod chores;
mod codec;
mod committer;
mod engine;
mod error;
mod files;
mod filter;
mod frame;
mod home;
mod live;
mod lookup;
mod meter;
mod options;
mod purge;
mod purged;
mod recover;
mod repair;
mod report;
mod segment;
mod shared;
mod sidecar;
mod spares;
mod ticket;
mod verify;

pub use engine::Journal;
pub use error::JournalError;
pub use frame::{
    Class, Expiry, FRAME_MAX, Frame, FrameKind, FrameRef, KEYS_MAX, Key, Location, Lsn, Origin, StoredFrame,
};
pub use options::{Alarm, IndexChoice, JournalOptions, Monotonic, Work};
pub use repair::RepairReport;
pub use report::{Health, IndexState, Keep, PurgeBudget, PurgeStats, Recovery, VerifyFault, VerifyReport};
pub use ticket::{Committed, Failure, Ticket};

#[cfg(test)]
mod tests;
