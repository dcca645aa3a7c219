//! Stored records: what one acceptance consists of, and what is noted about messages that got none.
//!
//! A frame is a head (JSON with a version, under a checksum of its own) and a body (raw bytes). The head has
//! all that a repeat is judged by, so damage to a receipt or a payload leaves the decision about repeats
//! intact (`storage` §3.3, I2).

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{
    model::{
        Answer, AnswerKind, ContentRecord, Digest, DocumentTypeId, ItemId, MessageKey, ParticipantId,
        ProcessId, Scope, Seen, Timestamp,
    },
    wire::sbdh::PayloadSpan,
};

use super::payload::Payload;

/// Everything that becomes durable in one step when a message is accepted. Its key and scope are those of
/// the claim it is committed under.
#[derive(Debug)]
pub struct Acceptance {
    /// Our id of the message, made by the shell.
    pub item: ItemId,
    /// When it was accepted.
    pub at: Timestamp,
    /// When its window ends.
    pub expires_at: Timestamp,
    /// What repeats are judged by.
    pub content: ContentRecord,
    /// The signer's certificate, DER.
    pub certificate: Vec<u8>,
    /// The answer: it goes out after this is durable, and to every repeat.
    pub answer: Answer,
    /// The decompressed payload; none for a message without one.
    pub payload: Option<Payload>,
    /// Whether the backend gets it.
    pub delivery: Delivery,
    /// What the backend is told.
    pub meta: InboundMeta,
    /// The SOAP root part as received.
    pub envelope: Bytes,
    /// The HTTP headers as received.
    pub headers: Vec<(String, String)>,
    /// What was remarkable.
    pub notices: Vec<Notice>,
}

/// Whether an accepted message enters the backend's inbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// It does, once.
    Inbox,
    /// It never does: the test service (ebMS3 Core §5.2.2, `…/test`).
    Never,
}

/// What the backend is told about a document (connector API).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct InboundMeta {
    /// C1 by the SBDH.
    pub sender: Option<ParticipantId>,
    /// C4 by the SBDH.
    pub receiver: Option<ParticipantId>,
    /// The document type by the SBDH.
    pub doctype: Option<DocumentTypeId>,
    /// The process by the SBDH.
    pub process: Option<ProcessId>,
    /// The SBDH `InstanceIdentifier`.
    pub sbdh_id: Option<String>,
    /// Size of the document without its envelope, in bytes.
    pub size: u64,
    /// SHA-256 of the document without its envelope.
    pub sha256: Option<Digest>,
    /// Whether the document's root tag got namespace declarations of the envelope.
    pub namespaces_added: bool,
    /// Where the document is in the stored payload; none: the payload is the document.
    pub span: Option<PayloadSpan>,
    /// The item that this one may repeat under another MessageId.
    pub possible_duplicate_of: Option<ItemId>,
    /// Media type of the payload, as declared.
    pub media_type: Option<String>,
}

/// Something remarkable about a message, as history and logs name it (`duplicates` §2): a code such as
/// `repeat_outside_window`, `id_seen_from_other_party`, `taken_over`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// The name.
    pub code: String,
    /// More about it, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The other item or record that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<ItemId>,
}

impl Notice {
    /// A notice without detail.
    #[must_use]
    pub fn new(code: &str) -> Self {
        Self { code: code.to_owned(), detail: None, item: None }
    }
}

/// The state of a record of a message that was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordState {
    /// Answered with an error.
    Refused,
    /// A repeat of an accepted message, answered with the stored answer.
    RefusedDuplicate,
    /// Other content under the MessageId of an accepted message.
    Conflict,
}

/// Whether the message that a record is about had authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Authentication {
    /// Signature, trust and party binding had passed.
    Proven,
    /// They had not: what the record says of sender and id is a claim.
    Claimed,
}

/// What is noted about a message that was not accepted. Nobody waits for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its own id, made by the shell.
    pub id: ItemId,
    /// When.
    pub at: Timestamp,
    /// Until when it is kept.
    pub expires_at: Timestamp,
    /// What became of the message.
    pub state: RecordState,
    /// Whether it had authenticated.
    pub authentication: Authentication,
    /// Tenant, sender and MessageId, as far as they are known.
    pub key: Option<MessageKey>,
    /// The accepted message that it repeats or contradicts.
    pub first: Option<ItemId>,
    /// The `@errorCode`, or a name of ours, such as `http_400`.
    pub code: Option<String>,
    /// The cause, for people.
    pub cause: String,
    /// The peer's address.
    pub peer: Option<String>,
    /// What was remarkable, such as `repeat_resigned`.
    pub notices: Vec<Notice>,
    /// SHA-256 of the answer's body.
    pub answer_sha256: Option<Digest>,
    /// The HTTP headers as received.
    pub headers: Vec<(String, String)>,
}

/// Repeats of one message beyond those that are records of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepeatCount {
    /// All repeats, those with a record of their own included.
    pub count: u64,
    /// When the first came.
    pub first_at: Timestamp,
    /// When the last came.
    pub last_at: Timestamp,
}

/// An answer without its body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AnswerHead {
    pub kind: AnswerKind,
    pub status: u16,
    pub content_type: Option<String>,
    pub sha256: Digest,
}

impl AnswerHead {
    pub(crate) fn of(answer: &Answer) -> Self {
        Self {
            kind: answer.kind,
            status: answer.status,
            content_type: answer.content_type.clone(),
            sha256: answer.digest(),
        }
    }

    /// The answer again, when `body` is what was stored.
    pub(crate) fn with(&self, body: Bytes) -> Option<Answer> {
        (Digest::of(&body) == self.sha256).then(|| Answer {
            kind: self.kind,
            status: self.status,
            content_type: self.content_type.clone(),
            body,
        })
    }
}

/// Where the payload is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PayloadPlace {
    /// The last section of the body.
    Inline,
    /// A file under `blob/`, by name.
    File(String),
}

/// The payload as the head knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PayloadHead {
    pub place: PayloadPlace,
    pub size: u64,
    pub sha256: Digest,
}

/// Lengths of the sections of an acceptance's body, in their order, in bytes. The inline payload follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sections {
    pub answer: u64,
    pub certificate: u64,
    pub headers: u64,
    pub envelope: u64,
}

impl Sections {
    /// Where the inline payload begins.
    pub(crate) fn end(self) -> u64 {
        [self.answer, self.certificate, self.headers, self.envelope]
            .iter()
            .fold(0, |sum, n| sum.saturating_add(*n))
    }
}

/// The head of an acceptance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AcceptHead {
    pub item: ItemId,
    pub key: MessageKey,
    pub scope: Scope,
    pub at: Timestamp,
    pub expires_at: Timestamp,
    pub content: ContentRecord,
    pub answer: AnswerHead,
    pub payload: Option<PayloadHead>,
    pub delivery: Delivery,
    pub meta: InboundMeta,
    pub notices: Vec<Notice>,
    pub sections: Sections,
}

impl AcceptHead {
    pub(crate) fn seen(&self) -> Seen {
        Seen {
            item: self.item,
            key: self.key.clone(),
            accepted_at: self.at,
            expires_at: self.expires_at,
            content: self.content.clone(),
        }
    }
}

/// A replaced answer: its body is the frame's body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AnswerReplaced {
    pub item: ItemId,
    pub at: Timestamp,
    pub expires_at: Timestamp,
    pub answer: AnswerHead,
}

/// Repeats of one message, counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RepeatsHead {
    pub item: ItemId,
    pub state: RecordState,
    pub expires_at: Timestamp,
    pub repeats: RepeatCount,
}
