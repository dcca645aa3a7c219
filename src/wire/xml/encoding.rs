//! From received bytes to characters: which encoding a document is in (XML §4.3.3, appendix F).
//!
//! UTF-8 and UTF-16 are read, with a byte order mark or by declaration, and besides them US-ASCII and ISO-8859-1
//! when declared. Mark, declaration and bytes must agree.

use super::error::{LimitKind, XmlError};
use super::markup::xml_declaration;

/// Longest XML declaration, in bytes with its delimiters.
pub(in crate::wire) const XML_DECLARATION_BYTES_MAX: usize = 1024;
const UTF8_MARK: &[u8] = b"\xEF\xBB\xBF";

/// The encoding of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// US-ASCII, declared.
    Ascii,
    /// ISO-8859-1, declared.
    Latin1,
    /// UTF-16, most significant byte first.
    Utf16Be,
    /// UTF-16, least significant byte first.
    Utf16Le,
    /// UTF-8.
    Utf8,
}

impl Encoding {
    /// Whether a name, as a charset parameter or an encoding declaration has it, means this encoding.
    #[must_use]
    pub fn is_named(self, name: &str) -> bool {
        let names: &[&str] = match self {
            Self::Ascii => &["us-ascii", "ascii"],
            Self::Latin1 => &["iso-8859-1", "latin1"],
            Self::Utf16Be => &["utf-16", "utf-16be"],
            Self::Utf16Le => &["utf-16", "utf-16le"],
            Self::Utf8 => &["utf-8", "utf8"],
        };
        names.iter().any(|candidate| name.eq_ignore_ascii_case(candidate))
    }

    /// Bytes that a piece of decoded text had in this encoding.
    pub(in crate::wire) fn width(self, text: &str) -> usize {
        match self {
            Self::Ascii | Self::Utf8 => text.len(),
            Self::Latin1 => text.chars().count(),
            Self::Utf16Be | Self::Utf16Le => text.chars().map(|c| c.len_utf16() * 2).sum(),
        }
    }
}

/// Whether all bytes of a document are at hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::wire) enum Extent {
    /// More may follow.
    Partial,
    /// Nothing follows.
    Whole,
}

/// How the bytes of a document are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::wire) struct Sniffed {
    pub(in crate::wire) encoding: Encoding,
    /// Bytes of the byte order mark; 0 without one.
    pub(in crate::wire) mark_bytes: usize,
}

impl Sniffed {
    /// Whether a declared encoding, or the absence of a declaration, agrees with the bytes.
    pub(in crate::wire) fn check_declared(self, name: Option<&str>) -> Result<(), XmlError> {
        match (name, self.encoding) {
            (Some(name), encoding) if encoding.is_named(name) => Ok(()),
            (Some(_), _) => Err(XmlError::Encoding("the declared encoding is not that of the bytes")),
            (None, Encoding::Utf16Be | Encoding::Utf16Le) if self.mark_bytes == 0 => {
                Err(XmlError::Encoding("UTF-16 without byte order mark is not declared"))
            }
            (None, _) => Ok(()),
        }
    }
}

/// Finds the encoding from the first bytes; `None` when more of them are needed.
pub(in crate::wire) fn sniff(head: &[u8], extent: Extent) -> Result<Option<Sniffed>, XmlError> {
    let found = |encoding, mark_bytes| Ok(Some(Sniffed { encoding, mark_bytes }));
    match head {
        [0xFE, 0xFF, ..] => return found(Encoding::Utf16Be, 2),
        [0xFF, 0xFE, ..] => return found(Encoding::Utf16Le, 2),
        [0x00, b'<', 0x00, b'?', ..] => return found(Encoding::Utf16Be, 0),
        [b'<', 0x00, b'?', 0x00, ..] => return found(Encoding::Utf16Le, 0),
        _ if head.len() < 4 && extent == Extent::Partial => return Ok(None),
        _ => {}
    }
    let (rest, mark_bytes) = match head.strip_prefix(UTF8_MARK) {
        Some(rest) => (rest, UTF8_MARK.len()),
        None => (head, 0),
    };
    match declared(rest, extent)? {
        Declared::More => Ok(None),
        Declared::Nothing => found(Encoding::Utf8, mark_bytes),
        Declared::Encoding(encoding) if mark_bytes == 0 || encoding == Encoding::Utf8 => {
            found(encoding, mark_bytes)
        }
        Declared::Encoding(_) => Err(XmlError::Encoding("the declaration contradicts the byte order mark")),
    }
}

enum Declared {
    Encoding(Encoding),
    More,
    Nothing,
}

/// Reads the encoding out of an XML declaration in an encoding that contains US-ASCII.
fn declared(head: &[u8], extent: Extent) -> Result<Declared, XmlError> {
    const OPEN: &[u8] = b"<?xml";
    let undecided = if extent == Extent::Partial { Declared::More } else { Declared::Nothing };
    let Some(content) = head.strip_prefix(OPEN) else {
        let may_become = head.len() < OPEN.len() && OPEN.starts_with(head);
        return Ok(if may_become { undecided } else { Declared::Nothing });
    };
    match content.first() {
        Some(&byte) if super::chars::is_space(byte) => {}
        Some(_) => return Ok(Declared::Nothing),
        None => return Ok(undecided),
    }
    let window = head.get(..XML_DECLARATION_BYTES_MAX.min(head.len())).unwrap_or(head);
    let Some(end) = memchr::memmem::find(window, b"?>") else {
        return if head.len() >= XML_DECLARATION_BYTES_MAX {
            Err(declaration_too_long())
        } else {
            Ok(undecided)
        };
    };
    let content = window.get(2..end).and_then(|bytes| std::str::from_utf8(bytes).ok());
    // A malformed declaration is reported where the document is read, with its place.
    let Some(Ok(Some(name))) = content.map(xml_declaration) else { return Ok(Declared::Nothing) };
    [Encoding::Utf8, Encoding::Ascii, Encoding::Latin1]
        .into_iter()
        .find(|encoding| encoding.is_named(name))
        .map(Declared::Encoding)
        .ok_or(XmlError::Encoding("the declared encoding is not read, or not that of the bytes"))
}

/// The error for an XML declaration beyond its limit.
pub(in crate::wire) fn declaration_too_long() -> XmlError {
    XmlError::Limit { kind: LimitKind::XmlDeclaration, max: XML_DECLARATION_BYTES_MAX }
}

/// Decodes a whole document, without its byte order mark.
pub(in crate::wire) fn decode(source: &[u8], sniffed: Sniffed) -> Result<String, XmlError> {
    let bytes = source.get(sniffed.mark_bytes..).unwrap_or(&[]);
    match sniffed.encoding {
        Encoding::Ascii if !bytes.is_ascii() => Err(NOT_ASCII),
        Encoding::Ascii | Encoding::Utf8 => {
            std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| NOT_UTF8)
        }
        encoding => {
            let mut text = String::with_capacity(bytes.len());
            let mut transcoder = Transcoder::new(encoding);
            transcoder.push(bytes, &mut text)?;
            transcoder.finish()?;
            Ok(text)
        }
    }
}

/// A byte beyond US-ASCII in a document that claims it.
pub(in crate::wire) const NOT_ASCII: XmlError = XmlError::Encoding("not US-ASCII as declared");
/// A malformed sequence in a document in UTF-8.
pub(in crate::wire) const NOT_UTF8: XmlError = XmlError::Encoding("not UTF-8");
const NOT_UTF16: XmlError = XmlError::Encoding("not UTF-16");

/// Turns bytes in UTF-16 or ISO-8859-1 into text, piece by piece.
#[derive(Debug)]
pub(in crate::wire) struct Transcoder {
    encoding: Encoding,
    /// First byte of a UTF-16 code unit whose second has not come.
    half: Option<u8>,
    /// First unit of a surrogate pair whose second has not come.
    high: Option<u16>,
}

impl Transcoder {
    pub(in crate::wire) fn new(encoding: Encoding) -> Self {
        Self { encoding, half: None, high: None }
    }

    /// Appends what is complete.
    pub(in crate::wire) fn push(&mut self, bytes: &[u8], out: &mut String) -> Result<(), XmlError> {
        let order: fn([u8; 2]) -> u16 = match self.encoding {
            Encoding::Utf16Be => u16::from_be_bytes,
            Encoding::Utf16Le => u16::from_le_bytes,
            Encoding::Ascii | Encoding::Latin1 | Encoding::Utf8 => {
                out.extend(bytes.iter().copied().map(char::from));
                return Ok(());
            }
        };
        for &byte in bytes {
            match self.half.take() {
                None => self.half = Some(byte),
                Some(first) => self.unit(order([first, byte]), out)?,
            }
        }
        Ok(())
    }

    fn unit(&mut self, unit: u16, out: &mut String) -> Result<(), XmlError> {
        let high_surrogate = (0xD800..0xDC00).contains(&unit);
        let units = match self.high.take() {
            Some(high) => [high, unit],
            None if high_surrogate => {
                self.high = Some(unit);
                return Ok(());
            }
            // A second unit of 0 is not looked at: the first is complete.
            None => [unit, 0],
        };
        let c = char::decode_utf16(units).next().and_then(Result::ok).ok_or(NOT_UTF16)?;
        out.push(c);
        Ok(())
    }

    /// Nothing may be half done at the end.
    pub(in crate::wire) fn finish(&self) -> Result<(), XmlError> {
        if self.half.is_some() || self.high.is_some() { Err(NOT_UTF16) } else { Ok(()) }
    }
}
