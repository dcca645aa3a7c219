//! Items, records and events as the connector shows them.

use serde_json::{Map, Value, json};

use crate::{
    model::Timestamp,
    store::{Event, EventKind, Item, Leased, Record, RepeatCount},
};

/// An instant as everything here shows it.
pub(super) fn time(at: Timestamp) -> String {
    at.to_string()
}

/// An item without a lease.
pub(super) fn item(item: &Item) -> Value {
    let mut shown = described(item);
    shown.extend(object(json!({
        "state": item.state,
        "tenant": item.key.tenant,
        "access_point": item.key.sender,
        "lease_until": item.lease_until.map(time),
        "available_from": item.available_from.map(time),
        "window_until": time(item.expires_at),
        "receipt_sha256": item.answer_sha256,
        "external_ref": item.external_ref,
        "notices": item.notices,
    })));
    Value::Object(shown)
}

/// An item that its worker has now.
pub(super) fn leased(leased: &Leased) -> Value {
    let mut shown = described(&leased.item);
    shown.extend(object(json!({
        "lease": leased.lease.to_string(),
        "lease_until": time(leased.lease_until),
    })));
    Value::Object(shown)
}

fn described(item: &Item) -> Map<String, Value> {
    let meta = &item.meta;
    object(json!({
        "id": item.id,
        "message_id": item.key.message_id,
        "received_at": time(item.received_at),
        "delivery_count": item.delivery_count,
        "redelivery": item.redelivery == crate::store::Redelivery::Requested,
        "size": meta.size,
        "sha256": meta.sha256,
        "sbd_size": item.payload.map(|(size, _)| size),
        "sbd_sha256": item.payload.map(|(_, sha256)| sha256),
        "namespaces_added": meta.namespaces_added,
        "media_type": meta.media_type,
        "sender": meta.sender.as_ref().map(ToString::to_string),
        "receiver": meta.receiver.as_ref().map(ToString::to_string),
        "doctype": meta.doctype.as_ref().map(ToString::to_string),
        "process": meta.process.as_ref().map(ToString::to_string),
        "sbdh_id": meta.sbdh_id,
        "possible_duplicate_of": meta.possible_duplicate_of,
    }))
}

/// How often an item was repeated.
pub(super) fn repeats(repeats: RepeatCount) -> Value {
    json!({ "count": repeats.count, "first_at": time(repeats.first_at), "last_at": time(repeats.last_at) })
}

/// A message that was not accepted.
pub(super) fn record(record: &Record) -> Value {
    let key = record.key.as_ref();
    json!({
        "id": record.id,
        "state": record.state,
        "received_at": time(record.at),
        "authentication": record.authentication,
        "tenant": key.map(|key| &key.tenant),
        "access_point": key.map(|key| &key.sender),
        "message_id": key.map(|key| &key.message_id),
        "first": record.first,
        "code": record.code,
        "cause": record.cause,
        "peer": record.peer,
        "notices": record.notices,
        "answer_sha256": record.answer_sha256,
    })
}

/// A line of a timeline: `at`, `event`, and what belongs to it.
pub(super) fn event(event: &Event) -> Value {
    let (name, detail) = match &event.kind {
        EventKind::Received(notices) => ("received", json!({ "notices": notices })),
        EventKind::DuplicateReceived(repeat) => ("duplicate_received", json!({ "record": record(repeat) })),
        EventKind::Conflict(conflict) => ("conflict", json!({ "record": record(conflict) })),
        EventKind::RepeatsCounted(count) => ("repeats_counted", repeats(*count)),
        EventKind::ReceiptRebuilt => ("receipt_rebuilt", json!({})),
        EventKind::Delivery(change) => return delivery(event.at, change),
    };
    line(event.at, name, detail)
}

/// The line of an attempt under the same key that was refused before the message was accepted.
pub(super) fn earlier_attempt(attempt: &Record) -> Value {
    line(attempt.at, "earlier_attempt", json!({ "record": record(attempt) }))
}

fn delivery(at: Timestamp, change: &crate::store::DeliveryEvent) -> Value {
    use crate::store::DeliveryEvent as Change;
    let (name, detail) = match change {
        Change::Leased { until } => ("leased", json!({ "lease_until": time(*until) })),
        Change::Extended { until } => ("extended", json!({ "lease_until": time(*until) })),
        Change::Acked { external_ref } => ("acked", json!({ "external_ref": external_ref })),
        Change::Released { reason, from } => {
            ("released", json!({ "reason": reason, "available_from": time(*from) }))
        }
        Change::Parked { reason } => ("parked", json!({ "reason": reason })),
        Change::Dead { reason } => ("dead", json!({ "reason": reason })),
        Change::Requeued => ("requeued", json!({})),
    };
    line(at, name, detail)
}

fn line(at: Timestamp, name: &str, detail: Value) -> Value {
    let mut line = object(json!({ "at": time(at), "event": name }));
    line.extend(object(detail));
    Value::Object(line)
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
