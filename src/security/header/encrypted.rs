//! `xenc:EncryptedKey` and `xenc:EncryptedData`.

use crate::{
    model::ContentId,
    security::{
        algorithms::{
            CipherTransform, DataEncryption, DigestAlgorithm, EncryptionType, KeyTransport, MaskGeneration,
        },
        encryption::WrappedKey,
        error::PolicyFault,
    },
    wire::{
        soap::{
            Envelope,
            namespace::{DS, WSSE},
        },
        xml::{Document, NodeId},
    },
};

use super::{XENC, XENC11, read, token};

/// A part that is said to be encrypted.
pub(in crate::security) struct EncryptedPart {
    pub(in crate::security) cid: ContentId,
    /// `@MimeType`: the media type before encryption; empty when it is missing.
    pub(in crate::security) media_type: String,
}

/// Reads the EncryptedKey.
pub(super) fn key(envelope: &Envelope, security: NodeId, key: NodeId) -> Result<WrappedKey, PolicyFault> {
    let document = envelope.document();
    let mut children = document.elements(key);
    let method = read::next(document, &mut children, XENC, "EncryptionMethod")?;
    let key_info = read::next(document, &mut children, DS, "KeyInfo")?;
    let cipher_data = read::next(document, &mut children, XENC, "CipherData")?;
    oaep(document, method)?;
    let recipient = token::recipient(envelope, security, key_info)?;
    let value = token::only(document, cipher_data, XENC, "CipherValue")
        .ok_or(PolicyFault::Missing("xenc:CipherValue"))?;
    // What is no base64 opens as little as what is no ciphertext, and shows at the same place.
    let octets = read::octets(document, value).unwrap_or_default();
    Ok(WrappedKey { recipient, octets })
}

/// RSA-OAEP with SHA-256 and MGF1 with SHA-256, both written out: the defaults of XML-Enc are SHA-1.
fn oaep(document: &Document, method: NodeId) -> Result<(), PolicyFault> {
    read::algorithm(document, method, "key transport", KeyTransport::from_uri)?;
    let (mut digests, mut masks) = (0, 0);
    for child in document.elements(method) {
        if document.is(child, DS, "DigestMethod") {
            read::algorithm(document, child, "key transport digest", DigestAlgorithm::from_uri)?;
            digests += 1;
        } else if document.is(child, XENC11, "MGF") {
            read::algorithm(document, child, "key transport mask", MaskGeneration::from_uri)?;
            masks += 1;
        } else {
            return Err(PolicyFault::Forbidden(document.local_name(child).to_owned()));
        }
    }
    match (digests, masks) {
        (1, 1) => Ok(()),
        (0, _) | (_, 0) => Err(PolicyFault::Missing("DigestMethod and MGF of rsa-oaep")),
        _ => Err(PolicyFault::Repeated("DigestMethod or MGF of rsa-oaep")),
    }
}

/// Reads an EncryptedData.
pub(super) fn part(
    envelope: &Envelope,
    key: Option<NodeId>,
    data: NodeId,
) -> Result<EncryptedPart, PolicyFault> {
    let document = envelope.document();
    let data_type = document.attribute(data, "", "Type").unwrap_or("(none)");
    if EncryptionType::from_uri(data_type).is_none() {
        return Err(PolicyFault::Algorithm { role: "encryption type", algorithm: data_type.to_owned() });
    }
    let mut children = document.elements(data);
    let method = read::next(document, &mut children, XENC, "EncryptionMethod")?;
    let key_info = read::next(document, &mut children, DS, "KeyInfo")?;
    let cipher_data = read::next(document, &mut children, XENC, "CipherData")?;
    read::end(document, &mut children)?;
    read::algorithm(document, method, "data encryption", DataEncryption::from_uri)?;
    if key.is_none() || referenced_key(envelope, key_info) != key {
        return Err(PolicyFault::Missing("a reference to the xenc:EncryptedKey"));
    }
    let reference = token::only(document, cipher_data, XENC, "CipherReference")
        .ok_or(PolicyFault::Missing("xenc:CipherReference"))?;
    cipher_transform(document, reference)?;
    let uri = document.attribute(reference, "", "URI").unwrap_or_default();
    let cid = uri.strip_prefix("cid:").and_then(|cid| ContentId::parse(cid).ok());
    Ok(EncryptedPart {
        cid: cid.ok_or_else(|| PolicyFault::Reference(uri.to_owned()))?,
        media_type: document.attribute(data, "", "MimeType").unwrap_or_default().to_owned(),
    })
}

/// The element that `KeyInfo/SecurityTokenReference/Reference` points at. Its `TokenType` is not looked at:
/// peers put it into several namespaces.
fn referenced_key(envelope: &Envelope, key_info: NodeId) -> Option<NodeId> {
    let document = envelope.document();
    let reference = token::only(document, key_info, WSSE, "SecurityTokenReference")?;
    let direct = token::only(document, reference, WSSE, "Reference")?;
    envelope.by_id(document.attribute(direct, "", "URI")?.strip_prefix('#')?)
}

fn cipher_transform(document: &Document, reference: NodeId) -> Result<(), PolicyFault> {
    let transform = token::only(document, reference, XENC, "Transforms")
        .and_then(|transforms| token::only(document, transforms, DS, "Transform"))
        .ok_or(PolicyFault::Missing("one transform of xenc:CipherReference"))?;
    read::algorithm(document, transform, "cipher transform", CipherTransform::from_uri)?;
    read::end(document, &mut document.elements(transform))
}
