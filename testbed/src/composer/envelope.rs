//! The SOAP envelope: eb:Messaging, Body and the WS-Security header (`as4-wire` §5.2 and §14.1).

use base64::{Engine as _, engine::general_purpose::STANDARD};
use openssl::{hash::MessageDigest, nid::Nid, sha::sha256, sign::Signer, x509::X509};

use super::{Compression, Draft, Facts, Layout, Reference, Subject};
use crate::{
    Fault,
    sbd::{DOCUMENT_TYPE, DOCUMENT_TYPE_SCHEME, PARTICIPANT_SCHEME, PROCESS, PROCESS_SCHEME},
    xml::{Element, Form, Space},
};

const S12: Space = Space { prefix: "S12", uri: "http://www.w3.org/2003/05/soap-envelope" };
const EB: Space =
    Space { prefix: "eb", uri: "http://docs.oasis-open.org/ebxml-msg/ebms/v3.0/ns/core/200704/" };
const WSSE: Space = Space {
    prefix: "wsse",
    uri: "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd",
};
const WSSE11: Space =
    Space { prefix: "wsse11", uri: "http://docs.oasis-open.org/wss/oasis-wss-wssecurity-secext-1.1.xsd" };
const WSU: Space = Space {
    prefix: "wsu",
    uri: "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-utility-1.0.xsd",
};
const DS: Space = Space { prefix: "ds", uri: "http://www.w3.org/2000/09/xmldsig#" };
const XENC: Space = Space { prefix: "xenc", uri: "http://www.w3.org/2001/04/xmlenc#" };
const XENC11: Space = Space { prefix: "xenc11", uri: "http://www.w3.org/2009/xmlenc11#" };

const EXCLUSIVE: &str = "http://www.w3.org/2001/10/xml-exc-c14n#";
const SHA256: &str = "http://www.w3.org/2001/04/xmlenc#sha256";
const RSA_SHA256: &str = "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256";
const SWA: &str = "http://docs.oasis-open.org/wss/oasis-wss-SwAProfile-1.1#";
const X509V3: &str = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-x509-token-profile-1.0#X509v3";
const BASE64: &str =
    "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-soap-message-security-1.0#Base64Binary";
const KEY_TOKEN: &str = "http://docs.oasis-open.org/wss/oasis-wss-soap-message-security-1.1#EncryptedKey";
const PARTY_TYPE: &str = "urn:fdc:peppol.eu:2017:identifiers:ap";
const AGREEMENT: &str = "urn:fdc:peppol.eu:2017:agreements:tia:ap_provider";

/// What the signature fixes.
#[derive(Debug, Clone)]
pub(super) struct SignedParts {
    messaging: Element,
    body: Element,
    signature: Element,
    pub(super) digests: Vec<Reference>,
}

pub(super) fn content_id(draft: &Draft) -> String {
    format!("att-{}@testbed.example", draft.tag)
}

pub(super) fn sign(draft: &Draft, facts: &Facts) -> Result<SignedParts, Fault> {
    let messaging = messaging(draft)?;
    let body = Element::new(S12, "Body").with_in(WSU, "Id", format!("body-{}", draft.tag));
    let digests = vec![
        Reference { uri: format!("#msg-{}", draft.tag), digest: digest(&messaging)? },
        Reference { uri: format!("#body-{}", draft.tag), digest: digest(&body)? },
        Reference { uri: format!("cid:{}", content_id(draft)), digest: facts.part_digest.clone() },
    ];
    let info = signed_info(&digests);
    let mut signer = Signer::new(MessageDigest::sha256(), &draft.sender.key)?;
    signer.update(&info.to_bytes(Form::Canonical)?)?;
    let value = STANDARD.encode(signer.sign_to_vec()?);
    let signature = Element::new(DS, "Signature")
        .with("Id", format!("SIG-{}", draft.tag))
        .child(info)
        .child(Element::new(DS, "SignatureValue").text(value))
        .child(Element::new(DS, "KeyInfo").child(token_reference(&format!("#X509-{}", draft.tag))));
    Ok(SignedParts { messaging, body, signature, digests })
}

fn digest(element: &Element) -> Result<String, Fault> {
    Ok(STANDARD.encode(sha256(&element.to_bytes(Form::Canonical)?)))
}

fn signed_info(digests: &[Reference]) -> Element {
    Element::new(DS, "SignedInfo")
        .child(Element::new(DS, "CanonicalizationMethod").with("Algorithm", EXCLUSIVE))
        .child(Element::new(DS, "SignatureMethod").with("Algorithm", RSA_SHA256))
        .children(digests.iter().map(reference))
}

fn reference(reference: &Reference) -> Element {
    let transform = if reference.uri.starts_with("cid:") {
        format!("{SWA}Attachment-Content-Signature-Transform")
    } else {
        EXCLUSIVE.to_owned()
    };
    Element::new(DS, "Reference")
        .with("URI", reference.uri.as_str())
        .child(
            Element::new(DS, "Transforms").child(Element::new(DS, "Transform").with("Algorithm", transform)),
        )
        .child(Element::new(DS, "DigestMethod").with("Algorithm", SHA256))
        .child(Element::new(DS, "DigestValue").text(reference.digest.as_str()))
}

fn token_reference(uri: &str) -> Element {
    Element::new(WSSE, "SecurityTokenReference")
        .child(Element::new(WSSE, "Reference").with("URI", uri).with("ValueType", X509V3))
}

/// The subject CN of a certificate.
pub(super) fn common_name(certificate: &X509) -> Result<String, Fault> {
    let mut names = certificate.subject_name().entries_by_nid(Nid::COMMONNAME);
    let name = names.next().ok_or_else(|| Fault::setup("a certificate without CN"))?;
    Ok(name.data().to_string()?)
}

fn leaf(local: &'static str, text: impl Into<String>) -> Element {
    Element::new(EB, local).text(text)
}

fn party(local: &'static str, id: &str, role: &str) -> Element {
    Element::new(EB, local)
        .child(leaf("PartyId", id).with("type", PARTY_TYPE))
        .child(leaf("Role", format!("{}{role}", EB.uri)))
}

fn messaging(draft: &Draft) -> Result<Element, Fault> {
    let from = draft.from.clone().map_or_else(|| common_name(&draft.sender.certificate), Ok)?;
    let to = draft.to.clone().map_or_else(|| common_name(&draft.receiver), Ok)?;
    let message = Element::new(EB, "UserMessage")
        .child(
            Element::new(EB, "MessageInfo")
                .child(leaf("Timestamp", draft.timestamp.as_str()))
                .child(leaf("MessageId", draft.message_id.as_str())),
        )
        .child(Element::new(EB, "PartyInfo").child(party("From", &from, "initiator")).child(party(
            "To",
            &to,
            "responder",
        )))
        .child(collaboration(draft))
        .child(Element::new(EB, "MessageProperties").children([
            participant("originalSender", &draft.sbd.sender),
            participant("finalRecipient", &draft.sbd.receiver),
        ]))
        .child(Element::new(EB, "PayloadInfo").child(part_info(draft)));
    let messaging = Element::new(EB, "Messaging").with_in(S12, "mustUnderstand", "true").with_in(
        WSU,
        "Id",
        format!("msg-{}", draft.tag),
    );
    Ok(match draft.layout {
        Layout::Plain => messaging,
        Layout::Baroque => messaging.comment(" not signed "),
    }
    .child(message))
}

fn collaboration(draft: &Draft) -> Element {
    let (service, action) = match draft.subject {
        Subject::Business => (
            leaf("Service", PROCESS).with("type", PROCESS_SCHEME),
            leaf("Action", format!("{DOCUMENT_TYPE_SCHEME}::{DOCUMENT_TYPE}")),
        ),
        Subject::Ping => {
            (leaf("Service", format!("{}service", EB.uri)), leaf("Action", format!("{}test", EB.uri)))
        }
    };
    Element::new(EB, "CollaborationInfo")
        .child(leaf("AgreementRef", AGREEMENT))
        .child(service)
        .child(action)
        .child(leaf("ConversationId", draft.conversation_id.as_str()))
}

fn participant(name: &str, value: &str) -> Element {
    leaf("Property", value).with("name", name).with("type", PARTICIPANT_SCHEME)
}

fn part_info(draft: &Draft) -> Element {
    let mut properties = Element::new(EB, "PartProperties")
        .child(leaf("Property", "application/xml").with("name", "MimeType"))
        .child(leaf("Property", "UTF-8").with("name", "CharacterSet"));
    if matches!(draft.compression, Compression::Gzip { .. }) {
        properties = properties.child(leaf("Property", "application/gzip").with("name", "CompressionType"));
    }
    Element::new(EB, "PartInfo").with("href", format!("cid:{}", content_id(draft))).child(properties)
}

fn token(id: String, certificate: &X509) -> Result<Element, Fault> {
    Ok(Element::new(WSSE, "BinarySecurityToken")
        .with_in(WSU, "Id", id)
        .with("EncodingType", BASE64)
        .with("ValueType", X509V3)
        .text(STANDARD.encode(certificate.to_der()?)))
}

fn encrypted_key(draft: &Draft, wrapped: &str) -> Element {
    let tag = &draft.tag;
    Element::new(XENC, "EncryptedKey")
        .with("Id", format!("EK-{tag}"))
        .child(
            Element::new(XENC, "EncryptionMethod")
                .with("Algorithm", "http://www.w3.org/2009/xmlenc11#rsa-oaep")
                .child(Element::new(DS, "DigestMethod").with("Algorithm", SHA256))
                .child(
                    Element::new(XENC11, "MGF")
                        .with("Algorithm", "http://www.w3.org/2009/xmlenc11#mgf1sha256"),
                ),
        )
        .child(Element::new(DS, "KeyInfo").child(token_reference(&format!("#X509ENC-{tag}"))))
        .child(Element::new(XENC, "CipherData").child(Element::new(XENC, "CipherValue").text(wrapped)))
        .child(
            Element::new(XENC, "ReferenceList")
                .child(Element::new(XENC, "DataReference").with("URI", format!("#ED-{tag}"))),
        )
}

fn encrypted_data(draft: &Draft) -> Element {
    let mime = match draft.compression {
        Compression::Gzip { .. } => "application/gzip",
        Compression::None => "application/xml",
    };
    let key = Element::new(WSSE, "SecurityTokenReference")
        .with_in(WSSE11, "TokenType", KEY_TOKEN)
        .child(Element::new(WSSE, "Reference").with("URI", format!("#EK-{}", draft.tag)));
    let transform = Element::new(XENC, "Transforms").child(
        Element::new(DS, "Transform").with("Algorithm", format!("{SWA}Attachment-Ciphertext-Transform")),
    );
    Element::new(XENC, "EncryptedData")
        .with("Id", format!("ED-{}", draft.tag))
        .with("MimeType", mime)
        .with("Type", format!("{SWA}Attachment-Content-Only"))
        .child(
            Element::new(XENC, "EncryptionMethod")
                .with("Algorithm", "http://www.w3.org/2009/xmlenc11#aes128-gcm"),
        )
        .child(Element::new(DS, "KeyInfo").child(key))
        .child(
            Element::new(XENC, "CipherData").child(
                Element::new(XENC, "CipherReference")
                    .with("URI", format!("cid:{}", content_id(draft)))
                    .child(transform),
            ),
        )
}

/// The whole envelope, encrypted key included, as sent.
pub(super) fn seal(draft: &Draft, parts: &SignedParts, wrapped: &str) -> Result<Vec<u8>, Fault> {
    let security = Element::new(WSSE, "Security")
        .with_in(S12, "mustUnderstand", "true")
        .child(token(format!("X509ENC-{}", draft.tag), &draft.receiver)?)
        .child(encrypted_key(draft, wrapped))
        .child(encrypted_data(draft))
        .child(token(format!("X509-{}", draft.tag), &draft.sender.certificate)?)
        .child(parts.signature.clone());
    let envelope = Element::new(S12, "Envelope");
    let envelope = match draft.layout {
        Layout::Plain => envelope,
        Layout::Baroque => envelope.declaring(&[S12, EB, WSSE, WSSE11, WSU, DS, XENC, XENC11]),
    };
    let envelope = envelope
        .child(Element::new(S12, "Header").child(security).child(parts.messaging.clone()))
        .child(parts.body.clone());
    let mut bytes = match draft.layout {
        Layout::Plain => Vec::new(),
        Layout::Baroque => b"<?xml version='1.0' encoding='utf-8'?>\n<!-- baroque -->".to_vec(),
    };
    bytes.extend(envelope.to_bytes(Form::Wire)?);
    Ok(bytes)
}
