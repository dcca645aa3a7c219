//! What can go wrong in the store, sorted by what the caller does about it.

use crate::model::ItemId;

/// Why the store could not do it. Every one is a fault of ours: HTTP 503 and Retry-After, never an
/// `eb:Error` (`duplicates` §2).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The disk rule forbids new messages, or there is no room. What was accepted is still answered.
    #[error("no room for new messages")]
    Full,
    /// A write or a flush failed: nothing can be promised any more, the process must end (`storage` §3.3, I8).
    #[error("the log is poisoned: {0}")]
    Poisoned(String),
    /// Reading or writing failed this once.
    #[error("input or output failed: {0}")]
    Io(String),
    /// A stored frame does not read back as it was written.
    #[error("damaged: {0}")]
    Damaged(String),
    /// A record is larger than a frame may be.
    #[error("a record of {size} bytes does not fit into a frame")]
    TooLarge {
        /// Its size, in bytes.
        size: usize,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

/// Why an acceptance was not committed. The id was given back in every case.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AcceptError {
    /// Somebody else took the id over, or accepted under it: read the log again.
    #[error("the claim on the id was lost")]
    Fenced,
    /// The sender has already used this very signature under another MessageId.
    #[error("the signature was used by item {0}")]
    SignatureUsed(ItemId),
    /// A fault of ours.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a stored answer cannot be given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// The item is known, its answer is damaged: a new receipt has to be built (*`receipt_rebuilt`*).
    #[error("the stored answer is damaged")]
    Unreadable,
    /// No such item is in the log (any more).
    #[error("no such item")]
    Gone,
    /// A fault of ours.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The journal cannot.
    #[error(transparent)]
    Journal(#[from] super::journal::JournalError),
    /// What it holds cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}
