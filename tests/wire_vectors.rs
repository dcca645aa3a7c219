//! Every user message and signal of the shared vectors, read by the wire layer: what fails later must read
//! here, what fails here must be refused here.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test stops where its material cannot be read, and says what it saw"
)]

use std::{fs, path::PathBuf};

use oncepoint::{
    model::{ContentId, Digest, SignalMessage},
    wire::{
        ebms::{self, Claimed, EbmsReadError, Reading},
        gzip::{GzipError, GzipLimits, Inflater},
        mime::{self, MimeError, MimeLimits, Package, PartEvent, PartReader},
        sbdh::{DocumentReader, Sbd, SbdError, SbdLimits, SbdReader},
        soap::{Envelope, SoapError},
        xml::{Document, XmlError, XmlLimits},
    },
};
use serde_json::Value;

/// Which layer refused, why, and what a peer would be told.
#[derive(Debug)]
struct Refused {
    layer: &'static str,
    code: &'static str,
    why: String,
}

impl From<MimeError> for Refused {
    fn from(error: MimeError) -> Self {
        let code = match error {
            MimeError::NoContentType | MimeError::NotSoap(_) | MimeError::NoBoundary => "HTTP:400",
            _ => "EBMS:0007",
        };
        Self { layer: "mime", code, why: error.to_string() }
    }
}

impl From<XmlError> for Refused {
    fn from(error: XmlError) -> Self {
        Self { layer: "xml", code: "EBMS:0009", why: error.to_string() }
    }
}

impl From<SoapError> for Refused {
    fn from(error: SoapError) -> Self {
        let code = match error {
            SoapError::VersionMismatch | SoapError::MustUnderstand { .. } => "SOAP:Fault",
            SoapError::MultiHop(_) => "EBMS:0008",
            _ => "EBMS:0009",
        };
        Self { layer: "soap", code, why: error.to_string() }
    }
}

impl From<EbmsReadError> for Refused {
    fn from(error: EbmsReadError) -> Self {
        let code = match error {
            EbmsReadError::InvalidHeader { .. } => "EBMS:0009",
            EbmsReadError::ValueInconsistent { .. } | EbmsReadError::BodyContent => "EBMS:0003",
            EbmsReadError::ExternalPayload { .. } => "EBMS:0011",
            EbmsReadError::FeatureNotSupported { .. } => "EBMS:0008",
        };
        Self { layer: "ebms", code, why: error.to_string() }
    }
}

/// The folder of shared test material; none when it is not there and nobody demands it.
fn shared() -> Option<PathBuf> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared"));
    if folder.is_dir() {
        return Some(folder);
    }
    assert!(std::env::var_os("ONCEPOINT_REQUIRE_SHARED").is_none_or(|v| v != "1"), "no shared vectors");
    println!("skipped: no shared vectors at {}", folder.display());
    None
}

fn entries(shared: &std::path::Path) -> Vec<Value> {
    let index = fs::read(shared.join("vectors/index.json")).unwrap();
    let index: Value = serde_json::from_slice(&index).unwrap();
    index["entries"].as_array().unwrap().clone()
}

/// Content-Type and body of one case.
fn case(shared: &std::path::Path, entry: &Value) -> (Option<String>, Vec<u8>) {
    let folder = shared.join("vectors");
    let file = entry["file"].as_str().unwrap();
    let bytes = fs::read(folder.join(file)).unwrap();
    if file.ends_with(".http") {
        let end = bytes.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        return (header(&head, "content-type"), bytes[end + 4..].to_vec());
    }
    match entry["headers_file"].as_str() {
        Some(headers) => (header(&fs::read_to_string(folder.join(headers)).unwrap(), "content-type"), bytes),
        None => (Some("application/soap+xml; charset=UTF-8".to_owned()), bytes),
    }
}

/// A header's value, folded lines kept.
fn header(head: &str, name: &str) -> Option<String> {
    let unfolded = head.replace("\r\n", "\n").replace("\n ", " ").replace("\n\t", " ");
    unfolded.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
    })
}

/// The root part, its Content-Type, and the Content-IDs of the other parts.
fn unpack(
    content_type: Option<&str>,
    body: &[u8],
    piece: usize,
) -> Result<(Vec<u8>, String, Vec<ContentId>), MimeError> {
    let multipart = match mime::package(content_type)? {
        Package::Bare => return Ok((body.to_vec(), content_type.unwrap().to_owned(), Vec::new())),
        Package::Multipart(multipart) => multipart,
    };
    let mut reader = PartReader::new(&multipart.boundary, MimeLimits::default());
    let (mut index, mut in_root, mut root, mut attachments) = (0, false, None, Vec::new());
    let mut on = |event: PartEvent<'_>| -> Result<(), MimeError> {
        match event {
            PartEvent::Head(head) => {
                in_root = mime::is_root(&multipart, index, &head);
                if in_root {
                    head.check_root(&multipart)?;
                    root = Some((Vec::new(), head.content_type.clone().unwrap()));
                } else {
                    attachments.push(head.required_id()?.clone());
                }
                index += 1;
            }
            PartEvent::Data(data) => {
                if let Some((bytes, _)) = root.as_mut().filter(|_| in_root) {
                    bytes.extend_from_slice(data);
                }
            }
            PartEvent::End => {}
        }
        Ok(())
    };
    body.chunks(piece).try_for_each(|chunk| reader.feed(chunk, &mut on))?;
    reader.finish(&mut on)?;
    let (root, root_type) = root.ok_or(MimeError::StartUnresolved)?;
    Ok((root, root_type, attachments))
}

fn read(content_type: Option<&str>, body: &[u8]) -> Result<(Reading, Vec<ContentId>), Refused> {
    let whole = unpack(content_type, body, usize::MAX);
    let pieces = unpack(content_type, body, 61);
    assert_eq!(pieces, whole, "in pieces");
    let (root, root_type, attachments) = whole?;
    mime::check_charset(&root_type, &root)?;
    let document = Document::parse(&root, &XmlLimits::SOAP)?;
    let reading = ebms::read(Envelope::read(document)?)?;
    Ok((reading, attachments))
}

fn user_message(content_type: Option<&str>, body: &[u8]) -> Result<Claimed, Refused> {
    match read(content_type, body)? {
        (Reading::User(claimed), attachments) => {
            ebms::match_parts(&claimed.message.parts, &attachments)?;
            Ok(claimed)
        }
        (Reading::Signal(..), _) => panic!("a signal"),
    }
}

/// The layers of this test, in their order.
const LAYERS: &[&str] = &["mime", "xml", "soap", "ebms"];

/// Refused here though their stage is a later one: the fault is one of structure too.
const EARLY: &[&str] = &[
    "as4-pypi/dup-id",
    "peppol-py/dup-id",
    "composed/neg-duplicate-id-plain",
    "composed/neg-duplicate-lower-id",
    "composed/neg-duplicate-token-id",
    "composed/neg-second-security",
    "composed/neg-to-type-missing",
    "real-receipts/WrongCompression",
];

#[test]
fn user_messages_fail_here_or_read_here() {
    let Some(shared) = shared() else { return };
    let (mut read, mut wrong) = (0, Vec::new());
    for entry in entries(&shared).iter().filter(|entry| entry["kind"] == "user-message") {
        let id = entry["id"].as_str().unwrap();
        let stage = entry["stage"].as_str().unwrap_or("accepted");
        let (content_type, body) = case(&shared, entry);
        let result = user_message(content_type.as_deref(), &body);
        match &result {
            Ok(_) => read += 1,
            Err(refused) => println!("{id} ({stage}): {} refuses: {}", refused.layer, refused.why),
        }
        let here = LAYERS.contains(&stage);
        let codes: Vec<&str> =
            entry["ebms_code"].as_array().into_iter().flatten().flat_map(Value::as_str).collect();
        match result {
            Ok(claimed) if here => wrong.push(format!("{id}: read as {}", claimed.message.message_id)),
            Ok(claimed) => {
                if let Some(expected) = entry["message_id"].as_str() {
                    assert_eq!(claimed.message.message_id.as_str(), expected, "{id}");
                }
            }
            Err(refused) if codes.contains(&refused.code) && (here || EARLY.contains(&id)) => {}
            Err(refused) => wrong.push(format!("{id} ({stage}): {refused:?}")),
        }
    }
    println!("{read} user messages read");
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(read > 100);
}

fn signal(content_type: Option<&str>, body: &[u8]) -> Result<(Envelope, SignalMessage), Refused> {
    match read(content_type, body)? {
        (Reading::Signal(envelope, signal), _) => Ok((envelope, signal)),
        (Reading::User(_), _) => panic!("a user message"),
    }
}

#[test]
fn signals_of_every_peer_are_read() {
    let Some(shared) = shared() else { return };
    let (mut read, mut wrong) = (0, Vec::new());
    for entry in entries(&shared) {
        let kind = entry["kind"].as_str().unwrap();
        if !matches!(kind, "receipt" | "error") {
            continue;
        }
        let id = entry["id"].as_str().unwrap();
        let stage = entry["stage"].as_str().unwrap_or("accepted");
        let here = LAYERS.contains(&stage);
        let (content_type, body) = case(&shared, &entry);
        match signal(content_type.as_deref(), &body) {
            Ok(_) if here => wrong.push(format!("{id}: read")),
            Ok((envelope, signal)) => {
                read += 1;
                assert_eq!(signal.errors.is_empty(), kind == "receipt", "{id}");
                if kind == "receipt" && stage == "accepted" {
                    assert!(ebms::receipt_references(&envelope).len() >= 3, "{id}");
                }
                let codes = entry["reports"].as_array().into_iter().flatten();
                let codes: Vec<&str> = codes.filter_map(Value::as_str).collect();
                let found: Vec<&str> = signal.errors.iter().map(|error| error.code.code()).collect();
                assert_eq!(found, codes, "{id}");
            }
            Err(refused) => {
                println!("{id} ({stage}): {} refuses: {}", refused.layer, refused.why);
                if !here {
                    wrong.push(format!("{id} ({stage}): {} {}", refused.layer, refused.why));
                }
            }
        }
    }
    println!("{read} signals read");
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(read > 40);
}

fn sbd(envelope: &[u8], piece: usize) -> Result<Sbd, SbdError> {
    let mut reader = SbdReader::new(SbdLimits::default());
    envelope.chunks(piece).try_for_each(|chunk| reader.feed(chunk))?;
    reader.finish()
}

/// Reads an envelope and gets its document back.
fn check_sbd(id: &str, envelope: &[u8]) -> Result<Sbd, SbdError> {
    let whole = sbd(envelope, usize::MAX);
    assert_eq!(sbd(envelope, 97), whole, "{id}");
    let whole = whole?;
    let mut document = Vec::new();
    let mut reader = DocumentReader::new(&whole.payload);
    let mut sink = |bytes: &[u8]| -> Result<(), SbdError> {
        document.extend_from_slice(bytes);
        Ok(())
    };
    envelope.chunks(1000).try_for_each(|chunk| reader.feed(chunk, &mut sink))?;
    reader.finish(&mut sink)?;
    assert_eq!(Digest::of(&document), whole.document, "{id}");
    println!("{id}: {:?}, inserted {:?}", whole.payload.form, whole.payload.insert);
    Ok(whole)
}

/// Faults of shape; other faults of business envelopes are faults of value, for later.
const SHAPELESS: &[&str] = &["sbd/neg-two-senders", "sbd/neg-wrong-namespace", "sbd/neg-two-documents"];

#[test]
fn business_envelopes_read_unless_their_shape_is_wrong() {
    let Some(shared) = shared() else { return };
    let mut count = 0;
    for entry in entries(&shared).iter().filter(|entry| entry["kind"] == "sbd") {
        let id = entry["id"].as_str().unwrap();
        let (_, envelope) = case(&shared, entry);
        let result = check_sbd(id, &envelope);
        if let Err(error) = &result {
            println!("{id}: refused: {error}");
        }
        assert_eq!(result.is_err(), SHAPELESS.contains(&id), "{id}");
        count += 1;
    }
    assert!(count >= 11);
    for extra in ["vectors/composed/payload.sbd.xml", "vectors/asx-rs/payload.sbd.xml"] {
        check_sbd(extra, &fs::read(shared.join(extra)).unwrap()).unwrap();
    }
}

#[test]
fn a_compressed_envelope_inflates_to_the_plain_one() {
    let Some(shared) = shared() else { return };
    let composed = shared.join("vectors/composed");
    let (mut inflater, mut plain) = (Inflater::new(GzipLimits::new(1 << 20)), Vec::new());
    let stream = fs::read(composed.join("payload.sbd.xml.gz")).unwrap();
    let mut sink = |bytes: &[u8]| -> Result<(), GzipError> {
        plain.extend_from_slice(bytes);
        Ok(())
    };
    stream.chunks(10).try_for_each(|chunk| inflater.feed(chunk, &mut sink)).unwrap();
    inflater.finish().unwrap();
    assert!(plain == fs::read(composed.join("payload.sbd.xml")).unwrap());
}
