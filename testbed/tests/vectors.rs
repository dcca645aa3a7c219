//! Every user message of `../shared/vectors` through the HTTP endpoint of the real binary: outcome, code, what
//! the backend gets, and that nothing refused is visible to it.
//!
//! Entries that share receiver, trust and revocation lists share a server. A message to be refused goes before
//! those to be accepted, as the index asks of a running server; messages that share a MessageId go to servers of
//! their own, so that each acceptance is judged on an empty store.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of a test may fail as the test does"
)]

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use testbed::{
    client::{Answer, Body},
    peers,
    product::{Identity, Site},
    receipt::{Kind, kind},
    scene::scratch,
};

#[derive(Clone)]
struct Entry(Value);

impl Entry {
    fn text(&self, name: &str) -> &str {
        self.0[name].as_str().unwrap_or_default()
    }

    fn list(&self, name: &str) -> Vec<String> {
        let items = self.0[name].as_array().cloned().unwrap_or_default();
        items.iter().map(|item| item.as_str().unwrap().to_owned()).collect()
    }

    fn id(&self) -> &str {
        self.text("id")
    }

    fn is_refused_first(&self) -> bool {
        self.text("expect") == "reject" && self.list("after").is_empty()
    }

    fn headers_and_body(&self, folder: &Path) -> (Vec<(String, String)>, Vec<u8>) {
        let file = folder.join(self.text("file"));
        let bytes = fs::read(&file).unwrap();
        if let Some(headers) = self.0["headers_file"].as_str() {
            return (headers_of(&fs::read_to_string(folder.join(headers)).unwrap()), bytes);
        }
        if file.extension().is_some_and(|extension| extension == "xml") {
            return (vec![("Content-Type".into(), "application/soap+xml; charset=UTF-8".into())], bytes);
        }
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        (headers_of(&String::from_utf8_lossy(&bytes[..end])), bytes[end + 4..].to_vec())
    }

    /// Whether the answer is one that the index allows; the answers so far are those of the same server.
    fn allows(&self, answer: &Answer, so_far: &HashMap<String, Answer>) -> bool {
        let outcomes = std::iter::once(self.text("expect").to_owned()).chain(self.list("alternatives"));
        let text = String::from_utf8_lossy(&answer.body);
        for outcome in outcomes {
            let right = match (kind(answer), outcome.strip_prefix("replay-of:")) {
                (Kind::Receipt, Some(first)) => so_far[first].is_same(answer),
                (Kind::Receipt, None) => {
                    outcome == "accept"
                        && text.contains(&format!("RefToMessageId>{}<", self.text("message_id")))
                }
                (_, Some(_)) => false,
                (refusal, None) => outcome == "reject" && self.lists(&refusal),
            };
            if right {
                return true;
            }
        }
        false
    }

    fn lists(&self, refusal: &Kind) -> bool {
        let listed = self.list("ebms_code");
        let has = |code: &str| listed.iter().any(|one| one == code);
        match refusal {
            _ if listed.is_empty() => true,
            Kind::Errors(codes) => codes.iter().any(|code| has(code)),
            Kind::Fault => has("SOAP:Fault"),
            Kind::Http(status) => (400..500).contains(status) && has("HTTP:400"),
            Kind::Receipt => false,
        }
    }
}

/// Headers of a capture, unfolded, without those of its connection.
fn headers_of(text: &str) -> Vec<(String, String)> {
    const HOP: [&str; 6] =
        ["host", "content-length", "connection", "transfer-encoding", "expect", "accept-encoding"];
    let mut headers: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        if let (true, Some(last)) = (line.starts_with([' ', '\t']), headers.last_mut()) {
            last.1 = format!("{} {}", last.1, line.trim());
        } else if let Some((name, value)) = line.split_once(':').filter(|(name, _)| !name.contains(' ')) {
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
    }
    headers.retain(|(name, _)| !HOP.contains(&name.to_ascii_lowercase().as_str()));
    headers
}

/// Splits the entries of one receiver into servers: what is named by `after` stays with what names it, and an
/// acceptance after a refusal has a server of its own.
fn rounds(entries: &[Entry]) -> Vec<Vec<Entry>> {
    let mut home: HashMap<&str, usize> = HashMap::new();
    let mut ids: Vec<BTreeSet<&str>> = Vec::new();
    let mut rounds: Vec<Vec<Entry>> = Vec::new();
    let mut own: Vec<Vec<Entry>> = Vec::new();
    for entry in entries {
        let after = entry.list("after");
        let before = entries.iter().find(|other| after.iter().any(|id| id == other.id()));
        if let Some(refused) = before.filter(|other| other.is_refused_first()) {
            own.push(vec![refused.clone(), entry.clone()]);
            continue;
        }
        let round = match after.first() {
            Some(first) => home[first.as_str()],
            None if entry.is_refused_first() => 0,
            None => ids.iter().position(|used| !used.contains(entry.text("message_id"))).unwrap_or(ids.len()),
        };
        if round >= rounds.len() {
            rounds.resize_with(round + 1, Vec::new);
            ids.resize_with(round + 1, BTreeSet::new);
        }
        if after.is_empty() && !entry.is_refused_first() {
            ids[round].insert(entry.text("message_id"));
        }
        home.insert(entry.id(), round);
        rounds[round].push(entry.clone());
    }
    for round in &mut rounds {
        round.sort_by_key(|entry| !entry.is_refused_first());
    }
    rounds.extend(own);
    rounds
}

fn judge(site: &Site, entries: &[Entry], folder: &Path) -> Vec<String> {
    let product = site.start().unwrap();
    let connector = site.connector();
    let mut wrong = Vec::new();
    let mut answers = HashMap::new();
    let mut expected = Vec::new();
    let mut clean = false;
    for entry in entries {
        if !clean && !entry.is_refused_first() {
            let seen = connector.list("available").unwrap();
            if !seen.is_empty() {
                wrong.push(format!("visible to the backend though all was refused: {seen:?}"));
            }
            clean = true;
        }
        let (headers, body) = entry.headers_and_body(folder);
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let answer = site.as4().connect().unwrap().request("POST", "/as4", &headers, Body::Bytes(&body));
        let answer = match answer {
            Ok(answer) => answer,
            Err(fault) => {
                wrong.push(format!("{}: {fault}", entry.id()));
                continue;
            }
        };
        if !entry.allows(&answer, &answers) {
            let text = String::from_utf8_lossy(&answer.body);
            let detail =
                text.split("ErrorDetail>").nth(1).unwrap_or_default().split('<').next().unwrap_or_default();
            wrong.push(format!(
                "{}: expected {} {:?}, got {:?} {detail} ({})",
                entry.id(),
                entry.text("expect"),
                entry.list("ebms_code"),
                kind(&answer),
                entry.text("why"),
            ));
        }
        if entry.text("expect") == "accept" && kind(&answer) == Kind::Receipt {
            expected.extend(entry.0["delivered_sha256"].as_str().map(str::to_owned));
        }
        answers.insert(entry.id().to_owned(), answer);
    }
    let mut delivered: Vec<String> = Vec::new();
    for item in connector.drain().unwrap() {
        let (sbd, _) = connector.digest(&item.id, "sbd").unwrap();
        assert_eq!(sbd, item.sbd_sha256, "what is listed is what is handed out");
        delivered.push(sbd);
    }
    for missing in difference(&expected, &delivered) {
        wrong.push(format!("not delivered: {missing}"));
    }
    for extra in difference(&delivered, &expected) {
        wrong.push(format!("delivered though not expected, or twice: {extra}"));
    }
    drop(product);
    wrong
}

/// What is in the one list more often than in the other.
fn difference(left: &[String], right: &[String]) -> Vec<String> {
    let mut rest = right.to_vec();
    let mut more = left.to_vec();
    more.retain(|one| match rest.iter().position(|other| other == one) {
        Some(at) => {
            rest.swap_remove(at);
            false
        }
        None => true,
    });
    more
}

#[test]
fn every_user_message_has_the_outcome_that_the_index_lists() {
    let Some(shared) = peers::shared().unwrap() else {
        println!("skipped: ../shared is not there");
        return;
    };
    let folder = shared.join("vectors");
    let index: Value = serde_json::from_slice(&fs::read(folder.join("index.json")).unwrap()).unwrap();
    let mut groups: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
    for entry in index["entries"].as_array().unwrap().iter().cloned().map(Entry) {
        // One receiver's key is nobody's here: `tests/` of the product judges that entry at its own time.
        if entry.text("kind") == "user-message" && entry.0["receiver_key"].is_string() {
            let key =
                ["receiver_key", "receiver_cert", "trust", "crls"].map(|name| entry.0[name].to_string());
            groups.entry(key.join(" ")).or_default().push(entry);
        }
    }
    let mut wrong = Vec::new();
    let mut count = 0;
    for entries in groups.values() {
        count += entries.len();
        let path = |name: &String| -> PathBuf { folder.join(name).canonicalize().unwrap() };
        let trust: Vec<PathBuf> = entries[0].list("trust").iter().map(path).collect();
        let identity = Identity {
            certificate: path(&entries[0].text("receiver_cert").to_owned()),
            key: path(&entries[0].text("receiver_key").to_owned()),
            roots: trust[..1].to_vec(),
            access_point_cas: trust[trust.len() - 1..].to_vec(),
            crls: entries[0].list("crls").iter().map(path).collect(),
        };
        for round in rounds(entries) {
            let scratch = scratch("vectors").unwrap();
            let site = Site::with_identity(scratch.path(), &identity, None, &[]).unwrap();
            wrong.extend(judge(&site, &round, &folder));
        }
    }
    println!("{count} user messages judged");
    assert!(count > 200, "only {count} user messages in the index");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
