//! From *claimed* to *proven* to *verified*, and the other way: signing what we answer.
//!
//! The order is that of `as4-wire` §13: structure and algorithms, the signature value over the canonical
//! SignedInfo, the digests of Messaging and Body, coverage; then trust. Nothing here uses a private key to
//! verify. A reference counts only when it resolves to the very node that the header is read from.

use std::sync::Arc;

use openssl::{hash::MessageDigest, sign::Verifier};

use crate::{
    model::{ContentId, Digest, PartInfo, Timestamp, UserMessage},
    wire::{
        c14n,
        ebms::Claimed,
        soap::Envelope,
        xml::{Document, NodeId},
    },
};

use super::{
    algorithms::SignatureTransform,
    certificate::{CertificateError, PeerCertificate},
    encryption::WrappedKey,
    error::{AttachmentFault, PolicyFault, SecurityError, SignatureFault},
    header::{Reference, SecurityHeader, SignatureElement, Target},
    trust::{Trust, TrustError, TrustedCertificate},
};

mod coverage;
mod sign;

pub use sign::{SignError, SigningIds, sign_envelope};

/// Whether parts must be encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EncryptionPolicy {
    /// Every part must be.
    #[default]
    Require,
    /// All parts are or none is.
    Allow,
}

/// What a P-Mode demands of the security of a message. The algorithms are those of
/// [`super::algorithms`] and not a choice; a signature is always demanded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SecurityPolicy {
    /// Whether parts must be encrypted.
    pub encryption: EncryptionPolicy,
}

impl SecurityPolicy {
    /// Peppol AS4 §3: signed and encrypted.
    pub const PEPPOL: Self = Self { encryption: EncryptionPolicy::Require };
    /// For signals: signed. They have no parts.
    pub const SIGNAL: Self = Self { encryption: EncryptionPolicy::Allow };
}

/// How a part travels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Protection {
    /// Encrypted with the content key of the message.
    Encrypted {
        /// `xenc:EncryptedData/@MimeType`: the media type that decides about the digest; may be empty.
        media_type: String,
    },
    /// As it is; the Content-Type of the MIME part decides about the digest.
    Clear,
}

/// What is signed about a part. Its bytes have not been seen yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachmentClaim {
    /// As written in `eb:PartInfo/@href`; compare with `wire::mime::same_content_id`.
    pub cid: ContentId,
    /// The transform under which it is digested.
    pub transform: SignatureTransform,
    /// The signed digest.
    pub digest: Digest,
    /// Whether it is encrypted.
    pub protection: Protection,
}

impl AttachmentClaim {
    /// Compares the digest of the part's bytes with the signed one.
    ///
    /// # Errors
    /// When it is another.
    pub fn check(&self, found: Digest) -> Result<(), AttachmentFault> {
        if found == self.digest { Ok(()) } else { Err(AttachmentFault::Digest) }
    }
}

/// What a good signature proves, whoever made it.
#[derive(Debug)]
struct Proof {
    certificate: Arc<PeerCertificate>,
    /// In the order of `eb:PayloadInfo`.
    attachments: Vec<AttachmentClaim>,
    /// The `ds:Reference` elements, in their order.
    references: Vec<NodeId>,
    messaging: Digest,
    body_children: Digest,
    signature: Digest,
    key: Option<WrappedKey>,
}

/// A message whose signature holds and covers everything. Who signed it is not judged yet.
#[derive(Debug)]
pub struct Proven {
    claimed: Claimed,
    proof: Proof,
}

/// A message that was not trusted: what it was, and why.
#[derive(Debug)]
pub struct NotTrusted {
    /// The message, as it was before.
    pub proven: Proven,
    /// Why.
    pub error: TrustError,
}

/// Checks the signature of a user message. `trust` lends the certificates it remembers; it is not asked for
/// its judgement.
///
/// # Errors
/// When the security header breaks the policy, the signature value or a digest is wrong, or something is not
/// covered; in this order.
pub fn verify_signature(
    claimed: Claimed,
    policy: &SecurityPolicy,
    trust: &Trust,
) -> Result<Proven, SecurityError> {
    let proof = prove(&claimed.envelope, &claimed.message.parts, policy, trust)?;
    Ok(Proven { claimed, proof })
}

/// [`verify_signature`] and [`Proven::trust`] in one.
///
/// # Errors
/// As those two.
pub fn verify(
    claimed: Claimed,
    policy: &SecurityPolicy,
    trust: &Trust,
    now: Timestamp,
) -> Result<Verified, SecurityError> {
    let proven = verify_signature(claimed, policy, trust)?;
    proven.trust(trust, now).map_err(|refused| refused.error.into())
}

impl Proven {
    /// The message, authenticated by the key of [`Proven::certificate`].
    #[must_use]
    pub const fn message(&self) -> &UserMessage {
        &self.claimed.message
    }

    /// The certificate whose key signed.
    #[must_use]
    pub const fn certificate(&self) -> &Arc<PeerCertificate> {
        &self.proof.certificate
    }

    /// Asks whether the signer may act as an access point at `now`.
    ///
    /// # Errors
    /// When it may not; the message comes back, so that it can be asked for again as of another time.
    pub fn trust(self, trust: &Trust, now: Timestamp) -> Result<Verified, Box<NotTrusted>> {
        let signer = trust.judge(&self.proof.certificate, now);
        self.verified(signer)
    }

    /// The same for a repeat, as of the acceptance of the first message ([`Trust::judge_as_of`]). The caller
    /// has found that the first message had the same signer.
    ///
    /// # Errors
    /// As [`Proven::trust`].
    pub fn trust_as_of(
        self,
        trust: &Trust,
        validity_at: Timestamp,
        now: Timestamp,
    ) -> Result<Verified, Box<NotTrusted>> {
        let signer = trust.judge_as_of(&self.proof.certificate, validity_at, now);
        self.verified(signer)
    }

    fn verified(self, signer: Result<TrustedCertificate, TrustError>) -> Result<Verified, Box<NotTrusted>> {
        match signer {
            Ok(signer) => Ok(Verified { proven: self, signer }),
            Err(error) => Err(Box::new(NotTrusted { proven: self, error })),
        }
    }
}

/// A message that is signed by a trusted access point, whole. Only this module makes one.
#[derive(Debug)]
pub struct Verified {
    proven: Proven,
    signer: TrustedCertificate,
}

impl Verified {
    /// The message, read from the nodes that are signed.
    #[must_use]
    pub const fn message(&self) -> &UserMessage {
        self.proven.message()
    }

    /// The envelope.
    #[must_use]
    pub const fn envelope(&self) -> &Envelope {
        &self.proven.claimed.envelope
    }

    /// Who signed.
    #[must_use]
    pub const fn signer(&self) -> &TrustedCertificate {
        &self.signer
    }

    /// What is signed about the parts, in the order of `eb:PayloadInfo`.
    #[must_use]
    pub fn attachments(&self) -> &[AttachmentClaim] {
        &self.proven.proof.attachments
    }

    /// The content key as it came; none when nothing is encrypted.
    #[must_use]
    pub const fn wrapped_key(&self) -> Option<&WrappedKey> {
        self.proven.proof.key.as_ref()
    }

    /// The signed digest of `eb:Messaging`.
    #[must_use]
    pub const fn messaging_digest(&self) -> Digest {
        self.proven.proof.messaging
    }

    /// SHA-256 of what is inside Body, in exclusive canonical form, without Body's own tag.
    #[must_use]
    pub const fn body_children_digest(&self) -> Digest {
        self.proven.proof.body_children
    }

    /// SHA-256 of the octets of the signature value, whatever their spelling.
    #[must_use]
    pub const fn signature_digest(&self) -> Digest {
        self.proven.proof.signature
    }

    /// Each `ds:Reference` in its order, as canonical XML that stands alone: it declares its namespaces, so it
    /// keeps its bytes wherever it is put (AS4 §5.1.8).
    #[must_use]
    pub fn references_c14n(&self) -> Vec<String> {
        let document = self.envelope().document();
        let canonical = |&reference: &NodeId| {
            let mut bytes = Vec::with_capacity(1024);
            c14n::exclusive(document, reference, &[], &mut bytes);
            // Canonical form of a parsed document is UTF-8.
            String::from_utf8(bytes).unwrap_or_default()
        };
        self.proven.proof.references.iter().map(canonical).collect()
    }
}

/// What the signature of a signal proves.
#[derive(Debug)]
pub struct SignalProof(Proof);

impl SignalProof {
    /// The certificate whose key signed. The caller compares it with the one it expects.
    #[must_use]
    pub const fn certificate(&self) -> &Arc<PeerCertificate> {
        &self.0.certificate
    }

    /// Asks whether the signer may act as an access point at `now`.
    ///
    /// # Errors
    /// When it may not.
    pub fn trust(&self, trust: &Trust, now: Timestamp) -> Result<TrustedCertificate, TrustError> {
        trust.judge(&self.0.certificate, now)
    }
}

/// Checks the signature of a Receipt or Error: over `eb:Messaging` and Body, and no part.
///
/// # Errors
/// As [`verify_signature`]; an unsigned signal is [`PolicyFault::NoSecurity`] or [`PolicyFault::NotSigned`].
pub fn verify_signal(envelope: &Envelope, trust: &Trust) -> Result<SignalProof, SecurityError> {
    prove(envelope, &[], &SecurityPolicy::SIGNAL, trust).map(SignalProof)
}

fn prove(
    envelope: &Envelope,
    parts: &[PartInfo],
    policy: &SecurityPolicy,
    trust: &Trust,
) -> Result<Proof, SecurityError> {
    let header = SecurityHeader::read(envelope)?;
    let is_encrypted = !header.encrypted.is_empty();
    if policy.encryption == EncryptionPolicy::Require && !parts.is_empty() && !is_encrypted {
        return Err(PolicyFault::NotEncrypted.into());
    }
    let document = envelope.document();
    let certificate = trust.certificate(&header.signature.certificate).map_err(|error| match error {
        CertificateError::Key => SignatureFault::Key,
        CertificateError::Syntax | CertificateError::TooLong => SignatureFault::Certificate,
    })?;
    let mut buffer = Vec::with_capacity(CANONICAL_BYTES_TYPICAL);
    check_value(document, &header.signature, &certificate, &mut buffer)?;
    for reference in &header.signature.references {
        check_digest(document, reference, &mut buffer)?;
    }
    let covered = coverage::check(envelope, parts, &header)?;
    buffer.clear();
    c14n::exclusive_children(document, envelope.body(), &[], &mut buffer);
    Ok(Proof {
        certificate,
        attachments: covered.attachments,
        references: header.signature.references.iter().map(|reference| reference.node).collect(),
        messaging: covered.messaging,
        body_children: Digest::of(&buffer),
        signature: Digest::of(&header.signature.value),
        key: header.key,
    })
}

/// What a canonical piece of an envelope usually fits into, in bytes.
const CANONICAL_BYTES_TYPICAL: usize = 8 * 1024;

/// The signature value over the canonical SignedInfo.
fn check_value(
    document: &Document,
    signature: &SignatureElement<'_>,
    certificate: &PeerCertificate,
    buffer: &mut Vec<u8>,
) -> Result<(), SecurityError> {
    buffer.clear();
    c14n::exclusive(document, signature.signed_info, &signature.prefix_list, buffer);
    let mut verifier = Verifier::new(MessageDigest::sha256(), certificate.key())?;
    // A value of another length than the key's is an error there, and no fault of ours.
    if verifier.verify_oneshot(&signature.value, buffer).unwrap_or(false) {
        Ok(())
    } else {
        Err(SignatureFault::Value.into())
    }
}

/// The digest of an element. Those of parts are checked when their bytes pass.
fn check_digest(
    document: &Document,
    reference: &Reference<'_>,
    buffer: &mut Vec<u8>,
) -> Result<(), SignatureFault> {
    let Target::Element(node) = reference.target else { return Ok(()) };
    buffer.clear();
    c14n::exclusive(document, node, &reference.prefix_list, buffer);
    if Digest::of(buffer) == reference.digest {
        Ok(())
    } else {
        Err(SignatureFault::Digest(reference.uri.to_owned()))
    }
}

#[cfg(test)]
mod tests;
