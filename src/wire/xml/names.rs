//! Namespace declarations and what they may say (Namespaces in XML 1.0).

use super::chars::split_qname;
use super::error::Violation;
use super::{XML_NAMESPACE, XMLNS_NAMESPACE};

/// What namespace names are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamespaceNames {
    /// Absolute URIs without `&`: all others have no agreed canonical form (Exclusive C14N §1.3).
    Absolute,
    /// Whatever is written.
    Any,
}

/// An attribute by its name: a namespace declaration or an ordinary one.
pub(in crate::wire) enum AttributeName<'t> {
    /// `xmlns` (empty prefix) or `xmlns:prefix`.
    Declaration { prefix: &'t str },
    /// Anything else.
    Ordinary { prefix: &'t str, local: &'t str },
}

/// Reads the name of an attribute.
pub(in crate::wire) fn attribute_name(name: &str) -> Result<AttributeName<'_>, Violation> {
    Ok(match split_qname(name)? {
        ("", "xmlns") => AttributeName::Declaration { prefix: "" },
        ("xmlns", prefix) => AttributeName::Declaration { prefix },
        (prefix, local) => AttributeName::Ordinary { prefix, local },
    })
}

/// Whether a prefix may be bound to a namespace name (Namespaces §2.2, §3, §5).
pub(in crate::wire) fn check_declaration(
    prefix: &str,
    uri: &str,
    names: NamespaceNames,
) -> Result<(), Violation> {
    if prefix == "xmlns" || uri == XMLNS_NAMESPACE || (prefix == "xml") != (uri == XML_NAMESPACE) {
        return Err(Violation::ReservedPrefix);
    }
    if uri.is_empty() {
        return if prefix.is_empty() { Ok(()) } else { Err(Violation::PrefixUndeclared) };
    }
    if names == NamespaceNames::Absolute && !is_absolute_uri(uri) {
        return Err(Violation::NamespaceName);
    }
    Ok(())
}

/// RFC 3986 §4.3 with or without fragment, without IP literals; `&` is left out on purpose.
fn is_absolute_uri(uri: &str) -> bool {
    let Some((scheme, rest)) = uri.split_once(':') else { return false };
    let mut letters = scheme.bytes();
    let scheme_is_good = letters.next().is_some_and(|b| b.is_ascii_alphabetic())
        && letters.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    let (before_fragment, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let authority_is_good = rest.strip_prefix("//").is_none_or(|_| has_good_authority(before_fragment));
    scheme_is_good
        && authority_is_good
        && !rest.is_empty()
        && is_uri_text(before_fragment)
        && is_uri_text(fragment)
}

/// What stands after `//`, if it does, is a host, with digits for a port if it has one.
fn has_good_authority(hierarchy: &str) -> bool {
    let authority = hierarchy.strip_prefix("//").and_then(|rest| rest.split(['/', '?']).next()).unwrap_or("");
    let (_, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let (host, port) = host.split_once(':').unwrap_or((host, "0"));
    !host.is_empty() && !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit())
}

/// Unreserved and reserved characters, and escapes of two hexadecimal digits.
fn is_uri_text(text: &str) -> bool {
    let mut rest = text.as_bytes();
    loop {
        rest = match rest {
            [] => return true,
            [b'%', first, second, rest @ ..] if first.is_ascii_hexdigit() && second.is_ascii_hexdigit() => {
                rest
            }
            [byte, rest @ ..] if byte.is_ascii_alphanumeric() || b"-._~:/?@!$'()*+,;=".contains(byte) => rest,
            _ => return false,
        }
    }
}
