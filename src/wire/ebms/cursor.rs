//! Walking the children of an element in the order of a schema.

use std::borrow::Cow;

use super::{EbmsReadError, HeaderFault, invalid};
use crate::wire::{
    soap::{is_blank, namespace::EBMS},
    xml::{Document, NodeId},
};

/// The element children of one element, taken one after the other as an `xsd:sequence` names them.
pub(super) struct Cursor<'d> {
    document: &'d Document,
    path: String,
    rest: std::vec::IntoIter<NodeId>,
    next: Option<NodeId>,
}

impl<'d> Cursor<'d> {
    /// Stands before the first child of `parent`, whose path is `path`.
    pub(super) fn new(document: &'d Document, parent: NodeId, path: &str) -> Result<Self, EbmsReadError> {
        let elements: Vec<NodeId> = document.elements(parent).collect();
        let others = document.children(parent).filter(|node| !is_blank(document, *node)).count();
        if others != elements.len() {
            return Err(invalid(path, HeaderFault::Content));
        }
        let mut rest = elements.into_iter();
        let next = rest.next();
        Ok(Self { document, path: path.to_owned(), rest, next })
    }

    /// The path of a child.
    pub(super) fn path(&self, local: &str) -> String {
        if self.path.is_empty() { local.to_owned() } else { format!("{}/{local}", self.path) }
    }

    /// The next child when it is `eb:local`.
    pub(super) fn optional(&mut self, local: &str) -> Option<NodeId> {
        let found = self.next.filter(|node| self.document.is(*node, EBMS, local))?;
        self.next = self.rest.next();
        Some(found)
    }

    /// The next child, which must be `eb:local`.
    pub(super) fn required(&mut self, local: &str) -> Result<NodeId, EbmsReadError> {
        self.optional(local).ok_or_else(|| invalid(&self.path(local), HeaderFault::Missing))
    }

    /// The child that must come next, entered.
    pub(super) fn enter(&mut self, local: &str) -> Result<Self, EbmsReadError> {
        let node = self.required(local)?;
        Self::new(self.document, node, &self.path(local))
    }

    /// The child that may come next, entered.
    pub(super) fn enter_optional(&mut self, local: &str) -> Result<Option<Self>, EbmsReadError> {
        self.optional(local).map(|node| Self::new(self.document, node, &self.path(local))).transpose()
    }

    /// No child may be left.
    pub(super) fn end(&self) -> Result<(), EbmsReadError> {
        match self.next {
            None => Ok(()),
            Some(node) => Err(invalid(&self.path(self.document.local_name(node)), HeaderFault::Unexpected)),
        }
    }

    /// Only children of other namespaces may be left (`xsd:any ##other`).
    pub(super) fn end_or_foreign(mut self) -> Result<(), EbmsReadError> {
        while let Some(node) = self.next {
            if self.document.namespace(node) == EBMS {
                return self.end();
            }
            self.next = self.rest.next();
        }
        Ok(())
    }

    /// The next child's text, which must not be empty (type `non-empty-string` of the schema).
    pub(super) fn text(&mut self, local: &str) -> Result<Cow<'d, str>, EbmsReadError> {
        let node = self.required(local)?;
        text(self.document, node, &self.path(local))
    }
}

impl<'d> Cursor<'d> {
    /// The next child's text when it is `eb:local`; it must not be empty.
    pub(super) fn optional_text(&mut self, local: &str) -> Result<Option<Cow<'d, str>>, EbmsReadError> {
        let path = self.path(local);
        self.optional(local).map(|node| text(self.document, node, &path)).transpose()
    }
}

/// Text of an element that must have some and nothing else.
pub(super) fn text<'d>(
    document: &'d Document,
    node: NodeId,
    path: &str,
) -> Result<Cow<'d, str>, EbmsReadError> {
    let text = document.text(node).ok_or_else(|| invalid(path, HeaderFault::Content))?;
    if text.is_empty() { Err(invalid(path, HeaderFault::Empty)) } else { Ok(text) }
}

/// An attribute without namespace that must not be empty when it is there.
pub(super) fn attribute(
    document: &Document,
    node: NodeId,
    local: &str,
    path: &str,
) -> Result<Option<String>, EbmsReadError> {
    match document.attribute(node, "", local) {
        Some("") => Err(invalid(&format!("{path}/@{local}"), HeaderFault::Empty)),
        value => Ok(value.map(str::to_owned)),
    }
}

/// What a schema's `token` means: white space at the ends gone, inside it one blank.
pub(super) fn token(text: &str) -> String {
    text.split([' ', '\t', '\r', '\n']).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}
