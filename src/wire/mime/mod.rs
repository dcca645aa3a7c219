//! `multipart/related`, fed piece by piece.
//!
//! [`package`] reads the `Content-Type` of the HTTP body; [`PartReader`] takes the body in pieces of any
//! size and hands out the parts, transfer-decoded, without ever holding one. How the input is cut never
//! changes what comes out. Body bytes are handed out as they came: the CRLF before a delimiter belongs to
//! the delimiter, nothing else is added, dropped or rewritten (digests depend on it).

mod charset;
mod content_type;
mod head;
mod reader;
mod transfer;

pub use charset::check_charset;
pub use content_type::{BOUNDARY_CHARS_MAX, CONTENT_TYPE_BYTES_MAX, MediaType, Multipart, Package, package};
pub(in crate::wire) use head::percent_decoded;
pub use head::{PartHead, is_root, same_content_id};
pub use reader::{
    DELIMITER_BLANKS_MAX, HEADER_BYTES_MAX, HEADER_LINE_BYTES_MAX, MimeLimits, PARTS_MAX, PartEvent,
    PartReader,
};
pub(in crate::wire) use transfer::Base64Decoder;
pub use transfer::TransferEncoding;

/// The media type of a SOAP 1.2 envelope (RFC 3902).
pub const SOAP_MEDIA_TYPE: &str = "application/soap+xml";

/// What is wrong with a package. Texts from the peer are cut and printed escaped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MimeError {
    /// The HTTP message has no `Content-Type`.
    #[error("no Content-Type")]
    NoContentType,
    /// A `Content-Type` that cannot be read.
    #[error("Content-Type cannot be read: {0}")]
    ContentType(&'static str),
    /// Neither `application/soap+xml` nor `multipart/related`.
    #[error("media type {0:?} is neither application/soap+xml nor multipart/related")]
    NotSoap(String),
    /// `multipart/related` without `boundary`.
    #[error("multipart/related without boundary")]
    NoBoundary,
    /// A boundary that RFC 2046 §5.1.1 does not allow.
    #[error("boundary must have 1 to 70 printable characters")]
    Boundary,
    /// `multipart/related` without `type` (RFC 2387 §3.1).
    #[error("multipart/related without type")]
    NoType,
    /// `type`, or the media type of the root part, is not that of SOAP 1.2.
    #[error("the root part is {0:?}, not application/soap+xml")]
    RootType(String),
    /// No part is the root: `start` names none of them.
    #[error("start names no part")]
    StartUnresolved,
    /// A `Content-ID` (or `start`) that is none.
    #[error("unusable Content-ID: {0}")]
    ContentId(crate::model::IdError),
    /// A part other than the root has no `Content-ID`.
    #[error("an attachment has no Content-ID")]
    NoContentId,
    /// Two parts with one `Content-ID`.
    #[error("two parts have the Content-ID {0:?}")]
    DuplicateContentId(String),
    /// A header line of a part that is none.
    #[error("part header cannot be read: {0}")]
    Header(&'static str),
    /// A header of a part occurs twice.
    #[error("a part has two {0} headers")]
    DuplicateHeader(&'static str),
    /// The headers of a part are longer than the limit, in bytes.
    #[error("the headers of a part exceed {0} bytes")]
    HeaderTooLong(usize),
    /// A header line is longer than the limit, in bytes.
    #[error("a header line of a part exceeds {0} bytes")]
    HeaderLineTooLong(usize),
    /// More parts than the limit.
    #[error("more than {0} parts")]
    TooManyParts(usize),
    /// An unknown `Content-Transfer-Encoding`.
    #[error("unknown Content-Transfer-Encoding {0:?}")]
    TransferEncoding(String),
    /// A body that is not what its `Content-Transfer-Encoding` says.
    #[error("body is not valid {0}")]
    Encoding(&'static str),
    /// More blanks behind a boundary than the limit, in bytes.
    #[error("more than {0} blanks behind a boundary")]
    DelimiterLine(usize),
    /// The package has no part.
    #[error("no part before the closing delimiter")]
    NoParts,
    /// The package ends before its closing delimiter.
    #[error("the closing delimiter is missing")]
    NoClosingDelimiter,
    /// `charset` and the document's own encoding disagree.
    #[error("charset {charset:?}, but the document is {document}")]
    Charset {
        /// The parameter.
        charset: String,
        /// What the document says of itself.
        document: &'static str,
    },
}

/// Most characters of a peer's text that an error repeats.
const QUOTED_CHARS_MAX: usize = 64;

fn quoted(text: &str) -> String {
    text.chars().take(QUOTED_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests;
