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

/// RFC 3986 §4.3, by scheme and permitted characters; `&` is left out on purpose.
fn is_absolute_uri(uri: &str) -> bool {
    let Some((scheme, rest)) = uri.split_once(':') else { return false };
    let mut letters = scheme.bytes();
    let scheme_is_good = letters.next().is_some_and(|b| b.is_ascii_alphabetic())
        && letters.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    scheme_is_good && !rest.is_empty() && rest.bytes().all(is_uri_byte)
}

fn is_uri_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~:/?#[]@!$'()*+,;=%".contains(&byte)
}
