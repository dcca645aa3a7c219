//! The only clock and the only random source of the product.
//!
//! Everything that needs the time, a fresh id or a measured span gets it from a [`Clock`]; tests hand in one
//! that stands still and counts its ids.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use uuid::{Builder, ContextV7, Uuid};

use crate::model::{IdError, ItemId, MessageId, Span, Timestamp};

/// A clock and a source of ids. Clones are the same clock.
#[derive(Debug, Clone)]
pub struct Clock(Arc<Source>);

#[derive(Debug)]
enum Source {
    System {
        /// Keeps ids of one millisecond in their order.
        order: Mutex<ContextV7>,
        started: Instant,
    },
    Manual {
        now: AtomicU64,
        ids: AtomicU64,
    },
}

impl Clock {
    /// The clock of the machine, and its random source.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the one place where the time is asked for")]
    pub fn system() -> Self {
        Self(Arc::new(Source::System { order: Mutex::new(ContextV7::new()), started: Instant::now() }))
    }

    /// A clock that stands at `start` until it is moved; its ids are numbered.
    #[must_use]
    pub fn manual(start: Timestamp) -> Self {
        Self(Arc::new(Source::Manual { now: AtomicU64::new(start.as_millis()), ids: AtomicU64::new(1) }))
    }

    /// Moves a manual clock; the clock of the machine is not moved.
    pub fn advance(&self, span: Span) {
        if let Source::Manual { now, .. } = &*self.0 {
            now.fetch_add(span.as_millis(), Ordering::SeqCst);
        }
    }

    /// The time.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the one place where the time is asked for")]
    pub fn now(&self) -> Timestamp {
        match &*self.0 {
            Source::System { .. } => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Timestamp::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
            }
            Source::Manual { now, .. } => Timestamp::from_millis(now.load(Ordering::SeqCst)),
        }
    }

    /// Time since the start; never goes back.
    #[must_use]
    pub fn monotonic(&self) -> Duration {
        match &*self.0 {
            Source::System { started, .. } => started.elapsed(),
            Source::Manual { now, .. } => Duration::from_millis(now.load(Ordering::SeqCst)),
        }
    }

    /// A fresh id that sorts by time (UUID version 7).
    #[must_use]
    pub fn item_id(&self) -> ItemId {
        let now = self.now();
        ItemId::from_uuid(match &*self.0 {
            Source::System { order, .. } => {
                let order = order.lock().unwrap_or_else(PoisonError::into_inner);
                let millis = u32::try_from(now.as_millis() % 1000).unwrap_or_default();
                let nanos = millis.saturating_mul(1_000_000);
                Uuid::new_v7(uuid::Timestamp::from_unix(&*order, now.as_millis() / 1000, nanos))
            }
            Source::Manual { ids, .. } => {
                let mut tail = [0; 10];
                tail[2..].copy_from_slice(&ids.fetch_add(1, Ordering::SeqCst).to_be_bytes());
                Builder::from_unix_timestamp_millis(now.as_millis(), &tail).into_uuid()
            }
        })
    }

    /// A fresh random id (UUID version 4), for what must not be guessed.
    #[must_use]
    pub fn random_id(&self) -> Uuid {
        match &*self.0 {
            Source::System { .. } => Uuid::new_v4(),
            Source::Manual { ids, .. } => {
                Builder::from_random_bytes(u128::from(ids.fetch_add(1, Ordering::SeqCst)).to_be_bytes())
                    .into_uuid()
            }
        }
    }

    /// A fresh MessageId `uuid@host` (RFC 2822, ebMS3 Core §5.2.2.1).
    ///
    /// # Errors
    /// When `host` cannot be part of a MessageId.
    pub fn message_id(&self, host: &str) -> Result<MessageId, IdError> {
        MessageId::parse(&format!("{}@{host}", self.random_id()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_when_moved_and_numbers_its_ids() {
        let clock = Clock::manual(Timestamp::from_millis(1_000));
        let (first, second) = (clock.item_id(), clock.item_id());
        assert!(first < second);
        assert_eq!(clock.now(), Timestamp::from_millis(1_000));
        clock.clone().advance(Span::seconds(1));
        assert_eq!(clock.now(), Timestamp::from_millis(2_000));
        assert!(second < clock.item_id());
        assert_eq!(
            clock.message_id("ap.example").unwrap().as_str(),
            "00000000-0000-4000-8000-000000000004@ap.example"
        );
    }

    #[test]
    fn the_ids_of_the_system_clock_sort_by_their_making() {
        let clock = Clock::system();
        let ids: Vec<ItemId> = (0..1000).map(|_| clock.item_id()).collect();
        assert!(ids.is_sorted());
        assert!(ids.windows(2).all(|pair| pair[0] != pair[1]));
        assert_ne!(clock.random_id(), clock.random_id());
        clock.advance(Span::days(1000));
        assert!(clock.now() < Timestamp::parse("2500-01-01T00:00:00Z").unwrap());
    }

    #[test]
    fn a_host_that_is_no_name_makes_no_message_id() {
        assert!(Clock::system().message_id("a b").is_err());
    }
}
