//! A user message for attacks: a template whose signature is filled in last.

use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::{
    model::Digest,
    security::{
        PeerCertificate,
        algorithms::{
            Canonicalization, CipherTransform, DataEncryption, DigestAlgorithm, EncryptionType, KeyTransport,
            MaskGeneration, SignatureAlgorithm, SignatureTransform, TokenEncoding, TokenType,
        },
        encryption::{self, ContentKey},
        header::{EC, XENC, XENC11},
        key::OwnKey,
        revocation::{Revocation, RevocationMode},
        signature::{self, SecurityPolicy, Verified},
        trust::{Trust, TrustAnchors},
    },
    wire::{
        c14n,
        ebms::{self, Claimed, Reading},
        soap::{
            Envelope,
            namespace::{DS, EBMS, SOAP12, WSSE, WSU},
        },
        xml::{Document, XmlLimits},
    },
};

use super::{NOW, pki, receiver, sender};

/// The bytes of the part, as signed.
pub(crate) const PART: &[u8] = b"the part";
/// The MessageId of the template.
pub(crate) const MESSAGE_ID: &str = "genuine@sender";
const PEPPOL: &str = "urn:fdc:peppol.eu:2017:identifiers:ap";

/// A BinarySecurityToken.
pub(crate) fn token(id: &str, own: &OwnKey) -> String {
    let (encoding, value_type) = (TokenEncoding::Base64.uri(), TokenType::X509v3.uri());
    let certificate = STANDARD.encode(own.certificate_der());
    format!(
        "<wsse:BinarySecurityToken EncodingType=\"{encoding}\" ValueType=\"{value_type}\" wsu:Id=\"{id}\">\
         {certificate}</wsse:BinarySecurityToken>"
    )
}

/// A `ds:Reference`; `digest` may be a placeholder.
pub(crate) fn reference(uri: &str, transform: SignatureTransform, digest: &str) -> String {
    format!(
        "<ds:Reference URI=\"{uri}\"><ds:Transforms><ds:Transform Algorithm=\"{}\"/></ds:Transforms>\
         <ds:DigestMethod Algorithm=\"{}\"/><ds:DigestValue>{digest}</ds:DigestValue></ds:Reference>",
        transform.uri(),
        DigestAlgorithm::Sha256.uri()
    )
}

/// The reference of the part.
pub(crate) fn part_reference(cid: &str) -> String {
    let digest = Digest::of(PART).to_base64();
    reference(&format!("cid:{cid}"), SignatureTransform::AttachmentContent, &digest)
}

/// `xenc:EncryptedKey` for the receiver.
pub(crate) fn encrypted_key(id: &str) -> String {
    let recipient = PeerCertificate::from_der(receiver().certificate_der()).unwrap();
    let wrapped = encryption::wrap(&ContentKey::new([7; 16]), &recipient).unwrap();
    format!(
        "<xenc:EncryptedKey Id=\"{id}\"><xenc:EncryptionMethod Algorithm=\"{}\">\
         <ds:DigestMethod Algorithm=\"{}\"/><xenc11:MGF Algorithm=\"{}\"/></xenc:EncryptionMethod>\
         <ds:KeyInfo><wsse:SecurityTokenReference><wsse:Reference URI=\"#X509-enc\" ValueType=\"{}\"/>\
         </wsse:SecurityTokenReference></ds:KeyInfo><xenc:CipherData><xenc:CipherValue>{}</xenc:CipherValue>\
         </xenc:CipherData><xenc:ReferenceList><xenc:DataReference URI=\"#ED\"/></xenc:ReferenceList>\
         </xenc:EncryptedKey>",
        KeyTransport::RsaOaep.uri(),
        DigestAlgorithm::Sha256.uri(),
        MaskGeneration::Mgf1Sha256.uri(),
        TokenType::X509v3.uri(),
        STANDARD.encode(wrapped)
    )
}

/// `xenc:EncryptedData` of a part.
pub(crate) fn encrypted_data(id: &str, cid: &str) -> String {
    format!(
        "<xenc:EncryptedData Id=\"{id}\" MimeType=\"application/gzip\" Type=\"{}\">\
         <xenc:EncryptionMethod Algorithm=\"{}\"/><ds:KeyInfo><wsse:SecurityTokenReference>\
         <wsse:Reference URI=\"#EK\"/></wsse:SecurityTokenReference></ds:KeyInfo><xenc:CipherData>\
         <xenc:CipherReference URI=\"cid:{cid}\"><xenc:Transforms><ds:Transform Algorithm=\"{}\"/>\
         </xenc:Transforms></xenc:CipherReference></xenc:CipherData></xenc:EncryptedData>",
        EncryptionType::AttachmentContent.uri(),
        DataEncryption::Aes128Gcm.uri(),
        CipherTransform::AttachmentCiphertext.uri()
    )
}

/// `eb:Messaging` with one part.
fn messaging() -> String {
    format!(
        "<eb:Messaging S12:mustUnderstand=\"true\" wsu:Id=\"msg\"><eb:UserMessage><eb:MessageInfo>\
         <eb:Timestamp>2026-12-01T00:00:00Z</eb:Timestamp><eb:MessageId>{MESSAGE_ID}</eb:MessageId>\
         </eb:MessageInfo><eb:PartyInfo><eb:From><eb:PartyId type=\"{PEPPOL}\">POP000001</eb:PartyId>\
         <eb:Role>{EBMS}initiator</eb:Role></eb:From><eb:To><eb:PartyId type=\"{PEPPOL}\">POP000002\
         </eb:PartyId><eb:Role>{EBMS}responder</eb:Role></eb:To></eb:PartyInfo><eb:CollaborationInfo>\
         <eb:Service type=\"t\">s</eb:Service><eb:Action>a</eb:Action><eb:ConversationId>c</eb:ConversationId>\
         </eb:CollaborationInfo><eb:PayloadInfo><eb:PartInfo href=\"cid:att@x\"><eb:PartProperties>\
         <eb:Property name=\"MimeType\">application/xml</eb:Property>\
         </eb:PartProperties></eb:PartInfo></eb:PayloadInfo></eb:UserMessage></eb:Messaging>"
    )
}

/// The message before signing. `{DIGEST #id}` and `{VALUE}` stand for what [`seal`] computes.
pub(crate) fn template() -> String {
    let element =
        |id: &str| reference(&format!("#{id}"), SignatureTransform::Exclusive, &format!("{{DIGEST #{id}}}"));
    format!(
        "<S12:Envelope xmlns:S12=\"{SOAP12}\" xmlns:eb=\"{EBMS}\" xmlns:wsse=\"{WSSE}\" xmlns:wsu=\"{WSU}\" \
         xmlns:ds=\"{DS}\" xmlns:xenc=\"{XENC}\" xmlns:xenc11=\"{XENC11}\" xmlns:ec=\"{EC}\"><S12:Header>\
         <wsse:Security S12:mustUnderstand=\"true\">{}{}{}{}<ds:Signature Id=\"SIG\"><ds:SignedInfo>\
         <ds:CanonicalizationMethod Algorithm=\"{}\"/><ds:SignatureMethod Algorithm=\"{}\"/>{}{}{}\
         </ds:SignedInfo><ds:SignatureValue>{{VALUE}}</ds:SignatureValue><ds:KeyInfo>\
         <wsse:SecurityTokenReference><wsse:Reference URI=\"#X509-sig\" ValueType=\"{}\"/>\
         </wsse:SecurityTokenReference></ds:KeyInfo></ds:Signature></wsse:Security>{}</S12:Header>\
         <S12:Body wsu:Id=\"body\"></S12:Body></S12:Envelope>",
        token("X509-enc", receiver()),
        encrypted_key("EK"),
        encrypted_data("ED", "att@x"),
        token("X509-sig", sender()),
        Canonicalization::Exclusive.uri(),
        SignatureAlgorithm::RsaSha256.uri(),
        element("msg"),
        element("body"),
        part_reference("att@x"),
        TokenType::X509v3.uri(),
        messaging(),
    )
}

fn parse(xml: &str) -> Document {
    Document::parse(xml.as_bytes(), &XmlLimits::SOAP).unwrap()
}

/// Fills in the digests and the signature of the sender.
pub(crate) fn seal(template: &str) -> String {
    let mut sealed = template.to_owned();
    while let Some((_, rest)) = sealed.split_once("{DIGEST #") {
        let id = rest.split_once('}').unwrap().0.to_owned();
        let document = parse(&sealed);
        let has_id = |name: &str, node| document.attribute(node, name, "Id") == Some(id.as_str());
        let mut nodes = document.descendants(document.root());
        let node = nodes.find(|&node| has_id(WSU, node) || has_id("", node)).unwrap();
        let mut bytes = Vec::new();
        c14n::exclusive(&document, node, &[], &mut bytes);
        sealed = sealed.replace(&format!("{{DIGEST #{id}}}"), &Digest::of(&bytes).to_base64());
    }
    let document = parse(&sealed);
    let mut nodes = document.descendants(document.root());
    let signed_info = nodes.find(|&node| document.is(node, DS, "SignedInfo")).unwrap();
    let mut bytes = Vec::new();
    c14n::exclusive(&document, signed_info, &[], &mut bytes);
    sealed.replace("{VALUE}", &STANDARD.encode(sender().sign(&bytes).unwrap()))
}

pub(crate) fn trust() -> Trust {
    let (root, ca) = (pki().root.to_pem().unwrap(), pki().ap_ca.to_pem().unwrap());
    let anchors = TrustAnchors::from_pem([root.as_slice()], [ca.as_slice()]).unwrap();
    Trust::new(anchors, &Revocation::new(RevocationMode::Off))
}

/// What the wire layer makes of a message; the text of its error otherwise.
pub(crate) fn claimed(xml: &str) -> Result<Claimed, String> {
    let document = Document::parse(xml.as_bytes(), &XmlLimits::SOAP).map_err(|error| error.to_string())?;
    let envelope = Envelope::read(document).map_err(|error| error.to_string())?;
    match ebms::read(envelope).map_err(|error| error.to_string())? {
        Reading::User(claimed) => Ok(claimed),
        Reading::Signal(..) => Err("a signal".to_owned()),
    }
}

/// What the receiver makes of a message: all the way, by whichever layer refuses.
pub(crate) fn outcome(xml: &str) -> Result<Verified, String> {
    let verified = signature::verify(claimed(xml)?, &SecurityPolicy::PEPPOL, &trust(), NOW);
    verified.map_err(|error| error.to_string())
}
