//! Algorithm downgrades and forbidden structures: refused by policy, before any crypto (`xml-security` §8.5).

use crate::security::{
    SecurityError,
    signature::{EncryptionPolicy, SecurityPolicy, verify_signature},
    testing::message::{claimed, seal, template, trust},
};

const EXCLUSIVE: &str = "http://www.w3.org/2001/10/xml-exc-c14n#";
const SHA256: &str = "http://www.w3.org/2001/04/xmlenc#sha256";

fn refusal(xml: &str) -> SecurityError {
    verify_signature(claimed(xml).unwrap(), &SecurityPolicy::PEPPOL, &trust()).map(|_| ()).unwrap_err()
}

/// The change is made before signing, so nothing but the policy can object.
fn check(from: &str, to: &str) {
    let template = template();
    assert!(template.contains(from), "{from}");
    let refused = refusal(&seal(&template.replacen(from, to, 1)));
    assert!(matches!(refused, SecurityError::Policy(_)), "{from} -> {to}: {refused}");
}

#[test]
fn every_algorithm_outside_the_profile_is_refused() {
    let ds = "http://www.w3.org/2000/09/xmldsig#";
    let signature = "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256";
    for other in ["#rsa-sha1", "#dsa-sha1", "#hmac-sha1"] {
        check(signature, &format!("{ds}{}", &other[1..]));
    }
    for other in ["hmac-sha256", "rsa-sha384", "rsa-sha512", "ecdsa-sha256", "rsa-md5"] {
        check(signature, &format!("http://www.w3.org/2001/04/xmldsig-more#{other}"));
    }
    check(signature, "");
    let digest = |uri: &str| format!("<ds:DigestMethod Algorithm=\"{uri}\"/><ds:DigestValue>");
    for other in
        [format!("{ds}sha1"), SHA256.replace("256", "512"), SHA256.replace("sha256", "md5"), String::new()]
    {
        check(&digest(SHA256), &digest(&other));
    }
    for other in
        ["http://www.w3.org/2001/04/xmlenc#rsa-1_5", "http://www.w3.org/2001/04/xmlenc#rsa-oaep-mgf1p"]
    {
        check("http://www.w3.org/2009/xmlenc11#rsa-oaep", other);
    }
    for other in ["http://www.w3.org/2009/xmlenc11#aes256-gcm", "http://www.w3.org/2001/04/xmlenc#aes128-cbc"]
    {
        check("http://www.w3.org/2009/xmlenc11#aes128-gcm", other);
    }
}

#[test]
fn oaep_with_its_sha1_defaults_or_a_label_is_refused() {
    let digest = format!("<ds:DigestMethod Algorithm=\"{SHA256}\"/><xenc11:MGF");
    check(&digest, "<xenc11:MGF");
    check(&digest, "<ds:DigestMethod Algorithm=\"http://www.w3.org/2000/09/xmldsig#sha1\"/><xenc11:MGF");
    check(&digest, &format!("<xenc:OAEPparams>AAAA</xenc:OAEPparams>{digest}"));
    check(&digest, &format!("<ds:DigestMethod Algorithm=\"{SHA256}\"/>{digest}"));
    let mask = "<xenc11:MGF Algorithm=\"http://www.w3.org/2009/xmlenc11#mgf1sha256\"/>";
    check(mask, "");
    check(mask, &mask.replace("sha256", "sha1"));
}

#[test]
fn every_other_transform_is_refused() {
    let method = format!("<ds:CanonicalizationMethod Algorithm=\"{EXCLUSIVE}\"/>");
    let transform = format!("<ds:Transform Algorithm=\"{EXCLUSIVE}\"/>");
    let others = [
        "http://www.w3.org/TR/2001/REC-xml-c14n-20010315",
        "http://www.w3.org/2006/12/xml-c14n11",
        "http://www.w3.org/2001/10/xml-exc-c14n#WithComments",
    ];
    for other in others {
        check(&method, &method.replace(EXCLUSIVE, other));
        check(&transform, &transform.replace(EXCLUSIVE, other));
    }
    for other in [
        "http://www.w3.org/2000/09/xmldsig#enveloped-signature",
        "http://www.w3.org/TR/1999/REC-xpath-19991116",
        "http://www.w3.org/TR/1999/REC-xslt-19991116",
        "http://www.w3.org/2000/09/xmldsig#base64",
        "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-soap-message-security-1.0#STR-Transform",
        "http://docs.oasis-open.org/wss/oasis-wss-SwAProfile-1.1#Attachment-Content-Signature-Transform",
    ] {
        check(&transform, &transform.replace(EXCLUSIVE, other));
    }
    for children in ["<ec:InclusiveNamespaces/><ec:InclusiveNamespaces/>", "<ds:XPath>x</ds:XPath>"] {
        let with_children = transform.replace("/>", &format!(">{children}</ds:Transform>"));
        check(&transform, &with_children);
        check(&method, &method.replace("/>", &format!(">{children}</ds:CanonicalizationMethod>")));
    }
    check(&transform, &transform.repeat(2));
    check(&transform, "");
    let swa =
        "http://docs.oasis-open.org/wss/oasis-wss-SwAProfile-1.1#Attachment-Content-Signature-Transform";
    check(swa, &swa.replace("Content", "Complete"));
    check(swa, EXCLUSIVE);
    check("#Attachment-Content-Only", "#Attachment-Complete");
}

#[test]
fn a_digest_of_another_length_is_refused() {
    for other in ["", "AAAA", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "no base64"] {
        check("{DIGEST #body}", other);
    }
}

#[test]
fn references_to_anything_else_are_refused() {
    let body = "URI=\"#body\"";
    for other in ["", "#", "#nowhere", "#xpointer(/)", "http://example.org/", "body", "#SIG-none", "cid:"] {
        check(body, &format!("URI=\"{other}\""));
    }
    check(body, "");
    // An element that is no signed part: inside Messaging.
    let inside =
        template().replace("<eb:From>", "<eb:From Id=\"inside\">").replacen(body, "URI=\"#inside\"", 1);
    assert!(claimed(&inside).is_err() || matches!(refusal(&seal(&inside)), SecurityError::Policy(_)));
}

#[test]
fn the_signature_holds_what_it_must_and_nothing_else() {
    check("</ds:Signature>", "<ds:Object/></ds:Signature>");
    check("<ds:SignedInfo>", "<ds:SignedInfo/><ds:SignedInfo>");
    check("</ds:KeyInfo></ds:Signature>", "</ds:KeyInfo><x/></ds:Signature>");
    check("<ds:Signature Id", "<ds:Signature/><ds:Signature Id");
    check("<ds:Signature Id", "<wsse:UsernameToken/><ds:Signature Id");
    check("<ds:Signature Id", "<wsu:Timestamp/><wsu:Timestamp/><ds:Signature Id");
    check("</ds:SignedInfo>", "<ds:Manifest/></ds:SignedInfo>");
    let method = "<ds:SignatureMethod Algorithm=\"http://www.w3.org/2001/04/xmldsig-more#rsa-sha256\"";
    let truncated = format!("{method}><ds:HMACOutputLength>8</ds:HMACOutputLength></ds:SignatureMethod>");
    check(&format!("{method}/>"), &truncated);
}

#[test]
fn the_signer_is_named_by_a_token_only() {
    let reference = "<wsse:Reference URI=\"#X509-sig\" ValueType=\"http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-x509-token-profile-1.0#X509v3\"/>";
    check(
        reference,
        "<wsse:KeyIdentifier ValueType=\"http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-x509-token-profile-1.0#X509SubjectKeyIdentifier\">AAAA</wsse:KeyIdentifier>",
    );
    check(reference, "<ds:X509Data/>");
    check(reference, "<wsse:Reference URI=\"#EK\"/>");
    check(reference, "<wsse:Reference URI=\"#msg\"/>");
    check(reference, &reference.replace("X509v3", "X509PKIPathv1"));
    check(reference, &reference.repeat(2));
    let token = "#X509v3\" wsu:Id=\"X509-sig\"";
    check(token, &token.replace("X509v3", "PKCS7"));
    let encoding = "EncodingType=\"http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-soap-message-security-1.0#Base64Binary\" ";
    check(encoding, "");
    // A TokenType in whatever namespace says nothing.
    let odd = template()
        .replace("<wsse:SecurityTokenReference>", "<wsse:SecurityTokenReference wsse:TokenType=\"x\">");
    assert!(verify_signature(claimed(&seal(&odd)).unwrap(), &SecurityPolicy::PEPPOL, &trust()).is_ok());
}

#[test]
fn limits_of_references_and_prefixes_hold_at_the_limit_and_one_beyond() {
    use crate::security::{
        PREFIX_LIST_MAX, REFERENCES_MAX, algorithms::SignatureTransform, testing::message::reference,
    };
    let with_references = |count: usize| {
        let tokens: String = (0..count).map(|i| format!("<x:T xmlns:x=\"urn:x\" Id=\"t{i}\"/>")).collect();
        let references: String = (0..count)
            .map(|i| {
                reference(&format!("#t{i}"), SignatureTransform::Exclusive, &format!("{{DIGEST #t{i}}}"))
            })
            .collect();
        let xml = template().replace("<ds:Signature Id", &format!("{tokens}<ds:Signature Id"));
        claimed(&seal(&xml.replace("</ds:SignedInfo>", &format!("{references}</ds:SignedInfo>")))).unwrap()
    };
    let verify = |claimed| verify_signature(claimed, &SecurityPolicy::PEPPOL, &trust());
    assert!(verify(with_references(REFERENCES_MAX - 3)).is_ok());
    assert!(matches!(verify(with_references(REFERENCES_MAX - 2)), Err(SecurityError::Policy(_))));

    let with_prefixes = |count: usize| {
        let list = "p ".repeat(count);
        let method = format!("<ds:Transform Algorithm=\"{EXCLUSIVE}\"");
        let list = format!("{method}><ec:InclusiveNamespaces PrefixList=\"{list}\"/></ds:Transform>");
        claimed(&seal(&template().replacen(&format!("{method}/>"), &list, 1))).unwrap()
    };
    assert!(verify(with_prefixes(PREFIX_LIST_MAX)).is_ok());
    assert!(matches!(verify(with_prefixes(PREFIX_LIST_MAX + 1)), Err(SecurityError::Policy(_))));
}

#[test]
fn clear_parts_are_refused_where_encryption_is_demanded_and_taken_where_it_is_not() {
    let (start, rest) =
        template().split_once("<xenc:EncryptedData").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let clear = seal(&format!("{start}{}", rest.split_once("</xenc:EncryptedData>").unwrap().1));
    assert!(matches!(refusal(&clear), SecurityError::Policy(_)));
    let lenient = SecurityPolicy { encryption: EncryptionPolicy::Allow };
    assert!(verify_signature(claimed(&clear).unwrap(), &lenient, &trust()).is_ok());
}
