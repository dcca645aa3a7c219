//! A store beside a model of what it promised: scripts drawn from a seed run on both and are compared at each
//! step. What was acknowledged before a crash must be there after it; what was under way may be there whole or
//! not at all.

use std::{collections::BTreeMap, task::Poll};

use oncepoint::{
    model::{Answer, Scope, Span, Timestamp},
    store::{
        AcceptError, Ack, AckResult, AnswerError, Claim, Delivery, Extend, ExtendResult, INLINE_BYTES_MAX,
        ItemQuery, ItemState, Lease, Nack, NackResult, NackThen, PAGE_MAX, Purge, RecordState, RequeueResult,
        Store, StoreError,
    },
};

use super::{
    acceptance, answer, claim, content, item, key, payload, payload_bytes, purge_order, record, wish,
};

/// Deliveries until an item is dead; as `wish` says.
const DELIVERIES_MAX: u32 = 3;
const SENDERS: [&str; 2] = ["A", "B"];
/// Few message ids, so that they meet again.
const MESSAGE_IDS: u64 = 30;
/// The second half of a message that is committed in two steps ([`Mutant::TwoAppends`]).
const SHADOW: u64 = 1 << 40;

macro_rules! ensure {
    ($holds:expr, $($why:tt)+) => {
        if !$holds { return Err(Stop::Broken(format!($($why)+))); }
    };
}

/// A fault built into the store on purpose: the suite must see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// No fault.
    None,
    /// An acceptance is answered before it is durable.
    AnswerBeforeFlush,
    /// Key and inbox entry are committed one after the other.
    TwoAppends,
    /// An id that is given back stays taken.
    LostRelease,
    /// An acknowledgement is confirmed before it is durable.
    AckBeforeFlush,
    /// A repeat gets a new receipt.
    FreshReceipt,
}

/// Why a script ended before its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The store failed, as it should when the disk does.
    Failed(StoreError),
    /// The store broke a promise.
    Broken(String),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

type Step<T = ()> = Result<T, Stop>;

/// Numbers from a seed (splitmix64).
#[derive(Debug, Clone)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % n
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        let n = self.below(from.len().max(1) as u64);
        from.get(n as usize).copied()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Available(Timestamp),
    Leased(Timestamp),
    Acked,
    Dead,
}

/// What the model knows of an accepted message.
#[derive(Debug, Clone, PartialEq)]
struct Known {
    sender: &'static str,
    message_id: u64,
    at: Timestamp,
    answer: Answer,
    payload: usize,
    phase: Phase,
    /// Leases given, oldest first; none: one that nobody was told of, or a requeue.
    leases: Vec<Option<Lease>>,
    deliveries: u32,
    forgiven: u32,
}

impl Known {
    fn state(&self) -> ItemState {
        match self.phase {
            Phase::Available(_) => ItemState::Available,
            Phase::Leased(_) => ItemState::Leased,
            Phase::Acked => ItemState::Acked,
            Phase::Dead => ItemState::Dead,
        }
    }

    fn claimable(&self, now: Timestamp) -> bool {
        matches!(self.phase, Phase::Available(at) | Phase::Leased(at) if at <= now)
    }

    fn worn_out(&self) -> bool {
        self.deliveries - self.forgiven >= DELIVERIES_MAX
    }

    fn is_newest(&self, lease: Lease) -> bool {
        self.leases.last() == Some(&Some(lease))
    }
}

/// What was under way when the store failed.
#[derive(Debug, Clone)]
enum Doubt {
    Accept(u64, Known),
    /// Each item may be as before or so.
    Delivery(Vec<(u64, Known)>),
}

/// A store, its model, and a script.
pub(crate) struct Run {
    pub(crate) store: Store,
    pub(crate) now: Timestamp,
    mutant: Mutant,
    dice: Dice,
    known: BTreeMap<u64, Known>,
    /// Messages whose record may be gone; they never come back.
    past: Vec<u64>,
    doubt: Option<Doubt>,
    next: u64,
    large: bool,
}

/// Polls a future on this thread, doing the journal's work in between.
fn drive<T>(store: &Store, future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    for _ in 0..100_000 {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        store.pump();
        std::thread::yield_now();
    }
    panic!("nothing happens any more");
}

/// Lets a future take one step and leaves it.
fn poke<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

impl Run {
    pub(crate) fn new(store: Store, seed: u64, mutant: Mutant) -> Self {
        Self {
            store,
            now: super::second(0),
            mutant,
            dice: Dice(seed),
            known: BTreeMap::new(),
            past: Vec::new(),
            doubt: None,
            next: 0,
            large: false,
        }
    }

    /// Some payloads are files.
    pub(crate) fn with_large_payloads(self) -> Self {
        Self { large: true, ..self }
    }

    /// Runs so many steps.
    pub(crate) fn steps(&mut self, steps: usize) -> Step {
        (0..steps).try_for_each(|_| self.step())
    }

    fn step(&mut self) -> Step {
        self.now = self.now.plus(Span::millis(1));
        match self.dice.below(100) {
            0..30 => self.accept(),
            30..40 => self.repeat(),
            40..45 => self.replay_signature(),
            45..50 => self.release(),
            50..66 => self.lease(),
            66..80 => self.ack(),
            80..86 => self.nack(),
            86..89 => self.extend(),
            89..92 => self.requeue(),
            92..95 => self.note(),
            95..99 => {
                self.now = self.now.plus(Span::seconds(40));
                Ok(())
            }
            _ => self.purge(),
        }
    }

    fn any_known(&mut self) -> Option<u64> {
        let all: Vec<u64> = self.known.keys().copied().collect();
        self.dice.pick(&all)
    }

    fn any_lease(&mut self, n: u64) -> Option<Lease> {
        let leases: Vec<Lease> = self.known[&n].leases.iter().flatten().copied().collect();
        // Mostly the newest, now and then an old one.
        if self.dice.below(4) == 0 { self.dice.pick(&leases) } else { leases.last().copied() }
    }

    fn holder(&self, sender: &str, message_id: u64) -> Option<u64> {
        let holds = |known: &Known| known.sender == sender && known.message_id == message_id;
        self.known.iter().find(|(_, known)| holds(known)).map(|(n, _)| *n)
    }

    fn accept(&mut self) -> Step {
        let sender = SENDERS[self.dice.below(2) as usize];
        let message_id = self.dice.below(MESSAGE_IDS);
        if let Some(first) = self.holder(sender, message_id) {
            return self.check_repeat(first);
        }
        let n = self.next;
        self.next += 1;
        let asked = key(sender, message_id);
        let seen = self.store.seen(&asked, Scope::PartyId)?;
        let expired = |n: u64| self.past.iter().any(|past| item(*past) == item(n));
        ensure!(
            seen.iter().all(|seen| (0..n).any(|n| item(n) == seen.item && expired(n))),
            "{n}: seen {seen:?}"
        );
        let fence = match self.store.claim(&asked, Scope::PartyId, &seen, self.now, super::PATIENCE)? {
            Claim::Won(fence) => fence,
            other => return Err(Stop::Broken(format!("{n}: nobody works on it, yet {other:?}"))),
        };
        let size = match self.dice.below(4) {
            0 => 3000,
            1 if self.large => INLINE_BYTES_MAX + 1,
            _ => 100,
        };
        let payload = payload(&self.store, n, size).map_err(|error| StoreError::Io(error.to_string()))?;
        let acceptance = acceptance(n, self.now, Some(payload));
        let known = Known {
            sender,
            message_id,
            at: self.now,
            answer: acceptance.answer.clone(),
            payload: size,
            phase: Phase::Available(self.now),
            leases: Vec::new(),
            deliveries: 0,
            forgiven: 0,
        };
        self.doubt = Some(Doubt::Accept(n, known.clone()));
        match self.commit(fence, acceptance, n) {
            Ok(()) => {}
            Err(AcceptError::Store(error)) => return Err(error.into()),
            Err(error) => return Err(Stop::Broken(format!("{n}: {error}"))),
        }
        self.doubt = None;
        self.known.insert(n, known);
        self.check_repeat(n)
    }

    fn commit(
        &self,
        fence: oncepoint::store::Fence,
        mut acceptance: oncepoint::store::Acceptance,
        n: u64,
    ) -> Result<(), AcceptError> {
        match self.mutant {
            Mutant::AnswerBeforeFlush => poke(fence.accept(acceptance)).unwrap_or(Ok(())),
            Mutant::TwoAppends => {
                let at = acceptance.at;
                acceptance.delivery = Delivery::Never;
                drive(&self.store, fence.accept(acceptance))?;
                let mut inbox = super::acceptance(SHADOW + n, at, None);
                inbox.content = content(SHADOW + n, SHADOW + n);
                let shadow = super::won(claim(&self.store, &key("shadow", n), Scope::PartyId, at));
                drive(&self.store, shadow.accept(inbox))
            }
            _ => drive(&self.store, fence.accept(acceptance)),
        }
    }

    fn repeat(&mut self) -> Step {
        self.any_known().map_or(Ok(()), |n| self.check_repeat(n))
    }

    /// A repeat finds the first message and gets its answer, byte for byte.
    fn check_repeat(&self, n: u64) -> Step {
        if self.mutant == Mutant::AnswerBeforeFlush {
            return Ok(());
        }
        let known = &self.known[&n];
        let seen = self.store.seen(&key(known.sender, known.message_id), Scope::PartyId)?;
        let first = seen.iter().find(|seen| seen.item == item(n));
        ensure!(first.is_some_and(|seen| seen.content == content(n, n)), "{n} is forgotten");
        let got = match self.store.answer(item(n)) {
            Ok(_) if self.mutant == Mutant::FreshReceipt => answer(&self.now.to_string()),
            Ok(answer) => answer,
            Err(AnswerError::Store(error)) => return Err(error.into()),
            Err(error) => return Err(Stop::Broken(format!("{n}: {error}"))),
        };
        ensure!(got == known.answer, "{n} gets another answer");
        Ok(())
    }

    fn replay_signature(&mut self) -> Step {
        let Some(old) = self.any_known() else { return Ok(()) };
        let known = &self.known[&old];
        if known.at.plus(Span::days(90)) <= self.now {
            return Ok(());
        }
        let (n, sender) = (1_000_000 + self.next, known.sender);
        let fence = match self.store.claim(&key(sender, n), Scope::PartyId, &[], self.now, super::PATIENCE)? {
            Claim::Won(fence) => fence,
            other => return Err(Stop::Broken(format!("{n}: {other:?}"))),
        };
        let mut replay = acceptance(n, self.now, None);
        replay.content = content(n, old);
        match drive(&self.store, fence.accept(replay)) {
            Err(AcceptError::SignatureUsed(first)) if first == item(old) => Ok(()),
            Err(AcceptError::Store(error)) => Err(error.into()),
            _ if self.mutant == Mutant::AnswerBeforeFlush => Ok(()),
            other => Err(Stop::Broken(format!("the signature of {old} again: {other:?}"))),
        }
    }

    /// A message that is refused gives its id back.
    fn release(&mut self) -> Step {
        let n = 2_000_000 + self.dice.below(5);
        for _ in 0..2 {
            match self.store.claim(&key("A", n), Scope::PartyId, &[], self.now, super::PATIENCE)? {
                Claim::Won(fence) if self.mutant == Mutant::LostRelease => std::mem::forget(fence),
                Claim::Won(fence) => drop(fence),
                other => return Err(Stop::Broken(format!("{n} was given back, yet {other:?}"))),
            }
        }
        Ok(())
    }

    fn lease(&mut self) -> Step {
        let max = 1 + self.dice.below(3) as usize;
        let until = self.now.plus(Span::seconds(60));
        let mut expected = Vec::new();
        let mut after = Vec::new();
        while expected.is_empty() {
            let taken = |n: &u64| after.iter().any(|(other, _): &(u64, Known)| other == n);
            let batch: Vec<u64> = self
                .known
                .iter()
                .filter(|(n, known)| known.claimable(self.now) && !taken(n))
                .map(|(n, _)| *n)
                .take(max)
                .collect();
            if batch.is_empty() {
                break;
            }
            for n in batch {
                let mut known = self.known[&n].clone();
                if known.worn_out() {
                    known.phase = Phase::Dead;
                } else {
                    known.phase = Phase::Leased(until);
                    known.deliveries += 1;
                    known.leases.push(None);
                    expected.push(n);
                }
                after.push((n, known));
            }
        }
        self.doubt = Some(Doubt::Delivery(after.clone()));
        let leased = drive(&self.store, self.store.claim_deliveries(&wish(max), self.now))?;
        if self.mutant == Mutant::TwoAppends {
            self.doubt = None;
            return Ok(());
        }
        let got: Vec<_> = leased.iter().map(|leased| leased.item.id).collect();
        ensure!(
            got == expected.iter().map(|n| item(*n)).collect::<Vec<_>>(),
            "leased {got:?}, not {expected:?}"
        );
        for (n, mut known) in after {
            if let Some(leased) = leased.iter().find(|leased| leased.item.id == item(n)) {
                ensure!(leased.lease_until == until, "{n} is leased until {}", leased.lease_until);
                ensure!(
                    leased.item.delivery_count == known.deliveries,
                    "{n}: {}",
                    leased.item.delivery_count
                );
                known.leases.pop();
                known.leases.push(Some(leased.lease));
            }
            self.known.insert(n, known);
        }
        self.doubt = None;
        Ok(())
    }

    /// Runs one change of an item that has a lease, and compares result and effect with the model's.
    fn change<R: PartialEq + std::fmt::Debug>(
        &mut self,
        n: u64,
        expected: &R,
        after: Option<Known>,
        change: impl FnOnce(&Self) -> Result<R, StoreError>,
    ) -> Step {
        self.doubt = after.clone().map(|after| Doubt::Delivery(vec![(n, after)]));
        let got = change(self)?;
        ensure!(got == *expected, "{n}: {got:?}, not {expected:?}");
        self.doubt = None;
        if let Some(after) = after {
            self.known.insert(n, after);
        }
        Ok(())
    }

    fn ack(&mut self) -> Step {
        let Some(n) = self.any_known() else { return Ok(()) };
        let Some(lease) = self.any_lease(n) else { return Ok(()) };
        let known = self.known[&n].clone();
        let acked = Known { phase: Phase::Acked, ..known.clone() };
        let (expected, after) = match known.phase {
            Phase::Acked => (AckResult::AlreadyAcked, None),
            _ if known.is_newest(lease) => (AckResult::Acked, Some(acked)),
            _ => (AckResult::LeaseSuperseded, None),
        };
        let ack = Ack { item: item(n), lease, external_ref: None };
        let mutant = self.mutant;
        self.change(n, &expected, after, |run| {
            let acks = [ack];
            let acking = run.store.ack(&acks, run.now);
            let results = match mutant {
                Mutant::AckBeforeFlush => poke(acking).unwrap_or_else(|| Ok(vec![expected])),
                _ => drive(&run.store, acking),
            };
            results.map(|results| results[0])
        })
    }

    fn nack(&mut self) -> Step {
        let Some(n) = self.any_known() else { return Ok(()) };
        let Some(lease) = self.any_lease(n) else { return Ok(()) };
        let known = self.known[&n].clone();
        let then = if self.dice.below(5) == 0 { NackThen::Park } else { NackThen::Retry(Span::seconds(10)) };
        let (expected, phase) = match (known.phase, then) {
            (Phase::Acked, _) => (NackResult::AlreadyAcked, None),
            _ if !known.is_newest(lease) => (NackResult::LeaseSuperseded, None),
            (Phase::Dead, _) => (NackResult::Dead, None),
            (Phase::Available(_), _) => (NackResult::Released, None),
            (_, NackThen::Park) => (NackResult::Parked, Some(Phase::Dead)),
            _ if known.worn_out() => (NackResult::Dead, Some(Phase::Dead)),
            (_, NackThen::Retry(delay)) => {
                (NackResult::Released, Some(Phase::Available(self.now.plus(delay))))
            }
        };
        let after = phase.map(|phase| Known { phase, ..known });
        let reason = "later".to_owned();
        let nack = Nack { item: item(n), lease, reason, then, deliveries_max: DELIVERIES_MAX };
        self.change(n, &expected, after, |run| {
            drive(&run.store, run.store.nack(&[nack], run.now)).map(|results| results[0])
        })
    }

    fn extend(&mut self) -> Step {
        let Some(n) = self.any_known() else { return Ok(()) };
        let Some(lease) = self.any_lease(n) else { return Ok(()) };
        let known = self.known[&n].clone();
        let lease_until = self.now.plus(Span::seconds(90));
        let (expected, after) = match known.phase {
            Phase::Acked => (ExtendResult::AlreadyAcked, None),
            Phase::Leased(_) if known.is_newest(lease) => {
                let extended = Known { phase: Phase::Leased(lease_until), ..known };
                (ExtendResult::Extended { lease_until }, Some(extended))
            }
            _ => (ExtendResult::LeaseSuperseded, None),
        };
        let wish = Extend { item: item(n), lease, length: Span::seconds(90) };
        self.change(n, &expected, after, |run| {
            drive(&run.store, run.store.extend(&[wish], run.now)).map(|results| results[0])
        })
    }

    fn requeue(&mut self) -> Step {
        let Some(n) = self.any_known() else { return Ok(()) };
        let mut after = self.known[&n].clone();
        after.phase = Phase::Available(self.now);
        after.leases.push(None);
        after.forgiven = after.deliveries;
        if self.mutant == Mutant::TwoAppends {
            return Ok(());
        }
        self.change(n, &RequeueResult::Requeued, Some(after), |run| {
            drive(&run.store, run.store.requeue(item(n), run.now))
        })
    }

    fn note(&mut self) -> Step {
        let first = self.any_known();
        self.next += 1;
        let n = 3_000_000 + self.next;
        self.store.note(record(n, self.now, RecordState::RefusedDuplicate, first));
        Ok(())
    }

    /// Long after: what the backend has may go, the rest stays.
    fn purge(&mut self) -> Step {
        if self.dice.below(2) == 0 {
            self.now = self.now.plus(Span::days(100));
        }
        let now = self.now;
        let gone = |known: &Known| known.phase == Phase::Acked && known.at.plus(Span::days(90)) <= now;
        let going: Vec<u64> = self.known.iter().filter(|(_, known)| gone(known)).map(|(n, _)| *n).collect();
        self.known.retain(|n, _| !going.contains(n));
        self.past.extend(going);
        self.store.purge(&purge_order(now, Purge::Forced))?;
        Ok(())
    }

    /// Goes on with the store as it was found after a crash: what was under way is there whole or not at all.
    pub(crate) fn recovered(&mut self, store: Store) -> Step {
        self.store = store;
        match self.doubt.take() {
            None => {}
            Some(Doubt::Accept(n, known)) => self.settle_acceptance(n, known)?,
            Some(Doubt::Delivery(changes)) => {
                for (n, after) in changes {
                    let is = self.store.item(item(n))?;
                    let Some(is) = is else { return Err(Stop::Broken(format!("{n} is gone"))) };
                    if (is.state, is.delivery_count) == (after.state(), after.deliveries) {
                        self.known.insert(n, self.as_found(after, &is));
                    }
                }
            }
        }
        self.audit()
    }

    /// The moments of a change in doubt are the store's.
    fn as_found(&self, mut known: Known, is: &oncepoint::store::Item) -> Known {
        known.phase = match (known.phase, is.lease_until, is.available_from) {
            (Phase::Leased(_), Some(until), _) => Phase::Leased(until),
            (Phase::Available(_), _, Some(from)) => Phase::Available(from),
            (phase, ..) => phase,
        };
        known
    }

    fn settle_acceptance(&mut self, n: u64, known: Known) -> Step {
        let seen = self.store.seen(&key(known.sender, known.message_id), Scope::PartyId)?;
        let is_there = seen.iter().any(|seen| seen.item == item(n));
        if is_there {
            self.known.insert(n, known);
            return Ok(());
        }
        let used =
            self.store.signature_used(&key(known.sender, 9_000_000), &content(n, n).signature, self.now)?;
        ensure!(used.is_none(), "{n}: the signature without the message");
        ensure!(self.store.item(item(n))?.is_none(), "{n}: the item without the key");
        ensure!(self.store.answer(item(n)) == Err(AnswerError::Gone), "{n}: the answer without the key");
        Ok(())
    }

    /// Everything that was promised, at once.
    pub(crate) fn audit(&self) -> Step {
        let all: Vec<u64> = self.known.keys().copied().collect();
        for n in all {
            self.check_repeat(n)?;
            let known = &self.known[&n];
            let is = self.store.item(item(n))?;
            let Some(is) = is else { return Err(Stop::Broken(format!("{n} is forgotten"))) };
            ensure!(
                (is.state, is.delivery_count) == (known.state(), known.deliveries),
                "{n} is {:?} after {} deliveries, not {:?} after {}",
                is.state,
                is.delivery_count,
                known.state(),
                known.deliveries
            );
            match self.store.payload(item(n)) {
                Ok(Some(payload)) => {
                    let mut bytes = vec![0; known.payload];
                    let mut at = 0;
                    while at < bytes.len() {
                        let read = payload.read_at(at as u64, &mut bytes[at..]);
                        at += read.map_err(|error| Stop::Broken(format!("{n}: {error}")))?;
                    }
                    ensure!(bytes == payload_bytes(n, known.payload), "{n}: another payload");
                }
                other => return Err(Stop::Broken(format!("{n}: payload {other:?}"))),
            }
        }
        self.audit_inbox()?;
        let findings = self.store.verify()?.findings;
        ensure!(findings.is_empty(), "{findings:?}");
        ensure!(self.store.health().claims == 0 || self.mutant == Mutant::LostRelease, "a claim is left");
        Ok(())
    }

    /// The inbox holds what the backend has not taken, and nothing else.
    fn audit_inbox(&self) -> Step {
        let mut open = Vec::new();
        for state in [ItemState::Available, ItemState::Leased, ItemState::Dead] {
            let query = ItemQuery { state: Some(state), limit: PAGE_MAX, ..ItemQuery::default() };
            open.extend(self.store.list(&query)?.items.into_iter().map(|item| item.id));
        }
        open.sort_unstable();
        let owed = self.known.iter().filter(|(_, known)| known.phase != Phase::Acked);
        let owed: Vec<_> = owed.map(|(n, _)| item(*n)).collect();
        ensure!(open == owed, "the inbox holds {open:?}, owed are {owed:?}");
        Ok(())
    }
}
