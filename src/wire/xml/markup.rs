//! The inside of tags and of the XML declaration.

use super::chars::{is_ncname, is_space, reference, trim_start};
use super::error::Violation;

/// An attribute as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::wire) struct RawAttribute<'t> {
    /// Prefix and local part, unchecked.
    pub(in crate::wire) name: &'t str,
    /// What stands between the quotes.
    pub(in crate::wire) value: &'t str,
}

/// Reads the attributes of a tag one by one (XML §3.1, production `STag`).
pub(in crate::wire) struct TagReader<'t> {
    rest: &'t str,
}

impl<'t> TagReader<'t> {
    /// Splits what stands between `<` and `>` or `/>` into the name, unchecked, and its attributes.
    pub(in crate::wire) fn new(content: &'t str) -> (&'t str, Self) {
        let (name, rest) = split_where(content, is_space);
        (name, Self { rest })
    }

    /// The next attribute; `None` after the last.
    pub(in crate::wire) fn next(&mut self) -> Result<Option<RawAttribute<'t>>, Violation> {
        let start = trim_start(self.rest);
        if start.is_empty() {
            return Ok(None);
        }
        if start.len() == self.rest.len() {
            return Err(Violation::AttributeSpace);
        }
        let (attribute, rest) = quoted(start)?;
        self.rest = rest;
        Ok(Some(attribute))
    }
}

/// Splits before the first byte that `is_end` holds of.
fn split_where(text: &str, is_end: impl Fn(u8) -> bool) -> (&str, &str) {
    let at = text.bytes().position(is_end).unwrap_or(text.len());
    text.split_at_checked(at).unwrap_or((text, ""))
}

/// Reads `name = "value"` from the start of a text that does not begin with white space.
fn quoted(text: &str) -> Result<(RawAttribute<'_>, &str), Violation> {
    let (name, rest) = split_where(text, |b| b == b'=' || is_space(b));
    let value = trim_start(rest).strip_prefix('=').ok_or(Violation::AttributeSyntax)?;
    let value = trim_start(value);
    let Some(&quote @ (b'"' | b'\'')) = value.as_bytes().first() else {
        return Err(Violation::AttributeSyntax);
    };
    let value = value.get(1..).unwrap_or("");
    let end = memchr::memchr(quote, value.as_bytes()).ok_or(Violation::AttributeSyntax)?;
    let (value, rest) = value.split_at_checked(end).ok_or(Violation::AttributeSyntax)?;
    Ok((RawAttribute { name, value }, rest.get(1..).unwrap_or("")))
}

/// Whether an attribute value is used as it is written or was put together anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::wire) enum Normalized {
    /// As written.
    AsWritten,
    /// Appended to the buffer.
    Appended,
}

/// Normalises an attribute value of type CDATA (XML §3.3.3); line ends count as one space (§2.11).
pub(in crate::wire) fn attribute_value(raw: &str, out: &mut String) -> Result<Normalized, Violation> {
    let special = |byte: u8| matches!(byte, b'<' | b'&' | b'\t' | b'\n' | b'\r');
    if !raw.bytes().any(special) {
        return Ok(Normalized::AsWritten);
    }
    let mut rest = raw;
    loop {
        let (plain, after) = split_where(rest, special);
        out.push_str(plain);
        rest = match after.as_bytes() {
            [] => return Ok(Normalized::Appended),
            [b'<', ..] => return Err(Violation::LessThanInAttribute),
            [b'&', ..] => {
                let (name, after) =
                    after.get(1..).and_then(|text| text.split_once(';')).ok_or(Violation::Reference)?;
                out.push(reference(name)?);
                after
            }
            [b'\r', b'\n', ..] => {
                out.push(' ');
                after.get(2..).unwrap_or("")
            }
            _ => {
                out.push(' ');
                after.get(1..).unwrap_or("")
            }
        };
    }
}

/// Reads the XML declaration's content, from `xml` to before `?>`, and hands back its encoding (XML §2.8).
pub(in crate::wire) fn xml_declaration(content: &str) -> Result<Option<&str>, Violation> {
    let (_, mut attributes) = TagReader::new(content);
    let mut next = || attributes.next().map_err(|_| Violation::Declaration);
    let version = next()?.ok_or(Violation::Declaration)?;
    if (version.name, version.value) != ("version", "1.0") {
        return Err(Violation::Declaration);
    }
    let mut following = next()?;
    let encoding = following.filter(|attribute| attribute.name == "encoding");
    if encoding.is_some() {
        following = next()?;
    }
    let standalone_is_good = following
        .is_none_or(|attribute| attribute.name == "standalone" && matches!(attribute.value, "yes" | "no"));
    if !standalone_is_good || (following.is_some() && next()?.is_some()) {
        return Err(Violation::Declaration);
    }
    match encoding.map(|attribute| attribute.value) {
        Some(name) if !is_encoding_name(name) => Err(Violation::Declaration),
        name => Ok(name),
    }
}

/// XML §4.3.3, production `EncName`.
fn is_encoding_name(name: &str) -> bool {
    name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

/// Target and data of a processing instruction from what stands between `<?` and `?>` (XML §2.6).
pub(in crate::wire) fn instruction(content: &str) -> Result<(&str, &str), Violation> {
    let (target, data) = split_where(content, is_space);
    if !is_ncname(target) || target.eq_ignore_ascii_case("xml") {
        return Err(Violation::ProcessingInstruction);
    }
    Ok((target, trim_start(data)))
}

/// Whether what stands between `<?` and `?>` is an XML declaration by its target.
pub(in crate::wire) fn is_xml_declaration(content: &str) -> bool {
    split_where(content, is_space).0 == "xml"
}

/// Checks what stands between `<!--` and `-->` (XML §2.5).
pub(in crate::wire) fn comment(content: &str) -> Result<(), Violation> {
    let bad = content.ends_with('-') || memchr::memmem::find(content.as_bytes(), b"--").is_some();
    if bad { Err(Violation::Comment) } else { Ok(()) }
}
