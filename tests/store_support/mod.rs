//! What the tests of the store share: small messages made of numbers.

#![allow(dead_code, reason = "each test crate uses another part")]

pub(crate) mod model;

use std::{io::Write, path::Path, sync::Arc};

use bytes::Bytes;
use oncepoint::{
    model::{
        Addressing, Answer, AnswerKind, ContentRecord, Digest, DocumentTypeId, ItemId, MessageId, MessageKey,
        PartDigest, ParticipantId, PartyId, Scope, Service, Span, Tenant, Timestamp,
    },
    store::{
        AcceptError, Acceptance, Authentication, Claim, Delivery, Fence, InboundMeta, InboxClaim,
        InboxFilter, Item, Leased, Notice, Payload, PurgeBudget, PurgeOrder, Record, RecordState, Store,
        journal::{JournalOptions, Work},
        vfs::{Vfs, VfsFile},
    },
};

/// Small segments, so that tests meet many of them.
pub(crate) const SEGMENT_BYTES: u64 = 64 << 10;
/// Where the store lies in a simulated file system.
pub(crate) const DIR: &str = "/data";
/// How long a claim is left alone.
pub(crate) const PATIENCE: Span = Span::minutes(10);
/// A beginning of time that is not 1970.
pub(crate) const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// So many seconds after the beginning.
pub(crate) fn second(n: u64) -> Timestamp {
    START.plus(Span::seconds(n))
}

/// So many days after the beginning.
pub(crate) fn day(n: u64) -> Timestamp {
    START.plus(Span::days(n))
}

/// The id of number `n`, as if made `n` milliseconds after the beginning.
pub(crate) fn item(n: u64) -> ItemId {
    let mut random = [0; 10];
    random[2..].copy_from_slice(&n.to_be_bytes());
    let millis = START.as_millis() + n;
    ItemId::from_uuid(uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid())
}

pub(crate) fn key(sender: &str, n: u64) -> MessageKey {
    MessageKey {
        tenant: Tenant::default_tenant(),
        sender: PartyId::parse(sender).unwrap(),
        message_id: MessageId::parse(&format!("{n}@test")).unwrap(),
    }
}

/// What is told apart by `document`, signed for the `signature`th time.
pub(crate) fn content(document: u64, signature: u64) -> ContentRecord {
    let digest = |what: &str, n: u64| Digest::of(format!("{what}{n}").as_bytes());
    ContentRecord {
        attachments: vec![PartDigest { transform: "t".to_owned(), digest: digest("part", document) }],
        body_children: Digest::of(b""),
        addressing: Addressing {
            to: PartyId::parse("POP000002").unwrap(),
            to_type: None,
            service: Service { value: "urn:s".to_owned(), service_type: None },
            action: "a".to_owned(),
            original_sender: None,
            final_recipient: None,
        },
        messaging: digest("messaging", signature),
        signature: digest("signature", signature),
        signer: Digest::of(b"signer"),
        document: Some(digest("document", document)),
        envelope: Some(digest("envelope", document)),
    }
}

pub(crate) fn answer(text: &str) -> Answer {
    Answer {
        kind: AnswerKind::Receipt,
        status: 200,
        content_type: Some("application/soap+xml".to_owned()),
        body: Bytes::from(format!("<Receipt>{text}</Receipt>")),
    }
}

/// A payload that tells which message it is of.
pub(crate) fn payload_bytes(n: u64, size: usize) -> Vec<u8> {
    n.to_be_bytes().into_iter().cycle().take(size.max(8)).collect()
}

pub(crate) fn payload(store: &Store, n: u64, size: usize) -> std::io::Result<Payload> {
    let mut writer = store.payload_writer(item(n));
    for chunk in payload_bytes(n, size).chunks(8192) {
        writer.write_all(chunk)?;
    }
    writer.finish()
}

/// Message `n` accepted at `at` with a window of 90 days.
pub(crate) fn acceptance(n: u64, at: Timestamp, payload: Option<Payload>) -> Acceptance {
    Acceptance {
        item: item(n),
        at,
        expires_at: at.plus(Span::days(90)),
        content: content(n, n),
        certificate: b"certificate".to_vec(),
        answer: answer(&format!("{n} at {at}")),
        payload,
        delivery: Delivery::Inbox,
        meta: meta("9999:c1"),
        envelope: Bytes::from(format!("<Envelope>{n}</Envelope>")),
        headers: vec![("content-type".to_owned(), "multipart/related".to_owned())],
        notices: vec![Notice::new("test")],
    }
}

pub(crate) fn meta(sender: &str) -> InboundMeta {
    let participant = |value: &str| ParticipantId::new("iso6523-actorid-upis", value).unwrap();
    InboundMeta {
        sender: Some(participant(sender)),
        receiver: Some(participant("9999:c4")),
        doctype: Some(DocumentTypeId::new("busdox-docid-qns", "urn:invoice").unwrap()),
        ..InboundMeta::default()
    }
}

pub(crate) fn record(n: u64, at: Timestamp, state: RecordState, first: Option<u64>) -> Record {
    Record {
        id: item(n),
        at,
        expires_at: at.plus(Span::days(90)),
        state,
        authentication: Authentication::Proven,
        key: None,
        first: first.map(item),
        code: None,
        cause: "test".to_owned(),
        peer: None,
        notices: Vec::new(),
        answer_sha256: None,
        headers: Vec::new(),
    }
}

/// The claim on `key`, knowing what the log knows.
pub(crate) fn claim(store: &Store, key: &MessageKey, scope: Scope, now: Timestamp) -> Claim {
    let seen = store.seen(key, scope).unwrap();
    store.claim(key, scope, &seen, now, PATIENCE).unwrap()
}

pub(crate) fn won(claim: Claim) -> Fence {
    match claim {
        Claim::Won(fence) => fence,
        other => panic!("not won: {other:?}"),
    }
}

/// Message `n` of sender A, accepted.
pub(crate) async fn accept(store: &Store, n: u64, at: Timestamp) -> Result<(), AcceptError> {
    let payload = payload(store, n, 100).unwrap();
    won(claim(store, &key("A", n), Scope::PartyId, at)).accept(acceptance(n, at, Some(payload))).await
}

pub(crate) fn wish(max: usize) -> InboxClaim {
    InboxClaim { max, lease: Span::seconds(60), filter: InboxFilter::default(), deliveries_max: 3 }
}

pub(crate) async fn lease(store: &Store, max: usize, now: Timestamp) -> Vec<Leased> {
    store.claim_deliveries(&wish(max), now).await.unwrap()
}

pub(crate) fn shown(store: &Store, n: u64) -> Item {
    store.item(item(n)).unwrap().unwrap()
}

/// Whole payload of an item.
pub(crate) fn stored_payload(store: &Store, n: u64) -> Vec<u8> {
    let payload = store.payload(item(n)).unwrap().unwrap();
    let mut bytes = vec![0; usize::try_from(payload.size()).unwrap()];
    let mut at = 0;
    while at < bytes.len() {
        let read = payload.read_at(at as u64, &mut bytes[at..]).unwrap();
        assert!(read > 0, "the payload ends early");
        at += read;
    }
    bytes
}

pub(crate) fn purge_order(now: Timestamp, purge: oncepoint::store::Purge) -> PurgeOrder {
    let budget = PurgeBudget { segments: u64::MAX, octets: u64::MAX };
    PurgeOrder { now, budget, purge, window_min: Span::days(30) }
}

pub(crate) fn options(work: Work) -> JournalOptions {
    JournalOptions { segment_bytes: SEGMENT_BYTES, reserve_bytes: 0, work, ..JournalOptions::new(START) }
}

/// Opens the embedded store in a simulated file system.
pub(crate) fn open(vfs: &Arc<dyn Vfs>, work: Work) -> Result<Store, oncepoint::store::OpenError> {
    Store::open(vfs, Path::new(DIR), options(work)).map(|(store, _)| store)
}

/// Runs a future to its end on this thread.
pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// Keeps the trait in scope for those who only open files.
pub(crate) fn size_of(file: &dyn VfsFile) -> u64 {
    file.size().unwrap()
}
