//! The inner form of document type identifiers, and the wildcard match (Peppol PFUOI §5.1.2).

use crate::model::{DocumentTypeId, IdError, ParticipantId, ProcessId};

/// The only scheme of participants.
pub const PARTICIPANT_SCHEME: &str = "iso6523-actorid-upis";
/// The scheme of document types that are matched exactly.
pub const DOCTYPE_EXACT: &str = "busdox-docid-qns";
/// The scheme of document types whose customization may end in `*`.
pub const DOCTYPE_WILDCARD: &str = "peppol-doctype-wildcard";
/// The scheme of processes.
pub const PROCESS_SCHEME: &str = "cenbii-procid-ubl";
/// What tells that a document type without scheme is a wildcard one.
const PINT: &str = "##urn:peppol:pint:";

/// A document type value taken apart: `<syntax>##<customization>::<version>`. The syntax of XML documents
/// is `<namespace>::<root>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DocumentTypeParts<'a> {
    /// What stands before the first `##`.
    pub syntax: &'a str,
    /// Between `##` and the last `::`.
    pub customization: &'a str,
    /// After the last `::`.
    pub version: &'a str,
}

impl<'a> DocumentTypeParts<'a> {
    /// Takes a value apart: at the first `##` and, after it, at the last `::` (Peppol PFUOI §5.1).
    #[must_use]
    pub fn of(value: &'a str) -> Option<Self> {
        let (syntax, rest) = value.split_once("##")?;
        let (customization, version) = rest.rsplit_once("::")?;
        let complete = !syntax.is_empty() && !customization.is_empty() && !version.is_empty();
        complete.then_some(Self { syntax, customization, version })
    }
}

/// Splits `scheme::value` off, where there is a scheme: what stands before the first `::` and has no colon.
fn scheme_of(text: &str) -> Option<(&str, &str)> {
    text.split_once("::").filter(|(scheme, _)| !scheme.is_empty() && !scheme.contains(':'))
}

/// Reads a document type with or without its scheme. Without, PINT types are wildcard ones and all others
/// exact ones (Peppol PFUOI §5.1.2).
///
/// # Errors
/// When the value or its scheme is no identifier.
pub fn document_type(text: &str) -> Result<DocumentTypeId, IdError> {
    match scheme_of(text) {
        Some((scheme, value)) => DocumentTypeId::new(scheme, value),
        None if text.contains(PINT) => DocumentTypeId::new(DOCTYPE_WILDCARD, text),
        None => DocumentTypeId::new(DOCTYPE_EXACT, text),
    }
}

/// Reads a process with or without its scheme.
///
/// # Errors
/// When the value or its scheme is no identifier.
pub fn process(text: &str) -> Result<ProcessId, IdError> {
    match scheme_of(text) {
        Some((scheme, value)) => ProcessId::new(scheme, value),
        None => ProcessId::new(PROCESS_SCHEME, text),
    }
}

/// Reads a participant: four digits, a colon and a value, in the only scheme (Peppol PFUOI §4).
///
/// # Errors
/// When the scheme is another, or the value has no ICD.
pub fn participant(scheme: &str, value: &str) -> Result<ParticipantId, IdError> {
    let shape = IdError::Shape { kind: "participant", shape: "iso6523-actorid-upis::0000:value" };
    let coded = value.split_once(':').is_some_and(|(icd, rest)| {
        icd.len() == 4 && icd.bytes().all(|b| b.is_ascii_digit()) && !rest.is_empty()
    });
    if scheme == PARTICIPANT_SCHEME && coded { ParticipantId::new(scheme, value) } else { Err(shape) }
}

/// Finds what is registered for a document type: exactly, or in the wildcard scheme by cutting the
/// customization back, `…@a@b`, `…@a@b*`, `…@a*`, `…*` (Peppol PFUOI §5.1.2). Gives the place in `registered`.
#[must_use]
pub fn find_match(searched: &DocumentTypeId, registered: &[DocumentTypeId]) -> Option<usize> {
    if searched.scheme() != DOCTYPE_WILDCARD {
        return registered.iter().position(|candidate| candidate == searched);
    }
    let parts = DocumentTypeParts::of(searched.value())?;
    let customization = parts.customization.trim_end_matches('*');
    if customization.contains('*') {
        return None;
    }
    let find = |customization: &str| {
        let value = format!("{}##{customization}::{}", parts.syntax, parts.version);
        registered
            .iter()
            .position(|candidate| candidate.scheme() == DOCTYPE_WILDCARD && candidate.value() == value)
    };
    let mut rest = customization;
    let mut found = find(rest).or_else(|| find(&format!("{rest}*")));
    while let (None, Some((shorter, _))) = (found, rest.rsplit_once('@')) {
        rest = shorter;
        found = find(&format!("{rest}*"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNTAX: &str = "urn:oasis:names:specification:ubl:schema:xsd:Invoice-2::Invoice";

    fn pint(customization: &str) -> DocumentTypeId {
        document_type(&format!("{SYNTAX}##urn:peppol:pint:{customization}::2.1")).unwrap()
    }

    #[test]
    fn takes_document_types_apart() {
        let value = format!("{SYNTAX}##urn:cen.eu:en16931:2017#compliant#urn:fdc:x:3.0::2.1");
        let parts = DocumentTypeParts::of(&value).unwrap();
        assert_eq!(parts.syntax, SYNTAX);
        assert_eq!(parts.customization, "urn:cen.eu:en16931:2017#compliant#urn:fdc:x:3.0");
        assert_eq!(parts.version, "2.1");
        for wrong in ["", "a::b", "a##b", "##b::1", "a##::1", "a##b::"] {
            assert_eq!(DocumentTypeParts::of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_missing_scheme_is_filled_in() {
        assert_eq!(pint("billing-1").scheme(), DOCTYPE_WILDCARD);
        let exact = format!("{SYNTAX}##urn:cen.eu::2.1");
        assert_eq!(document_type(&exact).unwrap().scheme(), DOCTYPE_EXACT);
        let said = format!("other-scheme::{exact}");
        assert_eq!(document_type(&said).unwrap().scheme(), "other-scheme");
        assert_eq!(process("urn:peppol:bis:billing").unwrap().scheme(), PROCESS_SCHEME);
        assert_eq!(process("x::urn:peppol:bis:billing").unwrap().scheme(), "x");
    }

    #[test]
    fn participants_have_an_icd() {
        assert!(participant(PARTICIPANT_SCHEME, "0192:974760673").is_ok());
        for wrong in ["974760673", "192:1", "0192:", "01 2:1", ":1", ""] {
            assert!(participant(PARTICIPANT_SCHEME, wrong).is_err(), "{wrong}");
        }
        assert!(participant("other", "0192:974760673").is_err());
    }

    #[test]
    fn a_wildcard_type_finds_the_longest_registration() {
        let all = ["billing-1*", "billing-1@ae-1*", "billing-1@ae-1@x*", "billing-1@ae-1@x"].map(pint);
        let searched = pint("billing-1@ae-1@x");
        for found in (0..all.len()).rev() {
            assert_eq!(find_match(&searched, &all[..=found]), Some(found));
        }
        assert_eq!(find_match(&searched, &[]), None);
        assert_eq!(find_match(&pint("billing-1@ae-1@x*"), &all), Some(3));
    }

    #[test]
    fn what_a_wildcard_does_not_match() {
        let registered = [pint("billing-1@ae-1*")];
        for searched in ["billing-1", "billing-1@jp-1", "billing-1@ae-10", "bill*ing-1@ae-1", "billing-1@ae"]
        {
            assert_eq!(find_match(&pint(searched), &registered), None, "{searched}");
        }
        let other_version = document_type(&format!("{SYNTAX}##urn:peppol:pint:billing-1@ae-1::2.2")).unwrap();
        assert_eq!(find_match(&other_version, &registered), None);
        let exact_scheme = DocumentTypeId::new(DOCTYPE_EXACT, pint("billing-1@ae-1").value()).unwrap();
        assert_eq!(find_match(&exact_scheme, &registered), None);
        let literal = DocumentTypeId::new(DOCTYPE_EXACT, registered[0].value()).unwrap();
        assert_eq!(find_match(&pint("billing-1@ae-1"), &[literal]), None);
    }
}
