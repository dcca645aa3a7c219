//! Every shared user message over HTTP: outcome, code, the very bytes for a repeat, the document as the
//! connector gives it out, and no trace of what was refused. Skipped without the shared folder.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::PathBuf,
};

use serde_json::Value;

use super::{
    client::{Reply, ask, get, post_body},
    house::{Material, at, config},
};
use oncepoint::{
    model::Digest,
    service::running::{Running, start},
};

/// The shared user messages.
pub(crate) struct Vectors {
    folder: PathBuf,
    pub(crate) entries: BTreeMap<String, Value>,
}

/// A request as it came.
pub(crate) struct Case {
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// Headers that belong to the connection and not to the message.
const OWN_HEADERS: [&str; 5] =
    ["content-length", "host", "transfer-encoding", "connection", "accept-encoding"];

impl Case {
    /// The headers as they are sent on.
    pub(crate) fn sent_headers(&self) -> Vec<(&str, &str)> {
        let kept = |name: &str| !OWN_HEADERS.contains(&name.to_ascii_lowercase().as_str());
        let sent = self.headers.iter().filter(|(name, _)| kept(name));
        sent.map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }
}

impl Vectors {
    /// Reads the list; none, with a printed line, when there is no shared folder and none is demanded.
    pub(crate) fn load() -> Option<Self> {
        let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/vectors"));
        let Ok(index) = fs::read(folder.join("index.json")) else {
            let required = std::env::var("ONCEPOINT_REQUIRE_SHARED").is_ok_and(|value| value == "1");
            assert!(!required, "{} is missing", folder.display());
            println!("skipped: {} is missing", folder.display());
            return None;
        };
        let index: Value = serde_json::from_slice(&index).unwrap();
        let all = index["entries"].as_array().unwrap().iter();
        let messages = all.filter(|entry| entry["kind"] == "user-message");
        let entries =
            messages.map(|entry| (entry["id"].as_str().unwrap().to_owned(), entry.clone())).collect();
        Some(Self { folder, entries })
    }

    /// The three forms of a case: body and headers apart, a whole request, a bare envelope.
    pub(crate) fn case(&self, entry: &Value) -> Case {
        let name = entry["file"].as_str().unwrap();
        let bytes = self.read(&entry["file"]);
        if entry["headers_file"].is_string() {
            let headers = lines(&self.read(&entry["headers_file"]));
            return Case { headers, body: bytes };
        }
        if name.ends_with(".http") {
            let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
            return Case { headers: lines(&bytes[..end]), body: bytes[end + 4..].to_vec() };
        }
        let soap = ("Content-Type".to_owned(), "application/soap+xml; charset=UTF-8".to_owned());
        Case { headers: vec![soap], body: bytes }
    }

    /// What its receiver is made of; none when nobody has its key.
    pub(crate) fn material(&self, entry: &Value) -> Option<Material> {
        entry["receiver_key"].as_str()?;
        let trust = entry["trust"].as_array().unwrap();
        Some(Material {
            key: self.read(&entry["receiver_key"]),
            certificate: self.read(&entry["receiver_cert"]),
            root: self.read(trust.first().unwrap()),
            ca: self.read(trust.last().unwrap()),
            crls: entry["crls"].as_array().unwrap().iter().map(|name| self.read(name)).collect(),
        })
    }

    fn read(&self, name: &Value) -> Vec<u8> {
        fs::read(self.folder.join(name.as_str().unwrap())).unwrap()
    }
}

fn lines(text: &[u8]) -> Vec<(String, String)> {
    let text = std::str::from_utf8(text).unwrap();
    let pairs = text.lines().filter_map(|line| line.split_once(": "));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

async fn send(running: &Running, case: &Case) -> Reply {
    ask(running.as4_addr(), post_body("/as4", &case.sent_headers(), &case.body)).await
}

/// `receipt`, the `@errorCode`, `SOAP:Fault` or `HTTP:n`.
fn outcome(reply: &Reply) -> String {
    let text = reply.text();
    if let Some((_, rest)) = text.split_once("errorCode=\"") {
        return rest.split('"').next().unwrap().to_owned();
    }
    if text.contains(":Receipt>") || text.contains(":Receipt ") {
        return "receipt".to_owned();
    }
    if text.contains(":Fault>") { "SOAP:Fault".to_owned() } else { format!("HTTP:{}", reply.status) }
}

/// What the connector hands out: (MessageId, SHA-256 of the payload); documents are what their items say.
async fn delivered(running: &Running) -> Vec<(String, String)> {
    let json = [("Content-Type", "application/json")];
    let claim = post_body("/v1/inbound/claim", &json, b"{\"max\":100}");
    let items = ask(running.connector_addr(), claim).await.json()["items"].as_array().unwrap().clone();
    let mut found = vec![];
    for item in items {
        let fetch = async |what: &str, digest: &str| {
            let path = format!("/v1/inbound/{}/{what}", item["id"].as_str().unwrap());
            let entity = get(running.connector_addr(), &path, &[]).await;
            let found = Digest::of(&entity.body).to_string();
            assert_eq!((entity.status, item[digest].as_str()), (200, Some(found.as_str())), "{what}");
            found
        };
        fetch("document", "sha256").await;
        let payload = fetch("sbd", "sbd_sha256").await;
        found.push((item["message_id"].as_str().unwrap().to_owned(), payload));
    }
    found
}

fn verdict(entry: &Value, reply: &Reply, earlier: &HashMap<String, Reply>) -> Result<(), String> {
    let got = outcome(reply);
    let matches = |expect: &str| match expect.split_once("replay-of:") {
        Some((_, first)) => earlier.get(first).is_some_and(|first| {
            (first.status, &first.body, first.header("content-type"))
                == (reply.status, &reply.body, reply.header("content-type"))
        }),
        None if expect == "accept" => reply.status == 200 && got == "receipt",
        None => entry["ebms_code"].as_array().is_none_or(|codes| {
            codes
                .iter()
                .filter_map(Value::as_str)
                .any(|code| code == got || code == "HTTP:400" && got.starts_with("HTTP:4"))
        }),
    };
    let alternatives = entry["alternatives"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut allowed = entry["expect"].as_str().into_iter().chain(alternatives);
    if allowed.any(matches) {
        return Ok(());
    }
    Err(format!("{}: expected {} {}, got {got}", entry["id"], entry["expect"], entry["ebms_code"]))
}

async fn judge(vectors: &Vectors, entry: &Value) -> Result<(), String> {
    let Some(material) = vectors.material(entry) else { return Ok(()) };
    let mut config = config(material.site());
    config.clock = at(entry["clock"].as_str().unwrap());
    let running = start(config).await.unwrap();
    let mut earlier = HashMap::new();
    for id in entry["after"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let reply = send(&running, &vectors.case(&vectors.entries[id])).await;
        earlier.insert(id.to_owned(), reply);
    }
    // What is claimed here stays leased, so that later only what is new is seen.
    delivered(&running).await;
    let reply = send(&running, &vectors.case(entry)).await;
    verdict(entry, &reply, &earlier)?;
    let new = delivered(&running).await;
    let is_first = !earlier.values().any(|first| first.body == reply.body);
    let expected: Vec<_> = match (outcome(&reply).as_str(), entry["delivered_sha256"].as_str()) {
        ("receipt", Some(digest)) if is_first => {
            vec![(entry["message_id"].as_str().unwrap().to_owned(), digest.to_owned())]
        }
        _ => vec![],
    };
    if new == expected {
        Ok(())
    } else {
        Err(format!("{}: delivered {new:?}, expected {expected:?}", entry["id"]))
    }
}

#[tokio::test]
async fn every_shared_user_message_gets_the_outcome_it_is_owed() {
    let Some(vectors) = Vectors::load() else { return };
    let mut failures = vec![];
    for entry in vectors.entries.values() {
        if let Err(failure) = judge(&vectors, entry).await {
            failures.push(failure);
        }
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
}
