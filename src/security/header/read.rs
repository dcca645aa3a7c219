//! Small steps through an element whose content is fixed.

use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::{
    security::error::PolicyFault,
    wire::xml::{Document, NodeId},
};

use super::{EC, PREFIX_LIST_MAX};

/// The next child, which must be this one.
pub(super) fn next(
    document: &Document,
    children: &mut impl Iterator<Item = NodeId>,
    namespace: &str,
    local: &'static str,
) -> Result<NodeId, PolicyFault> {
    match children.next() {
        Some(node) if document.is(node, namespace, local) => Ok(node),
        _ => Err(PolicyFault::Missing(local)),
    }
}

/// There must not be another child.
pub(super) fn end(
    document: &Document,
    children: &mut impl Iterator<Item = NodeId>,
) -> Result<(), PolicyFault> {
    match children.next() {
        None => Ok(()),
        Some(node) => Err(PolicyFault::Forbidden(document.local_name(node).to_owned())),
    }
}

/// `@Algorithm` out of a closed list.
pub(super) fn algorithm<A>(
    document: &Document,
    node: NodeId,
    role: &'static str,
    from_uri: impl Fn(&str) -> Option<A>,
) -> Result<A, PolicyFault> {
    let uri = document.attribute(node, "", "Algorithm").unwrap_or("(none)");
    from_uri(uri).ok_or_else(|| PolicyFault::Algorithm { role, algorithm: uri.to_owned() })
}

/// The PrefixList of an `ec:InclusiveNamespaces`, which is the only child that a canonicalization may have.
pub(super) fn prefix_list(document: &Document, node: NodeId) -> Result<Vec<&str>, PolicyFault> {
    let mut children = document.elements(node);
    let Some(inclusive) = children.next() else { return Ok(Vec::new()) };
    if !document.is(inclusive, EC, "InclusiveNamespaces") {
        return Err(PolicyFault::Forbidden(document.local_name(inclusive).to_owned()));
    }
    end(document, &mut children)?;
    let list = document.attribute(inclusive, "", "PrefixList").unwrap_or_default();
    let prefixes = list.split_ascii_whitespace().map(|p| if p == "#default" { "" } else { p });
    let prefixes: Vec<&str> = prefixes.take(PREFIX_LIST_MAX + 1).collect();
    if prefixes.len() > PREFIX_LIST_MAX {
        return Err(PolicyFault::TooMany { what: "prefixes in a PrefixList", max: PREFIX_LIST_MAX });
    }
    Ok(prefixes)
}

/// The octets of base64 text; line breaks and blanks are allowed in it, comments do not cut it short.
pub(super) fn octets(document: &Document, node: NodeId) -> Option<Vec<u8>> {
    let text = document.text(node)?;
    if text.bytes().any(|byte| byte.is_ascii_whitespace()) {
        let packed: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        return STANDARD.decode(packed).ok();
    }
    STANDARD.decode(text.as_bytes()).ok()
}
