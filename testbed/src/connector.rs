//! A backend that pulls: the connector API over the testbed's own client.

use openssl::sha::Sha256;
use serde_json::{Value, json};

use crate::{
    Fault,
    client::{Answer, Body, Connection, Endpoint},
    composer::hex,
};

/// A delivery held under a lease.
#[derive(Debug, Clone)]
pub struct Leased {
    /// The stable id.
    pub id: String,
    /// What acknowledging needs.
    pub lease: String,
    /// `eb:MessageId`.
    pub message_id: String,
    /// SHA-256 of the document, in hexadecimal.
    pub sha256: String,
    /// SHA-256 of the SBD, in hexadecimal; empty when there is none.
    pub sbd_sha256: String,
    /// How often it was handed out, this time included.
    pub delivery_count: u64,
    /// The item as the product tells it.
    pub item: Value,
}

/// The connector of a running product.
#[derive(Debug, Clone)]
pub struct Connector {
    endpoint: Endpoint,
}

impl Connector {
    /// At that endpoint.
    #[must_use]
    pub fn new(endpoint: Endpoint) -> Self {
        Self { endpoint }
    }

    /// Where it listens.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn connect(&self) -> Result<Connection, Fault> {
        self.endpoint.connect()
    }

    /// A request as it is.
    ///
    /// # Errors
    /// When there is no whole answer.
    pub fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Answer, Fault> {
        let text = body.map(Value::to_string);
        let body = text.as_ref().map_or(Body::Empty, |text| Body::Bytes(text.as_bytes()));
        self.connect()?.request(method, path, &[("Content-Type", "application/json")], body)
    }

    fn json(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, Fault> {
        let answer = self.call(method, path, body)?;
        if answer.status >= 300 {
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            return Err(Fault::broken(format_args!("{method} {path}: HTTP {} {text}", answer.status)));
        }
        Ok(serde_json::from_slice(&answer.body)?)
    }

    /// Leases up to `max` deliveries for a minute.
    ///
    /// # Errors
    /// When the answer is not what the contract says.
    pub fn claim(&self, max: u32) -> Result<Vec<Leased>, Fault> {
        let answer =
            self.json("POST", "/v1/inbound/claim", Some(&json!({ "max": max, "lease_s": 60, "wait_s": 0 })))?;
        items(&answer)?.iter().map(leased).collect()
    }

    /// Leases and acknowledges everything that waits; what it was, in order.
    ///
    /// # Errors
    /// When the answer is not what the contract says.
    pub fn drain(&self) -> Result<Vec<Leased>, Fault> {
        let mut all = Vec::new();
        loop {
            let some = self.claim(100)?;
            if some.is_empty() {
                return Ok(all);
            }
            for (leased, result) in some.iter().zip(self.ack(&some)?) {
                if result != "acked" {
                    return Err(Fault::broken(format_args!("ack of {} said {result}", leased.id)));
                }
            }
            all.extend(some);
        }
    }

    /// Acknowledges; what each acknowledgement came to.
    ///
    /// # Errors
    /// When the answer is not what the contract says.
    pub fn ack(&self, leased: &[Leased]) -> Result<Vec<String>, Fault> {
        let body: Vec<Value> = leased.iter().map(|one| json!({ "id": one.id, "lease": one.lease })).collect();
        let answer = self.json("POST", "/v1/inbound/ack", Some(&Value::Array(body)))?;
        let results = answer.get("results").and_then(Value::as_array);
        let results = results.ok_or_else(|| Fault::broken(format_args!("ack without results: {answer}")))?;
        Ok(results.iter().map(|result| text(result, "result")).collect())
    }

    /// Everything in that state, page by page.
    ///
    /// # Errors
    /// When the answer is not what the contract says.
    pub fn list(&self, state: &str) -> Result<Vec<Value>, Fault> {
        let (mut all, mut cursor) = (Vec::new(), String::new());
        loop {
            let answer = self.json("GET", &format!("/v1/inbound?state={state}&limit=1000{cursor}"), None)?;
            all.extend(items(&answer)?.iter().cloned());
            match answer.get("next_cursor").and_then(Value::as_str) {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return Ok(all),
            }
        }
    }

    /// SHA-256 and length of a delivery's `document` or `sbd`, read as a stream.
    ///
    /// # Errors
    /// When it is not handed out.
    pub fn digest(&self, id: &str, what: &str) -> Result<(String, u64), Fault> {
        let mut connection = self.connect()?;
        connection.send("GET", &format!("/v1/inbound/{id}/{what}"), &[], Body::Empty)?;
        let (mut hash, mut bytes) = (Sha256::new(), 0);
        let answer = connection.receive_into(&mut |part| {
            hash.update(part);
            bytes += part.len() as u64;
            Ok(())
        })?;
        if answer.status != 200 {
            return Err(Fault::broken(format_args!("GET {what} of {id}: HTTP {}", answer.status)));
        }
        Ok((hex(&hash.finish()), bytes))
    }

    /// The timeline of a message.
    ///
    /// # Errors
    /// When it is not handed out.
    pub fn events(&self, id: &str) -> Result<Vec<Value>, Fault> {
        Ok(items(&self.json("GET", &format!("/v1/inbound/{id}/events"), None)?)?.clone())
    }
}

fn items(answer: &Value) -> Result<&Vec<Value>, Fault> {
    let items = answer.get("items").and_then(Value::as_array);
    items.ok_or_else(|| Fault::broken(format_args!("an answer without items: {answer}")))
}

fn text(value: &Value, name: &str) -> String {
    value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn leased(item: &Value) -> Result<Leased, Fault> {
    let leased = Leased {
        id: text(item, "id"),
        lease: text(item, "lease"),
        message_id: text(item, "message_id"),
        sha256: text(item, "sha256"),
        sbd_sha256: text(item, "sbd_sha256"),
        delivery_count: item.get("delivery_count").and_then(Value::as_u64).unwrap_or_default(),
        item: item.clone(),
    };
    if leased.id.is_empty() || leased.lease.is_empty() || leased.message_id.is_empty() {
        return Err(Fault::broken(format_args!("an item without id, lease or message_id: {item}")));
    }
    Ok(leased)
}
