//! A small retry storm in every test run; the whole one is `testbed storm`.

use testbed::load::storm::{self, Storm};

#[test]
fn a_storm_of_repeats_is_one_delivery_and_identical_answers_while_others_go_on() {
    let mut lines = Vec::new();
    let result = storm::run(&Storm { repeats: 600, connections: 24, fresh: 30, bytes: 10_000 }, &mut lines);
    println!("{}", String::from_utf8_lossy(&lines));
    result.unwrap();
}

#[test]
fn payloads_of_each_kind_are_delivered_byte_for_byte() {
    let mut lines = Vec::new();
    let result = testbed::load::big::run(4 << 20, &mut lines);
    println!("{}", String::from_utf8_lossy(&lines));
    result.unwrap();
}
