//! Frames: heads as bytes, and the keys that they are found by.
//!
//! A head is one version byte and the JSON of [`Head`]. Keys are a prefix byte and sixteen bytes: an id, or
//! the beginning of a SHA-256 over what is looked for. A key found is only a hint: whoever looks something
//! up compares the whole key with the head (`storage` §3.1).

use openssl::sha::Sha256;
use serde::{Deserialize, Serialize};

use crate::model::{Digest, ItemId, MessageId, MessageKey, PartyId, Tenant, Timestamp};

use super::{
    StoreError,
    inbox::{DeliveryEvent, DeliveryHead},
    record::{AcceptHead, AnswerReplaced, Delivery, Record, RepeatsHead},
};

/// The version that is written.
const HEAD_VERSION: u8 = 1;

/// A prefix byte and sixteen bytes.
pub(crate) type IndexKey = [u8; 17];

/// What a key is made of: its first byte. Stored: never change one.
pub(crate) mod prefix {
    /// (tenant, sender, MessageId) of an acceptance.
    pub(crate) const MESSAGE: u8 = b'k';
    /// (tenant, MessageId) of an acceptance, whoever sent it.
    pub(crate) const MESSAGE_ID: u8 = b'm';
    /// (sender, signature) of an acceptance.
    pub(crate) const SIGNATURE: u8 = b's';
    /// The item id of an acceptance.
    pub(crate) const ITEM: u8 = b'i';
    /// The item id of a replaced answer.
    pub(crate) const ANSWER: u8 = b'a';
    /// The item id of a change of delivery.
    pub(crate) const DELIVERY: u8 = b'd';
    /// The item id of an acceptance that enters the inbox: owed to the backend.
    pub(crate) const OWED: u8 = b'o';
    /// The item id of an acknowledgement: the backend has it.
    pub(crate) const TAKEN: u8 = b't';
    /// The item id of a requeue: owed again, perhaps.
    pub(crate) const REQUEUED: u8 = b'u';
    /// The id of a record.
    pub(crate) const RECORD: u8 = b'r';
    /// The item id that a record or a count of repeats is about.
    pub(crate) const ABOUT: u8 = b'n';
    /// (tenant, sender, MessageId) of a record.
    pub(crate) const ATTEMPT: u8 = b'q';
}

/// What a frame says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Head {
    /// A message was accepted.
    Accept(Box<AcceptHead>),
    /// The delivery of an accepted message changed.
    Delivery(Box<DeliveryHead>),
    /// The answer of an accepted message was replaced.
    Answer(Box<AnswerReplaced>),
    /// A message was not accepted.
    Record(Box<Record>),
    /// Repeats were counted.
    Repeats(Box<RepeatsHead>),
}

/// Kinds as the journal stores them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Accept = 1,
    Delivery = 2,
    Answer = 3,
    Record = 4,
    Repeats = 5,
}

/// A frame on its way into the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub kind: Kind,
    pub received_at: Timestamp,
    pub expires_at: Timestamp,
    pub keys: Vec<IndexKey>,
    pub head: Vec<u8>,
    pub body: Vec<u8>,
}

impl Head {
    /// Reads a head back.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        let damaged = |why: String| StoreError::Damaged(format!("head of a frame: {why}"));
        match bytes.split_first() {
            Some((&HEAD_VERSION, json)) => serde_json::from_slice(json).map_err(|e| damaged(e.to_string())),
            Some((version, _)) => Err(damaged(format!("version {version} is unknown"))),
            None => Err(damaged("empty".to_owned())),
        }
    }

    fn encode(&self) -> Result<Vec<u8>, StoreError> {
        let mut bytes = vec![HEAD_VERSION];
        serde_json::to_writer(&mut bytes, self).map_err(|e| StoreError::Damaged(e.to_string()))?;
        Ok(bytes)
    }

    /// The frame for this head and `body`.
    pub(crate) fn entry(&self, body: Vec<u8>) -> Result<Entry, StoreError> {
        Ok(Entry {
            kind: self.kind(),
            received_at: self.at(),
            expires_at: self.expires_at(),
            keys: self.keys(),
            head: self.encode()?,
            body,
        })
    }

    fn kind(&self) -> Kind {
        match self {
            Self::Accept(_) => Kind::Accept,
            Self::Delivery(_) => Kind::Delivery,
            Self::Answer(_) => Kind::Answer,
            Self::Record(_) => Kind::Record,
            Self::Repeats(_) => Kind::Repeats,
        }
    }

    /// When what it tells of happened.
    pub(crate) fn at(&self) -> Timestamp {
        match self {
            Self::Accept(head) => head.at,
            Self::Delivery(head) => head.at,
            Self::Answer(head) => head.at,
            Self::Record(record) => record.at,
            Self::Repeats(head) => head.repeats.last_at,
        }
    }

    /// From when on purge may take it: no earlier than what it changes (`storage` §3.3, I10).
    pub(crate) fn expires_at(&self) -> Timestamp {
        match self {
            Self::Accept(head) => head.expires_at,
            Self::Delivery(head) => head.expires_at,
            Self::Answer(head) => head.expires_at,
            Self::Record(record) => record.expires_at,
            Self::Repeats(head) => head.expires_at,
        }
    }

    fn keys(&self) -> Vec<IndexKey> {
        match self {
            Self::Accept(head) => {
                let owed = (head.delivery == Delivery::Inbox).then(|| id(prefix::OWED, &head.item));
                [
                    message(&head.key),
                    message_id(&head.key.tenant, &head.key.message_id),
                    signature(&head.key.sender, &head.content.signature),
                    id(prefix::ITEM, &head.item),
                ]
                .into_iter()
                .chain(owed)
                .collect()
            }
            Self::Delivery(head) => {
                let turn = match head.event {
                    DeliveryEvent::Acked { .. } => Some(prefix::TAKEN),
                    DeliveryEvent::Requeued => Some(prefix::REQUEUED),
                    _ => None,
                };
                [Some(prefix::DELIVERY), turn].into_iter().flatten().map(|p| id(p, &head.item)).collect()
            }
            Self::Answer(head) => vec![id(prefix::ANSWER, &head.item)],
            Self::Record(record) => [
                Some(id(prefix::RECORD, &record.id)),
                record.first.as_ref().map(|first| id(prefix::ABOUT, first)),
                record.key.as_ref().map(attempt),
            ]
            .into_iter()
            .flatten()
            .collect(),
            Self::Repeats(head) => vec![id(prefix::ABOUT, &head.item)],
        }
    }
}

/// The key of (tenant, sender, MessageId).
pub(crate) fn message(key: &MessageKey) -> IndexKey {
    fingerprint(prefix::MESSAGE, &[key.tenant.as_str(), key.sender.as_str(), key.message_id.as_str()])
}

/// The key of (tenant, MessageId).
pub(crate) fn message_id(tenant: &Tenant, message_id: &MessageId) -> IndexKey {
    fingerprint(prefix::MESSAGE_ID, &[tenant.as_str(), message_id.as_str()])
}

/// The key of (sender, signature).
pub(crate) fn signature(sender: &PartyId, signature: &Digest) -> IndexKey {
    fingerprint(prefix::SIGNATURE, &[sender.as_str(), &signature.to_string()])
}

/// The key of records about (tenant, sender, MessageId).
pub(crate) fn attempt(key: &MessageKey) -> IndexKey {
    fingerprint(prefix::ATTEMPT, &[key.tenant.as_str(), key.sender.as_str(), key.message_id.as_str()])
}

/// The key of an id.
pub(crate) fn id(prefix: u8, id: &ItemId) -> IndexKey {
    joined(prefix, id.as_bytes())
}

fn joined(prefix: u8, bytes: &[u8; 16]) -> IndexKey {
    let mut key = [prefix; 17];
    key.iter_mut().skip(1).zip(bytes).for_each(|(to, from)| *to = *from);
    key
}

/// The texts with their lengths before them, so that no two lists run into the same bytes.
fn fingerprint(prefix: u8, texts: &[&str]) -> IndexKey {
    let mut sha = Sha256::new();
    for text in texts {
        sha.update(&(text.len() as u64).to_be_bytes());
        sha.update(text.as_bytes());
    }
    let mut key = [prefix; 17];
    key.iter_mut().skip(1).zip(sha.finish()).for_each(|(to, from)| *to = from);
    key
}
