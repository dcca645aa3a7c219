//! The scanner and the streaming canonicaliser against the tree, over random and damaged documents and random cuts.
//!
//! `ONCEPOINT_SCAN_DOCUMENTS` sets how many documents (3 000), `ONCEPOINT_SCAN_SEED` the first seed (1); a failure
//! names the seed of its document.

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

use generator::Random;
use oncepoint::wire::c14n::{StreamCanonicalizer, exclusive};
use oncepoint::wire::scan::{ScanError, ScanEvent, ScanLimits, Scanner, Span};
use oncepoint::wire::xml::{Document, NamespaceNames, NodeId, NodeKind, XmlLimits};

const LIMITS: XmlLimits = XmlLimits {
    bytes_max: 1 << 20,
    depth_max: 512,
    attributes_max: 1024,
    namespaces_max: 1024,
    nodes_max: 100_000,
};
const SCAN_LIMITS: ScanLimits = ScanLimits {
    token_bytes_max: 64 * 1024,
    depth_max: 512,
    attributes_max: 1024,
    namespaces_max: 1024,
    namespace_names: NamespaceNames::Absolute,
};

/// An event that owns what it says.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    what: What,
    span: Span,
}

#[derive(Debug, Clone, PartialEq)]
enum What {
    Start { name: [String; 3], attributes: Vec<[String; 4]>, declarations: Vec<[String; 2]> },
    End([String; 3]),
    Text(String),
    Comment(String),
    Instruction([String; 2]),
}

fn own<const N: usize>(texts: [&str; N]) -> [String; N] {
    texts.map(str::to_owned)
}

fn see(event: ScanEvent<'_>) -> Seen {
    let (what, span) = match event {
        ScanEvent::Start { name, attributes, declarations, span, .. } => {
            let name = own([name.prefix, name.local, name.namespace]);
            let attributes =
                attributes.iter().map(|a| own([a.prefix, a.local, a.namespace, a.value])).collect();
            let declarations = declarations.iter().map(|d| own([d.prefix, d.uri])).collect();
            (What::Start { name, attributes, declarations }, span)
        }
        ScanEvent::End { name, span } => (What::End(own([name.prefix, name.local, name.namespace])), span),
        ScanEvent::Text { text, span } => (What::Text(text.to_owned()), span),
        ScanEvent::Comment { text, span } => (What::Comment(text.to_owned()), span),
        ScanEvent::ProcessingInstruction { target, data, span } => {
            (What::Instruction(own([target, data])), span)
        }
    };
    Seen { what, span }
}

/// Adds an event, joining it to the text before when both are text.
fn push(seen: &mut Vec<Seen>, event: Seen) {
    if let (Some(Seen { what: What::Text(before), span }), What::Text(text)) = (seen.last_mut(), &event.what)
    {
        before.push_str(text);
        span.end = event.span.end;
    } else {
        seen.push(event);
    }
}

/// Cuts a document at random, often into single bytes.
fn cut<'s>(random: &mut Random, source: &'s [u8]) -> Vec<&'s [u8]> {
    let longest = [1, 2, 3, 9, 40, 400][random.below(6)];
    let mut pieces = Vec::new();
    let mut rest = source;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.len().min(random.below(longest) + 1));
        pieces.push(piece);
        rest = after;
    }
    pieces
}

fn scan(pieces: &[&[u8]]) -> Result<Vec<Seen>, ScanError> {
    let mut seen = Vec::new();
    let mut on = |event: ScanEvent<'_>| {
        push(&mut seen, see(event));
        Ok::<(), ScanError>(())
    };
    let mut scanner = Scanner::new(SCAN_LIMITS);
    for piece in pieces {
        scanner.feed(piece, &mut on)?;
    }
    scanner.finish(&mut on)?;
    Ok(seen)
}

/// What the scanner should report, read off the tree.
fn walk(document: &Document) -> Vec<What> {
    let mut seen = Vec::new();
    let mut open: Vec<NodeId> = Vec::new();
    for node in document.descendants(document.document()).skip(1) {
        close(document, &mut open, document.parent(node), &mut seen);
        let text = document.raw_text(node).to_owned();
        match document.kind(node) {
            NodeKind::Element => {
                seen.push(start(document, node));
                open.push(node);
            }
            NodeKind::Text => seen.push(What::Text(text)),
            NodeKind::Comment => seen.push(What::Comment(text)),
            NodeKind::ProcessingInstruction => {
                seen.push(What::Instruction([document.local_name(node).to_owned(), text]));
            }
            NodeKind::Document => unreachable!("below the document node"),
        }
    }
    close(document, &mut open, Some(document.document()), &mut seen);
    seen
}

fn close(document: &Document, open: &mut Vec<NodeId>, until: Option<NodeId>, seen: &mut Vec<What>) {
    while let Some(node) = open.pop_if(|node| Some(*node) != until) {
        seen.push(What::End(name(document, node)));
    }
}

fn name(document: &Document, node: NodeId) -> [String; 3] {
    own([document.prefix(node), document.local_name(node), document.namespace(node)])
}

fn start(document: &Document, node: NodeId) -> What {
    What::Start {
        name: name(document, node),
        attributes: document
            .attributes(node)
            .map(|a| own([a.prefix, a.local, a.namespace, a.value]))
            .collect(),
        declarations: document.declarations(node).map(|d| own([d.prefix, d.uri])).collect(),
    }
}

fn canonicalise(pieces: &[&[u8]]) -> Result<Vec<u8>, ScanError> {
    let mut out = Vec::new();
    let mut canonicalizer = StreamCanonicalizer::new(SCAN_LIMITS);
    for piece in pieces {
        canonicalizer.feed(piece, &mut |bytes| out.extend_from_slice(bytes))?;
    }
    canonicalizer.finish(&mut |bytes| out.extend_from_slice(bytes))?;
    Ok(out)
}

/// One document: acceptance, events, places and canonical form are the same whatever the cuts.
fn check(seed: u64, source: &[u8], random: &mut Random) -> bool {
    let text = String::from_utf8_lossy(source);
    let document = Document::parse(source, &LIMITS);
    let whole = scan(&[source]);
    let pieces = cut(random, source);
    let cut = scan(&pieces);
    match (&document, &whole, &cut) {
        (Ok(document), Ok(whole), Ok(cut)) => {
            assert_eq!(whole, cut, "seed {seed}: {text:?}");
            let whole: Vec<What> = whole.iter().map(|seen| seen.what.clone()).collect();
            assert_eq!(whole, walk(document), "seed {seed}: {text:?}");
            let mut expected = Vec::new();
            exclusive(document, document.document(), &[], &mut expected);
            let streamed = canonicalise(&pieces).expect("accepted above");
            assert_eq!(
                String::from_utf8_lossy(&streamed),
                String::from_utf8_lossy(&expected),
                "seed {seed}: {text:?}"
            );
            true
        }
        (Err(_), Err(_), Err(_)) => {
            assert!(canonicalise(&pieces).is_err(), "seed {seed}: {text:?}");
            false
        }
        _ => panic!(
            "seed {seed}: tree {:?}, as a whole {:?}, in pieces {:?}: {text:?}",
            document.err(),
            whole.err(),
            cut.err()
        ),
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
}

fn seeds() -> impl Iterator<Item = u64> {
    let first = setting("ONCEPOINT_SCAN_SEED", 1);
    first..first + setting("ONCEPOINT_SCAN_DOCUMENTS", 3_000)
}

/// The same document in another encoding.
fn encode(random: &mut Random, text: &str) -> Vec<u8> {
    let body = text.split_once("?>").filter(|_| text.starts_with("<?xml ")).map_or(text, |(_, body)| body);
    match random.below(5) {
        0 => format!("\u{FEFF}{text}").encode_utf16().flat_map(u16::to_be_bytes).collect(),
        1 => format!("\u{FEFF}{text}").encode_utf16().flat_map(u16::to_le_bytes).collect(),
        2 => {
            let declared = format!("<?xml version='1.0' encoding='UTF-16LE'?>{body}");
            declared.encode_utf16().flat_map(u16::to_le_bytes).collect()
        }
        3 => {
            let latin: String =
                body.chars().map(|c| if u32::from(c) > 0xFF { '\u{FF}' } else { c }).collect();
            let declared = format!("<?xml version='1.0' encoding='ISO-8859-1'?>{latin}");
            declared.chars().map(|c| u8::try_from(u32::from(c)).expect("Latin-1")).collect()
        }
        _ => format!("\u{FEFF}{text}").into_bytes(),
    }
}

#[test]
fn documents_are_reported_as_the_tree_has_them_whatever_the_cuts() {
    for seed in seeds() {
        let mut random = Random::new(seed);
        let source = generator::document(&mut random);
        assert!(check(seed, source.as_bytes(), &mut random), "seed {seed}: {source:?}");
    }
}

#[test]
fn documents_in_other_encodings_are_reported_as_the_tree_has_them() {
    for seed in seeds() {
        let mut random = Random::new(seed ^ 0x5EED);
        let text = generator::document(&mut random);
        let source = encode(&mut random, &text);
        check(seed, &source, &mut random);
    }
}

#[test]
fn damaged_documents_are_judged_as_the_tree_judges_them_whatever_the_cuts() {
    let mut taken = 0;
    for seed in seeds() {
        let mut random = Random::new(!seed);
        let text = generator::document(&mut random);
        let mut source = if random.once_in(4) { encode(&mut random, &text) } else { text.into_bytes() };
        generator::mutate(&mut random, &mut source);
        taken += usize::from(check(seed, &source, &mut random));
    }
    assert!(taken > 0, "some damage does no harm");
}

#[test]
fn long_text_passes_in_pieces_of_bounded_size() {
    let mut longest = 0;
    let mut total = 0_u64;
    let mut on = |event: ScanEvent<'_>| {
        if let ScanEvent::Text { text, .. } = event {
            longest = longest.max(text.len());
            total += text.len() as u64;
        }
        Ok::<(), ScanError>(())
    };
    let mut scanner = Scanner::new(ScanLimits::DOCUMENT);
    let block = "QUJD".repeat(256 * 1024);
    scanner.feed(b"<a>", &mut on).expect("start");
    for _ in 0..16 {
        scanner.feed(block.as_bytes(), &mut on).expect("text");
    }
    scanner.feed(b"</a>", &mut on).expect("end");
    scanner.finish(&mut on).expect("document");
    assert_eq!((longest, total), (64 * 1024, 16 << 20));
}
