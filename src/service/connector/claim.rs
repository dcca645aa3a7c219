//! `POST /v1/inbound/claim`: a lease on the oldest items, with a long poll.

use axum::{body::Bytes, extract::State, http::HeaderMap};
use serde::Deserialize;
use serde_json::json;

use super::{AccessScope, Answered, ConnectorParts, Problem, Shared, json, keys::Access, parse, view};
use crate::{
    model::{DocumentTypeId, ItemId, ParticipantId, Span, Tenant, Timestamp},
    store::{InboxClaim, InboxFilter, Leased},
};

/// Items of one claim: default and most.
const ITEMS_DEFAULT: usize = 10;
/// Most items of one claim.
pub(super) const ITEMS_MAX: usize = 100;
/// A lease, in seconds, unless the worker says otherwise.
const LEASE_S_DEFAULT: u64 = 60;
/// Longest lease, in seconds.
pub(super) const LEASE_S_MAX: u64 = 3600;
/// Longest poll, in seconds.
pub(super) const WAIT_S_MAX: u64 = 60;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Wanted {
    max: usize,
    lease_s: u64,
    wait_s: u64,
    filter: Filter,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Filter {
    ids: Vec<String>,
    sender: Option<String>,
    receiver: Option<String>,
    doctype: Option<String>,
    tenant: Option<String>,
}

impl Default for Wanted {
    fn default() -> Self {
        Self { max: ITEMS_DEFAULT, lease_s: LEASE_S_DEFAULT, wait_s: 0, filter: Filter::default() }
    }
}

pub(super) async fn claim(State(parts): Shared, headers: HeaderMap, body: Bytes) -> Answered {
    let access = parts.keys.admit(&headers, AccessScope::Receive)?;
    let wanted: Wanted = if body.is_empty() { Wanted::default() } else { parse(&body)? };
    check(&wanted)?;
    let claims = claims(&parts, &wanted, &access)?;
    let until = (parts.now)().plus(Span::seconds(wanted.wait_s));
    let leased = poll(&parts, &claims, wanted.max, until).await?;
    let items: Vec<_> = leased.iter().map(view::leased).collect();
    Ok(json(&json!({ "items": items })))
}

fn check(wanted: &Wanted) -> Result<(), Problem> {
    within("max", wanted.max as u64, 1, ITEMS_MAX as u64)?;
    within("lease_s", wanted.lease_s, 1, LEASE_S_MAX)?;
    within("wait_s", wanted.wait_s, 0, WAIT_S_MAX)?;
    within("filter.ids", wanted.filter.ids.len() as u64, 0, ITEMS_MAX as u64)
}

/// A number within its limits, or a problem that says them.
pub(super) fn within(name: &str, found: u64, least: u64, most: u64) -> Result<(), Problem> {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    Err(Problem::invalid(format!("{name} must be between {least} and {most}, not {found}")))
}

/// One claim; a key that is limited to several participants makes one for each of them.
fn claims(parts: &ConnectorParts, wanted: &Wanted, access: &Access) -> Result<Vec<InboxClaim>, Problem> {
    let filter = filter(&wanted.filter, access)?;
    let claim = |filter| InboxClaim {
        max: wanted.max,
        lease: Span::seconds(wanted.lease_s),
        filter,
        deliveries_max: parts.deliveries_max,
    };
    let allowed = |id: &&ParticipantId| filter.receiver.as_ref().is_none_or(|wanted| wanted.is_same(id));
    if access.participants.is_empty() {
        return Ok(vec![claim(filter)]);
    }
    let narrowed = access.participants.iter().filter(allowed);
    Ok(narrowed.map(|id| claim(InboxFilter { receiver: Some(id.clone()), ..filter.clone() })).collect())
}

fn filter(wanted: &Filter, access: &Access) -> Result<InboxFilter, Problem> {
    let tenant = match (&wanted.tenant, &access.tenant) {
        (Some(asked), Some(own)) if asked != own.as_str() => {
            return Err(Problem::invalid("filter.tenant is not the tenant of this key"));
        }
        (Some(asked), _) => Some(parsed("filter.tenant", asked, Tenant::parse)?),
        (None, own) => own.clone(),
    };
    let optional = |name, text: &Option<String>| {
        text.as_deref().map(|text| parsed(name, text, ParticipantId::parse)).transpose()
    };
    Ok(InboxFilter {
        ids: wanted.ids.iter().map(|id| parsed("filter.ids", id, ItemId::parse)).collect::<Result<_, _>>()?,
        sender: optional("filter.sender", &wanted.sender)?,
        receiver: optional("filter.receiver", &wanted.receiver)?,
        doctype: wanted
            .doctype
            .as_deref()
            .map(|t| parsed("filter.doctype", t, DocumentTypeId::parse))
            .transpose()?,
        tenant,
    })
}

/// An identifier of a request, or a problem that names the field and the rule.
pub(super) fn parsed<T, E: std::fmt::Display>(
    name: &str,
    text: &str,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<T, Problem> {
    parse(text).map_err(|error| Problem::invalid(format!("{name}: {error}")))
}

/// Claims now, and again whenever something changed or comes due, until `until`.
async fn poll(
    parts: &ConnectorParts,
    claims: &[InboxClaim],
    max: usize,
    until: Timestamp,
) -> Result<Vec<Leased>, Problem> {
    let mut changes = parts.store.changes();
    let mut stopping = parts.stopping.clone();
    loop {
        changes.mark_unchanged();
        let leased = claim_each(parts, claims, max).await?;
        let now = (parts.now)();
        if !leased.is_empty() || now >= until || *stopping.borrow() {
            return Ok(leased);
        }
        let due = parts.store.next_due().filter(|due| *due > now).unwrap_or(until).min(until);
        tokio::select! {
            _ = changes.changed() => {}
            _ = stopping.changed() => {}
            () = tokio::time::sleep(due.since(now).as_duration()) => {}
        }
    }
}

async fn claim_each(
    parts: &ConnectorParts,
    claims: &[InboxClaim],
    max: usize,
) -> Result<Vec<Leased>, Problem> {
    let mut leased = Vec::new();
    for claim in claims {
        let left = max.saturating_sub(leased.len());
        if left > 0 {
            let claim = InboxClaim { max: left, ..claim.clone() };
            leased.extend(parts.store.claim_deliveries(&claim, (parts.now)()).await?);
        }
    }
    Ok(leased)
}
