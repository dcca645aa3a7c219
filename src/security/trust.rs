//! Whether a certificate may act as an access point, at a given time (`peppol-network` §4).
//!
//! The issuer is pinned: a leaf must be issued by one of the configured access point CAs, and those must
//! chain to a configured root. Nothing else in the PKI helps a certificate, in particular not a leaf of the
//! SMP CA below the same root.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use openssl::{
    error::ErrorStack,
    nid::Nid,
    pkey::{PKey, Public},
    stack::Stack,
    x509::{
        X509, X509KeyUsage, X509Ref, X509StoreContext, X509StoreContextRef,
        store::{X509Store, X509StoreBuilder},
        verify::X509VerifyFlags,
    },
};

use crate::model::{Digest, PartyId, Timestamp};

use super::{
    certificate::{self, CertificateError, PeerCertificate},
    der,
    revocation::{IssuerList, Revocation, RevocationMode, RevocationStatus},
};

mod cache;
pub use cache::CACHE_CERTIFICATES_MAX;
use cache::{Cache, Known};

/// Why the configured CAs cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AnchorError {
    /// No root or no access point CA, or a file without certificate.
    #[error("no certificate in {0}")]
    None(&'static str),
    /// A configured access point CA is not a CA.
    #[error("{0} is not a CA certificate")]
    NotCa(String),
    /// A configured access point CA does not chain to a configured root, or by a weak signature.
    #[error("{0} does not chain to a configured root")]
    NoChain(String),
    /// The crypto library failed.
    #[error("crypto library: {0}")]
    Library(#[from] ErrorStack),
}

/// Why a certificate is not trusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrustError {
    /// Not parsed.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// Not issued by a configured access point CA, or that CA is itself not valid at that time.
    #[error("{0}")]
    Untrusted(Untrusted),
    /// After its validity.
    #[error("the certificate expired at {0}")]
    Expired(Timestamp),
    /// Before its validity.
    #[error("the certificate is valid from {0}")]
    NotYetValid(Timestamp),
    /// On the revocation list of its issuer.
    #[error("the certificate is revoked")]
    Revoked,
    /// There is no current revocation list, and the mode is hard: a fault of ours, answered with HTTP 503.
    #[error("the revocation status cannot be known now")]
    RevocationUnknown,
}

impl TrustError {
    /// Whether the fault is ours and the peer should try again.
    #[must_use]
    pub const fn is_ours(&self) -> bool {
        matches!(self, Self::RevocationUnknown)
    }
}

/// The ways not to be an access point of this network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Untrusted {
    /// Not issued by a configured access point CA.
    #[error("the certificate is not issued by an access point CA")]
    Issuer,
    /// Its issuer, or a CA above, is not valid at that time or revoked.
    #[error("the CA of the certificate is not valid")]
    IssuerNotValid,
    /// It is a CA itself.
    #[error("the certificate is a CA certificate")]
    IsCa,
    /// keyUsage has no digitalSignature.
    #[error("the certificate is not for signatures")]
    KeyUsage,
    /// Signed with something weaker than SHA-256.
    #[error("the certificate has a weak signature")]
    WeakSignature,
    /// No subject CN that can be a PartyId.
    #[error("the certificate has no usable subject CN")]
    NoSubject,
}

impl From<Untrusted> for TrustError {
    fn from(reason: Untrusted) -> Self {
        Self::Untrusted(reason)
    }
}

/// Start and end of a validity, both inclusive.
#[derive(Debug, Clone, Copy)]
struct Validity(Timestamp, Timestamp);

impl Validity {
    fn of(certificate: &X509Ref) -> Result<Self, ErrorStack> {
        let time = certificate::timestamp;
        Ok(Self(time(certificate.not_before())?, time(certificate.not_after())?))
    }

    fn covers(self, at: Timestamp) -> bool {
        self.0 <= at && at <= self.1
    }
}

/// An access point CA with all that is asked of it again and again.
struct AccessPointCa {
    certificate: X509,
    key: PKey<Public>,
    /// Of itself and of everything above, root included.
    validities: Vec<Validity>,
    /// The CA above it; none when it is itself a root.
    parent: Option<(X509, PKey<Public>)>,
    /// Holds this CA alone.
    store: X509Store,
    /// Itself and everything above, root included, DER.
    chain: Vec<Vec<u8>>,
}

/// The roots and, pinned, the CAs whose leaves may act as access points.
pub struct TrustAnchors {
    cas: Vec<AccessPointCa>,
}

impl TrustAnchors {
    /// Takes files of certificates, PEM (any number each) or DER. A self-signed CA may be root and access
    /// point CA at once.
    ///
    /// # Errors
    /// When one list is empty, or an access point CA is no CA or does not chain to a root.
    pub fn from_pem<'a>(
        roots: impl IntoIterator<Item = &'a [u8]>,
        access_point_cas: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Self, AnchorError> {
        let roots = read("the roots", roots)?;
        let cas = read("the access point CAs", access_point_cas)?;
        let mut builder = X509StoreBuilder::new()?;
        for root in roots {
            builder.add_cert(root)?;
        }
        // Validity is asked at each use, for the time that is given there.
        builder.set_flags(X509VerifyFlags::NO_CHECK_TIME)?;
        let store = builder.build();
        let others = cas.clone();
        let cas = cas.into_iter().map(|ca| access_point_ca(ca, &others, &store)).collect::<Result<_, _>>()?;
        Ok(Self { cas })
    }
}

fn read<'a>(what: &'static str, files: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<X509>, AnchorError> {
    let mut all = Vec::new();
    for file in files {
        let mut some = certificate::certificates(file).map_err(|_| AnchorError::None(what))?;
        if some.is_empty() {
            return Err(AnchorError::None(what));
        }
        all.append(&mut some);
    }
    if all.is_empty() { Err(AnchorError::None(what)) } else { Ok(all) }
}

fn access_point_ca(ca: X509, others: &[X509], roots: &X509Store) -> Result<AccessPointCa, AnchorError> {
    let name = || format!("{:?}", ca.subject_name());
    if !der::is_ca(&ca.to_der()?) {
        return Err(AnchorError::NotCa(name()));
    }
    let mut untrusted = Stack::new()?;
    for other in others {
        untrusted.push(other.clone())?;
    }
    let mut context = X509StoreContext::new()?;
    let chain: Vec<X509> = context.init(roots, &ca, &untrusted, |context| {
        let is_good = context.verify_cert()?;
        let chain = context.chain().filter(|_| is_good);
        Ok(chain.map(|chain| chain.iter().map(ToOwned::to_owned).collect()).unwrap_or_default())
    })?;
    // The root's own signature proves nothing and is not looked at.
    let is_weak = |signed: &[X509]| signed.iter().any(|certificate| !is_strong(certificate));
    let Some((_, below)) = chain.split_last() else { return Err(AnchorError::NoChain(name())) };
    if is_weak(below) {
        return Err(AnchorError::NoChain(name()));
    }
    let parent = match chain.get(1) {
        Some(parent) => Some((parent.clone(), parent.public_key()?)),
        None => None,
    };
    let validities = chain.iter().map(|certificate| Validity::of(certificate)).collect::<Result<_, _>>()?;
    let chain = chain.iter().map(|certificate| certificate.to_der()).collect::<Result<_, _>>()?;
    Ok(AccessPointCa {
        key: ca.public_key()?,
        validities,
        parent,
        store: store_of(&ca)?,
        chain,
        certificate: ca,
    })
}

/// A store in which this CA alone ends every chain.
fn store_of(ca: &X509) -> Result<X509Store, ErrorStack> {
    let mut builder = X509StoreBuilder::new()?;
    builder.add_cert(ca.clone())?;
    builder.set_flags(X509VerifyFlags::NO_CHECK_TIME | X509VerifyFlags::PARTIAL_CHAIN)?;
    Ok(builder.build())
}

/// Whether a certificate is signed over SHA-256 or better. RSASSA-PSS is not in the profile.
fn is_strong(certificate: &X509Ref) -> bool {
    const STRONG: [Nid; 6] = [
        Nid::SHA256WITHRSAENCRYPTION,
        Nid::SHA384WITHRSAENCRYPTION,
        Nid::SHA512WITHRSAENCRYPTION,
        Nid::ECDSA_WITH_SHA256,
        Nid::ECDSA_WITH_SHA384,
        Nid::ECDSA_WITH_SHA512,
    ];
    STRONG.contains(&certificate.signature_algorithm().object().nid())
}

/// A certificate that was judged good, and what was known of its revocation then.
#[derive(Debug, Clone)]
pub struct TrustedCertificate {
    certificate: Arc<PeerCertificate>,
    subject: PartyId,
    status: RevocationStatus,
}

impl TrustedCertificate {
    /// The certificate.
    #[must_use]
    pub const fn certificate(&self) -> &Arc<PeerCertificate> {
        &self.certificate
    }

    /// The subject CN: the PartyId of its owner (Peppol AS4 §4.5).
    #[must_use]
    pub const fn subject(&self) -> &PartyId {
        &self.subject
    }

    /// SHA-256 of the DER form.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.certificate.digest()
    }

    /// [`RevocationStatus::Unknown`] here means *accepted with a notice*.
    #[must_use]
    pub const fn status(&self) -> RevocationStatus {
        self.status
    }
}

/// What stands behind a certificate ([`Trust::behind`]).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BehindCertificate {
    /// The issuing CA and everything above it, root last, DER.
    pub chain: Vec<Vec<u8>>,
    /// Revocation lists of the issuer and of the CA above it, DER.
    pub lists: Vec<Vec<u8>>,
}

/// The lists of one access point CA: its own, and that of the CA above.
struct Lists {
    own: Option<IssuerList>,
    above: Option<IssuerList>,
}

/// Anchors, revocation lists, and the certificates already found to be issued by the right CA. Cheap to
/// clone; clones share the cache.
#[derive(Clone)]
pub struct Trust {
    anchors: Arc<TrustAnchors>,
    mode: RevocationMode,
    /// One for each access point CA, in the order of the anchors.
    lists: Arc<Vec<Lists>>,
    cache: Arc<Mutex<Cache>>,
}

impl Trust {
    /// Binds the lists to the CAs that signed them; lists of strangers are not used.
    #[must_use]
    pub fn new(anchors: TrustAnchors, revocation: &Revocation) -> Self {
        Self {
            mode: revocation.mode(),
            lists: Arc::new(lists(&anchors, revocation)),
            anchors: Arc::new(anchors),
            cache: Arc::default(),
        }
    }

    /// The same anchors and cache with newer lists.
    #[must_use]
    pub fn with_revocation(&self, revocation: &Revocation) -> Self {
        Self {
            mode: revocation.mode(),
            lists: Arc::new(lists(&self.anchors, revocation)),
            anchors: Arc::clone(&self.anchors),
            cache: Arc::clone(&self.cache),
        }
    }

    /// Parses a certificate, or finds it among those already judged good once. Says nothing about trust.
    ///
    /// # Errors
    /// When it is no certificate with an RSA key of an allowed size.
    pub fn certificate(&self, der: &[u8]) -> Result<Arc<PeerCertificate>, CertificateError> {
        match self.cache().find(Digest::of(der)) {
            Some(known) => Ok(Arc::clone(&known.certificate)),
            None => PeerCertificate::from_der(der).map(Arc::new),
        }
    }

    /// Whether a certificate may act as an access point at `now`.
    ///
    /// # Errors
    /// When it may not, or when its revocation status is unknown and the mode is hard.
    pub fn judge(
        &self,
        certificate: &Arc<PeerCertificate>,
        now: Timestamp,
    ) -> Result<TrustedCertificate, TrustError> {
        let trusted = self.judge_as_of(certificate, now, now)?;
        match (trusted.status, self.mode) {
            (RevocationStatus::Unknown, RevocationMode::Hard) => Err(TrustError::RevocationUnknown),
            _ => Ok(trusted),
        }
    }

    /// The same for the signer of a repeat: valid when the first message was accepted, not revoked at
    /// `now`; an unknown status does not stop the answer (`duplicates` §2).
    ///
    /// # Errors
    /// When it was not valid then, or is revoked, or not an access point at all.
    pub fn judge_as_of(
        &self,
        certificate: &Arc<PeerCertificate>,
        validity_at: Timestamp,
        now: Timestamp,
    ) -> Result<TrustedCertificate, TrustError> {
        let known = self.known(certificate)?;
        if validity_at < certificate.not_before() {
            return Err(TrustError::NotYetValid(certificate.not_before()));
        }
        if certificate.not_after() < validity_at {
            return Err(TrustError::Expired(certificate.not_after()));
        }
        let ca = self.valid_issuer(&known, validity_at, now).ok_or(Untrusted::IssuerNotValid)?;
        let subject = certificate.subject().ok_or(Untrusted::NoSubject)?.clone();
        let status = self.status(ca, certificate, now);
        if status == RevocationStatus::Revoked {
            return Err(TrustError::Revoked);
        }
        Ok(TrustedCertificate { certificate: Arc::clone(certificate), subject, status })
    }

    /// What stands behind a certificate: the CAs that issued it and the revocation lists that are held of them
    /// now. Empty for a certificate of strangers.
    #[must_use]
    pub fn behind(&self, certificate: &Arc<PeerCertificate>) -> BehindCertificate {
        let known = self.known(certificate).ok();
        let index = known.and_then(|known| known.issuers.first().copied());
        let chain = index.and_then(|index| self.anchors.cas.get(index)).map(|ca| ca.chain.clone());
        let held = index.and_then(|index| self.lists.get(index));
        let lists =
            held.map(|lists| lists.own.iter().chain(&lists.above).filter_map(IssuerList::to_der).collect());
        BehindCertificate { chain: chain.unwrap_or_default(), lists: lists.unwrap_or_default() }
    }

    /// What does not depend on the time, from the cache or afresh. Only what passed is kept, so that
    /// strangers cannot push the known peers out.
    fn known(&self, certificate: &Arc<PeerCertificate>) -> Result<Arc<Known>, TrustError> {
        if let Some(known) = self.cache().find(certificate.digest()) {
            return Ok(known);
        }
        let issuers = self.anchors.issuers(certificate)?;
        let known = Arc::new(Known { certificate: Arc::clone(certificate), issuers });
        self.cache().insert(Arc::clone(&known));
        Ok(known)
    }

    fn valid_issuer(&self, known: &Known, at: Timestamp, now: Timestamp) -> Option<usize> {
        known.issuers.iter().copied().find(|&index| {
            let Some(ca) = self.anchors.cas.get(index) else { return false };
            let above = self.lists.get(index).and_then(|lists| lists.above.as_ref());
            // The CA is pinned by the operator: a list of its issuer can take that back, its absence not.
            let serial = ca.certificate.serial_number();
            let is_revoked = self.mode != RevocationMode::Off
                && above.is_some_and(|list| list.status(serial, now) == RevocationStatus::Revoked);
            !is_revoked && ca.validities.iter().all(|validity| validity.covers(at))
        })
    }

    fn status(&self, ca: usize, certificate: &PeerCertificate, now: Timestamp) -> RevocationStatus {
        if self.mode == RevocationMode::Off {
            return RevocationStatus::NotChecked;
        }
        let list = self.lists.get(ca).and_then(|lists| lists.own.as_ref());
        list.map_or(RevocationStatus::Unknown, |list| list.status(certificate.x509().serial_number(), now))
    }

    fn cache(&self) -> std::sync::MutexGuard<'_, Cache> {
        // Nothing panics while it is held; and a cache that was left half way is still a cache.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trust")
            .field("access_point_cas", &self.anchors.cas.len())
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

fn lists(anchors: &TrustAnchors, revocation: &Revocation) -> Vec<Lists> {
    let of = |ca: &AccessPointCa| Lists {
        own: revocation.newest(&ca.certificate, &ca.key),
        above: ca.parent.as_ref().and_then(|(parent, key)| revocation.newest(parent, key)),
    };
    anchors.cas.iter().map(of).collect()
}

impl TrustAnchors {
    /// The access point CAs that issued a leaf, by index; and all that does not depend on the time.
    fn issuers(&self, leaf: &PeerCertificate) -> Result<Vec<usize>, TrustError> {
        if der::is_ca(leaf.der()) {
            return Err(Untrusted::IsCa.into());
        }
        // No keyUsage means no restriction (RFC 5280 §4.2.1.3).
        if leaf.x509().key_usage().is_some_and(|usage| !usage.contains(X509KeyUsage::DIGITAL_SIGNATURE)) {
            return Err(Untrusted::KeyUsage.into());
        }
        if !is_strong(leaf.x509()) {
            return Err(Untrusted::WeakSignature.into());
        }
        let is_issuer = |ca: &AccessPointCa| is_issued_by(leaf.x509(), ca).unwrap_or(false);
        let issuers: Vec<usize> =
            self.cas.iter().enumerate().filter(|(_, ca)| is_issuer(ca)).map(|(index, _)| index).collect();
        if issuers.is_empty() { Err(Untrusted::Issuer.into()) } else { Ok(issuers) }
    }
}

/// Names, key identifiers, signature, path length and critical extensions, by OpenSSL.
fn is_issued_by(leaf: &X509Ref, ca: &AccessPointCa) -> Result<bool, ErrorStack> {
    if leaf.issuer_name().try_cmp(ca.certificate.subject_name())?.is_ne() {
        return Ok(false);
    }
    let none = Stack::new()?;
    X509StoreContext::new()?.init(&ca.store, leaf, &none, X509StoreContextRef::verify_cert)
}

#[cfg(test)]
mod tests;
