//! What the composer writes, judged by the independent verifier of `../shared/peers` (lxml, cryptography).

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of a test may fail as the test does"
)]

use std::path::Path;

use testbed::{
    client::Endpoint,
    composer::{Compression, Draft, Layout, Subject},
    peers::{self, Peers},
    pki::{Issuer, Pki},
    sbd::{Document, Filler},
};

const SENDER: &str = "POP000001";
const RECEIVER: &str = "PGB000002";

fn judge(peers: &Peers, folder: &Path, name: &str, draft: &Draft) -> peers::Verdict {
    let package = draft.compose().unwrap();
    let base = folder.join(name);
    peers::store(&base, &package.content_type, &package.body).unwrap();
    let verdict = peers.verify(["um".as_ref(), base.as_os_str()]).unwrap();
    if verdict.is_yes() && draft.subject == Subject::Business {
        assert_eq!(verdict.json["payload_sha256"], package.claim.sbd_sha256.as_str(), "{name}");
        assert_eq!(verdict.json["message_id"], package.claim.message_id.as_str(), "{name}");
    }
    verdict
}

#[test]
fn the_independent_verifier_accepts_every_kind_of_message_and_refuses_the_bad_signers() {
    let Some(peers) = Peers::find().unwrap() else {
        println!("skipped: ../shared/peers is not there");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut pki = Pki::new().unwrap();
    let sender = pki.access_point(SENDER).unwrap();
    let receiver = pki.access_point(RECEIVER).unwrap();
    let revoked = pki.revoked(SENDER).unwrap();
    pki.write(folder.path()).unwrap();
    sender.write(folder.path(), SENDER).unwrap();
    receiver.write(folder.path(), RECEIVER).unwrap();
    let peers = peers.with_pki(folder.path());
    let plain = Draft::invoice(&sender, &receiver.certificate, 10_000);
    let uncompressed = Draft { compression: Compression::None, ..plain.clone() };
    let baroque = Draft { layout: Layout::Baroque, ..uncompressed.clone() };
    let ping = Draft { subject: Subject::Ping, ..plain.clone() };
    let random = Document::Invoice { number: "R".into(), bytes: 200_000, filler: Filler::Random };
    let random = Draft::with(&sender, &receiver.certificate, random);
    let binary = Document::Binary { number: "B".into(), bytes: 200_000, filler: Filler::Plain };
    let binary = Draft::with(&sender, &receiver.certificate, binary);
    let binary_raw = Draft { compression: Compression::None, ..binary.clone() };
    for (name, draft) in [
        ("plain", &plain),
        ("resigned", &plain.signed_anew()),
        ("regzipped", &plain.gzipped_anew()),
        ("rewrapped", &plain.wrapped_anew()),
        ("other", &plain.with_other_content()),
        ("uncompressed", &uncompressed),
        ("baroque", &baroque),
        ("ping", &ping),
        ("random", &random),
        ("binary", &binary),
        ("binary-raw", &binary_raw),
    ] {
        let verdict = judge(&peers, folder.path(), name, draft);
        assert!(verdict.is_yes(), "{name}: {}", verdict.json);
    }
    let smp = pki.leaf(SENDER, Issuer::Smp).unwrap();
    let unknown = pki.leaf(SENDER, Issuer::Unknown).unwrap();
    let stranger = pki.access_point("PDE000003").unwrap();
    let expired = pki.expired(SENDER).unwrap();
    let foreign = Draft { sender: stranger, from: Some(SENDER.into()), ..plain.clone() };
    let misled = Draft { to: Some("PXX999999".into()), ..plain.clone() };
    for (name, draft, stage) in [
        ("smp", Draft { sender: smp, ..plain.clone() }, "trust"),
        ("unknown", Draft { sender: unknown, ..plain.clone() }, "trust"),
        ("expired", Draft { sender: expired, ..plain.clone() }, "trust"),
        ("foreign", foreign, "party"),
        ("misled", misled, "pmode"),
    ] {
        let verdict = judge(&peers, folder.path(), name, &draft);
        assert_eq!(verdict.json["stage"], stage, "{name}: {}", verdict.json);
    }
    // The verifier's `um` does not look at revocation lists: the list itself is tested with the PKI.
    assert!(judge(&peers, folder.path(), "revoked", &Draft { sender: revoked, ..plain }).is_yes());
}

/// Posts it to a receiver of the peers and has its receipt proven.
fn receipted(peers: &Peers, server: &peers::Server, folder: &Path, name: &str, draft: &Draft) {
    let package = draft.compose().unwrap();
    let base = folder.join(name);
    peers::store(&base, &package.content_type, &package.body).unwrap();
    let endpoint = Endpoint::plain(([127, 0, 0, 1], server.port).into(), "/as4");
    let answer = endpoint.post(&package).unwrap();
    let signal = folder.join(format!("{name}.signal"));
    std::fs::write(&signal, &answer.body).unwrap();
    let verdict = peers.verify(["receipt".as_ref(), signal.as_os_str(), base.as_os_str()]).unwrap();
    assert!(verdict.is_yes(), "{name}: {} {}", verdict.json, String::from_utf8_lossy(&answer.body));
}

#[test]
fn the_receivers_of_other_makers_give_receipts_for_composed_messages() {
    if std::env::var_os("ONCEPOINT_HEAVY").is_none() {
        println!("skipped: runs with ONCEPOINT_HEAVY=1");
        return;
    }
    let Some(peers) = Peers::find().unwrap() else {
        println!("skipped: ../shared/peers is not there");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let pki = Pki::new().unwrap();
    let sender = pki.access_point(SENDER).unwrap();
    let receiver = pki.access_point(RECEIVER).unwrap();
    pki.write(folder.path()).unwrap();
    sender.write(folder.path(), SENDER).unwrap();
    receiver.write(folder.path(), RECEIVER).unwrap();
    let peers = peers.with_pki(folder.path());
    let plain = || Draft::invoice(&sender, &receiver.certificate, 10_000);
    let as4 = peers::Server::start(peers.as4("as4_peer.py").args(["serve", "0"])).unwrap();
    receipted(&peers, &as4, folder.path(), "as4", &plain());
    receipted(&peers, &as4, folder.path(), "as4-baroque", &Draft { layout: Layout::Baroque, ..plain() });
    let phase4 = peers::Server::start(peers.phase4().args(["serve", "0", "-"])).unwrap();
    receipted(&peers, &phase4, folder.path(), "phase4", &plain());
    let raw = || Draft { compression: Compression::None, ..plain() };
    receipted(&peers, &phase4, folder.path(), "phase4-raw", &raw());
    receipted(&peers, &phase4, folder.path(), "phase4-baroque", &Draft { layout: Layout::Baroque, ..raw() });
}
