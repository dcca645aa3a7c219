//! Another implementation of XML signatures, `xmlsec1`, accepts what we sign, and refuses what was changed.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test stops where its material cannot be made, and says what it saw"
)]

use std::{fs, path::Path, process::Command};

use oncepoint::{
    model::{EbmsCode, EbmsError, MessageId, SignalMessage, Timestamp},
    security::{
        key::OwnKey,
        signature::{SigningIds, sign_envelope},
    },
    wire::ebms,
};
use openssl::{
    asn1::Asn1Time,
    hash::MessageDigest,
    pkey::{PKey, Private},
    rsa::Rsa,
    x509::{X509, X509Builder, X509NameBuilder},
};

const EBMS: &str = "http://docs.oasis-open.org/ebxml-msg/ebms/v3.0/ns/core/200704/";
const SOAP: &str = "http://www.w3.org/2003/05/soap-envelope";

fn has_xmlsec() -> bool {
    if Command::new("xmlsec1").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return true;
    }
    assert!(std::env::var_os("ONCEPOINT_REQUIRE_SHARED").is_none_or(|v| v != "1"), "no xmlsec1");
    println!("skipped: no xmlsec1");
    false
}

fn certificate(key: &PKey<Private>) -> X509 {
    let mut name = X509NameBuilder::new().unwrap();
    name.append_entry_by_text("CN", "POP000002").unwrap();
    let name = name.build();
    let mut builder = X509Builder::new().unwrap();
    builder.set_version(2).unwrap();
    builder.set_subject_name(&name).unwrap();
    builder.set_issuer_name(&name).unwrap();
    builder.set_pubkey(key).unwrap();
    builder.set_not_before(&Asn1Time::from_unix(1_700_000_000).unwrap()).unwrap();
    builder.set_not_after(&Asn1Time::from_unix(2_300_000_000).unwrap()).unwrap();
    builder.sign(key, MessageDigest::sha256()).unwrap();
    builder.build()
}

fn ids() -> SigningIds {
    let id = |name: &str| format!("_{name}-1");
    SigningIds { messaging: id("msg"), body: id("body"), token: id("X509"), signature: id("SIG") }
}

/// A receipt with a copied reference, and an error.
fn messagings() -> [String; 2] {
    let signal = |errors| SignalMessage {
        message_id: MessageId::parse("signal@receiver").unwrap(),
        timestamp: Timestamp::from_millis(1_796_083_200_000),
        ref_to_message_id: Some(MessageId::parse("message@sender").unwrap()),
        errors,
    };
    let reference = "<ds:Reference xmlns:ds=\"http://www.w3.org/2000/09/xmldsig#\" URI=\"#m\"><ds:Transforms>\
        <ds:Transform Algorithm=\"http://www.w3.org/2001/10/xml-exc-c14n#\"><ec:InclusiveNamespaces \
        xmlns:ec=\"http://www.w3.org/2001/10/xml-exc-c14n#\" PrefixList=\"S12\"></ec:InclusiveNamespaces>\
        </ds:Transform></ds:Transforms><ds:DigestMethod Algorithm=\"http://www.w3.org/2001/04/xmlenc#sha256\">\
        </ds:DigestMethod><ds:DigestValue>AAAA</ds:DigestValue></ds:Reference>";
    let error = EbmsError {
        code: EbmsCode::Other,
        description: "ä < b & \"c\"".to_owned(),
        detail: Some("PEPPOL:NOT_SERVICED".to_owned()),
    };
    [
        ebms::write_receipt_messaging(&signal(vec![]), &ids().messaging, &[reference.to_owned()]),
        ebms::write_error_messaging(&signal(vec![error]), &ids().messaging),
    ]
}

/// Whether `xmlsec1` accepts the signature, and how many references it checked.
fn xmlsec(folder: &Path, envelope: &[u8]) -> (bool, String) {
    fs::write(folder.join("envelope.xml"), envelope).unwrap();
    let output = Command::new("xmlsec1")
        .args(["--verify", "--pubkey-cert-pem"])
        .arg(folder.join("certificate.pem"))
        .args(["--id-attr:Id", &format!("{EBMS}:Messaging"), "--id-attr:Id", &format!("{SOAP}:Body")])
        .arg(folder.join("envelope.xml"))
        .output()
        .unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn xmlsec_accepts_what_we_sign_and_nothing_changed() {
    if !has_xmlsec() {
        return;
    }
    let key = PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap();
    let pem = certificate(&key).to_pem().unwrap();
    let own = OwnKey::from_pem(&pem, &key.private_key_to_pem_pkcs8().unwrap()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("certificate.pem"), pem).unwrap();
    let fault = "<S12:Fault><S12:Code><S12:Value>S12:Receiver</S12:Value></S12:Code><S12:Reason>\
        <S12:Text xml:lang=\"en\">x</S12:Text></S12:Reason></S12:Fault>";
    for messaging in messagings() {
        for body in ["", fault] {
            let signed = sign_envelope(&messaging, body, &ids(), &own).unwrap();
            let (accepted, said) = xmlsec(folder.path(), &signed);
            assert!(accepted && said.contains("2/2"), "{said}");
            let changed = String::from_utf8(signed).unwrap().replace("signal@receiver", "other@receiver");
            assert!(!xmlsec(folder.path(), changed.as_bytes()).0);
        }
    }
}
