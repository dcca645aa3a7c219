//! The headers of one part, and how Content-IDs are compared.

use super::{MediaType, MimeError, Multipart, TransferEncoding, quoted};
use crate::model::ContentId;

/// The headers of a part that mean something here; all others are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PartHead {
    /// `Content-ID` without its brackets. Some stacks leave it out on the root part.
    pub content_id: Option<ContentId>,
    /// `Content-Type`, unfolded.
    pub content_type: Option<String>,
    /// `Content-Transfer-Encoding`, already undone in the data that follows.
    pub encoding: TransferEncoding,
    /// `Content-Disposition`, unfolded.
    pub content_disposition: Option<String>,
}

impl PartHead {
    /// The Content-ID that every part but the root must have (SOAP with Attachments, RFC 2387).
    ///
    /// # Errors
    /// [`MimeError::NoContentId`].
    pub fn required_id(&self) -> Result<&ContentId, MimeError> {
        self.content_id.as_ref().ok_or(MimeError::NoContentId)
    }

    /// Checks the media type of the root part against `type` of the package (RFC 2387 §3.1).
    ///
    /// # Errors
    /// [`MimeError::RootType`] when they differ or the part has no media type.
    pub fn check_root(&self, package: &Multipart) -> Result<(), MimeError> {
        // RFC 2045 §5.2: a part that does not say is text/plain.
        let text = self.content_type.as_deref().unwrap_or("text/plain");
        let media_type = MediaType::parse(text)?;
        if media_type.essence() == package.root_type {
            Ok(())
        } else {
            Err(MimeError::RootType(quoted(media_type.essence())))
        }
    }

    /// The last path component of `filename` in `Content-Disposition`; never a path, never empty.
    #[must_use]
    pub fn file_name(&self) -> Option<String> {
        let (_, parameters) = self.content_disposition.as_deref()?.split_once(';')?;
        // Content-Disposition has the grammar of Content-Type but for the slash.
        let disposition = MediaType::parse(&format!("a/b;{parameters}")).ok()?;
        let name = disposition.parameter("filename")?.rsplit(['/', '\\']).next()?;
        let usable = !matches!(name, "" | "." | "..");
        usable.then(|| name.to_owned())
    }

    /// Reads the header block of a part, with CRLF or bare LF line ends and folded lines.
    pub(super) fn parse(block: &[u8]) -> Result<Self, MimeError> {
        let mut head = Self::default();
        let mut encoding = None;
        for (name, value) in fields(block)? {
            match name.as_str() {
                "content-id" => once(&mut head.content_id, content_id(text(&value)?)?, "Content-ID")?,
                "content-type" => {
                    once(&mut head.content_type, text(&value)?.to_owned(), "Content-Type")?;
                }
                "content-disposition" => {
                    once(&mut head.content_disposition, text(&value)?.to_owned(), "Content-Disposition")?;
                }
                "content-transfer-encoding" => {
                    let found = TransferEncoding::parse(text(&value)?)?;
                    once(&mut encoding, found, "Content-Transfer-Encoding")?;
                }
                _ => {}
            }
        }
        head.encoding = encoding.unwrap_or_default();
        Ok(head)
    }
}

fn once<T>(slot: &mut Option<T>, value: T, name: &'static str) -> Result<(), MimeError> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(MimeError::DuplicateHeader(name)),
    }
}

fn text(value: &[u8]) -> Result<&str, MimeError> {
    std::str::from_utf8(value).map(str::trim).map_err(|_| MimeError::Header("not UTF-8"))
}

/// Splits a header block into (name in lower case, unfolded value).
fn fields(block: &[u8]) -> Result<Vec<(String, Vec<u8>)>, MimeError> {
    let mut fields: Vec<(String, Vec<u8>)> = Vec::new();
    for line in block.split(|b| *b == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.iter().any(|b| b.is_ascii_control() && *b != b'\t') {
            return Err(MimeError::Header("control character"));
        }
        match line {
            [] => {}
            [b' ' | b'\t', ..] => {
                let (_, value) = fields.last_mut().ok_or(MimeError::Header("begins with a folded line"))?;
                value.extend_from_slice(line);
            }
            _ => fields.push(field(line)?),
        }
    }
    Ok(fields)
}

fn field(line: &[u8]) -> Result<(String, Vec<u8>), MimeError> {
    let mut halves = line.splitn(2, |b| *b == b':');
    let (Some(name), Some(value)) = (halves.next(), halves.next()) else {
        return Err(MimeError::Header("no colon"));
    };
    if name.is_empty() || !name.iter().all(u8::is_ascii_graphic) {
        return Err(MimeError::Header("the name is no token"));
    }
    Ok((String::from_utf8_lossy(name).to_ascii_lowercase(), value.to_vec()))
}

/// Takes a Content-ID with or without its angle brackets.
pub(super) fn content_id(text: &str) -> Result<ContentId, MimeError> {
    let text = text.trim();
    let bare = text.strip_prefix('<').and_then(|t| t.strip_suffix('>')).unwrap_or(text);
    ContentId::parse(bare).map_err(MimeError::ContentId)
}

/// Whether this part is the root: the one that `start` names, without `start` the first (RFC 2387 §3.2).
#[must_use]
pub fn is_root(package: &Multipart, index: usize, head: &PartHead) -> bool {
    match &package.start {
        None => index == 0,
        Some(start) => head.content_id.as_ref() == Some(start),
    }
}

/// Whether a `Content-ID` header and what follows `cid:` in a reference mean one part: equal as written,
/// or equal once the reference is percent-decoded (RFC 2392 §2). A `+` is never a space.
#[must_use]
pub fn same_content_id(header: &ContentId, href: &ContentId) -> bool {
    header == href || header.as_str().as_bytes() == percent_decoded(href.as_str())
}

/// Percent-decodes; a `%` that is not followed by two hexadecimal digits stands for itself.
pub(in crate::wire) fn percent_decoded(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        match escape(rest) {
            Some((octet, behind)) => {
                out.push(octet);
                rest = behind;
            }
            None => {
                out.push(*first);
                rest = after;
            }
        }
    }
    out
}

fn escape(text: &[u8]) -> Option<(u8, &[u8])> {
    let [b'%', high, low, rest @ ..] = text else {
        return None;
    };
    let digit = |b: u8| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok());
    Some((digit(*high)? << 4 | digit(*low)?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> ContentId {
        ContentId::parse(text).unwrap()
    }

    #[test]
    fn headers_are_read_folded_with_either_line_end_and_unknown_ones_ignored() {
        let head = PartHead::parse(
            b"content-type: multipart/x;\r\n\ta=b\nContent-ID:<a@b>\r\nMimeType: x\nContent-Transfer-Encoding: BASE64\n",
        )
        .unwrap();
        assert_eq!(head.content_type.as_deref(), Some("multipart/x;\ta=b"));
        assert_eq!(head.content_id, Some(id("a@b")));
        assert_eq!(head.encoding, TransferEncoding::Base64);
    }

    #[test]
    fn broken_headers_are_refused() {
        for block in [&b" x: y\n"[..], b"no colon\n", b"a b: c\n", b": x\n", b"a: b\rc\n", b"a: \0\n"] {
            assert!(matches!(PartHead::parse(block), Err(MimeError::Header(_))), "{block:?}");
        }
        let twice = PartHead::parse(b"Content-ID: a\nContent-Id: b\n");
        assert_eq!(twice, Err(MimeError::DuplicateHeader("Content-ID")));
        assert!(matches!(PartHead::parse(b"Content-ID: <a b>\n"), Err(MimeError::ContentId(_))));
        let unknown = PartHead::parse(b"Content-Transfer-Encoding: uuencode\n");
        assert_eq!(unknown, Err(MimeError::TransferEncoding("uuencode".into())));
    }

    #[test]
    fn content_ids_are_equal_as_written_or_percent_decoded() {
        assert!(same_content_id(&id("a@b"), &id("a@b")));
        assert!(same_content_id(&id("a@b"), &id("a%40b")));
        assert!(same_content_id(&id("50%@b"), &id("50%@b")));
        assert!(same_content_id(&id("a%40b"), &id("a%40b")));
        assert!(same_content_id(&id("a+b"), &id("a+b")));
        assert!(!same_content_id(&id("A@b"), &id("a@b")));
        assert!(!same_content_id(&id("a%40b"), &id("a@b")));
        assert!(!same_content_id(&id("ab"), &id("a%2")));
    }

    #[test]
    fn a_file_name_is_never_a_path() {
        let named = |text: &str| {
            PartHead { content_disposition: Some(text.into()), ..PartHead::default() }.file_name()
        };
        assert_eq!(named("attachment; filename=\"../x/inv.xml\"").as_deref(), Some("inv.xml"));
        assert_eq!(named("attachment; filename=\"C:\\\\x\\\\inv.xml\"").as_deref(), Some("inv.xml"));
        for text in ["attachment", "attachment; filename=\"\"", "attachment; filename=\"a/..\"", "x; y"] {
            assert_eq!(named(text), None, "{text}");
        }
    }

    #[test]
    fn the_root_is_the_first_part_or_the_one_that_start_names() {
        let package = |start: Option<&str>| Multipart {
            boundary: "b".into(),
            start: start.map(id),
            root_type: super::super::SOAP_MEDIA_TYPE.into(),
        };
        let named = PartHead { content_id: Some(id("r")), ..PartHead::default() };
        assert!(is_root(&package(None), 0, &PartHead::default()));
        assert!(!is_root(&package(None), 1, &named));
        assert!(is_root(&package(Some("r")), 3, &named));
        assert!(!is_root(&package(Some("r")), 0, &PartHead::default()));
    }
}
