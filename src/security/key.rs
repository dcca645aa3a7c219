//! Our own identity: a certificate, its chain, and the private key that belongs to it.

use std::fmt;

use openssl::{
    error::ErrorStack,
    hash::MessageDigest,
    nid::Nid,
    pkey::{PKey, Private},
    sha::Sha256,
    sign::Signer,
    x509::{X509, X509NameRef},
};
use zeroize::Zeroizing;

use crate::model::{Digest, PartyId, Timestamp};

use super::certificate::{self, RSA_BITS_MAX, RSA_BITS_MIN};

/// Why an identity cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The certificate file holds none.
    #[error("no certificate in the certificate file")]
    NoCertificate,
    /// The key file holds no private key that can be read without a passphrase.
    #[error("no unencrypted private key in the key file")]
    NoKey,
    /// Not an RSA key of 2048 to 4096 bits.
    #[error("the key is no RSA key of {RSA_BITS_MIN} to {RSA_BITS_MAX} bits")]
    Kind,
    /// The certificate is for another key.
    #[error("certificate and private key do not belong together")]
    Mismatch,
    /// The subject of the certificate has not exactly one CN that can be a PartyId.
    #[error("the certificate has no usable subject CN")]
    NoSeat,
    /// The crypto library failed.
    #[error("crypto library: {0}")]
    Library(#[from] ErrorStack),
}

/// How an `xenc:EncryptedKey` names the certificate it is meant for (`as4-wire` §5.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyName {
    /// The whole certificate, in DER form.
    Certificate(Vec<u8>),
    /// Its subject key identifier.
    SubjectKeyIdentifier(Vec<u8>),
    /// SHA-1 of its DER form.
    ThumbprintSha1(Vec<u8>),
    /// Its issuer's name as text (RFC 4514) and its serial number in decimal.
    IssuerSerial {
        /// `ds:X509IssuerName`.
        issuer: String,
        /// `ds:X509SerialNumber`.
        serial: String,
    },
}

/// A certificate of ours with its private key. Shared by `Arc`; the key never leaves it.
pub struct OwnKey {
    key: PKey<Private>,
    certificate: X509,
    intermediates: Vec<X509>,
    der: Vec<u8>,
    digest: Digest,
    seat: PartyId,
    not_before: Timestamp,
    not_after: Timestamp,
    fallback_secret: Zeroizing<[u8; 32]>,
}

impl OwnKey {
    /// Takes a certificate, leaf first and then its intermediates, and an unencrypted private key, both PEM.
    ///
    /// # Errors
    /// When one is missing, they do not belong together, the key is not RSA of 2048 to 4096 bits, or the
    /// subject has no usable CN.
    pub fn from_pem(certificate_chain: &[u8], key: &[u8]) -> Result<Self, KeyError> {
        // Without the callback OpenSSL would ask for the passphrase on the terminal.
        let key = PKey::private_key_from_pem_callback(key, |_| Ok(0)).map_err(|_| KeyError::NoKey)?;
        let mut chain =
            X509::stack_from_pem(certificate_chain).map_err(|_| KeyError::NoCertificate)?.into_iter();
        let certificate = chain.next().ok_or(KeyError::NoCertificate)?;
        if !certificate::is_allowed_rsa(key.id(), key.bits()) {
            return Err(KeyError::Kind);
        }
        if !certificate.public_key()?.public_eq(&key) {
            return Err(KeyError::Mismatch);
        }
        let der = certificate.to_der()?;
        Ok(Self {
            seat: certificate::common_name(certificate.subject_name()).ok_or(KeyError::NoSeat)?,
            not_before: certificate::timestamp(certificate.not_before())?,
            not_after: certificate::timestamp(certificate.not_after())?,
            intermediates: chain.collect(),
            digest: Digest::of(&der),
            fallback_secret: fallback_secret(&key)?,
            der,
            certificate,
            key,
        })
    }

    /// The subject CN: our PartyId.
    #[must_use]
    pub const fn seat(&self) -> &PartyId {
        &self.seat
    }

    /// The DER form of the certificate.
    #[must_use]
    pub fn certificate_der(&self) -> &[u8] {
        &self.der
    }

    /// SHA-256 of the certificate's DER form.
    #[must_use]
    pub const fn certificate_digest(&self) -> Digest {
        self.digest
    }

    /// How many intermediate certificates came with it.
    #[must_use]
    pub fn intermediates(&self) -> usize {
        self.intermediates.len()
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

    /// RSASSA-PKCS1-v1_5 with SHA-256 (`as4-wire` §1.3).
    ///
    /// # Errors
    /// When the crypto library fails.
    pub fn sign(&self, signed_info: &[u8]) -> Result<Vec<u8>, KeyError> {
        let mut signer = Signer::new(MessageDigest::sha256(), &self.key)?;
        Ok(signer.sign_oneshot_to_vec(signed_info)?)
    }

    /// Whether this is the certificate that is named, or one with the same key.
    #[must_use]
    pub fn is_named_by(&self, name: &KeyName) -> bool {
        match name {
            KeyName::Certificate(der) => *der == self.der || self.shares_key_with(der),
            KeyName::SubjectKeyIdentifier(octets) => {
                self.certificate.subject_key_id().is_some_and(|own| own.as_slice() == octets)
            }
            KeyName::ThumbprintSha1(octets) => {
                self.certificate.digest(MessageDigest::sha1()).is_ok_and(|own| *own == **octets)
            }
            KeyName::IssuerSerial { issuer, serial } => self.is_issued_as(issuer, serial),
        }
    }

    /// A renewed certificate may keep the key; then the old one still opens what names the other.
    fn shares_key_with(&self, der: &[u8]) -> bool {
        let other = X509::from_der(der).and_then(|certificate| certificate.public_key());
        other.is_ok_and(|key| key.public_eq(&self.key))
    }

    /// Serial equal and the issuer's values equal in any order: attribute names are spelt in many ways
    /// (`E`, `EMAILADDRESS`, an OID), and a wrong guess only leads to a failed decryption.
    fn is_issued_as(&self, issuer: &str, serial: &str) -> bool {
        let own_serial = self.certificate.serial_number().to_bn().and_then(|number| number.to_dec_str());
        let same_serial = own_serial.is_ok_and(|own| {
            let own: &str = &own;
            own == serial.trim()
        });
        same_serial && name_values(self.certificate.issuer_name()) == text_values(issuer)
    }

    pub(super) const fn private(&self) -> &PKey<Private> {
        &self.key
    }

    /// What takes the place of a content key that could not be unwrapped; see [`super::encryption`].
    pub(super) fn fallback_key(&self, wrapped: &[u8]) -> Zeroizing<[u8; 16]> {
        let mut hash = Sha256::new();
        hash.update(&*self.fallback_secret);
        hash.update(wrapped);
        let octets = Zeroizing::new(hash.finish());
        let mut key = Zeroizing::new([0; 16]);
        key.iter_mut().zip(octets.iter()).for_each(|(to, from)| *to = *from);
        key
    }
}

impl fmt::Debug for OwnKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnKey")
            .field("seat", &self.seat)
            .field("certificate", &self.digest)
            .field("not_after", &self.not_after)
            .finish_non_exhaustive()
    }
}

/// A secret that only the holder of the private key has.
fn fallback_secret(key: &PKey<Private>) -> Result<Zeroizing<[u8; 32]>, ErrorStack> {
    let private = Zeroizing::new(key.private_key_to_der()?);
    let mut hash = Sha256::new();
    hash.update(b"oncepoint implicit rejection\0");
    hash.update(&private);
    Ok(Zeroizing::new(hash.finish()))
}

fn name_values(name: &X509NameRef) -> Vec<String> {
    let mut values: Vec<String> = name
        .entries()
        .filter(|entry| entry.object().nid() != Nid::UNDEF)
        .filter_map(|entry| entry.data().to_string().ok())
        .map(|value| value.trim().to_lowercase())
        .collect();
    values.sort_unstable();
    values
}

/// The attribute values of a distinguished name in RFC 4514 text.
fn text_values(text: &str) -> Vec<String> {
    let mut values = Vec::new();
    let mut current = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => current.extend(characters.next()),
            ',' | '+' => values.push(std::mem::take(&mut current)),
            _ => current.push(character),
        }
    }
    values.push(current);
    let mut values: Vec<String> = values
        .iter()
        .filter_map(|pair| pair.split_once('='))
        .map(|(_, value)| value.trim().trim_matches('"').to_lowercase())
        .collect();
    values.sort_unstable();
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::security::testing;

    #[test]
    fn a_key_signs_what_its_certificate_verifies() {
        let own = testing::receiver();
        let signature = own.sign(b"signed info").unwrap();
        let peer = crate::security::PeerCertificate::from_der(own.certificate_der()).unwrap();
        let mut verifier = openssl::sign::Verifier::new(MessageDigest::sha256(), peer.key()).unwrap();
        assert!(verifier.verify_oneshot(&signature, b"signed info").unwrap());
        assert_eq!(own.seat().as_str(), "POP000002");
    }

    #[test]
    fn key_and_certificate_of_different_owners_are_refused() {
        let (sender, receiver) = (testing::sender_pem(), testing::receiver_pem());
        assert!(matches!(OwnKey::from_pem(&sender.0, &receiver.1), Err(KeyError::Mismatch)));
        assert!(matches!(OwnKey::from_pem(b"", &receiver.1), Err(KeyError::NoCertificate)));
        assert!(matches!(OwnKey::from_pem(&sender.0, b"junk"), Err(KeyError::NoKey)));
    }

    #[test]
    fn an_encrypted_key_is_refused_without_asking_for_its_passphrase() {
        let own = testing::receiver();
        let cipher = openssl::symm::Cipher::aes_128_cbc();
        let pem = own.private().private_key_to_pem_pkcs8_passphrase(cipher, b"secret").unwrap();
        assert!(matches!(OwnKey::from_pem(&testing::receiver_pem().0, &pem), Err(KeyError::NoKey)));
    }

    #[test]
    fn keys_outside_the_sizes_and_kinds_are_refused() {
        for pem in [testing::pem_with_rsa(1024), testing::pem_with_curve()] {
            assert!(matches!(OwnKey::from_pem(&pem.0, &pem.1), Err(KeyError::Kind)));
        }
    }

    #[test]
    fn every_form_of_naming_finds_the_key_and_no_other() {
        let (own, other) = (testing::receiver(), testing::sender());
        let x509 = X509::from_der(own.certificate_der()).unwrap();
        let serial = x509.serial_number().to_bn().unwrap().to_dec_str().unwrap().to_string();
        let names = [
            KeyName::Certificate(own.certificate_der().to_vec()),
            KeyName::SubjectKeyIdentifier(x509.subject_key_id().unwrap().as_slice().to_vec()),
            KeyName::ThumbprintSha1(x509.digest(MessageDigest::sha1()).unwrap().to_vec()),
            KeyName::IssuerSerial { issuer: "CN=TEST AP CA, O=Test\\, Inc.,C=BE".to_owned(), serial },
        ];
        for name in names {
            assert!(own.is_named_by(&name), "{name:?}");
            assert!(!other.is_named_by(&name), "{name:?}");
        }
    }

    #[test]
    fn debug_shows_no_key() {
        let shown = format!("{:?}", testing::receiver());
        assert!(shown.contains("POP000002") && !shown.contains("key:") && !shown.contains("PKey"), "{shown}");
    }

    #[test]
    fn the_fallback_key_depends_on_the_ciphertext_and_on_the_key() {
        let (own, other) = (testing::receiver(), testing::sender());
        assert_eq!(*own.fallback_key(b"a"), *own.fallback_key(b"a"));
        assert_ne!(*own.fallback_key(b"a"), *own.fallback_key(b"b"));
        assert_ne!(*own.fallback_key(b"a"), *other.fallback_key(b"a"));
    }
}
