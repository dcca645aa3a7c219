use super::*;
use crate::{model::Digest, peppol::header::tests::message, pmode::Stage};

const NAMESPACE: &str = "urn:oasis:names:specification:ubl:schema:xsd:Invoice-2";
const DOCUMENT: &str = "urn:oasis:names:specification:ubl:schema:xsd:Invoice-2::Invoice##urn:cen.eu::2.1";

fn scope(name: &str, instance: &str, identifier: Option<&str>) -> Scope {
    Scope {
        scope_type: Some(name.to_owned()),
        instance: Some(instance.to_owned()),
        identifier: identifier.map(str::to_owned),
    }
}

fn participant_ref(value: &str) -> Option<ParticipantRef> {
    Some(ParticipantRef {
        authority: Some(identifiers::PARTICIPANT_SCHEME.to_owned()),
        value: Some(value.to_owned()),
    })
}

/// An envelope in order, which fits the header of `header::tests::message`.
fn sbd() -> Sbd {
    let digest = Digest::of(b"");
    Sbd {
        header: Sbdh {
            header_version: Some("1.0".to_owned()),
            sender: participant_ref("0088:ABC"),
            receiver: participant_ref("0192:974760673"),
            standard: Some(NAMESPACE.to_owned()),
            type_version: Some("2.1".to_owned()),
            instance_identifier: Some("instance".to_owned()),
            document_type: Some("Invoice".to_owned()),
            creation: Some("2026-12-01T04:00:00Z".to_owned()),
            scopes: vec![
                scope("DOCUMENTID", DOCUMENT, None),
                scope("PROCESSID", "urn:fdc:peppol.eu:2017:poacc:billing:01:1.0", None),
                scope("COUNTRY_C1", "NO", None),
            ],
        },
        payload: PayloadSpan {
            start: 0,
            end: 0,
            root_namespace: NAMESPACE.to_owned(),
            root_local: "Invoice".to_owned(),
            insert: None,
            charset: "UTF-8".to_owned(),
            form: PayloadForm::Xml,
        },
        document: digest,
        document_size: 0,
        envelope: digest,
        total: digest,
        total_size: 0,
    }
}

/// What an envelope is refused for after a change.
fn fault(change: impl FnOnce(&mut Sbd)) -> Option<Fault> {
    let mut sbd = sbd();
    change(&mut sbd);
    envelope(&sbd, "POP000001").err().map(|violation| violation.fault)
}

fn header_fault(change: impl FnOnce(&mut Sbdh)) -> Option<Fault> {
    fault(|sbd| change(&mut sbd.header))
}

fn scope_mut<'a>(sbdh: &'a mut Sbdh, name: &str) -> &'a mut Scope {
    sbdh.scopes.iter_mut().find(|scope| scope.scope_type.as_deref() == Some(name)).unwrap()
}

#[test]
fn an_envelope_in_order_says_what_the_backend_needs() {
    let business = envelope(&sbd(), "POP000001").unwrap();
    assert_eq!(business.sender.to_string(), "iso6523-actorid-upis::0088:ABC");
    assert_eq!(business.document_type.to_string(), format!("busdox-docid-qns::{DOCUMENT}"));
    assert_eq!(business.process.scheme(), "cenbii-procid-ubl");
    assert_eq!((business.country_c1.as_str(), business.instance_identifier.as_str()), ("NO", "instance"));
    assert_eq!(business.warnings, []);
}

#[test]
fn the_header_version_is_1_0() {
    assert_eq!(header_fault(|h| h.header_version = None), Some(Fault::InvalidHeaderVersion));
    assert_eq!(
        header_fault(|h| h.header_version = Some("2.0".to_owned())),
        Some(Fault::InvalidHeaderVersion)
    );
}

#[test]
fn sender_and_receiver_are_participants() {
    assert_eq!(header_fault(|h| h.sender = None), Some(Fault::InvalidSenderCount));
    assert_eq!(header_fault(|h| h.receiver = None), Some(Fault::InvalidReceiverCount));
    let authority = |reference: &mut Option<ParticipantRef>, authority: Option<&str>| {
        reference.as_mut().unwrap().authority = authority.map(str::to_owned);
    };
    assert_eq!(header_fault(|h| authority(&mut h.sender, None)), Some(Fault::InvalidSenderAuthority));
    assert_eq!(
        header_fault(|h| authority(&mut h.receiver, Some("GLN"))),
        Some(Fault::InvalidReceiverAuthority)
    );
    assert_eq!(header_fault(|h| h.sender = participant_ref("abc")), Some(Fault::InvalidSenderValue));
    assert_eq!(header_fault(|h| h.receiver = participant_ref("0192:")), Some(Fault::InvalidReceiverValue));
}

#[test]
fn scopes_are_there_once() {
    assert_eq!(header_fault(|h| h.scopes.clear()), Some(Fault::BusinessScopeMissing));
    let extra = |h: &mut Sbdh, name: &str| h.scopes.push(scope(name, "", None));
    assert_eq!(header_fault(|h| extra(h, "COUNTRY_C1")), Some(Fault::InvalidScopeCount));
    assert_eq!(header_fault(|h| extra(h, "")), Some(Fault::InvalidScopeCount));
    assert_eq!(header_fault(|h| h.scopes.push(Scope::default())), Some(Fault::InvalidScopeCount));
    assert_eq!(header_fault(|h| extra(h, "something-else")), None);
    let without = |name: &'static str| {
        header_fault(move |h| h.scopes.retain(|scope| scope.scope_type.as_deref() != Some(name)))
    };
    assert_eq!(without("DOCUMENTID"), Some(Fault::MissingDocumentTypeIdentifier));
    assert_eq!(without("PROCESSID"), Some(Fault::MissingProcessIdentifier));
    assert_eq!(without("COUNTRY_C1"), Some(Fault::MissingCountryC1));
}

#[test]
fn scopes_hold_identifiers_and_a_country() {
    let change = |name: &'static str, value: &'static str| {
        header_fault(move |h| scope_mut(h, name).instance = Some(value.to_owned()))
    };
    assert_eq!(change("DOCUMENTID", ""), Some(Fault::InvalidDocumentTypeIdentifier));
    assert_eq!(change("DOCUMENTID", "urn:x::Invoice"), Some(Fault::InvalidDocumentTypeIdentifier));
    assert_eq!(
        change("DOCUMENTID", "urn:x::Invoice##urn:peppol:pint:billing-1*::2.1"),
        Some(Fault::InvalidDocumentTypeIdentifier)
    );
    assert_eq!(change("PROCESSID", ""), Some(Fault::InvalidProcessIdentifier));
    for wrong in ["", "no", "N", "NOR", "N-"] {
        assert_eq!(change("COUNTRY_C1", wrong), Some(Fault::InvalidCountryC1), "{wrong}");
    }
    assert_eq!(change("COUNTRY_C1", "1A"), None);
}

#[test]
fn the_creation_time_has_a_zone() {
    let change = |value: &'static str| header_fault(move |h| h.creation = Some(value.to_owned()));
    for right in ["2026-12-01T04:00:00Z", "2026-12-01T04:00:00.123456789+01:00", "2026-12-01T04:00:00-05:30"]
    {
        assert_eq!(change(right), None, "{right}");
    }
    for wrong in ["", "2026-12-01T04:00:00", "2026-12-01", "2026-12-01Z", "yesterday-00:00", "é"] {
        assert_eq!(change(wrong), Some(Fault::InvalidCreationDateTime), "{wrong}");
    }
    assert_eq!(header_fault(|h| h.creation = None), Some(Fault::InvalidCreationDateTime));
}

#[test]
fn the_instance_identifier_is_not_empty() {
    assert_eq!(
        header_fault(|h| h.instance_identifier = Some(" ".to_owned())),
        Some(Fault::InvalidInstanceIdentifier)
    );
    assert_eq!(header_fault(|h| h.instance_identifier = None), Some(Fault::InvalidInstanceIdentifier));
}

#[test]
fn standard_version_and_type_are_those_of_the_document() {
    assert_eq!(header_fault(|h| h.standard = None), Some(Fault::MissingStandard));
    assert_eq!(header_fault(|h| h.standard = Some("urn:x".to_owned())), Some(Fault::InvalidStandard));
    assert_eq!(fault(|sbd| sbd.payload.root_namespace = "urn:x".to_owned()), Some(Fault::InvalidStandard));
    assert_eq!(header_fault(|h| h.type_version = None), Some(Fault::MissingTypeVersion));
    assert_eq!(header_fault(|h| h.type_version = Some("1".to_owned())), Some(Fault::InvalidTypeVersion));
    assert_eq!(header_fault(|h| h.type_version = Some("2.2".to_owned())), Some(Fault::InvalidTypeVersion));
    assert_eq!(header_fault(|h| h.document_type = None), Some(Fault::MissingType));
    assert_eq!(header_fault(|h| h.document_type = Some("Order".to_owned())), Some(Fault::InvalidType));
    assert_eq!(fault(|sbd| sbd.payload.root_local = "Order".to_owned()), Some(Fault::InvalidType));
}

#[test]
fn wrapped_content_has_no_cross_checks() {
    for form in [
        PayloadForm::Binary { media_type: Some("application/pdf".to_owned()), encoding: None },
        PayloadForm::Text { media_type: None },
    ] {
        let wrapped = |sbd: &mut Sbd| {
            sbd.payload.form = form.clone();
            sbd.payload.root_namespace = "http://peppol.eu/xsd/ticc/envelope/1.0".to_owned();
            sbd.payload.root_local = "BinaryContent".to_owned();
            sbd.header.type_version = Some("0".to_owned());
        };
        assert_eq!(fault(wrapped), None);
        assert_eq!(
            fault(|sbd| {
                wrapped(sbd);
                sbd.header.standard = None;
            }),
            Some(Fault::MissingStandard)
        );
    }
}

#[test]
fn mls_scopes_are_warned_about_and_never_refused() {
    let warned = |name: &str, instance: &str, identifier: Option<&str>| {
        let mut sbd = sbd();
        sbd.header.scopes.push(scope(name, instance, identifier));
        envelope(&sbd, "POP000001").unwrap().warnings
    };
    let scheme = Some(identifiers::PARTICIPANT_SCHEME);
    for right in ["0242:000001", "0242:000001-MLS", "0242:000001-mls.abc~1"] {
        assert_eq!(warned("MLS_TO", right, scheme), [], "{right}");
    }
    for wrong in [
        "0242:000002",
        "0242:000001-",
        "0242:000001-ML",
        "0242:000001_MLS",
        "0242:000001-MLS.ab",
        "0235:000001",
        "",
    ] {
        assert_eq!(warned("MLS_TO", wrong, scheme), [Warning::InvalidMlsTo], "{wrong}");
    }
    assert_eq!(warned("MLS_TO", "0242:000001", None), [Warning::InvalidMlsTo]);
    assert_eq!(warned("MLS_TYPE", "ALWAYS_SEND", None), []);
    assert_eq!(warned("MLS_TYPE", "FAILURE_ONLY", None), []);
    assert_eq!(warned("MLS_TYPE", "always", None), [Warning::InvalidMlsType]);
    assert_eq!(warned("COUNTRY_C4", "NO", None), [Warning::ReservedScope]);
}

#[test]
fn header_and_envelope_agree() {
    let check = |change: fn(&mut UserMessage)| {
        let mut message = message();
        change(&mut message);
        judge(&message, &sbd(), "POP000001", &Participants::Any).err().map(|violation| violation.fault)
    };
    assert_eq!(check(|_| ()), None);
    assert_eq!(check(|m| m.properties[0].value.push('x')), Some(Fault::OriginalSenderDiffers));
    assert_eq!(check(|m| m.properties[1].value.push('1')), Some(Fault::FinalRecipientDiffers));
    assert_eq!(check(|m| m.action.push('1')), Some(Fault::ActionDiffers));
    assert_eq!(check(|m| m.service.value.push('1')), Some(Fault::ServiceDiffers));
    assert_eq!(check(|m| m.service.service_type = Some("x".to_owned())), Some(Fault::ServiceDiffers));
}

#[test]
fn what_nobody_here_gets_is_not_serviced() {
    let list = |document: &str| {
        let text = format!(
            "[[participants]]\nid = \"0192:974760673\"\ncountry = \"NO\"\ndoctypes = [{{ id = \"{document}\", process = \"urn:fdc:peppol.eu:2017:poacc:billing:01:1.0\" }}]\n"
        );
        Participants::parse(&text, Stage::Production).unwrap()
    };
    assert!(judge(&message(), &sbd(), "POP000001", &list(DOCUMENT)).is_ok());
    let other = judge(&message(), &sbd(), "POP000001", &list("urn:x::Order##urn:y::1.0")).unwrap_err();
    assert_eq!(other.fault, Fault::NotServiced);
}
