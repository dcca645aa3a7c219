//! Every user message and signal of the shared vectors, judged by the security layer: each fails at its stage
//! with an acceptable code, and what is to be accepted verifies, decrypts and has the signed digests.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test stops where its material cannot be read, and says what it saw"
)]

use std::{
    fs,
    path::{Path, PathBuf},
};

use oncepoint::{
    model::{ContentId, Timestamp},
    security::{
        DecryptionFailed, SecurityError, SecurityStage,
        attachment::PartDigester,
        encryption::{self, ContentKey, GcmOpener},
        key::OwnKey,
        revocation::{Revocation, RevocationMode},
        signature::{self, AttachmentClaim, Protection, SecurityPolicy, Verified},
        trust::{Trust, TrustAnchors},
    },
    wire::{
        ebms::{self, Claimed, Reading},
        mime::{self, MimeError, MimeLimits, Package, PartEvent, PartHead, PartReader},
        scan::ScanLimits,
        soap::Envelope,
        xml::{Document, XmlLimits},
    },
};
use serde_json::Value;

/// The folder of shared test material; none when it is not there and nobody demands it.
fn vectors() -> Option<PathBuf> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/vectors"));
    if folder.is_dir() {
        return Some(folder);
    }
    assert!(std::env::var_os("ONCEPOINT_REQUIRE_SHARED").is_none_or(|v| v != "1"), "no shared vectors");
    println!("skipped: no shared vectors at {}", folder.display());
    None
}

fn entries(vectors: &Path, kinds: &[&str]) -> Vec<Value> {
    let index: Value = serde_json::from_slice(&fs::read(vectors.join("index.json")).unwrap()).unwrap();
    let all = index["entries"].as_array().unwrap().iter();
    all.filter(|entry| kinds.contains(&entry["kind"].as_str().unwrap())).cloned().collect()
}

/// One entry with its folder.
struct Case<'a> {
    folder: &'a Path,
    entry: &'a Value,
}

impl Case<'_> {
    fn id(&self) -> &str {
        self.entry["id"].as_str().unwrap()
    }

    fn stage(&self) -> &str {
        self.entry["stage"].as_str().unwrap_or("accepted")
    }

    fn codes(&self) -> Vec<&str> {
        self.entry["ebms_code"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    }

    fn files(&self, field: &str) -> Vec<Vec<u8>> {
        let names = self.entry[field].as_array().into_iter().flatten().filter_map(Value::as_str);
        names.map(|name| fs::read(self.folder.join(name)).unwrap()).collect()
    }

    fn file(&self, field: &str) -> Option<Vec<u8>> {
        self.entry[field].as_str().map(|name| fs::read(self.folder.join(name)).unwrap())
    }

    fn clock(&self) -> Timestamp {
        Timestamp::parse(self.entry["clock"].as_str().unwrap()).unwrap()
    }

    /// A signer must be issued by the last CA of the list; without lists revocation is off.
    fn trust(&self) -> Option<Trust> {
        let cas = self.files("trust");
        let (last, above) = cas.split_last()?;
        let roots = if above.is_empty() { &cas } else { above };
        let roots = roots.iter().map(Vec::as_slice);
        let anchors = TrustAnchors::from_pem(roots, [last.as_slice()]).unwrap();
        let lists = self.files("crls");
        let mode = if lists.is_empty() { RevocationMode::Off } else { RevocationMode::Hard };
        let mut revocation = Revocation::new(mode);
        lists.iter().for_each(|list| revocation.add_lists(list).unwrap());
        Some(Trust::new(anchors, &revocation))
    }

    fn own_key(&self) -> Option<OwnKey> {
        OwnKey::from_pem(&self.file("receiver_cert")?, &self.file("receiver_key")?).ok()
    }

    /// Content-Type and body.
    fn message(&self) -> (Option<String>, Vec<u8>) {
        let bytes = self.file("file").unwrap();
        if self.entry["file"].as_str().unwrap().ends_with(".http") {
            let end = bytes.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
            let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
            return (content_type(&head), bytes[end + 4..].to_vec());
        }
        match self.file("headers_file") {
            Some(head) => (content_type(&String::from_utf8(head).unwrap()), bytes),
            None => (Some("application/soap+xml; charset=UTF-8".to_owned()), bytes),
        }
    }
}

fn content_type(head: &str) -> Option<String> {
    let unfolded = head.replace("\r\n", "\n").replace("\n ", " ").replace("\n\t", " ");
    unfolded.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-type").then(|| value.trim().to_owned())
    })
}

/// The root part and the others.
type Parts = (Vec<u8>, Vec<(ContentId, Vec<u8>)>);

fn unpack(content_type: Option<&str>, body: &[u8]) -> Result<Parts, MimeError> {
    let multipart = match mime::package(content_type)? {
        Package::Bare => return Ok((body.to_vec(), Vec::new())),
        Package::Multipart(multipart) => multipart,
    };
    let mut parts: Vec<(PartHead, Vec<u8>)> = Vec::new();
    let mut on = |event: PartEvent<'_>| -> Result<(), MimeError> {
        match event {
            PartEvent::Head(head) => parts.push((head.clone(), Vec::new())),
            PartEvent::Data(data) => parts.last_mut().unwrap().1.extend_from_slice(data),
            PartEvent::End => {}
        }
        Ok(())
    };
    let mut reader = PartReader::new(&multipart.boundary, MimeLimits::default());
    reader.feed(body, &mut on)?;
    reader.finish(&mut on)?;
    let root = (0..parts.len()).find(|&index| mime::is_root(&multipart, index, &parts[index].0));
    let (_, root) = parts.remove(root.ok_or(MimeError::StartUnresolved)?);
    let named = |(head, bytes): (PartHead, Vec<u8>)| Ok((head.required_id()?.clone(), bytes));
    Ok((root, parts.into_iter().map(named).collect::<Result<_, MimeError>>()?))
}

fn read(root: &[u8]) -> Option<Reading> {
    ebms::read(Envelope::read(Document::parse(root, &XmlLimits::SOAP).ok()?).ok()?).ok()
}

/// What stopped a message here: the stage and the code it is answered with.
#[derive(Debug)]
struct Stopped {
    stage: &'static str,
    code: &'static str,
    why: String,
}

impl From<SecurityError> for Stopped {
    fn from(error: SecurityError) -> Self {
        let stage = match error.stage() {
            Some(SecurityStage::Policy) => "policy",
            Some(SecurityStage::Signature) => "signature",
            Some(SecurityStage::Coverage) => "coverage",
            Some(SecurityStage::Trust) => "trust",
            Some(SecurityStage::Decrypt) => "decrypt",
            Some(SecurityStage::Attachment) => "attachment",
            None => "ours",
        };
        let code = error.code().map_or("HTTP:503", oncepoint::model::EbmsCode::code);
        Self { stage, code, why: error.to_string() }
    }
}

fn verify(claimed: Claimed, case: &Case<'_>) -> Result<Verified, Stopped> {
    let trust = case.trust().unwrap();
    let verified = signature::verify(claimed, &SecurityPolicy::PEPPOL, &trust, case.clock())?;
    if *verified.signer().subject() == verified.message().from.id {
        Ok(verified)
    } else {
        Err(Stopped { stage: "party", code: "EBMS:0101", why: "CN is not From".to_owned() })
    }
}

/// Decrypts one part in small pieces and compares its digest.
fn open(claim: &AttachmentClaim, key: &ContentKey, bytes: &[u8]) -> Result<Vec<u8>, SecurityError> {
    let Protection::Encrypted { media_type } = &claim.protection else { panic!("a clear part") };
    let mut plain = Vec::new();
    let mut opener = GcmOpener::new(key);
    for piece in bytes.chunks(977) {
        opener.feed(piece, &mut |piece| -> Result<(), DecryptionFailed> {
            plain.extend_from_slice(piece);
            Ok(())
        })?;
    }
    opener.finish()?;
    let mut digester = PartDigester::new(media_type, ScanLimits::CANONICAL);
    for piece in plain.chunks(61) {
        digester.feed(piece)?;
    }
    claim.check(digester.finish()?)?;
    Ok(plain)
}

fn decrypt(verified: &Verified, own: &OwnKey, parts: &[(ContentId, Vec<u8>)]) -> Result<(), SecurityError> {
    let Some(wrapped) = verified.wrapped_key() else { return Ok(()) };
    let key = encryption::unwrap(wrapped, own)?;
    for claim in verified.attachments() {
        let (_, bytes) = parts.iter().find(|(id, _)| mime::same_content_id(id, &claim.cid)).unwrap();
        open(claim, &key, bytes)?;
    }
    Ok(())
}

/// The stages of this layer, in their order; `party` is between them, done by the test itself.
const HERE: &[&str] = &["policy", "signature", "coverage", "trust", "party", "decrypt", "attachment"];

/// The stages whose faults this layer comes after: such a message fails there or here, or has other faults.
const BEFORE: &[&str] = &["mime", "xml", "soap", "ebms", "pmode"];

/// The fault is one of structure, and the wire layer refuses it.
const REFUSED_BY_WIRE: &[&str] = &[
    "as4-pypi/dup-id",
    "peppol-py/dup-id",
    "composed/neg-duplicate-id-plain",
    "composed/neg-duplicate-lower-id",
    "composed/neg-duplicate-token-id",
    "composed/neg-second-security",
];

fn judge(case: &Case<'_>, claimed: Claimed, parts: &[(ContentId, Vec<u8>)]) -> Result<(), Stopped> {
    let verified = verify(claimed, case)?;
    let references = verified.references_c14n();
    assert_eq!(references.len(), verified.attachments().len() + 2, "{}", case.id());
    // Nobody here has the key of the message from the production network.
    let Some(own) = case.own_key().or_else(|| any_key(case.folder)) else { return Ok(()) };
    Ok(decrypt(&verified, &own, parts)?)
}

fn any_key(folder: &Path) -> Option<OwnKey> {
    let read = |name: &str| fs::read(folder.join("pki/loopback").join(name)).ok();
    OwnKey::from_pem(&read("PGB000002.pem")?, &read("PGB000002.key")?).ok()
}

#[test]
fn user_messages_fail_at_their_stage_or_pass() {
    let Some(folder) = vectors() else { return };
    let (mut passed, mut stopped, mut wrong) = (0, 0, Vec::new());
    for entry in entries(&folder, &["user-message"]) {
        let case = Case { folder: &folder, entry: &entry };
        let (id, stage) = (case.id(), case.stage());
        let (content_type, body) = case.message();
        let unpacked = unpack(content_type.as_deref(), &body).ok();
        let Some((Reading::User(claimed), parts)) =
            unpacked.and_then(|(root, parts)| Some((read(&root)?, parts)))
        else {
            if !BEFORE.contains(&stage) && !REFUSED_BY_WIRE.contains(&id) {
                wrong.push(format!("{id} ({stage}): not read"));
            }
            continue;
        };
        if BEFORE.contains(&stage) {
            continue;
        }
        match judge(&case, claimed, &parts) {
            Ok(()) if !HERE.contains(&stage) => passed += 1,
            Err(error) if error.stage == stage && case.codes().contains(&error.code) => {
                println!("{id}: {stage} refuses with {}: {}", error.code, error.why);
                stopped += 1;
            }
            // A repeat is recognised before its payload is decrypted, so a damaged one is fine.
            Err(error) if id == "composed/retry-undecryptable" && error.stage == "decrypt" => {}
            other => wrong.push(format!("{id} ({stage} {:?}): {other:?}", case.codes())),
        }
    }
    println!("{passed} passed, {stopped} refused");
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(passed > 60 && stopped > 40, "{passed} {stopped}");
}

#[test]
fn signals_verify_or_fail_at_their_stage() {
    let Some(folder) = vectors() else { return };
    let (mut passed, mut unsigned, mut wrong) = (0, 0, Vec::new());
    for entry in entries(&folder, &["receipt", "error"]) {
        let case = Case { folder: &folder, entry: &entry };
        let (id, stage) = (case.id(), case.stage());
        let (content_type, body) = case.message();
        let read = unpack(content_type.as_deref(), &body).ok().and_then(|(root, _)| read(&root));
        let (Some(Reading::Signal(envelope, _)), Some(trust)) = (read, case.trust()) else {
            println!("{id} ({stage}): not read, or nobody to trust");
            continue;
        };
        let result = signature::verify_signal(&envelope, &trust)
            .and_then(|proof| Ok(proof.trust(&trust, case.clock())?))
            .map_err(Stopped::from);
        match result {
            Ok(_) if !HERE.contains(&stage) => passed += 1,
            Err(error) if error.stage == stage => println!("{id}: {stage} refuses: {}", error.why),
            // An unsigned signal counts as a failure of the message, or is no receipt: not this layer's word.
            Err(error) if error.why.contains("no wsse:Security") && !HERE.contains(&stage) => unsigned += 1,
            other => wrong.push(format!("{id} ({stage}): {other:?}")),
        }
    }
    println!("{passed} signals verified, {unsigned} unsigned");
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(passed > 25, "{passed}");
}
