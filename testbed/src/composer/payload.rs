//! The payload part: generated, packed, digested, encrypted, all as a stream.

use std::io::{self, Write};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use openssl::{
    encrypt::Encrypter,
    hash::MessageDigest,
    pkey::Id,
    rand::rand_bytes,
    rsa::Padding,
    sha::Sha256,
    symm::{Cipher, Crypter, Mode},
    x509::X509,
};

use super::{Compression, digest_form, finish, gzip};
use crate::{
    Fault,
    sbd::Sbd,
    xml::{Form, Sink},
};

/// What AES-GCM adds to a part: 12 bytes of IV before, 16 bytes of tag behind.
pub(super) const SEAL_BYTES: u64 = IV_BYTES as u64 + TAG_BYTES as u64;
const IV_BYTES: usize = 12;
const TAG_BYTES: usize = 16;

/// What is known of a payload once it was generated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The signed digest, in base64.
    pub part_digest: String,
    /// Bytes of the part before encryption.
    pub packed_bytes: u64,
    /// SHA-256 of the SBD as delivered, in hexadecimal.
    pub sbd_sha256: String,
    /// Bytes of the SBD.
    pub sbd_bytes: u64,
    /// SHA-256 of the business document, in hexadecimal.
    pub document_sha256: String,
    /// Bytes of the business document.
    pub document_bytes: u64,
}

/// Counts and digests whatever is written to it.
struct Meter {
    hash: Sha256,
    bytes: u64,
}

impl Meter {
    fn new() -> Self {
        Self { hash: Sha256::new(), bytes: 0 }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
    }
}

impl Write for Meter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.take(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(super) fn measure(sbd: &Sbd, compression: Compression) -> Result<Facts, Fault> {
    let (mut envelope, mut document) = (Meter::new(), Meter::new());
    let mut packed = Packer::new(compression, Meter::new());
    sbd.write(Form::Wire, &mut |piece| {
        if let Some(bytes) = piece.of_envelope() {
            envelope.take(bytes);
            packed.put(bytes)?;
        }
        document.take(piece.of_document().unwrap_or_default());
        Ok(())
    })?;
    let packed = packed.finish()?;
    let (part, packed_bytes) = (packed.hash.finish(), packed.bytes);
    let signed = match digest_form(compression) {
        Form::Wire => part,
        Form::Canonical => canonical_digest(sbd)?,
    };
    Ok(Facts {
        part_digest: STANDARD.encode(signed),
        packed_bytes,
        sbd_bytes: envelope.bytes,
        sbd_sha256: finish(envelope.hash),
        document_bytes: document.bytes,
        document_sha256: finish(document.hash),
    })
}

fn canonical_digest(sbd: &Sbd) -> Result<[u8; 32], Fault> {
    let mut hash = Sha256::new();
    sbd.write(Form::Canonical, &mut |piece| {
        hash.update(piece.of_envelope().unwrap_or_default());
        Ok(())
    })?;
    Ok(hash.finish())
}

/// Packs as the compression says.
enum Packer<W: Write> {
    Gzip(Box<flate2::write::GzEncoder<W>>),
    None(W),
}

impl<W: Write> Packer<W> {
    fn new(compression: Compression, out: W) -> Self {
        match compression {
            Compression::Gzip { level, modified } => Self::Gzip(Box::new(gzip(level, modified, out))),
            Compression::None => Self::None(out),
        }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        match self {
            Self::Gzip(encoder) => encoder.write_all(bytes)?,
            Self::None(out) => out.write_all(bytes)?,
        }
        Ok(())
    }

    fn finish(self) -> Result<W, Fault> {
        match self {
            Self::Gzip(encoder) => Ok(encoder.finish()?),
            Self::None(out) => Ok(out),
        }
    }
}

/// The symmetric key of one message with its IV.
#[derive(Clone)]
pub(super) struct ContentKey {
    key: [u8; 16],
    iv: [u8; IV_BYTES],
}

impl std::fmt::Debug for ContentKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ContentKey")
    }
}

impl ContentKey {
    pub(super) fn new() -> Result<Self, Fault> {
        let mut secret = Self { key: [0; 16], iv: [0; IV_BYTES] };
        rand_bytes(&mut secret.key)?;
        rand_bytes(&mut secret.iv)?;
        Ok(secret)
    }

    /// RSA-OAEP with SHA-256 and MGF1-SHA-256 for the holder of that certificate, in base64.
    pub(super) fn wrap(&self, receiver: &X509) -> Result<String, Fault> {
        let key = receiver.public_key()?;
        if key.id() != Id::RSA {
            return Err(Fault::setup("the receiver's key is no RSA key"));
        }
        let mut encrypter = Encrypter::new(&key)?;
        encrypter.set_rsa_padding(Padding::PKCS1_OAEP)?;
        encrypter.set_rsa_oaep_md(MessageDigest::sha256())?;
        encrypter.set_rsa_mgf1_md(MessageDigest::sha256())?;
        let mut wrapped = vec![0; encrypter.encrypt_len(&self.key)?];
        let size = encrypter.encrypt(&self.key, &mut wrapped)?;
        wrapped.truncate(size);
        Ok(STANDARD.encode(wrapped))
    }
}

/// Encrypts whatever is written to it and hands the ciphertext on.
struct Sealer<'a, 's> {
    crypter: Crypter,
    buffer: Vec<u8>,
    sink: &'a mut Sink<'s>,
}

impl Sealer<'_, '_> {
    fn finish(mut self) -> Result<(), Fault> {
        let size = self.crypter.finalize(&mut self.buffer)?;
        (self.sink)(self.buffer.get(..size).unwrap_or_default())?;
        let mut tag = [0; TAG_BYTES];
        self.crypter.get_tag(&mut tag)?;
        (self.sink)(&tag)
    }
}

impl Write for Sealer<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.resize(bytes.len() + TAG_BYTES, 0);
        let size = self.crypter.update(bytes, &mut self.buffer)?;
        (self.sink)(self.buffer.get(..size).unwrap_or_default()).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Generates the encrypted part: IV, ciphertext, tag (`as4-wire` §5.6).
pub(super) fn seal(
    sbd: &Sbd,
    compression: Compression,
    secret: &ContentKey,
    sink: &mut Sink<'_>,
) -> Result<(), Fault> {
    sink(&secret.iv)?;
    let crypter = Crypter::new(Cipher::aes_128_gcm(), Mode::Encrypt, &secret.key, Some(&secret.iv))?;
    let sealer = Sealer { crypter, buffer: vec![0; TAG_BYTES], sink };
    let mut packed = Packer::new(compression, io::BufWriter::with_capacity(64 * 1024, sealer));
    sbd.write(Form::Wire, &mut |piece| packed.put(piece.of_envelope().unwrap_or_default()))?;
    packed.finish()?.into_inner().map_err(|error| Fault::Io(error.into_error()))?.finish()
}
