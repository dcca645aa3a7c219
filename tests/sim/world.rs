//! Senders that retry, a network that loses, repeats, delays and reorders, and nodes that crash. One queue of
//! events, one seed, no threads, no clock.

use std::collections::BTreeMap;

use oncepoint::{
    exchange::duplicate::{self, Arrival, Decision, Memory},
    model::{ContentRecord, MessageKey, Scope, Seen, Span, Timestamp},
};

use super::{
    mutant::Mutant,
    store::{Claim, Record, Store, Tick, Unit},
    words::{Prng, content, item, key},
};

/// Losses, crashes and faults end here, so that what is still alive must come to its end.
const FAULTS_END: Tick = 800;
/// The window that holds at first.
const WINDOW: Tick = 2_000;
/// How long a repeat waits for the outcome of the first.
const IN_PROGRESS_WAIT: Tick = 20;
/// How long a claim lives that a dead node can no longer renew.
const LEASE: Tick = 30;
/// After how long a claim is taken over although its owner renews it.
const TAKEOVER_AFTER: Tick = 150;
/// The longest way of a packet.
const DELAY_MAX: u64 = 120;

#[derive(Clone)]
pub(crate) struct Packet {
    flow: usize,
    key: MessageKey,
    content: ContentRecord,
    payload: u64,
    sent: Tick,
    nature: Nature,
}

/// What a receiver will find.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Nature {
    Good,
    /// Authentic, but its payload must be refused.
    Broken,
    /// Not signed by whom it says.
    Forged,
}

/// Whether another flow has the same key, or in scope `id` the same MessageId: then one of them may fail.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rivalry {
    Alone,
    Contested,
}

/// How a sender packs its payload for each try.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Packing {
    Once,
    Anew,
}

#[derive(Clone, Copy)]
enum Reply {
    Receipt(u64),
    Error,
    Unavailable,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Waiting,
    Acked,
    Failed,
}

/// A document and its sender's efforts.
pub(crate) struct Flow {
    sender: u64,
    message: u64,
    pub(crate) payload: u64,
    /// The first tries carry something that must be refused.
    broken: bool,
    pub(crate) rivalry: Rivalry,
    packing: Packing,
    pub(crate) state: State,
    tries: u64,
}

enum Event {
    Attempt(usize),
    LateRepeat(usize),
    Arrive(usize, Packet),
    Gate(Process),
    Opened(Process, Vec<Seen>),
    Flushed(Process, u64),
    Reply(Packet, Reply),
    Crash(usize),
    Purge,
    WindowChanges,
}

#[derive(Clone)]
struct Process {
    id: u64,
    node: usize,
    epoch: u64,
    packet: Packet,
    waits_until: Tick,
}

pub(crate) struct World {
    prng: Prng,
    mutant: Mutant,
    queue: BTreeMap<(Tick, u64), Event>,
    order: u64,
    now: Tick,
    loss: u64,
    repeats: u64,
    faults: u64,
    window: Tick,
    pub(crate) scope: Scope,
    epochs: Vec<u64>,
    pub(crate) store: Store,
    pub(crate) flows: Vec<Flow>,
    next: u64,
}

impl World {
    pub(crate) fn new(seed: u64, mutant: Mutant) -> Self {
        let mut prng = Prng::new(seed);
        let nodes = 1 + usize::from(prng.percent(40));
        let scope = prng.pick(&[Scope::PartyId, Scope::PartyId, Scope::Id, Scope::PartyIdPayload]);
        let mut world = Self {
            loss: prng.below(45),
            repeats: prng.below(35),
            faults: prng.below(15),
            window: WINDOW,
            scope,
            epochs: vec![0; nodes],
            store: Store::default(),
            flows: Vec::new(),
            queue: BTreeMap::new(),
            order: 0,
            now: 0,
            next: 1,
            prng,
            mutant,
        };
        world.populate();
        world
    }

    fn populate(&mut self) {
        for _ in 0..2 + self.prng.below(3) {
            let sender = 1 + self.prng.below(2);
            let message = self.number();
            let first = self.add_flow(sender, message);
            self.flows[first].broken = self.prng.percent(25);
            if self.prng.percent(30) {
                let rival = if self.prng.percent(50) { sender } else { 3 - sender };
                let second = self.add_flow(rival, message);
                let rivalry = match self.scope {
                    Scope::Id => Rivalry::Contested,
                    Scope::PartyId if rival == sender => Rivalry::Contested,
                    Scope::PartyId | Scope::PartyIdPayload => Rivalry::Alone,
                };
                (self.flows[first].rivalry, self.flows[second].rivalry) = (rivalry, rivalry);
            }
        }
        for _ in 0..self.faults {
            let (at, node) = (self.prng.below(FAULTS_END), self.prng.below(self.epochs.len() as u64));
            self.at(at, Event::Crash(usize::try_from(node).unwrap()));
        }
        for _ in 0..3 {
            let at = self.prng.below(3 * WINDOW);
            self.at(at, Event::Purge);
        }
        if self.prng.percent(50) {
            let at = self.prng.below(2 * WINDOW);
            self.at(at, Event::WindowChanges);
        }
    }

    fn add_flow(&mut self, sender: u64, message: u64) -> usize {
        let payload = self.number();
        let packing = if self.prng.percent(30) { Packing::Anew } else { Packing::Once };
        let (state, tries) = (State::Waiting, 0);
        self.flows.push(Flow {
            sender,
            message,
            payload,
            broken: false,
            rivalry: Rivalry::Alone,
            packing,
            state,
            tries,
        });
        let flow = self.flows.len() - 1;
        let at = self.prng.below(200);
        self.at(at, Event::Attempt(flow));
        flow
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn at(&mut self, tick: Tick, event: Event) {
        self.order += 1;
        self.queue.insert((tick, self.order), event);
    }

    fn after(&mut self, ticks: Tick, event: Event) {
        self.at(self.now + ticks, event);
    }

    /// Faults happen in the first part only.
    fn fault(&mut self, percent: u64) -> bool {
        self.now < FAULTS_END && self.prng.percent(percent)
    }

    fn time(&self) -> Timestamp {
        Timestamp::from_millis(self.now)
    }

    fn is_one_node(&self) -> bool {
        self.epochs.len() == 1
    }

    fn is_dead(&self, process: &Process) -> bool {
        self.epochs[process.node] != process.epoch
    }

    /// Runs to the end.
    pub(crate) fn run(&mut self) -> Result<(), String> {
        while let Some(((tick, _), event)) = self.queue.pop_first() {
            self.now = tick;
            match event {
                Event::Attempt(flow) => self.attempt(flow),
                Event::LateRepeat(flow) => self.send(flow),
                Event::Arrive(node, packet) => self.arrive(node, packet)?,
                Event::Gate(process) => self.gate(process)?,
                Event::Opened(process, known) => self.opened(&process, &known)?,
                Event::Flushed(process, receipt) => self.flushed(&process, receipt)?,
                Event::Reply(packet, reply) => self.replied(&packet, reply),
                Event::Crash(node) => self.crash(node),
                Event::Purge => self.purge(),
                Event::WindowChanges => self.window = self.prng.pick(&[WINDOW / 2, WINDOW * 2]),
            }
        }
        Ok(())
    }

    // The sender.

    fn attempt(&mut self, flow: usize) {
        if self.flows[flow].state != State::Waiting || self.flows[flow].tries == 60 {
            return;
        }
        self.send(flow);
        let interval = 30 + self.prng.below(30);
        self.after(interval, Event::Attempt(flow));
    }

    fn send(&mut self, flow: usize) {
        let nonce = self.number();
        let anew = self.prng.percent(50);
        let sent = self.now;
        let f = &mut self.flows[flow];
        f.tries += 1;
        let signature = if anew { 1_000_000 + nonce } else { f.payload };
        let packing = if f.packing == Packing::Anew { f.tries % 3 } else { 0 };
        let payload = if f.broken { f.payload + 500_000 } else { f.payload };
        let message =
            if self.mutant == Mutant::NewIdOnRetry { f.message + f.tries * 10_000 } else { f.message };
        let signature = if f.broken || f.packing == Packing::Anew { 2_000_000 + nonce } else { signature };
        let packet = Packet {
            flow,
            key: key(f.sender, message),
            content: content(payload, packing, signature),
            payload,
            sent,
            nature: if f.broken { Nature::Broken } else { Nature::Good },
        };
        if self.prng.percent(10) {
            let forgery = Packet { nature: Nature::Forged, content: content(1, 0, nonce), ..packet.clone() };
            self.transmit(&forgery);
        }
        self.transmit(&packet);
    }

    fn transmit(&mut self, packet: &Packet) {
        let copies = 1 + u64::from(self.prng.percent(self.repeats));
        for _ in 0..copies {
            if !self.fault(self.loss) {
                let delay = 1 + self.prng.below(DELAY_MAX);
                let node = usize::try_from(self.prng.below(self.epochs.len() as u64)).unwrap();
                self.after(delay, Event::Arrive(node, packet.clone()));
            }
        }
    }

    fn replied(&mut self, packet: &Packet, reply: Reply) {
        let flow = &mut self.flows[packet.flow];
        let current = if flow.broken { flow.payload + 500_000 } else { flow.payload };
        if packet.nature == Nature::Forged || packet.payload != current || flow.state != State::Waiting {
            return;
        }
        match reply {
            Reply::Unavailable => {}
            Reply::Error if flow.broken => flow.broken = false,
            Reply::Error => flow.state = State::Failed,
            Reply::Receipt(_) => {
                flow.state = State::Acked;
                for _ in 0..3 {
                    let later = 1 + self.prng.below(2 * WINDOW);
                    self.after(later, Event::LateRepeat(packet.flow));
                }
            }
        }
    }

    // The receiver.

    fn arrive(&mut self, node: usize, packet: Packet) -> Result<(), String> {
        if packet.nature == Nature::Forged {
            if self.mutant == Mutant::IdTakenUnauthenticated {
                self.burn(&packet);
            }
            return self.answer(&packet, Reply::Error);
        }
        let process = Process {
            id: self.number(),
            node,
            epoch: self.epochs[node],
            packet,
            waits_until: self.now + IN_PROGRESS_WAIT,
        };
        self.gate(process)
    }

    fn gate(&mut self, process: Process) -> Result<(), String> {
        if self.is_dead(&process) {
            return Ok(());
        }
        if self.is_busy(&process) {
            return self.wait(process);
        }
        let known = self.seen(&process.packet);
        match self.decide(&process.packet, &known, duplicate::judge) {
            Decision::Replay { index, .. } => self.replay(&process, &known, index),
            Decision::Conflict { .. } if self.mutant == Mutant::ReceiptOverNewDigests => {
                let receipt = self.number();
                self.answer(&process.packet, Reply::Receipt(receipt))
            }
            Decision::Process(_) | Decision::LookCloser { .. } => {
                self.claim(&process);
                let stuck = self.fault(5);
                let work = 1 + self.prng.below(40) + if stuck { 2 * TAKEOVER_AFTER } else { 0 };
                self.after(work, Event::Opened(process, known));
                Ok(())
            }
            _ => self.answer(&process.packet, Reply::Error),
        }
    }

    fn claim_key(&self, key: &MessageKey) -> MessageKey {
        match self.scope {
            Scope::Id => super::words::key(0, 0).with_message_of(key),
            _ => key.clone(),
        }
    }

    fn is_busy(&self, process: &Process) -> bool {
        let Some(claim) = self.store.claims.get(&self.claim_key(&process.packet.key)) else { return false };
        if self.mutant == Mutant::DecideOutsideTransaction {
            return false;
        }
        let owner_lives = self.epochs[claim.node] == claim.epoch;
        let held =
            if owner_lives { self.now < claim.since + TAKEOVER_AFTER } else { self.now < claim.lease_until };
        held || self.mutant == Mutant::ClaimNeverFreed
    }

    fn wait(&mut self, process: Process) -> Result<(), String> {
        if self.mutant == Mutant::FinalErrorWhileInProgress {
            return self.answer(&process.packet, Reply::Error);
        }
        if self.now >= process.waits_until {
            return self.answer(&process.packet, Reply::Unavailable);
        }
        self.after(5, Event::Gate(process));
        Ok(())
    }

    fn claim(&mut self, process: &Process) {
        let claim = Claim {
            process: process.id,
            epoch: process.epoch,
            node: process.node,
            since: self.now,
            lease_until: self.now,
        };
        self.store.claims.insert(self.claim_key(&process.packet.key), claim);
    }

    /// Gives the id back, if it is still this process's.
    fn release(&mut self, process: &Process) {
        let key = self.claim_key(&process.packet.key);
        if self.owns(process) {
            self.store.claims.remove(&key);
        }
    }

    fn owns(&self, process: &Process) -> bool {
        let claim = self.store.claims.get(&self.claim_key(&process.packet.key));
        claim.is_some_and(|claim| claim.process == process.id)
    }

    /// The records that concern a message, as the store hands them out for its scope.
    fn seen(&self, packet: &Packet) -> Vec<Seen> {
        let concerns = |seen: &Seen| {
            seen.key == packet.key
                || (self.scope == Scope::Id && seen.key.message_id == packet.key.message_id)
        };
        let mut seen: Vec<Seen> = self.store.records().map(|record| record.seen.clone()).collect();
        if self.mutant == Mutant::ScopeIgnored && self.scope == Scope::PartyId {
            seen.retain(|seen| seen.key.message_id == packet.key.message_id);
            seen.iter_mut().for_each(|seen| seen.key = packet.key.clone());
        } else {
            seen.retain(concerns);
        }
        if self.mutant == Mutant::ShorterWindowHolds {
            let by_now = |seen: &Seen| seen.accepted_at.plus(Span::millis(self.window));
            seen.retain(|seen| self.time() <= seen.expires_at.min(by_now(seen)));
        }
        seen
    }

    fn decide(
        &self,
        packet: &Packet,
        seen: &[Seen],
        judge: fn(&Arrival<'_>, &Memory<'_>, Timestamp) -> Decision,
    ) -> Decision {
        let mut content = packet.content.clone();
        let mut seen = seen.to_vec();
        match self.mutant {
            Mutant::MessagingDigestCompared => {
                content.body_children = content.messaging;
                seen.iter_mut().for_each(|seen| seen.content.body_children = seen.content.messaging);
            }
            Mutant::NoCloserLook => {
                content.envelope = None;
                content.document = None;
            }
            Mutant::ContentIgnored => seen.iter_mut().for_each(|seen| seen.content = content.clone()),
            _ => {}
        }
        let arrival = Arrival {
            key: &packet.key,
            content: &content,
            timestamp: Timestamp::from_millis(packet.sent),
            scope: self.scope,
            window: Span::millis(self.window),
        };
        let decision = judge(&arrival, &Memory::of(&seen), self.time());
        match decision {
            Decision::LookCloser { index } | Decision::Conflict { index }
                if self.mutant == Mutant::ReceiptOverNewDigests =>
            {
                Decision::Conflict { index }
            }
            decision => decision,
        }
    }

    fn replay(&mut self, process: &Process, known: &[Seen], index: usize) -> Result<(), String> {
        let stored = self.store.records().find(|record| record.seen.item == known[index].item);
        let Some(stored) = stored else { return Ok(()) };
        let receipt = match self.mutant {
            Mutant::RebuiltReceipt => self.number(),
            _ => stored.receipt,
        };
        if self.mutant == Mutant::WindowProlonged {
            let later = self.time().plus(Span::millis(self.window));
            self.store.prolong(known[index].item, later);
        }
        self.answer(&process.packet, Reply::Receipt(receipt))
    }

    /// The payload is open: decide again where that was asked for, and commit.
    fn opened(&mut self, process: &Process, known: &[Seen]) -> Result<(), String> {
        if self.is_dead(process) {
            return Ok(());
        }
        if process.packet.nature == Nature::Broken {
            return self.refuse_payload(process);
        }
        if self.fault(5) {
            self.release(process);
            return self.answer(&process.packet, Reply::Unavailable);
        }
        match self.decide(&process.packet, known, duplicate::judge_opened) {
            Decision::Replay { index, .. } => {
                self.release(process);
                self.replay(process, known, index)
            }
            Decision::Process(_) => self.commit(process, known),
            _ => {
                self.release(process);
                self.answer(&process.packet, Reply::Error)
            }
        }
    }

    fn refuse_payload(&mut self, process: &Process) -> Result<(), String> {
        match self.mutant {
            Mutant::BurntIdOnRefusal => self.burn(&process.packet),
            Mutant::ReceiptForFailedFirst => {
                let record = self.record(&process.packet);
                self.store.append(Unit::KeyOnly(record));
                self.store.flush();
            }
            _ => {}
        }
        self.release(process);
        self.answer(&process.packet, Reply::Error)
    }

    /// Takes the id of a message that was not accepted, as some products do.
    fn burn(&mut self, packet: &Packet) {
        let record = self.record(packet);
        self.store.append(Unit::KeyOnly(record));
        self.store.flush();
        self.store.history.pop();
    }

    fn record(&mut self, packet: &Packet) -> Record {
        let receipt = self.number();
        let seen = Seen {
            item: item(receipt),
            key: packet.key.clone(),
            accepted_at: self.time(),
            expires_at: duplicate::expires_at(self.time(), Span::millis(self.window)),
            content: packet.content.clone(),
        };
        Record { seen, receipt, payload: packet.payload }
    }

    /// The transaction: it fails when the claim or the records are not those that the decision was taken on.
    fn commit(&mut self, process: &Process, known: &[Seen]) -> Result<(), String> {
        let unchanged = self.seen(&process.packet).len() == known.len();
        let unfenced = matches!(self.mutant, Mutant::FenceIgnored | Mutant::DecideOutsideTransaction);
        let is_fenced_off = !(self.owns(process) && unchanged);
        if is_fenced_off && !unfenced {
            self.release(process);
            return self.answer(&process.packet, Reply::Unavailable);
        }
        let record = self.record(&process.packet);
        let receipt = record.receipt;
        match self.mutant {
            Mutant::LogAndInboxInTwoCommits => {
                self.store.append(Unit::KeyOnly(record.clone()));
                self.store.append(Unit::InboxOnly(record));
            }
            Mutant::InboxForgotten if self.prng.percent(30) => self.store.append(Unit::KeyOnly(record)),
            _ => self.store.append(Unit::Accept(record)),
        }
        if self.mutant == Mutant::AnswerBeforeFlush {
            self.answer(&process.packet, Reply::Receipt(receipt))?;
        }
        if !self.is_one_node() && self.mutant != Mutant::AnswerBeforeFlush {
            self.store.flush();
        }
        let until = 1 + self.prng.below(5);
        if self.fault(5) {
            self.after(until, Event::Crash(process.node));
        }
        self.after(until, Event::Flushed(process.clone(), receipt));
        Ok(())
    }

    fn flushed(&mut self, process: &Process, receipt: u64) -> Result<(), String> {
        if self.is_dead(process) {
            return Ok(());
        }
        self.store.flush();
        self.release(process);
        self.answer(&process.packet, Reply::Receipt(receipt))
    }

    fn answer(&mut self, packet: &Packet, reply: Reply) -> Result<(), String> {
        if let Reply::Receipt(receipt) = reply {
            self.check_receipt(packet, receipt)?;
        }
        if !self.fault(self.loss) {
            let delay = 1 + self.prng.below(DELAY_MAX);
            self.after(delay, Event::Reply(packet.clone(), reply));
        }
        Ok(())
    }

    /// A receipt that leaves says: this content, from this sender, under this id, is durable and in its window.
    fn check_receipt(&self, packet: &Packet, receipt: u64) -> Result<(), String> {
        let proven = self.store.history.iter().find(|record| record.receipt == receipt);
        let Some(proven) = proven else {
            return Err(format!("tick {}: receipt {receipt} over nothing durable", self.now));
        };
        if proven.seen.key != packet.key || proven.payload != packet.payload {
            return Err(format!("tick {}: receipt {receipt} of another message", self.now));
        }
        if packet.nature == Nature::Broken {
            return Err(format!("tick {}: receipt {receipt} for a message that must be refused", self.now));
        }
        if !duplicate::is_live(&proven.seen, Span::millis(self.window), self.time()) {
            return Err(format!("tick {}: receipt {receipt} outside its window", self.now));
        }
        Ok(())
    }

    // Faults and the sweeper.

    fn crash(&mut self, node: usize) {
        self.epochs[node] += 1;
        if self.is_one_node() {
            let claims = self.store.claims.clone();
            self.store.crash(&mut self.prng);
            if self.mutant == Mutant::ClaimNeverFreed {
                self.store.claims = claims;
            }
            return;
        }
        let now = self.now;
        for claim in self.store.claims.values_mut().filter(|claim| claim.node == node) {
            claim.lease_until = now + LEASE;
        }
    }

    fn purge(&mut self) {
        let (window, now) = (Span::millis(self.window), self.time());
        match self.mutant {
            Mutant::PurgedEarly => self.store.purge_early(window, now),
            _ => self.store.purge(window, now),
        }
    }
}

trait WithMessage {
    fn with_message_of(self, key: &MessageKey) -> MessageKey;
}

impl WithMessage for MessageKey {
    fn with_message_of(self, key: &MessageKey) -> MessageKey {
        Self { message_id: key.message_id.clone(), ..self }
    }
}
