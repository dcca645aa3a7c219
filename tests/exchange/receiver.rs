//! An access point in one process: the product's steps in their order, over a list as its store.

use std::collections::BTreeMap;

use oncepoint::{
    exchange::{
        Accepted, Admitted, Delivery, Opened, OpenedPart, Refusal, Site,
        duplicate::{self, Decision, Memory},
        open::{self, DocumentOpening, PartOpening},
        receipt::{self, Outgoing, SignalIds},
        receive,
    },
    model::{Answer, Digest, ItemId, MessageId, MessageKey, PartyId, Scope, Seen, Timestamp},
    wire::mime::{self, MimeError, MimeLimits, Multipart, Package, PartEvent, PartHead, PartReader},
};

/// What became of a message.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Receipted; the digest of what the backend got, or none.
    Accepted { answer: Answer, delivered: Option<Digest>, message_id: MessageId },
    /// Answered with what the first got.
    Replayed { answer: Answer, decision: Decision },
    /// Refused.
    Refused { refusal: Refusal, outgoing: Outgoing },
}

pub(crate) struct Record {
    pub(crate) seen: Seen,
    pub(crate) answer: Answer,
}

/// The access point.
pub(crate) struct Receiver {
    pub(crate) site: Site,
    pub(crate) records: Vec<Record>,
    signatures: BTreeMap<(PartyId, Digest), ItemId>,
    counter: u128,
    /// How many bytes are fed at once.
    piece: usize,
}

struct Part {
    head: PartHead,
    bytes: Vec<u8>,
}

impl Receiver {
    pub(crate) fn new(site: Site, piece: usize) -> Self {
        Self { site, records: Vec::new(), signatures: BTreeMap::new(), counter: 0, piece }
    }

    fn number(&mut self) -> u128 {
        self.counter += 1;
        self.counter
    }

    pub(crate) fn receive(&mut self, content_type: Option<&str>, body: &[u8], now: Timestamp) -> Outcome {
        match self.process(content_type, body, now) {
            Ok(outcome) => outcome,
            Err(refusal) => {
                let ids = self.signal_ids(now);
                let outgoing = receipt::refusal(&refusal, &ids, &self.site);
                Outcome::Refused { refusal: *refusal, outgoing }
            }
        }
    }

    fn signal_ids(&mut self, now: Timestamp) -> SignalIds {
        let message_id = MessageId::parse(&format!("signal-{}@oncepoint.test", self.number())).unwrap();
        SignalIds { message_id, now }
    }

    fn process(
        &mut self,
        content_type: Option<&str>,
        body: &[u8],
        now: Timestamp,
    ) -> Result<Outcome, Box<Refusal>> {
        let mime = |error| Refusal::mime(error, None);
        let (root_type, root, parts) = match mime::package(content_type).map_err(mime)? {
            Package::Bare => (content_type.unwrap_or_default().to_owned(), body.to_vec(), Vec::new()),
            Package::Multipart(multipart) => self.unpack(&multipart, body).map_err(mime)?,
        };
        let claimed = receive::read(&root, &root_type)?;
        let records = &self.records;
        let lookup = |key: &MessageKey| Ok(seen(records, key, Scope::PartyId));
        let admitted = receive::admit(claimed, &self.site, now, &lookup)?;
        let seen = seen(&self.records, admitted.key(), admitted.pmode().duplicates.scope);
        let others: Vec<MessageKey> = self.records.iter().map(|record| record.seen.key.clone()).collect();
        let signature = (admitted.key().sender.clone(), admitted.content().signature);
        let memory = Memory {
            seen: &seen,
            others: &others,
            signature_used_by: self.signatures.get(&signature).copied(),
        };
        let decision = duplicate::decide(&admitted, &memory, now);
        if let Some(outcome) = self.settled(&admitted, &decision, &seen)? {
            return Ok(outcome);
        }
        let opened = self.open(&admitted, &parts)?;
        if matches!(decision, Decision::LookCloser { .. }) {
            let decision = duplicate::decide_opened(&admitted, &opened, &memory, now);
            if let Some(outcome) = self.settled(&admitted, &decision, &seen)? {
                return Ok(outcome);
            }
        }
        let accepted = receive::accept(&admitted, &opened, &self.site)?;
        Ok(self.commit(&admitted, &opened, &accepted, now))
    }

    /// The parts, and that the root is among them.
    fn unpack(&self, multipart: &Multipart, body: &[u8]) -> Result<(String, Vec<u8>, Vec<Part>), MimeError> {
        let mut parts: Vec<Part> = Vec::new();
        let mut reader = PartReader::new(&multipart.boundary, MimeLimits::default());
        let mut on = |event: PartEvent<'_>| -> Result<(), MimeError> {
            match event {
                PartEvent::Head(head) => parts.push(Part { head, bytes: Vec::new() }),
                PartEvent::Data(bytes) => parts.last_mut().unwrap().bytes.extend_from_slice(bytes),
                PartEvent::End => {}
            }
            Ok(())
        };
        for piece in body.chunks(self.piece) {
            reader.feed(piece, &mut on)?;
        }
        reader.finish(&mut on)?;
        let is_root = |(index, part): (usize, &Part)| mime::is_root(multipart, index, &part.head);
        let root = parts.iter().enumerate().position(is_root).ok_or(MimeError::StartUnresolved)?;
        let root = parts.remove(root);
        root.head.check_root(multipart)?;
        for part in &parts {
            part.head.required_id()?;
        }
        Ok((root.head.content_type.unwrap_or_default(), root.bytes, parts))
    }

    /// The outcome of a decision that needs no more work; none for one that does.
    fn settled(
        &self,
        admitted: &Admitted,
        decision: &Decision,
        seen: &[Seen],
    ) -> Result<Option<Outcome>, Box<Refusal>> {
        if let Some(refusal) = receive::refusal_of(admitted, decision, seen) {
            return Err(refusal.into());
        }
        let Decision::Replay { index, .. } = decision else { return Ok(None) };
        let first = self.records.iter().find(|record| record.seen.item == seen[*index].item).unwrap();
        Ok(Some(Outcome::Replayed { answer: first.answer.clone(), decision: decision.clone() }))
    }

    fn open(&self, admitted: &Admitted, parts: &[Part]) -> Result<Opened, Box<Refusal>> {
        let ids: Vec<_> = parts.iter().map(|part| part.head.content_id.clone().unwrap()).collect();
        admitted.check_parts(&ids)?;
        let key = open::content_key(admitted)?;
        let mut opened: BTreeMap<usize, OpenedPart> = BTreeMap::new();
        let mut used = 0;
        for part in parts {
            let place = admitted.part_named(part.head.content_id.as_ref().unwrap())?;
            let content_type = part.head.content_type.as_deref();
            let mut quarantine = Vec::new();
            let mut opening = PartOpening::new(admitted, place, content_type, key.as_ref())?;
            for piece in part.bytes.chunks(self.piece) {
                opening.feed(piece, &mut |plain| quarantine.extend_from_slice(plain));
            }
            opening.finish(admitted)?;
            let mut document = DocumentOpening::new(admitted, place, used);
            let mut delivered = Vec::new();
            for piece in quarantine.chunks(self.piece) {
                document.feed(admitted, piece, &mut |bytes| delivered.extend_from_slice(bytes))?;
            }
            let part = document.finish(admitted)?;
            assert_eq!((part.digest, part.size), (Digest::of(&delivered), delivered.len() as u64));
            used += part.size;
            opened.insert(place, part);
        }
        Ok(Opened::new(admitted, opened.into_values().collect()))
    }

    fn commit(
        &mut self,
        admitted: &Admitted,
        opened: &Opened,
        accepted: &Accepted,
        now: Timestamp,
    ) -> Outcome {
        let ids = self.signal_ids(now);
        let answer = receipt::receipt(admitted, &ids, &admitted.identity().key).unwrap();
        let item = ItemId::from_uuid(uuid::Uuid::from_u128(self.number()));
        let content = opened.content().clone();
        self.signatures.insert((admitted.key().sender.clone(), content.signature), item);
        let seen = Seen {
            item,
            key: admitted.key().clone(),
            accepted_at: now,
            expires_at: duplicate::expires_at(now, accepted.window),
            content,
        };
        self.records.push(Record { seen, answer: answer.clone() });
        let delivered = match accepted.delivery {
            Delivery::Inbox => Some(opened.parts()[0].digest),
            Delivery::Never => None,
        };
        Outcome::Accepted { answer, delivered, message_id: admitted.key().message_id.clone() }
    }
}

fn seen(records: &[Record], key: &MessageKey, scope: Scope) -> Vec<Seen> {
    let concerns = |seen: &Seen| {
        seen.key == *key
            || (scope == Scope::Id
                && (&seen.key.tenant, &seen.key.message_id) == (&key.tenant, &key.message_id))
    };
    records.iter().map(|record| record.seen.clone()).filter(concerns).collect()
}
