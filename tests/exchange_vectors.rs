//! Every user message of the shared vectors through read, admit, decide, open and accept: outcome, code,
//! MessageId, delivered digest, replayed bytes.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test stops where its material cannot be read, and says what it saw"
)]

#[path = "exchange/receiver.rs"]
mod receiver;
#[path = "exchange/vectors.rs"]
mod vectors;

use std::{collections::BTreeMap, path::Path};

use oncepoint::{
    exchange::{Notice, Refusal, RefusalAnswer, duplicate::Decision},
    model::{Answer, AnswerKind, Digest},
    wire::{
        c14n,
        ebms::{self, Reading},
        soap::Envelope,
        xml::{Document, XmlLimits},
    },
};
use receiver::{Outcome, Receiver};
use serde_json::Value;
use vectors::{clock, message, shared, site, text, texts, user_messages};

/// The stages of the list, in the order of processing.
const STAGES: [&str; 15] = [
    "mime",
    "xml",
    "soap",
    "ebms",
    "pmode",
    "policy",
    "signature",
    "coverage",
    "trust",
    "party",
    "duplicate",
    "decrypt",
    "attachment",
    "decompress",
    "sbdh",
];

/// Ends a check with what was found instead.
macro_rules! demand {
    ($holds:expr, $otherwise:expr $(,)?) => {
        if $holds { Ok::<(), String>(()) } else { Err(String::from($otherwise)) }
    };
}

/// What was answered, in the words of the list.
fn code(refusal: &Refusal) -> String {
    match &refusal.answer {
        RefusalAnswer::Ebms(error) => error.code.to_string(),
        RefusalAnswer::Fault(_) => "SOAP:Fault".to_owned(),
        RefusalAnswer::Http { status: 400..=499, .. } => "HTTP:400".to_owned(),
        RefusalAnswer::Http { status, .. } => format!("HTTP:{status}"),
        RefusalAnswer::Unavailable { .. } => "HTTP:503".to_owned(),
    }
}

/// Sends one case, after those that the list says come before, to a fresh receiver.
fn run(shared: &Path, all: &BTreeMap<String, Value>, entry: &Value, piece: usize) -> Result<(), String> {
    let mut receiver = Receiver::new(site(shared, entry), piece);
    let mut first = BTreeMap::new();
    for id in texts(entry, "after") {
        let before = all.get(id).ok_or_else(|| format!("no entry {id}"))?;
        let (content_type, body) = message(shared, before);
        if let Outcome::Accepted { answer, .. } =
            receiver.receive(content_type.as_deref(), &body, clock(before))
        {
            first.insert(id.to_owned(), answer);
        }
    }
    let known = receiver.records.len();
    let (content_type, body) = message(shared, entry);
    let outcome = receiver.receive(content_type.as_deref(), &body, clock(entry));
    let mut expected = vec![text(entry, "expect")];
    expected.extend(texts(entry, "alternatives"));
    match outcome {
        Outcome::Accepted { answer, delivered, message_id } => {
            demand!(expected.contains(&"accept"), "accepted")?;
            let digest = entry["delivered_sha256"].as_str().map(|hex| Digest::from_hex(hex).unwrap());
            demand!(delivered == digest, format!("delivered {delivered:?}"))?;
            demand!(message_id.as_str() == text(entry, "message_id"), format!("id {message_id}"))?;
            is_receipt(&answer, message_id.as_str())?;
            repeats(&mut receiver, shared, entry, &answer)
        }
        Outcome::Replayed { answer, .. } => {
            let of = expected.iter().find_map(|outcome| outcome.strip_prefix("replay-of:"));
            let of = of.ok_or("replayed")?;
            demand!(first.get(of) == Some(&answer), "other bytes than the first got")?;
            demand!(receiver.records.len() == known, "a repeat left a record")
        }
        Outcome::Refused { refusal, outgoing } => {
            let cause = format!("{}: {} ({})", refusal.stage.as_str(), refusal.cause, code(&refusal));
            demand!(expected.contains(&"reject"), format!("refused: {cause}"))?;
            let codes = texts(entry, "ebms_code");
            demand!(codes.is_empty() || codes.contains(&code(&refusal).as_str()), &cause)?;
            demand!(receiver.records.len() == known, "a refusal left a record")?;
            is_error(&refusal, &outgoing.answer)?;
            not_too_early(&refusal, entry).map_err(|early| format!("{early}: {cause}"))
        }
    }
}

/// Everything before the stage of the list must succeed. What one PartyId may look like is a rule of ebMS and
/// of the P-Mode both, so these two stages count as one.
fn not_too_early(refusal: &Refusal, entry: &Value) -> Result<(), String> {
    let place = |stage: &str| {
        let stage = if stage == "pmode" { "ebms" } else { stage };
        STAGES.iter().position(|known| *known == stage)
    };
    let (found, listed) = (place(refusal.stage.as_str()), place(text(entry, "stage")));
    demand!(found >= listed, format!("failed before {}", text(entry, "stage")))
}

/// The same message again gets the same bytes.
fn repeats(receiver: &mut Receiver, shared: &Path, entry: &Value, answer: &Answer) -> Result<(), String> {
    let (content_type, body) = message(shared, entry);
    let known = receiver.records.len();
    match receiver.receive(content_type.as_deref(), &body, clock(entry)) {
        Outcome::Replayed { answer: again, .. } if again == *answer && receiver.records.len() == known => {
            Ok(())
        }
        other => Err(format!("its repeat: {other:?}")),
    }
}

fn canonical(answer: &Answer) -> Result<Envelope, String> {
    let document = Document::parse(&answer.body, &XmlLimits::SOAP).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    c14n::exclusive(&document, document.document(), &[], &mut bytes);
    demand!(bytes == answer.body, "the answer is not canonical")?;
    Envelope::read(document).map_err(|error| error.to_string())
}

/// HTTP 200 with a signed, canonical Receipt for the message.
fn is_receipt(answer: &Answer, message_id: &str) -> Result<(), String> {
    demand!(answer.kind == AnswerKind::Receipt && answer.status == 200, "not a receipt")?;
    demand!(
        answer.content_type.as_deref() == Some("application/soap+xml; charset=UTF-8"),
        "another Content-Type",
    )?;
    let envelope = canonical(answer)?;
    demand!(envelope.security().is_some(), "an unsigned receipt")?;
    match ebms::read(envelope).map_err(|error| error.to_string())? {
        Reading::Signal(_, signal) => {
            let to = signal.ref_to_message_id.map(|id| id.to_string());
            demand!(to.as_deref() == Some(message_id) && signal.errors.is_empty(), "about another message")
        }
        Reading::User(_) => Err("a user message".to_owned()),
    }
}

/// A signed `eb:Error` goes out with HTTP 200; nothing else looks like one.
fn is_error(refusal: &Refusal, answer: &Answer) -> Result<(), String> {
    demand!(answer.kind == AnswerKind::Refusal, "not a refusal")?;
    let RefusalAnswer::Ebms(error) = &refusal.answer else {
        return demand!(answer.status >= 400, format!("HTTP {}", answer.status));
    };
    demand!(answer.status == 200, format!("HTTP {}", answer.status))?;
    let envelope = canonical(answer)?;
    demand!(envelope.security().is_some(), "an unsigned error")?;
    match ebms::read(envelope).map_err(|error| error.to_string())? {
        Reading::Signal(_, signal) => {
            let codes: Vec<_> = signal.errors.iter().map(|error| error.code).collect();
            demand!(codes == [error.code] && signal.ref_to_message_id == refusal.ref_to, "another error")
        }
        Reading::User(_) => Err("a user message".to_owned()),
    }
}

fn check_all(piece: usize) {
    let Some(shared) = shared() else { return };
    let entries = user_messages(&shared);
    let all: BTreeMap<String, Value> =
        entries.iter().map(|entry| (text(entry, "id").to_owned(), entry.clone())).collect();
    let mut wrong = Vec::new();
    for entry in &entries {
        if let Err(what) = run(&shared, &all, entry, piece) {
            wrong.push(format!("{}: expected {}: {what}", text(entry, "id"), text(entry, "expect")));
        }
    }
    println!("{} user messages, {} wrong", entries.len(), wrong.len());
    assert!(entries.len() > 200, "only {} vectors", entries.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What a repeat is flagged with is what was done to it.
#[test]
fn repeats_are_flagged() {
    let Some(shared) = shared() else { return };
    let entries = user_messages(&shared);
    let entry = |id: &str| entries.iter().find(|entry| text(entry, "id") == id).unwrap();
    for (id, flags) in [
        ("composed/retry-reencrypted", vec![]),
        ("composed/retry-undecryptable", vec![]),
        ("composed/retry-rebuilt", vec![Notice::RepeatResigned]),
        ("composed/retry-renewed-certificate", vec![]),
        ("as4-pypi/retry-new-body-id", vec![Notice::RepeatResigned]),
        ("as4-pypi/retry-gzipped-anew", vec![Notice::RepeatResigned, Notice::RepeatRewrapped]),
        ("as4-pypi/retry-wrapped-anew", vec![Notice::RepeatResigned, Notice::RepeatRewrapped]),
    ] {
        let mut receiver = Receiver::new(site(&shared, entry(id)), 4096);
        for id in texts(entry(id), "after").into_iter().chain([id]) {
            let (content_type, body) = message(&shared, entry(id));
            let outcome = receiver.receive(content_type.as_deref(), &body, clock(entry(id)));
            if let Outcome::Replayed { decision: Decision::Replay { notices, .. }, .. } = outcome {
                assert_eq!(notices, flags, "{id}");
            }
        }
    }
}

#[test]
fn every_user_message_ends_as_listed() {
    check_all(64 * 1024);
}

#[test]
fn the_size_of_the_pieces_changes_nothing() {
    check_all(997);
}
