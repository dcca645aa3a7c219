//! Canonical forms and acceptance against libxml2, document by document.
//!
//! `ONCEPOINT_C14N_DOCUMENTS` sets how many documents (60 000), `ONCEPOINT_C14N_SEED` the first seed (1). A failure
//! names the seed of its document; `ONCEPOINT_C14N_SEED=<seed> ONCEPOINT_C14N_DOCUMENTS=1` repeats it.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::print_stdout,
    reason = "a test stops where it cannot go on, and its numbers are small"
)]

#[path = "oracle/generator.rs"]
mod generator;
#[path = "oracle/judge.rs"]
mod judge;

use std::collections::BTreeMap;

use generator::Random;
use judge::Judge;
use oncepoint::wire::c14n::exclusive;
use oncepoint::wire::xml::{Document, NodeId, NodeKind, Violation, XmlError, XmlLimits};

const LIMITS: XmlLimits = XmlLimits {
    bytes_max: 1 << 20,
    depth_max: 512,
    attributes_max: 1024,
    namespaces_max: 1024,
    nodes_max: 100_000,
};
const WHOLE: u32 = u32::MAX;
const SUBTREES: usize = 3;
const LISTABLE: &[&str] = &["#default", "a", "b", "c", "S12", "wsu", "xml", "unbound"];

/// A piece of a document to canonicalise.
struct Question {
    /// Number of the element in document order, or `WHOLE`.
    element: u32,
    prefixes: Vec<&'static str>,
}

/// What libxml2 makes of a document.
enum Verdict {
    Malformed,
    /// Well-formed; `None` for what it refuses to canonicalise.
    Parsed {
        namespaces_are_good: bool,
        forms: Vec<Option<Vec<u8>>>,
    },
}

/// libxml2 behind a pipe.
struct Oracle(Judge);

impl Oracle {
    fn start() -> Option<Self> {
        Judge::start("c14n", None).map(Self)
    }

    fn ask(&mut self, document: &[u8], questions: &[Question]) -> Verdict {
        let Self(judge) = self;
        judge.write(document);
        judge.number(questions.len());
        for question in questions {
            judge.number(question.element as usize);
            judge.number(question.prefixes.len());
            for prefix in &question.prefixes {
                judge.write(prefix.as_bytes());
            }
        }
        judge.flush();
        match judge.byte() {
            0 => Verdict::Malformed,
            state => {
                let forms = questions.iter().map(|_| self.form()).collect();
                Verdict::Parsed { namespaces_are_good: state == 2, forms }
            }
        }
    }

    fn form(&mut self) -> Option<Vec<u8>> {
        let good = self.0.byte() == 1;
        let length = self.0.read(4).try_into().map(u32::from_be_bytes).expect("four bytes");
        let bytes = self.0.read(length as usize);
        good.then_some(bytes)
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
}

fn seeds(share: u64) -> impl Iterator<Item = u64> {
    let first = setting("ONCEPOINT_C14N_SEED", 1);
    let count = setting("ONCEPOINT_C14N_DOCUMENTS", 60_000).div_ceil(share);
    first..first + count
}

fn elements(document: &Document) -> Vec<NodeId> {
    document.descendants(document.root()).filter(|&node| document.kind(node) == NodeKind::Element).collect()
}

fn questions(random: &mut Random, elements: usize) -> Vec<Question> {
    let mut questions = vec![Question { element: WHOLE, prefixes: Vec::new() }];
    for _ in 0..SUBTREES {
        let mut prefixes: Vec<&str> = (0..random.below(4)).map(|_| random.pick(LISTABLE)).collect();
        prefixes.sort_unstable();
        prefixes.dedup();
        questions.push(Question { element: random.below(elements) as u32, prefixes });
    }
    questions
}

fn ours(document: &Document, elements: &[NodeId], question: &Question) -> Vec<u8> {
    let apex = elements.get(question.element as usize).copied().unwrap_or_else(|| document.document());
    let prefixes: Vec<&str> =
        question.prefixes.iter().map(|&p| if p == "#default" { "" } else { p }).collect();
    let mut out = Vec::new();
    exclusive(document, apex, &prefixes, &mut out);
    out
}

/// Compares every form; hands back how many were compared.
fn compare(seed: u64, source: &[u8], document: &Document, oracle: &mut Oracle, random: &mut Random) -> usize {
    let elements = elements(document);
    let questions = questions(random, elements.len());
    let text = String::from_utf8_lossy(source);
    let Verdict::Parsed { namespaces_are_good: true, forms } = oracle.ask(source, &questions) else {
        panic!("seed {seed}: accepted here, refused by libxml2: {text:?}");
    };
    for (question, theirs) in questions.iter().zip(&forms) {
        let place =
            format!("seed {seed}, element {}, listed {:?}", question.element as i32, question.prefixes);
        let Some(theirs) = theirs else { panic!("{place}: libxml2 has no canonical form: {text:?}") };
        let ours = ours(document, &elements, question);
        assert_eq!(String::from_utf8_lossy(&ours), String::from_utf8_lossy(theirs), "{place}: {text:?}");
    }
    forms.len()
}

#[test]
fn canonical_forms_equal_those_of_libxml2() {
    let Some(mut oracle) = Oracle::start() else { return };
    let mut compared = 0;
    for seed in seeds(1) {
        let mut random = Random::new(seed);
        let source = generator::document(&mut random).into_bytes();
        let document = Document::parse(&source, &LIMITS)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}: {:?}", String::from_utf8_lossy(&source)));
        compared += compare(seed, &source, &document, &mut oracle, &mut random);
    }
    println!("{compared} canonical forms compared");
    assert!(compared > 0);
}

/// Where libxml2 takes what is refused here. Everything else that only we refuse is a mistake of ours.
fn may_be_stricter(error: XmlError) -> bool {
    let XmlError::Malformed { rule, .. } = error else { return matches!(error, XmlError::Doctype) };
    // Relative namespace names and those with an ampersand have no agreed canonical form; libxml2 also reads
    // versions 1.x.
    matches!(rule, Violation::NamespaceName | Violation::Declaration)
}

#[test]
fn damaged_documents_are_never_taken_where_libxml2_finds_them_malformed() {
    let Some(mut oracle) = Oracle::start() else { return };
    let mut stricter = BTreeMap::<String, usize>::new();
    let (mut taken, mut refused) = (0_usize, 0_usize);
    for seed in seeds(2) {
        let mut random = Random::new(!seed);
        let mut source = generator::document(&mut random).into_bytes();
        generator::mutate(&mut random, &mut source);
        match Document::parse(&source, &LIMITS) {
            Ok(document) => {
                compare(seed, &source, &document, &mut oracle, &mut random);
                taken += 1;
            }
            Err(error) => match oracle.ask(&source, &[]) {
                Verdict::Parsed { namespaces_are_good: true, .. } => {
                    let text = String::from_utf8_lossy(&source);
                    assert!(may_be_stricter(error), "seed {seed}: {error}, accepted by libxml2: {text:?}");
                    let name = error.to_string();
                    *stricter.entry(name.split(" (").next().unwrap_or("").to_owned()).or_default() += 1;
                }
                Verdict::Parsed { .. } | Verdict::Malformed => refused += 1,
            },
        }
    }
    println!("{taken} taken and compared, {refused} refused by both, refused only here: {stricter:?}");
}
