//! Durable memory: what was accepted and answered, and what the backend has not yet taken.
//!
//! What is durable when:
//! - [`Fence::accept`] returns `Ok` once key, answer, what repeats are judged by, payload and inbox entry are on
//!   the disk, in one frame of the log: all of them or none survive a crash.
//! - A payload file is durable before the frame that names it.
//! - A lease, an acknowledgement, a release is durable before anybody hears of it.
//! - A claim on a MessageId is in memory only: a crash gives it back, and nothing was answered under it.
//! - Notes about messages that were not accepted become durable a little later; nobody waits for them.
//!
//! The log is the truth; what is in memory is a fold over its frames, the same for both backends. Time is
//! always an argument.

mod accept;
mod answers;
mod claims;
mod embedded;
mod error;
mod frame;
mod history;
mod inbox;
mod item;
pub mod journal;
mod lock;
mod log;
mod lookup;
mod memory;
mod payload;
mod record;
mod state;
mod upkeep;
pub mod vfs;

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex},
};

use tokio::sync::watch;

use crate::model::{Digest, ItemId, PartyId};

pub use accept::{Claim, Fence};
pub use claims::Busy;
pub use error::{AcceptError, AnswerError, OpenError, StoreError};
pub use history::{
    CLAIMED_RECORDS_KEPT, CLAIMED_RECORDS_MAX, Event, EventKind, RECORDS_PER_MESSAGE_MAX, RecordQuery,
};
pub use inbox::{
    Ack, AckResult, DELIVERIES_MAX, DeliveryEvent, Extend, ExtendResult, InboxClaim, InboxFilter, ItemState,
    Lease, Leased, Nack, NackResult, NackThen, Redelivery, RequeueResult,
};
pub use item::{Evidence, Item, ItemQuery, PAGE_MAX, Page};
pub use payload::{INLINE_BYTES_MAX, Payload, PayloadWriter, Spool, SpoolReader, StoredPayload};
pub use record::{
    Acceptance, Authentication, Delivery, InboundMeta, Notice, Record, RecordState, RepeatCount,
};
pub use upkeep::{
    CLOCK_AHEAD_MAX, FINDINGS_MAX, Health, Purge, PurgeBudget, PurgeOrder, PurgePreview, PurgeStats,
    VerifyReport,
};

use answers::AnswerCache;
use claims::Claims;
use embedded::EmbeddedLog;
use journal::{Journal, JournalOptions, Recovery};
use log::Log;
use memory::MemoryLog;
use payload::Payloads;
use state::State;
use vfs::Vfs;

/// A signature of a sender.
type SignatureKey = (PartyId, Digest);

/// The store: a handle that is cheap to clone and works from any thread.
#[derive(Debug, Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    log: Log,
    claims: Arc<Claims>,
    /// Signatures on their way into the log.
    signatures: Mutex<HashMap<SignatureKey, ItemId>>,
    state: Mutex<State>,
    /// Counts the changes of `state` that somebody may wait for.
    changed: watch::Sender<u64>,
    payloads: Payloads,
    answers: AnswerCache,
}

impl Store {
    /// A store in memory, for tests and trials: nothing survives the process.
    #[must_use]
    pub fn memory() -> Self {
        Self::new(Log::Memory(MemoryLog::default()), Payloads::Memory, State::default())
    }

    /// Opens or makes the store in `dir`: recovers the journal, reads what the backend has not taken, removes
    /// what no acceptance names.
    ///
    /// # Errors
    /// When the directory is in use, damaged or of a newer format, or the disk fails.
    pub fn open(
        vfs: &Arc<dyn Vfs>,
        dir: &Path,
        options: JournalOptions,
    ) -> Result<(Self, Recovery), OpenError> {
        let mut state = State::default();
        let mut unread = Ok(());
        let (journal, recovery) =
            Journal::open(
                vfs.clone(),
                dir,
                options,
                &mut |frame, _| match frame::Head::decode(frame.head) {
                    Ok(head @ frame::Head::Record(_)) => state.apply(&head),
                    Ok(_) => {}
                    Err(error) => unread = Err(error),
                },
            )?;
        unread?;
        let log = EmbeddedLog { journal };
        log.restore(&mut state)?;
        let payloads = Payloads::open(vfs.clone(), dir).map_err(|error| StoreError::Io(error.to_string()))?;
        let store = Self::new(Log::Embedded(Box::new(log)), payloads, state);
        store.sweep()?;
        Ok((store, recovery))
    }

    fn new(log: Log, payloads: Payloads, state: State) -> Self {
        let inner = Inner {
            log,
            claims: Arc::default(),
            signatures: Mutex::default(),
            state: Mutex::new(state),
            changed: watch::Sender::new(0),
            payloads,
            answers: AnswerCache::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Removes payload files that no acceptance names: their messages were never answered.
    fn sweep(&self) -> Result<(), StoreError> {
        let names = self.inner.payloads.names().map_err(|error| StoreError::Io(error.to_string()))?;
        let named = names.into_iter().filter_map(|name| Some((ItemId::parse(&name).ok()?, name)));
        self.remove_files(named.collect()).map(|_| ())
    }

    /// Takes bytes that are read once: in memory up to `memory_max` bytes, then in a file without a name.
    #[must_use]
    pub fn spool(&self, memory_max: usize) -> Spool {
        self.inner.payloads.spool(memory_max)
    }

    /// Takes the payload of the item: to [`INLINE_BYTES_MAX`] for its frame, beyond into a file. Ids are not
    /// used twice.
    #[must_use]
    pub fn payload_writer(&self, item: ItemId) -> PayloadWriter {
        self.inner.payloads.writer(item)
    }

    /// The memory backend fails every append so from now on; none: it works again. Without effect on others.
    pub fn set_fault(&self, fault: Option<StoreError>) {
        if let Log::Memory(log) = &self.inner.log {
            log.set_fault(fault);
        }
    }

    /// The memory backend changes a byte of the stored answer, as a bad disk would. Without effect on others.
    pub fn damage_answer(&self, item: ItemId) {
        if let (Log::Memory(log), Ok(Some((place, _)))) = (&self.inner.log, self.accepted(item)) {
            log.damage(place, 0);
            self.inner.answers.clear();
        }
    }
}
