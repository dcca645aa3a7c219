//! The connector over the memory store: every path, its limits and its errors.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicU64, Ordering},
};

use axum::http::StatusCode;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::*;
use crate::{
    model::{
        Addressing, Answer, AnswerKind, ContentRecord, Digest, MessageId, MessageKey, ParticipantId, PartyId,
        Scope, Service, Span, Tenant,
    },
    store::{Acceptance, Authentication, Claim, Delivery, InboundMeta, Record, RecordState},
};

const START: u64 = 1_800_000_000_000;
const SBD: &[u8] = b"<sbd><invoice>seven</invoice></sbd>";

/// A connector, its store, and a clock that stands until it is moved.
struct Bench {
    router: Router,
    store: Store,
    clock: Arc<AtomicU64>,
    stop: watch::Sender<bool>,
}

fn bench(keys: ConnectorKeys) -> Bench {
    let (store, clock, (stop, stopping)) =
        (Store::memory(), Arc::new(AtomicU64::new(START)), watch::channel(false));
    let time = Arc::clone(&clock);
    let router = router(ConnectorParts {
        store: store.clone(),
        keys,
        deliveries_max: 2,
        now: Box::new(move || Timestamp::from_millis(time.load(Ordering::SeqCst))),
        trace: Box::new(|| "trace-1".to_owned()),
        behind: Box::new(|signer| BehindCertificate {
            chain: vec![signer.to_vec()],
            lists: vec![b"crl".to_vec()],
        }),
        readiness: Box::new(Readiness::default),
        metrics: Box::new(|| "oncepoint_received_total 1\n".to_owned()),
        stopping,
    });
    Bench { router, store, clock, stop }
}

impl Bench {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.clock.load(Ordering::SeqCst))
    }

    async fn call(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> (StatusCode, HeaderMap, Bytes) {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body.to_owned())).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (head, body) = response.into_parts();
        (head.status, head.headers, body.collect().await.unwrap().to_bytes())
    }

    async fn json(&self, method: &str, path: &str, body: &Value) -> (StatusCode, Value) {
        let (status, _, bytes) = self.call(method, path, &[], &body.to_string()).await;
        (status, serde_json::from_slice(&bytes).unwrap())
    }

    async fn claim_one(&self) -> Value {
        let (status, answer) = self.json("POST", "/v1/inbound/claim", &json!({ "max": 1 })).await;
        assert_eq!(status, 200, "{answer}");
        answer["items"][0].clone()
    }

    async fn settle(&self, what: &str, request: Value) -> Value {
        let (status, answer) = self.json("POST", &format!("/v1/inbound/{what}"), &json!([request])).await;
        assert_eq!(status, 200, "{answer}");
        answer["results"][0].clone()
    }

    async fn accept(&self, n: u128, tenant: &str) -> ItemId {
        let item = ItemId::from_uuid(uuid::Uuid::from_u128((START as u128) << 80 | n));
        let key = key(n, tenant);
        let Ok(Claim::Won(fence)) =
            self.store.claim(&key, Scope::PartyId, &[], self.now(), Span::minutes(10))
        else {
            panic!("not won");
        };
        let mut writer = self.store.payload_writer(item);
        std::io::Write::write_all(&mut writer, SBD).unwrap();
        let payload = Some(writer.finish().unwrap());
        let acceptance = Acceptance { payload, ..acceptance(item, &key, self.now()) };
        fence.accept(acceptance).await.unwrap();
        item
    }
}

fn key(n: u128, tenant: &str) -> MessageKey {
    MessageKey {
        tenant: Tenant::parse(tenant).unwrap(),
        sender: PartyId::parse("POP000001").unwrap(),
        message_id: MessageId::parse(&format!("{n}@c2")).unwrap(),
    }
}

fn participant(value: &str) -> ParticipantId {
    ParticipantId::new("iso6523-actorid-upis", value).unwrap()
}

fn acceptance(item: ItemId, key: &MessageKey, at: Timestamp) -> Acceptance {
    let service = Service { value: "urn:s".to_owned(), service_type: None };
    let to = PartyId::parse("PGB000002").unwrap();
    let digest = Digest::of(item.as_bytes());
    Acceptance {
        item,
        at,
        expires_at: at.plus(Span::days(90)),
        content: ContentRecord {
            attachments: vec![],
            body_children: digest,
            addressing: Addressing {
                to,
                to_type: None,
                service,
                action: "a".to_owned(),
                original_sender: None,
                final_recipient: None,
            },
            messaging: digest,
            signature: digest,
            signer: digest,
            document: None,
            envelope: None,
        },
        certificate: vec![1, 2, 3],
        answer: Answer {
            kind: AnswerKind::Receipt,
            status: 200,
            content_type: Some("application/soap+xml".to_owned()),
            body: Bytes::from(format!("receipt of {}", key.message_id)),
        },
        payload: None,
        delivery: Delivery::Inbox,
        meta: InboundMeta {
            receiver: Some(participant("0088:c4")),
            size: SBD.len() as u64,
            sha256: Some(Digest::of(SBD)),
            ..InboundMeta::default()
        },
        envelope: Bytes::from_static(b"<envelope/>"),
        headers: vec![("Content-Type".to_owned(), "multipart/related".to_owned())],
        notices: vec![],
    }
}

#[tokio::test]
async fn a_worker_claims_fetches_and_acknowledges() {
    let bench = bench(ConnectorKeys::Loopback);
    let id = bench.accept(1, "default").await.to_string();
    let item = bench.claim_one().await;
    assert_eq!((item["id"].as_str(), item["delivery_count"].as_u64()), (Some(id.as_str()), Some(1)));
    let (status, headers, body) = bench.call("GET", &format!("/v1/inbound/{id}/sbd"), &[], "").await;
    assert_eq!((status.as_u16(), &body[..]), (200, SBD));
    assert_eq!(headers["etag"], format!("\"{}\"", Digest::of(SBD)).as_str());
    assert_eq!(item["sbd_sha256"], json!(Digest::of(SBD)));
    let ack = json!({ "id": id, "lease": item["lease"], "external_ref": "ERP-7" });
    assert_eq!(bench.settle("ack", ack.clone()).await["result"], "acked");
    assert_eq!(bench.settle("ack", ack).await["result"], "already_acked");
    assert!(bench.claim_one().await.is_null());
    let (_, shown) = bench.json("GET", &format!("/v1/inbound/{id}"), &json!(null)).await;
    assert_eq!((&shown["state"], &shown["external_ref"]), (&json!("acked"), &json!("ERP-7")));
    let (_, events) = bench.json("GET", &format!("/v1/inbound/{id}/events"), &json!(null)).await;
    let names: Vec<_> = events["items"].as_array().unwrap().iter().map(|e| e["event"].clone()).collect();
    assert_eq!(names, ["received", "leased", "acked"]);
}

#[tokio::test]
async fn a_leased_item_is_invisible_until_its_lease_ends() {
    let bench = bench(ConnectorKeys::Loopback);
    bench.accept(1, "default").await;
    let first = bench.claim_one().await;
    assert!(bench.claim_one().await.is_null());
    bench.clock.fetch_add(60_001, Ordering::SeqCst);
    let second = bench.claim_one().await;
    assert_eq!(second["delivery_count"], 2);
    let late = bench.settle("ack", json!({ "id": first["id"], "lease": first["lease"] })).await;
    assert_eq!(late["result"], "lease_superseded");
    let longer = json!({ "id": second["id"], "lease": second["lease"], "lease_s": 600 });
    assert_eq!(bench.settle("extend", longer).await["result"], "extended");
}

#[tokio::test]
async fn an_item_given_back_too_often_is_dead_until_it_is_requeued() {
    let bench = bench(ConnectorKeys::Loopback);
    let id = bench.accept(1, "default").await.to_string();
    for result in ["released", "dead"] {
        let item = bench.claim_one().await;
        let nack = json!({ "id": item["id"], "lease": item["lease"], "reason": "ERP down" });
        assert_eq!(bench.settle("nack", nack).await["result"], result);
    }
    let (_, dead) = bench.json("GET", "/v1/inbound?state=dead", &json!(null)).await;
    assert_eq!(dead["items"][0]["id"], json!(id));
    let (status, _) = bench.json("POST", &format!("/v1/inbound/{id}/requeue"), &json!({})).await;
    assert_eq!(status, 200);
    assert_eq!(bench.claim_one().await["redelivery"], true);
}

#[tokio::test(start_paused = true)]
async fn a_long_poll_ends_when_an_item_comes_or_the_service_stops() {
    let bench = Arc::new(bench(ConnectorKeys::Loopback));
    let wait = json!({ "wait_s": 60 });
    let poll = |bench: Arc<Bench>, wait: Value| async move {
        bench.json("POST", "/v1/inbound/claim", &wait).await.1
    };
    let polled = tokio::spawn(poll(Arc::clone(&bench), wait.clone()));
    tokio::task::yield_now().await;
    bench.accept(1, "default").await;
    assert_eq!(polled.await.unwrap()["items"].as_array().unwrap().len(), 1);
    let polled = tokio::spawn(poll(Arc::clone(&bench), wait));
    tokio::task::yield_now().await;
    bench.stop.send_replace(true);
    assert_eq!(polled.await.unwrap(), json!({ "items": [] }));
}

#[tokio::test]
async fn ranges_and_etags_save_bytes() {
    let bench = bench(ConnectorKeys::Loopback);
    let id = bench.accept(1, "default").await;
    let path = format!("/v1/inbound/{id}/sbd");
    let (status, headers, body) = bench.call("GET", &path, &[("range", "bytes=5-12")], "").await;
    assert_eq!((status.as_u16(), &body[..]), (206, &SBD[5..13]));
    assert_eq!(headers["content-range"], format!("bytes 5-12/{}", SBD.len()).as_str());
    let tag = format!("\"{}\"", Digest::of(SBD));
    let (status, _, body) = bench.call("GET", &path, &[("if-none-match", &tag)], "").await;
    assert_eq!((status.as_u16(), body.len()), (304, 0));
    let (status, _, body) =
        bench.call("GET", &path, &[("range", "bytes=5-"), ("if-range", "\"other\"")], "").await;
    assert_eq!((status.as_u16(), &body[..]), (200, SBD));
    let (status, headers, _) = bench.call("GET", &path, &[("range", "bytes=99-")], "").await;
    assert_eq!(status, 416);
    assert_eq!(headers["content-range"], format!("bytes */{}", SBD.len()).as_str());
}

#[tokio::test]
async fn the_evidence_holds_what_was_received_and_answered() {
    let bench = bench(ConnectorKeys::Loopback);
    let id = bench.accept(1, "default").await;
    let (status, _, bytes) = bench.call("GET", &format!("/v1/inbound/{id}/evidence"), &[], "").await;
    assert_eq!(status, 200);
    let mut zip = zip::ZipArchive::new(std::io::Cursor::new(bytes)).unwrap();
    let mut read = |name: &str| std::io::read_to_string(zip.by_name(name).unwrap()).unwrap();
    assert_eq!(read("request-envelope.xml"), "<envelope/>");
    assert_eq!(read("request-headers.txt"), "Content-Type: multipart/related\r\n");
    assert_eq!(read("receipt.xml"), "receipt of 1@c2");
    assert_eq!(read("chain-1.der"), "\u{1}\u{2}\u{3}");
    assert_eq!(read("revocation-now-1.crl"), "crl");
}

#[tokio::test]
async fn limits_are_told_at_one_beyond_them() {
    let bench = bench(ConnectorKeys::Loopback);
    let good = [json!({ "max": 100, "lease_s": 3600 }), json!({ "max": 1, "lease_s": 1, "wait_s": 0 })];
    for body in good {
        assert_eq!(bench.json("POST", "/v1/inbound/claim", &body).await.0, 200, "{body}");
    }
    let bad = [
        json!({ "max": 101 }),
        json!({ "max": 0 }),
        json!({ "lease_s": 3601 }),
        json!({ "lease_s": 0 }),
        json!({ "wait_s": 61 }),
        json!({ "unknown": 1 }),
        json!({ "filter": { "receiver": "no scheme" } }),
    ];
    for body in bad {
        let (status, problem) = bench.json("POST", "/v1/inbound/claim", &body).await;
        assert_eq!((status.as_u16(), &problem["code"]), (400, &json!("invalid_request")), "{body}");
        assert_eq!((&problem["retryable"], &problem["trace_id"]), (&json!(false), &json!("trace-1")));
    }
    for query in ["limit=0", "limit=1001", "state=gone", "from=yesterday", "cursor=x", "colour=red"] {
        let (status, _) = bench.json("GET", &format!("/v1/inbound?{query}"), &json!(null)).await;
        assert_eq!(status, 400, "{query}");
    }
    assert_eq!(bench.json("GET", "/v1/inbound?limit=1000", &json!(null)).await.0, 200);
    let many: Vec<_> = (0..101).map(|_| json!({ "id": "x", "lease": "1" })).collect();
    assert_eq!(bench.json("POST", "/v1/inbound/ack", &json!(many)).await.0, 400);
    assert_eq!(bench.json("POST", "/v1/inbound/ack", &json!(many[..100])).await.0, 200);
}

#[tokio::test]
async fn lists_go_on_at_their_cursor() {
    let bench = bench(ConnectorKeys::Loopback);
    for n in 1..=3 {
        bench.accept(n, "default").await;
    }
    let (_, first) = bench.json("GET", "/v1/inbound?limit=2", &json!(null)).await;
    assert_eq!(first["items"].as_array().unwrap().len(), 2);
    let cursor = first["next_cursor"].as_str().unwrap();
    let (_, second) = bench.json("GET", &format!("/v1/inbound?limit=2&cursor={cursor}"), &json!(null)).await;
    assert_eq!(second["items"].as_array().unwrap().len(), 1);
    assert!(second["next_cursor"].is_null());
}

#[tokio::test]
async fn a_key_sees_its_own_tenant_and_participants_only() {
    let key = |name: &str, scopes: &[AccessScope], tenant: Option<&str>, participants: &[&str]| AccessKey {
        name: name.to_owned(),
        sha256: Digest::of(name.as_bytes()),
        scopes: scopes.to_vec(),
        tenant: tenant.map(|t| Tenant::parse(t).unwrap()),
        participants: participants.iter().map(|p| participant(p)).collect(),
    };
    let all = [AccessScope::Receive, AccessScope::Read];
    let bench = bench(ConnectorKeys::Keys(vec![
        key("red", &all, Some("red"), &[]),
        key("other", &all, None, &["0088:other"]),
        key("c4", &all, None, &["0088:other", "0088:C4"]),
        key("reader", &[AccessScope::Read], None, &[]),
    ]));
    let id = bench.accept(1, "blue").await;
    let status = async |name: &str, method: &str, path: &str| {
        let bearer = format!("Bearer {name}");
        bench.call(method, path, &[("authorization", &bearer)], "").await
    };
    let path = format!("/v1/inbound/{id}");
    for (name, expected) in [("red", 404), ("other", 404), ("c4", 200), ("reader", 200), ("nobody", 401)] {
        assert_eq!(status(name, "GET", &path).await.0.as_u16(), expected, "{name}");
    }
    assert_eq!(status("reader", "POST", "/v1/inbound/claim").await.0, 403);
    for name in ["red", "other"] {
        let (_, _, body) = status(name, "POST", "/v1/inbound/claim").await;
        assert_eq!(body, r#"{"items":[]}"#, "{name}");
    }
    let (_, _, body) = status("c4", "POST", "/v1/inbound/claim").await;
    assert!(body.len() > 20);
    assert_eq!(status("c4", "GET", "/v1/inbound?state=refused").await.0, 403);
    assert_eq!(status("reader", "GET", "/v1/inbound?state=refused").await.0, 200);
}

fn refused(bench: &Bench, id: u128, n: u128) -> Record {
    Record {
        id: ItemId::from_uuid(uuid::Uuid::from_u128(id)),
        at: bench.now(),
        expires_at: bench.now().plus(Span::days(30)),
        state: RecordState::Refused,
        authentication: Authentication::Proven,
        key: Some(key(n, "default")),
        first: None,
        code: Some("EBMS:0101".to_owned()),
        cause: "the signature does not verify".to_owned(),
        peer: Some("192.0.2.1".to_owned()),
        notices: vec![],
        answer_sha256: None,
        headers: vec![],
    }
}

#[tokio::test]
async fn refused_messages_are_records_that_can_be_listed() {
    let bench = bench(ConnectorKeys::Loopback);
    let id = ItemId::from_uuid(uuid::Uuid::from_u128(77));
    bench.store.note(refused(&bench, 77, 9));
    let (_, refused) = bench.json("GET", "/v1/inbound?state=refused", &json!(null)).await;
    assert_eq!(refused["items"][0]["code"], "EBMS:0101");
    let (status, shown) = bench.json("GET", &format!("/v1/inbound/{id}"), &json!(null)).await;
    assert_eq!((status.as_u16(), &shown["message_id"]), (200, &json!("9@c2")));
}

#[tokio::test]
async fn the_timeline_begins_with_what_was_refused_under_the_same_key() {
    let bench = bench(ConnectorKeys::Loopback);
    bench.store.note(refused(&bench, 77, 1));
    bench.store.note(refused(&bench, 78, 2));
    let id = bench.accept(1, "default").await;
    let (_, events) = bench.json("GET", &format!("/v1/inbound/{id}/events"), &json!(null)).await;
    let names: Vec<_> = events["items"].as_array().unwrap().iter().map(|e| e["event"].clone()).collect();
    assert_eq!(names, ["earlier_attempt", "received"]);
    assert_eq!(events["items"][0]["record"]["code"], "EBMS:0101");
}

#[tokio::test]
async fn a_store_fault_is_retryable_and_says_so() {
    let bench = bench(ConnectorKeys::Loopback);
    bench.accept(1, "default").await;
    bench.store.set_fault(Some(crate::store::StoreError::Io("no".to_owned())));
    let (status, headers, body) = bench.call("POST", "/v1/inbound/claim", &[], "{}").await;
    let problem: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((status.as_u16(), &problem["retryable"]), (503, &json!(true)));
    assert_eq!(headers["retry-after"], "5");
}

#[tokio::test]
async fn every_route_is_in_the_contract_and_every_promise_is_a_route() {
    let contract: Value = serde_json::from_str(OPENAPI).unwrap();
    let mut promised = BTreeSet::new();
    for (path, methods) in contract["paths"].as_object().unwrap() {
        promised.extend(methods.as_object().unwrap().keys().map(|m| (path.clone(), m.clone())));
    }
    let source = include_str!("mod.rs");
    let routed: BTreeSet<_> = source
        .split(".route(\"")
        .skip(1)
        .map(|rest| {
            let (path, rest) = rest.split_once("\", ").unwrap();
            (path.to_owned(), rest.split_once('(').unwrap().0.to_owned())
        })
        .collect();
    assert_eq!(promised, routed);
    let bench = bench(ConnectorKeys::Loopback);
    for (path, method) in &promised {
        let path = path.replace("{id}", "00000000-0000-0000-0000-000000000000");
        let (_, _, body) = bench.call(&method.to_uppercase(), &path, &[], "").await;
        assert!(!String::from_utf8_lossy(&body).contains("unknown_path"), "{path}");
    }
    let (status, _) = bench.json("GET", "/v1/nowhere", &json!(null)).await;
    assert_eq!(status, 404);
    let (status, _) = bench.json("DELETE", "/v1/inbound", &json!(null)).await;
    assert_eq!(status, 405);
}
