//! The way of a message, on messages and a PKI made for the test.

use std::sync::Arc;

use super::{
    duplicate::{Decision, Memory},
    open::{DocumentOpening, PartOpening},
    receipt::{Outgoing, SignalIds},
    *,
};
use crate::{
    model::{AnswerKind, Digest, ItemId, MessageId, MessageKey, Seen, Span, Tenant, Timestamp},
    peppol::Participants,
    pmode::{Defaults, PModes, TEST_ACTION, TEST_SERVICE},
    security::{
        encryption::{ContentKey, GcmSealer},
        key::OwnKey,
        revocation::{Revocation, RevocationMode},
        signature,
        testing::{
            CrlRecipe, NOW,
            message::{PART, claimed, seal, template, trust},
            pki, receiver_pem,
        },
        trust::{Trust, TrustAnchors},
    },
    wire::{
        c14n,
        soap::Envelope,
        xml::{Document, XmlLimits},
    },
};

const AGREEMENT: &str = "<eb:CollaborationInfo><eb:AgreementRef>urn:fdc:peppol.eu:2017:agreements:tia:ap_provider</eb:AgreementRef>";
const PLAIN: &str =
    "PMode.ID = \"plain\"\noncepoint.network = \"plain\"\nPMode.Initiator.Party = \"POP000001\"\n";
const DECADE: Span = Span::days(3650);

fn site(pmodes: &[(&str, &str)]) -> Site {
    let (certificate, key) = receiver_pem();
    let key = Arc::new(OwnKey::from_pem(&certificate, &key).unwrap());
    Site {
        identities: vec![Arc::new(Identity { key, tenant: Tenant::default_tenant() })],
        pmodes: PModes::from_texts(pmodes, &Defaults::default()).unwrap(),
        trust: trust(),
        participants: Participants::Any,
        limits: PayloadLimits::default(),
    }
}

fn plain() -> Site {
    site(&[("plain.toml", PLAIN)])
}

fn peppol() -> Site {
    site(&[
        ("peppol.toml", include_str!("../../pmodes/peppol.toml")),
        ("ping.toml", include_str!("../../pmodes/ping.toml")),
    ])
}

fn with_revocation(mode: RevocationMode, revoked: Option<&[u8]>) -> Site {
    let (root, ca) = (pki().root.to_pem().unwrap(), pki().ap_ca.to_pem().unwrap());
    let anchors = TrustAnchors::from_pem([root.as_slice()], [ca.as_slice()]).unwrap();
    let mut revocation = Revocation::new(mode);
    if let Some(revoked) = revoked {
        let issuer = (&pki().ap_ca, &pki().ap_ca_key);
        let list = CrlRecipe { issuer, days: (-1, 4000), revoked, extension: None }.make();
        revocation.add_lists(&list).unwrap();
    }
    Site { trust: Trust::new(anchors, &revocation), ..plain() }
}

/// A message from the template, changed before it is signed.
fn xml(changes: &[(&str, &str)]) -> String {
    let mut text = template().replace("POP000002\n", "POP000002").replace("> POP", ">POP");
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    seal(&text)
}

fn nobody(_: &MessageKey) -> Result<Vec<Seen>, String> {
    Ok(Vec::new())
}

fn admit_at(xml: &str, site: &Site, now: Timestamp) -> Result<Admitted, Refusal> {
    receive::admit(claimed(xml).unwrap(), site, now, &nobody)
}

fn admit(xml: &str, site: &Site) -> Result<Admitted, Refusal> {
    admit_at(xml, site, NOW)
}

fn refused<T: std::fmt::Debug>(result: Result<T, Refusal>) -> (&'static str, &'static str) {
    let refusal = result.unwrap_err();
    (refusal.stage.as_str(), refusal.code().map_or("none", crate::model::EbmsCode::code))
}

/// What the log keeps of an accepted message.
fn accepted(admitted: &Admitted, at: Timestamp) -> Seen {
    Seen {
        item: ItemId::from_uuid(uuid::Uuid::from_u128(1)),
        key: admitted.key().clone(),
        accepted_at: at,
        expires_at: at.plus(Span::days(90)),
        content: admitted.content().clone(),
    }
}

#[test]
fn an_admitted_message_has_the_key_of_its_signer_and_its_seat() {
    let admitted = admit(&xml(&[]), &plain()).unwrap();
    assert_eq!(admitted.key().sender.as_str(), "POP000001");
    assert_eq!(admitted.key().message_id.as_str(), "genuine@sender");
    assert_eq!(admitted.content().attachments.len(), 1);
    assert_eq!(admitted.content().document, None);
    assert_eq!(admitted.window(), Span::days(90));
    assert!(!admitted.is_ping() && !admitted.may_only_repeat());
}

#[test]
fn parties_agreement_and_roles_are_judged_before_any_cryptography() {
    let peppol = peppol();
    let code = |changes: &[(&str, &str)]| refused(admit(&xml(changes), &peppol));
    let agreed = ("<eb:CollaborationInfo>", AGREEMENT);
    assert!(admit(&xml(&[agreed]), &peppol).is_ok());
    assert_eq!(code(&[]), ("pmode", "EBMS:0103"));
    assert_eq!(code(&[agreed, ("ap_provider<", "other<")]), ("pmode", "EBMS:0103"));
    assert_eq!(
        code(&[agreed, ("<eb:AgreementRef>", "<eb:AgreementRef pmode=\"peppol\">")]),
        ("pmode", "EBMS:0103")
    );
    assert_eq!(code(&[agreed, ("POP000002", "POP000003")]), ("pmode", "EBMS:0004"));
    assert_eq!(code(&[agreed, ("responder", "initiator")]), ("pmode", "EBMS:0004"));
    assert_eq!(refused(admit(&xml(&[("POP000002", "POP000003")]), &plain())), ("pmode", "EBMS:0004"));
}

#[test]
fn a_message_without_p_mode_is_refused_by_the_general_code_outside_peppol() {
    let other = site(&[("plain.toml", &PLAIN.replace("POP000001", "acme"))]);
    assert_eq!(refused(admit(&xml(&[]), &other)), ("pmode", "EBMS:0010"));
    let demanding = format!("{PLAIN}\"PMode[1].BusinessInfo.Properties[]\" = [\"order\"]\n");
    assert_eq!(refused(admit(&xml(&[]), &site(&[("plain.toml", &demanding)]))), ("pmode", "EBMS:0010"));
}

#[test]
fn from_must_be_the_subject_of_the_signer() {
    let anyone = PLAIN.replace("PMode.Initiator.Party = \"POP000001\"\n", "");
    let forged = xml(&[(">POP000001<", ">POP000009<")]);
    assert_eq!(refused(admit(&forged, &site(&[("plain.toml", &anyone)]))), ("party", "EBMS:0101"));
}

#[test]
fn the_service_of_the_test_service_alone_makes_a_ping() {
    let peppol = peppol();
    let service = format!("<eb:Service>{TEST_SERVICE}</eb:Service>");
    let pinged = [("<eb:CollaborationInfo>", AGREEMENT), ("<eb:Service type=\"t\">s</eb:Service>", &service)];
    let other_action = admit(&xml(&pinged), &peppol).unwrap();
    assert!(other_action.is_ping());
    assert_eq!(other_action.pmode().id.as_str(), "peppol");
    let action = format!("<eb:Action>{TEST_ACTION}</eb:Action>");
    let action = ("<eb:Action>a</eb:Action>", action.as_str());
    let ping = admit(&xml(&[pinged[0], pinged[1], action]), &peppol).unwrap();
    assert!(ping.is_ping());
    assert_eq!(ping.pmode().id.as_str(), "ping");
    assert_eq!(refused(admit(&xml(&[pinged[0], action]), &peppol)), ("ebms", "EBMS:0003"));
}

#[test]
fn an_expired_signer_may_repeat_what_it_signed_before_and_nothing_else() {
    let (site, text) = (plain(), xml(&[]));
    let late = NOW.plus(DECADE);
    let mut seen = accepted(&admit(&text, &site).unwrap(), NOW);
    seen.expires_at = NOW.plus(DECADE).plus(DECADE);
    assert_eq!(refused(admit_at(&text, &site, late)), ("trust", "EBMS:0101"));

    let known = |_: &MessageKey| Ok(vec![seen.clone()]);
    let admitted = receive::admit(claimed(&text).unwrap(), &site, late, &known).unwrap();
    assert!(admitted.may_only_repeat());
    let decide = |seen: &Seen| duplicate::decide(&admitted, &Memory::of(std::slice::from_ref(seen)), late);
    let notices = vec![Notice::SignerGoodAtFirst];
    assert_eq!(decide(&seen), Decision::Replay { index: 0, notices });
    let mut other = seen.clone();
    other.content.addressing.action.push('x');
    assert_eq!(decide(&other), Decision::SignerNotGood);
    let mut ended = seen.clone();
    ended.expires_at = NOW;
    assert_eq!(decide(&ended), Decision::SignerNotGood);
    let refusal = receive::refusal_of(&admitted, &decide(&ended), &[ended.clone()]);
    assert_eq!(refused::<()>(Err(refusal.unwrap())), ("trust", "EBMS:0101"));
}

#[test]
fn another_certificate_than_the_first_message_s_excuses_nothing() {
    let (site, text) = (plain(), xml(&[]));
    let mut seen = accepted(&admit(&text, &site).unwrap(), NOW);
    seen.content.signer = Digest::of(b"another");
    let known = |_: &MessageKey| Ok(vec![seen.clone()]);
    let late = NOW.plus(DECADE);
    assert_eq!(refused(receive::admit(claimed(&text).unwrap(), &site, late, &known)), ("trust", "EBMS:0101"));
}

#[test]
fn an_unknown_revocation_status_is_our_fault_and_repeats_are_answered() {
    let (hard, text) = (with_revocation(RevocationMode::Hard, None), xml(&[]));
    let refusal = admit(&text, &hard).unwrap_err();
    assert!(refusal.is_transient());
    assert_eq!(refusal.answer, RefusalAnswer::Unavailable { retry_after: RETRY_AFTER_FAULT });

    let seen = accepted(&admit(&text, &plain()).unwrap(), NOW);
    let known = |_: &MessageKey| Ok(vec![seen.clone()]);
    let admitted = receive::admit(claimed(&text).unwrap(), &hard, NOW, &known).unwrap();
    let memory = std::slice::from_ref(&seen);
    assert!(matches!(duplicate::decide(&admitted, &Memory::of(memory), NOW), Decision::Replay { .. }));
    let first = duplicate::decide(&admitted, &Memory::default(), NOW);
    assert_eq!(first, Decision::SignerNotGood);
    assert!(receive::refusal_of(&admitted, &first, &[]).unwrap().is_transient());

    let away = |_: &MessageKey| Err("the log cannot be read".to_owned());
    assert!(receive::admit(claimed(&text).unwrap(), &hard, NOW, &away).unwrap_err().is_transient());
}

#[test]
fn soft_revocation_accepts_with_a_notice() {
    let admitted = admit(&xml(&[]), &with_revocation(RevocationMode::Soft, None)).unwrap();
    let decision = duplicate::decide(&admitted, &Memory::default(), NOW);
    assert_eq!(decision, Decision::Process(vec![Notice::RevocationUnknown]));
}

#[test]
fn a_revoked_signer_is_refused_even_for_an_old_id() {
    let text = xml(&[]);
    let seen = accepted(&admit(&text, &plain()).unwrap(), NOW);
    let known = |_: &MessageKey| Ok(vec![seen.clone()]);
    let good = with_revocation(RevocationMode::Hard, Some(&[99]));
    assert!(admit(&text, &good).is_ok());
    let revoked = with_revocation(RevocationMode::Hard, Some(&[77]));
    for now in [NOW, NOW.plus(DECADE)] {
        let result = receive::admit(claimed(&text).unwrap(), &revoked, now, &known);
        assert_eq!(refused(result), ("trust", "EBMS:0101"));
    }
}

/// The part of the template, enciphered with its content key.
fn ciphertext(plain: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut sealer = GcmSealer::new(&ContentKey::new([7; 16]), [1; 12]).unwrap();
    let mut push = |bytes: &[u8]| -> Result<(), crate::security::encryption::SealError> {
        out.extend_from_slice(bytes);
        Ok(())
    };
    sealer.feed(plain, &mut push).unwrap();
    sealer.finish(&mut push).unwrap();
    out
}

fn open_part(admitted: &Admitted, part: &[u8]) -> Result<Vec<u8>, Refusal> {
    let key = open::content_key(admitted)?;
    let mut opening = PartOpening::new(admitted, 0, None, key.as_ref())?;
    let mut quarantine = Vec::new();
    for piece in part.chunks(3) {
        opening.feed(piece, &mut |bytes| quarantine.extend_from_slice(bytes));
    }
    opening.finish(admitted).map(|()| quarantine)
}

fn open_document(admitted: &Admitted, plain: &[u8], before: u64) -> Result<OpenedPart, Refusal> {
    let mut opening = DocumentOpening::new(admitted, 0, before);
    opening.feed(admitted, plain, &mut |_| ())?;
    opening.finish(admitted)
}

#[test]
fn a_part_is_released_when_tag_and_signed_digest_are_good() {
    let admitted = admit(&xml(&[]), &plain()).unwrap();
    let good = ciphertext(PART);
    assert_eq!(open_part(&admitted, &good).unwrap(), PART);
    let mut flipped = good.clone();
    *flipped.last_mut().unwrap() ^= 1;
    assert_eq!(refused(open_part(&admitted, &flipped)), ("decrypt", "EBMS:0102"));
    assert_eq!(refused(open_part(&admitted, &good[..20])), ("decrypt", "EBMS:0102"));
    assert_eq!(refused(open_part(&admitted, &[])), ("decrypt", "EBMS:0102"));
    assert_eq!(refused(open_part(&admitted, &ciphertext(b"other"))), ("attachment", "EBMS:0101"));
    assert!(PartOpening::new(&admitted, 0, None, None).is_err());
    assert!(PartOpening::new(&admitted, 1, None, None).is_err());
}

#[test]
fn a_payload_fits_at_the_limit_of_its_p_mode_and_not_beyond() {
    let limited = format!("{PLAIN}\"PMode[1].BusinessInfo.PayloadProfile.maxSize\" = {}\n", PART.len());
    let site = site(&[("plain.toml", &limited)]);
    let admitted = admit(&xml(&[]), &site).unwrap();
    let opened = open_document(&admitted, PART, 0).unwrap();
    assert_eq!((opened.digest, opened.size), (Digest::of(PART), PART.len() as u64));
    assert_eq!(refused(open_document(&admitted, b"the part, and more", 0)), ("decompress", "EBMS:0303"));
    assert_eq!(refused(open_document(&admitted, PART, 1)), ("decompress", "EBMS:0303"));
}

#[test]
fn outside_peppol_any_payload_is_accepted_and_its_digest_is_what_content_is_judged_by() {
    let site = plain();
    let admitted = admit(&xml(&[]), &site).unwrap();
    let opened = Opened::new(&admitted, vec![open_document(&admitted, PART, 0).unwrap()]);
    assert_eq!(opened.content().document, Some(Digest::of(PART)));
    assert_eq!(opened.content().envelope, Some(Digest::of(PART)));
    let accepted = receive::accept(&admitted, &opened, &site).unwrap();
    assert_eq!((accepted.delivery, accepted.business), (Delivery::Inbox, None));
}

#[test]
fn in_peppol_a_payload_without_envelope_is_refused() {
    let site = peppol();
    let admitted = admit(&xml(&[("<eb:CollaborationInfo>", AGREEMENT)]), &site).unwrap();
    assert_eq!(refused(open_document(&admitted, PART, 0)), ("sbdh", "EBMS:0004"));
    let none = Opened::new(&admitted, Vec::new());
    assert_eq!(refused(receive::accept(&admitted, &none, &site)), ("sbdh", "EBMS:0004"));
}

#[test]
fn parts_and_references_must_match() {
    let admitted = admit(&xml(&[]), &plain()).unwrap();
    let id = |text: &str| crate::model::ContentId::parse(text).unwrap();
    assert!(admitted.check_parts(&[id("att@x")]).is_ok());
    assert_eq!(refused(admitted.check_parts(&[])), ("ebms", "EBMS:0011"));
    assert_eq!(refused(admitted.check_parts(&[id("att@x"), id("b")])), ("ebms", "EBMS:0011"));
    assert_eq!(admitted.part_named(&id("att@x")).unwrap(), 0);
    assert_eq!(refused(admitted.part_named(&id("b"))), ("ebms", "EBMS:0011"));
}

// Answers.

fn ids() -> SignalIds {
    SignalIds { message_id: MessageId::parse("1é<signal>&@oncepoint").unwrap(), now: NOW }
}

fn envelope(outgoing: &crate::model::Answer) -> Envelope {
    let document = Document::parse(&outgoing.body, &XmlLimits::SOAP).unwrap();
    let mut canonical = Vec::new();
    c14n::exclusive(&document, document.document(), &[], &mut canonical);
    assert_eq!(canonical, outgoing.body);
    Envelope::read(document).unwrap()
}

#[test]
fn a_receipt_is_signed_by_the_seat_and_the_same_for_the_same_ids() {
    let site = plain();
    let admitted = admit(&xml(&[]), &site).unwrap();
    let receipt = || receipt::receipt(&admitted, &ids(), &admitted.identity().key).unwrap();
    let answer = receipt();
    assert_eq!((answer.kind, answer.status), (AnswerKind::Receipt, 200));
    assert_eq!(answer.content_type.as_deref(), Some("application/soap+xml; charset=UTF-8"));
    assert_eq!(answer, receipt());
    let proof = signature::verify_signal(&envelope(&answer), &site.trust).unwrap();
    assert_eq!(proof.trust(&site.trust, NOW).unwrap().subject().as_str(), "POP000002");
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    assert_eq!(text.matches("<ebbp:MessagePartNRInformation>").count(), 3);
    assert!(text.contains("<eb:RefToMessageId>genuine@sender</eb:RefToMessageId>"));
}

fn refuse_under(pmode: &str) -> (Outgoing, Site) {
    let site = site(&[("plain.toml", pmode)]);
    let admitted = admit(&xml(&[]), &site).unwrap();
    let first = accepted(&admitted, NOW);
    let refusal = receive::refusal_of(&admitted, &Decision::Conflict { index: 0 }, &[first]).unwrap();
    (receipt::refusal(&refusal, &ids(), &site), site)
}

#[test]
fn an_error_is_a_signed_signal_with_http_200() {
    let (outgoing, site) = refuse_under(PLAIN);
    assert_eq!((outgoing.answer.kind, outgoing.answer.status), (AnswerKind::Refusal, 200));
    assert_eq!(outgoing.retry_after, None);
    assert!(signature::verify_signal(&envelope(&outgoing.answer), &site.trust).is_ok());
    let text = String::from_utf8(outgoing.answer.body.to_vec()).unwrap();
    for said in [
        "errorCode=\"EBMS:0003\"",
        "severity=\"failure\"",
        "MessageId reused with different content",
        "refToMessageInError=\"genuine@sender\"",
    ] {
        assert!(text.contains(said), "{said}");
    }
    assert!(!text.contains("Fault"));
}

#[test]
fn a_p_mode_may_ask_for_another_status_or_a_soap_fault() {
    let (outgoing, _) = refuse_under(&format!("{PLAIN}oncepoint.error_http_status = 400\n"));
    assert_eq!(outgoing.answer.status, 400);
    let (outgoing, site) = refuse_under(&format!("{PLAIN}oncepoint.error_with_soap_fault = true\n"));
    assert_eq!(outgoing.answer.status, 500);
    let envelope = envelope(&outgoing.answer);
    assert!(signature::verify_signal(&envelope, &site.trust).is_ok());
    let body = envelope.body();
    assert_eq!(envelope.document().elements(body).count(), 1);
    assert!(
        String::from_utf8(outgoing.answer.body.to_vec())
            .unwrap()
            .contains("<S12:Value>S12:Receiver</S12:Value>")
    );
}

#[test]
fn another_party_s_id_is_refused_without_a_word_about_it() {
    let admitted = admit(&xml(&[]), &plain()).unwrap();
    let mut first = accepted(&admitted, NOW);
    first.key.sender = crate::model::PartyId::parse("POP000009").unwrap();
    let refusal = receive::refusal_of(&admitted, &Decision::Conflict { index: 0 }, &[first]).unwrap();
    let RefusalAnswer::Ebms(error) = &refusal.answer else { panic!("{refusal:?}") };
    assert_eq!((error.code.code(), error.description.as_str()), ("EBMS:0003", "MessageId already used"));
    assert_eq!(error.detail, None);
}

#[test]
fn what_passes_by_itself_is_503_without_soap() {
    for (refusal, seconds) in [(Refusal::in_progress(), 10), (Refusal::ours("disk full"), 30)] {
        let outgoing = receipt::refusal(&refusal, &ids(), &plain());
        assert_eq!(outgoing.answer.status, 503);
        assert_eq!(outgoing.retry_after, Some(Span::seconds(seconds)));
        let body = String::from_utf8(outgoing.answer.body.to_vec()).unwrap();
        assert!(!body.contains('<') && !body.contains("disk"), "{body}");
    }
    let nobody = Site { identities: Vec::new(), ..plain() };
    let item = ItemId::from_uuid(uuid::Uuid::from_u128(1));
    let refusal = Refusal::replayed_signature(item, &MessageId::parse("a@b").unwrap());
    assert_eq!(refusal.code().map(crate::model::EbmsCode::code), Some("EBMS:0101"));
    assert_eq!(receipt::refusal(&refusal, &ids(), &nobody).answer.status, 503);
}

#[test]
fn what_is_no_message_is_answered_by_http_or_a_fault_alone() {
    let answer = |bytes: &[u8]| {
        let refusal = receive::read(bytes, "application/soap+xml").unwrap_err();
        receipt::refusal(&refusal, &ids(), &plain()).answer
    };
    let soap11 =
        "<e:Envelope xmlns:e=\"http://schemas.xmlsoap.org/soap/envelope/\"><e:Header/><e:Body/></e:Envelope>";
    let fault = answer(soap11.as_bytes());
    assert_eq!(fault.status, 500);
    assert!(String::from_utf8(fault.body.to_vec()).unwrap().contains("S12:VersionMismatch"));
    assert_eq!(answer(b"<html/>").status, 400);
    let unknown =
        xml(&[]).replace("<S12:Header>", "<S12:Header><x:y xmlns:x=\"urn:other\" S12:mustUnderstand=\"1\"/>");
    let fault = answer(unknown.as_bytes());
    let text = String::from_utf8(fault.body.to_vec()).unwrap();
    assert!(text.contains("xmlns:nu=\"urn:other\" qname=\"nu:y\""), "{text}");
    assert_eq!(receipt::refusal(&Refusal::too_large(5), &ids(), &plain()).answer.status, 413);
    let signal = receive::read(&receipt_bytes(), "application/soap+xml").unwrap_err();
    assert_eq!(receipt::refusal(&signal, &ids(), &plain()).answer.status, 400);
}

fn receipt_bytes() -> Vec<u8> {
    let admitted = admit(&xml(&[]), &plain()).unwrap();
    receipt::receipt(&admitted, &ids(), &admitted.identity().key).unwrap().body.to_vec()
}

#[test]
fn authentication_decryption_and_policy_say_one_text_each() {
    let site = plain();
    let good = xml(&[]);
    let admitted = admit(&good, &site).unwrap();
    let said = |refusal: Refusal| match refusal.answer {
        RefusalAnswer::Ebms(error) => (error.code, error.description, error.detail),
        other => panic!("{other:?}"),
    };
    let tampered = good.replace("<eb:ConversationId>c<", "<eb:ConversationId>d<");
    let late = admit_at(&good, &site, NOW.plus(DECADE)).unwrap_err();
    let digest = said(admit(&tampered, &site).unwrap_err());
    assert_eq!(digest, said(late));
    assert_eq!(digest, said(open_part(&admitted, &ciphertext(b"other")).unwrap_err()));
    assert_eq!(digest.2, None);
    let tag = said(open_part(&admitted, &[0; 64]).unwrap_err());
    assert_eq!(tag, said(open_part(&admitted, &[]).unwrap_err()));
    assert_eq!(tag.2, None);
}
