//! The connector's listener as the service wires it: health, metrics, who is let in.

use super::{
    client::{ask, get, post_body},
    house::{any_port, at, service},
};
use oncepoint::{
    model::Digest,
    service::{
        config::ConnectorConfig,
        connector::{AccessKey, AccessScope, ConnectorKeys},
        running::{StartError, start},
    },
    store::StoreError,
};

#[tokio::test]
async fn readiness_names_the_part_that_fails() {
    let mut store = None;
    let running = service(|config| store = Some(config.store.clone())).await;
    let ready = async || get(running.connector_addr(), "/health/ready", &[]).await;
    let reply = ready().await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    store.unwrap().set_fault(Some(StoreError::Full));
    let reply = ready().await;
    let parts = reply.json()["parts"].as_array().unwrap().clone();
    let failing: Vec<_> =
        parts.iter().filter(|part| part["ready"] == false).map(|part| part["part"].clone()).collect();
    assert_eq!((reply.status, failing), (503, vec!["disk".into()]));
    assert_eq!(get(running.connector_addr(), "/health/live", &[]).await.status, 200);
}

#[tokio::test]
async fn an_expired_certificate_of_ours_is_not_ready() {
    let running = service(|config| config.clock = at("2050-01-01T00:00:00Z")).await;
    let reply = get(running.connector_addr(), "/health/ready", &[]).await;
    assert_eq!(reply.status, 503);
    assert!(reply.text().contains("expired"), "{}", reply.text());
}

#[tokio::test]
async fn metrics_count_what_was_refused() {
    let running = service(|_| {}).await;
    let soap = [("Content-Type", "application/soap+xml")];
    assert_eq!(ask(running.as4_addr(), post_body("/as4", &soap, b"<a/>")).await.status, 400);
    let text = get(running.connector_addr(), "/metrics", &[]).await.text();
    assert!(text.contains("oncepoint_received_total 1"), "{text}");
    assert!(text.contains("oncepoint_refused_total{code=\"http_400\"} 1"), "{text}");
}

#[tokio::test]
async fn keys_are_asked_for_and_without_keys_only_loopback_is_served() {
    let mut config = super::house::config(super::house::Material::fresh().site());
    let everywhere = std::net::SocketAddr::from(([0, 0, 0, 0], 0));
    config.connector = ConnectorConfig::on(everywhere, ConnectorKeys::Loopback);
    assert!(matches!(start(config).await, Err(StartError::OpenConnector(_))));

    let key = AccessKey {
        name: "erp".to_owned(),
        sha256: Digest::of(b"secret"),
        scopes: vec![AccessScope::Receive],
        tenant: None,
        participants: vec![],
    };
    let keys = ConnectorKeys::Keys(vec![key]);
    let running = service(|config| config.connector = ConnectorConfig::on(any_port(), keys)).await;
    let claim = |headers: &[(&str, &str)]| post_body("/v1/inbound/claim", headers, b"{\"max\":1}");
    assert_eq!(ask(running.connector_addr(), claim(&[])).await.status, 401);
    let bearer = [("Authorization", "Bearer secret"), ("Content-Type", "application/json")];
    let reply = ask(running.connector_addr(), claim(&bearer)).await;
    assert_eq!((reply.status, reply.json()["items"].clone()), (200, serde_json::json!([])));
}
