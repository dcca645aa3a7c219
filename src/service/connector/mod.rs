//! The connector: how backends pull documents and operators look at messages (connector API, inbound half).
//!
//! Guarantees: an item is handed to one worker at a time under a lease; it leaves the inbox only by an
//! explicit acknowledgement; everything it answers about a state is durable before the answer goes out.

mod browse;
mod claim;
mod document;
mod evidence;
mod health;
mod keys;
mod problem;
mod settle;
mod stream;
mod view;

use std::sync::Arc;

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Response},
    middleware::{self, Next},
    response::IntoResponse,
    routing::{get, post},
};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

pub use health::{PartHealth, Readiness};
pub use keys::{AccessKey, AccessScope, ConnectorKeys};
use problem::{Problem, TRACE};

use crate::{
    model::{ItemId, Timestamp},
    security::trust::BehindCertificate,
    store::{Item, Store},
};

/// Largest body of a control request, in bytes: 100 items with every field at its longest.
pub const CONTROL_BYTES_MAX: usize = 1 << 20;

/// The contract, served at `/openapi.json`; a test compares it with the routes.
const OPENAPI: &str = include_str!("openapi.json");

/// Finds what stands behind a certificate given in DER form.
pub type BehindSigner = Box<dyn Fn(&[u8]) -> BehindCertificate + Send + Sync>;

/// What the connector needs of the service around it.
pub struct ConnectorParts {
    /// Where items are.
    pub store: Store,
    /// Who is let in.
    pub keys: ConnectorKeys,
    /// Deliveries before an item is put aside.
    pub deliveries_max: u32,
    /// The clock.
    pub now: Box<dyn Fn() -> Timestamp + Send + Sync>,
    /// A fresh trace id for each request.
    pub trace: Box<dyn Fn() -> String + Send + Sync>,
    /// What stands behind a signer's certificate (DER), for evidence.
    pub behind: BehindSigner,
    /// How the service is, part by part.
    pub readiness: Box<dyn Fn() -> Readiness + Send + Sync>,
    /// Counters in Prometheus' text form.
    pub metrics: Box<dyn Fn() -> String + Send + Sync>,
    /// Turns true when the service stops: long polls end.
    pub stopping: watch::Receiver<bool>,
}

type Shared = State<Arc<ConnectorParts>>;
type Answered = Result<Response<Body>, Problem>;

/// The connector's routes.
pub fn router(parts: ConnectorParts) -> Router {
    let parts = Arc::new(parts);
    Router::new()
        .route("/v1/inbound", get(browse::list))
        .route("/v1/inbound/claim", post(claim::claim))
        .route("/v1/inbound/ack", post(settle::ack))
        .route("/v1/inbound/nack", post(settle::nack))
        .route("/v1/inbound/extend", post(settle::extend))
        .route("/v1/inbound/{id}", get(browse::show))
        .route("/v1/inbound/{id}/events", get(browse::events))
        .route("/v1/inbound/{id}/requeue", post(browse::requeue))
        .route("/v1/inbound/{id}/document", get(document::document))
        .route("/v1/inbound/{id}/sbd", get(document::sbd))
        .route("/v1/inbound/{id}/receipt", get(document::receipt))
        .route("/v1/inbound/{id}/evidence", get(evidence::evidence))
        .route("/v1/status", get(health::status))
        .route("/health/live", get(health::live))
        .route("/health/ready", get(health::ready))
        .route("/metrics", get(health::metrics))
        .route("/openapi.json", get(openapi))
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .layer(axum::extract::DefaultBodyLimit::max(CONTROL_BYTES_MAX))
        .layer(middleware::from_fn_with_state(Arc::clone(&parts), traced))
        .with_state(parts)
}

/// Gives each request a trace id that its answer and its log lines carry.
async fn traced(State(parts): Shared, request: Request, next: Next) -> Response<Body> {
    let trace = (parts.trace)();
    let mut response = TRACE.scope(trace.clone(), next.run(request)).await;
    if let Ok(value) = HeaderValue::from_str(&trace) {
        response.headers_mut().insert("x-trace-id", value);
    }
    response
}

async fn openapi() -> impl IntoResponse {
    ([("content-type", "application/json")], OPENAPI)
}

async fn unknown_path() -> Problem {
    Problem::new(
        axum::http::StatusCode::NOT_FOUND,
        "unknown_path",
        "there is no such path; see /openapi.json",
    )
}

async fn wrong_method() -> Problem {
    let status = axum::http::StatusCode::METHOD_NOT_ALLOWED;
    Problem::new(status, "method_not_allowed", "this path has other methods; see /openapi.json")
}

/// A control request: JSON of exactly the known fields.
fn parse<T: DeserializeOwned>(body: &Bytes) -> Result<T, Problem> {
    serde_json::from_slice(body)
        .map_err(|error| Problem::invalid(format!("the body is not as expected: {error}")))
}

/// The JSON of a good answer.
fn json(value: &serde_json::Value) -> Response<Body> {
    ([("content-type", "application/json")], value.to_string()).into_response()
}

/// The item, when the caller may see it; another's item looks like none.
fn visible_item(
    parts: &ConnectorParts,
    headers: &HeaderMap,
    scope: AccessScope,
    id: &str,
) -> Result<Item, Problem> {
    let access = parts.keys.admit(headers, scope)?;
    let id = ItemId::parse(id).map_err(|_| Problem::unknown_item())?;
    let item = parts.store.item(id)?.ok_or_else(Problem::unknown_item)?;
    if access.sees(&item) { Ok(item) } else { Err(Problem::unknown_item()) }
}

#[cfg(test)]
mod tests;
