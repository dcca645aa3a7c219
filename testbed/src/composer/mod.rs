//! An access point of its own that composes user messages: SBD, gzip, XML-DSig, AES-128-GCM, RSA-OAEP, MIME,
//! written over the `openssl` crate alone.
//!
//! A [`Draft`] says what to send. [`Draft::sign`] fixes the signed part, [`Signed::seal`] encrypts it for the
//! receiver; sealing twice gives a retry with a fresh content key around the same signature. Bodies stream:
//! the document is generated once to be digested and once to be sent.

mod envelope;
mod payload;

use std::io;

use flate2::GzBuilder;
use openssl::{sha::Sha256, x509::X509};
use uuid::Uuid;

use crate::{
    Fault, clock,
    pki::Credentials,
    sbd::{Document, Filler, Sbd},
    xml::Form,
};
pub use payload::Facts;

/// How the part is packed before it is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// AS4 compression (AS4 §3.1).
    Gzip {
        /// zlib's level, 1 to 9.
        level: u32,
        /// The time stamp in the gzip header: another one makes other bytes of the same document.
        modified: u32,
    },
    /// None: the digest is over the canonical form of the XML.
    None,
}

/// How the SOAP envelope is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Namespaces declared where they are used.
    Plain,
    /// All namespaces on the Envelope, comments, an XML declaration.
    Baroque,
}

/// What a message is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// A business document.
    Business,
    /// The ebMS test service, with the payload like a business document.
    Ping,
}

/// A user message to be sent.
#[derive(Debug, Clone)]
pub struct Draft {
    /// Who signs; `eb:From` is the subject CN.
    pub sender: Credentials,
    /// Who it is encrypted for; `eb:To` is the subject CN.
    pub receiver: X509,
    /// `eb:MessageId`.
    pub message_id: String,
    /// `eb:ConversationId`.
    pub conversation_id: String,
    /// `eb:Timestamp`.
    pub timestamp: String,
    /// `eb:From/eb:PartyId`, when it is to differ from the signer.
    pub from: Option<String>,
    /// `eb:To/eb:PartyId`, when it is to differ from the receiver.
    pub to: Option<String>,
    /// The payload.
    pub sbd: Sbd,
    /// How it is packed.
    pub compression: Compression,
    /// How the envelope is laid out.
    pub layout: Layout,
    /// What it is about.
    pub subject: Subject,
    /// Mixed into every `wsu:Id` and Content-ID: another tag signs the same message anew.
    pub tag: String,
}

impl Draft {
    /// An invoice of about `bytes` bytes under a new MessageId.
    #[must_use]
    pub fn invoice(sender: &Credentials, receiver: &X509, bytes: u64) -> Self {
        let id = Uuid::new_v4();
        let document = Document::Invoice { number: format!("INV-{id}"), bytes, filler: Filler::Plain };
        Self::with(sender, receiver, document)
    }

    /// A message with that document under a new MessageId.
    #[must_use]
    pub fn with(sender: &Credentials, receiver: &X509, document: Document) -> Self {
        let now = clock::now();
        Self {
            sender: sender.clone(),
            receiver: receiver.clone(),
            message_id: format!("{}@testbed.example", Uuid::new_v4()),
            conversation_id: Uuid::new_v4().to_string(),
            timestamp: now.clone(),
            from: None,
            to: None,
            sbd: Sbd {
                sender: "0192:991825827".to_owned(),
                receiver: "9915:testbed".to_owned(),
                instance: Uuid::new_v4().to_string(),
                created: now,
                document,
            },
            compression: Compression::Gzip { level: 6, modified: 0 },
            layout: Layout::Plain,
            subject: Subject::Business,
            tag: Uuid::new_v4().simple().to_string(),
        }
    }

    /// The same message as a sender signs it anew for a retry: new ids inside, new times, the same MessageId.
    #[must_use]
    pub fn signed_anew(&self) -> Self {
        Self {
            conversation_id: Uuid::new_v4().to_string(),
            timestamp: clock::now(),
            tag: Uuid::new_v4().simple().to_string(),
            ..self.clone()
        }
    }

    /// The same document gzipped at another time.
    #[must_use]
    pub fn gzipped_anew(&self) -> Self {
        let compression = match self.compression {
            Compression::Gzip { level, modified } => {
                Compression::Gzip { level, modified: modified.wrapping_add(60) }
            }
            Compression::None => Compression::None,
        };
        Self { compression, ..self.signed_anew() }
    }

    /// The same document in an envelope made anew: another creation date, the same instance.
    #[must_use]
    pub fn wrapped_anew(&self) -> Self {
        let mut draft = self.signed_anew();
        draft.sbd.created = "2026-11-30T23:59:59.000Z".to_owned();
        draft
    }

    /// The same MessageId around another document.
    #[must_use]
    pub fn with_other_content(&self) -> Self {
        let mut draft = self.signed_anew();
        draft.sbd.instance = Uuid::new_v4().to_string();
        match &mut draft.sbd.document {
            Document::Invoice { number, .. } | Document::Binary { number, .. } => number.push_str("-other"),
        }
        draft
    }

    /// Digests the payload and signs.
    ///
    /// # Errors
    /// When OpenSSL fails.
    pub fn sign(&self) -> Result<Signed, Fault> {
        let facts = payload::measure(&self.sbd, self.compression)?;
        let parts = envelope::sign(self, &facts)?;
        Ok(Signed { draft: self.clone(), facts, parts })
    }

    /// Signs, encrypts and packs in one go.
    ///
    /// # Errors
    /// When OpenSSL fails.
    pub fn compose(&self) -> Result<Package, Fault> {
        self.sign()?.seal()?.to_package()
    }
}

/// A message that is signed; encrypting it any number of times keeps the signature.
#[derive(Debug, Clone)]
pub struct Signed {
    draft: Draft,
    facts: Facts,
    parts: envelope::SignedParts,
}

impl Signed {
    /// What is known of the payload.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Encrypts for the receiver with a fresh content key.
    ///
    /// # Errors
    /// When OpenSSL fails.
    pub fn seal(&self) -> Result<Sealed, Fault> {
        let secret = payload::ContentKey::new()?;
        let wrapped = secret.wrap(&self.draft.receiver)?;
        let root = envelope::seal(&self.draft, &self.parts, &wrapped)?;
        Ok(Sealed { signed: self.clone(), secret, root })
    }
}

/// A message ready to go out, its payload still to be generated.
#[derive(Debug, Clone)]
pub struct Sealed {
    signed: Signed,
    secret: payload::ContentKey,
    root: Vec<u8>,
}

const CRLF: &str = "\r\n";

impl Sealed {
    /// What is known of the payload.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.signed.facts
    }

    /// What a receipt for it must say.
    #[must_use]
    pub fn claim(&self) -> Claim {
        Claim {
            message_id: self.signed.draft.message_id.clone(),
            digests: self.signed.parts.digests.clone(),
            document_sha256: self.facts().document_sha256.clone(),
            sbd_sha256: self.facts().sbd_sha256.clone(),
        }
    }

    fn boundary(&self) -> String {
        format!("=_part_{}", self.signed.draft.tag)
    }

    /// The Content-Type of the package.
    #[must_use]
    pub fn content_type(&self) -> String {
        format!(
            "multipart/related; boundary=\"{}\"; type=\"application/soap+xml\"; start=\"<root@testbed.example>\"",
            self.boundary()
        )
    }

    fn head(&self) -> Vec<u8> {
        let boundary = self.boundary();
        let mut head = format!(
            "--{boundary}{CRLF}Content-Type: application/soap+xml; charset=UTF-8{CRLF}\
             Content-Transfer-Encoding: binary{CRLF}Content-ID: <root@testbed.example>{CRLF}{CRLF}"
        )
        .into_bytes();
        head.extend_from_slice(&self.root);
        head.extend_from_slice(
            format!(
                "{CRLF}--{boundary}{CRLF}Content-Type: application/octet-stream{CRLF}\
                 Content-Transfer-Encoding: binary{CRLF}Content-ID: <{}>{CRLF}{CRLF}",
                envelope::content_id(&self.signed.draft)
            )
            .as_bytes(),
        );
        head
    }

    fn tail(&self) -> Vec<u8> {
        format!("{CRLF}--{}--{CRLF}", self.boundary()).into_bytes()
    }

    /// The Content-Length of the package.
    #[must_use]
    pub fn length(&self) -> u64 {
        let sealed = self.facts().packed_bytes + payload::SEAL_BYTES;
        sealed + self.head().len() as u64 + self.tail().len() as u64
    }

    /// Generates the package piece by piece; the payload is never held.
    ///
    /// # Errors
    /// Those of the sink and of OpenSSL.
    pub fn write(&self, sink: &mut crate::xml::Sink<'_>) -> Result<(), Fault> {
        sink(&self.head())?;
        payload::seal(&self.signed.draft.sbd, self.signed.draft.compression, &self.secret, sink)?;
        sink(&self.tail())
    }

    /// The package in memory.
    ///
    /// # Errors
    /// When OpenSSL fails.
    pub fn to_package(&self) -> Result<Package, Fault> {
        let mut body = Vec::new();
        self.write(&mut |bytes| {
            body.extend_from_slice(bytes);
            Ok(())
        })?;
        Ok(Package { content_type: self.content_type(), body, claim: self.claim() })
    }
}

/// A message as it goes over the wire, with what its receipt must say.
#[derive(Debug, Clone)]
pub struct Package {
    /// The HTTP Content-Type.
    pub content_type: String,
    /// The HTTP body.
    pub body: Vec<u8>,
    /// What a receipt for it must say.
    pub claim: Claim,
}

/// What a sender remembers of a message to judge its receipt and its delivery by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// `eb:MessageId`.
    pub message_id: String,
    /// The signed references, in order.
    pub digests: Vec<Reference>,
    /// SHA-256 of the business document, in hexadecimal.
    pub document_sha256: String,
    /// SHA-256 of the whole SBD, in hexadecimal.
    pub sbd_sha256: String,
}

/// A signed reference: its URI and its digest in base64.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// `@URI`.
    pub uri: String,
    /// `ds:DigestValue`.
    pub digest: String,
}

/// The canonical or the wire form of the SBD, whichever the signature is over.
fn digest_form(compression: Compression) -> Form {
    match compression {
        Compression::Gzip { .. } => Form::Wire,
        Compression::None => Form::Canonical,
    }
}

fn gzip<W: io::Write>(level: u32, modified: u32, out: W) -> flate2::write::GzEncoder<W> {
    GzBuilder::new().mtime(modified).write(out, flate2::Compression::new(level))
}

/// Lower-case hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn finish(hash: Sha256) -> String {
    hex(&hash.finish())
}

#[cfg(test)]
mod tests;
