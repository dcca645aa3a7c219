//! The log on the journal, and what a start reads from it.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Wake, Waker},
};

use bytes::Bytes;

use crate::model::{ItemId, Timestamp};

use super::{
    StoreError,
    frame::{Entry, Head, IndexKey, Kind, prefix},
    inbox::DeliveryState,
    journal::{
        Class, Committed, Expiry, Frame, FrameKind, FrameRef, Journal, JournalError, Keep, Key, Location,
        PurgeBudget, PurgeStats, Ticket,
    },
    lock::lock,
    log::{Done, Met, More, Place, Purged, Verdict},
    memory::cut,
    state::State,
};

/// How often a lookup is begun again when purge takes a segment away under it.
const LOOKUPS_MAX: usize = 8;

/// The journal as log.
#[derive(Debug)]
pub(crate) struct EmbeddedLog {
    pub journal: Journal,
}

impl EmbeddedLog {
    pub(crate) fn append(&self, entries: Vec<Entry>, done: Done) {
        let ticket = self.journal.append(entries.into_iter().map(frame).collect());
        Completion::arm(ticket, done);
    }

    pub(crate) fn append_relaxed(&self, entries: Vec<Entry>) {
        if let Err(error) = self.journal.append_relaxed(entries.into_iter().map(frame).collect()) {
            tracing::warn!(%error, "a note was lost");
        }
    }

    pub(crate) fn heads(&self, key: &IndexKey) -> Result<Vec<(Place, Head)>, StoreError> {
        let key = Key(*key);
        let mut last = JournalError::Closed;
        for _ in 0..LOOKUPS_MAX {
            let read = |at: Location| Ok((Place::Embedded(at), self.read_head(at)?));
            match self.journal.find(&key)?.into_iter().map(read).collect() {
                Err(Lookup::Gone(error)) => last = error,
                Err(Lookup::Failed(error)) => return Err(error),
                Ok(heads) => return Ok(heads),
            }
        }
        Err(last.into())
    }

    fn read_head(&self, at: Location) -> Result<Head, Lookup> {
        match self.journal.read_head(at) {
            Ok(stored) => Head::decode(&stored.frame.head).map_err(Lookup::Failed),
            Err(error @ JournalError::Gone { .. }) => Err(Lookup::Gone(error)),
            Err(error) => Err(Lookup::Failed(error.into())),
        }
    }

    pub(crate) fn body(&self, at: Location, range: Range<u64>) -> Result<Bytes, StoreError> {
        cut(&self.journal.read(at)?.frame.body, range)
    }

    pub(crate) fn range(
        &self,
        prefix: u8,
        after: Option<[u8; 16]>,
        max: usize,
    ) -> Result<(Vec<[u8; 16]>, More), StoreError> {
        let from = match after.map(|after| u128::from_be_bytes(after).checked_add(1)) {
            None => [0; 16],
            Some(Some(next)) => next.to_be_bytes(),
            Some(None) => return Ok((Vec::new(), More::None)),
        };
        let found = self.journal.range(prefix, from, max)?;
        let more = if found.len() < max { More::None } else { More::Perhaps };
        let mut ids: Vec<[u8; 16]> = found.into_iter().map(|(id, _)| id).collect();
        ids.dedup();
        Ok((ids, more))
    }

    pub(crate) fn purge(
        &self,
        now: Timestamp,
        budget: PurgeBudget,
        judge: &dyn Fn(&Head, Place) -> Verdict,
    ) -> Result<Purged, StoreError> {
        let keep = |frame: &FrameRef<'_>, at: Location| match Head::decode(frame.head) {
            Ok(head) if judge(&head, Place::Embedded(at)) == Verdict::Expired => Keep::Drop,
            // What this version cannot read it does not throw away.
            _ => Keep::Forward,
        };
        let PurgeStats { segments, octets, dropped, forwarded, left } =
            self.journal.purge(now, budget, &keep)?;
        Ok(Purged { segments, octets, dropped, forwarded, left })
    }

    pub(crate) fn verify(&self, each: &mut dyn FnMut(&Met<'_>)) -> Result<Vec<String>, StoreError> {
        let mut unread = Vec::new();
        let report = self.journal.verify(&mut |frame, _| {
            let expires_at = match frame.expires {
                Expiry::At(at) => at,
                Expiry::Never => Timestamp::from_millis(u64::MAX),
            };
            match Head::decode(frame.head) {
                Ok(head) => each(&Met { head: &head, body: frame.body, expires_at }),
                Err(error) => unread.push(format!("frame {}: {error}", frame.lsn.0)),
            }
        })?;
        let faults = report
            .faults
            .iter()
            .map(|fault| format!("segment {} at {}: {}", fault.segment, fault.offset, fault.what));
        unread.extend(faults);
        Ok(unread)
    }

    pub(crate) fn accepting(&self) -> Result<(), StoreError> {
        if self.journal.accepting() {
            return Ok(());
        }
        Err(self.journal.health().failure.map_or(StoreError::Full, StoreError::from))
    }

    /// The state in memory, from the log: which items the backend has not taken, and the newest time.
    pub(crate) fn restore(&self, state: &mut State) -> Result<(), StoreError> {
        let owed = self.owed()?;
        let mut deliveries: HashMap<[u8; 16], Vec<Location>> = HashMap::new();
        self.journal.for_each_key(prefix::DELIVERY, &mut |id, at| {
            if owed.contains_key(&id) {
                deliveries.entry(id).or_default().push(at);
            }
        })?;
        for (id, at) in owed {
            let Head::Accept(accepted) = self.head_at(at)? else { continue };
            state.newest = state.newest.max(accepted.at);
            let newest = self.newest(accepted.item, deliveries.get(&id).map_or(&[], Vec::as_slice))?;
            state.board.restored(&accepted, newest);
        }
        for prefix in [prefix::ITEM, prefix::RECORD] {
            let mut last: Option<([u8; 16], Location)> = None;
            self.journal.for_each_key(prefix, &mut |id, at| last = last.max(Some((id, at))))?;
            if let Some((_, at)) = last {
                state.newest = state.newest.max(self.head_at(at)?.at());
            }
        }
        Ok(())
    }

    /// Items that entered the inbox and were not acknowledged, or were requeued after it.
    fn owed(&self) -> Result<HashMap<[u8; 16], Location>, StoreError> {
        let mut taken: Vec<[u8; 16]> = Vec::new();
        self.journal.for_each_key(prefix::TAKEN, &mut |id, _| taken.push(id))?;
        taken.sort_unstable();
        let mut again: HashSet<[u8; 16]> = HashSet::new();
        self.journal.for_each_key(prefix::REQUEUED, &mut |id, _| {
            again.insert(id);
        })?;
        let mut owed = HashMap::new();
        self.journal.for_each_key(prefix::OWED, &mut |id, at| {
            if again.contains(&id) || taken.binary_search(&id).is_err() {
                owed.insert(id, at);
            }
        })?;
        Ok(owed)
    }

    fn newest(&self, item: ItemId, places: &[Location]) -> Result<Option<DeliveryState>, StoreError> {
        let mut newest: Option<DeliveryState> = None;
        for at in places {
            if let Head::Delivery(head) = self.head_at(*at)?
                && head.item == item
                && newest.as_ref().is_none_or(|known| known.sequence < head.state.sequence)
            {
                newest = Some(head.state);
            }
        }
        Ok(newest)
    }

    fn head_at(&self, at: Location) -> Result<Head, StoreError> {
        self.read_head(at).map_err(|lookup| match lookup {
            Lookup::Gone(error) => error.into(),
            Lookup::Failed(error) => error,
        })
    }
}

enum Lookup {
    /// Purge was quicker: begin again.
    Gone(JournalError),
    Failed(StoreError),
}

impl From<JournalError> for StoreError {
    fn from(error: JournalError) -> Self {
        match error {
            JournalError::Full | JournalError::Busy => Self::Full,
            JournalError::Poisoned(why) => Self::Poisoned(why.to_string()),
            JournalError::Closed => Self::Closed,
            JournalError::TooLarge { octets, .. } => {
                Self::TooLarge { size: usize::try_from(octets).unwrap_or(usize::MAX) }
            }
            JournalError::BodyDamaged { .. }
            | JournalError::Damaged { .. }
            | JournalError::Missing { .. }
            | JournalError::FileDamaged { .. } => Self::Damaged(error.to_string()),
            _ => Self::Io(error.to_string()),
        }
    }
}

fn frame(entry: Entry) -> Frame {
    let class = match entry.kind {
        Kind::Accept | Kind::Record | Kind::Repeats => Class::New,
        Kind::Delivery | Kind::Answer => Class::Freeing,
    };
    Frame {
        kind: FrameKind(entry.kind as u8),
        class,
        received_at: entry.received_at,
        expires: Expiry::At(entry.expires_at),
        keys: entry.keys.into_iter().map(Key).collect(),
        head: entry.head.into(),
        body: entry.body.into(),
    }
}

/// Calls `done` when a ticket resolves, on the thread that resolves it: nobody has to wait for it to happen.
struct Completion {
    waiting: Mutex<Option<(Ticket, Done)>>,
}

impl Completion {
    fn arm(ticket: Ticket, done: Done) {
        let completion = Arc::new(Self { waiting: Mutex::new(Some((ticket, done))) });
        completion.look();
    }

    fn look(self: &Arc<Self>) {
        let waker = Waker::from(Arc::clone(self));
        let mut waiting = lock(&self.waiting);
        let Some((ticket, _)) = waiting.as_mut() else { return };
        let Poll::Ready(outcome) = Pin::new(ticket).poll(&mut Context::from_waker(&waker)) else { return };
        let done = waiting.take();
        drop(waiting);
        if let Some((_, done)) = done {
            done(outcome.map(|Committed { .. }| ()).map_err(StoreError::from));
        }
    }
}

impl Wake for Completion {
    fn wake(self: Arc<Self>) {
        self.look();
    }
}
