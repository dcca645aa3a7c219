//! The duplicate decision (AS4 §3.2): what a message is to what the log knows.
//!
//! Guarantees: the same key and content is never processed twice within its window; the same key with other
//! content never gets a receipt; another party's receipt is never handed out. The decision is pure. It must be
//! taken in the transaction that claims the key: the store gives `Changed` when the records it was taken
//! on are no longer the records there.

mod same;

#[cfg(test)]
mod tests;

use super::{Admitted, Notice, Opened};
use crate::model::{ContentRecord, ItemId, MessageKey, Scope, Seen, Span, Timestamp};

/// An authenticated message, as far as the decision needs it. In the product it is made of an [`Admitted`]
/// only, see [`Admitted::arrival`]; its fields are open so that simulations can do without cryptography.
#[derive(Debug, Clone, Copy)]
pub struct Arrival<'a> {
    /// Its key.
    pub key: &'a MessageKey,
    /// What its content is judged by.
    pub content: &'a ContentRecord,
    /// `eb:Timestamp`, by the sender's clock.
    pub timestamp: Timestamp,
    /// The scope of its P-Mode.
    pub scope: Scope,
    /// The window that holds for it now.
    pub window: Span,
}

/// What the log knows that may concern the message.
#[derive(Debug, Clone, Copy, Default)]
pub struct Memory<'a> {
    /// Accepted messages with the key; in scope `id` also those of other senders with the MessageId.
    pub seen: &'a [Seen],
    /// Keys of other senders with the MessageId, from the index by MessageId alone.
    pub others: &'a [MessageKey],
    /// Which item of this sender was accepted with the very SignatureValue.
    pub signature_used_by: Option<ItemId>,
}

impl<'a> Memory<'a> {
    /// Records only.
    #[must_use]
    pub const fn of(seen: &'a [Seen]) -> Self {
        Self { seen, others: &[], signature_used_by: None }
    }
}

/// What is to be done. `index` points into [`Memory::seen`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// A first message.
    Process(Vec<Notice>),
    /// A repeat: the stored answer of that message goes out again; nothing is decrypted or delivered.
    Replay {
        /// The first message.
        index: usize,
        /// What the repeat is flagged with.
        notices: Vec<Notice>,
    },
    /// Only the attachments' digests differ: open the payload, then [`decide_opened`].
    LookCloser {
        /// The message it may be a repeat of.
        index: usize,
    },
    /// The id was used with other content, or (scope `id`) by another party: EBMS:0003, nothing delivered.
    Conflict {
        /// The message that has the id.
        index: usize,
    },
    /// The signature was accepted under another key: EBMS:0101, nothing delivered.
    ReplayedSignature {
        /// The message it was accepted with.
        item: ItemId,
    },
    /// The signer is no longer good, and this is no repeat of what it signed when it was.
    SignerNotGood,
}

/// Decides about an authenticated message before anything is decrypted.
#[must_use]
pub fn decide(admitted: &Admitted, memory: &Memory<'_>, now: Timestamp) -> Decision {
    restrict(admitted, judge(&admitted.arrival(), memory, now))
}

/// Decides about a message whose payload was opened because of [`Decision::LookCloser`]. Never `LookCloser`.
#[must_use]
pub fn decide_opened(admitted: &Admitted, opened: &Opened, memory: &Memory<'_>, now: Timestamp) -> Decision {
    let arrival = Arrival { content: opened.content(), ..admitted.arrival() };
    restrict(admitted, judge_opened(&arrival, memory, now))
}

/// A signer that is no longer good may repeat and nothing else (`duplicates` §2).
fn restrict(admitted: &Admitted, decision: Decision) -> Decision {
    match decision {
        Decision::Process(_) | Decision::Conflict { .. } if admitted.may_only_repeat() => {
            Decision::SignerNotGood
        }
        Decision::Process(mut notices) => {
            notices.extend(admitted.notices());
            Decision::Process(notices)
        }
        Decision::Replay { index, mut notices } if admitted.may_only_repeat() => {
            notices.push(Notice::SignerGoodAtFirst);
            Decision::Replay { index, notices }
        }
        decision => decision,
    }
}

/// [`decide`] on the bare values.
#[must_use]
pub fn judge(arrival: &Arrival<'_>, memory: &Memory<'_>, now: Timestamp) -> Decision {
    if let Some(item) = replayed_signature(arrival, memory) {
        return Decision::ReplayedSignature { item };
    }
    let mut closer = None;
    let mut other = None;
    for (index, first) in own_live(arrival, memory, now) {
        match same::compare(&first.content, arrival.content) {
            same::Comparison::Same => return replay(index, first, arrival, None),
            same::Comparison::AttachmentsDiffer => closer = closer.or(Some(index)),
            same::Comparison::Other => other = other.or(Some(index)),
        }
    }
    match (closer, other) {
        (Some(index), _) => Decision::LookCloser { index },
        (None, Some(index)) if arrival.scope != Scope::PartyIdPayload => Decision::Conflict { index },
        _ => as_new(arrival, memory, now),
    }
}

/// [`decide_opened`] on the bare values: `arrival.content` knows document and envelope.
#[must_use]
pub fn judge_opened(arrival: &Arrival<'_>, memory: &Memory<'_>, now: Timestamp) -> Decision {
    if let Some(item) = replayed_signature(arrival, memory) {
        return Decision::ReplayedSignature { item };
    }
    let mut other = None;
    for (index, first) in own_live(arrival, memory, now) {
        match same::compare(&first.content, arrival.content) {
            same::Comparison::Same => return replay(index, first, arrival, None),
            same::Comparison::AttachmentsDiffer if same::opened(&first.content, arrival.content) => {
                return replay(index, first, arrival, Some(Notice::RepeatRewrapped));
            }
            _ => other = other.or(Some(index)),
        }
    }
    match other {
        Some(index) if arrival.scope != Scope::PartyIdPayload => Decision::Conflict { index },
        _ => as_new(arrival, memory, now),
    }
}

/// When the window of a message ends that was accepted at `accepted_at`.
#[must_use]
pub fn expires_at(accepted_at: Timestamp, window: Span) -> Timestamp {
    accepted_at.plus(window)
}

/// Whether a record still counts: of the window that held at acceptance and the one that holds now, the
/// longer decides, both counted from the acceptance. The last instant of the window is inside.
#[must_use]
pub fn is_live(first: &Seen, window: Span, now: Timestamp) -> bool {
    now <= first.expires_at.max(expires_at(first.accepted_at, window))
}

/// The live records of this very key, with their place in `memory.seen`.
fn own_live<'m>(
    arrival: &'m Arrival<'_>,
    memory: &Memory<'m>,
    now: Timestamp,
) -> impl Iterator<Item = (usize, &'m Seen)> {
    let seen = memory.seen;
    let own = move |first: &Seen| first.key == *arrival.key && is_live(first, arrival.window, now);
    seen.iter().enumerate().filter(move |(_, first)| own(first))
}

fn replay(index: usize, first: &Seen, arrival: &Arrival<'_>, flag: Option<Notice>) -> Decision {
    let resigned = (first.content.messaging != arrival.content.messaging).then_some(Notice::RepeatResigned);
    Decision::Replay { index, notices: resigned.into_iter().chain(flag).collect() }
}

/// The item that has the signature, unless it is one of this key: then the message is a repeat, or comes
/// after the window, with which the record of its signature ends.
fn replayed_signature(arrival: &Arrival<'_>, memory: &Memory<'_>) -> Option<ItemId> {
    let own = |item: ItemId| memory.seen.iter().any(|first| first.item == item && first.key == *arrival.key);
    memory.signature_used_by.filter(|item| !own(*item))
}

/// No live record of this key and content: a first message, unless another party has the id in scope `id`.
fn as_new(arrival: &Arrival<'_>, memory: &Memory<'_>, now: Timestamp) -> Decision {
    let foreign = |first: &Seen| {
        first.key.sender != arrival.key.sender
            && first.key.message_id == arrival.key.message_id
            && first.key.tenant == arrival.key.tenant
    };
    let held = |first: &Seen| foreign(first) && is_live(first, arrival.window, now);
    if let (Scope::Id, Some(index)) = (arrival.scope, memory.seen.iter().position(held)) {
        return Decision::Conflict { index };
    }
    let mut notices = Vec::new();
    let expired = |first: &Seen| {
        let counts = first.key == *arrival.key || (arrival.scope == Scope::Id && foreign(first));
        counts && !is_live(first, arrival.window, now)
    };
    if memory.seen.iter().any(expired) || arrival.timestamp.plus(arrival.window) < now {
        notices.push(Notice::RepeatOutsideWindow);
    }
    let others = memory.others.iter().any(|key| key.sender != arrival.key.sender);
    if others || memory.seen.iter().any(foreign) {
        notices.push(Notice::IdSeenFromOtherParty);
    }
    Decision::Process(notices)
}
