//! The demo is a test: every line of it is a promise.

#[test]
fn the_demo_keeps_every_promise() {
    let mut lines = Vec::new();
    let result = testbed::demo::run(&mut lines);
    let lines = String::from_utf8(lines).unwrap();
    println!("{lines}");
    result.unwrap();
    assert!((14..=18).contains(&lines.lines().count()), "about fifteen lines");
}
