//! Revocation lists as data: whoever fetches them hands in the bytes.

use std::{cmp::Ordering, sync::Arc};

use openssl::{
    asn1::Asn1IntegerRef,
    pkey::{PKey, Public},
    x509::{CrlStatus, X509Crl, X509Ref},
};

use crate::model::Timestamp;

use super::{certificate, der};

/// What an unknown status means (`duplicates` §2, `peppol-network` §4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RevocationMode {
    /// A fault of ours: the peer gets HTTP 503 and tries again.
    #[default]
    Hard,
    /// Accepted with a notice.
    Soft,
    /// Nothing is looked up. For a test PKI only.
    Off,
}

/// What is known of a certificate at an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RevocationStatus {
    /// A current list of its issuer does not name it.
    Good,
    /// A list of its issuer names it.
    Revoked,
    /// There is no current list of its issuer.
    Unknown,
    /// Nobody asked ([`RevocationMode::Off`]).
    NotChecked,
}

/// Why bytes are no revocation list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RevocationError {
    /// Neither PEM nor DER.
    #[error("not a certificate revocation list in PEM or DER form")]
    Syntax,
    /// A delta, an indirect or a partial list, or one with a critical extension that we do not know.
    #[error("the revocation list does not speak of all certificates of its issuer")]
    Partial,
}

/// One list.
struct Crl {
    crl: X509Crl,
    this_update: Timestamp,
    next_update: Option<Timestamp>,
}

/// The lists that are at hand, and what to do without. OCSP answers would be a second source here: all
/// callers ask for a status and never for a list.
#[derive(Default)]
pub struct Revocation {
    mode: RevocationMode,
    crls: Vec<Arc<Crl>>,
}

impl Revocation {
    /// No list yet.
    #[must_use]
    pub const fn new(mode: RevocationMode) -> Self {
        Self { mode, crls: Vec::new() }
    }

    /// What an unknown status means.
    #[must_use]
    pub const fn mode(&self) -> RevocationMode {
        self.mode
    }

    /// Adds the lists of a file: PEM, with any number of lists, or one in DER form. Who signed them is
    /// checked when [`super::trust::Trust`] takes them.
    ///
    /// # Errors
    /// When there is no list in it, or one that is not complete.
    pub fn add_lists(&mut self, bytes: &[u8]) -> Result<(), RevocationError> {
        let mut lists = Vec::new();
        for crl in read(bytes)? {
            let der = crl.to_der().map_err(|_| RevocationError::Syntax)?;
            if !der::is_complete_for_leaves(&der) {
                return Err(RevocationError::Partial);
            }
            let time = |time| certificate::timestamp(time).map_err(|_| RevocationError::Syntax);
            let this_update = time(crl.last_update())?;
            let next_update = crl.next_update().map(time).transpose()?;
            lists.push(Arc::new(Crl { crl, this_update, next_update }));
        }
        self.crls.append(&mut lists);
        Ok(())
    }

    /// The newest list that this CA signed.
    pub(super) fn newest(&self, issuer: &X509Ref, key: &PKey<Public>) -> Option<IssuerList> {
        let name = issuer.subject_name();
        let is_theirs = |list: &&Arc<Crl>| {
            list.crl.issuer_name().try_cmp(name).is_ok_and(Ordering::is_eq)
                && list.crl.verify(key).unwrap_or(false)
        };
        self.crls.iter().filter(is_theirs).max_by_key(|list| list.this_update).cloned().map(IssuerList)
    }
}

/// The newest list of one CA, its signature checked.
pub(super) struct IssuerList(Arc<Crl>);

impl IssuerList {
    /// The list itself.
    pub(super) fn to_der(&self) -> Option<Vec<u8>> {
        self.0.crl.to_der().ok()
    }

    /// The status of a serial number at `now`. A list that is too old still tells who was revoked.
    pub(super) fn status(&self, serial: &Asn1IntegerRef, now: Timestamp) -> RevocationStatus {
        if matches!(self.0.crl.get_by_serial(serial), CrlStatus::Revoked(_)) {
            return RevocationStatus::Revoked;
        }
        match self.0.next_update {
            Some(next) if now <= next => RevocationStatus::Good,
            _ => RevocationStatus::Unknown,
        }
    }
}

fn read(bytes: &[u8]) -> Result<Vec<X509Crl>, RevocationError> {
    const BEGIN: &[u8] = b"-----BEGIN X509 CRL-----";
    let starts: Vec<usize> = memchr::memmem::find_iter(bytes, BEGIN).collect();
    if starts.is_empty() {
        return X509Crl::from_der(bytes).map(|crl| vec![crl]).map_err(|_| RevocationError::Syntax);
    }
    let at = |start: &usize| bytes.get(*start..).unwrap_or_default();
    starts.iter().map(|start| X509Crl::from_pem(at(start)).map_err(|_| RevocationError::Syntax)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::security::{
        testing::{self, CrlRecipe, NOW, pki},
        trust::{Trust, TrustAnchors, TrustError, TrustedCertificate, Untrusted},
    };

    /// The serial number of the sender's certificate.
    const SENDER: u8 = 77;
    /// The serial number of the access point CA's certificate.
    const AP_CA: u8 = 5;

    fn list(days: (i64, i64), revoked: &[u8]) -> Vec<u8> {
        let issuer = (&pki().ap_ca, &pki().ap_ca_key);
        CrlRecipe { issuer, days, revoked, extension: None }.make()
    }

    fn judged(mode: RevocationMode, lists: &[Vec<u8>]) -> Result<TrustedCertificate, TrustError> {
        let mut revocation = Revocation::new(mode);
        lists.iter().for_each(|list| revocation.add_lists(list).unwrap());
        let (root, ca) = (pki().root.to_pem().unwrap(), pki().ap_ca.to_pem().unwrap());
        let anchors = TrustAnchors::from_pem([root.as_slice()], [ca.as_slice()]).unwrap();
        let trust = Trust::new(anchors, &Revocation::default()).with_revocation(&revocation);
        trust.judge(&trust.certificate(testing::sender().certificate_der()).unwrap(), NOW)
    }

    fn status(mode: RevocationMode, lists: &[Vec<u8>]) -> Result<RevocationStatus, TrustError> {
        judged(mode, lists).map(|trusted| trusted.status())
    }

    #[test]
    fn a_current_list_decides() {
        assert_eq!(status(RevocationMode::Hard, &[list((-1, 7), &[])]), Ok(RevocationStatus::Good));
        assert_eq!(status(RevocationMode::Hard, &[list((-1, 7), &[3, 78])]), Ok(RevocationStatus::Good));
        for mode in [RevocationMode::Hard, RevocationMode::Soft] {
            assert_eq!(status(mode, &[list((-1, 7), &[3, SENDER])]), Err(TrustError::Revoked));
        }
    }

    #[test]
    fn a_list_is_current_until_its_next_update_inclusive() {
        assert_eq!(status(RevocationMode::Hard, &[list((-7, 0), &[])]), Ok(RevocationStatus::Good));
        let old = [list((-7, -1), &[])];
        assert_eq!(status(RevocationMode::Hard, &old), Err(TrustError::RevocationUnknown));
        assert_eq!(status(RevocationMode::Soft, &old), Ok(RevocationStatus::Unknown));
    }

    #[test]
    fn who_was_revoked_stays_so_in_an_old_list() {
        assert_eq!(status(RevocationMode::Soft, &[list((-7, -1), &[SENDER])]), Err(TrustError::Revoked));
    }

    #[test]
    fn the_newest_list_counts_in_any_order() {
        let (old, new) = (list((-7, 7), &[]), list((-1, 7), &[SENDER]));
        for lists in [[old.clone(), new.clone()], [new, old]] {
            assert_eq!(status(RevocationMode::Hard, &lists), Err(TrustError::Revoked));
        }
    }

    #[test]
    fn a_list_signed_by_another_key_is_no_list() {
        let issuer = (&pki().ap_ca, &pki().smp_ca_key);
        let forged = CrlRecipe { issuer, days: (-1, 7), revoked: &[], extension: None }.make();
        assert_eq!(status(RevocationMode::Hard, &[forged]), Err(TrustError::RevocationUnknown));
    }

    #[test]
    fn a_revoked_access_point_ca_takes_its_leaves_along() {
        let issuer = (&pki().root, &pki().root_key);
        let above = CrlRecipe { issuer, days: (-1, 7), revoked: &[AP_CA], extension: None }.make();
        let refused = status(RevocationMode::Hard, &[list((-1, 7), &[]), above]);
        assert_eq!(refused, Err(TrustError::Untrusted(Untrusted::IssuerNotValid)));
    }

    #[test]
    fn switched_off_nothing_is_looked_up() {
        let lists = [list((-1, 7), &[SENDER])];
        assert_eq!(status(RevocationMode::Off, &lists), Ok(RevocationStatus::NotChecked));
    }

    #[test]
    fn lists_that_speak_of_some_certificates_only_are_refused() {
        let with = |extension| {
            let issuer = (&pki().ap_ca, &pki().ap_ca_key);
            let crl = CrlRecipe { issuer, days: (-1, 7), revoked: &[], extension: Some(extension) }.make();
            Revocation::new(RevocationMode::Hard).add_lists(&crl)
        };
        // cRLNumber; issuingDistributionPoint with onlyContainsUserCerts.
        assert_eq!(with((20, false, &[0x02, 1, 1])), Ok(()));
        assert_eq!(with((28, true, &[0x30, 3, 0x81, 1, 0xFF])), Ok(()));
        // deltaCRLIndicator; onlyContainsCACerts; indirectCRL.
        assert_eq!(with((27, true, &[0x02, 1, 1])), Err(RevocationError::Partial));
        assert_eq!(with((28, true, &[0x30, 3, 0x82, 1, 0xFF])), Err(RevocationError::Partial));
        assert_eq!(with((28, true, &[0x30, 3, 0x84, 1, 0xFF])), Err(RevocationError::Partial));
    }

    #[test]
    fn lists_are_read_from_pem_with_several_and_from_der() {
        let pem = |der: &[u8]| X509Crl::from_der(der).unwrap().to_pem().unwrap();
        let (one, two) = (list((-7, 7), &[]), list((-1, 7), &[SENDER]));
        let both = [pem(&one), pem(&two)].concat();
        assert_eq!(status(RevocationMode::Hard, &[both]), Err(TrustError::Revoked));
        let mut revocation = Revocation::default();
        assert_eq!(revocation.add_lists(b"junk"), Err(RevocationError::Syntax));
        assert_eq!(revocation.add_lists(b"-----BEGIN X509 CRL-----\njunk"), Err(RevocationError::Syntax));
    }
}
