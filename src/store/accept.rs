//! Claiming a MessageId, and accepting a message under it: the one step in which key, answer, payload and
//! inbox entry become durable together (`duplicates` §5, invariants 1 and 3).

use tokio::sync::oneshot;

use crate::model::{ItemId, MessageKey, Scope, Seen, Span, Timestamp};

use super::{
    AcceptError, Acceptance, Busy, Store, StoreError,
    claims::{Hold, Taken},
    frame::{Entry, Head},
    lock::lock,
    log::Done,
    payload::{Payload, PayloadBytes},
    record::{AcceptHead, AnswerHead, PayloadHead, PayloadPlace, Sections},
};

/// What asking for a MessageId gave.
#[derive(Debug)]
pub enum Claim {
    /// The id is ours until the fence is dropped or its acceptance is committed.
    Won(Fence),
    /// Somebody is working on it: wait for the end, then read the log again.
    Busy(Busy),
    /// The log knows more than the caller did: read it again.
    Changed,
}

/// The right to accept one message under its key. Dropping it gives the id back.
#[derive(Debug)]
pub struct Fence {
    store: Store,
    hold: Hold,
    scope: Scope,
    known: Vec<ItemId>,
    taken_over: Option<Timestamp>,
}

impl Store {
    /// Asks for the id of a message, given what the caller has `seen` of it in the log. A claim that has been
    /// held for `takeover_after` is taken over, unless its commit is under way.
    ///
    /// # Errors
    /// When no new message can be taken, or the log cannot be read; no id is taken then.
    pub fn claim(
        &self,
        key: &MessageKey,
        scope: Scope,
        known: &[Seen],
        now: Timestamp,
        takeover_after: Span,
    ) -> Result<Claim, StoreError> {
        self.accepts_new()?;
        let (hold, taken_over) = match self.inner.claims.take(key, scope, now, takeover_after) {
            Taken::Ours(hold, taken_over) => (hold, taken_over),
            Taken::Theirs(busy) => return Ok(Claim::Busy(busy)),
        };
        let known = items(known);
        // Whoever held the id since the caller read the log may have accepted; nobody can from here on.
        if items(&self.seen(key, scope)?) != known {
            return Ok(Claim::Changed);
        }
        Ok(Claim::Won(Fence { store: self.clone(), hold, scope, known, taken_over }))
    }
}

impl Fence {
    /// Since when somebody else had held the id, when it was taken over (*`taken_over`*).
    #[must_use]
    pub const fn taken_over(&self) -> Option<Timestamp> {
        self.taken_over
    }

    /// Accepts: when this returns `Ok`, everything is durable and the answer may go out. When the caller goes
    /// away in between, the commit takes its course all the same.
    ///
    /// # Errors
    /// When the id was taken over, the signature was used before, or the log failed: nothing of it is stored
    /// and the id is given back.
    pub async fn accept(self, acceptance: Acceptance) -> Result<(), AcceptError> {
        self.hold.commit().map_err(|_| AcceptError::Fenced)?;
        if items(&self.store.seen(self.hold.key(), self.scope)?) != self.known {
            return Err(AcceptError::Fenced);
        }
        let reserved = self.reserve_signature(&acceptance)?;
        let hears = self.commit(acceptance, reserved)?;
        hears.await.unwrap_or(Err(StoreError::Closed)).map_err(AcceptError::Store)
    }

    /// Each SignatureValue is accepted once per sender (`duplicates` §2, *Replayed signature*).
    fn reserve_signature(&self, acceptance: &Acceptance) -> Result<Reserved, AcceptError> {
        let key = self.hold.key();
        let signature = (key.sender.clone(), acceptance.content.signature);
        let reserved = {
            let mut signatures = lock(&self.store.inner.signatures);
            if let Some(other) = signatures.get(&signature) {
                return Err(AcceptError::SignatureUsed(*other));
            }
            signatures.insert(signature.clone(), acceptance.item);
            Reserved { store: self.store.clone(), signature }
        };
        let window = acceptance.expires_at.since(acceptance.at);
        let used = self.store.signatures(&key.sender, &acceptance.content.signature)?;
        let other = used.iter().find(|seen| {
            seen.key != *key && seen.expires_at.max(seen.accepted_at.plus(window)) > acceptance.at
        });
        match other {
            Some(seen) => Err(AcceptError::SignatureUsed(seen.item)),
            None => Ok(reserved),
        }
    }

    fn commit(self, acceptance: Acceptance, reserved: Reserved) -> Result<Pending, StoreError> {
        let (told, hears) = oneshot::channel();
        let (head, entry) = frame(self.hold.key().clone(), self.scope, acceptance)?;
        let Self { store, hold, .. } = self;
        let inner = store.inner.clone();
        let done: Done = Box::new(move |result| {
            match &result {
                Ok(()) => {
                    lock(&store.inner.state).apply(&head);
                    store.inner.changed.send_modify(|version| *version += 1);
                }
                // Nothing was written: nothing will ever name its payload file.
                Err(StoreError::Full) => store.forget_file(&head),
                Err(_) => {}
            }
            // The log knows the message before its claim ends.
            drop((reserved, hold));
            // Nobody listens when the caller went away; the acceptance stands all the same.
            let _gone = told.send(result);
        });
        inner.log.append(vec![entry], done);
        Ok(hears)
    }
}

type Pending = oneshot::Receiver<Result<(), StoreError>>;

/// A signature on its way into the log.
#[derive(Debug)]
struct Reserved {
    store: Store,
    signature: super::SignatureKey,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        lock(&self.store.inner.signatures).remove(&self.signature);
    }
}

/// The frame of an acceptance. From here on a payload file is the log's.
fn frame(key: MessageKey, scope: Scope, acceptance: Acceptance) -> Result<(Head, Entry), StoreError> {
    let headers =
        serde_json::to_vec(&acceptance.headers).map_err(|error| StoreError::Damaged(error.to_string()))?;
    let sections = Sections {
        answer: acceptance.answer.body.len() as u64,
        certificate: acceptance.certificate.len() as u64,
        headers: headers.len() as u64,
        envelope: acceptance.envelope.len() as u64,
    };
    let answer = AnswerHead::of(&acceptance.answer);
    let mut body =
        [&acceptance.answer.body[..], &acceptance.certificate, &headers, &acceptance.envelope].concat();
    let payload = acceptance.payload.map(|payload| stored(payload, &mut body));
    let head = Head::Accept(Box::new(AcceptHead {
        item: acceptance.item,
        key,
        scope,
        at: acceptance.at,
        expires_at: acceptance.expires_at,
        content: acceptance.content,
        answer,
        payload,
        delivery: acceptance.delivery,
        meta: acceptance.meta,
        notices: acceptance.notices,
        sections,
    }));
    let entry = head.entry(body)?;
    Ok((head, entry))
}

fn stored(payload: Payload, body: &mut Vec<u8>) -> PayloadHead {
    let (size, sha256) = (payload.size(), payload.sha256());
    let place = match payload.into_bytes() {
        PayloadBytes::Inline(bytes) => {
            body.extend_from_slice(&bytes);
            PayloadPlace::Inline
        }
        PayloadBytes::File(name) => PayloadPlace::File(name),
    };
    PayloadHead { place, size, sha256 }
}

fn items(seen: &[Seen]) -> Vec<ItemId> {
    let mut items: Vec<ItemId> = seen.iter().map(|seen| seen.item).collect();
    items.sort_unstable();
    items
}
