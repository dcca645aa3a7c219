//! Purge, verification, health, the end.

use std::sync::Mutex;

use crate::model::{Digest, ItemId, Span, Timestamp};

use super::{
    Store, StoreError,
    frame::{self, Head, prefix},
    journal,
    lock::lock,
    log::{Log, Met, Place, Verdict},
    record::{AcceptHead, PayloadPlace},
};

pub use super::journal::PurgeBudget;

/// A clock further ahead of the newest record than this is not trusted to purge by (`duplicates` §1).
pub const CLOCK_AHEAD_MAX: Span = Span::days(1);
/// Most findings that a verification lists.
pub const FINDINGS_MAX: usize = 1000;

/// Who asks for a purge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purge {
    /// The schedule: not while the clock is more than [`CLOCK_AHEAD_MAX`] ahead of the newest record.
    Scheduled,
    /// An operator.
    Forced,
}

/// What a purge may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PurgeOrder {
    /// The time.
    pub now: Timestamp,
    /// How much at once.
    pub budget: PurgeBudget,
    /// Who asks.
    pub purge: Purge,
    /// Acceptances are kept for at least so long, whatever window they were accepted under: the shortest
    /// window that is configured now.
    pub window_min: Span,
}

/// What is due, before a purge.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PurgePreview {
    /// Accepted messages that are out of their window and taken by the backend. They go with the segment that
    /// holds them, once that holds nothing newer.
    pub messages: u64,
    /// Records of other messages that are no longer kept.
    pub records: u64,
    /// Messages out of their window that stay, because the backend has not taken them.
    pub not_taken: u64,
}

/// What a purge did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PurgeStats {
    /// Frames that went.
    pub dropped: u64,
    /// Frames copied forward because they are still needed.
    pub forwarded: u64,
    /// Journal segments removed.
    pub segments: u64,
    /// Octets given back by the journal.
    pub octets: u64,
    /// Payload files removed.
    pub payload_files: u64,
    /// Segments that are due and were left for the next time.
    pub left: u64,
    /// Whether it did not run because of the clock.
    pub clock_ahead: bool,
}

/// What a verification found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Accepted messages, each once.
    pub accepted: u64,
    /// Frames read, copies included.
    pub frames: u64,
    /// The first [`FINDINGS_MAX`] findings; empty when all is well.
    pub findings: Vec<String>,
}

/// How the store is doing.
#[derive(Debug, Clone)]
pub struct Health {
    /// Whether new messages are taken, or why not.
    pub accepting: Result<(), StoreError>,
    /// Items that the backend has not taken.
    pub open_items: usize,
    /// When the oldest of them was received.
    pub oldest_open: Option<Timestamp>,
    /// Ids being worked on.
    pub claims: usize,
    /// Refusals of unauthenticated messages that were not kept since the start.
    pub records_not_kept: u64,
    /// The journal; none for the memory backend.
    pub journal: Option<journal::Health>,
}

impl Store {
    /// Removes what is expired, within a budget. What is inside its window, or not yet taken by the backend,
    /// stays (`duplicates` §5, invariant 9).
    ///
    /// # Errors
    /// When the disk fails; what was done stays done.
    pub fn purge(&self, order: &PurgeOrder) -> Result<PurgeStats, StoreError> {
        let newest = lock(&self.inner.state).newest;
        if newest == Timestamp::default() {
            // Nothing was ever recorded, so nothing can be purged and no clock be wrong.
            return Ok(PurgeStats::default());
        }
        if order.purge == Purge::Scheduled && order.now > newest.plus(CLOCK_AHEAD_MAX) {
            return Ok(PurgeStats { clock_ahead: true, ..PurgeStats::default() });
        }
        let files = Mutex::new(Vec::new());
        let judge = |head: &Head, place: Place| {
            let verdict = self.judge(head, place, order);
            if verdict == Verdict::Expired
                && let Some((item, name)) = payload_file(head)
            {
                lock(&files).push((item, name));
            }
            verdict
        };
        let purged = self.inner.log.purge(order.now, order.budget, &judge)?;
        self.inner.answers.clear();
        let names = std::mem::take(&mut *lock(&files));
        let payload_files = self.remove_files(names)?;
        Ok(PurgeStats {
            dropped: purged.dropped,
            forwarded: purged.forwarded,
            segments: purged.segments,
            octets: purged.octets,
            payload_files,
            left: purged.left,
            clock_ahead: false,
        })
    }

    fn judge(&self, head: &Head, place: Place, order: &PurgeOrder) -> Verdict {
        let needed = match head {
            Head::Accept(head) => Ok(self.is_needed(head, order)),
            // What changes an item lives as long as the item: an acknowledgement must not go first.
            Head::Delivery(head) => self.outlives(head.item, place, order),
            Head::Answer(head) => self.outlives(head.item, place, order),
            Head::Record(_) | Head::Repeats(_) => Ok(false),
        };
        match needed {
            Ok(false) if head.expires_at() <= order.now => Verdict::Expired,
            // What cannot be judged stays.
            _ => Verdict::Live,
        }
    }

    fn is_needed(&self, head: &AcceptHead, order: &PurgeOrder) -> bool {
        let state = lock(&self.inner.state);
        in_window(head, order) || state.board.get(&head.item).is_some() || state.busy.contains(&head.item)
    }

    /// Whether an acceptance of the item stays behind when the segment of `place` is gone.
    fn outlives(&self, item: ItemId, place: Place, order: &PurgeOrder) -> Result<bool, StoreError> {
        for (other, head) in self.inner.log.heads(&frame::id(prefix::ITEM, &item))? {
            if let Head::Accept(head) = head
                && head.item == item
                && (!same_segment(place, other) || self.is_needed(&head, order))
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Removes payload files whose acceptance is gone.
    pub(crate) fn remove_files(&self, names: Vec<(ItemId, String)>) -> Result<u64, StoreError> {
        let mut removed = 0;
        for (item, name) in names {
            if self.accepted(item)?.is_none() {
                self.inner.payloads.remove(&name).map_err(|error| StoreError::Io(error.to_string()))?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// What a purge would find due: reads the whole log.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn purge_preview(&self, order: &PurgeOrder) -> Result<PurgePreview, StoreError> {
        let mut preview = PurgePreview::default();
        let mut seen = std::collections::HashSet::new();
        self.inner.log.verify(&mut |met| match met.head {
            // Frames may stand twice: count messages.
            Head::Accept(head) if in_window(head, order) || !seen.insert(head.item) => {}
            Head::Accept(head) => match lock(&self.inner.state).board.get(&head.item) {
                Some(_) => preview.not_taken += 1,
                None => preview.messages += 1,
            },
            Head::Record(record) if record.expires_at <= order.now && seen.insert(record.id) => {
                preview.records += 1;
            }
            _ => {}
        })?;
        Ok(preview)
    }

    /// Removes the payload file of an acceptance that was not written.
    pub(crate) fn forget_file(&self, head: &Head) {
        if let Some((_, name)) = payload_file(head)
            && let Err(error) = self.inner.payloads.remove(&name)
        {
            tracing::warn!(name, %error, "a payload file nobody needs was not removed");
        }
    }

    /// Reads everything and compares it with its checksums, payload files included.
    ///
    /// # Errors
    /// When the disk fails. Damage is in the report.
    pub fn verify(&self) -> Result<VerifyReport, StoreError> {
        let mut report = VerifyReport::default();
        let mut accepted: std::collections::HashMap<ItemId, Timestamp> = std::collections::HashMap::new();
        let mut changes: Vec<(ItemId, Timestamp)> = Vec::new();
        let unread = self.inner.log.verify(&mut |met| {
            report.frames += 1;
            match met.head {
                Head::Accept(head) => {
                    accepted.insert(head.item, met.expires_at);
                    self.verify_accepted(head, met, &mut report.findings);
                }
                Head::Delivery(head) => changes.push((head.item, met.expires_at)),
                Head::Answer(head) => {
                    changes.push((head.item, met.expires_at));
                    if Digest::of(met.body) != head.answer.sha256 {
                        report.findings.push(format!("item {}: the replaced answer is damaged", head.item));
                    }
                }
                Head::Record(_) | Head::Repeats(_) => {}
            }
            report.findings.truncate(FINDINGS_MAX);
        })?;
        report.accepted = accepted.len() as u64;
        // Storage §3.3, I10: what changes an item expires no earlier than the item.
        let early =
            changes.iter().filter(|(item, at)| accepted.get(item).is_some_and(|expires| at < expires));
        let early = early.map(|(item, _)| format!("item {item}: a change of it expires before it"));
        report.findings.extend(early);
        report.findings.extend(unread);
        report.findings.truncate(FINDINGS_MAX);
        Ok(report)
    }

    fn verify_accepted(&self, head: &AcceptHead, met: &Met<'_>, findings: &mut Vec<String>) {
        let section = |from: u64, size: u64| {
            let (from, size) = (usize::try_from(from).ok()?, usize::try_from(size).ok()?);
            met.body.get(from..from.checked_add(size)?)
        };
        if section(0, head.sections.answer).map(Digest::of) != Some(head.answer.sha256) {
            findings.push(format!("item {}: the answer is damaged", head.item));
        }
        let Some(payload) = &head.payload else { return };
        let sha256 = match &payload.place {
            PayloadPlace::Inline => section(head.sections.end(), payload.size).map(Digest::of),
            PayloadPlace::File(name) => self.inner.payloads.digest(name, payload.size).ok(),
        };
        if sha256 != Some(payload.sha256) {
            findings.push(format!("item {}: the payload is damaged or missing", head.item));
        }
    }

    /// Whether a new message can be taken: the rule about free space, and no failure so far.
    #[must_use]
    pub fn accepting(&self) -> bool {
        self.accepts_new().is_ok()
    }

    pub(crate) fn accepts_new(&self) -> Result<(), StoreError> {
        self.inner.log.accepting()
    }

    /// How the store is doing.
    #[must_use]
    pub fn health(&self) -> Health {
        let journal = match &self.inner.log {
            Log::Memory(_) => None,
            Log::Embedded(log) => Some(log.journal.health()),
        };
        let state = lock(&self.inner.state);
        Health {
            accepting: self.accepts_new(),
            open_items: state.board.len(),
            oldest_open: state.board.oldest(),
            claims: self.inner.claims.len(),
            records_not_kept: state.tally.not_kept,
            journal,
        }
    }

    /// Resolves when the log failed for good: the process must end then (`storage` §3.3, I8).
    pub async fn failed(&self) -> StoreError {
        match &self.inner.log {
            Log::Memory(_) => std::future::pending().await,
            Log::Embedded(log) => log.journal.failure().await.into(),
        }
    }

    /// Throws the index away and fills a new one in the background.
    pub fn rebuild_index(&self) {
        if let Log::Embedded(log) = &self.inner.log {
            log.journal.rebuild_index();
        }
    }

    /// With [`journal::Work::Pumped`]: does all that is queued, on this thread.
    pub fn pump(&self) {
        if let Log::Embedded(log) = &self.inner.log {
            log.journal.pump();
        }
    }

    /// Writes what nobody waited for, and takes nothing more.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn close(&self) -> Result<(), StoreError> {
        self.store_counts();
        match &self.inner.log {
            Log::Memory(log) => {
                log.set_fault(Some(StoreError::Closed));
                Ok(())
            }
            Log::Embedded(log) => Ok(log.journal.close()?),
        }
    }
}

/// By the window it was accepted under, or by the shortest of now: the longer holds.
fn in_window(head: &AcceptHead, order: &PurgeOrder) -> bool {
    head.expires_at.max(head.at.plus(order.window_min)) > order.now
}

fn same_segment(one: Place, other: Place) -> bool {
    match (one, other) {
        (Place::Embedded(one), Place::Embedded(other)) => one.segment == other.segment,
        // In memory frames go one by one, oldest first: an acceptance goes before its changes.
        _ => false,
    }
}

fn payload_file(head: &Head) -> Option<(ItemId, String)> {
    let Head::Accept(head) = head else { return None };
    match &head.payload.as_ref()?.place {
        PayloadPlace::File(name) => Some((head.item, name.clone())),
        PayloadPlace::Inline => None,
    }
}
