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

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::{
        model::{Addressing, AnswerKind, ContentRecord, PartDigest, Scope, Service},
        store::{
            Authentication, InboundMeta, Notice, RecordState, Redelivery, RepeatCount,
            inbox::{DeliveryState, Phase},
            record::{AnswerHead, PayloadHead, PayloadPlace, Sections},
        },
    };

    /// What was stored once must be read for ever: this text may gain fields with a default, nothing else.
    fn check(head: &Head, golden: &Expect) {
        let entry = head.entry(Vec::new()).unwrap();
        let (version, json) = entry.head.split_first().unwrap();
        assert_eq!(*version, 1);
        golden.assert_eq(std::str::from_utf8(json).unwrap());
        let stored = [&[1], golden.data().as_bytes()].concat();
        assert_eq!(Head::decode(&stored).as_ref(), Ok(head));
    }

    fn item(n: u128) -> ItemId {
        ItemId::from_uuid(uuid::Uuid::from_u128(n))
    }

    fn at(second: u64) -> Timestamp {
        Timestamp::from_millis(second * 1000)
    }

    fn key() -> MessageKey {
        MessageKey {
            tenant: Tenant::default_tenant(),
            sender: PartyId::parse("POP000001").unwrap(),
            message_id: MessageId::parse("1@x").unwrap(),
        }
    }

    fn digest() -> Digest {
        Digest::new([0xAB; 32])
    }

    fn answer() -> AnswerHead {
        let content_type = Some("application/soap+xml".to_owned());
        AnswerHead { kind: AnswerKind::Receipt, status: 200, content_type, sha256: digest() }
    }

    fn accept() -> AcceptHead {
        let service = Service { value: "urn:s".to_owned(), service_type: None };
        let addressing = Addressing {
            to: PartyId::parse("POP000002").unwrap(),
            to_type: Some("t".to_owned()),
            service,
            action: "a".to_owned(),
            original_sender: Some((None, "c1".to_owned())),
            final_recipient: None,
        };
        let content = ContentRecord {
            attachments: vec![PartDigest { transform: "t".to_owned(), digest: digest() }],
            body_children: digest(),
            addressing,
            messaging: digest(),
            signature: digest(),
            signer: digest(),
            document: Some(digest()),
            envelope: None,
        };
        AcceptHead {
            item: item(1),
            key: key(),
            scope: Scope::PartyId,
            at: at(1),
            expires_at: at(2),
            content,
            answer: answer(),
            payload: Some(PayloadHead { place: PayloadPlace::Inline, size: 9, sha256: digest() }),
            delivery: Delivery::Inbox,
            meta: InboundMeta::default(),
            notices: vec![Notice::new("taken_over")],
            sections: Sections { answer: 1, certificate: 2, headers: 3, envelope: 4 },
        }
    }

    #[test]
    fn an_acceptance_is_stored_so() {
        check(
            &Head::Accept(Box::new(accept())),
            &expect![[
                r#"{"accept":{"item":"00000000-0000-0000-0000-000000000001","key":{"tenant":"default","sender":"POP000001","message_id":"1@x"},"scope":"party+id","at":1000,"expires_at":2000,"content":{"attachments":[{"transform":"t","digest":"abababababababababababababababababababababababababababababababab"}],"body_children":"abababababababababababababababababababababababababababababababab","addressing":{"to":"POP000002","to_type":"t","service":{"value":"urn:s","service_type":null},"action":"a","original_sender":[null,"c1"],"final_recipient":null},"messaging":"abababababababababababababababababababababababababababababababab","signature":"abababababababababababababababababababababababababababababababab","signer":"abababababababababababababababababababababababababababababababab","document":"abababababababababababababababababababababababababababababababab","envelope":null},"answer":{"kind":"receipt","status":200,"content_type":"application/soap+xml","sha256":"abababababababababababababababababababababababababababababababab"},"payload":{"place":"inline","size":9,"sha256":"abababababababababababababababababababababababababababababababab"},"delivery":"inbox","meta":{"sender":null,"receiver":null,"doctype":null,"process":null,"sbdh_id":null,"size":0,"sha256":null,"namespaces_added":false,"span":null,"possible_duplicate_of":null,"media_type":null},"notices":[{"code":"taken_over"}],"sections":{"answer":1,"certificate":2,"headers":3,"envelope":4}}}"#
            ]],
        );
    }

    #[test]
    fn a_change_of_delivery_is_stored_so() {
        let state = DeliveryState {
            phase: Phase::Leased { until: at(9) },
            redelivery: Redelivery::Requested,
            external_ref: Some("ERP".to_owned()),
            ..DeliveryState::new(at(1))
        };
        let (event, state) = state.lease(at(9), 20);
        let head = DeliveryHead { item: item(1), at: at(1), expires_at: at(2), event, state, listing: None };
        check(
            &Head::Delivery(Box::new(head)),
            &expect![[
                r#"{"delivery":{"item":"00000000-0000-0000-0000-000000000001","at":1000,"expires_at":2000,"event":{"leased":{"until":9000}},"state":{"sequence":1,"phase":{"leased":{"until":9000}},"lease":1,"deliveries":1,"forgiven":0,"redelivery":"requested","external_ref":"ERP"}}}"#
            ]],
        );
    }

    #[test]
    fn a_replaced_answer_is_stored_so() {
        let head = AnswerReplaced { item: item(1), at: at(1), expires_at: at(2), answer: answer() };
        check(
            &Head::Answer(Box::new(head)),
            &expect![[
                r#"{"answer":{"item":"00000000-0000-0000-0000-000000000001","at":1000,"expires_at":2000,"answer":{"kind":"receipt","status":200,"content_type":"application/soap+xml","sha256":"abababababababababababababababababababababababababababababababab"}}}"#
            ]],
        );
    }

    #[test]
    fn a_record_is_stored_so() {
        let record = Record {
            id: item(3),
            at: at(1),
            expires_at: at(2),
            state: RecordState::RefusedDuplicate,
            authentication: Authentication::Proven,
            key: Some(key()),
            first: Some(item(1)),
            code: Some("EBMS:0003".to_owned()),
            cause: "why".to_owned(),
            peer: Some("127.0.0.1:9".to_owned()),
            notices: Vec::new(),
            answer_sha256: Some(digest()),
            headers: vec![("a".to_owned(), "b".to_owned())],
        };
        check(
            &Head::Record(Box::new(record)),
            &expect![[
                r#"{"record":{"id":"00000000-0000-0000-0000-000000000003","at":1000,"expires_at":2000,"state":"refused_duplicate","authentication":"proven","key":{"tenant":"default","sender":"POP000001","message_id":"1@x"},"first":"00000000-0000-0000-0000-000000000001","code":"EBMS:0003","cause":"why","peer":"127.0.0.1:9","notices":[],"answer_sha256":"abababababababababababababababababababababababababababababababab","headers":[["a","b"]]}}"#
            ]],
        );
    }

    #[test]
    fn a_count_of_repeats_is_stored_so() {
        let repeats = RepeatCount { count: 1500, first_at: at(1), last_at: at(2) };
        let state = RecordState::RefusedDuplicate;
        let head = RepeatsHead { item: item(1), state, expires_at: at(3), repeats };
        check(
            &Head::Repeats(Box::new(head)),
            &expect![[
                r#"{"repeats":{"item":"00000000-0000-0000-0000-000000000001","state":"refused_duplicate","expires_at":3000,"repeats":{"count":1500,"first_at":1000,"last_at":2000}}}"#
            ]],
        );
    }

    #[test]
    fn keys_stay_what_they_are() {
        let accept = Head::Accept(Box::new(accept()));
        let keys: Vec<String> = accept
            .keys()
            .iter()
            .map(|key| key.iter().map(|octet| format!("{octet:02x}")).collect())
            .collect();
        expect![[r#"
            6b7382cf270d36c211bac11f101c2f4c77
            6d28c76c90ff20400b34e979da5e97bda5
            73e2ebce4c3fa93b42cb8536b18bb0a3c2
            6900000000000000000000000000000001
            6f00000000000000000000000000000001"#]]
        .assert_eq(&keys.join("\n"));
    }

    #[test]
    fn unknown_versions_and_noise_are_damage() {
        for bytes in [&[][..], &[2, b'{', b'}'], &[1], &[1, b'{'], b"\x01{}", b"\x01{\"accept\":{}}"] {
            assert!(matches!(Head::decode(bytes), Err(StoreError::Damaged(_))), "{bytes:?}");
        }
    }
}
