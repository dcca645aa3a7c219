//! The `Content-Type` header: media types with parameters, and the shape of a package.

use super::{MimeError, SOAP_MEDIA_TYPE, quoted};
use crate::model::ContentId;

/// Longest `Content-Type` value that is read, in bytes.
pub const CONTENT_TYPE_BYTES_MAX: usize = 4096;
/// Longest boundary, in characters (RFC 2046 §5.1.1).
pub const BOUNDARY_CHARS_MAX: usize = 70;

/// A media type with its parameters (RFC 2045 §5.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaType {
    essence: String,
    parameters: Vec<(String, String)>,
}

impl MediaType {
    /// Reads a `Content-Type` value. Names are put in lower case, folded lines are unfolded, an unquoted
    /// value may contain the special characters that peers forget to quote.
    ///
    /// # Errors
    /// [`MimeError::ContentType`] when it is no media type, or names a parameter twice.
    pub fn parse(text: &str) -> Result<Self, MimeError> {
        if text.len() > CONTENT_TYPE_BYTES_MAX {
            return Err(MimeError::ContentType("too long"));
        }
        let text = unfold(text)?;
        let (essence, mut rest) = text.split_once(';').unwrap_or((&text, ""));
        let essence = essence.trim().to_ascii_lowercase();
        if !essence.split_once('/').is_some_and(|(kind, sub)| is_token(kind) && is_token(sub)) {
            return Err(MimeError::ContentType("no media type"));
        }
        let mut parameters: Vec<(String, String)> = Vec::new();
        while let Some((name, value, after)) = parameter(rest)? {
            if parameters.iter().any(|(known, _)| *known == name) {
                return Err(MimeError::ContentType("a parameter occurs twice"));
            }
            parameters.push((name, value));
            rest = after;
        }
        Ok(Self { essence, parameters })
    }

    /// `type/subtype` in lower case.
    #[must_use]
    pub fn essence(&self) -> &str {
        &self.essence
    }

    /// The value of a parameter, whose name is given in lower case.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Undoes obs-fold (RFC 9112 §5.2); any other control character is refused.
fn unfold(text: &str) -> Result<String, MimeError> {
    let flat = text.replace("\r\n ", " ").replace("\r\n\t", " ").replace('\t', " ");
    if flat.chars().any(char::is_control) {
        return Err(MimeError::ContentType("control character"));
    }
    Ok(flat)
}

fn is_token(text: &str) -> bool {
    const SPECIALS: &[u8] = b"()<>@,;:\\\"/[]?=";
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic() && !SPECIALS.contains(&b))
}

/// The first `name=value` of `text` and what follows it; none when only blanks are left.
fn parameter(text: &str) -> Result<Option<(String, String, &str)>, MimeError> {
    let text = text.trim_start_matches([' ', ';']);
    if text.is_empty() {
        return Ok(None);
    }
    let (name, rest) = text.split_once('=').ok_or(MimeError::ContentType("a parameter without value"))?;
    let name = name.trim().to_ascii_lowercase();
    if !is_token(&name) {
        return Err(MimeError::ContentType("a parameter's name is no token"));
    }
    let rest = rest.trim_start();
    let (value, rest) = match rest.strip_prefix('"') {
        Some(inner) => quoted_string(inner)?,
        None => rest.split_once(';').map_or_else(
            || (rest.trim_end().to_owned(), ""),
            |(value, after)| (value.trim_end().to_owned(), after),
        ),
    };
    Ok(Some((name, value, rest)))
}

/// Reads a quoted-string behind its opening quote, and the `;` behind it.
fn quoted_string(text: &str) -> Result<(String, &str), MimeError> {
    let mut value = String::new();
    let mut chars = text.chars();
    loop {
        match chars.next() {
            Some('"') => break,
            Some('\\') => value.extend(chars.next()),
            Some(c) => value.push(c),
            None => return Err(MimeError::ContentType("a quoted string does not end")),
        }
    }
    let rest = chars.as_str().trim_start();
    match rest.strip_prefix(';') {
        Some(after) => Ok((value, after)),
        None if rest.is_empty() => Ok((value, rest)),
        None => Err(MimeError::ContentType("text behind a quoted string")),
    }
}

/// The two shapes that a message may come in (ebMS3 Core §5.1.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Package {
    /// The body is the envelope.
    Bare,
    /// The envelope is the root part of a `multipart/related`.
    Multipart(Multipart),
}

/// What the `Content-Type` of a `multipart/related` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Multipart {
    /// `boundary`, without the leading dashes.
    pub boundary: String,
    /// `start`: the Content-ID of the root part; without it the first part is the root.
    pub start: Option<ContentId>,
    /// The media type that the root part must have: `type` in lower case, without parameters.
    pub root_type: String,
}

/// Reads the `Content-Type` of an HTTP body.
///
/// # Errors
/// When there is none, it cannot be read, or it is neither of the two shapes with a SOAP 1.2 root.
pub fn package(content_type: Option<&str>) -> Result<Package, MimeError> {
    let media_type = MediaType::parse(content_type.ok_or(MimeError::NoContentType)?)?;
    match media_type.essence() {
        SOAP_MEDIA_TYPE => Ok(Package::Bare),
        "multipart/related" => multipart(&media_type).map(Package::Multipart),
        other => Err(MimeError::NotSoap(quoted(other))),
    }
}

fn multipart(media_type: &MediaType) -> Result<Multipart, MimeError> {
    let boundary = media_type.parameter("boundary").ok_or(MimeError::NoBoundary)?;
    let printable = boundary.bytes().all(|b| b == b' ' || b.is_ascii_graphic());
    if boundary.is_empty() || boundary.len() > BOUNDARY_CHARS_MAX || !printable || boundary.ends_with(' ') {
        return Err(MimeError::Boundary);
    }
    let root = media_type.parameter("type").ok_or(MimeError::NoType)?;
    let root_type = MediaType::parse(root)?.essence;
    if root_type != SOAP_MEDIA_TYPE {
        return Err(MimeError::RootType(quoted(&root_type)));
    }
    let start = media_type.parameter("start").map(super::head::content_id).transpose()?;
    Ok(Multipart { boundary: boundary.to_owned(), start, root_type })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn related(rest: &str) -> Result<Multipart, MimeError> {
        match package(Some(&format!("Multipart/RELATED; type=\"application/soap+xml\"{rest}")))? {
            Package::Multipart(multipart) => Ok(multipart),
            Package::Bare => panic!("{rest}"),
        }
    }

    #[test]
    fn a_bare_envelope_is_taken_in_any_spelling() {
        for text in [
            "application/soap+xml",
            "Application/SOAP+XML;charset=UTF-8",
            "application/soap+xml; action=\"x\";",
        ] {
            assert_eq!(package(Some(text)), Ok(Package::Bare), "{text}");
        }
    }

    #[test]
    fn boundaries_of_every_peer_are_read() {
        for (text, boundary) in [
            ("; boundary=simple", "simple"),
            ("; BOUNDARY=\"----=_Part_0_31.17\"", "----=_Part_0_31.17"),
            ("; boundary=----=_Part_0_31.17; start-info=\"x\"", "----=_Part_0_31.17"),
            ("; boundary=\"uuid:0d1e-4f\"", "uuid:0d1e-4f"),
            ("; boundary=\"=_b'()+_,-./:=?\"", "=_b'()+_,-./:=?"),
            ("; boundary=\"a b\"", "a b"),
            (";\r\n\tboundary=\"a\\\"b\" ;", "a\"b"),
        ] {
            assert_eq!(related(text).map(|m| m.boundary), Ok(boundary.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_boundary_fits_at_the_limit_and_not_beyond() {
        assert!(related(&format!("; boundary={}", "x".repeat(BOUNDARY_CHARS_MAX))).is_ok());
        let beyond = related(&format!("; boundary={}", "x".repeat(BOUNDARY_CHARS_MAX + 1)));
        assert_eq!(beyond, Err(MimeError::Boundary));
        for wrong in ["; boundary=\"\"", "; boundary=\"x \"", "; boundary=\"é\""] {
            assert_eq!(related(wrong), Err(MimeError::Boundary), "{wrong}");
        }
    }

    #[test]
    fn start_is_read_with_and_without_brackets() {
        for text in ["; boundary=b; start=\"<root@x>\"", "; boundary=b; start=\"root@x\""] {
            assert_eq!(related(text).map(|m| m.start), Ok(Some(ContentId::parse("root@x").unwrap())));
        }
        assert!(matches!(related("; boundary=b; start=\"<>\""), Err(MimeError::ContentId(_))));
    }

    #[test]
    fn what_is_no_package_is_refused_by_name() {
        assert_eq!(package(None), Err(MimeError::NoContentType));
        assert_eq!(package(Some("text/xml")), Err(MimeError::NotSoap("text/xml".into())));
        assert_eq!(related(""), Err(MimeError::NoBoundary));
        assert_eq!(package(Some("multipart/related; boundary=b")), Err(MimeError::NoType));
        let soap11 = package(Some("multipart/related; boundary=b; type=\"text/xml\""));
        assert_eq!(soap11, Err(MimeError::RootType("text/xml".into())));
        for text in
            ["", "soap", "a/b; c", "a/b; c=\"d", "a/b; c=\"d\" e", "a/b; c=1; C=2", "a/b\r\nX: y", "a b/c"]
        {
            assert!(matches!(package(Some(text)), Err(MimeError::ContentType(_))), "{text}");
        }
    }

    #[test]
    fn a_content_type_fits_at_the_limit_and_not_beyond() {
        let padded = |bytes: usize| format!("{:<bytes$}", "application/soap+xml;");
        assert_eq!(package(Some(&padded(CONTENT_TYPE_BYTES_MAX))), Ok(Package::Bare));
        assert_eq!(
            package(Some(&padded(CONTENT_TYPE_BYTES_MAX + 1))),
            Err(MimeError::ContentType("too long"))
        );
    }
}
