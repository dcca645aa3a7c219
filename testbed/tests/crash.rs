//! A short crash campaign in every test run; longer ones and power cuts are `testbed crash`.

use std::path::Path;

use testbed::{
    campaign::{Crash, crash},
    peers,
};

#[test]
fn kill_9_under_load_loses_nothing_and_delivers_nothing_twice() {
    let Some(shared) = peers::shared().unwrap() else {
        println!("skipped: ../shared is not there");
        return;
    };
    let said = crash(&shared, Path::new(env!("CARGO_BIN_EXE_testbed")), Crash::Kill, 3, 1).unwrap();
    println!("{said}");
}
