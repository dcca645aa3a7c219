//! WS-Security and PKI as computations on bytes.
//!
//! What comes in is only *claimed* ([`crate::wire::ebms::Claimed`]). [`signature`] turns it into a proof
//! that names the very nodes which were signed, and with [`trust`] into a
//! verified message; nothing else can make one. [`encryption`] and [`attachment`] work on the parts piece by
//! piece. Time is always given; nothing here asks for it. Own code covers exactly the algorithms that the
//! profile allows; the primitives and X.509 are OpenSSL's.

pub mod algorithms;
pub mod attachment;
mod certificate;
mod der;
pub mod encryption;
mod error;
mod header;
pub mod key;
pub mod revocation;
pub mod signature;
pub mod trust;

pub use certificate::{CERTIFICATE_BYTES_MAX, CertificateError, PeerCertificate, RSA_BITS_MAX, RSA_BITS_MIN};
pub use error::{
    AttachmentFault, CoverageFault, DecryptionFailed, PolicyFault, SecurityError, SecurityStage,
    SignatureFault,
};
pub use header::{PREFIX_LIST_MAX, REFERENCES_MAX};

#[cfg(test)]
pub(crate) mod testing;
