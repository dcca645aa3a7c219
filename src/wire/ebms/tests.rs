//! What is read of a message and how each fault is named; what is written, byte for byte.

use super::*;
use crate::{
    model::{EbmsCode, EbmsError, Timestamp},
    wire::xml::XmlLimits,
};

const INFO: &str = "<eb:MessageInfo><eb:Timestamp>2026-12-01T05:00:00+01:00</eb:Timestamp>\
                    <eb:MessageId>m@north</eb:MessageId></eb:MessageInfo>";
const PARTIES: &str = "<eb:PartyInfo>\
    <eb:From><eb:PartyId type='urn:t'>N<!-- c -->1</eb:PartyId><eb:Role>urn:from</eb:Role></eb:From>\
    <eb:To><eb:PartyId>urn:p:2</eb:PartyId><eb:Role>urn:to</eb:Role></eb:To></eb:PartyInfo>";
const COLLABORATION: &str = "<eb:CollaborationInfo><eb:AgreementRef>urn:agreement</eb:AgreementRef>\
    <eb:Service type='procid'>billing</eb:Service><eb:Action> a \n b </eb:Action>\
    <eb:ConversationId/></eb:CollaborationInfo>";
const PROPERTIES: &str = "<eb:MessageProperties><eb:Property name='originalSender' type='s'>1</eb:Property>\
    </eb:MessageProperties>";
const PAYLOAD: &str = "<eb:PayloadInfo><eb:PartInfo href='cid:a@north'><eb:Description xml:lang='en'/>\
    <eb:PartProperties><eb:Property name='MIMETYPE'>application/xml</eb:Property>\
    <eb:Property name='CompressionType'>application/gzip</eb:Property>\
    <eb:Property name='CharacterSet'>utf-8</eb:Property></eb:PartProperties></eb:PartInfo></eb:PayloadInfo>";

fn user() -> String {
    format!("<eb:UserMessage>\n{INFO}{PARTIES}{COLLABORATION}{PROPERTIES}{PAYLOAD}</eb:UserMessage>")
}

fn envelope(messaging: &str, body: &str) -> String {
    format!(
        "<S:Envelope xmlns:S='{SOAP12}' xmlns:eb='{EBMS}'><S:Header><eb:Messaging>{messaging}</eb:Messaging>\
         </S:Header><S:Body>{body}</S:Body></S:Envelope>"
    )
}

fn read_in(messaging: &str, body: &str) -> Result<Reading, EbmsReadError> {
    let document = Document::parse(envelope(messaging, body).as_bytes(), &XmlLimits::SOAP).unwrap();
    read(Envelope::read(document).unwrap())
}

/// Reads the valid message with `from` replaced by `to`.
fn changed(from: &str, to: &str) -> Result<UserMessage, EbmsReadError> {
    let valid = user();
    assert!(valid.contains(from), "{from}");
    match read_in(&valid.replace(from, to), "")? {
        Reading::User(claimed) => Ok(claimed.message),
        Reading::Signal(..) => panic!("{to}"),
    }
}

fn check_invalid(from: &str, to: &str, at: &str, fault: HeaderFault) {
    assert_eq!(changed(from, to).unwrap_err(), invalid(at, fault), "{from} -> {to}");
}

fn check_inconsistent(from: &str, to: &str, place: &str) {
    match changed(from, to) {
        Err(EbmsReadError::ValueInconsistent { at, .. }) => assert_eq!(at, place, "{from} -> {to}"),
        other => panic!("{from} -> {to}: {other:?}"),
    }
}

#[test]
fn a_user_message_is_read_as_written() {
    let message = changed("", "").unwrap();
    assert_eq!(message.message_id.as_str(), "m@north");
    assert_eq!(message.timestamp.to_string(), "2026-12-01T04:00:00.000Z");
    assert_eq!(message.from.id.as_str(), "N1");
    assert_eq!(message.from.id_type.as_deref(), Some("urn:t"));
    assert_eq!((message.to.id.as_str(), message.to.role.as_str()), ("urn:p:2", "urn:to"));
    assert_eq!(message.agreement.unwrap().value, "urn:agreement");
    assert_eq!(message.service.value, "billing");
    assert_eq!(message.action, "a b");
    assert_eq!(message.conversation_id.as_str(), "");
    assert_eq!(message.properties[0].property_type.as_deref(), Some("s"));
    assert_eq!(message.parts[0].href.as_str(), "a@north");
    assert_eq!(message.parts[0].property("MimeType"), Some("application/xml"));
}

#[test]
fn what_is_optional_may_be_left_out() {
    assert!(changed(PROPERTIES, "").unwrap().properties.is_empty());
    assert!(changed(PAYLOAD, "").unwrap().parts.is_empty());
    assert!(changed("<eb:AgreementRef>urn:agreement</eb:AgreementRef>", "").unwrap().agreement.is_none());
    let answer = "m@north</eb:MessageId><eb:RefToMessageId>r@s</eb:RefToMessageId>";
    let message = changed("m@north</eb:MessageId>", answer).unwrap();
    assert_eq!(message.ref_to_message_id.unwrap().as_str(), "r@s");
}

#[test]
fn order_and_number_are_those_of_the_schema() {
    use HeaderFault::{Content, Empty, Missing, Twice, Unexpected};
    check_invalid(INFO, "", "UserMessage/MessageInfo", Missing);
    check_invalid(PARTIES, "", "UserMessage/PartyInfo", Missing);
    let swapped = format!("{COLLABORATION}{PARTIES}");
    check_invalid(&format!("{PARTIES}{COLLABORATION}"), &swapped, "UserMessage/PartyInfo", Missing);
    check_invalid(PAYLOAD, &PAYLOAD.repeat(2), "UserMessage/PayloadInfo", Unexpected);
    check_invalid(PAYLOAD, &format!("{PAYLOAD}x"), "UserMessage", Content);
    check_invalid(PAYLOAD, "<eb:PayloadInfo/>", "UserMessage/PayloadInfo/PartInfo", Missing);
    check_invalid("<eb:Role>urn:from</eb:Role>", "", "UserMessage/PartyInfo/From/Role", Missing);
    check_invalid("urn:from", "", "UserMessage/PartyInfo/From/Role", Empty);
    check_invalid("urn:from", "<a/>", "UserMessage/PartyInfo/From/Role", Content);
    check_invalid("type='procid'", "type=''", "UserMessage/CollaborationInfo/Service/@type", Empty);
    check_invalid(" a \n b ", " ", "UserMessage/CollaborationInfo/Action", Empty);
    check_invalid("name='originalSender' ", "", "UserMessage/MessageProperties/Property/@name", Missing);
    let part = "<eb:PartInfo href='cid:a%40north'/></eb:PayloadInfo>";
    check_invalid("</eb:PayloadInfo>", part, "UserMessage/PayloadInfo/PartInfo/@href", Twice);
}

#[test]
fn identifiers_and_times_are_checked() {
    let id = |fault: IdError| HeaderFault::Id(fault);
    let at = "UserMessage/MessageInfo/MessageId";
    check_invalid("m@north", "", at, HeaderFault::Empty);
    check_invalid("m@north", "m n", at, id(IdError::Character { kind: "MessageId", code: 0x20 }));
    check_invalid("m@north", "m&#10;n", at, id(IdError::Character { kind: "MessageId", code: 0x0A }));
    let long = "x".repeat(256);
    check_invalid("m@north", &long, at, id(IdError::TooLong { kind: "MessageId", max: 255 }));
    let at = "UserMessage/MessageInfo/Timestamp";
    check_invalid("2026-12-01T05:00:00+01:00", "today", at, TimeError::Syntax.into());
    let joined = changed("m@north", "<!-- a -->m@<?pi?>nor<![CDATA[th]]><!-- b -->").unwrap();
    assert_eq!(joined.message_id.as_str(), "m@north");
}

#[test]
fn values_that_contradict_are_named() {
    let second = "<eb:PartyId type='urn:t'>N2</eb:PartyId><eb:Role>urn:from";
    check_inconsistent("<eb:Role>urn:from", second, "UserMessage/PartyInfo/From/PartyId");
    check_inconsistent(" type='urn:t'", "", "UserMessage/PartyInfo/From/PartyId");
    check_inconsistent(" type='procid'", "", "UserMessage/CollaborationInfo/Service");
    check_inconsistent("urn:agreement", "no uri", "UserMessage/CollaborationInfo/AgreementRef");
    let property = |name: &str| format!("UserMessage/PayloadInfo/PartInfo/PartProperties/Property[{name}]");
    check_inconsistent("application/gzip", "application/rar", &property("CompressionType"));
    check_inconsistent("MIMETYPE", "Other", &property("MimeType"));
    check_inconsistent("utf-8", "!utf*", &property("CharacterSet"));
    check_inconsistent("name='CharacterSet'", "name='mimetype'", &property("MimeType"));
}

#[test]
fn payloads_outside_the_package_are_refused() {
    for href in ["href='http://x/y'", "href='a@north'", "", "href='CID:a@north'"] {
        let result = changed("href='cid:a@north'", href);
        assert!(matches!(result, Err(EbmsReadError::ExternalPayload { .. })), "{href}");
    }
}

#[test]
fn one_message_and_an_empty_body() {
    let valid = user();
    assert!(read_in(&valid, "<!-- c --> \n").is_ok());
    assert_eq!(read_in(&valid, "x").unwrap_err(), EbmsReadError::BodyContent);
    assert_eq!(read_in(&valid, "<a/>").unwrap_err(), EbmsReadError::BodyContent);
    let twice = read_in(&valid.repeat(2), "").unwrap_err();
    assert_eq!(twice, invalid("UserMessage", HeaderFault::Unexpected));
    assert_eq!(read_in("", "").unwrap_err(), invalid("UserMessage", HeaderFault::Missing));
    assert!(read_in(&format!("{valid}<x xmlns='urn:x'/>"), "").is_ok());
    let bundle = read_in(&format!("{}{valid}", signal("<eb:Receipt><a/></eb:Receipt>")), "");
    assert!(matches!(bundle, Err(EbmsReadError::FeatureNotSupported { .. })));
}

fn signal(content: &str) -> String {
    format!("<eb:SignalMessage>{INFO}{content}</eb:SignalMessage>")
}

#[test]
fn signals_are_read_with_every_error_they_hold() {
    let errors = "<eb:Error errorCode='0101' severity='error'/>\
                  <eb:Error errorCode='EBMS:0020' shortDescription='RoutingFailure'>\
                  <eb:Description xml:lang='en'> far\n away </eb:Description><eb:ErrorDetail>d</eb:ErrorDetail></eb:Error>";
    let Ok(Reading::Signal(envelope, read)) = read_in(&signal(errors), "<fault/>") else { panic!() };
    assert_eq!(read.errors[0], EbmsError::new(EbmsCode::FailedAuthentication, ""));
    assert_eq!(read.errors[1], EbmsError::new(EbmsCode::Other, "far away").with_detail("EBMS:0020 d"));
    assert_eq!(signal_errors(&envelope).len(), 2);
    assert!(receipt_references(&envelope).is_empty());
    assert!(matches!(read_in(&signal("<eb:Receipt/>"), ""), Err(EbmsReadError::InvalidHeader { .. })));
    assert!(matches!(read_in(&signal(""), ""), Err(EbmsReadError::InvalidHeader { .. })));
    let pull = read_in(&signal("<eb:PullRequest/>"), "").unwrap_err();
    assert_eq!(pull, EbmsReadError::FeatureNotSupported { at: "SignalMessage/PullRequest".into() });
}

#[test]
fn parts_and_references_match_one_to_one() {
    let ids = |ids: &[&str]| ids.iter().map(|id| ContentId::parse(id).unwrap()).collect::<Vec<_>>();
    let parts = |hrefs: &[&str]| {
        ids(hrefs).into_iter().map(|href| PartInfo { href, properties: vec![] }).collect::<Vec<_>>()
    };
    assert_eq!(match_parts(&[], &[]), Ok(()));
    assert_eq!(match_parts(&parts(&["a", "b%40c"]), &ids(&["b@c", "a"])), Ok(()));
    assert!(match_parts(&parts(&["a"]), &[]).is_err());
    assert!(match_parts(&[], &ids(&["a"])).is_err());
    assert!(match_parts(&parts(&["a"]), &ids(&["b"])).is_err());
    assert!(match_parts(&parts(&["a@b", "a%40b"]), &ids(&["a@b", "c"])).is_err());
}

#[test]
fn the_id_of_an_unreadable_message_is_found_when_it_is_certain() {
    let claimed = |messaging: &str| {
        let text = envelope(messaging, "<a/>");
        claimed_message_id(&Document::parse(text.as_bytes(), &XmlLimits::SOAP).unwrap())
    };
    let broken = user().replace(PARTIES, "");
    assert_eq!(claimed(&broken).unwrap().as_str(), "m@north");
    assert_eq!(claimed(&broken.repeat(2)), None);
    assert_eq!(claimed(&broken.replace("m@north", "m n")), None);
    assert_eq!(claimed(""), None);
}

fn answer(errors: Vec<EbmsError>) -> SignalMessage {
    SignalMessage {
        message_id: MessageId::parse("s@south").unwrap(),
        timestamp: Timestamp::from_millis(1_000),
        ref_to_message_id: Some(MessageId::parse("m&\"<>@north").unwrap()),
        errors,
    }
}

/// What is written is canonical already, and is read back.
fn check_canonical(messaging: &str) -> SignalMessage {
    let document = Document::parse(messaging.as_bytes(), &XmlLimits::SOAP).unwrap();
    let mut canonical = Vec::new();
    crate::wire::c14n::exclusive(&document, document.root(), &[], &mut canonical);
    assert_eq!(String::from_utf8(canonical).unwrap(), messaging);
    let enveloped = format!(
        "<S12:Envelope xmlns:S12='{SOAP12}'><S12:Header>{messaging}</S12:Header><S12:Body/></S12:Envelope>"
    );
    let document = Document::parse(enveloped.as_bytes(), &XmlLimits::SOAP).unwrap();
    let Ok(Reading::Signal(_, signal)) = read(Envelope::read(document).unwrap()) else { panic!() };
    signal
}

#[test]
fn an_error_is_written_in_canonical_form() {
    let written = answer(vec![
        EbmsError::new(EbmsCode::Other, "not <here> & \n now\u{1}").with_detail("PEPPOL:NOT_SERVICED"),
        EbmsError::new(EbmsCode::FailedDecryption, ""),
    ]);
    let text = write_error_messaging(&written, "msg-1");
    expect_test::expect![[r#"<eb:Messaging xmlns:S12="http://www.w3.org/2003/05/soap-envelope" xmlns:eb="http://docs.oasis-open.org/ebxml-msg/ebms/v3.0/ns/core/200704/" xmlns:wsu="http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-utility-1.0.xsd" wsu:Id="msg-1" S12:mustUnderstand="true"><eb:SignalMessage><eb:MessageInfo><eb:Timestamp>1970-01-01T00:00:01.000Z</eb:Timestamp><eb:MessageId>s@south</eb:MessageId><eb:RefToMessageId>m&amp;"&lt;&gt;@north</eb:RefToMessageId></eb:MessageInfo><eb:Error category="Content" errorCode="EBMS:0004" origin="ebMS" refToMessageInError="m&amp;&quot;&lt;>@north" severity="failure" shortDescription="Other"><eb:Description xml:lang="en">not &lt;here&gt; &amp; now�</eb:Description><eb:ErrorDetail>PEPPOL:NOT_SERVICED</eb:ErrorDetail></eb:Error><eb:Error category="Processing" errorCode="EBMS:0102" origin="security" refToMessageInError="m&amp;&quot;&lt;>@north" severity="failure" shortDescription="FailedDecryption"><eb:Description xml:lang="en">FailedDecryption</eb:Description></eb:Error></eb:SignalMessage></eb:Messaging>"#]].assert_eq(&text);
    let read = check_canonical(&text);
    assert_eq!(read.ref_to_message_id, written.ref_to_message_id);
    assert_eq!(read.errors.len(), 2);
    let unknown = SignalMessage { ref_to_message_id: None, ..written };
    assert!(!write_error_messaging(&unknown, "m").contains("InError"));
    check_canonical(&write_error_messaging(&unknown, "m"));
}

#[test]
fn a_receipt_is_canonical_whatever_its_references_declare() {
    let reference = |attributes: &str| {
        format!(
            "<ds:Reference xmlns:ds=\"http://www.w3.org/2000/09/xmldsig#\"{attributes}>\
             <ds:DigestValue>x</ds:DigestValue></ds:Reference>"
        )
    };
    let plain = [reference(" URI=\"#msg\""), reference(" URI=\"cid:a&amp;b\"")];
    let text = write_receipt_messaging(&answer(vec![]), "_r", &plain);
    assert!(plain.iter().all(|reference| text.contains(reference)));
    assert!(check_canonical(&text).errors.is_empty());
    let wsu = format!(" xmlns:wsu=\"{WSU}\" wsu:Id=\"q\"", WSU = crate::wire::soap::namespace::WSU);
    check_canonical(&write_receipt_messaging(&answer(vec![]), "_r", &[reference(&wsu)]));
    let other = " xmlns:eb=\"urn:other\" eb:x=\"y\"";
    check_canonical(&write_receipt_messaging(&answer(vec![]), "_r", &[reference(other)]));
}
