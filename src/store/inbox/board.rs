//! The items that the backend has not yet taken, in memory: a fold over durable frames.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    ops::Bound,
    sync::Arc,
};

use crate::{
    model::{ItemId, Timestamp},
    store::record::{AcceptHead, Delivery},
};

use super::{
    delivery::{DeliveryHead, DeliveryState, Listing, Phase},
    operations::InboxFilter,
};

/// An item that is not acked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenItem {
    pub tenant: Arc<str>,
    pub sender: Option<Arc<str>>,
    pub receiver: Option<Arc<str>>,
    pub doctype: Option<Arc<str>>,
    pub received_at: Timestamp,
    pub expires_at: Timestamp,
    pub state: DeliveryState,
}

/// All open items.
#[derive(Debug, Default)]
pub(crate) struct Board {
    open: BTreeMap<ItemId, OpenItem>,
    /// Items that may be claimed now, oldest first.
    ready: BTreeSet<ItemId>,
    /// Items that may be claimed later: when a delay or a lease ends.
    due: BTreeSet<(Timestamp, ItemId)>,
    /// Names are few and items many: each name is kept once.
    names: HashSet<Arc<str>>,
}

impl Board {
    /// A message was accepted.
    pub(crate) fn accepted(&mut self, head: &AcceptHead) {
        self.restored(head, None);
    }

    /// An item that was found in the log, with its newest delivery state.
    pub(crate) fn restored(&mut self, head: &AcceptHead, newest: Option<DeliveryState>) {
        let state = newest.unwrap_or_else(|| DeliveryState::new(head.at));
        let is_open = head.delivery == Delivery::Inbox && state.phase != Phase::Acked;
        if is_open && !self.open.contains_key(&head.item) {
            self.insert(head.item, &Listing::of(head), state);
        }
    }

    /// A delivery changed.
    pub(crate) fn delivered(&mut self, head: &DeliveryHead) {
        let listing = self.open.get(&head.item).map(Listing::of_open).or_else(|| head.listing.clone());
        self.remove(&head.item);
        if let Some(listing) = listing
            && head.state.phase != Phase::Acked
        {
            self.insert(head.item, &listing, head.state.clone());
        }
    }

    fn insert(&mut self, item: ItemId, listing: &Listing, state: DeliveryState) {
        if let Some(from) = state.claimable_from() {
            self.due.insert((from, item));
        }
        let open = OpenItem {
            tenant: self.name(&listing.tenant),
            sender: listing.sender.as_deref().map(|name| self.name(name)),
            receiver: listing.receiver.as_deref().map(|name| self.name(name)),
            doctype: listing.doctype.as_deref().map(|name| self.name(name)),
            received_at: listing.received_at,
            expires_at: listing.expires_at,
            state,
        };
        self.open.insert(item, open);
    }

    fn remove(&mut self, item: &ItemId) {
        let Some(open) = self.open.remove(item) else { return };
        self.ready.remove(item);
        if let Some(from) = open.state.claimable_from() {
            self.due.remove(&(from, *item));
        }
        for name in [Some(open.tenant), open.sender, open.receiver, open.doctype].into_iter().flatten() {
            // Two are the set's and this one: nobody else uses the name.
            if Arc::strong_count(&name) == 2 {
                self.names.remove(&name);
            }
        }
    }

    fn name(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.names.get(text) {
            return known.clone();
        }
        let name: Arc<str> = text.into();
        self.names.insert(name.clone());
        name
    }

    /// The open item.
    pub(crate) fn get(&self, item: &ItemId) -> Option<&OpenItem> {
        self.open.get(item)
    }

    /// How many items are open.
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// The oldest item that the backend has not taken.
    pub(crate) fn oldest(&self) -> Option<Timestamp> {
        self.open.values().next().map(|item| item.received_at)
    }

    /// Open items after `after`, oldest first.
    pub(crate) fn after(&self, after: Option<ItemId>) -> impl Iterator<Item = (&ItemId, &OpenItem)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.open.range((from, Bound::Unbounded))
    }

    /// When the next delay or lease ends.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Up to `max` items that may be claimed at `now`, oldest first, without those that are in `busy`.
    pub(crate) fn claimable(
        &mut self,
        now: Timestamp,
        max: usize,
        filter: &InboxFilter,
        busy: &HashSet<ItemId>,
    ) -> Vec<ItemId> {
        while let Some(&(at, item)) = self.due.first() {
            if at > now {
                break;
            }
            self.due.pop_first();
            self.ready.insert(item);
        }
        let fits = |item: &&ItemId| {
            !busy.contains(*item) && self.open.get(*item).is_some_and(|open| filter.takes(item, open))
        };
        if filter.ids.is_empty() {
            return self.ready.iter().filter(fits).take(max).copied().collect();
        }
        let mut named: Vec<ItemId> = filter.ids.clone();
        named.sort_unstable();
        named.dedup();
        named.iter().filter(|item| self.ready.contains(*item)).filter(fits).take(max).copied().collect()
    }
}
