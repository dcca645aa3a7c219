//! A certificate that a peer showed us: parsed once, not trusted by itself.

use std::fmt;

use openssl::{
    asn1::{Asn1Time, Asn1TimeRef},
    error::ErrorStack,
    nid::Nid,
    pkey::{Id, PKey, Public},
    x509::{X509, X509NameRef, X509Ref},
};

use crate::model::{Digest, PartyId, Timestamp};

/// Smallest RSA key of a peer or of ours, in bits (`as4-wire` §10.8).
pub const RSA_BITS_MIN: u32 = 2048;
/// Largest RSA key of a peer or of ours, in bits (`as4-wire` §10.8).
pub const RSA_BITS_MAX: u32 = 4096;
/// Longest certificate that is parsed, in bytes of its DER form; real ones have 1 to 2 KiB.
pub const CERTIFICATE_BYTES_MAX: usize = 16 * 1024;

/// Why some bytes are no certificate that we can work with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// Longer than [`CERTIFICATE_BYTES_MAX`].
    #[error("the certificate is longer than {CERTIFICATE_BYTES_MAX} bytes")]
    TooLong,
    /// Not one X.509 certificate in DER form, or followed by something else.
    #[error("not an X.509 certificate in DER form")]
    Syntax,
    /// Not an RSA key of 2048 to 4096 bits.
    #[error("the key of the certificate is no RSA key of {RSA_BITS_MIN} to {RSA_BITS_MAX} bits")]
    Key,
}

/// A parsed X.509 certificate with its RSA key ready for use.
pub struct PeerCertificate {
    x509: X509,
    key: PKey<Public>,
    der: Box<[u8]>,
    digest: Digest,
    subject: Option<PartyId>,
    not_before: Timestamp,
    not_after: Timestamp,
}

impl PeerCertificate {
    /// Parses the DER form.
    ///
    /// # Errors
    /// When it is too long, no certificate, or its key is not RSA of 2048 to 4096 bits.
    pub fn from_der(der: &[u8]) -> Result<Self, CertificateError> {
        if der.len() > CERTIFICATE_BYTES_MAX {
            return Err(CertificateError::TooLong);
        }
        let x509 = X509::from_der(der).map_err(|_| CertificateError::Syntax)?;
        // d2i ignores what follows and may normalise; only the exact octets are a certificate.
        if x509.to_der().map_err(|_| CertificateError::Syntax)? != der {
            return Err(CertificateError::Syntax);
        }
        let key = x509.public_key().map_err(|_| CertificateError::Key)?;
        if !is_allowed_rsa(key.id(), key.bits()) {
            return Err(CertificateError::Key);
        }
        let not_before = timestamp(x509.not_before()).map_err(|_| CertificateError::Syntax)?;
        let not_after = timestamp(x509.not_after()).map_err(|_| CertificateError::Syntax)?;
        let subject = common_name(x509.subject_name());
        Ok(Self { key, der: der.into(), digest: Digest::of(der), subject, not_before, not_after, x509 })
    }

    /// The DER form.
    #[must_use]
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// SHA-256 of the DER form.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// The only subject CN; none when there is no or more than one, or it is no PartyId.
    #[must_use]
    pub const fn subject(&self) -> Option<&PartyId> {
        self.subject.as_ref()
    }

    /// Start of the validity.
    #[must_use]
    pub const fn not_before(&self) -> Timestamp {
        self.not_before
    }

    /// End of the validity, inclusive.
    #[must_use]
    pub const fn not_after(&self) -> Timestamp {
        self.not_after
    }

    /// The public key.
    pub(super) const fn key(&self) -> &PKey<Public> {
        &self.key
    }

    pub(super) fn x509(&self) -> &X509Ref {
        &self.x509
    }
}

impl fmt::Debug for PeerCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerCertificate")
            .field("subject", &self.subject)
            .field("digest", &self.digest)
            .field("not_after", &self.not_after)
            .finish_non_exhaustive()
    }
}

/// Whether a key may be used: RSA of an allowed size.
pub(super) fn is_allowed_rsa(id: Id, bits: u32) -> bool {
    id == Id::RSA && (RSA_BITS_MIN..=RSA_BITS_MAX).contains(&bits)
}

/// The only CN of a name as PartyId.
pub(super) fn common_name(name: &X509NameRef) -> Option<PartyId> {
    let mut names = name.entries_by_nid(Nid::COMMONNAME);
    let first = names.next()?;
    if names.next().is_some() {
        return None;
    }
    // An embedded NUL or control character is refused by PartyId.
    PartyId::parse(&first.data().to_string().ok()?).ok()
}

/// An ASN.1 time as instant; what lies before 1970 counts as 1970.
pub(super) fn timestamp(time: &Asn1TimeRef) -> Result<Timestamp, ErrorStack> {
    let span = Asn1Time::from_unix(0)?.diff(time)?;
    let millis = i64::from(span.days) * 86_400_000 + i64::from(span.secs) * 1000;
    Ok(Timestamp::from_millis(u64::try_from(millis).unwrap_or(0)))
}

/// Certificates of a PEM text, in order, or the one of a DER file.
pub(super) fn certificates(bytes: &[u8]) -> Result<Vec<X509>, ErrorStack> {
    if bytes.windows(11).any(|window| window == b"-----BEGIN ") {
        X509::stack_from_pem(bytes)
    } else {
        X509::from_der(bytes).map(|certificate| vec![certificate])
    }
}
