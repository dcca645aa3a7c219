//! Items as lists and the connector show them.

use std::ops::Range;

use bytes::Bytes;

use crate::model::{
    Answer, AnswerKind, ContentRecord, Digest, DocumentTypeId, ItemId, MessageKey, ParticipantId, Scope,
    Tenant, Timestamp,
};

use super::{
    AnswerError, Delivery, ItemState, Redelivery, Store, StoreError,
    frame::prefix,
    inbox::{DeliveryState, Phase},
    lock::lock,
    log::More,
    payload::StoredPayload,
    record::{AcceptHead, InboundMeta, Notice, PayloadHead, PayloadPlace},
};

/// Most items of one page.
pub const PAGE_MAX: usize = 1000;
/// Most records looked at for one page, so that a rare filter does not read the whole log at once.
const LOOKED_AT_MAX: usize = 10_000;

/// An accepted message.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// Our id.
    pub id: ItemId,
    /// Its key.
    pub key: MessageKey,
    /// The scope it was accepted under.
    pub scope: Scope,
    /// What the backend is told.
    pub meta: InboundMeta,
    /// Size and SHA-256 of the whole payload with its envelope; none without payload.
    pub payload: Option<(u64, Digest)>,
    /// When it was accepted.
    pub received_at: Timestamp,
    /// When its window ends.
    pub expires_at: Timestamp,
    /// What it is judged by.
    pub content: ContentRecord,
    /// What was remarkable.
    pub notices: Vec<Notice>,
    /// What the answer says.
    pub answer_kind: AnswerKind,
    /// SHA-256 of the first answer's body.
    pub answer_sha256: Digest,
    /// Where it is.
    pub state: ItemState,
    /// How often it was delivered.
    pub delivery_count: u32,
    /// Until when it is leased.
    pub lease_until: Option<Timestamp>,
    /// From when on it can be claimed, when it is available.
    pub available_from: Option<Timestamp>,
    /// Whether an operator asked for it once more.
    pub redelivery: Redelivery,
    /// The backend's own number for it.
    pub external_ref: Option<String>,
}

/// Which items are listed. What is absent matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ItemQuery {
    /// In this state.
    pub state: Option<ItemState>,
    /// Accepted then or later.
    pub from: Option<Timestamp>,
    /// Accepted before.
    pub before: Option<Timestamp>,
    /// From this participant (C1), whatever the case of its value.
    pub sender: Option<ParticipantId>,
    /// For this participant (C4), whatever the case of its value.
    pub receiver: Option<ParticipantId>,
    /// Of this type.
    pub doctype: Option<DocumentTypeId>,
    /// Of this tenant.
    pub tenant: Option<Tenant>,
    /// Behind this id: the cursor of the page before.
    pub after: Option<ItemId>,
    /// At most so many, and never more than [`PAGE_MAX`].
    pub limit: usize,
}

/// One page, in the order of ids.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    /// What was found; a page may be empty although there are more.
    pub items: Vec<T>,
    /// Where the next page begins; none at the end.
    pub next: Option<ItemId>,
}

/// What proves that a message was received.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// The HTTP headers as received.
    pub headers: Vec<(String, String)>,
    /// The SOAP root part as received.
    pub envelope: Bytes,
    /// The signer's certificate, DER.
    pub certificate: Bytes,
    /// The answer; none when it is damaged.
    pub answer: Option<Answer>,
}

impl ItemQuery {
    fn takes(&self, item: &Item) -> bool {
        let participant = |wanted: &Option<ParticipantId>, is: &Option<ParticipantId>| {
            wanted.as_ref().is_none_or(|wanted| is.as_ref().is_some_and(|is| is.is_same(wanted)))
        };
        self.state.is_none_or(|state| state == item.state)
            && self.from.is_none_or(|from| item.received_at >= from)
            && self.before.is_none_or(|before| item.received_at < before)
            && self.doctype.as_ref().is_none_or(|doctype| Some(doctype) == item.meta.doctype.as_ref())
            && self.tenant.as_ref().is_none_or(|tenant| *tenant == item.key.tenant)
            && participant(&self.sender, &item.meta.sender)
            && participant(&self.receiver, &item.meta.receiver)
    }
}

impl Store {
    /// An item by its id.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn item(&self, item: ItemId) -> Result<Option<Item>, StoreError> {
        let open = lock(&self.inner.state).board.get(&item).map(|open| open.state.clone());
        let Some((_, head)) = self.accepted(item)? else { return Ok(None) };
        let delivery = match open {
            Some(state) => Some(state),
            None => self.newest_delivery(item)?,
        };
        Ok(Some(Self::shown(head, delivery)))
    }

    fn shown(head: AcceptHead, delivery: Option<DeliveryState>) -> Item {
        let delivery = delivery.unwrap_or_else(|| DeliveryState::new(head.at));
        let (lease_until, available_from) = match (head.delivery, delivery.phase) {
            (Delivery::Inbox, Phase::Leased { until }) => (Some(until), None),
            (Delivery::Inbox, Phase::Available { from }) => (None, Some(from)),
            _ => (None, None),
        };
        let state = match head.delivery {
            Delivery::Inbox => delivery.state(),
            Delivery::Never => ItemState::Undelivered,
        };
        Item {
            id: head.item,
            key: head.key,
            scope: head.scope,
            meta: head.meta,
            payload: head.payload.map(|payload| (payload.size, payload.sha256)),
            received_at: head.at,
            expires_at: head.expires_at,
            content: head.content,
            notices: head.notices,
            answer_kind: head.answer.kind,
            answer_sha256: head.answer.sha256,
            state,
            delivery_count: delivery.deliveries,
            lease_until,
            available_from,
            redelivery: delivery.redelivery,
            external_ref: delivery.external_ref,
        }
    }

    /// Items in the order of their ids. Items that the backend has not taken are found without the log.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn list(&self, query: &ItemQuery) -> Result<Page<Item>, StoreError> {
        let limit = query.limit.clamp(1, PAGE_MAX);
        let mut page = Page { items: Vec::new(), next: None };
        let (ids, more) = match query.state {
            Some(ItemState::Available | ItemState::Leased | ItemState::Dead) => self.open_ids(query.after),
            _ => self.logged_ids(prefix::ITEM, query.after)?,
        };
        let last = ids.last().copied();
        for id in ids {
            if let Some(item) = self.item(id)?
                && query.takes(&item)
            {
                page.items.push(item);
            }
            if page.items.len() == limit {
                page.next = (Some(id) != last || more == More::Perhaps).then_some(id);
                return Ok(page);
            }
        }
        page.next = last.filter(|_| more == More::Perhaps);
        Ok(page)
    }

    fn open_ids(&self, after: Option<ItemId>) -> (Vec<ItemId>, More) {
        let state = lock(&self.inner.state);
        let ids: Vec<ItemId> = state.board.after(after).map(|(id, _)| *id).take(LOOKED_AT_MAX).collect();
        let more = if ids.len() < LOOKED_AT_MAX { More::None } else { More::Perhaps };
        (ids, more)
    }

    /// Ids of the log after `after`, ascending, each once.
    pub(crate) fn logged_ids(
        &self,
        prefix: u8,
        after: Option<ItemId>,
    ) -> Result<(Vec<ItemId>, More), StoreError> {
        let (ids, more) = self.inner.log.range(prefix, after.map(|id| *id.as_bytes()), LOOKED_AT_MAX)?;
        let ids = ids.into_iter().map(|id| ItemId::from_uuid(uuid::Uuid::from_bytes(id))).collect();
        Ok((ids, more))
    }

    /// What proves that the item was received.
    ///
    /// # Errors
    /// `Gone` when there is no such item, `Unreadable` when its envelope or certificate is damaged.
    pub fn evidence(&self, item: ItemId) -> Result<Evidence, AnswerError> {
        let (place, head) = self.accepted(item)?.ok_or(AnswerError::Gone)?;
        let sections = head.sections;
        let mut start = sections.answer;
        let mut section = |size: u64| -> Result<Bytes, AnswerError> {
            let range: Range<u64> = start..start.saturating_add(size);
            start = range.end;
            self.inner.log.body(place, range).map_err(unreadable)
        };
        let certificate = section(sections.certificate)?;
        let headers = section(sections.headers)?;
        let envelope = section(sections.envelope)?;
        let answer = match self.answer(item) {
            Ok(answer) => Some(answer),
            Err(AnswerError::Unreadable) => None,
            Err(error) => return Err(error),
        };
        let headers = serde_json::from_slice(&headers).map_err(|_| AnswerError::Unreadable)?;
        Ok(Evidence { headers, envelope, certificate, answer })
    }

    /// The stored payload of an item, with its envelope; none for a message without one.
    ///
    /// # Errors
    /// `Gone` when there is no such item, `Unreadable` when its payload is damaged.
    pub fn payload(&self, item: ItemId) -> Result<Option<StoredPayload>, AnswerError> {
        let (place, head) = self.accepted(item)?.ok_or(AnswerError::Gone)?;
        let Some(PayloadHead { place: kept, size, sha256 }) = head.payload else { return Ok(None) };
        let (held, file) = match kept {
            PayloadPlace::Inline => {
                let start = head.sections.end();
                let held =
                    self.inner.log.body(place, start..start.saturating_add(size)).map_err(unreadable)?;
                if Digest::of(&held) != sha256 {
                    return Err(AnswerError::Unreadable);
                }
                (held, None)
            }
            PayloadPlace::File(name) => {
                let file = self.inner.payloads.file(&name).map_err(|error| match error.kind() {
                    std::io::ErrorKind::NotFound => AnswerError::Unreadable,
                    _ => StoreError::Io(error.to_string()).into(),
                })?;
                (Bytes::new(), Some(file))
            }
        };
        Ok(Some(StoredPayload { size, sha256, held, file }))
    }
}

/// Damage is what a new receipt can make up for; other faults may pass.
pub(crate) fn unreadable(error: StoreError) -> AnswerError {
    match error {
        StoreError::Damaged(_) => AnswerError::Unreadable,
        other => AnswerError::Store(other),
    }
}
