//! What the log knows of a message. A key that is found is only a hint: it is compared whole with the head
//! of the frame, so a wrong index entry never yields a wrong receipt.

use bytes::Bytes;

use crate::model::{Answer, Digest, ItemId, MessageKey, PartyId, Scope, Seen, Timestamp};

use super::{
    AnswerError, Store, StoreError,
    frame::{self, Head, IndexKey, prefix},
    item::unreadable,
    lock::lock,
    log::{Done, Place},
    record::{AcceptHead, AnswerHead, AnswerReplaced},
};

impl Store {
    /// What was accepted under this key, oldest first, also when its window is over: the caller judges windows.
    /// With scope `id`, whoever in the tenant sent it; otherwise from this sender.
    ///
    /// # Errors
    /// When the log cannot be read: nothing may be decided then.
    pub fn seen(&self, key: &MessageKey, scope: Scope) -> Result<Vec<Seen>, StoreError> {
        match scope {
            Scope::Id => self.matching(&frame::message_id(&key.tenant, &key.message_id), |known| {
                known.tenant == key.tenant && known.message_id == key.message_id
            }),
            Scope::PartyId | Scope::PartyIdPayload => {
                self.matching(&frame::message(key), |known| known == key)
            }
        }
    }

    /// What other senders of the tenant sent under the same MessageId (*`id_seen_from_other_party`*).
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn seen_from_others(&self, key: &MessageKey) -> Result<Vec<Seen>, StoreError> {
        let mut seen = self.seen(key, Scope::Id)?;
        seen.retain(|seen| seen.key.sender != key.sender);
        Ok(seen)
    }

    /// The item that was accepted with this very signature under another key and is in its window.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn signature_used(
        &self,
        key: &MessageKey,
        signature: &Digest,
        now: Timestamp,
    ) -> Result<Option<ItemId>, StoreError> {
        let used = self.signatures(&key.sender, signature)?;
        Ok(used.into_iter().find(|seen| seen.key != *key && seen.expires_at > now).map(|seen| seen.item))
    }

    /// Everything that was accepted with this signature from this sender.
    pub(crate) fn signatures(&self, sender: &PartyId, signature: &Digest) -> Result<Vec<Seen>, StoreError> {
        let mut seen = self.matching(&frame::signature(sender, signature), |key| key.sender == *sender)?;
        seen.retain(|seen| seen.content.signature == *signature);
        Ok(seen)
    }

    fn matching(
        &self,
        key: &IndexKey,
        is_meant: impl Fn(&MessageKey) -> bool,
    ) -> Result<Vec<Seen>, StoreError> {
        let mut seen: Vec<Seen> = Vec::new();
        for (_, head) in self.inner.log.heads(key)? {
            if let Head::Accept(head) = head
                && is_meant(&head.key)
                && seen.iter().all(|known| known.item != head.item)
            {
                seen.push(head.seen());
            }
        }
        seen.sort_by_key(|seen| (seen.accepted_at, seen.item));
        Ok(seen)
    }

    /// The acceptance of an item; the newest copy of it.
    pub(crate) fn accepted(&self, item: ItemId) -> Result<Option<(Place, AcceptHead)>, StoreError> {
        for (place, head) in self.inner.log.heads(&frame::id(prefix::ITEM, &item))?.into_iter().rev() {
            if let Head::Accept(head) = head
                && head.item == item
            {
                return Ok(Some((place, *head)));
            }
        }
        Ok(None)
    }

    /// The answer that the item got: the same bytes each time.
    ///
    /// # Errors
    /// `Unreadable` when its bytes are damaged: a new receipt is to be built and given to
    /// [`Self::replace_answer`]. `Gone` when there is no such item.
    pub fn answer(&self, item: ItemId) -> Result<Answer, AnswerError> {
        if let Some(answer) = self.inner.answers.find(item) {
            return Ok(answer);
        }
        let (place, head) = self.accepted(item)?.ok_or(AnswerError::Gone)?;
        let answer = match self.replaced(item)? {
            Some((place, replaced)) => self.read_answer(place, &replaced.answer, u64::MAX),
            None => self.read_answer(place, &head.answer, head.sections.answer),
        }?;
        self.inner.answers.put(item, &answer);
        Ok(answer)
    }

    fn read_answer(&self, place: Place, head: &AnswerHead, size: u64) -> Result<Answer, AnswerError> {
        let body = self.inner.log.body(place, 0..size).map_err(unreadable)?;
        head.with(body).ok_or(AnswerError::Unreadable)
    }

    fn replaced(&self, item: ItemId) -> Result<Option<(Place, AnswerReplaced)>, StoreError> {
        let mut newest: Option<(Place, AnswerReplaced)> = None;
        for (place, head) in self.inner.log.heads(&frame::id(prefix::ANSWER, &item))? {
            if let Head::Answer(head) = head
                && head.item == item
                && newest.as_ref().is_none_or(|(_, known)| known.at <= head.at)
            {
                newest = Some((place, *head));
            }
        }
        Ok(newest)
    }

    /// Stores `answer` for an item whose answer is unreadable, and returns what is the answer from now on:
    /// when somebody else was quicker, theirs (*`receipt_rebuilt`*).
    ///
    /// # Errors
    /// When there is no such item, or it could not be made durable.
    pub async fn replace_answer(
        &self,
        item: ItemId,
        answer: Answer,
        now: Timestamp,
    ) -> Result<Answer, AnswerError> {
        loop {
            let mut changes = self.changes();
            if lock(&self.inner.state).busy.insert(item) {
                break;
            }
            if changes.changed().await.is_err() {
                return Err(StoreError::Closed.into());
            }
        }
        let stored = self.answer(item);
        if !matches!(stored, Err(AnswerError::Unreadable)) {
            self.unmark(item);
            return stored;
        }
        self.write_answer(item, &answer, now).await?;
        Ok(answer)
    }

    /// With the item marked busy.
    async fn write_answer(&self, item: ItemId, answer: &Answer, now: Timestamp) -> Result<(), AnswerError> {
        let entry = self.accepted(item).and_then(|accepted| {
            let head = Head::Answer(Box::new(AnswerReplaced {
                item,
                at: now,
                expires_at: accepted.map(|(_, head)| head.expires_at).unwrap_or_default(),
                answer: AnswerHead::of(answer),
            }));
            head.entry(Bytes::clone(&answer.body).into())
        });
        let (told, hears) = tokio::sync::oneshot::channel();
        let store = self.clone();
        let done: Done = Box::new(move |result| {
            store.unmark(item);
            // Nobody listens when the caller went away; the answer stands all the same.
            let _gone = told.send(result);
        });
        match entry {
            Ok(entry) => self.inner.log.append(vec![entry], done),
            Err(error) => done(Err(error)),
        }
        hears.await.unwrap_or(Err(StoreError::Closed)).map_err(AnswerError::Store)
    }

    fn unmark(&self, item: ItemId) {
        lock(&self.inner.state).busy.remove(&item);
        self.inner.changed.send_modify(|version| *version += 1);
    }
}
