//! A push scanner for XML of any length.
//!
//! Bytes go in as they come, events come out; memory is bounded by [`ScanLimits`] however long the document is,
//! because text is handed on in pieces and everything else has a limit. Where the pieces of input are cut does
//! not change what is reported, except where text is cut. The scanner takes exactly what
//! [`super::xml::Document`] takes, limits aside: a document without DOCTYPE that is well-formed and
//! namespace-well-formed to its last byte.

mod core;
mod event;
mod names;
mod text;
mod token;

#[cfg(test)]
mod tests;

pub use event::{ScanAttribute, ScanDeclaration, ScanEvent, ScanName, Span};
pub use names::{Attributes, Declarations};

use self::core::{Core, Handler};
use super::xml::encoding::{
    Extent, NOT_ASCII, NOT_UTF8, Sniffed, Transcoder, XML_DECLARATION_BYTES_MAX, sniff,
};
use super::xml::{Encoding, LimitKind, NamespaceNames, Violation, XmlError};

/// Bytes that are decoded at a time: bounds the pieces of text, and what is copied of them.
const STRIDE_BYTES: usize = 64 * 1024;

/// How much of a document is held or taken before it is refused. Its length is not limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanLimits {
    /// Longest tag with all its attributes, reference, comment or processing instruction, in bytes of UTF-8.
    pub token_bytes_max: usize,
    /// Deepest nesting of elements; the document element is at depth 1.
    pub depth_max: usize,
    /// Most attributes, namespace declarations included, of one element.
    pub attributes_max: usize,
    /// Most namespace declarations in scope at one element.
    pub namespaces_max: usize,
    /// What namespace names are taken.
    pub namespace_names: NamespaceNames,
}

impl ScanLimits {
    /// The limits of a business document or its envelope, which is passed on as it came.
    pub const DOCUMENT: Self = Self {
        token_bytes_max: 64 * 1024,
        depth_max: 512,
        attributes_max: 256,
        // Every prefix is looked up among these: the work per byte is bounded by them.
        namespaces_max: 256,
        namespace_names: NamespaceNames::Any,
    };

    /// The same for a document whose canonical form is asked for.
    pub const CANONICAL: Self = Self { namespace_names: NamespaceNames::Absolute, ..Self::DOCUMENT };
}

/// Why bytes are no document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ScanError {
    /// The scanner was fed again after it, or whoever received its events, had failed.
    #[error("reading was given up before")]
    Abandoned,
    /// A document type declaration, of which none is taken.
    #[error("the document has a DOCTYPE")]
    Doctype,
    /// The bytes are not in the encoding that they claim, or in one that is not read.
    #[error("encoding: {0}")]
    Encoding(&'static str),
    /// Too much of something.
    #[error("more than {max} {}", kind.as_str())]
    Limit {
        /// Of what.
        kind: LimitKind,
        /// The limit.
        max: usize,
    },
    /// Not well-formed, or not namespace-well-formed.
    #[error("{rule} (near byte {at})")]
    Malformed {
        /// The rule that is broken.
        rule: Violation,
        /// Where, in bytes of the input.
        at: u64,
    },
}

impl From<XmlError> for ScanError {
    fn from(error: XmlError) -> Self {
        match error {
            XmlError::Doctype => Self::Doctype,
            XmlError::Encoding(reason) => Self::Encoding(reason),
            XmlError::Limit { kind, max } => Self::Limit { kind, max },
            XmlError::Malformed { rule, at } => Self::Malformed { rule, at: at as u64 },
        }
    }
}

/// How bytes become characters.
#[derive(Debug)]
enum Stage {
    /// The encoding is not known yet; the bytes so far.
    Head(Vec<u8>),
    /// UTF-8 or US-ASCII; the bytes of a character that is not complete.
    Utf8 { core: Core, ascii_only: bool, partial: Vec<u8> },
    /// UTF-16 or ISO-8859-1.
    Transcoded { core: Core, transcoder: Transcoder, decoded: String },
    /// Something has failed.
    Abandoned,
}

/// Reads a document of any length piece by piece.
#[derive(Debug)]
pub struct Scanner {
    limits: ScanLimits,
    stage: Stage,
}

impl Scanner {
    /// A scanner at the start of a document.
    #[must_use]
    pub fn new(limits: ScanLimits) -> Self {
        Self { limits, stage: Stage::Head(Vec::new()) }
    }

    /// Reads the next bytes and reports what is complete.
    ///
    /// # Errors
    /// When the document is malformed or exceeds a limit, or `on` fails; and from then on.
    pub fn feed<E: From<ScanError>>(
        &mut self,
        bytes: &[u8],
        on: &mut dyn FnMut(ScanEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut stage = std::mem::replace(&mut self.stage, Stage::Abandoned);
        for stride in bytes.chunks(STRIDE_BYTES) {
            stage = self.advance(stage, stride, Extent::Partial, on)?;
        }
        self.stage = stage;
        Ok(())
    }

    /// Ends the document.
    ///
    /// # Errors
    /// When the document is not complete, or as [`Self::feed`].
    pub fn finish<E: From<ScanError>>(
        mut self,
        on: &mut dyn FnMut(ScanEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut stage = std::mem::replace(&mut self.stage, Stage::Abandoned);
        if matches!(stage, Stage::Head(_)) {
            stage = self.advance(stage, &[], Extent::Whole, on)?;
        }
        match stage {
            Stage::Head(_) | Stage::Abandoned => Err(ScanError::Abandoned.into()),
            Stage::Utf8 { partial, .. } if !partial.is_empty() => Err(E::from(NOT_UTF8.into())),
            Stage::Utf8 { core, .. } => Ok(core.finish()?),
            Stage::Transcoded { core, transcoder, .. } => {
                transcoder.finish().map_err(ScanError::from)?;
                Ok(core.finish()?)
            }
        }
    }

    fn advance<E: From<ScanError>>(
        &self,
        stage: Stage,
        bytes: &[u8],
        extent: Extent,
        on: &mut Handler<'_, E>,
    ) -> Result<Stage, E> {
        match stage {
            Stage::Abandoned => Err(ScanError::Abandoned.into()),
            Stage::Head(head) => self.head(head, bytes, extent, on),
            Stage::Utf8 { mut core, ascii_only, mut partial } => {
                if ascii_only && !bytes.is_ascii() {
                    return Err(E::from(NOT_ASCII.into()));
                }
                utf8(&mut core, &mut partial, bytes, on)?;
                Ok(Stage::Utf8 { core, ascii_only, partial })
            }
            Stage::Transcoded { mut core, mut transcoder, mut decoded } => {
                decoded.clear();
                let pushed = transcoder.push(bytes, &mut decoded);
                core.push(&decoded, on)?;
                pushed.map_err(ScanError::from)?;
                Ok(Stage::Transcoded { core, transcoder, decoded })
            }
        }
    }

    fn head<E: From<ScanError>>(
        &self,
        mut head: Vec<u8>,
        bytes: &[u8],
        extent: Extent,
        on: &mut Handler<'_, E>,
    ) -> Result<Stage, E> {
        // A mark and the longest declaration are enough to tell.
        let (taken, rest) =
            bytes.split_at(bytes.len().min((XML_DECLARATION_BYTES_MAX + 4).saturating_sub(head.len())));
        head.extend_from_slice(taken);
        let Some(sniffed) = sniff(&head, extent).map_err(ScanError::from)? else {
            return Ok(Stage::Head(head));
        };
        let start = head.get(sniffed.mark_bytes..).unwrap_or(&[]);
        let stage = self.advance(self.decoding(sniffed), start, extent, on)?;
        if rest.is_empty() { Ok(stage) } else { self.advance(stage, rest, extent, on) }
    }

    fn decoding(&self, sniffed: Sniffed) -> Stage {
        let core = Core::new(sniffed, self.limits);
        match sniffed.encoding {
            Encoding::Utf8 => Stage::Utf8 { core, ascii_only: false, partial: Vec::new() },
            Encoding::Ascii => Stage::Utf8 { core, ascii_only: true, partial: Vec::new() },
            encoding @ (Encoding::Latin1 | Encoding::Utf16Be | Encoding::Utf16Le) => {
                Stage::Transcoded { core, transcoder: Transcoder::new(encoding), decoded: String::new() }
            }
        }
    }
}

/// Hands on bytes in UTF-8, keeping back a character that is not complete.
fn utf8<E: From<ScanError>>(
    core: &mut Core,
    partial: &mut Vec<u8>,
    bytes: &[u8],
    on: &mut Handler<'_, E>,
) -> Result<(), E> {
    let mut rest = bytes;
    while let (false, [byte, after @ ..]) = (partial.is_empty(), rest) {
        partial.push(*byte);
        rest = after;
        match std::str::from_utf8(partial) {
            Ok(character) => {
                core.push(character, on)?;
                partial.clear();
            }
            Err(error) if error.error_len().is_none() => {}
            Err(_) => return Err(E::from(NOT_UTF8.into())),
        }
    }
    let (valid, error_len) = match std::str::from_utf8(rest) {
        Ok(text) => return core.push(text, on),
        Err(error) => (error.valid_up_to(), error.error_len()),
    };
    let (valid, invalid) = rest.split_at(valid);
    core.push(std::str::from_utf8(valid).unwrap_or(""), on)?;
    if error_len.is_some() {
        return Err(E::from(NOT_UTF8.into()));
    }
    partial.extend_from_slice(invalid);
    Ok(())
}
