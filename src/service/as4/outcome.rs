//! What became of a message: the answer that goes out, the record that is kept, the line that is logged.

use std::net::IpAddr;

use crate::{
    exchange::{Notice, Refusal, RefusalCause, receipt::Outgoing},
    model::{Answer, AnswerKind, ItemId, MessageId, MessageKey, PartyId, Span, Tenant},
    service::{
        clock::Clock,
        observe::{Counted, RepeatKind, http_code},
    },
    store::{self, Authentication, CLAIMED_RECORDS_KEPT, Record, RecordState},
};

/// What came along with a message.
#[derive(Debug, Clone)]
pub(super) struct Arrived {
    /// Where from.
    pub(super) peer: IpAddr,
    /// The HTTP headers.
    pub(super) headers: Vec<(String, String)>,
}

/// What a message says of itself.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    pub(super) message_id: Option<MessageId>,
    pub(super) from: Option<PartyId>,
    pub(super) to: Option<PartyId>,
}

/// The end of a message.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) answer: Answer,
    pub(super) retry_after: Option<Span>,
    pub(super) counted: Counted,
    pub(super) known: Known,
    pub(super) item: Option<ItemId>,
    pub(super) detail: String,
    pub(super) record: Option<Box<Record>>,
}

/// Key and window of an authenticated message.
type Proven = Option<(MessageKey, Span)>;

impl Ending {
    pub(super) fn accepted(item: ItemId, answer: Answer, known: &Known, notices: &[Notice]) -> Self {
        Self {
            answer,
            retry_after: None,
            counted: Counted::Accepted,
            known: known.clone(),
            item: Some(item),
            detail: names(notices),
            record: None,
        }
    }

    pub(super) fn repeated(
        first: ItemId,
        answer: Answer,
        known: &Known,
        proven: Proven,
        notices: &[Notice],
        clock: &Clock,
        arrived: &Arrived,
    ) -> Self {
        let kind = match notices {
            flags if flags.contains(&Notice::RepeatRewrapped) => RepeatKind::Rewrapped,
            flags if flags.contains(&Notice::RepeatResigned) => RepeatKind::Resigned,
            _ => RepeatKind::Identical,
        };
        let mut record = record(clock, arrived, RecordState::RefusedDuplicate, proven, notices);
        record.first = Some(first);
        record.cause = "a repeat; the stored answer went out again".to_owned();
        record.answer_sha256 = Some(answer.digest());
        Self {
            answer,
            retry_after: None,
            counted: Counted::Repeat(kind),
            known: known.clone(),
            item: Some(first),
            detail: names(notices),
            record: Some(Box::new(record)),
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "each is another part of the record, and none has a default"
    )]
    pub(super) fn refused(
        refusal: &Refusal,
        outgoing: Outgoing,
        known: &Known,
        tenant: &Tenant,
        proven: Proven,
        notices: &[Notice],
        clock: &Clock,
        arrived: &Arrived,
    ) -> Self {
        let first = match &*refusal.cause {
            RefusalCause::IdReused(item) | RefusalCause::IdOfOtherParty(item) => Some(*item),
            _ => None,
        };
        let code = refusal.code().map_or_else(|| http_code(outgoing.answer.status), |code| code.code());
        let (state, counted) = match first {
            Some(_) => (RecordState::Conflict, Counted::Conflict),
            None if refusal.is_transient() => (RecordState::Refused, Counted::Unavailable),
            None => (RecordState::Refused, Counted::Refused(code)),
        };
        let detail = format!("{}: {}", refusal.stage.as_str(), refusal.cause);
        let mut record = record(clock, arrived, state, proven, notices);
        record.key = record.key.or_else(|| claimed_key(known, refusal, tenant));
        record.first = first;
        record.code = Some(code.to_owned());
        record.cause.clone_from(&detail);
        record.answer_sha256 = Some(outgoing.answer.digest());
        Self {
            retry_after: outgoing.retry_after,
            answer: outgoing.answer,
            counted,
            known: known.clone(),
            item: first,
            detail,
            // What passes by itself is no verdict on the message; the log line and a counter tell of it.
            record: (!refusal.is_transient()).then(|| Box::new(record)),
        }
    }

    /// HTTP 503 without any more work: a fault of ours.
    pub(super) fn unavailable(refusal: &Refusal) -> Self {
        Self {
            answer: plain(503, "try again later\n"),
            retry_after: Some(crate::exchange::RETRY_AFTER_FAULT),
            counted: Counted::Unavailable,
            known: Known::default(),
            item: None,
            detail: refusal.cause.to_string(),
            record: None,
        }
    }

    /// An answer of HTTP alone to something that was never read as a message.
    pub(super) fn http(
        status: u16,
        text: &'static str,
        cause: &str,
        clock: &Clock,
        arrived: &Arrived,
    ) -> Self {
        let answer = plain(status, text);
        let mut record = record(clock, arrived, RecordState::Refused, None, &[]);
        record.code = Some(http_code(status).to_owned());
        cause.clone_into(&mut record.cause);
        record.answer_sha256 = Some(answer.digest());
        Self {
            answer,
            retry_after: None,
            counted: Counted::Refused(http_code(status)),
            known: Known::default(),
            item: None,
            detail: cause.to_owned(),
            record: Some(Box::new(record)),
        }
    }

    /// The sender went away in the middle: nobody hears the answer.
    pub(super) fn broken(cause: &str) -> Self {
        Self {
            answer: plain(400, "the message broke off\n"),
            retry_after: None,
            counted: Counted::Broken,
            known: Known::default(),
            item: None,
            detail: cause.to_owned(),
            record: None,
        }
    }
}

fn plain(status: u16, text: &'static str) -> Answer {
    Answer {
        kind: AnswerKind::Refusal,
        status,
        content_type: Some("text/plain; charset=UTF-8".to_owned()),
        body: bytes::Bytes::from_static(text.as_bytes()),
    }
}

fn names(notices: &[Notice]) -> String {
    notices.iter().map(|notice| notice.as_str()).collect::<Vec<_>>().join(" ")
}

fn record(
    clock: &Clock,
    arrived: &Arrived,
    state: RecordState,
    proven: Proven,
    notices: &[Notice],
) -> Record {
    let at = clock.now();
    let (authentication, key, kept) = match proven {
        Some((key, window)) => (Authentication::Proven, Some(key), window),
        None => (Authentication::Claimed, None, CLAIMED_RECORDS_KEPT),
    };
    Record {
        id: clock.item_id(),
        at,
        expires_at: at.plus(kept),
        state,
        authentication,
        key,
        first: None,
        code: None,
        cause: String::new(),
        peer: Some(arrived.peer.to_string()),
        notices: notices.iter().map(|notice| store::Notice::new(notice.as_str())).collect(),
        answer_sha256: None,
        headers: arrived.headers.clone(),
    }
}

/// The key that an unauthenticated message would have had, for whoever looks for it.
fn claimed_key(known: &Known, refusal: &Refusal, tenant: &Tenant) -> Option<MessageKey> {
    Some(MessageKey {
        tenant: tenant.clone(),
        sender: known.from.clone()?,
        message_id: known.message_id.as_ref().or(refusal.ref_to.as_ref())?.clone(),
    })
}
