//! The composer against itself here; against the independent verifier in `testbed/tests/composer.rs`.

use super::*;
use crate::pki::Pki;

fn draft() -> Draft {
    let pki = Pki::new().unwrap();
    let sender = pki.access_point("POP000001").unwrap();
    let receiver = pki.access_point("PGB000002").unwrap();
    Draft::invoice(&sender, &receiver.certificate, 5_000)
}

#[test]
fn the_length_is_known_before_the_body_is_generated() {
    let draft = draft();
    for compression in [Compression::Gzip { level: 6, modified: 7 }, Compression::None] {
        let sealed = Draft { compression, ..draft.clone() }.sign().unwrap().seal().unwrap();
        assert_eq!(sealed.to_package().unwrap().body.len() as u64, sealed.length());
    }
}

#[test]
fn each_kind_of_retry_keeps_what_it_should() {
    let first = draft();
    let signed = first.sign().unwrap();
    let claim = signed.seal().unwrap().claim();
    assert_eq!(signed.seal().unwrap().claim(), claim, "encrypting anew keeps the signature");
    let digest = |draft: &Draft| draft.sign().unwrap().seal().unwrap().claim();
    let again = digest(&first.signed_anew());
    assert_ne!(again.digests[0], claim.digests[0]);
    assert_eq!(again.digests[2].digest, claim.digests[2].digest);
    let gzipped = digest(&first.gzipped_anew());
    assert_ne!(gzipped.digests[2].digest, claim.digests[2].digest);
    assert_eq!(gzipped.sbd_sha256, claim.sbd_sha256);
    let wrapped = digest(&first.wrapped_anew());
    assert_ne!(wrapped.sbd_sha256, claim.sbd_sha256);
    assert_eq!(wrapped.document_sha256, claim.document_sha256);
    let other = digest(&first.with_other_content());
    assert_eq!(other.message_id, claim.message_id);
    assert_ne!(other.document_sha256, claim.document_sha256);
}
