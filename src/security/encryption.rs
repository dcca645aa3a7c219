//! The content key and the stream of a part: RSA-OAEP with SHA-256, AES-128-GCM (`as4-wire` §5.6).
//!
//! Everything that can be wrong with a ciphertext ends in the one value [`DecryptionFailed`]. A wrapped key
//! that cannot be unwrapped gives another key instead of an error, derived from our private key and the
//! wrapped octets, so that the failure shows where a wrong tag shows, at the end of the part.

use openssl::{
    encrypt::{Decrypter, Encrypter},
    error::ErrorStack,
    hash::MessageDigest,
    pkey::{PKeyRef, Private},
    rsa::Padding,
    symm::{Cipher, Crypter, Mode},
};
use zeroize::Zeroizing;

use super::{
    certificate::PeerCertificate,
    error::DecryptionFailed,
    key::{KeyName, OwnKey},
};

/// Length of an AES-128 key in bytes.
pub const KEY_BYTES: usize = 16;
/// Length of the initialisation vector before the ciphertext, in bytes (XML-Enc 1.1 §5.2.4).
pub const IV_BYTES: usize = 12;
/// Length of the authentication tag behind the ciphertext, in bytes.
pub const TAG_BYTES: usize = 16;
/// Most plaintext under one key and initialisation vector, in bytes (NIST SP 800-38D §5.2.1.1).
pub const GCM_PLAIN_BYTES_MAX: u64 = (1 << 36) - 32;
/// How much is deciphered at once, in bytes.
const CHUNK_BYTES: usize = 16 * 1024;

/// The symmetric key of one message. Wiped when dropped; it cannot be printed.
#[derive(Clone)]
pub struct ContentKey(Zeroizing<[u8; KEY_BYTES]>);

impl ContentKey {
    /// Takes a key that the caller made at random.
    #[must_use]
    pub fn new(octets: [u8; KEY_BYTES]) -> Self {
        Self(Zeroizing::new(octets))
    }

    fn octets(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

/// A content key as it travels: wrapped for the certificate that is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrappedKey {
    /// Whom it is for.
    pub recipient: KeyName,
    /// The octets of `xenc:CipherValue`; empty when they were no base64.
    pub octets: Vec<u8>,
}

/// Unwraps the content key with ours: one private-key operation.
///
/// # Errors
/// Only when the key is for somebody else, which everybody can see. Whatever is wrong with the wrapped
/// octets gives a key that opens nothing.
pub fn unwrap(wrapped: &WrappedKey, own: &OwnKey) -> Result<ContentKey, DecryptionFailed> {
    if !own.is_named_by(&wrapped.recipient) {
        return Err(DecryptionFailed);
    }
    // Both are made in either case.
    let fallback = own.fallback_key(&wrapped.octets);
    let unwrapped = open_oaep(&wrapped.octets, own.private());
    Ok(ContentKey(unwrapped.unwrap_or(fallback)))
}

fn open_oaep(wrapped: &[u8], key: &PKeyRef<Private>) -> Option<Zeroizing<[u8; KEY_BYTES]>> {
    let mut decrypter = Decrypter::new(key).ok()?;
    decrypter.set_rsa_padding(Padding::PKCS1_OAEP).ok()?;
    decrypter.set_rsa_oaep_md(MessageDigest::sha256()).ok()?;
    decrypter.set_rsa_mgf1_md(MessageDigest::sha256()).ok()?;
    let mut plain = Zeroizing::new(vec![0; key.size()]);
    let length = decrypter.decrypt(wrapped, &mut plain).ok()?;
    let octets = plain.get(..length)?;
    <[u8; KEY_BYTES]>::try_from(octets).ok().map(Zeroizing::new)
}

/// Wraps a content key for a peer: the octets of `xenc:CipherValue`.
///
/// # Errors
/// When the crypto library fails.
pub fn wrap(key: &ContentKey, recipient: &PeerCertificate) -> Result<Vec<u8>, ErrorStack> {
    let mut encrypter = Encrypter::new(recipient.key())?;
    encrypter.set_rsa_padding(Padding::PKCS1_OAEP)?;
    encrypter.set_rsa_oaep_md(MessageDigest::sha256())?;
    encrypter.set_rsa_mgf1_md(MessageDigest::sha256())?;
    let mut octets = vec![0; encrypter.encrypt_len(key.octets())?];
    let length = encrypter.encrypt(key.octets(), &mut octets)?;
    octets.truncate(length);
    Ok(octets)
}

/// Deciphers one part, `IV || ciphertext || tag`, piece by piece. What it gives out is **not proven**
/// before [`GcmOpener::finish`] succeeded: keep it in quarantine.
pub struct GcmOpener {
    key: ContentKey,
    start: Vec<u8>,
    crypter: Option<Crypter>,
    /// The last octets received: they may be the tag.
    held: Vec<u8>,
    plain_bytes: u64,
    buffer: Zeroizing<Vec<u8>>,
}

impl GcmOpener {
    /// For one part; every part of a message has the same key.
    #[must_use]
    pub fn new(key: &ContentKey) -> Self {
        Self {
            key: key.clone(),
            start: Vec::with_capacity(IV_BYTES),
            crypter: None,
            held: Vec::with_capacity(TAG_BYTES),
            plain_bytes: 0,
            buffer: Zeroizing::default(),
        }
    }

    /// Takes the next piece and gives out what it deciphers to.
    ///
    /// # Errors
    /// When the part is longer than GCM allows; and what `out` returns.
    pub fn feed<E: From<DecryptionFailed>>(
        &mut self,
        bytes: &[u8],
        out: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let bytes = self.take_iv(bytes)?;
        let given = (self.held.len() + bytes.len()).saturating_sub(TAG_BYTES);
        let from_held = given.min(self.held.len());
        let first: Vec<u8> = self.held.drain(..from_held).collect();
        let (second, held) = bytes.split_at_checked(given - from_held).ok_or(DecryptionFailed)?;
        self.held.extend_from_slice(held);
        for chunk in [first.as_slice()].into_iter().chain(second.chunks(CHUNK_BYTES)) {
            self.open(chunk, out)?;
        }
        Ok(())
    }

    /// Keeps what belongs to the initialisation vector and returns the rest.
    fn take_iv<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], DecryptionFailed> {
        if self.crypter.is_some() {
            return Ok(bytes);
        }
        let missing = IV_BYTES.saturating_sub(self.start.len()).min(bytes.len());
        let (iv, rest) = bytes.split_at_checked(missing).ok_or(DecryptionFailed)?;
        self.start.extend_from_slice(iv);
        if self.start.len() == IV_BYTES {
            let cipher = Cipher::aes_128_gcm();
            let crypter = Crypter::new(cipher, Mode::Decrypt, self.key.octets(), Some(&self.start));
            self.crypter = Some(crypter.map_err(|_| DecryptionFailed)?);
            self.buffer.resize(CHUNK_BYTES + cipher.block_size(), 0);
        }
        Ok(rest)
    }

    fn open<E: From<DecryptionFailed>>(
        &mut self,
        chunk: &[u8],
        out: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if chunk.is_empty() {
            return Ok(());
        }
        let length = u64::try_from(chunk.len()).map_err(|_| DecryptionFailed)?;
        self.plain_bytes = self.plain_bytes.saturating_add(length);
        if self.plain_bytes > GCM_PLAIN_BYTES_MAX {
            return Err(DecryptionFailed.into());
        }
        let crypter = self.crypter.as_mut().ok_or(DecryptionFailed)?;
        let length = crypter.update(chunk, &mut self.buffer).map_err(|_| DecryptionFailed)?;
        out(self.buffer.get(..length).ok_or(DecryptionFailed)?)
    }

    /// Checks the tag. Only now what was given out is what the sender put in.
    ///
    /// # Errors
    /// When the part is too short or its tag is wrong.
    pub fn finish(self) -> Result<(), DecryptionFailed> {
        let mut crypter = self.crypter.ok_or(DecryptionFailed)?;
        if self.held.len() != TAG_BYTES {
            return Err(DecryptionFailed);
        }
        crypter.set_tag(&self.held).map_err(|_| DecryptionFailed)?;
        crypter.finalize(&mut [0; TAG_BYTES]).map(|_| ()).map_err(|_| DecryptionFailed)
    }
}

/// Enciphers one part, piece by piece.
pub struct GcmSealer {
    crypter: Crypter,
    start: Option<[u8; IV_BYTES]>,
    plain_bytes: u64,
    buffer: Vec<u8>,
}

impl GcmSealer {
    /// For one part. The initialisation vector must never be used again under the same key.
    ///
    /// # Errors
    /// When the crypto library fails.
    pub fn new(key: &ContentKey, iv: [u8; IV_BYTES]) -> Result<Self, ErrorStack> {
        let cipher = Cipher::aes_128_gcm();
        Ok(Self {
            crypter: Crypter::new(cipher, Mode::Encrypt, key.octets(), Some(&iv))?,
            start: Some(iv),
            plain_bytes: 0,
            buffer: vec![0; CHUNK_BYTES + cipher.block_size()],
        })
    }

    /// Takes the next piece of plaintext and gives out what it becomes.
    ///
    /// # Errors
    /// When there is more plaintext than GCM allows ([`SealError::TooLong`]); and what `out` returns.
    pub fn feed<E: From<SealError>>(
        &mut self,
        bytes: &[u8],
        out: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Some(iv) = self.start.take() {
            out(&iv)?;
        }
        for chunk in bytes.chunks(CHUNK_BYTES) {
            self.plain_bytes =
                self.plain_bytes.saturating_add(u64::try_from(chunk.len()).map_err(|_| SealError::TooLong)?);
            if self.plain_bytes > GCM_PLAIN_BYTES_MAX {
                return Err(SealError::TooLong.into());
            }
            let length = self.crypter.update(chunk, &mut self.buffer).map_err(SealError::from)?;
            out(self.buffer.get(..length).unwrap_or_default())?;
        }
        Ok(())
    }

    /// Gives out the tag.
    ///
    /// # Errors
    /// When the crypto library fails; and what `out` returns.
    pub fn finish<E: From<SealError>>(
        mut self,
        out: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Some(iv) = self.start.take() {
            out(&iv)?;
        }
        let mut tag = [0; TAG_BYTES];
        self.crypter.finalize(&mut self.buffer).map_err(SealError::from)?;
        self.crypter.get_tag(&mut tag).map_err(SealError::from)?;
        out(&tag)
    }
}

/// Why a part cannot be enciphered.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// More than [`GCM_PLAIN_BYTES_MAX`].
    #[error("a part of more than {GCM_PLAIN_BYTES_MAX} bytes cannot be enciphered")]
    TooLong,
    /// The crypto library failed.
    #[error("crypto library: {0}")]
    Library(#[from] ErrorStack),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::security::testing;

    fn seal(key: &ContentKey, plain: &[u8], step: usize) -> Vec<u8> {
        let mut sealed = Vec::new();
        let mut out = |bytes: &[u8]| -> Result<(), SealError> {
            sealed.extend_from_slice(bytes);
            Ok(())
        };
        let mut sealer = GcmSealer::new(key, [9; IV_BYTES]).unwrap();
        plain.chunks(step).for_each(|chunk| sealer.feed(chunk, &mut out).unwrap());
        sealer.finish(&mut out).unwrap();
        sealed
    }

    fn open(key: &ContentKey, sealed: &[u8], step: usize) -> Result<Vec<u8>, DecryptionFailed> {
        let mut plain = Vec::new();
        let mut out = |bytes: &[u8]| -> Result<(), DecryptionFailed> {
            plain.extend_from_slice(bytes);
            Ok(())
        };
        let mut opener = GcmOpener::new(key);
        for chunk in sealed.chunks(step) {
            opener.feed(chunk, &mut out)?;
        }
        opener.finish()?;
        Ok(plain)
    }

    fn plain(length: usize) -> Vec<u8> {
        (0..length).map(|i| u8::try_from(i * 31 % 251).unwrap()).collect()
    }

    #[test]
    fn pieces_of_every_size_give_the_same_plaintext() {
        let key = ContentKey::new([7; KEY_BYTES]);
        for length in [0, 1, 15, 16, 17, 40_000] {
            let plain = plain(length);
            let sealed = seal(&key, &plain, 4096);
            assert_eq!(sealed.len(), length + IV_BYTES + TAG_BYTES);
            for step in 1..=40 {
                assert_eq!(open(&key, &sealed, step).as_ref(), Ok(&plain), "{length} {step}");
            }
            assert_eq!(seal(&key, &plain, 7), sealed);
        }
    }

    #[test]
    fn the_result_is_the_one_of_the_one_shot_function() {
        let key = ContentKey::new([7; KEY_BYTES]);
        let plain = plain(1000);
        let mut tag = [0; TAG_BYTES];
        let cipher = Cipher::aes_128_gcm();
        let ciphertext =
            openssl::symm::encrypt_aead(cipher, key.octets(), Some(&[9; IV_BYTES]), &[], &plain, &mut tag)
                .unwrap();
        assert_eq!(seal(&key, &plain, 333), [&[9; IV_BYTES], ciphertext.as_slice(), &tag].concat());
    }

    #[test]
    fn a_part_cut_anywhere_near_its_end_is_refused() {
        let key = ContentKey::new([7; KEY_BYTES]);
        let sealed = seal(&key, &plain(200), 4096);
        for cut in 1..=64 {
            let (rest, _) = sealed.split_at(sealed.len() - cut);
            assert_eq!(open(&key, rest, 13), Err(DecryptionFailed), "{cut}");
        }
        for length in 0..IV_BYTES + TAG_BYTES {
            assert_eq!(open(&key, &sealed[..length], 5), Err(DecryptionFailed), "{length}");
        }
        assert_eq!(open(&key, &[sealed.as_slice(), b"x"].concat(), 13), Err(DecryptionFailed));
        // A shortened tag would be a good tag to the cipher.
        let nothing = seal(&key, b"", 1);
        for length in 0..nothing.len() {
            assert_eq!(open(&key, &nothing[..length], 5), Err(DecryptionFailed), "{length}");
        }
    }

    #[test]
    fn a_flipped_bit_anywhere_is_refused() {
        let key = ContentKey::new([7; KEY_BYTES]);
        let sealed = seal(&key, &plain(40), 4096);
        for at in 0..sealed.len() {
            let mut other = sealed.clone();
            other[at] ^= 1;
            assert_eq!(open(&key, &other, 9), Err(DecryptionFailed), "{at}");
        }
        assert_eq!(open(&ContentKey::new([8; KEY_BYTES]), &sealed, 9), Err(DecryptionFailed));
    }

    #[test]
    fn a_wrapped_key_opens_for_its_recipient_only() {
        let (own, other) = (testing::receiver(), testing::sender());
        let key = ContentKey::new([7; KEY_BYTES]);
        let recipient = PeerCertificate::from_der(own.certificate_der()).unwrap();
        let octets = wrap(&key, &recipient).unwrap();
        let name = KeyName::Certificate(own.certificate_der().to_vec());
        let wrapped = WrappedKey { recipient: name, octets };
        assert!(unwrap(&wrapped, own).is_ok_and(|opened| opened.octets() == key.octets()));
        assert!(unwrap(&wrapped, other).is_err());
    }

    #[test]
    fn a_damaged_wrapped_key_gives_a_key_that_opens_nothing() {
        let own = testing::receiver();
        let recipient = PeerCertificate::from_der(own.certificate_der()).unwrap();
        let good = wrap(&ContentKey::new([7; KEY_BYTES]), &recipient).unwrap();
        let (mut flipped, mut long) = (good.clone(), good.clone());
        flipped[100] ^= 1;
        long.push(0);
        let sealed = seal(&ContentKey::new([7; KEY_BYTES]), b"plain", 9);
        for octets in [flipped, long, good[1..].to_vec(), Vec::new(), vec![0xFF; 256]] {
            let name = KeyName::Certificate(own.certificate_der().to_vec());
            let key = unwrap(&WrappedKey { recipient: name, octets }, own).ok().unwrap();
            assert_eq!(open(&key, &sealed, 9), Err(DecryptionFailed));
        }
    }

    #[test]
    fn a_part_longer_than_gcm_allows_is_refused() {
        let mut opener = GcmOpener::new(&ContentKey::new([7; KEY_BYTES]));
        let mut out = |_: &[u8]| Ok::<(), DecryptionFailed>(());
        opener.feed(&[0; IV_BYTES], &mut out).unwrap();
        opener.plain_bytes = GCM_PLAIN_BYTES_MAX - 1;
        assert_eq!(opener.feed(&[0; TAG_BYTES + 1], &mut out), Ok(()));
        assert_eq!(opener.feed(&[0; 1], &mut out), Err(DecryptionFailed));
    }
}
