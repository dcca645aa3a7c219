//! Real senders of other makers against the real binary: as4, peppol-py, phase4. Each receipt is proven by
//! an independent verifier, each message is delivered once, and a repeat gets the same bytes, also after a crash.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of a test may fail and speak as the test does"
)]

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use testbed::{
    connector::Leased,
    peers::{self, Peers, Verdict, verdict},
    product::{Identity, Product, Site},
    scene::scratch,
};

fn loopback(shared: &Path) -> Identity {
    let pki = shared.join("vectors/pki/loopback");
    Identity {
        certificate: pki.join("PGB000002.pem"),
        key: pki.join("PGB000002.key"),
        roots: vec![pki.join("root.pem")],
        access_point_cas: vec![pki.join("apca.pem")],
        crls: vec![pki.join("apca.crl.pem"), pki.join("root.crl.pem")],
    }
}

struct Stage {
    peers: Peers,
    shared: PathBuf,
    folder: tempfile::TempDir,
    site: Site,
}

impl Stage {
    fn set(name: &str) -> Option<Self> {
        if std::env::var_os("ONCEPOINT_HEAVY").is_none() {
            println!("skipped: runs with ONCEPOINT_HEAVY=1");
            return None;
        }
        let Some(peers) = Peers::find().unwrap() else {
            println!("skipped: ../shared/peers is not there or could not be set up");
            return None;
        };
        let shared = peers::shared().unwrap().unwrap();
        let folder = scratch(name).unwrap();
        let site = Site::with_identity(&folder.path().join("site"), &loopback(&shared), None, &[]).unwrap();
        Some(Self { peers, shared, folder, site })
    }

    fn base(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn url(&self) -> String {
        self.site.as4().url()
    }

    fn yes(&self, command: &mut Command) -> Verdict {
        let found = verdict(command).unwrap();
        assert!(found.is_yes(), "{command:?}: {}\n{}", found.output, self.site.log_tail());
        found
    }

    /// The independent verifier says that the stored answer proves the stored message.
    fn prove(&self, signal: &Path, message: &Path) {
        let found = self.peers.verify(["receipt".as_ref(), signal.as_os_str(), message.as_os_str()]).unwrap();
        assert!(found.is_yes(), "{}: {}", message.display(), found.json);
    }

    /// Posts it again so many times; every answer is the same, and the first of them is stored.
    fn replay(&self, name: &str, count: &str, parallel: &[&str]) -> Vec<u8> {
        let saved = self.base("again.signal");
        let mut command = self.peers.as4("replay.py");
        command
            .arg(self.url())
            .arg(self.base(name))
            .args(["-n", count])
            .args(parallel)
            .arg("--save")
            .arg(&saved);
        self.yes(&mut command);
        std::fs::read(saved).unwrap()
    }

    /// What the independent verifier finds inside the stored message.
    fn payload(&self, name: &str) -> String {
        let found = self.peers.verify(["um".as_ref(), self.base(name).as_os_str()]).unwrap();
        assert!(found.is_yes(), "{name}: {}", found.json);
        found.json["payload_sha256"].as_str().unwrap().to_owned()
    }

    fn phase4(&self, name: &str, more: &[&str]) -> bool {
        let mut command = self.peers.phase4();
        let invoice = self.shared.join("invoices/base-example.xml");
        command.arg("send").arg(self.url()).arg(invoice).arg(self.base(name)).args(more);
        match verdict(&mut command) {
            Ok(found) if found.status != Some(2) => {
                assert!(found.is_yes(), "{command:?}: {}\n{}", found.output, self.site.log_tail());
                true
            }
            // Java or Maven is missing.
            _ if std::env::var_os("ONCEPOINT_REQUIRE_SHARED").is_none() => {
                println!("skipped: phase4 could not be set up");
                false
            }
            other => panic!("phase4 is demanded: {other:?}"),
        }
    }
}

fn delivered_once(items: &[Leased], payloads: &[String]) {
    let mut delivered: Vec<&str> = items.iter().map(|item| item.sbd_sha256.as_str()).collect();
    let mut expected: Vec<&str> = payloads.iter().map(String::as_str).collect();
    delivered.sort_unstable();
    expected.sort_unstable();
    assert_eq!(delivered, expected);
}

#[test]
fn messages_of_other_makers_are_receipted_delivered_once_and_answered_alike_after_a_crash() {
    let Some(stage) = Stage::set("peers") else { return };
    let product: Product = stage.site.start().unwrap();
    let mut names = vec!["as4", "ppy"];
    stage.yes(stage.peers.as4("as4_peer.py").arg("send").arg(stage.url()).arg(stage.base("as4")));
    stage.prove(&stage.base("as4.signal"), &stage.base("as4"));
    stage.yes(stage.peers.peppol_py().arg("full").arg(stage.url()).arg(stage.base("ppy")));
    for (name, more) in [("p4", [].as_slice()), ("p4-raw", &["--no-compress"])] {
        if stage.phase4(name, more) {
            stage.prove(&stage.base(&format!("{name}.signal")), &stage.base(name));
            names.push(name);
        }
    }
    let first: Vec<Vec<u8>> = names.iter().map(|name| stage.replay(name, "3", &[])).collect();
    for (name, answer) in names.iter().zip(&first) {
        let saved = stage.base("first.signal");
        std::fs::write(&saved, answer).unwrap();
        stage.prove(&saved, &stage.base(name));
        assert_eq!(&stage.replay(name, "32", &["--parallel"]), answer, "{name}");
    }
    product.kill().unwrap();
    let product = stage.site.start().unwrap();
    for (name, answer) in names.iter().zip(&first) {
        assert_eq!(&stage.replay(name, "2", &[]), answer, "{name} after a crash");
    }
    let payloads: Vec<String> = names.iter().map(|name| stage.payload(name)).collect();
    delivered_once(&stage.site.connector().drain().unwrap(), &payloads);
    assert!(product.stop().unwrap().success());
}

#[test]
fn a_message_sent_in_parallel_from_the_start_is_delivered_once() {
    let Some(stage) = Stage::set("parallel") else { return };
    let product = stage.site.start().unwrap();
    stage.yes(stage.peers.as4("as4_peer.py").arg("build").arg(stage.base("as4")));
    stage.replay("as4", "48", &["--parallel"]);
    delivered_once(&stage.site.connector().drain().unwrap(), &[stage.payload("as4")]);
    drop(product);
}

#[test]
fn the_peers_own_driver_finds_every_vector_as_listed() {
    let Some(stage) = Stage::set("run-vectors") else { return };
    let product = stage.site.start().unwrap();
    stage.yes(stage.peers.as4("run_vectors.py").arg(stage.url()));
    drop(product);
}
