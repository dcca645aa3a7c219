//! The fuzz corpus on stable: every kept input, whole and cut off at every byte.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::format_push_string,
    clippy::print_stdout,
    unreachable_pub,
    reason = "what must hold is said once, for the fuzzer and for this test"
)]

#[path = "../fuzz/src/lib.rs"]
mod targets;

use std::path::Path;

/// Inputs longer than this are not cut off at every byte, but at some fifty places.
const EVERY_BYTE_MAX: usize = 600;

fn replay(name: &str, target: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).expect("a folder of inputs") {
        let path = entry.expect("an input").path();
        let data = std::fs::read(&path).expect("an input");
        println!("{}", path.display());
        let step = if data.len() <= EVERY_BYTE_MAX { 1 } else { data.len() / 50 };
        for end in (0..data.len()).step_by(step) {
            target(data.get(..end).unwrap_or(&[]));
        }
        target(&data);
        count += 1;
    }
    assert!(count > 0, "no inputs for {name}");
}

#[test]
fn xml_holds() {
    replay("xml", targets::xml);
}

#[test]
fn scan_holds() {
    replay("scan", targets::scan);
}

#[test]
fn c14n_stream_holds() {
    replay("c14n_stream", targets::c14n_stream);
}

#[test]
fn ebms_holds() {
    replay("ebms", targets::ebms);
}

#[test]
fn mime_holds() {
    replay("mime", targets::mime);
}

#[test]
fn gzip_holds() {
    replay("gzip", targets::gzip);
}

#[test]
fn sbdh_holds() {
    replay("sbdh", targets::sbdh);
}
