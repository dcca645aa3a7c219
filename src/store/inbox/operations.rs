//! What backends and operators do with the inbox.

use std::{collections::HashSet, sync::Arc};

use serde::{Deserialize, Serialize};
use tokio::sync::{oneshot, watch};

use crate::{
    model::{DocumentTypeId, ItemId, ParticipantId, Span, Tenant, Timestamp},
    store::{
        Item, Store, StoreError,
        frame::{self, Head, prefix},
        lock::lock,
        log::Done,
    },
};

use super::{
    AckResult, ExtendResult, ItemState, Lease, NackResult, RequeueResult,
    board::OpenItem,
    delivery::{DeliveryHead, DeliveryState, Listing, Phase, Step},
};

/// How often an item is delivered before it is put aside, unless the configuration says otherwise
/// (connector API, `max_deliveries`).
pub const DELIVERIES_MAX: u32 = 20;

/// Which items a worker wants. What is absent matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InboxFilter {
    /// Only these; empty: any.
    pub ids: Vec<ItemId>,
    /// From this participant (C1), whatever the case of its value.
    pub sender: Option<ParticipantId>,
    /// For this participant (C4), whatever the case of its value.
    pub receiver: Option<ParticipantId>,
    /// Of this type.
    pub doctype: Option<DocumentTypeId>,
    /// Of this tenant.
    pub tenant: Option<Tenant>,
}

impl InboxFilter {
    /// Whether the open item is wanted.
    pub(crate) fn takes(&self, item: &ItemId, open: &OpenItem) -> bool {
        let participant = |wanted: &Option<ParticipantId>, is: &Option<Arc<str>>| {
            wanted.as_ref().is_none_or(|wanted| Some(wanted.normal_form().as_str()) == is.as_deref())
        };
        (self.ids.is_empty() || self.ids.contains(item))
            && self.tenant.as_ref().is_none_or(|tenant| tenant.as_str() == &*open.tenant)
            && self
                .doctype
                .as_ref()
                .is_none_or(|wanted| Some(wanted.to_string().as_str()) == open.doctype.as_deref())
            && participant(&self.sender, &open.sender)
            && participant(&self.receiver, &open.receiver)
    }
}

/// A worker's wish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxClaim {
    /// At most so many items.
    pub max: usize,
    /// For how long each is leased.
    pub lease: Span,
    /// Which.
    pub filter: InboxFilter,
    /// Deliveries before an item is put aside.
    pub deliveries_max: u32,
}

/// An item that a worker has now.
#[derive(Debug, Clone, PartialEq)]
pub struct Leased {
    /// The item.
    pub item: Item,
    /// What acknowledges it.
    pub lease: Lease,
    /// Until when nobody else gets it.
    pub lease_until: Timestamp,
}

/// An acknowledgement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ack {
    /// Of which item.
    pub item: ItemId,
    /// By which lease.
    pub lease: Lease,
    /// The backend's own number for the document.
    pub external_ref: Option<String>,
}

/// An item given back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nack {
    /// Which item.
    pub item: ItemId,
    /// By which lease.
    pub lease: Lease,
    /// Why.
    pub reason: String,
    /// What is to become of it.
    pub then: NackThen,
    /// Deliveries before an item is put aside.
    pub deliveries_max: u32,
}

/// What is to become of an item given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NackThen {
    /// It is delivered again after that time.
    Retry(Span),
    /// It is put aside for an operator.
    Park,
}

/// A wish for a longer lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extend {
    /// Of which item.
    pub item: ItemId,
    /// Which lease.
    pub lease: Lease,
    /// How long from now.
    pub length: Span,
}

/// Changes on their way to the disk.
type Pending = oneshot::Receiver<Result<(), StoreError>>;

impl Store {
    /// Leases up to `max` items, oldest first. Leases are durable before anybody gets them. Empty when
    /// nothing is there: see [`Self::changes`].
    ///
    /// # Errors
    /// When the leases could not be made durable: nobody has them then.
    pub async fn claim_deliveries(
        &self,
        claim: &InboxClaim,
        now: Timestamp,
    ) -> Result<Vec<Leased>, StoreError> {
        loop {
            let heads = self.lease_next(claim, now);
            if heads.is_empty() {
                return Ok(Vec::new());
            }
            self.submit_changes(heads.clone()).await.unwrap_or(Err(StoreError::Closed))?;
            let leased: Vec<Leased> = heads.iter().filter_map(|head| self.leased(head)).collect();
            if !leased.is_empty() {
                return Ok(leased);
            }
        }
    }

    fn lease_next(&self, claim: &InboxClaim, now: Timestamp) -> Vec<DeliveryHead> {
        let mut state = lock(&self.inner.state);
        let state = &mut *state;
        let items = state.board.claimable(now, claim.max, &claim.filter, &state.busy);
        let mut heads = Vec::with_capacity(items.len());
        for item in items {
            let Some(open) = state.board.get(&item) else { continue };
            let (event, next) = open.state.lease(now.plus(claim.lease), claim.deliveries_max);
            state.busy.insert(item);
            heads.push(DeliveryHead {
                item,
                at: now,
                expires_at: open.expires_at,
                event,
                state: next,
                listing: None,
            });
        }
        heads
    }

    /// The leased item as its worker sees it. One whose record cannot be read stays leased and comes back.
    fn leased(&self, head: &DeliveryHead) -> Option<Leased> {
        let (Some(lease), Phase::Leased { until }) = (head.state.lease, head.state.phase) else {
            tracing::warn!(item = %head.item, "delivered too often: put aside");
            return None;
        };
        match self.item(head.item) {
            Ok(Some(item)) => Some(Leased { item, lease, lease_until: until }),
            Ok(None) => {
                tracing::error!(item = %head.item, "a leased item has no record");
                None
            }
            Err(error) => {
                tracing::error!(item = %head.item, %error, "the record of a leased item cannot be read");
                None
            }
        }
    }

    /// Acknowledges: the backend has these. Idempotent; an ended lease counts until somebody else gets one.
    ///
    /// # Errors
    /// When it could not be made durable: ask again.
    pub async fn ack(&self, acks: &[Ack], now: Timestamp) -> Result<Vec<AckResult>, StoreError> {
        let items: Vec<ItemId> = acks.iter().map(|ack| ack.item).collect();
        self.steps(&items, now, AckResult::Unknown, |number, state| {
            acks.get(number).map(|ack| state.ack(ack.lease, ack.external_ref.clone()))
        })
        .await
    }

    /// Gives back or puts aside.
    ///
    /// # Errors
    /// When it could not be made durable: ask again.
    pub async fn nack(&self, nacks: &[Nack], now: Timestamp) -> Result<Vec<NackResult>, StoreError> {
        let items: Vec<ItemId> = nacks.iter().map(|nack| nack.item).collect();
        self.steps(&items, now, NackResult::Unknown, |number, state| {
            nacks.get(number).map(|nack| match nack.then {
                NackThen::Park => state.park(nack.lease, nack.reason.clone()),
                NackThen::Retry(delay) => {
                    state.release(nack.lease, now.plus(delay), nack.reason.clone(), nack.deliveries_max)
                }
            })
        })
        .await
    }

    /// Prolongs leases.
    ///
    /// # Errors
    /// When it could not be made durable: ask again.
    pub async fn extend(&self, wishes: &[Extend], now: Timestamp) -> Result<Vec<ExtendResult>, StoreError> {
        let items: Vec<ItemId> = wishes.iter().map(|wish| wish.item).collect();
        self.steps(&items, now, ExtendResult::Unknown, |number, state| {
            wishes.get(number).map(|wish| state.extend(wish.lease, now, wish.length))
        })
        .await
    }

    /// Makes an item available once more, marked as redelivery, whatever became of it before.
    ///
    /// # Errors
    /// When the item cannot be read, or it could not be made durable.
    pub async fn requeue(&self, item: ItemId, now: Timestamp) -> Result<RequeueResult, StoreError> {
        if self.item(item)?.is_some_and(|item| item.state == ItemState::Undelivered) {
            return Ok(RequeueResult::NeverDelivered);
        }
        let items = [item];
        let results = self.steps(&items, now, RequeueResult::Unknown, |_, state| {
            let (event, next) = state.requeue(now);
            Some(Step::Change(RequeueResult::Requeued, event, next))
        });
        Ok(results.await?.into_iter().next().unwrap_or(RequeueResult::Unknown))
    }

    /// Changes whenever something may have become available, or ended: for long polls. Take it before
    /// claiming, so that nothing is missed in between. Delays and leases that end by themselves are in
    /// [`Self::next_due`].
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.changed.subscribe()
    }

    /// When the next delay or lease ends by itself.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        lock(&self.inner.state).board.next_due()
    }

    /// One step for each item, in order: what is decided is made durable before it is answered. The same item
    /// twice takes two steps, one after the other.
    async fn steps<R: Clone>(
        &self,
        items: &[ItemId],
        now: Timestamp,
        unknown: R,
        step: impl Fn(usize, &DeliveryState) -> Option<Step<R>>,
    ) -> Result<Vec<R>, StoreError> {
        let mut results: Vec<Option<R>> = vec![None; items.len()];
        while results.iter().any(Option::is_none) {
            let mut changes = self.changes();
            let round = self.round(items, now, &unknown, &step, &mut results)?;
            if !round.is_empty() {
                let (numbers, heads) = round.into_iter().map(|(n, r, head)| ((n, r), head)).unzip();
                let numbers: Vec<(usize, R)> = numbers;
                self.submit_changes(heads).await.unwrap_or(Err(StoreError::Closed))?;
                for (number, result) in numbers {
                    results.get_mut(number).into_iter().for_each(|slot| *slot = Some(result.clone()));
                }
            } else if results.iter().any(Option::is_none) && changes.changed().await.is_err() {
                return Err(StoreError::Closed);
            }
        }
        Ok(results.into_iter().map(|result| result.unwrap_or_else(|| unknown.clone())).collect())
    }

    /// Decides what can be decided now: fills `results`, and returns the changes to be made durable. Items
    /// with a change under way are left for the next round.
    fn round<R: Clone>(
        &self,
        items: &[ItemId],
        now: Timestamp,
        unknown: &R,
        step: &impl Fn(usize, &DeliveryState) -> Option<Step<R>>,
        results: &mut [Option<R>],
    ) -> Result<Vec<(usize, R, DeliveryHead)>, StoreError> {
        let mut changes = Vec::new();
        let mut put_off = HashSet::new();
        let pending = items.iter().enumerate().zip(results).filter(|(_, result)| result.is_none());
        // All that can fail comes before the first item is marked busy.
        let pending: Vec<_> = pending
            .map(|((number, item), result)| Ok((number, item, result, self.closed(*item)?)))
            .collect::<Result<_, StoreError>>()?;
        for (number, item, result, closed) in pending {
            let mut state = lock(&self.inner.state);
            let (delivery, expires_at, listing) = match (state.board.get(item), closed) {
                _ if state.busy.contains(item) || put_off.contains(item) => {
                    put_off.insert(*item);
                    continue;
                }
                (Some(open), _) => (open.state.clone(), open.expires_at, None),
                (None, Closed::Found(state, listing)) => (state, listing.expires_at, Some(listing)),
                (None, Closed::Nowhere) => {
                    *result = Some(unknown.clone());
                    continue;
                }
                (None, Closed::WasOpen) => {
                    put_off.insert(*item);
                    continue;
                }
            };
            match step(number, &delivery) {
                None => *result = Some(unknown.clone()),
                Some(Step::Nothing(decided)) => *result = Some(decided),
                Some(Step::Change(decided, event, next)) => {
                    state.busy.insert(*item);
                    let item = *item;
                    let head = DeliveryHead { item, at: now, expires_at, event, state: next, listing };
                    changes.push((number, decided, head));
                }
            }
        }
        Ok(changes)
    }

    /// The delivery state of an item that is not open, from the log.
    fn closed(&self, item: ItemId) -> Result<Closed, StoreError> {
        if lock(&self.inner.state).board.get(&item).is_some() {
            return Ok(Closed::WasOpen);
        }
        let Some((_, accept)) = self.accepted(item)? else { return Ok(Closed::Nowhere) };
        let state = self.newest_delivery(item)?.unwrap_or_else(|| DeliveryState::new(accept.at));
        Ok(Closed::Found(state, Listing::of(&accept)))
    }

    /// The newest delivery state in the log; none when nothing ever happened to the item.
    pub(crate) fn newest_delivery(&self, item: ItemId) -> Result<Option<DeliveryState>, StoreError> {
        let mut newest: Option<DeliveryState> = None;
        for (_, head) in self.inner.log.heads(&frame::id(prefix::DELIVERY, &item))? {
            if let Head::Delivery(head) = head
                && head.item == item
                && newest.as_ref().is_none_or(|known| known.sequence < head.state.sequence)
            {
                newest = Some(head.state);
            }
        }
        Ok(newest)
    }

    /// Hands changes to the log. They are applied when they are durable, also when nobody waits any more.
    fn submit_changes(&self, heads: Vec<DeliveryHead>) -> Pending {
        let (told, hears) = oneshot::channel();
        let heads: Vec<Head> = heads.into_iter().map(|head| Head::Delivery(Box::new(head))).collect();
        let entries: Result<Vec<_>, _> = heads.iter().map(|head| head.entry(Vec::new())).collect();
        let store = self.clone();
        let done: Done = Box::new(move |result| {
            store.applied(&heads, &result);
            // Nobody listens when the caller went away; the change stands all the same.
            let _gone = told.send(result);
        });
        match entries {
            Ok(entries) => self.inner.log.append(entries, done),
            Err(error) => done(Err(error)),
        }
        hears
    }

    fn applied(&self, heads: &[Head], result: &Result<(), StoreError>) {
        let mut state = lock(&self.inner.state);
        for head in heads {
            if result.is_ok() {
                state.apply(head);
            }
            if let Head::Delivery(head) = head {
                state.busy.remove(&head.item);
            }
        }
        drop(state);
        self.inner.changed.send_modify(|version| *version += 1);
    }
}

enum Closed {
    /// It is not in the inbox: acked, or just accepted.
    Found(DeliveryState, Listing),
    /// It is in the inbox, or was a moment ago.
    WasOpen,
    /// It is unknown.
    Nowhere,
}
