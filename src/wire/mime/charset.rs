//! Whether a `charset` parameter and an XML document agree about the document's encoding.

use super::{MediaType, MimeError, quoted};

/// How far the XML declaration is searched, in bytes.
const DECLARATION_BYTES_MAX: usize = 256;

/// The encodings that an envelope may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Utf8,
    Utf16,
    Other,
}

impl Family {
    const fn name(self) -> &'static str {
        match self {
            Self::Utf8 => "UTF-8",
            Self::Utf16 => "UTF-16",
            Self::Other => "in another encoding",
        }
    }

    fn named(label: &str) -> Self {
        let label = label.to_ascii_lowercase();
        match label.as_str() {
            "utf-8" | "utf8" | "us-ascii" | "ascii" => Self::Utf8,
            "utf-16" | "utf-16le" | "utf-16be" => Self::Utf16,
            _ => Self::Other,
        }
    }

    /// What the first bytes of a document say: byte order mark, the width of `<`, then the declaration.
    fn of(document: &[u8]) -> Self {
        match document {
            [0xEF, 0xBB, 0xBF, ..] => Self::Utf8,
            [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] | [b'<', 0, ..] | [0, b'<', ..] => Self::Utf16,
            _ => declared(document).map_or(Self::Utf8, |label| Self::named(&label)),
        }
    }
}

/// The `encoding` of an XML declaration in ASCII bytes.
fn declared(document: &[u8]) -> Option<String> {
    let head = document.get(..DECLARATION_BYTES_MAX).unwrap_or(document);
    let end = memchr::memmem::find(head, b"?>")?;
    let declaration = std::str::from_utf8(head.get(..end)?).ok()?.strip_prefix("<?xml")?;
    let value = declaration.split_once("encoding")?.1.trim_start().strip_prefix('=')?.trim_start();
    let quote = value.chars().next()?;
    value.strip_prefix(quote)?.split_once(quote).map(|(label, _)| label.to_owned())
}

/// Compares the `charset` of a part with what the document in it says of itself; without `charset` the
/// document alone counts (RFC 7303 §3.2).
///
/// # Errors
/// [`MimeError::Charset`] when they disagree, or name an encoding that an envelope cannot have.
pub fn check_charset(content_type: &str, document: &[u8]) -> Result<(), MimeError> {
    let media_type = MediaType::parse(content_type)?;
    let Some(charset) = media_type.parameter("charset") else {
        return Ok(());
    };
    let (said, is) = (Family::named(charset), Family::of(document));
    if said == is && said != Family::Other {
        return Ok(());
    }
    Err(MimeError::Charset { charset: quoted(charset), document: is.name() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(charset: &str, document: &[u8]) -> bool {
        check_charset(&format!("application/soap+xml;charset={charset}"), document).is_ok()
    }

    #[test]
    fn agreeing_encodings_pass() {
        assert!(check("UTF-8", b"<a/>"));
        assert!(check("\"utf-8\"", b"\xEF\xBB\xBF<?xml version='1.0' encoding='utf-8'?><a/>"));
        assert!(check("utf-16", b"\xFF\xFE<\0"));
        assert!(check("UTF-16BE", b"\0<\0a"));
        assert!(check_charset("application/soap+xml", b"<?xml version=\"1.0\" encoding=\"x\"?>").is_ok());
    }

    #[test]
    fn disagreeing_encodings_are_refused() {
        assert!(!check("UTF-8", b"\xFE\xFF\0<"));
        assert!(!check("utf-16", b"<a/>"));
        assert!(!check("iso-8859-1", b"<a/>"));
        assert!(!check("iso-8859-1", b"<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?>"));
        assert!(!check("UTF-8", b"<?xml version=\"1.0\" encoding = 'ISO-8859-1'?>"));
    }
}
