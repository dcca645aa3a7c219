//! The SOAP 1.2 envelope: fixed positions for everything that is signed or acted upon.
//!
//! Signature wrapping lives from elements in places where a verifier finds them and a reader does not, or the
//! other way round. So an [`Envelope`] has exactly one Header and one Body, exactly one `eb:Messaging` in the
//! *whole* document and that a header block, and no two elements with one Id (`as4-wire` §10.1 and §10.2).

use std::collections::BTreeMap;

use super::xml::{Document, NodeId, NodeKind, XML_NAMESPACE};

/// Namespaces of an AS4 envelope (`as4-wire` §1.1).
pub mod namespace {
    /// SOAP 1.2.
    pub const SOAP12: &str = "http://www.w3.org/2003/05/soap-envelope";
    /// SOAP 1.1, recognised to be refused by its own fault.
    pub const SOAP11: &str = "http://schemas.xmlsoap.org/soap/envelope/";
    /// ebMS 3.0; the slash at its end belongs to it.
    pub const EBMS: &str = "http://docs.oasis-open.org/ebxml-msg/ebms/v3.0/ns/core/200704/";
    /// ebBP signals: NonRepudiationInformation.
    pub const EBBP: &str = "http://docs.oasis-open.org/ebxml-bp/ebbp-signals-2.0";
    /// WS-Security 1.0.
    pub const WSSE: &str =
        "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd";
    /// WS-Security utility: `wsu:Id`.
    pub const WSU: &str =
        "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-utility-1.0.xsd";
    /// XML signature.
    pub const DS: &str = "http://www.w3.org/2000/09/xmldsig#";
}

use namespace::{EBMS, SOAP12, WSSE, WSU};

/// Roles that mean us (SOAP 1.2 Part 1 §2.2).
const OUR_ROLES: &[&str] = &[
    "http://www.w3.org/2003/05/soap-envelope/role/next",
    "http://www.w3.org/2003/05/soap-envelope/role/ultimateReceiver",
];
/// A role that `peppol-py` puts on `eb:Messaging`; it means nothing.
const DEFAULT_ROLE: &str = "http://docs.oasis-open.org/ebxml-msg/ebms/v3.0/ns/core/200704/defaultRole";

/// Why a document is no envelope that can be processed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SoapError {
    /// The root is no SOAP envelope.
    #[error("the root element is not a SOAP Envelope")]
    NotAnEnvelope,
    /// An envelope of another SOAP version: a `VersionMismatch` fault (SOAP 1.2 Part 1 §5.4.7).
    #[error("the envelope is not SOAP 1.2")]
    VersionMismatch,
    /// The children of Envelope are not Header and Body.
    #[error("Envelope must hold one Header and one Body and nothing else")]
    Structure,
    /// Another Body somewhere in the document.
    #[error("a second Body in the document")]
    SecondBody,
    /// A header block that we must but do not understand: a `MustUnderstand` fault (SOAP 1.2 Part 1 §5.4.8).
    #[error("header block {{{namespace}}}{local} must be understood")]
    MustUnderstand {
        /// Namespace name of the block.
        namespace: String,
        /// Local name of the block.
        local: String,
    },
    /// `mustUnderstand` is no xs:boolean.
    #[error("mustUnderstand of {0} is neither true nor false")]
    MustUnderstandValue(String),
    /// No `eb:Messaging` in Header.
    #[error("no eb:Messaging in Header")]
    NoMessaging,
    /// More than one `eb:Messaging` in the document, or one that is no header block.
    #[error("eb:Messaging other than the one in Header")]
    SecondMessaging,
    /// `eb:Messaging` is meant for another MSH.
    #[error("eb:Messaging is targeted at the role {0:?}: multi-hop is not supported")]
    MultiHop(String),
    /// More than one `wsse:Security` for us.
    #[error("a second wsse:Security without a role of its own")]
    SecondSecurity,
    /// Two elements with one Id.
    #[error("two elements have the Id {0:?}")]
    DuplicateId(String),
}

/// A SOAP 1.2 envelope whose parts stand where they must. It owns the one tree that the signature is
/// verified on and the header is read from.
#[derive(Debug)]
pub struct Envelope {
    document: Document,
    header: NodeId,
    body: NodeId,
    messaging: NodeId,
    security: Option<NodeId>,
    ids: BTreeMap<String, NodeId>,
}

impl Envelope {
    /// Finds the parts of an envelope.
    ///
    /// # Errors
    /// When a part is missing, misplaced or there twice, two elements share an Id, a header block must be
    /// understood and is not, or the envelope is meant for another MSH.
    pub fn read(document: Document) -> Result<Self, SoapError> {
        let (header, body) = structure(&document)?;
        let security = header_blocks(&document, header)?;
        let messaging = messaging(&document, header)?;
        let ids = ids(&document)?;
        Ok(Self { document, header, body, messaging, security, ids })
    }

    /// The tree.
    #[must_use]
    pub const fn document(&self) -> &Document {
        &self.document
    }

    /// `S12:Header`.
    #[must_use]
    pub const fn header(&self) -> NodeId {
        self.header
    }

    /// `S12:Body`.
    #[must_use]
    pub const fn body(&self) -> NodeId {
        self.body
    }

    /// The only `eb:Messaging`.
    #[must_use]
    pub const fn messaging(&self) -> NodeId {
        self.messaging
    }

    /// The `wsse:Security` that is meant for us.
    #[must_use]
    pub const fn security(&self) -> Option<NodeId> {
        self.security
    }

    /// The only element with this Id, given by `wsu:Id`, `Id`, `id`, `ID` or `xml:id`.
    #[must_use]
    pub fn by_id(&self, id: &str) -> Option<NodeId> {
        self.ids.get(id).copied()
    }

    /// Whether Body holds nothing but white space and comments.
    #[must_use]
    pub fn body_is_empty(&self) -> bool {
        self.document.children(self.body).all(|node| is_blank(&self.document, node))
    }
}

/// Whether a node is white space, a comment or a processing instruction.
pub(super) fn is_blank(document: &Document, node: NodeId) -> bool {
    match document.kind(node) {
        NodeKind::Text => document.raw_text(node).bytes().all(|b| matches!(b, b' ' | b'\t' | b'\r' | b'\n')),
        NodeKind::Element => false,
        NodeKind::Document | NodeKind::Comment | NodeKind::ProcessingInstruction => true,
    }
}

/// Header and Body: the only children of Envelope, in that order.
fn structure(document: &Document) -> Result<(NodeId, NodeId), SoapError> {
    let root = document.root();
    if document.local_name(root) != "Envelope" {
        return Err(SoapError::NotAnEnvelope);
    }
    if document.namespace(root) != SOAP12 {
        return Err(SoapError::VersionMismatch);
    }
    let mut parts = document.children(root).filter(|node| !is_blank(document, *node));
    let (Some(header), Some(body), None) = (parts.next(), parts.next(), parts.next()) else {
        return Err(SoapError::Structure);
    };
    if !document.is(header, SOAP12, "Header") || !document.is(body, SOAP12, "Body") {
        return Err(SoapError::Structure);
    }
    if document.descendants(root).any(|node| node != body && document.is(node, SOAP12, "Body")) {
        return Err(SoapError::SecondBody);
    }
    Ok((header, body))
}

/// Whom a header block is meant for.
enum Target {
    Us,
    Other(String),
}

fn target(document: &Document, block: NodeId) -> Target {
    match document.attribute(block, SOAP12, "role") {
        None => Target::Us,
        Some(role) if OUR_ROLES.contains(&role.trim()) => Target::Us,
        Some(role) => Target::Other(role.trim().to_owned()),
    }
}

fn must_understand(document: &Document, block: NodeId) -> Result<bool, SoapError> {
    match document.attribute(block, SOAP12, "mustUnderstand").map(str::trim) {
        None | Some("false" | "0") => Ok(false),
        Some("true" | "1") => Ok(true),
        Some(_) => Err(SoapError::MustUnderstandValue(document.local_name(block).to_owned())),
    }
}

/// Looks at every header block: finds our Security and refuses what we must understand and do not.
fn header_blocks(document: &Document, header: NodeId) -> Result<Option<NodeId>, SoapError> {
    let mut security = None;
    for block in document.elements(header) {
        let must = must_understand(document, block)?;
        if document.is(block, EBMS, "Messaging") || matches!(target(document, block), Target::Other(_)) {
            continue;
        }
        if document.is(block, WSSE, "Security") {
            if security.replace(block).is_some() {
                return Err(SoapError::SecondSecurity);
            }
        } else if must {
            return Err(SoapError::MustUnderstand {
                namespace: document.namespace(block).to_owned(),
                local: document.local_name(block).to_owned(),
            });
        }
    }
    Ok(security)
}

/// The one `eb:Messaging` of the document.
fn messaging(document: &Document, header: NodeId) -> Result<NodeId, SoapError> {
    let mut all = document.descendants(document.root()).filter(|node| document.is(*node, EBMS, "Messaging"));
    let first = all.next().ok_or(SoapError::NoMessaging)?;
    if all.next().is_some() || document.parent(first) != Some(header) {
        return Err(SoapError::SecondMessaging);
    }
    match target(document, first) {
        Target::Other(role) if role != DEFAULT_ROLE => Err(SoapError::MultiHop(role)),
        Target::Us | Target::Other(_) => Ok(first),
    }
}

/// Every Id of the document. One element may repeat its own, two elements may not share one.
fn ids(document: &Document) -> Result<BTreeMap<String, NodeId>, SoapError> {
    let mut ids = BTreeMap::new();
    for node in document.descendants(document.root()) {
        for attribute in document.attributes(node) {
            let names_an_id = matches!(
                (attribute.namespace, attribute.local),
                (WSU, "Id") | ("", "Id" | "id" | "ID") | (XML_NAMESPACE, "id")
            );
            if !names_an_id {
                continue;
            }
            let other = ids.insert(attribute.value.to_owned(), node);
            if other.is_some_and(|other| other != node) {
                return Err(SoapError::DuplicateId(attribute.value.to_owned()));
            }
        }
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::xml::XmlLimits;

    fn read(envelope: &str) -> Result<Envelope, SoapError> {
        Envelope::read(Document::parse(envelope.as_bytes(), &XmlLimits::SOAP).unwrap())
    }

    /// An envelope with these header blocks and this content behind Header.
    fn envelope(blocks: &str, behind: &str) -> Result<Envelope, SoapError> {
        read(&format!(
            "<S:Envelope xmlns:S='{SOAP12}' xmlns:eb='{EBMS}' xmlns:wsse='{WSSE}' xmlns:wsu='{WSU}'>\n \
             <S:Header>{blocks}</S:Header> {behind}</S:Envelope>"
        ))
    }

    const MESSAGING: &str = "<eb:Messaging wsu:Id='m'/>";

    fn check(blocks: &str, expected: Option<&SoapError>) {
        assert_eq!(envelope(blocks, "<S:Body wsu:Id='b'/>").err().as_ref(), expected, "{blocks}");
    }

    #[test]
    fn the_parts_are_found_where_they_stand() {
        let read =
            envelope(&format!("<wsse:Security/>{MESSAGING}"), "<S:Body wsu:Id='b'> <!-- x --></S:Body>");
        let read = read.unwrap();
        let document = read.document();
        assert!(document.is(read.header(), SOAP12, "Header"));
        assert_eq!(read.by_id("b"), Some(read.body()));
        assert_eq!(read.by_id("m"), Some(read.messaging()));
        assert!(read.security().is_some_and(|node| document.is(node, WSSE, "Security")));
        assert_eq!(read.by_id("x"), None);
        assert!(read.body_is_empty());
    }

    #[test]
    fn only_a_blank_body_counts_as_empty() {
        for (content, empty) in
            [("", true), (" \n\t", true), ("x", false), ("<a/>", false), ("&#xA0;", false)]
        {
            let read = envelope(MESSAGING, &format!("<S:Body>{content}</S:Body>")).unwrap();
            assert_eq!(read.body_is_empty(), empty, "{content}");
        }
    }

    #[test]
    fn other_roots_and_versions_are_refused() {
        assert_eq!(read("<a/>").err(), Some(SoapError::NotAnEnvelope));
        let soap11 = format!("<S:Envelope xmlns:S='{}'/>", namespace::SOAP11);
        assert_eq!(read(&soap11).err(), Some(SoapError::VersionMismatch));
        assert_eq!(read("<Envelope/>").err(), Some(SoapError::VersionMismatch));
    }

    #[test]
    fn envelope_holds_header_and_body_and_nothing_else() {
        for behind in ["", "<S:Body/><S:Body/>", "<S:Body/><a/>", "text<S:Body/>", "<S:Header/>", "<Body/>"] {
            assert_eq!(envelope(MESSAGING, behind).err(), Some(SoapError::Structure), "{behind}");
        }
        let nested = envelope(&format!("{MESSAGING}<a><S:Body/></a>"), "<S:Body/>");
        assert_eq!(nested.err(), Some(SoapError::SecondBody));
    }

    #[test]
    fn messaging_is_one_header_block_wherever_another_hides() {
        check(MESSAGING, None);
        check("", Some(&SoapError::NoMessaging));
        for blocks in [
            "<eb:Messaging/><eb:Messaging/>",
            "<eb:Messaging/><a><eb:Messaging/></a>",
            "<eb:Messaging><eb:Messaging/></eb:Messaging>",
            "<a><eb:Messaging/></a>",
        ] {
            check(blocks, Some(&SoapError::SecondMessaging));
        }
        let behind = envelope(MESSAGING, "<S:Body><eb:Messaging/></S:Body>");
        assert_eq!(behind.err(), Some(SoapError::SecondMessaging));
    }

    #[test]
    fn roles_other_than_ours_are_multi_hop() {
        for role in [OUR_ROLES[0], OUR_ROLES[1], DEFAULT_ROLE] {
            check(&format!("<eb:Messaging S:role='{role}'/>"), None);
        }
        check("<eb:Messaging S:role='urn:x'/>", Some(&SoapError::MultiHop("urn:x".into())));
    }

    #[test]
    fn what_must_be_understood_and_is_not_is_refused_when_it_is_meant_for_us() {
        let with = |attributes: &str| format!("{MESSAGING}<a xmlns='urn:a' {attributes}/>");
        let refused = SoapError::MustUnderstand { namespace: "urn:a".into(), local: "a".into() };
        for attributes in ["", "S:mustUnderstand='false'", "S:mustUnderstand='0'", "mustUnderstand='1'"] {
            check(&with(attributes), None);
        }
        check(&with("S:mustUnderstand='1' S:role='urn:other'"), None);
        check(&with("S:mustUnderstand='true'"), Some(&refused));
        check(&with(&format!("S:mustUnderstand=' 1 ' S:role='{}'", OUR_ROLES[0])), Some(&refused));
        check(&with("S:mustUnderstand='yes'"), Some(&SoapError::MustUnderstandValue("a".into())));
        let holodeck = format!(
            "<eb:Messaging xmlns:mustUnderstand='{SOAP12}' mustUnderstand:mustUnderstand='true'/>\
             <wsse:Security S:mustUnderstand='true'/>"
        );
        check(&holodeck, None);
    }

    #[test]
    fn a_second_security_is_refused_unless_it_is_for_another_role() {
        check(&format!("{MESSAGING}<wsse:Security/><wsse:Security S:role='ebms'/>"), None);
        let twice = format!("{MESSAGING}<wsse:Security/><wsse:Security S:role='{}'/>", OUR_ROLES[1]);
        check(&twice, Some(&SoapError::SecondSecurity));
    }

    #[test]
    fn no_two_elements_share_an_id_in_any_spelling() {
        for spelling in ["wsu:Id", "Id", "id", "ID", "xml:id"] {
            let blocks = format!("{MESSAGING}<a {spelling}='m'/>");
            check(&blocks, Some(&SoapError::DuplicateId("m".into())));
        }
        check("<eb:Messaging wsu:Id='m' id='m'/>", None);
        check(&format!("{MESSAGING}<a eb:Id='m' name='m'/>"), None);
    }
}
