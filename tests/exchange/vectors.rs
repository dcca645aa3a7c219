//! The shared vectors: list, files, and the access point that each is sent to.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use oncepoint::{
    exchange::{Identity, PayloadLimits, Site},
    model::{Tenant, Timestamp},
    peppol::Participants,
    pmode::{Defaults, PModes, Stage},
    security::{
        key::OwnKey,
        revocation::{Revocation, RevocationMode},
        trust::{Trust, TrustAnchors},
    },
};
use openssl::{
    asn1::Asn1Time,
    bn::BigNum,
    hash::MessageDigest,
    pkey::PKey,
    rsa::Rsa,
    x509::{X509Builder, X509NameBuilder},
};
use serde_json::Value;

/// The P-Modes that are shipped.
pub(crate) const PMODES: [(&str, &str); 2] = [
    ("peppol.toml", include_str!("../../pmodes/peppol.toml")),
    ("ping.toml", include_str!("../../pmodes/ping.toml")),
];

/// The shared test material; none when it is not there and nobody demands it.
pub(crate) fn shared() -> Option<PathBuf> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared"));
    if folder.is_dir() {
        return Some(folder);
    }
    assert!(std::env::var_os("ONCEPOINT_REQUIRE_SHARED").is_none_or(|v| v != "1"), "no shared vectors");
    println!("skipped: no shared vectors at {}", folder.display());
    None
}

/// Every user message of the list.
pub(crate) fn user_messages(shared: &Path) -> Vec<Value> {
    let index = fs::read(shared.join("vectors/index.json")).unwrap();
    let index: Value = serde_json::from_slice(&index).unwrap();
    let entries = index["entries"].as_array().unwrap().iter();
    entries.filter(|entry| entry["kind"] == "user-message").cloned().collect()
}

pub(crate) fn text<'a>(entry: &'a Value, field: &str) -> &'a str {
    entry[field].as_str().unwrap_or_default()
}

pub(crate) fn texts<'a>(entry: &'a Value, field: &str) -> Vec<&'a str> {
    entry[field].as_array().map(|list| list.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
}

/// Content-Type and body of a case.
pub(crate) fn message(shared: &Path, entry: &Value) -> (Option<String>, Vec<u8>) {
    let folder = shared.join("vectors");
    let bytes = fs::read(folder.join(text(entry, "file"))).unwrap();
    if text(entry, "file").ends_with(".http") {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        return (content_type(&head), bytes[end + 4..].to_vec());
    }
    match entry["headers_file"].as_str() {
        Some(file) => (content_type(&fs::read_to_string(folder.join(file)).unwrap()), bytes),
        None => (Some("application/soap+xml; charset=UTF-8".to_owned()), bytes),
    }
}

fn content_type(head: &str) -> Option<String> {
    let unfolded = head.replace("\r\n", "\n").replace("\n ", " ").replace("\n\t", " ");
    unfolded.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-type").then(|| value.trim().to_owned())
    })
}

/// The time to judge a case at.
pub(crate) fn clock(entry: &Value) -> Timestamp {
    Timestamp::parse(text(entry, "clock")).unwrap()
}

/// The access point that a case is sent to.
pub(crate) fn site(shared: &Path, entry: &Value) -> Site {
    let folder = shared.join("vectors");
    let key = match entry["receiver_key"].as_str() {
        Some(file) => {
            let certificate = fs::read(folder.join(text(entry, "receiver_cert"))).unwrap();
            OwnKey::from_pem(&certificate, &fs::read(folder.join(file)).unwrap()).unwrap()
        }
        None => strange_key(text(entry, "receiver")),
    };
    let identity = Identity { key: Arc::new(key), tenant: Tenant::default_tenant() };
    Site {
        identities: vec![Arc::new(identity)],
        pmodes: PModes::from_texts(&PMODES, &Defaults { stage: Stage::Local, ..Defaults::default() })
            .unwrap(),
        trust: trust(&folder, entry),
        participants: Participants::Any,
        limits: PayloadLimits::default(),
    }
}

fn trust(folder: &Path, entry: &Value) -> Trust {
    let files = |field| -> Vec<Vec<u8>> {
        texts(entry, field).iter().map(|file| fs::read(folder.join(file)).unwrap()).collect()
    };
    let (cas, lists) = (files("trust"), files("crls"));
    let roots = cas.first().into_iter().map(Vec::as_slice);
    let access_points = cas.last().into_iter().map(Vec::as_slice);
    let mode = if lists.is_empty() { RevocationMode::Off } else { RevocationMode::Hard };
    let mut revocation = Revocation::new(mode);
    lists.iter().for_each(|list| revocation.add_lists(list).unwrap());
    Trust::new(TrustAnchors::from_pem(roots, access_points).unwrap(), &revocation)
}

/// A seat whose real key nobody here has: another key under the same name.
fn strange_key(seat: &str) -> OwnKey {
    let key = PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap();
    let mut name = X509NameBuilder::new().unwrap();
    name.append_entry_by_text("CN", seat).unwrap();
    let name = name.build();
    let mut builder = X509Builder::new().unwrap();
    builder.set_version(2).unwrap();
    builder.set_serial_number(&BigNum::from_u32(1).unwrap().to_asn1_integer().unwrap()).unwrap();
    builder.set_subject_name(&name).unwrap();
    builder.set_issuer_name(&name).unwrap();
    builder.set_pubkey(&key).unwrap();
    builder.set_not_before(&Asn1Time::from_str("20250101000000Z").unwrap()).unwrap();
    builder.set_not_after(&Asn1Time::from_str("20450101000000Z").unwrap()).unwrap();
    builder.sign(&key, MessageDigest::sha256()).unwrap();
    let certificate = builder.build().to_pem().unwrap();
    OwnKey::from_pem(&certificate, &key.private_key_to_pem_pkcs8().unwrap()).unwrap()
}
