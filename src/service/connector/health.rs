//! Liveness, readiness by part, counters, and a status for people.

use axum::{
    body::Body,
    extract::State,
    http::{HeaderMap, Response, StatusCode},
    response::IntoResponse,
};
use serde::Serialize;
use serde_json::json;

use super::{AccessScope, Answered, Shared, json};

/// How one part of the service is.
#[derive(Debug, Clone, Serialize)]
pub struct PartHealth {
    /// Its name: `store`, `certificate`, `disk`, …
    pub part: &'static str,
    /// Whether it works.
    pub ready: bool,
    /// What is wrong, or what is worth knowing.
    pub detail: String,
}

/// How the service is, part by part.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Readiness {
    /// Every part.
    pub parts: Vec<PartHealth>,
}

impl Readiness {
    /// Whether every part works.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.parts.iter().all(|part| part.ready)
    }
}

pub(super) async fn live() -> &'static str {
    "alive\n"
}

pub(super) async fn ready(State(parts): Shared) -> Response<Body> {
    let readiness = (parts.readiness)();
    let status = if readiness.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, json(&json!({ "ready": readiness.is_ready(), "parts": readiness.parts }))).into_response()
}

pub(super) async fn metrics(State(parts): Shared) -> impl IntoResponse {
    ([("content-type", "text/plain; version=0.0.4")], (parts.metrics)())
}

pub(super) async fn status(State(parts): Shared, headers: HeaderMap) -> Answered {
    parts.keys.admit(&headers, AccessScope::Read)?;
    let readiness = (parts.readiness)();
    let now = (parts.now)().to_string();
    Ok(json(&json!({
        "version": env!("CARGO_PKG_VERSION"),
        "now": now,
        "ready": readiness.is_ready(),
        "parts": readiness.parts,
    })))
}
