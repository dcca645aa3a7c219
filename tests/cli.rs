//! The real command: exit status, clear errors, nothing overwritten.

#![expect(clippy::unwrap_used, reason = "a test stops where its files cannot be made")]

use std::{
    path::Path,
    process::{Command, Output},
};

fn oncepoint(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_oncepoint")).current_dir(folder).args(arguments).output().unwrap()
}

/// Runs it and compares the exit status; the error must say the words.
fn check(folder: &Path, arguments: &[&str], status: i32, words: &[&str]) {
    let output = oncepoint(folder, arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
    for word in words {
        assert!(said.contains(word), "{arguments:?} does not say {word:?}: {said}");
    }
    assert!(!said.contains("panicked"), "{arguments:?}: {said}");
}

#[test]
fn init_writes_what_check_then_asks_for_and_overwrites_nothing() {
    let folder = tempfile::tempdir().unwrap();
    check(folder.path(), &["init", "ap", "--seat", "nobody"], 2, &["PXX000000"]);
    check(folder.path(), &["init", "ap", "--seat", "POP000001", "--stage", "test"], 0, &[]);
    let config = folder.path().join("ap/oncepoint.toml");
    std::fs::write(&config, "mine").unwrap();
    check(folder.path(), &["init", "ap"], 0, &[]);
    assert_eq!(std::fs::read_to_string(&config).unwrap(), "mine");
}

#[test]
fn a_missing_key_or_ca_is_named() {
    let folder = tempfile::tempdir().unwrap();
    check(folder.path(), &["init", "."], 0, &[]);
    check(folder.path(), &["check"], 2, &["ap.key"]);
    std::fs::write(folder.path().join("ap.key"), "no key").unwrap();
    std::fs::write(folder.path().join("ap.pem"), "no certificate").unwrap();
    check(folder.path(), &["check"], 2, &["ap.pem"]);
    check(folder.path(), &["serve"], 2, &["ap.pem"]);
    check(folder.path(), &["check", "--config", "nowhere.toml"], 2, &["nowhere.toml"]);
}

#[test]
fn a_configuration_error_says_line_key_and_rule() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("oncepoint.toml"), "[node]\nstage = \"local\"\ncolour = 1\n").unwrap();
    check(folder.path(), &["check"], 2, &["line 3", "colour"]);
}

#[test]
fn a_wrong_call_is_told_from_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    check(folder.path(), &["frobnicate"], 2, &["frobnicate"]);
    check(folder.path(), &[], 2, &["Usage"]);
    check(folder.path(), &["--help"], 0, &[]);
    check(folder.path(), &["inbox", "get", "../secret", "--connector", "http://127.0.0.1:1"], 2, &["no id"]);
}

/// `inbox` ended in a panic because the HTTP client had no TLS provider.
#[test]
fn a_connector_that_is_not_there_is_a_failure_and_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    check(folder.path(), &["inbox", "list", "--connector", "http://127.0.0.1:1"], 1, &["127.0.0.1:1"]);
    check(folder.path(), &["inbox", "claim", "--connector", "https://127.0.0.1:1"], 1, &["127.0.0.1:1"]);
}

#[test]
fn what_is_no_certificate_is_not_imported() {
    let folder = tempfile::tempdir().unwrap();
    check(folder.path(), &["init", "."], 0, &[]);
    std::fs::write(folder.path().join("x.pem"), "-----BEGIN CERTIFICATE-----\nno\n").unwrap();
    check(folder.path(), &["pki", "import", "x.pem", "--as", "root"], 2, &["x.pem"]);
    assert!(!folder.path().join("pki/root.pem").exists());
}
