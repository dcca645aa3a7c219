//! References from a `ds:KeyInfo` to a certificate.

use crate::{
    security::{
        algorithms::{KeyIdentifierType, TokenEncoding, TokenType},
        error::PolicyFault,
        key::KeyName,
    },
    wire::{
        soap::{
            Envelope,
            namespace::{DS, WSSE},
        },
        xml::{Document, NodeId},
    },
};

use super::read;

/// The BinarySecurityToken of the signer: the only form that the profile allows (Peppol AS4 §3.2; no SKI,
/// no issuer and serial).
pub(super) fn signing_token(
    envelope: &Envelope,
    security: NodeId,
    key_info: NodeId,
) -> Result<NodeId, PolicyFault> {
    let document = envelope.document();
    let reference = only(document, key_info, WSSE, "SecurityTokenReference")
        .and_then(|reference| only(document, reference, WSSE, "Reference"))
        .ok_or(PolicyFault::SigningToken("no direct reference"))?;
    binary_token(envelope, security, reference).map_err(PolicyFault::SigningToken)
}

/// Whom an EncryptedKey is for. Every form that can name a certificate of ours is taken (`as4-wire` §5.3).
pub(super) fn recipient(
    envelope: &Envelope,
    security: NodeId,
    key_info: NodeId,
) -> Result<KeyName, PolicyFault> {
    let document = envelope.document();
    let missing = PolicyFault::Missing("a reference to the recipient's certificate");
    let data = match only(document, key_info, WSSE, "SecurityTokenReference") {
        None => only(document, key_info, DS, "X509Data"),
        Some(reference) => {
            if let Some(direct) = only(document, reference, WSSE, "Reference") {
                let token = binary_token(envelope, security, direct).map_err(PolicyFault::Missing)?;
                return read::octets(document, token).map(KeyName::Certificate).ok_or(missing);
            }
            if let Some(identifier) = only(document, reference, WSSE, "KeyIdentifier") {
                return key_identifier(document, identifier).ok_or(missing);
            }
            only(document, reference, DS, "X509Data")
        }
    };
    data.and_then(|data| issuer_serial(document, data)).ok_or(missing)
}

fn key_identifier(document: &Document, node: NodeId) -> Option<KeyName> {
    let octets = read::octets(document, node)?;
    Some(match KeyIdentifierType::from_uri(document.attribute(node, "", "ValueType")?)? {
        KeyIdentifierType::SubjectKeyIdentifier => KeyName::SubjectKeyIdentifier(octets),
        KeyIdentifierType::ThumbprintSha1 => KeyName::ThumbprintSha1(octets),
    })
}

fn issuer_serial(document: &Document, data: NodeId) -> Option<KeyName> {
    let pair = only(document, data, DS, "X509IssuerSerial")?;
    let mut children = document.elements(pair);
    let issuer = read::next(document, &mut children, DS, "X509IssuerName").ok()?;
    let serial = read::next(document, &mut children, DS, "X509SerialNumber").ok()?;
    read::end(document, &mut children).ok()?;
    Some(KeyName::IssuerSerial {
        issuer: document.text(issuer)?.into_owned(),
        serial: document.text(serial)?.into_owned(),
    })
}

/// The token that a `wsse:Reference` points at: unique by its Id, a child of the same Security header, one
/// X.509 certificate in base64.
fn binary_token(envelope: &Envelope, security: NodeId, reference: NodeId) -> Result<NodeId, &'static str> {
    let document = envelope.document();
    let uri = document.attribute(reference, "", "URI").and_then(|uri| uri.strip_prefix('#'));
    let token = uri.and_then(|id| envelope.by_id(id)).ok_or("the reference points at nothing")?;
    if !document.is(token, WSSE, "BinarySecurityToken") || document.parent(token) != Some(security) {
        return Err("the reference points at no BinarySecurityToken of the same Security header");
    }
    let value_type = |node| document.attribute(node, "", "ValueType");
    let is_x509 = |uri| TokenType::from_uri(uri).is_some();
    if !value_type(token).is_some_and(is_x509) || !value_type(reference).is_none_or(is_x509) {
        return Err("the BinarySecurityToken is not of type X509v3");
    }
    if document.attribute(token, "", "EncodingType").and_then(TokenEncoding::from_uri).is_none() {
        return Err("the BinarySecurityToken is not declared as base64");
    }
    Ok(token)
}

/// The only child element, when it is this one.
pub(super) fn only(document: &Document, parent: NodeId, namespace: &str, local: &str) -> Option<NodeId> {
    let mut children = document.elements(parent);
    let first = children.next()?;
    (children.next().is_none() && document.is(first, namespace, local)).then_some(first)
}
