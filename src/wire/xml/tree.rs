//! The immutable tree and how to walk it.

use std::borrow::Cow;

use super::{Encoding, XML_NAMESPACE, XmlError, XmlLimits, build};

/// A node of a [`Document`], in document order. Only of use with the document that it came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(super) u32);

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind {
    /// The document itself: parent of the document element.
    Document,
    /// An element.
    Element,
    /// Text, as long as it gets: references and CDATA sections are part of it.
    Text,
    /// A comment.
    Comment,
    /// A processing instruction.
    ProcessingInstruction,
}

/// An attribute of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attribute<'d> {
    /// Its prefix as written; empty without one.
    pub prefix: &'d str,
    /// Its local name.
    pub local: &'d str,
    /// Its namespace name; empty for an attribute without prefix.
    pub namespace: &'d str,
    /// Its normalised value.
    pub value: &'d str,
}

/// A namespace declaration of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Declaration<'d> {
    /// The prefix; empty for the default namespace.
    pub prefix: &'d str,
    /// The namespace name; empty when the default namespace is taken away.
    pub uri: &'d str,
}

/// A piece of the document's characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Slice {
    pub(super) start: u32,
    pub(super) end: u32,
}

/// A run of entries in a table.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Run {
    pub(super) start: u32,
    pub(super) end: u32,
}

impl Run {
    fn of<T>(self, table: &[T]) -> &[T] {
        table.get(self.start as usize..self.end as usize).unwrap_or(&[])
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    pub(super) kind: NodeKind,
    pub(super) parent: u32,
    /// The first node behind this one and all below it.
    pub(super) end: u32,
    pub(super) namespace: u16,
    pub(super) prefix: Slice,
    /// Local name of an element, target of an instruction.
    pub(super) local: Slice,
    /// Characters of a text, comment or instruction.
    pub(super) text: Slice,
    pub(super) attributes: Run,
    pub(super) declarations: Run,
}

impl Node {
    /// What a node id of another document stands for.
    const NOWHERE: Self = Self::new(NodeKind::Comment, 0, 0);

    pub(super) const fn new(kind: NodeKind, parent: u32, end: u32) -> Self {
        const NOTHING: Slice = Slice { start: 0, end: 0 };
        const NONE: Run = Run { start: 0, end: 0 };
        Self {
            kind,
            parent,
            end,
            namespace: 0,
            prefix: NOTHING,
            local: NOTHING,
            text: NOTHING,
            attributes: NONE,
            declarations: NONE,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct AttributeRecord {
    pub(super) prefix: Slice,
    pub(super) local: Slice,
    pub(super) namespace: u16,
    pub(super) value: Slice,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct DeclarationRecord {
    pub(super) prefix: Slice,
    pub(super) namespace: u16,
}

/// A well-formed and namespace-well-formed document.
///
/// It owns its characters, is never changed, and keeps prefixes and declarations as they were written, because
/// canonical forms depend on them.
#[derive(Debug)]
pub struct Document {
    /// The source, followed by values that are not written in it as such.
    pub(super) chars: String,
    pub(super) nodes: Vec<Node>,
    pub(super) attributes: Vec<AttributeRecord>,
    pub(super) declarations: Vec<DeclarationRecord>,
    /// Namespace names by number; 0 is no namespace.
    pub(super) uris: Vec<Slice>,
    pub(super) root: NodeId,
    pub(super) encoding: Encoding,
}

/// The number of the empty namespace name.
pub(super) const NO_NAMESPACE: u16 = 0;
/// The number of the namespace of `xml:`.
pub(super) const XML_NAMESPACE_NUMBER: u16 = 1;

impl Document {
    /// Reads a document.
    ///
    /// # Errors
    /// When the bytes exceed a limit, are not in the encoding that they claim, have a DOCTYPE, or break a rule of
    /// XML 1.0 or Namespaces in XML 1.0.
    pub fn parse(source: &[u8], limits: &XmlLimits) -> Result<Self, XmlError> {
        build::build(source, limits)
    }

    /// The document element.
    #[must_use]
    pub fn root(&self) -> NodeId {
        self.root
    }

    /// The document node, above the document element.
    #[must_use]
    pub fn document(&self) -> NodeId {
        NodeId(0)
    }

    /// The encoding that the document was received in.
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// What a node is.
    #[must_use]
    pub fn kind(&self, node: NodeId) -> NodeKind {
        self.node(node).kind
    }

    /// Whether a node is an element of this name.
    #[must_use]
    pub fn is(&self, node: NodeId, namespace: &str, local: &str) -> bool {
        self.kind(node) == NodeKind::Element
            && self.local_name(node) == local
            && self.namespace(node) == namespace
    }

    /// Local name of an element, target of a processing instruction; empty for other nodes.
    #[must_use]
    pub fn local_name(&self, node: NodeId) -> &str {
        self.chars(self.node(node).local)
    }

    /// Namespace name of an element; empty without one.
    #[must_use]
    pub fn namespace(&self, node: NodeId) -> &str {
        self.uri(self.node(node).namespace)
    }

    /// Prefix of an element as written; empty without one.
    #[must_use]
    pub fn prefix(&self, node: NodeId) -> &str {
        self.chars(self.node(node).prefix)
    }

    /// The node above; `None` for the document node.
    #[must_use]
    pub fn parent(&self, node: NodeId) -> Option<NodeId> {
        (node != self.document()).then(|| NodeId(self.node(node).parent))
    }

    /// The nodes directly below, in document order.
    pub fn children(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let end = self.node(node).end;
        let first = node.0 + 1;
        let following = move |child: &NodeId| Some(NodeId(self.node(*child).end)).filter(|next| next.0 < end);
        std::iter::successors((first < end).then_some(NodeId(first)), following)
    }

    /// The elements directly below, in document order.
    pub fn elements(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        self.children(node).filter(|&child| self.kind(child) == NodeKind::Element)
    }

    /// The node itself and everything below it, in document order.
    pub fn descendants(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        (node.0..self.node(node).end).map(NodeId)
    }

    /// Value of an attribute; `""` as namespace means an attribute without prefix.
    #[must_use]
    pub fn attribute(&self, node: NodeId, namespace: &str, local: &str) -> Option<&str> {
        self.attributes(node)
            .find(|attribute| attribute.local == local && attribute.namespace == namespace)
            .map(|attribute| attribute.value)
    }

    /// The attributes of an element in the order written, without namespace declarations.
    pub fn attributes(&self, node: NodeId) -> impl ExactSizeIterator<Item = Attribute<'_>> {
        self.node(node).attributes.of(&self.attributes).iter().map(|record| Attribute {
            prefix: self.chars(record.prefix),
            local: self.chars(record.local),
            namespace: self.uri(record.namespace),
            value: self.chars(record.value),
        })
    }

    /// The namespace declarations of an element in the order written.
    pub fn declarations(&self, node: NodeId) -> impl ExactSizeIterator<Item = Declaration<'_>> {
        self.node(node)
            .declarations
            .of(&self.declarations)
            .iter()
            .map(|record| Declaration { prefix: self.chars(record.prefix), uri: self.uri(record.namespace) })
    }

    /// The text of an element that has no elements below it, in one piece: comments and processing instructions
    /// are skipped and do not cut it short. Also the text of a text node. `None` for anything else.
    #[must_use]
    pub fn text(&self, node: NodeId) -> Option<Cow<'_, str>> {
        match self.kind(node) {
            NodeKind::Text => return Some(Cow::Borrowed(self.raw_text(node))),
            NodeKind::Element => {}
            NodeKind::Document | NodeKind::Comment | NodeKind::ProcessingInstruction => return None,
        }
        let mut whole = Cow::Borrowed("");
        for child in self.children(node) {
            match self.kind(child) {
                NodeKind::Element => return None,
                NodeKind::Text if whole.is_empty() => whole = Cow::Borrowed(self.raw_text(child)),
                NodeKind::Text => whole.to_mut().push_str(self.raw_text(child)),
                NodeKind::Document | NodeKind::Comment | NodeKind::ProcessingInstruction => {}
            }
        }
        Some(whole)
    }

    /// Characters of a text, comment or processing instruction node; empty for other nodes.
    #[must_use]
    pub fn raw_text(&self, node: NodeId) -> &str {
        self.chars(self.node(node).text)
    }

    /// The namespace name that a prefix is bound to at an element; `""` asks for the default namespace.
    /// `None` when it is bound to nothing there.
    #[must_use]
    pub fn prefix_binding(&self, node: NodeId, prefix: &str) -> Option<&str> {
        if prefix == "xml" {
            return Some(XML_NAMESPACE);
        }
        self.binding_in_scope(node, prefix).map(|(_, uri)| uri).filter(|uri| !uri.is_empty())
    }

    /// The declaration of a prefix that is in scope at an element, if there is one; prefix and namespace name.
    pub(in crate::wire) fn binding_in_scope(&self, node: NodeId, prefix: &str) -> Option<(&str, &str)> {
        std::iter::successors(Some(node), |&above| self.parent(above))
            .find_map(|at| self.declarations(at).find(|declaration| declaration.prefix == prefix))
            .map(|declaration| (declaration.prefix, declaration.uri))
    }

    /// The first node behind a node and all below it, in document order; it need not exist.
    pub(in crate::wire) fn subtree_end(&self, node: NodeId) -> NodeId {
        NodeId(self.node(node).end)
    }

    fn node(&self, node: NodeId) -> &Node {
        self.nodes.get(node.0 as usize).unwrap_or(&Node::NOWHERE)
    }

    fn chars(&self, slice: Slice) -> &str {
        self.chars.get(slice.start as usize..slice.end as usize).unwrap_or("")
    }

    fn uri(&self, number: u16) -> &str {
        self.uris.get(usize::from(number)).map_or("", |&slice| self.chars(slice))
    }
}
