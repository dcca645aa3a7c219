//! What is noted about messages that were not accepted, and the timeline of those that were. No answer waits
//! for a note, and notes are bounded (`duplicates` §2, last rules).

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::model::{ItemId, MessageKey, Span, Timestamp};

use super::{
    DeliveryEvent, Store, StoreError,
    frame::{self, Head, prefix},
    item::{PAGE_MAX, Page},
    lock::lock,
    log::More,
    record::{Authentication, Record, RecordState, RepeatCount, RepeatsHead},
};

/// Repeats (and conflicts, and refusals) of one message that are records of their own.
pub const RECORDS_PER_MESSAGE_MAX: u64 = 1000;
/// Refusals of unauthenticated messages that are kept.
pub const CLAIMED_RECORDS_MAX: u64 = 100_000;
/// How long refusals of unauthenticated messages are kept at most.
pub const CLAIMED_RECORDS_KEPT: Span = Span::days(30);
/// Messages whose repeats are counted in memory at the same time; others are counted from the log.
const COUNTED_MAX: usize = 4096;
/// A count is written when it has grown by half, or after this time.
const COUNT_WRITTEN_EVERY: Span = Span::minutes(1);

/// What records are counted by: the state, and the first item or the claimed message.
type Counted = [u8; 17];

#[derive(Debug, Clone, Copy)]
struct Count {
    repeats: RepeatCount,
    written: u64,
    written_at: Timestamp,
    expires_at: Timestamp,
}

/// Counts of records.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    counts: HashMap<Counted, Count>,
    /// Unauthenticated refusals by day: (day, how many).
    claimed: std::collections::VecDeque<(u64, u64)>,
    /// Unauthenticated refusals that were not kept.
    pub not_kept: u64,
}

/// A line of an item's timeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When.
    pub at: Timestamp,
    /// What.
    pub kind: EventKind,
}

/// What happened to an item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// It was accepted; with what was remarkable.
    Received(Vec<super::Notice>),
    /// A repeat came and got the stored answer.
    DuplicateReceived(Box<Record>),
    /// Other content came under its MessageId.
    Conflict(Box<Record>),
    /// More repeats than are listed.
    RepeatsCounted(RepeatCount),
    /// Its answer was damaged and built anew.
    ReceiptRebuilt,
    /// Its delivery changed.
    Delivery(DeliveryEvent),
}

/// Which records are listed. What is absent matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecordQuery {
    /// In this state.
    pub state: Option<RecordState>,
    /// Noted then or later.
    pub from: Option<Timestamp>,
    /// Noted before.
    pub before: Option<Timestamp>,
    /// About this item.
    pub first: Option<ItemId>,
    /// Behind this id: the cursor of the page before.
    pub after: Option<ItemId>,
    /// At most so many, and never more than [`PAGE_MAX`].
    pub limit: usize,
}

impl RecordQuery {
    fn takes(&self, record: &Record) -> bool {
        self.state.is_none_or(|state| state == record.state)
            && self.from.is_none_or(|from| record.at >= from)
            && self.before.is_none_or(|before| record.at < before)
            && self.first.is_none_or(|first| record.first == Some(first))
    }
}

/// What becomes of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It is stored.
    Stored,
    /// It is counted, and the count is stored.
    CountStored,
    /// It is counted.
    Counted,
}

/// Whether there was room for a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    Yes,
    No,
}

impl Tally {
    /// A record is durable.
    pub(crate) fn recorded(&mut self, record: &Record) {
        if record.authentication == Authentication::Claimed {
            self.count_claimed(record.at);
        }
    }

    fn count_claimed(&mut self, at: Timestamp) {
        let day = day(at);
        match self.claimed.back_mut() {
            Some((last, count)) if *last >= day => *count += 1,
            _ => self.claimed.push_back((day, 1)),
        }
    }

    /// Room for one more at that time, if there is any.
    fn take_claimed(&mut self, at: Timestamp) -> Taken {
        let kept_days = CLAIMED_RECORDS_KEPT.as_millis() / Span::days(1).as_millis();
        while self.claimed.front().is_some_and(|(first, _)| first.saturating_add(kept_days) < day(at)) {
            self.claimed.pop_front();
        }
        let kept: u64 = self.claimed.iter().map(|(_, count)| count).sum();
        if kept >= CLAIMED_RECORDS_MAX {
            self.not_kept += 1;
            return Taken::No;
        }
        self.count_claimed(at);
        Taken::Yes
    }

    /// One more; `before` tells how many there were when memory does not know.
    fn count(&mut self, key: Counted, record: &Record, before: Option<RepeatCount>) -> Fate {
        if self.counts.len() >= COUNTED_MAX && !self.counts.contains_key(&key) {
            self.counts.clear();
        }
        let (at, expires_at) = (record.at, record.expires_at);
        let count = self.counts.entry(key).or_insert_with(|| {
            let repeats = before.unwrap_or(RepeatCount { count: 0, first_at: at, last_at: at });
            Count { repeats, written: repeats.count, written_at: at, expires_at }
        });
        count.repeats.count += 1;
        count.repeats.last_at = count.repeats.last_at.max(at);
        count.expires_at = count.expires_at.max(expires_at);
        if count.repeats.count <= RECORDS_PER_MESSAGE_MAX {
            count.written = count.repeats.count;
            return Fate::Stored;
        }
        let grown = count.repeats.count >= count.written.saturating_add(count.written / 2);
        if grown || at.since(count.written_at) >= COUNT_WRITTEN_EVERY {
            (count.written, count.written_at) = (count.repeats.count, at);
            return Fate::CountStored;
        }
        Fate::Counted
    }
}

impl Store {
    /// Notes a message that was not accepted. Nobody waits: it is durable a little later, or lost in a crash.
    /// Of one message the first [`RECORDS_PER_MESSAGE_MAX`] are stored, then only their number; of
    /// unauthenticated messages [`CLAIMED_RECORDS_MAX`] within [`CLAIMED_RECORDS_KEPT`].
    pub fn note(&self, record: Record) {
        let record = bounded(record);
        let Some(key) = counted_by(&record) else {
            self.store_record(record);
            return;
        };
        let known = lock(&self.inner.state).tally.counts.contains_key(&key);
        let before = if known { None } else { self.counted_in_log(&record) };
        let mut state = lock(&self.inner.state);
        match state.tally.count(key, &record, before) {
            Fate::Counted => {}
            Fate::Stored => {
                drop(state);
                self.store_record(record);
            }
            Fate::CountStored => {
                let count = state.tally.counts.get(&key).copied();
                drop(state);
                count.into_iter().for_each(|count| self.store_count(&record, count));
            }
        }
    }

    fn store_record(&self, record: Record) {
        {
            let mut state = lock(&self.inner.state);
            if record.authentication == Authentication::Claimed
                && state.tally.take_claimed(record.at) == Taken::No
            {
                return;
            }
            state.newest = state.newest.max(record.at);
        }
        self.store_relaxed(&Head::Record(Box::new(record)));
    }

    fn store_count(&self, record: &Record, count: Count) {
        let Some(item) = record.first else { return };
        let (repeats, expires_at) = (count.repeats, count.expires_at);
        self.store_relaxed(&Head::Repeats(Box::new(RepeatsHead {
            item,
            state: record.state,
            expires_at,
            repeats,
        })));
    }

    fn store_relaxed(&self, head: &Head) {
        match head.entry(Vec::new()) {
            Ok(entry) => self.inner.log.append_relaxed(vec![entry]),
            Err(error) => tracing::error!(%error, "a record could not be encoded"),
        }
    }

    /// How many there were by the log; none when there were none, or it cannot be read.
    fn counted_in_log(&self, record: &Record) -> Option<RepeatCount> {
        let key = match (&record.first, &record.key) {
            (Some(first), _) => frame::id(prefix::ABOUT, first),
            (None, Some(key)) => frame::attempt(key),
            (None, None) => return None,
        };
        let heads = self.inner.log.heads(&key).ok()?;
        heads.into_iter().filter_map(|(_, head)| counted(head, record.state)).fold(None, joined)
    }

    /// How often an item was repeated; none when it never was.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn repeats(&self, item: ItemId) -> Result<Option<RepeatCount>, StoreError> {
        let key = counter(RecordState::RefusedDuplicate, item.as_bytes());
        if let Some(count) = lock(&self.inner.state).tally.counts.get(&key) {
            return Ok(Some(count.repeats));
        }
        let heads = self.inner.log.heads(&frame::id(prefix::ABOUT, &item))?;
        let counts = heads.into_iter().filter_map(|(_, head)| counted(head, RecordState::RefusedDuplicate));
        Ok(counts.fold(None, joined))
    }

    /// Records in the order of their ids.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn records(&self, query: &RecordQuery) -> Result<Page<Record>, StoreError> {
        let limit = query.limit.clamp(1, PAGE_MAX);
        let (ids, more) = self.logged_ids(prefix::RECORD, query.after)?;
        let mut page = Page { items: Vec::new(), next: None };
        let last = ids.last().copied();
        for id in ids {
            if let Some(record) = self.record(id)?
                && query.takes(&record)
            {
                page.items.push(record);
            }
            if page.items.len() == limit {
                page.next = (Some(id) != last || more == More::Perhaps).then_some(id);
                return Ok(page);
            }
        }
        page.next = last.filter(|_| more == More::Perhaps);
        Ok(page)
    }

    /// A record by its id.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn record(&self, id: ItemId) -> Result<Option<Record>, StoreError> {
        let heads = self.inner.log.heads(&frame::id(prefix::RECORD, &id))?;
        Ok(heads.into_iter().find_map(|(_, head)| match head {
            Head::Record(record) if record.id == id => Some(*record),
            _ => None,
        }))
    }

    /// Earlier attempts under this key that were not accepted, oldest first.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn attempts(&self, key: &MessageKey) -> Result<Vec<Record>, StoreError> {
        let mut records: Vec<Record> = Vec::new();
        for (_, head) in self.inner.log.heads(&frame::attempt(key))? {
            if let Head::Record(record) = head
                && record.key.as_ref() == Some(key)
                && records.iter().all(|known| known.id != record.id)
            {
                records.push(*record);
            }
        }
        Ok(records)
    }

    /// The timeline of an item, oldest first; empty when there is no such item.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn events(&self, item: ItemId) -> Result<Vec<Event>, StoreError> {
        let Some((_, accepted)) = self.accepted(item)? else { return Ok(Vec::new()) };
        let mut events = vec![Event { at: accepted.at, kind: EventKind::Received(accepted.notices) }];
        let mut deliveries = Vec::new();
        for prefix in [prefix::ABOUT, prefix::ANSWER, prefix::DELIVERY] {
            for (_, head) in self.inner.log.heads(&frame::id(prefix, &item))? {
                let at = head.at();
                match head {
                    Head::Delivery(head) if head.item == item => deliveries.push(*head),
                    head => events.extend(about(head, item).map(|kind| Event { at, kind })),
                }
            }
        }
        deliveries.sort_by_key(|head| head.state.sequence);
        deliveries.dedup_by_key(|head| head.state.sequence);
        let lines =
            deliveries.into_iter().map(|head| Event { at: head.at, kind: EventKind::Delivery(head.event) });
        events.extend(lines);
        if let Some(repeats) = self.repeats(item)?
            && repeats.count > RECORDS_PER_MESSAGE_MAX
        {
            events.push(Event { at: repeats.last_at, kind: EventKind::RepeatsCounted(repeats) });
        }
        events.sort_by_key(|event| event.at);
        Ok(events)
    }

    /// Writes counts that are not yet stored: before the end.
    pub(crate) fn store_counts(&self) {
        let counts: Vec<(Counted, Count)> = {
            let mut state = lock(&self.inner.state);
            let behind =
                state.tally.counts.iter_mut().filter(|(_, count)| count.written < count.repeats.count);
            behind
                .map(|(key, count)| {
                    count.written = count.repeats.count;
                    (*key, *count)
                })
                .collect()
        };
        for (key, count) in counts {
            if let Some((item, state)) = counted_item(&key) {
                let (repeats, expires_at) = (count.repeats, count.expires_at);
                self.store_relaxed(&Head::Repeats(Box::new(RepeatsHead {
                    item,
                    state,
                    expires_at,
                    repeats,
                })));
            }
        }
    }
}

fn day(at: Timestamp) -> u64 {
    at.as_millis() / Span::days(1).as_millis()
}

/// A record of an unauthenticated message is not kept for longer than those are.
fn bounded(mut record: Record) -> Record {
    if record.authentication == Authentication::Claimed {
        record.expires_at = record.expires_at.min(record.at.plus(CLAIMED_RECORDS_KEPT));
    }
    record
}

fn about(head: Head, item: ItemId) -> Option<EventKind> {
    match head {
        Head::Record(record) if record.first == Some(item) => Some(match record.state {
            RecordState::Conflict => EventKind::Conflict(record),
            RecordState::Refused | RecordState::RefusedDuplicate => EventKind::DuplicateReceived(record),
        }),
        Head::Answer(head) if head.item == item => Some(EventKind::ReceiptRebuilt),
        _ => None,
    }
}

fn counter(state: RecordState, id: &[u8; 16]) -> Counted {
    let mut key = [state_byte(state); 17];
    key.iter_mut().skip(1).zip(id).for_each(|(to, from)| *to = *from);
    key
}

const fn state_byte(state: RecordState) -> u8 {
    match state {
        RecordState::Refused => b'r',
        RecordState::RefusedDuplicate => b'd',
        RecordState::Conflict => b'c',
    }
}

/// What a record is counted by; none: it is not (its message is unknown).
fn counted_by(record: &Record) -> Option<Counted> {
    match (&record.first, &record.key) {
        (Some(first), _) => Some(counter(record.state, first.as_bytes())),
        (None, Some(key)) => {
            let [_, id @ ..] = frame::attempt(key);
            Some(counter(record.state, &id))
        }
        (None, None) => None,
    }
}

/// The item that a counter is of, and what it counts; none for a counter of refusals.
fn counted_item(key: &Counted) -> Option<(ItemId, RecordState)> {
    let [state, id @ ..] = *key;
    let state = match state {
        b'd' => RecordState::RefusedDuplicate,
        b'c' => RecordState::Conflict,
        _ => return None,
    };
    Some((ItemId::from_uuid(uuid::Uuid::from_bytes(id)), state))
}

/// What a frame says of the number of records in `state`.
fn counted(head: Head, state: RecordState) -> Option<RepeatCount> {
    match head {
        Head::Record(record) if record.state == state => {
            Some(RepeatCount { count: 1, first_at: record.at, last_at: record.at })
        }
        Head::Repeats(head) if head.state == state => Some(head.repeats),
        _ => None,
    }
}

/// Single records add up; a stored count is of all records before it.
fn joined(sum: Option<RepeatCount>, next: RepeatCount) -> Option<RepeatCount> {
    let Some(sum) = sum else { return Some(next) };
    let count = if next.count > 1 { sum.count.max(next.count) } else { sum.count.saturating_add(1) };
    Some(RepeatCount {
        count,
        first_at: sum.first_at.min(next.first_at),
        last_at: sum.last_at.max(next.last_at),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_of_strangers_are_kept_up_to_the_limit_and_again_when_the_old_are_past() {
        let mut tally = Tally::default();
        let day = |n| Timestamp::default().plus(Span::days(n));
        for n in 0..CLAIMED_RECORDS_MAX {
            assert_eq!(tally.take_claimed(day(100 + n % 2)), Taken::Yes);
        }
        assert_eq!((tally.take_claimed(day(102)), tally.not_kept), (Taken::No, 1));
        assert_eq!((tally.take_claimed(day(130)), tally.not_kept), (Taken::No, 2));
        assert_eq!((tally.take_claimed(day(131)), tally.not_kept), (Taken::Yes, 2));
    }
}
