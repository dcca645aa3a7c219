//! What must hold of the readers whatever bytes they are given. Each function is one fuzz target.
//!
//! A target whose reader is fed in pieces takes the length of its pieces from the first byte.

use oncepoint::wire::c14n::{StreamCanonicalizer, exclusive};
use oncepoint::wire::gzip::{GzipError, GzipLimits, Inflater};
use oncepoint::wire::mime::{MimeError, MimeLimits, PartEvent, PartReader, package};
use oncepoint::wire::sbdh::{DocumentReader, PayloadForm, Sbd, SbdError, SbdLimits, SbdReader};
use oncepoint::wire::scan::{ScanError, ScanEvent, ScanLimits, Scanner};
use oncepoint::wire::soap::Envelope;
use oncepoint::wire::xml::{Document, XmlError, XmlLimits};

/// Most bytes that a fuzzed stream may inflate to.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;
/// The boundary that fuzzed packages have.
const BOUNDARY: &str = "b";

/// Limits beyond what a fuzzed document reaches, so that tree and scanner differ in nothing but their ways.
const TREE_LIMITS: XmlLimits = XmlLimits {
    bytes_max: 1 << 20,
    depth_max: 4096,
    attributes_max: 4096,
    namespaces_max: 4096,
    nodes_max: 1 << 20,
};
const SCAN_LIMITS: ScanLimits = ScanLimits {
    token_bytes_max: 1 << 20,
    depth_max: 4096,
    attributes_max: 4096,
    namespaces_max: 4096,
    ..ScanLimits::CANONICAL
};

/// The pieces that the first byte asks for.
fn pieces(data: &[u8]) -> (usize, &[u8]) {
    match data {
        [] => (1, data),
        [first, rest @ ..] => (usize::from(first % 31) + 1, rest),
    }
}

fn canonical(document: &Document) -> Vec<u8> {
    let mut out = Vec::new();
    exclusive(document, document.document(), &[], &mut out);
    out
}

/// Whether tree and scanner may disagree: limits are counted in different ways.
fn is_limit(error: &XmlError) -> bool {
    matches!(error, XmlError::Limit { .. })
}

/// A document that is taken has a canonical form, which is taken, and is its own.
pub fn xml(data: &[u8]) {
    let _ = Document::parse(data, &XmlLimits::SOAP);
    let Ok(document) = Document::parse(data, &TREE_LIMITS) else { return };
    let first = canonical(&document);
    let again = Document::parse(&first, &TREE_LIMITS).expect("a canonical form is a document");
    assert_eq!(first, canonical(&again));
}

/// Reports what is scanned as one text; pieces of text joined.
fn scanned(data: &[u8], piece: usize) -> Result<String, ScanError> {
    let mut seen = String::new();
    let mut in_text = false;
    let mut on = |event: ScanEvent<'_>| {
        let follows_text = std::mem::replace(&mut in_text, matches!(event, ScanEvent::Text { .. }));
        match event {
            ScanEvent::Text { text, .. } if follows_text => seen.push_str(text),
            ScanEvent::Text { text, span } => seen.push_str(&format!("\u{1}{}{text}", span.start)),
            ScanEvent::Start { name, attributes, declarations, span, name_end, empty, .. } => {
                seen.push_str(&format!("\u{2}{name:?}{span:?}{name_end}{empty}"));
                attributes.iter().for_each(|attribute| seen.push_str(&format!("{attribute:?}")));
                declarations.iter().for_each(|declaration| seen.push_str(&format!("{declaration:?}")));
            }
            event => seen.push_str(&format!("\u{3}{event:?}")),
        }
        Ok::<(), ScanError>(())
    };
    let mut scanner = Scanner::new(SCAN_LIMITS);
    for part in data.chunks(piece) {
        scanner.feed(part, &mut on)?;
    }
    scanner.finish(&mut on)?;
    Ok(seen)
}

/// Cuts change nothing, and the scanner takes what the tree takes.
pub fn scan(data: &[u8]) {
    let (piece, data) = pieces(data);
    let whole = scanned(data, data.len().max(1));
    let cut = scanned(data, piece);
    match (&whole, &cut) {
        (Ok(whole), Ok(cut)) => assert_eq!(whole, cut),
        (Err(_), Err(_)) => {}
        _ => panic!("as a whole {whole:?}, in pieces of {piece} {cut:?}"),
    }
    match Document::parse(data, &TREE_LIMITS) {
        Err(error) if is_limit(&error) => {}
        tree => assert_eq!(tree.is_ok(), whole.is_ok(), "tree {:?}, scanner {:?}", tree.err(), whole.err()),
    }
}

/// The form of a stream is that of the tree.
pub fn c14n_stream(data: &[u8]) {
    let (piece, data) = pieces(data);
    let mut out = Vec::new();
    let mut canonicalizer = StreamCanonicalizer::new(SCAN_LIMITS);
    let fed = data
        .chunks(piece)
        .try_for_each(|part| canonicalizer.feed(part, &mut |form| out.extend_from_slice(form)));
    let finished = fed.and_then(|()| canonicalizer.finish(&mut |form| out.extend_from_slice(form)));
    if let Ok(document) = Document::parse(data, &TREE_LIMITS) {
        assert_eq!(finished, Ok(()));
        assert_eq!(out, canonical(&document));
    }
}

/// Envelopes and headers are read or refused.
pub fn ebms(data: &[u8]) {
    let Ok(document) = Document::parse(data, &XmlLimits::SOAP) else { return };
    let _ = oncepoint::wire::ebms::claimed_message_id(&document);
    if let Ok(envelope) = Envelope::read(document) {
        let _ = oncepoint::wire::ebms::read(envelope);
    }
}

fn parts(data: &[u8], piece: usize) -> Result<Vec<(String, Vec<u8>)>, MimeError> {
    let mut seen: Vec<(String, Vec<u8>)> = Vec::new();
    let mut on = |event: PartEvent<'_>| {
        match (event, seen.last_mut()) {
            (PartEvent::Head(head), _) => {
                let _ = head.file_name();
                seen.push((format!("{head:?}"), Vec::new()));
            }
            (PartEvent::Data(data), Some((_, body))) => body.extend_from_slice(data),
            (PartEvent::Data(_), None) => panic!("data before a head"),
            (PartEvent::End, _) => {}
        }
        Ok::<(), MimeError>(())
    };
    let mut reader = PartReader::new(BOUNDARY, MimeLimits::default());
    for part in data.chunks(piece) {
        reader.feed(part, &mut on)?;
    }
    reader.finish(&mut on)?;
    Ok(seen)
}

/// Cuts change nothing; the first line is tried as Content-Type.
pub fn mime(data: &[u8]) {
    let (piece, data) = pieces(data);
    let line = data.split(|&byte| byte == b'\n').next().unwrap_or(&[]);
    let _ = package(std::str::from_utf8(line).ok());
    match (parts(data, data.len().max(1)), parts(data, piece)) {
        (Ok(whole), Ok(cut)) => assert_eq!(whole, cut),
        (Err(_), Err(_)) => {}
        (whole, cut) => panic!("as a whole {whole:?}, in pieces of {piece} {cut:?}"),
    }
}

fn inflated(data: &[u8], piece: usize) -> Result<Vec<u8>, GzipError> {
    let mut out = Vec::new();
    let mut inflater = Inflater::new(GzipLimits::new(OUTPUT_BYTES_MAX));
    let mut on = |bytes: &[u8]| {
        out.extend_from_slice(bytes);
        Ok::<(), GzipError>(())
    };
    for part in data.chunks(piece) {
        inflater.feed(part, &mut on)?;
    }
    inflater.finish()?;
    assert!(out.len() as u64 <= OUTPUT_BYTES_MAX);
    Ok(out)
}

/// Cuts change nothing, and no more comes out than is allowed.
pub fn gzip(data: &[u8]) {
    let (piece, data) = pieces(data);
    match (inflated(data, data.len().max(1)), inflated(data, piece)) {
        (Ok(whole), Ok(cut)) => assert_eq!(whole, cut),
        (Err(_), Err(_)) => {}
        (whole, cut) => panic!("as a whole {whole:?}, in pieces of {piece} {cut:?}"),
    }
}

fn envelope(data: &[u8], piece: usize) -> Result<Sbd, SbdError> {
    let mut reader = SbdReader::new(SbdLimits::default());
    data.chunks(piece).try_for_each(|part| reader.feed(part))?;
    reader.finish()
}

fn document(sbd: &Sbd, data: &[u8], piece: usize) -> Result<Vec<u8>, SbdError> {
    let mut out = Vec::new();
    let mut on = |bytes: &[u8]| {
        out.extend_from_slice(bytes);
        Ok::<(), SbdError>(())
    };
    let mut reader = DocumentReader::new(&sbd.payload);
    data.chunks(piece).try_for_each(|part| reader.feed(part, &mut on))?;
    reader.finish(&mut on)?;
    Ok(out)
}

/// Cuts change nothing; the document that is cut out has the size that was said, and is one.
pub fn sbdh(data: &[u8]) {
    let (piece, data) = pieces(data);
    let whole = envelope(data, data.len().max(1));
    let cut = envelope(data, piece);
    match (&whole, &cut) {
        (Ok(whole), Ok(cut)) => assert_eq!(whole, cut),
        (Err(_), Err(_)) => return,
        _ => panic!("as a whole {whole:?}, in pieces of {piece} {cut:?}"),
    }
    let Ok(sbd) = whole else { return };
    let out = document(&sbd, data, piece).expect("the envelope was read");
    assert_eq!(out.len() as u64, sbd.document_size);
    // Cut out of another encoding than UTF-8 the document does not say which.
    let is_utf8 = std::str::from_utf8(data).is_ok_and(|text| !text.contains("encoding"));
    if sbd.payload.form == PayloadForm::Xml && is_utf8 {
        let mut scanner = Scanner::new(ScanLimits::DOCUMENT);
        let mut ignore = |_: ScanEvent<'_>| Ok::<(), ScanError>(());
        let fed = scanner.feed(&out, &mut ignore);
        assert_eq!(fed.and_then(|()| scanner.finish(&mut ignore)), Ok(()));
    }
}
