//! Claims: who is working on which MessageId. In memory only: nothing was answered and nothing delivered,
//! so a restart may forget them, which gives the ids back (`storage` §0.3).

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use tokio::sync::watch;

use crate::model::{MessageId, MessageKey, PartyId, Scope, Span, Tenant, Timestamp};

use super::lock::lock;

/// Ids are unique within a tenant at the widest.
type Slot = (Tenant, MessageId);

/// All claims.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    slots: HashMap<Slot, Vec<Held>>,
    last: u64,
}

/// One claim. It ends when this is dropped: that wakes everybody who waits.
#[derive(Debug)]
struct Held {
    number: u64,
    sender: PartyId,
    scope: Scope,
    since: Timestamp,
    stage: Stage,
    ended: watch::Sender<()>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing is written: the claim may be taken over.
    Working,
    /// Its acceptance is on its way to the disk: too late to take it over.
    Committing,
}

/// A claim that is in the way.
#[derive(Debug, Clone)]
pub struct Busy {
    since: Timestamp,
    ended: watch::Receiver<()>,
}

impl Busy {
    /// Since when it is held.
    #[must_use]
    pub const fn since(&self) -> Timestamp {
        self.since
    }

    /// Ends when the claim ends, whatever its outcome: read the log again.
    pub async fn ended(mut self) {
        while self.ended.changed().await.is_ok() {}
    }
}

/// What taking a claim gave.
pub(crate) enum Taken {
    /// It is ours; perhaps another had it for too long, since then.
    Ours(Hold, Option<Timestamp>),
    /// Somebody else has it.
    Theirs(Busy),
}

/// A claim of ours. It is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Hold {
    claims: Arc<Claims>,
    key: MessageKey,
    number: u64,
}

impl Hold {
    pub(crate) fn key(&self) -> &MessageKey {
        &self.key
    }

    /// Goes over to committing, unless somebody took the claim over.
    pub(crate) fn commit(&self) -> Result<(), TakenOver> {
        let mut table = lock(&self.claims.table);
        let held = table.slots.get_mut(&slot(&self.key)).into_iter().flatten();
        let mine = held.into_iter().find(|held| held.number == self.number).ok_or(TakenOver)?;
        mine.stage = Stage::Committing;
        Ok(())
    }
}

/// The claim is another's by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TakenOver;

impl Drop for Hold {
    fn drop(&mut self) {
        lock(&self.claims.table).end(&slot(&self.key), self.number);
    }
}

impl Claims {
    /// Takes the claim on `key`, also from somebody who has had it for `takeover_after` and is not about to
    /// commit.
    pub(crate) fn take(
        self: &Arc<Self>,
        key: &MessageKey,
        scope: Scope,
        now: Timestamp,
        takeover_after: Span,
    ) -> Taken {
        let mut table = lock(&self.table);
        let slot = slot(key);
        let in_the_way = |held: &&Held| held.sender == key.sender || [held.scope, scope].contains(&Scope::Id);
        let mut lapsed = Vec::new();
        for held in table.slots.get(&slot).into_iter().flatten().filter(in_the_way) {
            if held.stage == Stage::Committing || now.since(held.since) < takeover_after {
                return Taken::Theirs(Busy { since: held.since, ended: held.ended.subscribe() });
            }
            lapsed.push((held.number, held.since));
        }
        lapsed.iter().for_each(|(number, _)| table.end(&slot, *number));
        let number = table.add(slot, key.sender.clone(), scope, now);
        let taken_from = lapsed.iter().map(|(_, since)| *since).min();
        Taken::Ours(Hold { claims: self.clone(), key: key.clone(), number }, taken_from)
    }

    /// How many ids are being worked on.
    pub(crate) fn len(&self) -> usize {
        lock(&self.table).slots.values().map(Vec::len).sum()
    }
}

impl Table {
    fn add(&mut self, slot: Slot, sender: PartyId, scope: Scope, since: Timestamp) -> u64 {
        self.last += 1;
        let ended = watch::Sender::new(());
        let held = Held { number: self.last, sender, scope, since, stage: Stage::Working, ended };
        self.slots.entry(slot).or_default().push(held);
        self.last
    }

    fn end(&mut self, slot: &Slot, number: u64) {
        let Some(held) = self.slots.get_mut(slot) else { return };
        held.retain(|held| held.number != number);
        if held.is_empty() {
            self.slots.remove(slot);
        }
    }
}

fn slot(key: &MessageKey) -> Slot {
    (key.tenant.clone(), key.message_id.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Span = Span::minutes(10);

    fn key(sender: &str) -> MessageKey {
        MessageKey {
            tenant: Tenant::default_tenant(),
            sender: PartyId::parse(sender).unwrap(),
            message_id: MessageId::parse("1@x").unwrap(),
        }
    }

    fn take(claims: &Arc<Claims>, sender: &str, scope: Scope, minute: u64) -> Option<Hold> {
        let now = Timestamp::default().plus(Span::minutes(minute));
        match claims.take(&key(sender), scope, now, PATIENCE) {
            Taken::Ours(hold, _) => Some(hold),
            Taken::Theirs(_) => None,
        }
    }

    #[test]
    fn an_id_is_held_by_one_until_it_is_given_back() {
        let claims = Arc::new(Claims::default());
        let first = take(&claims, "A", Scope::PartyId, 0).unwrap();
        assert!(take(&claims, "A", Scope::PartyId, 0).is_none());
        assert!(take(&claims, "B", Scope::PartyId, 0).is_some(), "another sender's id is another id");
        drop(first);
        assert!(take(&claims, "A", Scope::PartyId, 0).is_some());
        assert_eq!(claims.len(), 0);
    }

    #[test]
    fn scope_id_excludes_other_senders_in_both_orders() {
        let claims = Arc::new(Claims::default());
        let wide = take(&claims, "A", Scope::Id, 0).unwrap();
        assert!(take(&claims, "B", Scope::PartyId, 0).is_none());
        drop(wide);
        let _narrow = take(&claims, "A", Scope::PartyId, 0).unwrap();
        assert!(take(&claims, "B", Scope::Id, 0).is_none());
    }

    #[test]
    fn a_claim_is_taken_over_at_the_limit_and_not_before_and_the_old_owner_is_fenced() {
        let claims = Arc::new(Claims::default());
        let old = take(&claims, "A", Scope::PartyId, 0).unwrap();
        assert!(take(&claims, "A", Scope::PartyId, 9).is_none());
        let new = take(&claims, "A", Scope::PartyId, 10).unwrap();
        assert_eq!(old.commit(), Err(TakenOver));
        drop(old);
        assert_eq!(new.commit(), Ok(()), "the old owner's end does not end the new claim");
        assert!(take(&claims, "A", Scope::PartyId, 99).is_none(), "a commit is not taken over");
    }
}
