//! `ack`, `nack` and `extend`: what becomes of leased items. Each answers 200 with one result per item.

use axum::{body::Bytes, extract::State, http::HeaderMap};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    AccessScope, Answered, ConnectorParts, Problem, Shared,
    claim::{ITEMS_MAX, LEASE_S_MAX, within},
    json,
    keys::Access,
    parse, view,
};
use crate::{
    model::{ItemId, Span},
    store::{Ack, Extend, ExtendResult, Lease, Nack, NackThen},
};

/// Longest delay of an item that is given back, in seconds: a day.
const DELAY_S_MAX: u64 = 86_400;
/// Longest reason and external reference, in characters.
const TEXT_CHARS_MAX: usize = 1000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AckRequest {
    id: String,
    lease: String,
    #[serde(default)]
    external_ref: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NackRequest {
    id: String,
    lease: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    delay_s: u64,
    #[serde(default)]
    dead: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExtendRequest {
    id: String,
    lease: String,
    lease_s: u64,
}

/// Requests that name an item the caller may settle, with their place; the others are `unknown`.
struct Sorted<T> {
    ids: Vec<String>,
    known: Vec<(usize, T)>,
}

pub(super) async fn ack(State(parts): Shared, headers: HeaderMap, body: Bytes) -> Answered {
    let access = parts.keys.admit(&headers, AccessScope::Receive)?;
    let requests: Vec<AckRequest> = requests(&body)?;
    for request in &requests {
        short("external_ref", request.external_ref.as_deref().unwrap_or_default())?;
    }
    let sorted = sort(
        &parts,
        &access,
        requests,
        |r| (&r.id, &r.lease),
        |item, lease, request| Ack { item, lease, external_ref: request.external_ref },
    )?;
    let acks: Vec<_> = sorted.known.iter().map(|(_, ack)| ack.clone()).collect();
    let results = parts.store.ack(&acks, (parts.now)()).await?;
    Ok(answer(&sorted, results.iter().map(|result| json!({ "result": result }))))
}

pub(super) async fn nack(State(parts): Shared, headers: HeaderMap, body: Bytes) -> Answered {
    let access = parts.keys.admit(&headers, AccessScope::Receive)?;
    let requests: Vec<NackRequest> = requests(&body)?;
    for request in &requests {
        within("delay_s", request.delay_s, 0, DELAY_S_MAX)?;
        short("reason", &request.reason)?;
    }
    let deliveries_max = parts.deliveries_max;
    let sorted = sort(
        &parts,
        &access,
        requests,
        |r| (&r.id, &r.lease),
        |item, lease, request| Nack {
            item,
            lease,
            then: if request.dead { NackThen::Park } else { NackThen::Retry(Span::seconds(request.delay_s)) },
            reason: request.reason,
            deliveries_max,
        },
    )?;
    let nacks: Vec<_> = sorted.known.iter().map(|(_, nack)| nack.clone()).collect();
    let results = parts.store.nack(&nacks, (parts.now)()).await?;
    Ok(answer(&sorted, results.iter().map(|result| json!({ "result": result }))))
}

pub(super) async fn extend(State(parts): Shared, headers: HeaderMap, body: Bytes) -> Answered {
    let access = parts.keys.admit(&headers, AccessScope::Receive)?;
    let requests: Vec<ExtendRequest> = requests(&body)?;
    for request in &requests {
        within("lease_s", request.lease_s, 1, LEASE_S_MAX)?;
    }
    let sorted = sort(
        &parts,
        &access,
        requests,
        |r| (&r.id, &r.lease),
        |item, lease, request| Extend { item, lease, length: Span::seconds(request.lease_s) },
    )?;
    let wishes: Vec<_> = sorted.known.iter().map(|(_, wish)| *wish).collect();
    let results = parts.store.extend(&wishes, (parts.now)()).await?;
    Ok(answer(&sorted, results.iter().map(extended)))
}

fn extended(result: &ExtendResult) -> Value {
    match result {
        ExtendResult::Extended { lease_until } => {
            json!({ "result": "extended", "lease_until": view::time(*lease_until) })
        }
        other => json!({ "result": other }),
    }
}

fn requests<T: serde::de::DeserializeOwned>(body: &Bytes) -> Result<Vec<T>, Problem> {
    let requests: Vec<T> = parse(body)?;
    within("the list", requests.len() as u64, 1, ITEMS_MAX as u64)?;
    Ok(requests)
}

fn short(name: &str, text: &str) -> Result<(), Problem> {
    if text.chars().count() <= TEXT_CHARS_MAX {
        return Ok(());
    }
    Err(Problem::invalid(format!("{name} is longer than {TEXT_CHARS_MAX} characters")))
}

/// Keeps the requests that name an item of the caller; whether the lease is good is the store's to say.
fn sort<R, T>(
    parts: &ConnectorParts,
    access: &Access,
    requests: Vec<R>,
    names: impl Fn(&R) -> (&String, &String),
    make: impl Fn(ItemId, Lease, R) -> T,
) -> Result<Sorted<T>, Problem> {
    let mut sorted =
        Sorted { ids: Vec::with_capacity(requests.len()), known: Vec::with_capacity(requests.len()) };
    for (place, request) in requests.into_iter().enumerate() {
        let (id, lease) = names(&request);
        sorted.ids.push(id.clone());
        if let (Ok(item), Some(lease)) = (ItemId::parse(id), Lease::parse(lease))
            && (access.sees_everything() || parts.store.item(item)?.is_some_and(|item| access.sees(&item)))
        {
            sorted.known.push((place, make(item, lease, request)));
        }
    }
    Ok(sorted)
}

fn answer<T>(
    sorted: &Sorted<T>,
    results: impl Iterator<Item = Value>,
) -> axum::http::Response<axum::body::Body> {
    let mut lines: Vec<Value> =
        sorted.ids.iter().map(|id| json!({ "id": id, "result": "unknown" })).collect();
    for ((place, _), result) in sorted.known.iter().zip(results) {
        if let (Some(Value::Object(line)), Value::Object(result)) = (lines.get_mut(*place), result) {
            line.extend(result);
        }
    }
    json(&json!({ "results": lines }))
}
