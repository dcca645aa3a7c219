//! The standard business document, in bounded memory (Peppol Business Message Envelope 2.0).
//!
//! [`SbdReader`] is fed the decompressed payload, however long, and ends in an [`Sbd`]: the header as plain
//! strings, where the business document stands, and the digests that repeats are judged by. Whether the values
//! are right is for others; what must hold here is the shape: one header, one payload behind it, nothing else,
//! well-formed to the last byte. [`DocumentReader`] cuts the business document out of the stored envelope again,
//! byte for byte the one that was digested.
//!
//! The business document as the backend gets it:
//! - XML: the bytes of the payload element as received, in the encoding of the envelope and without an XML
//!   declaration ([`PayloadSpan::charset`] says which encoding that is). Namespace declarations of the envelope
//!   that the element needs are inserted behind its name ([`PayloadSpan::insert`]).
//! - `BinaryContent`: the octets that its base64 stands for.
//! - `TextContent`: its characters, unescaped, in UTF-8.
//!
//! Which declarations are inserted: those that the payload's own start tag uses; and *all* of the envelope's, as
//! soon as anything below that tag uses another one. Which one that is shows only when the start of the element
//! was digested long ago, and there is no second pass over a payload of any length.

mod document;
mod header;
mod payload;
mod reader;
mod usage;

use serde::{Deserialize, Serialize};

pub use document::DocumentReader;
pub use reader::{HEAD_BYTES_MAX, SbdLimits, SbdReader};

use super::scan::ScanError;
use crate::model::Digest;

/// Namespace of `StandardBusinessDocument` and its header.
pub const SBDH_NAMESPACE: &str = "http://www.unece.org/cefact/namespaces/StandardBusinessDocumentHeader";
/// Namespace of `BinaryContent` and `TextContent`.
pub const CONTENT_NAMESPACE: &str = "http://peppol.eu/xsd/ticc/envelope/1.0";

/// Why a payload is no standard business document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SbdError {
    /// Not well-formed, or beyond a limit.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// Another root element.
    #[error("the root element is not StandardBusinessDocument")]
    NotAnSbd,
    /// The first child is no header.
    #[error("StandardBusinessDocument does not begin with its header")]
    NoHeader,
    /// More before the payload than the limit, in bytes.
    #[error("the payload begins behind more than {0} bytes")]
    HeadTooLong(usize),
    /// A header element that Peppol allows once is there twice.
    #[error("{0} occurs twice in the header")]
    Twice(String),
    /// A header element that holds a value holds elements.
    #[error("{0} holds elements instead of a value")]
    Content(String),
    /// Text between the children of `StandardBusinessDocument`.
    #[error("text between header and payload")]
    StrayText,
    /// Nothing behind the header.
    #[error("no payload behind the header")]
    NoPayload,
    /// More than one element behind the header.
    #[error("a second payload")]
    SecondPayload,
    /// The payload is an envelope itself.
    #[error("an envelope in the envelope")]
    Nested,
    /// `BinaryContent` or `TextContent` holds elements.
    #[error("BinaryContent or TextContent holds elements")]
    WrapperContent,
    /// `BinaryContent` is not base64.
    #[error("BinaryContent is not base64")]
    Base64,
    /// The stored bytes do not hold the payload that is looked for.
    #[error("the stored envelope does not hold the payload at its place")]
    OtherEnvelope,
}

/// `Sender` or `Receiver`: its only `Identifier`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ParticipantRef {
    /// `Identifier/@Authority`.
    pub authority: Option<String>,
    /// `Identifier`, as written.
    pub value: Option<String>,
}

/// `BusinessScope/Scope`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scope {
    /// `Type`.
    pub scope_type: Option<String>,
    /// `InstanceIdentifier`.
    pub instance: Option<String>,
    /// `Identifier`.
    pub identifier: Option<String>,
}

/// `StandardBusinessDocumentHeader`: strings as written, none where the element is missing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sbdh {
    /// `HeaderVersion`.
    pub header_version: Option<String>,
    /// `Sender`.
    pub sender: Option<ParticipantRef>,
    /// `Receiver`.
    pub receiver: Option<ParticipantRef>,
    /// `DocumentIdentification/Standard`.
    pub standard: Option<String>,
    /// `DocumentIdentification/TypeVersion`.
    pub type_version: Option<String>,
    /// `DocumentIdentification/InstanceIdentifier`.
    pub instance_identifier: Option<String>,
    /// `DocumentIdentification/Type`.
    pub document_type: Option<String>,
    /// `DocumentIdentification/CreationDateAndTime`.
    pub creation: Option<String>,
    /// `BusinessScope`, in document order.
    pub scopes: Vec<Scope>,
}

impl Sbdh {
    /// The first scope of a type, which is case-sensitive.
    #[must_use]
    pub fn scope(&self, scope_type: &str) -> Option<&Scope> {
        self.scopes.iter().find(|scope| scope.scope_type.as_deref() == Some(scope_type))
    }
}

/// What the payload element is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PayloadForm {
    /// The business document itself.
    Xml,
    /// `BinaryContent`.
    Binary {
        /// `@mimeType`.
        media_type: Option<String>,
        /// `@encoding`.
        encoding: Option<String>,
    },
    /// `TextContent`.
    Text {
        /// `@mimeType`.
        media_type: Option<String>,
    },
}

/// Bytes to be inserted into the payload element.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Insert {
    /// Where, in bytes from the start of the envelope.
    pub at: u64,
    /// What: namespace declarations, each behind a blank, in the encoding of the envelope.
    pub bytes: Vec<u8>,
}

/// Where the payload stands in its envelope, and how the business document is had from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PayloadSpan {
    /// First byte of the payload element, from the start of the envelope.
    pub start: u64,
    /// The byte behind it.
    pub end: u64,
    /// Namespace name of the payload element.
    pub root_namespace: String,
    /// Local name of the payload element.
    pub root_local: String,
    /// Namespace declarations of the envelope that the payload uses; none when it stands by itself.
    pub insert: Option<Insert>,
    /// Encoding of the business document's characters: the envelope's for XML, else UTF-8.
    pub charset: String,
    /// What the payload element is.
    pub form: PayloadForm,
}

/// What was found in an envelope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sbd {
    /// The header.
    pub header: Sbdh,
    /// Where the payload stands.
    pub payload: PayloadSpan,
    /// SHA-256 of the business document as the backend gets it.
    pub document: Digest,
    /// Its size in bytes.
    pub document_size: u64,
    /// What envelopes are compared by: SHA-256 over everything around the payload except the text of
    /// `CreationDateAndTime`, and over `document`. Equal for envelopes that differ in nothing but that text
    /// (`duplicates` §2). Not the digest of any stored bytes.
    pub envelope: Digest,
    /// SHA-256 of the envelope as received.
    pub total: Digest,
    /// Its size in bytes.
    pub total_size: u64,
}

#[cfg(test)]
mod tests;
