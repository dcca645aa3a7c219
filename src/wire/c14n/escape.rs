//! Characters as canonical XML writes them (Canonical XML 1.0 §2.3).

/// Texts from this length on are searched before they are copied byte by byte.
const SEARCH_BYTES_MIN: usize = 64;

/// Whether character data is written as it is.
pub(super) fn is_plain_text(text: &str) -> bool {
    memchr::memchr3(b'&', b'<', b'>', text.as_bytes()).is_none()
        && memchr::memchr(b'\r', text.as_bytes()).is_none()
}

/// Appends character data.
pub(super) fn text(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    if bytes.len() >= SEARCH_BYTES_MIN && is_plain_text(text) {
        out.extend_from_slice(bytes);
        return;
    }
    escape(bytes, out, |byte| match byte {
        b'&' => Some(b"&amp;"),
        b'<' => Some(b"&lt;"),
        b'>' => Some(b"&gt;"),
        b'\r' => Some(b"&#xD;"),
        _ => None,
    });
}

/// Appends an attribute value.
pub(super) fn attribute(value: &str, out: &mut Vec<u8>) {
    escape(value.as_bytes(), out, |byte| match byte {
        b'&' => Some(b"&amp;"),
        b'<' => Some(b"&lt;"),
        b'"' => Some(b"&quot;"),
        b'\t' => Some(b"&#x9;"),
        b'\n' => Some(b"&#xA;"),
        b'\r' => Some(b"&#xD;"),
        _ => None,
    });
}

fn escape(bytes: &[u8], out: &mut Vec<u8>, replacement: impl Fn(u8) -> Option<&'static [u8]>) {
    let mut plain_from = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        if let Some(replacement) = replacement(byte) {
            out.extend_from_slice(bytes.get(plain_from..at).unwrap_or(&[]));
            out.extend_from_slice(replacement);
            plain_from = at + 1;
        }
    }
    out.extend_from_slice(bytes.get(plain_from..).unwrap_or(&[]));
}

/// Appends a name with its prefix, if it has one.
pub(super) fn name(prefix: &str, local: &str, out: &mut Vec<u8>) {
    if !prefix.is_empty() {
        out.extend_from_slice(prefix.as_bytes());
        out.push(b':');
    }
    out.extend_from_slice(local.as_bytes());
}

/// Appends a namespace declaration.
pub(super) fn declaration(prefix: &str, uri: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b" xmlns");
    if !prefix.is_empty() {
        out.push(b':');
        out.extend_from_slice(prefix.as_bytes());
    }
    out.extend_from_slice(b"=\"");
    attribute(uri, out);
    out.push(b'"');
}

/// Appends an attribute that is no namespace declaration.
pub(super) fn named_attribute(prefix: &str, local: &str, value: &str, out: &mut Vec<u8>) {
    out.push(b' ');
    name(prefix, local, out);
    out.extend_from_slice(b"=\"");
    attribute(value, out);
    out.push(b'"');
}

/// Appends a processing instruction.
pub(super) fn instruction(target: &str, data: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"<?");
    out.extend_from_slice(target.as_bytes());
    if !data.is_empty() {
        out.push(b' ');
        out.extend_from_slice(data.as_bytes());
    }
    out.extend_from_slice(b"?>");
}
