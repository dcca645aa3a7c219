//! Reads `wsse:Security` by fixed positions into values, with every algorithm checked, before any crypto.
//!
//! Tolerant about order, prefixes, attributes that say nothing, and what peers add (`peers` §2). Strict about
//! everything that is computed with: the closed lists of [`super::algorithms`], one signature, one key.

use crate::{
    model::{ContentId, Digest},
    wire::{
        soap::{
            Envelope,
            namespace::{DS, WSSE, WSU},
        },
        xml::{Document, NodeId},
    },
};

use super::{
    algorithms::{Canonicalization, DigestAlgorithm, SignatureAlgorithm, SignatureTransform},
    encryption::WrappedKey,
    error::{PolicyFault, SecurityError, SignatureFault},
};

mod encrypted;
mod read;
mod token;

pub(super) use encrypted::EncryptedPart;

/// XML encryption.
pub(super) const XENC: &str = "http://www.w3.org/2001/04/xmlenc#";
/// XML encryption 1.1.
pub(super) const XENC11: &str = "http://www.w3.org/2009/xmlenc11#";
/// InclusiveNamespaces of exclusive canonical XML.
pub(super) const EC: &str = "http://www.w3.org/2001/10/xml-exc-c14n#";

/// Most `ds:Reference` elements of a signature: Messaging, Body, 16 parts, and some in the Security header.
pub const REFERENCES_MAX: usize = 64;
/// Most prefixes in one PrefixList; real ones have four.
pub const PREFIX_LIST_MAX: usize = 64;

/// What the security header says; nothing of it is proven.
pub(super) struct SecurityHeader<'d> {
    pub(super) signature: SignatureElement<'d>,
    pub(super) key: Option<WrappedKey>,
    pub(super) encrypted: Vec<EncryptedPart>,
}

/// `ds:Signature`.
pub(super) struct SignatureElement<'d> {
    pub(super) signed_info: NodeId,
    pub(super) prefix_list: Vec<&'d str>,
    pub(super) references: Vec<Reference<'d>>,
    /// The decoded SignatureValue.
    pub(super) value: Vec<u8>,
    /// The DER form of the signer's certificate, out of its BinarySecurityToken.
    pub(super) certificate: Vec<u8>,
}

/// `ds:Reference`.
pub(super) struct Reference<'d> {
    pub(super) node: NodeId,
    pub(super) uri: &'d str,
    pub(super) target: Target,
    pub(super) prefix_list: Vec<&'d str>,
    pub(super) digest: Digest,
}

/// What a reference points at.
pub(super) enum Target {
    /// Messaging, Body, or a child of the Security header.
    Element(NodeId),
    /// A part of the package.
    Part(ContentId),
}

impl<'d> SecurityHeader<'d> {
    pub(super) fn read(envelope: &'d Envelope) -> Result<Self, SecurityError> {
        let document = envelope.document();
        let security = envelope.security().ok_or(PolicyFault::NoSecurity)?;
        let mut elements = Elements::default();
        for child in document.elements(security) {
            elements.take(document, child)?;
        }
        let signature = elements.signature.ok_or(PolicyFault::NotSigned)?;
        let key = elements.key.map(|key| encrypted::key(envelope, security, key)).transpose()?;
        let data = elements.data.iter();
        let encrypted = data
            .map(|&data| encrypted::part(envelope, elements.key, data))
            .collect::<Result<Vec<_>, PolicyFault>>()?;
        Ok(Self { signature: signature_element(envelope, security, signature)?, key, encrypted })
    }
}

/// The children of the Security header by kind.
#[derive(Default)]
struct Elements {
    signature: Option<NodeId>,
    key: Option<NodeId>,
    data: Vec<NodeId>,
    timestamp: Option<NodeId>,
}

impl Elements {
    fn take(&mut self, document: &Document, child: NodeId) -> Result<(), PolicyFault> {
        match (document.namespace(child), document.local_name(child)) {
            (DS, "Signature") => once(&mut self.signature, child, "ds:Signature"),
            (XENC, "EncryptedKey") => once(&mut self.key, child, "xenc:EncryptedKey"),
            // Not used: a stored envelope that is sent again would carry an expired one.
            (WSU, "Timestamp") => once(&mut self.timestamp, child, "wsu:Timestamp"),
            (XENC, "EncryptedData") => {
                self.data.push(child);
                Ok(())
            }
            // Tokens are found by the references to them; a bare list of references adds nothing to the key.
            (WSSE, "BinarySecurityToken") | (XENC, "ReferenceList") => Ok(()),
            (DS | XENC | XENC11 | WSSE, local) => Err(PolicyFault::Forbidden(local.to_owned())),
            _ => Ok(()),
        }
    }
}

fn once(place: &mut Option<NodeId>, node: NodeId, what: &'static str) -> Result<(), PolicyFault> {
    match place.replace(node) {
        None => Ok(()),
        Some(_) => Err(PolicyFault::Repeated(what)),
    }
}

fn signature_element(
    envelope: &Envelope,
    security: NodeId,
    signature: NodeId,
) -> Result<SignatureElement<'_>, SecurityError> {
    let document = envelope.document();
    let mut children = document.elements(signature);
    let signed_info = read::next(document, &mut children, DS, "SignedInfo")?;
    let value = read::next(document, &mut children, DS, "SignatureValue")?;
    let key_info = read::next(document, &mut children, DS, "KeyInfo")?;
    read::end(document, &mut children)?;
    let (prefix_list, references) = signed_info_content(envelope, security, signed_info)?;
    let token = token::signing_token(envelope, security, key_info)?;
    Ok(SignatureElement {
        signed_info,
        prefix_list,
        references,
        value: read::octets(document, value).ok_or(SignatureFault::Value)?,
        certificate: read::octets(document, token).ok_or(SignatureFault::Certificate)?,
    })
}

/// The PrefixList of the canonicalization, and the references.
fn signed_info_content(
    envelope: &Envelope,
    security: NodeId,
    signed_info: NodeId,
) -> Result<(Vec<&str>, Vec<Reference<'_>>), PolicyFault> {
    let document = envelope.document();
    let mut children = document.elements(signed_info);
    let canonicalization = read::next(document, &mut children, DS, "CanonicalizationMethod")?;
    let method = read::next(document, &mut children, DS, "SignatureMethod")?;
    read::algorithm(document, canonicalization, "canonicalization", Canonicalization::from_uri)?;
    read::algorithm(document, method, "signature", SignatureAlgorithm::from_uri)?;
    read::end(document, &mut document.elements(method))?;
    let prefix_list = read::prefix_list(document, canonicalization)?;
    let mut references = Vec::new();
    for node in children {
        if !document.is(node, DS, "Reference") {
            return Err(PolicyFault::Forbidden(document.local_name(node).to_owned()));
        }
        if references.len() == REFERENCES_MAX {
            return Err(PolicyFault::TooMany { what: "references in a signature", max: REFERENCES_MAX });
        }
        references.push(reference(envelope, security, node)?);
    }
    Ok((prefix_list, references))
}

fn reference(envelope: &Envelope, security: NodeId, node: NodeId) -> Result<Reference<'_>, PolicyFault> {
    let document = envelope.document();
    let uri = document.attribute(node, "", "URI").ok_or(PolicyFault::Missing("ds:Reference/@URI"))?;
    let target = target(envelope, security, uri)?;
    let mut children = document.elements(node);
    let transforms = read::next(document, &mut children, DS, "Transforms")?;
    let method = read::next(document, &mut children, DS, "DigestMethod")?;
    let value = read::next(document, &mut children, DS, "DigestValue")?;
    read::end(document, &mut children)?;
    let mut children = document.elements(transforms);
    let transform = read::next(document, &mut children, DS, "Transform")?;
    read::end(document, &mut children)?;
    let algorithm = read::algorithm(document, transform, "transform", SignatureTransform::from_uri)?;
    let prefix_list = match (&target, algorithm) {
        (Target::Element(_), SignatureTransform::Exclusive) => read::prefix_list(document, transform)?,
        (Target::Part(_), SignatureTransform::AttachmentContent) => {
            read::end(document, &mut document.elements(transform))?;
            Vec::new()
        }
        _ => return Err(PolicyFault::Reference(uri.to_owned())),
    };
    read::algorithm(document, method, "digest", DigestAlgorithm::from_uri)?;
    read::end(document, &mut document.elements(method))?;
    let digest = document.text(value).and_then(|text| Digest::from_base64(&text).ok());
    let digest = digest.ok_or(PolicyFault::Missing("a ds:DigestValue of 32 octets"))?;
    Ok(Reference { node, uri, target, prefix_list, digest })
}

/// `#id` of Messaging, Body or a child of the Security header, or `cid:`; nothing else.
fn target(envelope: &Envelope, security: NodeId, uri: &str) -> Result<Target, PolicyFault> {
    let refused = || PolicyFault::Reference(uri.to_owned());
    if let Some(cid) = uri.strip_prefix("cid:") {
        return ContentId::parse(cid).map(Target::Part).map_err(|_| refused());
    }
    let node = uri.strip_prefix('#').and_then(|id| envelope.by_id(id)).ok_or_else(refused)?;
    let may_be_signed = node == envelope.messaging()
        || node == envelope.body()
        || envelope.document().parent(node) == Some(security);
    if may_be_signed { Ok(Target::Element(node)) } else { Err(refused()) }
}
