//! Canonical form of a node of the tree.

use super::escape;
use crate::wire::xml::{Attribute, Document, NodeId, NodeKind};

/// Appends the exclusive canonical form, without comments, of a node and all below it.
///
/// `prefix_list` is the `PrefixList` of `InclusiveNamespaces`, with `""` for `#default`; prefixes that are not in
/// scope are passed over (Exclusive C14N §3). With [`Document::document`] as apex the whole document is written,
/// processing instructions around the document element set off by one line feed each.
pub fn exclusive(document: &Document, apex: NodeId, prefix_list: &[&str], out: &mut Vec<u8>) {
    Canonicalizer::new(document, prefix_list, out).subtree(apex);
}

/// Appends the canonical forms of the children of an element one after the other, each as an apex of its own.
pub fn exclusive_children(document: &Document, parent: NodeId, prefix_list: &[&str], out: &mut Vec<u8>) {
    let mut canonicalizer = Canonicalizer::new(document, prefix_list, out);
    for child in document.children(parent) {
        canonicalizer.subtree(child);
    }
}

/// A prefix and the namespace name that it is bound to; both may be empty.
type Binding<'d> = (&'d str, &'d str);

/// An element whose end tag is not written yet.
struct Open {
    node: NodeId,
    end: NodeId,
    /// Bindings that were rendered outside of it.
    rendered: usize,
}

struct Canonicalizer<'d, 'o> {
    document: &'d Document,
    /// Sorted.
    prefix_list: Vec<&'o str>,
    out: &'o mut Vec<u8>,
    /// What the open elements' start tags declare, as written out.
    rendered: Vec<Binding<'d>>,
    open: Vec<Open>,
    needed: Vec<Binding<'d>>,
    attributes: Vec<Attribute<'d>>,
}

impl<'d, 'o> Canonicalizer<'d, 'o> {
    fn new(document: &'d Document, prefix_list: &[&'o str], out: &'o mut Vec<u8>) -> Self {
        let mut prefix_list = prefix_list.to_vec();
        prefix_list.sort_unstable();
        prefix_list.dedup();
        Self {
            document,
            prefix_list,
            out,
            rendered: Vec::with_capacity(16),
            open: Vec::with_capacity(16),
            needed: Vec::with_capacity(8),
            attributes: Vec::with_capacity(8),
        }
    }

    fn subtree(&mut self, apex: NodeId) {
        for node in self.document.descendants(apex) {
            self.close_before(node);
            match self.document.kind(node) {
                NodeKind::Document | NodeKind::Comment => {}
                NodeKind::Element => self.start(node),
                NodeKind::Text => escape::text(self.document.raw_text(node), self.out),
                NodeKind::ProcessingInstruction => self.instruction(node),
            }
        }
        self.close_before(self.document.subtree_end(apex));
    }

    /// Writes the end tags of the elements that end before a node.
    fn close_before(&mut self, node: NodeId) {
        while let Some(open) = self.open.pop_if(|open| open.end <= node) {
            self.out.extend_from_slice(b"</");
            escape::name(self.document.prefix(open.node), self.document.local_name(open.node), self.out);
            self.out.push(b'>');
            self.rendered.truncate(open.rendered);
        }
    }

    fn instruction(&mut self, node: NodeId) {
        let outside = self.document.parent(node) == Some(self.document.document());
        if outside && node > self.document.root() {
            self.out.push(b'\n');
        }
        escape::instruction(self.document.local_name(node), self.document.raw_text(node), self.out);
        if outside && node < self.document.root() {
            self.out.push(b'\n');
        }
    }

    fn start(&mut self, node: NodeId) {
        let document = self.document;
        let outer = self.rendered.len();
        self.out.push(b'<');
        escape::name(document.prefix(node), document.local_name(node), self.out);
        self.collect_needed(node);
        self.render_needed();
        self.attributes.clear();
        self.attributes.extend(document.attributes(node));
        if self.attributes.len() > 1 {
            self.attributes.sort_unstable_by_key(|attribute| (attribute.namespace, attribute.local));
        }
        for attribute in &self.attributes {
            escape::named_attribute(attribute.prefix, attribute.local, attribute.value, self.out);
        }
        self.out.push(b'>');
        self.open.push(Open { node, end: document.subtree_end(node), rendered: outer });
    }

    /// The bindings that an element uses visibly, and those of the `PrefixList` that it may have to write.
    fn collect_needed(&mut self, node: NodeId) {
        let document = self.document;
        self.needed.clear();
        self.needed.push((document.prefix(node), document.namespace(node)));
        for attribute in document.attributes(node).filter(|attribute| !attribute.prefix.is_empty()) {
            self.needed.push((attribute.prefix, attribute.namespace));
        }
        if self.open.is_empty() {
            for &prefix in &self.prefix_list {
                if let Some(binding) = document.binding_in_scope(node, prefix) {
                    self.needed.push(binding);
                }
            }
        } else if !self.prefix_list.is_empty() {
            // Below the apex a listed prefix has what its parent has rendered, unless it is declared anew here.
            for declaration in document.declarations(node) {
                if self.prefix_list.binary_search(&declaration.prefix).is_ok() {
                    self.needed.push((declaration.prefix, declaration.uri));
                }
            }
        }
        self.needed.retain(|binding| binding.0 != "xml");
        if self.needed.len() > 1 {
            self.needed.sort_unstable();
            self.needed.dedup();
        }
    }

    fn render_needed(&mut self) {
        for &(prefix, uri) in &self.needed {
            let rendered = self.rendered.iter().rev().find(|binding| binding.0 == prefix);
            let is_there = rendered.map_or(prefix.is_empty() && uri.is_empty(), |binding| binding.1 == uri);
            if !is_there {
                escape::declaration(prefix, uri, self.out);
                self.rendered.push((prefix, uri));
            }
        }
    }
}
