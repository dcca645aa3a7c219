//! One message from its first byte to its outcome, as a machine that is moved forward in the pool: it never
//! waits, and says what it waits for.

use std::{io::Read as _, sync::Arc};

use bytes::Bytes;

use super::{
    Shared,
    documents::{Documents, Progress},
    gate::{self, Gate},
    held::Held,
    intake::{Intake, Opener, Stop},
    outcome::{Arrived, Ending, Known},
};
use crate::{
    exchange::{
        Accepted, Admitted, Delivery as Delivers, Notice, Opened, Refusal, Site, duplicate, open,
        receipt::{self, SignalIds},
        receive,
    },
    model::{Answer, ItemId, MessageId, PartyId, Tenant},
    security::encryption::ContentKey,
    store::{self, Acceptance, AnswerError, Busy, Delivery, Fence, InboundMeta},
    wire::{ebms::EbmsReadError, mime::MimeError, sbdh::PayloadForm},
};

/// What the machine waits for.
pub(super) enum Step {
    /// More of the body.
    More,
    /// Its next turn in the pool.
    Turn,
    /// The end of another's work on the same message.
    Wait(Busy),
    /// The disk.
    Commit(Box<(Fence, Acceptance)>),
    /// A rebuilt receipt on the disk.
    Rebuild(ItemId, Answer),
    /// Nothing: this is the outcome.
    Done(Ending),
}

/// A piece of the body, and whether it was the last.
#[derive(Debug, Default)]
pub(super) struct Input {
    pub(super) pieces: Vec<Bytes>,
    pub(super) ended: bool,
}

enum Stage {
    /// The root part is not whole yet.
    Root,
    /// Admitted; the gate was not passed.
    Gate,
    /// Attachments are opened, under a claim or to look closer.
    Opening(Option<Fence>),
    /// All is opened.
    Opened(Option<Fence>),
    /// An outcome was given.
    Over,
}

/// A message on its way.
pub(super) struct Reception {
    shared: Arc<Shared>,
    site: Arc<Site>,
    item: ItemId,
    arrived: Arrived,
    intake: Intake,
    ended: bool,
    stage: Stage,
    known: Known,
    envelope: Bytes,
    admitted: Option<Box<Admitted>>,
    key: Option<ContentKey>,
    documents: Option<Documents>,
    opened: Option<Opened>,
    payload: Option<store::Payload>,
    notices: Vec<Notice>,
}

impl Reception {
    /// Begins with the head of a request.
    ///
    /// # Errors
    /// When its Content-Type is of no AS4 message.
    pub(super) fn begin(
        shared: &Arc<Shared>,
        arrived: Arrived,
        content_type: Option<&str>,
    ) -> Result<Box<Self>, MimeError> {
        let intake = Intake::new(content_type, &shared.store, &shared.budget)?;
        let item = shared.clock.item_id();
        Ok(Box::new(Self {
            shared: Arc::clone(shared),
            site: shared.site(),
            item,
            arrived,
            intake,
            ended: false,
            stage: Stage::Root,
            known: Known::default(),
            envelope: Bytes::new(),
            admitted: None,
            key: None,
            documents: Some(Documents::new(item)),
            opened: None,
            payload: None,
            notices: Vec::new(),
        }))
    }

    /// How long a repeat of this message waits while the first is in progress.
    pub(super) fn in_progress_wait(&self) -> std::time::Duration {
        let policy = self.admitted.as_ref().map(|admitted| admitted.pmode().duplicates.in_progress_wait);
        policy.unwrap_or_default().as_duration()
    }

    /// Moves on as far as is possible without waiting.
    pub(super) fn step(&mut self, input: Input) -> Step {
        match self.forward(input) {
            Ok(step) => step,
            Err(stop) => {
                let refusal = self.refusal(stop);
                Step::Done(self.refused(&refusal))
            }
        }
    }

    fn forward(&mut self, input: Input) -> Result<Step, Stop> {
        self.take(input)?;
        loop {
            let next = match std::mem::replace(&mut self.stage, Stage::Over) {
                Stage::Root => self.at_root()?,
                Stage::Gate => self.at_gate()?,
                Stage::Opening(fence) => self.at_opening(fence)?,
                Stage::Opened(fence) => self.at_opened(fence)?,
                Stage::Over => return Err(Refusal::ours("a message went on after its end").into()),
            };
            if let Some(step) = next {
                return Ok(step);
            }
        }
    }

    fn take(&mut self, input: Input) -> Result<(), Stop> {
        let opener = match (&self.stage, &self.admitted) {
            (Stage::Opening(_), Some(admitted)) => {
                Some(Opener { admitted: admitted.as_ref(), key: self.key.as_ref() })
            }
            _ => None,
        };
        for piece in input.pieces {
            self.intake.feed(&piece, opener.as_ref())?;
        }
        if input.ended && !self.ended {
            self.ended = true;
            self.intake.end(opener.as_ref())?;
        }
        Ok(())
    }

    /// XML, envelope, header, P-Mode, signature, trust, party.
    fn at_root(&mut self) -> Result<Option<Step>, Stop> {
        let Some((root, content_type)) = self.intake.take_root() else {
            self.stage = Stage::Root;
            return Ok(Some(Step::More));
        };
        self.envelope = whole(root)?;
        let claimed = receive::read(&self.envelope, &content_type)?;
        self.known = Known::of(&claimed.message);
        let (store, now) = (&self.shared.store, self.shared.clock.now());
        let lookup = |key: &_| store.seen(key, crate::model::Scope::PartyId).map_err(|e| e.to_string());
        let admitted = receive::admit(claimed, &self.site, now, &lookup)?;
        self.notices.extend(admitted.notices());
        self.admitted = Some(Box::new(admitted));
        self.stage = Stage::Gate;
        Ok(None)
    }

    fn at_gate(&mut self) -> Result<Option<Step>, Stop> {
        self.pass_gate(Stage::Gate, Stage::Opening)
    }

    /// Asks the gate; `again` is the stage in which it is asked once more, `on` the one behind it.
    fn pass_gate(
        &mut self,
        again: Stage,
        on: impl FnOnce(Option<Fence>) -> Stage,
    ) -> Result<Option<Step>, Stop> {
        let admitted = self.admitted.as_deref().ok_or_else(unadmitted)?;
        let now = self.shared.clock.now();
        match gate::ask(&self.shared.store, admitted, self.opened.as_ref(), now)? {
            Gate::Busy(busy) => {
                if !self.notices.contains(&Notice::RepeatWhileInProgress) {
                    self.notices.push(Notice::RepeatWhileInProgress);
                }
                self.stage = again;
                return Ok(Some(Step::Wait(busy)));
            }
            Gate::Replay(first, notices) => {
                self.notices.extend(notices);
                return self.replay(first).map(Some);
            }
            Gate::LookCloser => self.stage = on(None),
            Gate::Ours(fence, notices) => {
                self.notices.retain(|notice| *notice != Notice::RepeatWhileInProgress);
                self.notices.extend(notices);
                self.notices.extend(fence.taken_over().map(|_| Notice::TakenOver));
                self.stage = on(Some(fence));
            }
        }
        if self.opened.is_none() {
            self.unwrap_key()?;
        }
        Ok(None)
    }

    /// The one private-key operation of opening, and everything that came before it was allowed.
    fn unwrap_key(&mut self) -> Result<(), Stop> {
        let admitted = self.admitted.as_deref().ok_or_else(unadmitted)?;
        self.key = open::content_key(admitted)?;
        self.intake.open_raw(&Opener { admitted, key: self.key.as_ref() })
    }

    fn at_opening(&mut self, fence: Option<Fence>) -> Result<Option<Step>, Stop> {
        if !self.ended {
            self.stage = Stage::Opening(fence);
            return Ok(Some(Step::More));
        }
        let admitted = self.admitted.as_deref().ok_or_else(unadmitted)?;
        admitted.check_parts(&self.intake.content_ids())?;
        let documents = self.documents.as_mut().ok_or_else(unadmitted)?;
        if documents.advance(admitted, &mut self.intake, &self.shared.store)? == Progress::More {
            self.stage = Stage::Opening(fence);
            return Ok(Some(Step::Turn));
        }
        if let Some(documents) = self.documents.take() {
            let (parts, payload) = documents.finish();
            self.opened = Some(Opened::new(admitted, parts));
            self.payload = payload;
        }
        self.stage = Stage::Opened(fence);
        Ok(None)
    }

    fn at_opened(&mut self, fence: Option<Fence>) -> Result<Option<Step>, Stop> {
        let Some(fence) = fence else { return self.pass_gate(Stage::Opened(None), Stage::Opened) };
        let admitted = self.admitted.as_deref().ok_or_else(unadmitted)?;
        let opened = self.opened.take().ok_or_else(unadmitted)?;
        let accepted = receive::accept(admitted, &opened, &self.site)?;
        if opened.parts().len() > 1 && accepted.delivery == Delivers::Inbox {
            return Err(admitted.refuse(several_payloads()).into());
        }
        self.notices.extend(accepted.notices.iter().copied());
        let answer = self.receipt(admitted)?;
        let now = self.shared.clock.now();
        let acceptance = Acceptance {
            item: self.item,
            at: now,
            expires_at: duplicate::expires_at(now, accepted.window),
            content: opened.content().clone(),
            certificate: admitted.verified().signer().certificate().der().to_vec(),
            answer,
            payload: self.payload.take(),
            delivery: match accepted.delivery {
                Delivers::Inbox => Delivery::Inbox,
                Delivers::Never => Delivery::Never,
            },
            meta: meta(admitted, &opened, &accepted),
            envelope: self.envelope.clone(),
            headers: self.arrived.headers.clone(),
            notices: self.notices.iter().map(|notice| store::Notice::new(notice.as_str())).collect(),
        };
        Ok(Some(Step::Commit(Box::new((fence, acceptance)))))
    }

    /// The stored answer of the first message, byte for byte; a new receipt when it cannot be read.
    fn replay(&self, first: ItemId) -> Result<Step, Stop> {
        match self.shared.store.answer(first) {
            Ok(answer) => Ok(Step::Done(self.repeated(first, answer))),
            Err(AnswerError::Unreadable) => {
                let admitted = self.admitted.as_deref().ok_or_else(unadmitted)?;
                Ok(Step::Rebuild(first, self.receipt(admitted)?))
            }
            Err(error @ (AnswerError::Gone | AnswerError::Store(_))) => {
                Err(Refusal::ours(error.to_string()).into())
            }
        }
    }

    fn receipt(&self, admitted: &Admitted) -> Result<Answer, Stop> {
        let ids = self.ids()?;
        receipt::receipt(admitted, &ids, &admitted.identity().key)
            .map_err(|error| Refusal::ours(error.to_string()).into())
    }

    fn ids(&self) -> Result<SignalIds, Stop> {
        let message_id = self.shared.clock.message_id(&self.shared.host);
        let message_id = message_id.map_err(|error| Refusal::ours(error.to_string()))?;
        Ok(SignalIds { message_id, now: self.shared.clock.now() })
    }

    fn refusal(&self, stop: Stop) -> Refusal {
        match (stop, &self.admitted) {
            (Stop::Refused(refusal), _) => *refusal,
            (Stop::Io(error), _) => Refusal::ours(error.to_string()),
            (Stop::Mime(error), Some(admitted)) => admitted.refuse(error),
            (Stop::Mime(error), None) => Refusal::mime(error, self.known.message_id.as_ref()),
        }
    }

    /// The outcome of a refused message. Signs, so it belongs into the pool.
    pub(super) fn refused(&self, refusal: &Refusal) -> Ending {
        let outgoing = match self.ids() {
            Ok(ids) => receipt::refusal(refusal, &ids, &self.site),
            Err(_) => return Ending::unavailable(refusal),
        };
        let tenant = self.tenant();
        let key = self.admitted.as_deref().map(|admitted| (admitted.key().clone(), admitted.window()));
        Ending::refused(
            refusal,
            outgoing,
            &self.known,
            &tenant,
            key,
            &self.notices,
            &self.shared.clock,
            &self.arrived,
        )
    }

    /// The outcome of a repeat.
    pub(super) fn repeated(&self, first: ItemId, answer: Answer) -> Ending {
        let key = self.admitted.as_deref().map(|admitted| (admitted.key().clone(), admitted.window()));
        Ending::repeated(first, answer, &self.known, key, &self.notices, &self.shared.clock, &self.arrived)
    }

    /// As [`Self::repeated`], with a receipt that had to be made anew.
    pub(super) fn rebuilt(&mut self, first: ItemId, answer: Answer) -> Ending {
        self.notices.push(Notice::ReceiptRebuilt);
        self.repeated(first, answer)
    }

    /// The outcome of an accepted message, once it is durable.
    pub(super) fn accepted(&self, answer: Answer) -> Ending {
        Ending::accepted(self.item, answer, &self.known, &self.notices)
    }

    /// The refusal of a message whose signature somebody used in between.
    pub(super) fn signature_used(&self, by: ItemId) -> Refusal {
        match (&self.admitted, &self.known.message_id) {
            (Some(admitted), _) => admitted.refuse(crate::exchange::RefusalCause::ReplayedSignature(by)),
            (None, Some(id)) => Refusal::replayed_signature(by, id),
            (None, None) => Refusal::ours("a signature of nobody"),
        }
    }

    /// Whose message it would be: of the seat that it names, as far as there is one.
    fn tenant(&self) -> Tenant {
        let to = self.known.to.as_ref();
        let seat = to.and_then(|to| self.site.identity(to)).or_else(|| self.site.identities.first());
        seat.map_or_else(Tenant::default_tenant, |seat| seat.tenant.clone())
    }
}

fn unadmitted() -> Stop {
    Refusal::ours("a step before its time").into()
}

/// The store keeps one payload for each message, so a second one could not be delivered.
fn several_payloads() -> EbmsReadError {
    EbmsReadError::FeatureNotSupported { at: "PayloadInfo: more than one payload".to_owned() }
}

fn whole(root: Held) -> Result<Bytes, std::io::Error> {
    let mut bytes = Vec::with_capacity(usize::try_from(root.size()).unwrap_or_default());
    root.into_reader().read_to_end(&mut bytes)?;
    Ok(bytes.into())
}

/// What the backend is told.
fn meta(admitted: &Admitted, opened: &Opened, accepted: &Accepted) -> InboundMeta {
    let Some(part) = opened.parts().first() else { return InboundMeta::default() };
    let business = accepted.business.as_ref();
    let declared = admitted.message().parts.first().and_then(|part| part.property("MimeType"));
    let sbd = part.sbd.as_ref();
    let media_type = match sbd.map(|sbd| &sbd.payload.form) {
        Some(PayloadForm::Xml) => Some("application/xml"),
        Some(PayloadForm::Binary { media_type, .. } | PayloadForm::Text { media_type }) => {
            media_type.as_deref()
        }
        None => declared,
    };
    InboundMeta {
        sender: business.map(|business| business.sender.clone()),
        receiver: business.map(|business| business.receiver.clone()),
        doctype: business.map(|business| business.document_type.clone()),
        process: business.map(|business| business.process.clone()),
        sbdh_id: business.map(|business| business.instance_identifier.clone()),
        size: sbd.map_or(part.size, |sbd| sbd.document_size),
        sha256: Some(sbd.map_or(part.digest, |sbd| sbd.document)),
        namespaces_added: sbd.is_some_and(|sbd| sbd.payload.insert.is_some()),
        span: sbd.map(|sbd| sbd.payload.clone()),
        possible_duplicate_of: None,
        media_type: media_type.map(str::to_owned),
    }
}

/// Who a message says it is from; read, not proven.
impl Known {
    pub(super) fn of(message: &crate::model::UserMessage) -> Self {
        Self {
            message_id: Some(MessageId::clone(&message.message_id)),
            from: Some(PartyId::clone(&message.from.id)),
            to: Some(PartyId::clone(&message.to.id)),
        }
    }
}
