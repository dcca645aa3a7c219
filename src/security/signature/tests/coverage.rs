//! What is not signed, or not encrypted, or claims to be and is no part (`as4-wire` §10.3).

use crate::security::{
    CoverageFault, SecurityError,
    algorithms::SignatureTransform,
    signature::{Protection, SecurityPolicy, verify_signature},
    testing::message::{claimed, encrypted_data, outcome, part_reference, reference, seal, template, trust},
};

fn refusal(template: &str) -> SecurityError {
    let claimed = claimed(&seal(template)).unwrap();
    verify_signature(claimed, &SecurityPolicy::PEPPOL, &trust()).map(|_| ()).unwrap_err()
}

fn check(template: &str, expected: &CoverageFault) {
    match refusal(template) {
        SecurityError::Coverage(fault) => assert_eq!(fault, *expected),
        other => panic!("{other} instead of {expected}"),
    }
}

fn element(id: &str) -> String {
    reference(&format!("#{id}"), SignatureTransform::Exclusive, &format!("{{DIGEST #{id}}}"))
}

/// The template with another part besides.
fn two_parts() -> String {
    let part = "<eb:PartInfo href=\"cid:att@x\"/>";
    template()
        .replace("</eb:PayloadInfo>", &format!("{}</eb:PayloadInfo>", part.replace("att@x", "two@x")))
        .replace("</ds:SignedInfo>", &format!("{}</ds:SignedInfo>", part_reference("two@x")))
        .replace("<ds:Signature Id", &format!("{}<ds:Signature Id", encrypted_data("ED2", "two@x")))
}

#[test]
fn messaging_body_and_every_part_must_be_signed() {
    check(&template().replace(&element("msg"), ""), &CoverageFault::Messaging);
    check(&template().replace(&element("body"), ""), &CoverageFault::Body);
    let part = part_reference("att@x");
    check(&template().replace(&part, ""), &CoverageFault::PartNotSigned("att@x".to_owned()));
    check(
        &two_parts().replace(&part_reference("two@x"), ""),
        &CoverageFault::PartNotSigned("two@x".to_owned()),
    );
}

#[test]
fn a_signature_over_nothing_proves_nothing() {
    let nothing = template()
        .replace(&element("msg"), "")
        .replace(&element("body"), "")
        .replace(&part_reference("att@x"), "");
    check(&nothing, &CoverageFault::Messaging);
}

#[test]
fn all_parts_are_encrypted_or_none() {
    check(
        &two_parts().replace(&encrypted_data("ED2", "two@x"), ""),
        &CoverageFault::PartNotEncrypted("two@x".to_owned()),
    );
}

#[test]
fn what_is_signed_or_encrypted_must_be_a_part() {
    let stranger = part_reference("stranger@x");
    let signed = template().replace("</ds:SignedInfo>", &format!("{stranger}</ds:SignedInfo>"));
    check(&signed, &CoverageFault::PartUnknown("stranger@x".to_owned()));
    let data = encrypted_data("ED2", "stranger@x");
    let encrypted = template().replace("<ds:Signature Id", &format!("{data}<ds:Signature Id"));
    check(&encrypted, &CoverageFault::PartUnknown("stranger@x".to_owned()));
}

#[test]
fn nothing_is_named_twice_in_whatever_spelling() {
    for cid in ["att@x", "att%40x"] {
        let again = part_reference(cid);
        let signed = template().replace("</ds:SignedInfo>", &format!("{again}</ds:SignedInfo>"));
        check(&signed, &CoverageFault::Twice(format!("cid:{cid}")));
        let data = encrypted_data("ED2", cid);
        let encrypted = template().replace("<ds:Signature Id", &format!("{data}<ds:Signature Id"));
        check(&encrypted, &CoverageFault::Twice(cid.to_owned()));
    }
    let again = element("body");
    let twice = template().replace("</ds:SignedInfo>", &format!("{again}</ds:SignedInfo>"));
    check(&twice, &CoverageFault::Twice("#body".to_owned()));
}

#[test]
fn claims_stand_in_the_order_of_the_parts_and_say_how_each_is_protected() {
    let other = two_parts().replacen("cid:att@x\"><ds:Transforms>", "cid:att%40x\"><ds:Transforms>", 1);
    let verified = outcome(&seal(&other)).unwrap();
    let cids: Vec<&str> = verified.attachments().iter().map(|claim| claim.cid.as_str()).collect();
    assert_eq!(cids, ["att@x", "two@x"]);
    let media_type = "application/gzip".to_owned();
    assert_eq!(verified.attachments()[0].protection, Protection::Encrypted { media_type });
}

#[test]
fn a_child_of_the_security_header_may_be_signed_too_and_then_must_be_right() {
    let with_token =
        template().replace("</ds:SignedInfo>", &format!("{}</ds:SignedInfo>", element("X509-sig")));
    let sealed = seal(&with_token);
    assert!(outcome(&sealed).is_ok());
    let changed = sealed.replacen("wsu:Id=\"X509-sig\">", "x=\"\" wsu:Id=\"X509-sig\">", 1);
    assert!(outcome(&changed).unwrap_err().contains("digest"));
}
