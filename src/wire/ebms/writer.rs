//! Writing `eb:Messaging` of signals as canonical bytes: their digest can be taken as they are.
//!
//! The exclusive canonical form decides the spelling: namespace declarations first, by prefix; then attributes
//! by namespace name and local name, so `wsu:Id` (`http://docs…`) stands before `S12:mustUnderstand`
//! (`http://www…`); no empty-element tags. What is written here is the form of `eb:Messaging` *standing alone*;
//! inside an Envelope that declares `S12` the canonical form of the whole lacks [`S12_DECLARATION`].

use std::fmt::Write as _;

use crate::{
    model::{EbmsError, SignalMessage},
    wire::{
        c14n,
        soap::namespace::{EBBP, EBMS, SOAP12, WSU},
        xml::{Document, XmlLimits},
    },
};

/// How `eb:Messaging` standing alone declares the prefix of the envelope: its first declaration.
pub const S12_DECLARATION: &str = " xmlns:S12=\"http://www.w3.org/2003/05/soap-envelope\"";

/// The canonical bytes of `eb:Messaging` with a Receipt (AS4 §5.1.8). `references` are the `ds:Reference`
/// elements of the message's SignedInfo, each as canonical XML standing alone, in their order: they are copied
/// whole. `wsu_id` is an `NCName`.
#[must_use]
pub fn write_receipt_messaging(signal: &SignalMessage, wsu_id: &str, references: &[String]) -> String {
    let mut out = begin(signal, wsu_id);
    out.push_str("<eb:Receipt>");
    let _ = write!(out, "<ebbp:NonRepudiationInformation xmlns:ebbp=\"{EBBP}\">");
    for reference in references {
        out.push_str("<ebbp:MessagePartNRInformation>");
        out.push_str(reference);
        out.push_str("</ebbp:MessagePartNRInformation>");
    }
    out.push_str("</ebbp:NonRepudiationInformation></eb:Receipt>");
    end(&mut out);
    if references.iter().any(|reference| redeclares(reference)) { canonical(out) } else { out }
}

/// The canonical bytes of `eb:Messaging` with the errors of `signal` (ebMS3 Core §6.2). All errors are about
/// the message that the signal refers to, when it refers to one.
#[must_use]
pub fn write_error_messaging(signal: &SignalMessage, wsu_id: &str) -> String {
    let mut out = begin(signal, wsu_id);
    for error in &signal.errors {
        write_error(&mut out, signal, error);
    }
    end(&mut out);
    out
}

fn begin(signal: &SignalMessage, wsu_id: &str) -> String {
    let mut out = String::with_capacity(4096);
    let _ = write!(out, "<eb:Messaging{S12_DECLARATION} xmlns:eb=\"{EBMS}\" xmlns:wsu=\"{WSU}\" wsu:Id=\"");
    push_attribute(&mut out, wsu_id);
    out.push_str("\" S12:mustUnderstand=\"true\"><eb:SignalMessage><eb:MessageInfo>");
    element(&mut out, "Timestamp", &signal.timestamp.to_string());
    element(&mut out, "MessageId", signal.message_id.as_str());
    if let Some(id) = &signal.ref_to_message_id {
        element(&mut out, "RefToMessageId", id.as_str());
    }
    out.push_str("</eb:MessageInfo>");
    out
}

fn end(out: &mut String) {
    out.push_str("</eb:SignalMessage></eb:Messaging>");
}

fn write_error(out: &mut String, signal: &SignalMessage, error: &EbmsError) {
    let code = error.code;
    let _ = write!(
        out,
        "<eb:Error category=\"{}\" errorCode=\"{code}\" origin=\"{}\"",
        code.category().as_str(),
        code.origin().as_str()
    );
    if let Some(id) = &signal.ref_to_message_id {
        out.push_str(" refToMessageInError=\"");
        push_attribute(out, id.as_str());
        out.push('"');
    }
    let (severity, short) = (code.severity().as_str(), code.short_description());
    let _ = write!(out, " severity=\"{severity}\" shortDescription=\"{short}\">");
    // The schema demands a language and some text; phase4 cannot read an error without them.
    let description = line(&error.description);
    out.push_str("<eb:Description xml:lang=\"en\">");
    push_text(out, if description.is_empty() { short } else { &description });
    out.push_str("</eb:Description>");
    if let Some(detail) = &error.detail {
        element(out, "ErrorDetail", &line(detail));
    }
    out.push_str("</eb:Error>");
}

fn element(out: &mut String, local: &str, text: &str) {
    let _ = write!(out, "<eb:{local}>");
    push_text(out, text);
    let _ = write!(out, "</eb:{local}>");
}

/// One line of text: white space collapsed as in a schema's token, characters that XML cannot carry replaced.
fn line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ").chars().map(|c| if is_char(c) { c } else { '\u{FFFD}' }).collect()
}

/// `Char` of XML §2.2, for what is no surrogate anyway.
const fn is_char(c: char) -> bool {
    !matches!(c, '\0'..='\u{8}' | '\u{B}' | '\u{C}' | '\u{E}'..='\u{1F}' | '\u{FFFE}' | '\u{FFFF}')
}

/// Text in canonical form (Canonical XML §2.3).
fn push_text(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\r' => out.push_str("&#xD;"),
            _ => out.push(c),
        }
    }
}

/// An attribute value in canonical form (Canonical XML §2.3).
fn push_attribute(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '"' => out.push_str("&quot;"),
            '\t' => out.push_str("&#x9;"),
            '\n' => out.push_str("&#xA;"),
            '\r' => out.push_str("&#xD;"),
            _ => out.push(c),
        }
    }
}

/// Whether a copied reference declares what is declared above it already: then it is not canonical in here.
fn redeclares(reference: &str) -> bool {
    [("S12", SOAP12), ("eb", EBMS), ("wsu", WSU), ("ebbp", EBBP)]
        .iter()
        .any(|(prefix, uri)| reference.contains(&format!("xmlns:{prefix}=\"{uri}\"")))
}

fn canonical(messaging: String) -> String {
    let mut out = Vec::with_capacity(messaging.len());
    let Ok(document) = Document::parse(messaging.as_bytes(), &XmlLimits::SOAP) else {
        return messaging;
    };
    c14n::exclusive(&document, document.root(), &[], &mut out);
    String::from_utf8(out).unwrap_or(messaging)
}
