//! The judgement over certificates of a PKI made in the test; for lists see `revocation`.

use super::*;
use crate::{
    model::Span,
    security::testing::{self, NOW, Pki, Recipe, Usage, pki},
};

fn anchors(pki: &Pki) -> TrustAnchors {
    let (root, ca) = (pki.root.to_pem().unwrap(), pki.ap_ca.to_pem().unwrap());
    TrustAnchors::from_pem([root.as_slice()], [ca.as_slice()]).unwrap()
}

fn trust(mode: RevocationMode) -> Trust {
    Trust::new(anchors(pki()), &Revocation::new(mode))
}

fn judge(trust: &Trust, x509: &X509, now: Timestamp) -> Result<TrustedCertificate, TrustError> {
    trust.judge(&trust.certificate(&x509.to_der().unwrap())?, now)
}

fn refusal(recipe: &Recipe<'_>) -> TrustError {
    judge(&trust(RevocationMode::Off), &recipe.make(), NOW).unwrap_err()
}

#[test]
fn a_leaf_of_the_access_point_ca_is_trusted() {
    let trusted = judge(&trust(RevocationMode::Off), &pki().sender, NOW).unwrap();
    assert_eq!(trusted.subject().as_str(), "POP000001");
    assert_eq!(trusted.status(), RevocationStatus::NotChecked);
}

#[test]
fn the_chain_behind_a_leaf_ends_at_the_root_and_strangers_have_none() {
    let (pki, trust) = (pki(), trust(RevocationMode::Off));
    let behind = |leaf: &X509| trust.behind(&trust.certificate(&leaf.to_der().unwrap()).unwrap());
    let chain = behind(&pki.sender).chain;
    assert_eq!(chain, [pki.ap_ca.to_der().unwrap(), pki.root.to_der().unwrap()]);
    let stranger = Recipe::leaf("POP000001", &pki.sender_key, (&pki.smp_ca, &pki.smp_ca_key)).make();
    assert_eq!(behind(&stranger), BehindCertificate::default());
}

#[test]
fn leaves_of_other_cas_below_the_same_root_are_not() {
    let (pki, key) = (pki(), &pki().sender_key);
    for issuer in [(&pki.smp_ca, &pki.smp_ca_key), (&pki.root, &pki.root_key)] {
        let refused = refusal(&Recipe::leaf("POP000001", key, issuer));
        assert_eq!(refused, TrustError::Untrusted(Untrusted::Issuer));
    }
}

#[test]
fn a_ca_with_the_same_name_and_another_key_is_not_the_pinned_one() {
    let (pki, key) = (pki(), &pki().sender_key);
    let fake = Recipe::ca("TEST AP CA", &pki.smp_ca_key, Some((&pki.root, &pki.root_key))).make();
    let refused = refusal(&Recipe::leaf("POP000001", key, (&fake, &pki.smp_ca_key)));
    assert_eq!(refused, TrustError::Untrusted(Untrusted::Issuer));
}

#[test]
fn what_a_leaf_must_not_be_is_refused() {
    let (pki, key) = (pki(), &pki().sender_key);
    let leaf = || Recipe::leaf("POP000001", key, (&pki.ap_ca, &pki.ap_ca_key));
    let untrusted = |reason| TrustError::Untrusted(reason);
    assert_eq!(refusal(&Recipe { usage: Usage::Ca, ..leaf() }), untrusted(Untrusted::IsCa));
    assert_eq!(refusal(&Recipe { usage: Usage::EncryptOnly, ..leaf() }), untrusted(Untrusted::KeyUsage));
    let sha1 = openssl::hash::MessageDigest::sha1();
    assert_eq!(refusal(&Recipe { digest: sha1, ..leaf() }), untrusted(Untrusted::WeakSignature));
    assert_eq!(refusal(&Recipe { cn: "two words", ..leaf() }), untrusted(Untrusted::NoSubject));
    let small = testing::rsa(1024);
    let refused = refusal(&Recipe { key: &small, ..leaf() });
    assert_eq!(refused, TrustError::Certificate(CertificateError::Key));
}

#[test]
fn validity_counts_to_the_second_on_both_ends_and_from_the_cache_too() {
    let trust = trust(RevocationMode::Off);
    let certificate = trust.certificate(&pki().sender.to_der().unwrap()).unwrap();
    let (from, to) = (certificate.not_before(), certificate.not_after());
    for _ in 0..2 {
        assert!(trust.judge(&certificate, from).is_ok() && trust.judge(&certificate, to).is_ok());
        let early = trust.judge(&certificate, from.minus(Span::seconds(1)));
        assert_eq!(early.map(|_| ()), Err(TrustError::NotYetValid(from)));
        let late = trust.judge(&certificate, to.plus(Span::seconds(1)));
        assert_eq!(late.map(|_| ()), Err(TrustError::Expired(to)));
    }
}

#[test]
fn the_signer_of_a_repeat_is_judged_as_of_the_first_message() {
    let trust = trust(RevocationMode::Hard);
    let certificate = trust.certificate(&pki().sender.to_der().unwrap()).unwrap();
    let late = certificate.not_after().plus(Span::days(1));
    let trusted = trust.judge_as_of(&certificate, NOW, late).unwrap();
    assert_eq!(trusted.status(), RevocationStatus::Unknown);
    assert_eq!(trust.judge(&certificate, NOW).map(|_| ()), Err(TrustError::RevocationUnknown));
}

#[test]
fn an_unknown_status_is_our_fault_in_hard_mode_and_a_notice_in_soft_mode() {
    let refused = judge(&trust(RevocationMode::Hard), &pki().sender, NOW).unwrap_err();
    assert!(refused.is_ours());
    let trusted = judge(&trust(RevocationMode::Soft), &pki().sender, NOW).unwrap();
    assert_eq!(trusted.status(), RevocationStatus::Unknown);
}

#[test]
fn a_leaf_is_refused_when_its_ca_is_not_valid_at_that_time() {
    let pki = pki();
    let ca =
        Recipe { days: (-300, -1), ..Recipe::ca("OLD CA", &pki.ap_ca_key, Some((&pki.root, &pki.root_key))) };
    let ca = ca.make();
    let leaf = Recipe::leaf("POP000001", &pki.sender_key, (&ca, &pki.ap_ca_key)).make();
    let (root, ca) = (pki.root.to_pem().unwrap(), ca.to_pem().unwrap());
    let anchors = TrustAnchors::from_pem([root.as_slice()], [ca.as_slice()]).unwrap();
    let trust = Trust::new(anchors, &Revocation::new(RevocationMode::Off));
    let refused = judge(&trust, &leaf, NOW).unwrap_err();
    assert_eq!(refused, TrustError::Untrusted(Untrusted::IssuerNotValid));
    assert!(judge(&trust, &leaf, NOW.minus(Span::days(2))).is_ok());
}

#[test]
fn a_self_signed_ca_can_be_root_and_access_point_ca_at_once() {
    let pki = pki();
    let pem = pki.root.to_pem().unwrap();
    let anchors = TrustAnchors::from_pem([pem.as_slice()], [pem.as_slice()]).unwrap();
    let trust = Trust::new(anchors, &Revocation::new(RevocationMode::Off));
    let leaf = Recipe::leaf("POP000001", &pki.sender_key, (&pki.root, &pki.root_key)).make();
    assert!(judge(&trust, &leaf, NOW).is_ok());
    assert!(judge(&trust, &pki.root, NOW).is_err());
}

#[test]
fn cas_that_cannot_anchor_are_refused_at_the_start() {
    let pki = pki();
    let (root, ap, smp) =
        (pki.root.to_pem().unwrap(), pki.ap_ca.to_pem().unwrap(), pki.smp_ca.to_pem().unwrap());
    let leaf = pki.sender.to_pem().unwrap();
    let from = |roots: &[u8], cas: &[u8]| TrustAnchors::from_pem([roots], [cas]).map(|_| ()).unwrap_err();
    assert!(matches!(from(&root, &leaf), AnchorError::NotCa(_)));
    assert!(matches!(from(&smp, &ap), AnchorError::NoChain(_)));
    assert!(matches!(from(&root, b""), AnchorError::None(_)));
    assert!(matches!(from(b"junk", &ap), AnchorError::None(_)));
}

#[test]
fn the_cache_keeps_what_passed_and_nothing_else_and_has_an_end() {
    let trust = trust(RevocationMode::Off);
    let pki = pki();
    let stranger = Recipe::leaf("POP000001", &pki.sender_key, (&pki.smp_ca, &pki.smp_ca_key)).make();
    assert!(judge(&trust, &stranger, NOW).is_err());
    assert_eq!(trust.cache().len(), 0);
    assert!(judge(&trust, &pki.sender, NOW).is_ok());
    assert_eq!(trust.cache().len(), 1);

    let certificate = trust.certificate(&pki.sender.to_der().unwrap()).unwrap();
    let mut cache = Cache::default();
    let key = |serial: usize| Digest::of(&serial.to_be_bytes());
    for serial in 0..=CACHE_CERTIFICATES_MAX {
        cache.insert_as(
            key(serial),
            Arc::new(Known { certificate: Arc::clone(&certificate), issuers: vec![] }),
        );
    }
    assert_eq!(cache.len(), CACHE_CERTIFICATES_MAX);
    assert!(cache.find(key(0)).is_none() && cache.find(key(1)).is_some());
}

#[test]
fn junk_behind_a_certificate_is_refused() {
    let mut der = pki().sender.to_der().unwrap();
    der.push(0);
    let refused = trust(RevocationMode::Off).certificate(&der).map(|_| ()).unwrap_err();
    assert_eq!(refused, CertificateError::Syntax);
}
