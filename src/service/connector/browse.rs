//! Looking without leasing: lists, one item, its timeline; and redelivery by an operator.

use axum::{
    extract::{Path, Query, State},
    http::{HeaderMap, StatusCode},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    AccessScope, Answered, ConnectorParts, Problem, Shared,
    claim::{parsed, within},
    json,
    keys::Access,
    view, visible_item,
};
use crate::{
    model::{DocumentTypeId, ItemId, ParticipantId, Tenant, Timestamp},
    store::{ItemQuery, ItemState, Page, RecordQuery, RecordState, RequeueResult},
};

/// Items of a page unless the caller says otherwise.
const PAGE_DEFAULT: u64 = 100;
/// Most items of a page.
const PAGE_MAX: u64 = 1000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Listing {
    state: Option<String>,
    from: Option<String>,
    before: Option<String>,
    sender: Option<String>,
    receiver: Option<String>,
    doctype: Option<String>,
    tenant: Option<String>,
    first: Option<String>,
    cursor: Option<String>,
    limit: Option<u64>,
}

/// What a `state` names: items, or records of messages that were not accepted.
enum Listed {
    Items(Option<ItemState>),
    Records(RecordState),
}

pub(super) async fn list(
    State(parts): Shared,
    headers: HeaderMap,
    query: Result<Query<Listing>, axum::extract::rejection::QueryRejection>,
) -> Answered {
    let access = parts.keys.admit(&headers, AccessScope::Read)?;
    let Query(listing) = query.map_err(|error| Problem::invalid(error.body_text()))?;
    match listed(listing.state.as_deref())? {
        Listed::Items(state) => items(&parts, &listing, state, &access),
        Listed::Records(state) => records(&parts, &listing, state, &access),
    }
}

fn listed(state: Option<&str>) -> Result<Listed, Problem> {
    Ok(match state {
        None => Listed::Items(None),
        Some("available") => Listed::Items(Some(ItemState::Available)),
        Some("leased") => Listed::Items(Some(ItemState::Leased)),
        Some("acked") => Listed::Items(Some(ItemState::Acked)),
        Some("dead") => Listed::Items(Some(ItemState::Dead)),
        Some("undelivered") => Listed::Items(Some(ItemState::Undelivered)),
        Some("refused") => Listed::Records(RecordState::Refused),
        Some("refused_duplicate") => Listed::Records(RecordState::RefusedDuplicate),
        Some("conflict") => Listed::Records(RecordState::Conflict),
        Some(other) => {
            return Err(Problem::invalid(format!(
                "state {other:?} is none of available, leased, acked, dead, undelivered, refused, refused_duplicate, conflict"
            )));
        }
    })
}

fn items(parts: &ConnectorParts, listing: &Listing, state: Option<ItemState>, access: &Access) -> Answered {
    let asked = optional("tenant", listing.tenant.as_deref(), Tenant::parse)?;
    if let (Some(own), Some(asked)) = (&access.tenant, &asked)
        && own != asked
    {
        return Err(Problem::invalid("tenant is not the tenant of this key"));
    }
    let query = ItemQuery {
        state,
        from: optional("from", listing.from.as_deref(), Timestamp::parse)?,
        before: optional("before", listing.before.as_deref(), Timestamp::parse)?,
        sender: optional("sender", listing.sender.as_deref(), ParticipantId::parse)?,
        receiver: optional("receiver", listing.receiver.as_deref(), ParticipantId::parse)?,
        doctype: optional("doctype", listing.doctype.as_deref(), DocumentTypeId::parse)?,
        tenant: asked.or_else(|| access.tenant.clone()),
        after: optional("cursor", listing.cursor.as_deref(), ItemId::parse)?,
        limit: limit(listing)?,
    };
    let page = parts.store.list(&query)?;
    let seen: Vec<_> = page.items.iter().filter(|item| access.sees(item)).map(view::item).collect();
    Ok(page_answer(&seen, &page))
}

fn records(parts: &ConnectorParts, listing: &Listing, state: RecordState, access: &Access) -> Answered {
    if !access.sees_everything() {
        let detail = "records of refused messages are for keys without tenant and participants";
        return Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", detail));
    }
    let query = RecordQuery {
        state: Some(state),
        from: optional("from", listing.from.as_deref(), Timestamp::parse)?,
        before: optional("before", listing.before.as_deref(), Timestamp::parse)?,
        first: optional("first", listing.first.as_deref(), ItemId::parse)?,
        after: optional("cursor", listing.cursor.as_deref(), ItemId::parse)?,
        limit: limit(listing)?,
    };
    let page = parts.store.records(&query)?;
    let seen: Vec<_> = page.items.iter().map(view::record).collect();
    Ok(page_answer(&seen, &page))
}

fn limit(listing: &Listing) -> Result<usize, Problem> {
    let limit = listing.limit.unwrap_or(PAGE_DEFAULT);
    within("limit", limit, 1, PAGE_MAX)?;
    usize::try_from(limit).map_err(|_| Problem::invalid("limit is too large"))
}

fn optional<T, E: std::fmt::Display>(
    name: &str,
    text: Option<&str>,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Option<T>, Problem> {
    text.map(|text| parsed(name, text, parse)).transpose()
}

fn page_answer<T>(items: &[Value], page: &Page<T>) -> axum::http::Response<axum::body::Body> {
    let mut answer = json!({ "items": items });
    if let (Some(next), Value::Object(map)) = (page.next, &mut answer) {
        map.insert("next_cursor".to_owned(), json!(next));
    }
    json(&answer)
}

pub(super) async fn show(State(parts): Shared, headers: HeaderMap, Path(id): Path<String>) -> Answered {
    match visible_item(&parts, &headers, AccessScope::Read, &id) {
        Ok(item) => {
            let mut shown = view::item(&item);
            if let (Some(count), Value::Object(map)) = (parts.store.repeats(item.id)?, &mut shown) {
                map.insert("repeats".to_owned(), view::repeats(count));
            }
            Ok(json(&shown))
        }
        Err(problem) => record(&parts, &headers, &id).ok_or(problem),
    }
}

/// The record of a refused message under that id, when the caller may see such.
fn record(
    parts: &ConnectorParts,
    headers: &HeaderMap,
    id: &str,
) -> Option<axum::http::Response<axum::body::Body>> {
    let access = parts.keys.admit(headers, AccessScope::Read).ok()?;
    let found = parts.store.record(ItemId::parse(id).ok()?).ok()??;
    access.sees_everything().then(|| json(&view::record(&found)))
}

pub(super) async fn events(State(parts): Shared, headers: HeaderMap, Path(id): Path<String>) -> Answered {
    let item = visible_item(&parts, &headers, AccessScope::Read, &id)?;
    // What was refused under this key before is part of the message's history (`duplicates` §2).
    let attempts = parts.store.attempts(&item.key)?;
    let earlier = attempts.iter().filter(|attempt| attempt.at <= item.received_at && attempt.first.is_none());
    let mut lines: Vec<_> = earlier.map(view::earlier_attempt).collect();
    lines.extend(parts.store.events(item.id)?.iter().map(view::event));
    Ok(json(&json!({ "items": lines })))
}

pub(super) async fn requeue(State(parts): Shared, headers: HeaderMap, Path(id): Path<String>) -> Answered {
    let item = visible_item(&parts, &headers, AccessScope::Operate, &id)?;
    match parts.store.requeue(item.id, (parts.now)()).await? {
        RequeueResult::Requeued => {
            Ok(json(&json!({ "id": item.id, "result": "requeued", "redelivery": true })))
        }
        RequeueResult::NeverDelivered => Err(Problem::new(
            StatusCode::CONFLICT,
            "never_delivered",
            "a message of the test service is never delivered",
        )),
        RequeueResult::Unknown => Err(Problem::unknown_item()),
    }
}
