//! Why a message is not taken by this layer, in classes that an error code can be chosen by.

use openssl::error::ErrorStack;

use crate::model::EbmsCode;

use super::trust::TrustError;

/// A deciphered part was not what its key and tag stand for. One value for every reason: wrong key,
/// wrong padding, wrong tag, too short, too long (`as4-wire` §5.6, uniform by intention).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the message cannot be decrypted")]
pub struct DecryptionFailed;

/// The step of `as4-wire` §13 at which a message failed here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SecurityStage {
    /// Structure and algorithms of the security header against the policy.
    Policy,
    /// The signature value and the digests of Messaging and Body.
    Signature,
    /// That everything which must be signed and encrypted is.
    Coverage,
    /// The signer's certificate.
    Trust,
    /// The content key and the tags of the parts.
    Decrypt,
    /// The signed digests of the parts.
    Attachment,
}

/// Why a message is refused by this layer.
#[derive(Debug, thiserror::Error)]
pub enum SecurityError {
    /// Something the policy demands is missing, or something it does not allow is there.
    #[error("policy: {0}")]
    Policy(#[from] PolicyFault),
    /// The signature value or a digest is wrong.
    #[error("signature: {0}")]
    Signature(#[from] SignatureFault),
    /// Not everything is signed, or not everything is encrypted.
    #[error("coverage: {0}")]
    Coverage(#[from] CoverageFault),
    /// The signer is not trusted, or it cannot be known now.
    #[error("trust: {0}")]
    Trust(#[from] TrustError),
    /// The content cannot be decrypted.
    #[error(transparent)]
    Decryption(#[from] DecryptionFailed),
    /// A part is not the one that was signed.
    #[error("attachment: {0}")]
    Attachment(#[from] AttachmentFault),
    /// The crypto library failed on our own data: a fault of ours.
    #[error("crypto library: {0}")]
    Library(#[from] ErrorStack),
}

impl SecurityError {
    /// Where it failed; none for a fault of ours.
    #[must_use]
    pub const fn stage(&self) -> Option<SecurityStage> {
        match self {
            Self::Policy(_) => Some(SecurityStage::Policy),
            Self::Signature(_) => Some(SecurityStage::Signature),
            Self::Coverage(_) => Some(SecurityStage::Coverage),
            Self::Trust(_) => Some(SecurityStage::Trust),
            Self::Decryption(_) => Some(SecurityStage::Decrypt),
            Self::Attachment(_) => Some(SecurityStage::Attachment),
            Self::Library(_) => None,
        }
    }

    /// The ebMS code that answers it (`as4-wire` §8, `peppol-network` §2.4 rows 1 to 5); none when the
    /// fault is ours and the answer is HTTP 503.
    #[must_use]
    pub const fn code(&self) -> Option<EbmsCode> {
        match self {
            Self::Policy(_) | Self::Coverage(_) => Some(EbmsCode::PolicyNoncompliance),
            Self::Signature(_) | Self::Attachment(_) => Some(EbmsCode::FailedAuthentication),
            Self::Trust(error) if error.is_ours() => None,
            Self::Trust(_) => Some(EbmsCode::FailedAuthentication),
            Self::Decryption(_) => Some(EbmsCode::FailedDecryption),
            Self::Library(_) => None,
        }
    }
}

/// What the policy does not allow. Answered with EBMS:0103.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyFault {
    /// No `wsse:Security` for us.
    #[error("no wsse:Security header")]
    NoSecurity,
    /// No `ds:Signature` in it.
    #[error("no signature")]
    NotSigned,
    /// More than one of something that there is one of.
    #[error("more than one {0}")]
    Repeated(&'static str),
    /// More of something than is looked at.
    #[error("more than {max} {what}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// The limit.
        max: usize,
    },
    /// An element that has no place here.
    #[error("{0} is not allowed")]
    Forbidden(String),
    /// An element or attribute that must be there.
    #[error("{0} is missing or not of the required form")]
    Missing(&'static str),
    /// An algorithm outside the profile.
    #[error("{role} algorithm {algorithm} is not allowed")]
    Algorithm {
        /// What it is used for.
        role: &'static str,
        /// Its URI as received, or what is missing.
        algorithm: String,
    },
    /// A reference that is neither `#id` nor `cid:`, or points at nothing that may be signed.
    #[error("the signature reference {0} is not allowed")]
    Reference(String),
    /// The signing key is not given as a BinarySecurityToken.
    #[error("the signing key is not given as an X.509 BinarySecurityToken: {0}")]
    SigningToken(&'static str),
    /// The parts are not encrypted, though the policy demands it.
    #[error("the payload is not encrypted")]
    NotEncrypted,
}

/// What is wrong with a signature. Answered with EBMS:0101.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignatureFault {
    /// The token holds no certificate that can be read.
    #[error("the signing certificate cannot be read")]
    Certificate,
    /// The key is of a kind or size that the profile does not allow.
    #[error("the signing key is no RSA key of 2048 to 4096 bits")]
    Key,
    /// The value is not the signature of SignedInfo by that key.
    #[error("the signature value is wrong")]
    Value,
    /// The digest is not the one of the referenced element.
    #[error("the digest of {0} is wrong")]
    Digest(String),
}

/// What is not covered. Answered with EBMS:0103.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CoverageFault {
    /// `eb:Messaging` is not among the references.
    #[error("eb:Messaging is not signed")]
    Messaging,
    /// The Body is not among the references.
    #[error("the Body is not signed")]
    Body,
    /// A part that PartInfo names is not signed.
    #[error("the part {0} is not signed")]
    PartNotSigned(String),
    /// A part that PartInfo names is not encrypted, though others are or the policy demands it.
    #[error("the part {0} is not encrypted")]
    PartNotEncrypted(String),
    /// A signed or encrypted part that no PartInfo names.
    #[error("{0} is no part of the message")]
    PartUnknown(String),
    /// The same target twice.
    #[error("{0} is named twice")]
    Twice(String),
}

/// What is wrong with a part. Answered with EBMS:0101.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AttachmentFault {
    /// The digest of its bytes is not the signed one.
    #[error("the digest of the part is not the signed one")]
    Digest,
    /// It cannot be brought into canonical form because it is no well-formed XML.
    #[error("the part is signed as XML and is none: {0}")]
    NotXml(String),
}
