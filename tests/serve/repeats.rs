//! What the shell adds to the duplicate decision: parallel repeats, faults of the store, a lost connection,
//! a damaged answer. With one shared message; skipped without the shared folder.

use oncepoint::{
    model::ItemId,
    service::running::{Running, start},
    store::{RecordQuery, RecordState, Store, StoreError},
};

use super::{
    client::{Reply, ask, connect, get, post_body},
    house::config,
    vectors::{Case, Vectors},
};

const MESSAGE: &str = "composed/ok-plain";
/// The same message, encrypted anew, and other content under its MessageId.
const OTHER_CONTENT: &str = "composed/replay-same-id-other-payload";

struct House {
    running: Running,
    store: Store,
    request: Vec<u8>,
}

fn request(case: &Case) -> Vec<u8> {
    post_body("/as4", &case.sent_headers(), &case.body)
}

async fn house() -> Option<House> {
    let vectors = Vectors::load()?;
    let entry = &vectors.entries[MESSAGE];
    let mut config = config(vectors.material(entry)?.site());
    config.clock = super::house::at(entry["clock"].as_str().unwrap());
    let store = config.store.clone();
    Some(House { running: start(config).await.unwrap(), store, request: request(&vectors.case(entry)) })
}

impl House {
    async fn send(&self) -> Reply {
        ask(self.running.as4_addr(), &self.request).await
    }

    async fn items(&self, state: &str) -> Vec<serde_json::Value> {
        let path = format!("/v1/inbound?state={state}");
        let reply = get(self.running.connector_addr(), &path, &[]).await;
        reply.json()["items"].as_array().unwrap().clone()
    }

    async fn only_item(&self) -> ItemId {
        let items = self.items("available").await;
        assert_eq!(items.len(), 1);
        ItemId::parse(items[0]["id"].as_str().unwrap()).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_copies_are_delivered_once_and_answered_alike() {
    let Some(house) = house().await else { return };
    let sends = (0..32).map(|_| {
        let (to, request) = (house.running.as4_addr(), house.request.clone());
        tokio::spawn(async move { ask(to, request).await })
    });
    let mut bodies = vec![];
    for send in sends.collect::<Vec<_>>() {
        let reply = send.await.unwrap();
        assert_eq!(reply.status, 200);
        bodies.push(reply.body);
    }
    bodies.dedup();
    assert_eq!(bodies.len(), 1);
    house.only_item().await;
    house.running.shutdown().await;
}

#[tokio::test]
async fn a_full_disk_is_503_and_takes_no_id_but_repeats_are_answered() {
    let Some(house) = house().await else { return };
    house.store.set_fault(Some(StoreError::Full));
    let reply = house.send().await;
    assert_eq!((reply.status, reply.header("content-type")), (503, Some("text/plain; charset=UTF-8")));
    assert!(reply.header("retry-after").is_some());
    house.store.set_fault(None);
    let first = house.send().await;
    assert_eq!(first.status, 200);
    house.store.set_fault(Some(StoreError::Full));
    assert_eq!(house.send().await.body, first.body);
}

#[tokio::test]
async fn a_lost_connection_does_not_stop_the_processing() {
    let Some(house) = house().await else { return };
    let mut client = connect(house.running.as4_addr()).await;
    client.send(&house.request).await;
    drop(client);
    // The retry finds either the answer or the work in progress, and waits for that.
    let reply = house.send().await;
    assert_eq!(reply.status, 200);
    house.only_item().await;
    let store = house.store.clone();
    house.running.shutdown().await;
    let repeats = RecordQuery { state: Some(RecordState::RefusedDuplicate), ..RecordQuery::default() };
    assert_eq!(store.records(&repeats).unwrap().items.len(), 1, "the retry was a repeat");
}

#[tokio::test]
async fn a_damaged_answer_is_rebuilt_once_and_is_the_answer_from_then_on() {
    let Some(house) = house().await else { return };
    let first = house.send().await;
    house.store.damage_answer(house.only_item().await);
    let rebuilt = house.send().await;
    assert_eq!(rebuilt.status, 200);
    assert_ne!(rebuilt.body, first.body, "a receipt of its own, with its own id");
    assert_eq!(house.send().await.body, rebuilt.body);
    house.only_item().await;
}

#[tokio::test]
async fn a_message_that_is_cut_off_leaves_no_trace_of_its_id() {
    let Some(house) = house().await else { return };
    let mut client = connect(house.running.as4_addr()).await;
    client.send(&house.request[..house.request.len() - 10]).await;
    drop(client);
    let reply = house.send().await;
    assert_eq!(reply.status, 200);
    house.only_item().await;
    let text = get(house.running.connector_addr(), "/metrics", &[]).await.text();
    assert!(text.contains("oncepoint_accepted_total 1"), "{text}");
}

#[tokio::test]
async fn repeats_and_refusals_are_records_that_can_be_listed() {
    let Some(house) = house().await else { return };
    house.send().await;
    let item = house.only_item().await.to_string();
    house.send().await;
    let soap = [("Content-Type", "text/xml")];
    ask(house.running.as4_addr(), post_body("/as4", &soap, b"<a/>")).await;
    // Records are kept after the answer went out; the end of the service waits for them.
    let (store, running) = (house.store.clone(), house.running);
    running.shutdown().await;
    let query = |state| RecordQuery { state: Some(state), ..Default::default() };
    let repeats = store.records(&query(RecordState::RefusedDuplicate)).unwrap().items;
    assert_eq!(repeats.len(), 1);
    assert_eq!(repeats[0].first.map(|id| id.to_string()), Some(item));
    let refused = store.records(&query(RecordState::Refused)).unwrap().items;
    assert_eq!(refused.iter().map(|record| record.code.as_deref()).collect::<Vec<_>>(), [Some("http_400")]);
}

#[tokio::test]
async fn a_conflict_gets_a_signed_error_and_never_a_receipt() {
    let Some(house) = house().await else { return };
    let vectors = Vectors::load().unwrap();
    let Some(entry) = vectors.entries.get(OTHER_CONTENT) else { panic!("the vector is gone") };
    let mut config = config(vectors.material(entry).unwrap().site());
    config.clock = super::house::at(entry["clock"].as_str().unwrap());
    let store = config.store.clone();
    let running = start(config).await.unwrap();
    for id in entry["after"].as_array().unwrap() {
        let first =
            ask(running.as4_addr(), request(&vectors.case(&vectors.entries[id.as_str().unwrap()]))).await;
        assert_eq!(first.status, 200);
    }
    let reply = ask(running.as4_addr(), request(&vectors.case(entry))).await;
    assert_eq!(reply.status, 200);
    assert!(
        reply.text().contains("EBMS:0003") && reply.text().contains("SignatureValue"),
        "{}",
        reply.text()
    );
    running.shutdown().await;
    let query = RecordQuery { state: Some(RecordState::Conflict), ..Default::default() };
    let conflicts = store.records(&query).unwrap().items;
    assert_eq!(conflicts.len(), 1);
    assert!(conflicts[0].first.is_some());
    drop(house);
}
