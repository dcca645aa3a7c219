//! What can go wrong in the journal.

use std::{io, path::PathBuf, sync::Arc};

/// Why the journal could not do what was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum JournalError {
    /// The disk failed at something that leaves the journal usable (a read, a start).
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: &'static str,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// A write or a sync failed earlier: nothing is written any more; the process must end (storage §3.3 I8).
    #[error("the journal failed and writes nothing more: {0}")]
    Poisoned(Arc<str>),
    /// No room for frames of this class; nothing was written (storage §3.5).
    #[error("the journal has no room for new frames")]
    Full,
    /// Too much is queued; nothing was written.
    #[error("too much waits for the disk")]
    Busy,
    /// One frame or one append is longer than the format allows.
    #[error("an append of {octets} octets is above the limit of {max}")]
    TooLarge {
        /// How long it is.
        octets: u64,
        /// The limit.
        max: u64,
    },
    /// The journal was closed.
    #[error("the journal is closed")]
    Closed,
    /// The place was purged meanwhile; ask the index again.
    #[error("segment {segment} was purged")]
    Gone {
        /// Which segment.
        segment: u64,
    },
    /// The body of this frame is damaged; its head (keys, times, head) can still be read.
    #[error("the body of the frame in segment {segment} at {offset} is damaged")]
    BodyDamaged {
        /// Which segment.
        segment: u64,
        /// Where in it, in octets.
        offset: u64,
    },
    /// Octets that were once durable are no longer what was written.
    #[error("segment {segment} is damaged at {offset} ({what}); run `oncepoint store repair`")]
    Damaged {
        /// Which segment.
        segment: u64,
        /// Where in it, in octets.
        offset: u64,
        /// What does not fit.
        what: &'static str,
    },
    /// A segment is not there and was not purged.
    #[error("segment {segment} is missing; run `oncepoint store repair`")]
    Missing {
        /// Which segment.
        segment: u64,
    },
    /// Another process works in this directory.
    #[error("{directory} is in use by pid {pid}")]
    InUse {
        /// Where.
        directory: PathBuf,
        /// Who.
        pid: u32,
    },
    /// Written by a newer version of the product.
    #[error("the data directory has format {found}, this program knows {known}")]
    NewerFormat {
        /// What was found.
        found: u32,
        /// What is understood.
        known: u32,
    },
    /// A small file of the data directory does not fit its own checksum.
    #[error("{file} is damaged; run `oncepoint store repair`")]
    FileDamaged {
        /// Which.
        file: &'static str,
    },
}

impl JournalError {
    pub(super) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source: Arc::new(source) }
    }

    pub(super) fn poisoned(what: &'static str, error: &io::Error) -> Self {
        Self::Poisoned(format!("{what}: {error}").into())
    }

    /// Is it for lack of space?
    #[must_use]
    pub fn is_full(&self) -> bool {
        match self {
            Self::Full => true,
            Self::Io { source, .. } => source.kind() == io::ErrorKind::StorageFull,
            _ => false,
        }
    }
}
