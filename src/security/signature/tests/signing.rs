//! What we sign: canonical as a whole and in pieces, and verified by our own verifier. `tests/xmlsec.rs` has
//! another one.

use crate::{
    model::{EbmsCode, EbmsError, MessageId, SignalMessage},
    security::{
        SecurityError,
        signature::{SignError, SigningIds, sign_envelope, verify_signal},
        testing::{
            self, NOW,
            message::{outcome, seal, template, trust},
        },
    },
    wire::{
        c14n, ebms,
        soap::{Envelope, namespace::DS},
        xml::{Document, NodeId, XmlLimits},
    },
};

fn ids() -> SigningIds {
    let id = |name: &str| format!("_{name}-1");
    SigningIds { messaging: id("msg"), body: id("body"), token: id("X509"), signature: id("SIG") }
}

fn signal(errors: Vec<EbmsError>) -> SignalMessage {
    SignalMessage {
        message_id: MessageId::parse("signal@receiver").unwrap(),
        timestamp: NOW,
        ref_to_message_id: Some(MessageId::parse("genuine@sender").unwrap()),
        errors,
    }
}

fn references() -> Vec<String> {
    outcome(&seal(&template())).unwrap().references_c14n()
}

fn receipt() -> String {
    ebms::write_receipt_messaging(&signal(vec![]), &ids().messaging, &references())
}

fn error() -> String {
    let error = EbmsError {
        code: EbmsCode::Other,
        description: "a < b & \"c\"".to_owned(),
        detail: Some("PEPPOL:NOT_SERVICED".to_owned()),
    };
    ebms::write_error_messaging(&signal(vec![error]), &ids().messaging)
}

fn parse(bytes: &[u8]) -> Document {
    Document::parse(bytes, &XmlLimits::SOAP).unwrap()
}

fn canonical(document: &Document, node: NodeId) -> String {
    let mut out = Vec::new();
    c14n::exclusive(document, node, &[], &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn what_we_sign_is_canonical_whole_and_verifies() {
    for messaging in [receipt(), error()] {
        let signed = sign_envelope(&messaging, "", &ids(), testing::receiver()).unwrap();
        let document = parse(&signed);
        assert_eq!(canonical(&document, document.document()).as_bytes(), signed);
        let envelope = Envelope::read(document).unwrap();
        assert_eq!(canonical(envelope.document(), envelope.messaging()), messaging);
        let proof = verify_signal(&envelope, &trust()).unwrap();
        assert_eq!(proof.trust(&trust(), NOW).unwrap().subject().as_str(), "POP000002");
    }
}

#[test]
fn a_fault_in_the_body_is_signed_with_it() {
    let fault = "<S12:Fault><S12:Code><S12:Value>S12:Receiver</S12:Value></S12:Code></S12:Fault>";
    let signed = sign_envelope(&error(), fault, &ids(), testing::receiver()).unwrap();
    let document = parse(&signed);
    assert_eq!(canonical(&document, document.document()).as_bytes(), signed);
    assert!(verify_signal(&Envelope::read(document).unwrap(), &trust()).is_ok());
    let changed = String::from_utf8(signed).unwrap().replace("S12:Receiver", "S12:Sender");
    let envelope = Envelope::read(parse(changed.as_bytes())).unwrap();
    assert!(matches!(verify_signal(&envelope, &trust()), Err(SecurityError::Signature(_))));
}

#[test]
fn signing_twice_gives_the_same_bytes() {
    let sign = || sign_envelope(&receipt(), "", &ids(), testing::receiver()).unwrap();
    assert_eq!(sign(), sign());
}

#[test]
fn copied_references_keep_their_bytes_in_a_receipt() {
    let signed = sign_envelope(&receipt(), "", &ids(), testing::receiver()).unwrap();
    let envelope = Envelope::read(parse(&signed)).unwrap();
    let nodes = ebms::receipt_references(&envelope);
    let copied: Vec<String> = nodes.iter().map(|&node| canonical(envelope.document(), node)).collect();
    assert_eq!(copied, references());
    assert!(
        copied.iter().all(|reference| reference.starts_with(&format!("<ds:Reference xmlns:ds=\"{DS}\"")))
    );
}

#[test]
fn an_unsigned_signal_is_told_from_a_badly_signed_one() {
    let signed =
        String::from_utf8(sign_envelope(&receipt(), "", &ids(), testing::receiver()).unwrap()).unwrap();
    let (before, rest) = signed.split_once("<wsse:Security").unwrap();
    let unsigned = format!("{before}{}", rest.split_once("</wsse:Security>").unwrap().1);
    let envelope = Envelope::read(parse(unsigned.as_bytes())).unwrap();
    assert!(matches!(verify_signal(&envelope, &trust()), Err(SecurityError::Policy(_))));
    let changed = signed.replace("signal@receiver", "other@receiver");
    let envelope = Envelope::read(parse(changed.as_bytes())).unwrap();
    assert!(matches!(verify_signal(&envelope, &trust()), Err(SecurityError::Signature(_))));
}

#[test]
fn ids_that_are_no_names_or_not_different_are_refused() {
    for wrong in ["", "1a", "a b", "a\"b", "é", "-a", "a:b"] {
        let ids = SigningIds { body: wrong.to_owned(), ..ids() };
        let refused = sign_envelope(&receipt(), "", &ids, testing::receiver());
        assert!(matches!(refused, Err(SignError::Id(id)) if id == wrong));
    }
    let same = SigningIds { body: ids().token, ..ids() };
    assert!(matches!(sign_envelope(&receipt(), "", &same, testing::receiver()), Err(SignError::Id(_))));
}

#[test]
fn messaging_in_another_form_or_with_another_id_is_refused() {
    let other = SigningIds { messaging: "_other".to_owned(), ..ids() };
    let refused = |messaging: &str, ids: &SigningIds| {
        matches!(sign_envelope(messaging, "", ids, testing::receiver()), Err(SignError::Messaging))
    };
    assert!(refused(&receipt(), &other));
    assert!(refused("", &ids()));
    assert!(refused(&receipt().replace("S12", "S"), &ids()));
}
