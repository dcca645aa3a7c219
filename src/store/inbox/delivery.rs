//! The delivery of one item as a value: each operation is a pure step from one state to the next.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    model::{ItemId, ParticipantId, Span, Timestamp},
    store::record::AcceptHead,
};

use super::board::OpenItem;

/// The right to acknowledge an item: the number of the change that gave it. Unique for its item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lease(u64);

impl Lease {
    /// Takes the decimal text that a backend hands back.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        text.parse().ok().map(Self)
    }
}

impl fmt::Display for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whether an operator asked for the item to be delivered once more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Redelivery {
    /// Nobody did.
    None,
    /// An operator did.
    Requested,
}

/// Where an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Phase {
    /// Any worker may have it from then on.
    Available { from: Timestamp },
    /// One worker has it until then.
    Leased { until: Timestamp },
    /// The backend has it.
    Acked,
    /// Delivered too often, or parked: an operator decides.
    Dead,
}

/// The state of an item, as lists show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemState {
    /// A worker may claim it (perhaps only after a delay).
    Available,
    /// A worker has it.
    Leased,
    /// The backend has it.
    Acked,
    /// An operator has to decide.
    Dead,
    /// It is never delivered (test service).
    Undelivered,
}

/// The whole delivery state; each change stores all of it, so the newest change alone tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeliveryState {
    /// How many changes there were.
    pub sequence: u64,
    pub phase: Phase,
    /// The newest lease; it may acknowledge until somebody else gets one.
    pub lease: Option<Lease>,
    pub deliveries: u32,
    /// Deliveries before the last requeue: they do not count towards the limit.
    pub forgiven: u32,
    pub redelivery: Redelivery,
    pub external_ref: Option<String>,
}

/// What a change was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryEvent {
    /// A worker got it.
    Leased {
        /// Until when.
        until: Timestamp,
    },
    /// The lease was prolonged.
    Extended {
        /// Until when.
        until: Timestamp,
    },
    /// The backend has it.
    Acked {
        /// The backend's own number for it.
        external_ref: Option<String>,
    },
    /// It was given back.
    Released {
        /// Why.
        reason: String,
        /// When it is available again.
        from: Timestamp,
    },
    /// It was put aside for an operator by its worker.
    Parked {
        /// Why.
        reason: String,
    },
    /// It was delivered too often.
    Dead {
        /// Why it came back the last time.
        reason: String,
    },
    /// An operator asked for another delivery.
    Requeued,
}

/// The head of a change of delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeliveryHead {
    pub item: ItemId,
    pub at: Timestamp,
    pub expires_at: Timestamp,
    pub event: DeliveryEvent,
    pub state: DeliveryState,
    /// Of an item that comes back after it was acked: what the inbox lists it by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listing: Option<Listing>,
}

/// What the inbox lists and filters an item by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Listing {
    pub tenant: String,
    /// In normal form.
    pub sender: Option<String>,
    /// In normal form.
    pub receiver: Option<String>,
    pub doctype: Option<String>,
    pub received_at: Timestamp,
    pub expires_at: Timestamp,
}

impl Listing {
    pub(crate) fn of(head: &AcceptHead) -> Self {
        Self {
            tenant: head.key.tenant.as_str().to_owned(),
            sender: head.meta.sender.as_ref().map(ParticipantId::normal_form),
            receiver: head.meta.receiver.as_ref().map(ParticipantId::normal_form),
            doctype: head.meta.doctype.as_ref().map(ToString::to_string),
            received_at: head.at,
            expires_at: head.expires_at,
        }
    }

    pub(crate) fn of_open(open: &OpenItem) -> Self {
        let text = |name: &Option<std::sync::Arc<str>>| name.as_deref().map(str::to_owned);
        Self {
            tenant: open.tenant.to_string(),
            sender: text(&open.sender),
            receiver: text(&open.receiver),
            doctype: text(&open.doctype),
            received_at: open.received_at,
            expires_at: open.expires_at,
        }
    }
}

/// What became of an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AckResult {
    /// The backend has it from now on.
    Acked,
    /// It had it before.
    AlreadyAcked,
    /// Somebody else got a lease meanwhile.
    LeaseSuperseded,
    /// No such item, or no such lease ever.
    Unknown,
}

/// What became of an item given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NackResult {
    /// It is available again after the delay.
    Released,
    /// It is put aside, as asked.
    Parked,
    /// It was delivered too often and is put aside: alert.
    Dead,
    /// The backend acknowledged it before.
    AlreadyAcked,
    /// Somebody else got a lease meanwhile.
    LeaseSuperseded,
    /// No such item, or no such lease ever.
    Unknown,
}

/// What became of a wish for a longer lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExtendResult {
    /// It lasts until then.
    Extended {
        /// The new end.
        lease_until: Timestamp,
    },
    /// The backend acknowledged it before.
    AlreadyAcked,
    /// Somebody else got a lease meanwhile, or it was given back.
    LeaseSuperseded,
    /// No such item, or no such lease ever.
    Unknown,
}

/// What became of a request for redelivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequeueResult {
    /// It is available again.
    Requeued,
    /// It is never delivered (test service).
    NeverDelivered,
    /// No such item.
    Unknown,
}

/// A step: the event and the state after it, or only a result.
pub(crate) enum Step<R> {
    /// Something changes.
    Change(R, DeliveryEvent, DeliveryState),
    /// Nothing does.
    Nothing(R),
}

impl DeliveryState {
    /// Of an item just accepted.
    pub(crate) fn new(at: Timestamp) -> Self {
        Self {
            sequence: 0,
            phase: Phase::Available { from: at },
            lease: None,
            deliveries: 0,
            forgiven: 0,
            redelivery: Redelivery::None,
            external_ref: None,
        }
    }

    pub(crate) fn state(&self) -> ItemState {
        match self.phase {
            Phase::Available { .. } => ItemState::Available,
            Phase::Leased { .. } => ItemState::Leased,
            Phase::Acked => ItemState::Acked,
            Phase::Dead => ItemState::Dead,
        }
    }

    /// When a worker may have it; never for one that is acked or dead. A lease that ended is like none.
    pub(crate) fn claimable_from(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::Available { from } => Some(from),
            Phase::Leased { until } => Some(until),
            Phase::Acked | Phase::Dead => None,
        }
    }

    fn next(&self, phase: Phase) -> Self {
        Self { sequence: self.sequence.saturating_add(1), phase, ..self.clone() }
    }

    fn worn_out(&self, deliveries_max: u32) -> bool {
        self.deliveries.saturating_sub(self.forgiven) >= deliveries_max
    }

    /// A worker asks for it: a lease, or the end of it when its last lease ran out once too often.
    pub(crate) fn lease(&self, until: Timestamp, deliveries_max: u32) -> (DeliveryEvent, Self) {
        if self.worn_out(deliveries_max) {
            let reason = "the last lease ran out".to_owned();
            return (DeliveryEvent::Dead { reason }, self.next(Phase::Dead));
        }
        let mut next = self.next(Phase::Leased { until });
        next.lease = Some(Lease(next.sequence));
        next.deliveries = next.deliveries.saturating_add(1);
        (DeliveryEvent::Leased { until }, next)
    }

    /// How a lease that is handed in stands.
    fn standing(&self, lease: Lease) -> Standing {
        if self.phase == Phase::Acked {
            return Standing::Acked;
        }
        match self.lease {
            Some(newest) if newest == lease => Standing::Newest,
            _ if lease.0 > 0 && lease.0 <= self.sequence => Standing::Superseded,
            _ => Standing::Never,
        }
    }

    /// Acknowledges. A lease that ended counts as long as nobody else got one: the backend has the document.
    pub(crate) fn ack(&self, lease: Lease, external_ref: Option<String>) -> Step<AckResult> {
        match self.standing(lease) {
            Standing::Acked => Step::Nothing(AckResult::AlreadyAcked),
            Standing::Superseded => Step::Nothing(AckResult::LeaseSuperseded),
            Standing::Never => Step::Nothing(AckResult::Unknown),
            Standing::Newest => {
                let mut next = self.next(Phase::Acked);
                next.external_ref.clone_from(&external_ref);
                Step::Change(AckResult::Acked, DeliveryEvent::Acked { external_ref }, next)
            }
        }
    }

    /// Gives back: available again from a time on, or dead after too many deliveries.
    pub(crate) fn release(
        &self,
        lease: Lease,
        from: Timestamp,
        reason: String,
        deliveries_max: u32,
    ) -> Step<NackResult> {
        if let Some(done) = self.given_back(lease) {
            return Step::Nothing(done);
        }
        if self.worn_out(deliveries_max) {
            return Step::Change(NackResult::Dead, DeliveryEvent::Dead { reason }, self.next(Phase::Dead));
        }
        let next = self.next(Phase::Available { from });
        Step::Change(NackResult::Released, DeliveryEvent::Released { reason, from }, next)
    }

    /// Puts aside, as its worker asks.
    pub(crate) fn park(&self, lease: Lease, reason: String) -> Step<NackResult> {
        if let Some(done) = self.given_back(lease) {
            return Step::Nothing(done);
        }
        Step::Change(NackResult::Parked, DeliveryEvent::Parked { reason }, self.next(Phase::Dead))
    }

    /// Why this lease cannot give back (any more); none when it can.
    fn given_back(&self, lease: Lease) -> Option<NackResult> {
        match (self.standing(lease), self.phase) {
            (Standing::Newest, Phase::Leased { .. }) => None,
            (Standing::Newest, Phase::Dead) => Some(NackResult::Dead),
            (Standing::Newest, _) => Some(NackResult::Released),
            (Standing::Acked, _) => Some(NackResult::AlreadyAcked),
            (Standing::Superseded, _) => Some(NackResult::LeaseSuperseded),
            (Standing::Never, _) => Some(NackResult::Unknown),
        }
    }

    /// Prolongs a lease, also one that ended while nobody else got one.
    pub(crate) fn extend(&self, lease: Lease, now: Timestamp, length: Span) -> Step<ExtendResult> {
        match (self.standing(lease), self.phase) {
            (Standing::Newest, Phase::Leased { .. }) => {
                let until = now.plus(length);
                let result = ExtendResult::Extended { lease_until: until };
                Step::Change(result, DeliveryEvent::Extended { until }, self.next(Phase::Leased { until }))
            }
            (Standing::Acked, _) => Step::Nothing(ExtendResult::AlreadyAcked),
            (Standing::Newest | Standing::Superseded, _) => Step::Nothing(ExtendResult::LeaseSuperseded),
            (Standing::Never, _) => Step::Nothing(ExtendResult::Unknown),
        }
    }

    /// Makes it available once more, whatever it was: leases given so far are void.
    pub(crate) fn requeue(&self, now: Timestamp) -> (DeliveryEvent, Self) {
        let mut next = self.next(Phase::Available { from: now });
        next.lease = None;
        next.forgiven = self.deliveries;
        next.redelivery = Redelivery::Requested;
        (DeliveryEvent::Requeued, next)
    }
}

enum Standing {
    Acked,
    Newest,
    Superseded,
    Never,
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u32 = 3;

    fn at(second: u64) -> Timestamp {
        Timestamp::from_millis(second * 1000)
    }

    fn leased(state: &DeliveryState) -> (Lease, DeliveryState) {
        let (_, next) = state.lease(at(60), MAX);
        (next.lease.unwrap(), next)
    }

    fn ack(state: &DeliveryState, lease: Lease) -> AckResult {
        match state.ack(lease, None) {
            Step::Change(result, ..) | Step::Nothing(result) => result,
        }
    }

    #[test]
    fn an_ended_lease_acknowledges_until_somebody_else_gets_one() {
        let (first, state) = leased(&DeliveryState::new(at(0)));
        assert_eq!(state.claimable_from(), Some(at(60)));
        assert_eq!(ack(&state, first), AckResult::Acked);
        let (second, state) = leased(&state);
        assert_eq!(ack(&state, first), AckResult::LeaseSuperseded);
        assert_eq!(ack(&state, second), AckResult::Acked);
        assert_eq!(ack(&state, Lease(99)), AckResult::Unknown);
        assert_eq!(ack(&state, Lease(0)), AckResult::Unknown);
    }

    #[test]
    fn acknowledging_twice_is_harmless() {
        let (lease, state) = leased(&DeliveryState::new(at(0)));
        let Step::Change(AckResult::Acked, _, state) = state.ack(lease, Some("ERP-1".to_owned())) else {
            panic!("not acked");
        };
        assert_eq!(ack(&state, lease), AckResult::AlreadyAcked);
        assert_eq!(state.external_ref.as_deref(), Some("ERP-1"));
    }

    #[test]
    fn the_delivery_at_the_limit_is_the_last_and_a_requeue_forgives() {
        let mut state = DeliveryState::new(at(0));
        for n in 1..=MAX {
            let (lease, next) = leased(&state);
            let Step::Change(result, _, next) = next.release(lease, at(0), String::new(), MAX) else {
                panic!("nothing changed");
            };
            assert_eq!(result, if n == MAX { NackResult::Dead } else { NackResult::Released });
            state = next;
        }
        let (_, state) = state.requeue(at(1));
        let (_, state) = leased(&state);
        assert_eq!((state.deliveries, state.state()), (MAX + 1, ItemState::Leased));
        assert_eq!(state.redelivery, Redelivery::Requested);
    }

    #[test]
    fn a_lease_that_runs_out_at_the_limit_ends_dead_and_can_still_acknowledge() {
        let mut state = DeliveryState::new(at(0));
        for _ in 0..MAX {
            state = leased(&state).1;
        }
        let lease = state.lease.unwrap();
        let (event, state) = state.lease(at(60), MAX);
        assert!(matches!(event, DeliveryEvent::Dead { .. }));
        assert_eq!(state.state(), ItemState::Dead);
        assert_eq!(ack(&state, lease), AckResult::Acked);
    }

    #[test]
    fn a_requeue_voids_the_lease() {
        let (lease, state) = leased(&DeliveryState::new(at(0)));
        let (_, state) = state.requeue(at(1));
        assert_eq!(ack(&state, lease), AckResult::LeaseSuperseded);
        assert!(matches!(
            state.extend(lease, at(1), Span::seconds(1)),
            Step::Nothing(ExtendResult::LeaseSuperseded)
        ));
    }
}
