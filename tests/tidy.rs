//! The rules of the house that no compiler checks: floors, words that the pure half may not know, file
//! sizes, and clauses that are said to be kept but cited nowhere. ARCHITECTURE.md quotes the table.

#![expect(clippy::unwrap_used, reason = "a test stops where its files cannot be read")]

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Lowest floor first. A module imports only from lower floors; modules of one floor not from each other.
const FLOORS: &[&[&str]] = &[
    &["model"],
    &["wire"],
    &["security", "pmode"],
    &["peppol"],
    &["exchange"],
    &["store", "net"],
    &["service"],
    &["config"],
    &["cli"],
    &["main"],
];

/// The pure half: computations on values, the same result each time.
const PURE: &[&str] = &["model", "wire", "security", "pmode", "peppol", "exchange"];

/// What the pure half may not meet: clock, disk, network, randomness, async, threads.
const IMPURE: &[&str] = &[
    "std::fs",
    "std::net",
    "std::thread",
    "tokio",
    "reqwest",
    "hyper",
    "axum",
    "sled",
    "SystemTime::now",
    "Instant::now",
    "rand::",
    "Uuid::new_v",
    "async fn",
];

/// Words that belong to one place only: (word, the only path that may say it).
const ONE_PLACE: &[(&str, &str)] = &[
    ("quick_xml", "wire/xml"),
    ("sled::", "store/journal"),
    ("SystemTime::now", "service/clock.rs"),
    ("Instant::now", "service/clock.rs"),
];

/// Lines of a source file, the alarm of the style guide.
const FILE_LINES_MAX: usize = 700;

struct Source {
    /// Path below `src`.
    path: PathBuf,
    /// The text without comment lines.
    text: String,
    lines: usize,
}

impl Source {
    fn module(&self) -> String {
        let first = self.path.iter().next().unwrap_or_default().to_string_lossy().into_owned();
        first.trim_end_matches(".rs").to_owned()
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn sources(folder: &Path) -> Vec<Source> {
    let mut paths = vec![];
    rust_files(folder, &mut paths);
    paths.sort();
    paths.into_iter().map(|path| source(folder, &path)).collect()
}

fn source(folder: &Path, path: &Path) -> Source {
    let whole = fs::read_to_string(path).unwrap();
    let lines = whole.lines().count();
    let code: Vec<&str> = whole.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    Source { path: path.strip_prefix(folder).unwrap().to_owned(), text: code.join("\n"), lines }
}

fn floor(module: &str) -> Option<usize> {
    FLOORS.iter().position(|row| row.contains(&module))
}

/// The modules of the crate that a text names after `crate::`, grouped imports included.
fn imports(text: &str) -> Vec<String> {
    let mut found = vec![];
    for (at, word) in text.match_indices("crate::") {
        let rest = &text[at + word.len()..];
        match rest.strip_prefix('{') {
            Some(group) => found.extend(group_heads(group)),
            None => found.push(identifier(rest)),
        }
    }
    found
}

fn identifier(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// The first identifiers of the members of `{…}`, whose opening brace is already taken off.
fn group_heads(group: &str) -> Vec<String> {
    let (mut depth, mut heads, mut fresh) = (1, vec![], true);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => fresh = true,
            c if c.is_alphabetic() && fresh => {
                heads.push(identifier(&group[at..]));
                fresh = false;
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    heads
}

fn forbidden_imports(source: &Source) -> Vec<String> {
    let own = source.module();
    let Some(own_floor) = floor(&own) else { return vec![] };
    let wrong = imports(&source.text)
        .into_iter()
        .filter(|module| *module != own && floor(module).is_some_and(|other| other >= own_floor));
    wrong.map(|module| format!("{}: {own} may not import {module}", source.path.display())).collect()
}

fn impure_words(source: &Source) -> Vec<String> {
    if !PURE.contains(&source.module().as_str()) {
        return vec![];
    }
    let words = IMPURE.iter().filter(|word| source.text.contains(**word));
    words.map(|word| format!("{}: the pure half may not say {word}", source.path.display())).collect()
}

fn misplaced_words(source: &Source) -> Vec<String> {
    let words = ONE_PLACE
        .iter()
        .filter(|(word, place)| source.text.contains(word) && !source.path.starts_with(place));
    words.map(|(word, place)| format!("{}: {word} belongs to {place}", source.path.display())).collect()
}

fn oversize(source: &Source) -> Option<String> {
    (source.lines > FILE_LINES_MAX).then(|| {
        format!(
            "{}: {} lines, split it by noun (limit {FILE_LINES_MAX})",
            source.path.display(),
            source.lines
        )
    })
}

fn nothing_found(found: &[String]) {
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn modules_import_only_from_lower_floors() {
    let found: Vec<_> = sources(&root().join("src")).iter().flat_map(forbidden_imports).collect();
    nothing_found(&found);
}

#[test]
fn every_module_stands_on_a_floor() {
    let found: Vec<_> = sources(&root().join("src"))
        .iter()
        .filter(|source| source.module() != "lib" && floor(&source.module()).is_none())
        .map(|source| format!("{}: on no floor", source.path.display()))
        .collect();
    nothing_found(&found);
}

#[test]
fn the_pure_half_meets_no_clock_disk_network_randomness_or_async() {
    let found: Vec<_> = sources(&root().join("src")).iter().flat_map(impure_words).collect();
    nothing_found(&found);
}

#[test]
fn each_engine_is_named_in_one_place_only() {
    let found: Vec<_> = sources(&root().join("src")).iter().flat_map(misplaced_words).collect();
    nothing_found(&found);
}

#[test]
fn files_stay_readable() {
    let mut found = vec![];
    for folder in ["src", "tests", "testbed/src", "testbed/tests"] {
        found.extend(sources(&root().join(folder)).iter().filter_map(oversize));
    }
    nothing_found(&found);
}

#[test]
fn a_clause_that_is_kept_is_cited() {
    let Ok(clauses) = fs::read_to_string(root().join("spec/clauses.tsv")) else {
        panic!("spec/clauses.tsv is missing");
    };
    let code: String = sources_with_comments(&["src"]);
    let tests: String = sources_with_comments(&["src", "tests", "testbed/tests"]);
    let kept = clauses
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .filter(|(_, rest)| rest.starts_with("yes\t"));
    let found: Vec<_> = kept
        .filter(|(clause, _)| !code.contains(clause) || !tests.contains(clause))
        .map(|(clause, _)| format!("{clause}: said to be kept, but cited nowhere in src/"))
        .collect();
    nothing_found(&found);
}

fn sources_with_comments(folders: &[&str]) -> String {
    let mut paths = vec![];
    folders.iter().for_each(|folder| rust_files(&root().join(folder), &mut paths));
    paths.iter().map(|path| fs::read_to_string(path).unwrap()).collect()
}

/// The checks see what they are for: a house with one fault of each kind.
#[test]
fn each_check_finds_its_fault() {
    let fake =
        |path: &str, text: &str| Source { path: path.into(), text: text.into(), lines: FILE_LINES_MAX + 1 };
    let upward = fake("model/id.rs", "use crate::{\n    exchange::receive,\n    wire::{xml, mime},\n};");
    assert_eq!(forbidden_imports(&upward).len(), 2);
    assert_eq!(forbidden_imports(&fake("net/tls.rs", "use crate::store::Store;")).len(), 1);
    assert_eq!(forbidden_imports(&fake("service/as4.rs", "use crate::{net, store};")).len(), 0);
    assert_eq!(impure_words(&fake("exchange/receive.rs", "async fn now() {}")).len(), 1);
    assert_eq!(misplaced_words(&fake("wire/soap.rs", "use quick_xml::Reader;")).len(), 1);
    assert_eq!(misplaced_words(&fake("wire/xml/build.rs", "use quick_xml::Reader;")).len(), 0);
    assert!(oversize(&upward).is_some());
}
