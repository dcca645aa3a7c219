//! Builds the tree from quick-xml's events, and checks what quick-xml does not.

use quick_xml::Reader;
use quick_xml::errors::{Error as QuickError, IllFormedError, SyntaxError};
use quick_xml::events::Event;

use super::chars::{illegal_char, is_blank, push_line_ends, reference, split_qname};
use super::encoding::{self, Extent, Sniffed};
use super::error::{LimitKind, Violation, XmlError};
use super::markup::{self, Normalized, TagReader};
use super::names::{AttributeName, NamespaceNames, attribute_name, check_declaration};
use super::tree::{
    AttributeRecord, DeclarationRecord, Document, NO_NAMESPACE, Node, NodeId, NodeKind, Run, Slice,
    XML_NAMESPACE_NUMBER,
};
use super::{XML_NAMESPACE, XmlLimits};

/// Bytes of source per node that are reckoned with when room is made; real envelopes have about 60.
const BYTES_PER_NODE: usize = 48;

pub(super) fn build(source: &[u8], limits: &XmlLimits) -> Result<Document, XmlError> {
    // Slices are held in 32 bits, and decoding at most doubles the length.
    if source.len() > limits.bytes_max.min(u32::MAX as usize / 4) {
        return Err(XmlError::Limit { kind: LimitKind::Bytes, max: limits.bytes_max });
    }
    let sniffed = encoding::sniff(source, Extent::Whole)?
        .ok_or(XmlError::Malformed { rule: Violation::NoRoot, at: 0 })?;
    let text = encoding::decode(source, sniffed)?;
    if let Some(at) = illegal_char(&text) {
        return Err(XmlError::Malformed { rule: Violation::Character, at });
    }
    // quick-xml would drop a second byte order mark.
    if text.starts_with('\u{FEFF}') {
        return Err(XmlError::Malformed { rule: Violation::TextOutsideRoot, at: 0 });
    }
    let mut builder = Builder::new(&text, sniffed, limits);
    builder.read()?;
    let root = builder.root.ok_or(XmlError::Malformed { rule: Violation::NoRoot, at: text.len() })?;
    let Builder { nodes, attributes, declarations, uris, built, .. } = builder;
    let mut chars = text;
    chars.push_str(&built);
    Ok(Document { chars, nodes, attributes, declarations, uris, root, encoding: sniffed.encoding })
}

/// An element whose end tag has not come.
struct Open {
    node: u32,
    /// Declarations that were in scope outside.
    scope: usize,
}

/// A prefix in scope.
struct Binding {
    prefix: Slice,
    namespace: u16,
}

/// An attribute whose prefix is not resolved yet: a declaration may follow it in the same tag.
struct Pending {
    prefix: Slice,
    local: Slice,
    value: Slice,
}

struct Builder<'s> {
    source: &'s str,
    sniffed: Sniffed,
    limits: &'s XmlLimits,
    /// Where the event begins that is being handled.
    at: usize,
    nodes: Vec<Node>,
    attributes: Vec<AttributeRecord>,
    declarations: Vec<DeclarationRecord>,
    uris: Vec<Slice>,
    /// Values that are not written in the source as such.
    built: String,
    open: Vec<Open>,
    scope: Vec<Binding>,
    pending: Vec<Pending>,
    root: Option<NodeId>,
}

impl<'s> Builder<'s> {
    fn new(source: &'s str, sniffed: Sniffed, limits: &'s XmlLimits) -> Self {
        let nodes = source.len() / BYTES_PER_NODE + 4;
        let mut builder = Self {
            source,
            sniffed,
            limits,
            at: 0,
            nodes: Vec::with_capacity(nodes),
            attributes: Vec::with_capacity(nodes / 2),
            declarations: Vec::with_capacity(16),
            uris: vec![Slice::default()],
            built: String::with_capacity(256),
            open: Vec::with_capacity(16),
            scope: Vec::with_capacity(16),
            pending: Vec::with_capacity(8),
            root: None,
        };
        builder.built.push_str(XML_NAMESPACE);
        builder.uris.push(builder.built_since(0));
        builder.nodes.push(Node::new(NodeKind::Document, 0, 1));
        builder
    }

    fn read(&mut self) -> Result<(), XmlError> {
        let mut reader = Reader::from_str(self.source);
        let config = reader.config_mut();
        config.check_end_names = true;
        config.check_comments = true;
        config.expand_empty_elements = false;
        config.allow_dangling_amp = false;
        config.allow_unmatched_ends = false;
        config.trim_markup_names_in_closing_tags = true;
        config.trim_text(false);
        let mut is_first = true;
        loop {
            self.at = usize::try_from(reader.buffer_position()).unwrap_or(usize::MAX);
            let event = reader.read_event().map_err(|error| self.translate(&error))?;
            match (&event, is_first) {
                (Event::Decl(_), false) => return Err(self.broken(Violation::DeclarationPlace)),
                (Event::Decl(_), true) | (_, false) => {}
                (_, true) => self.sniffed.check_declared(None)?,
            }
            is_first = false;
            if matches!(event, Event::Eof) {
                break;
            }
            self.event(&event)?;
        }
        if !self.open.is_empty() {
            return Err(self.broken(Violation::Unclosed));
        }
        let end = self.count();
        if let Some(document) = self.nodes.first_mut() {
            document.end = end;
        }
        Ok(())
    }

    fn event(&mut self, event: &Event<'_>) -> Result<(), XmlError> {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::Empty(tag) => {
                self.start(tag)?;
                self.end();
                Ok(())
            }
            Event::End(_) => {
                self.end();
                Ok(())
            }
            Event::Text(text) => self.text_event(text),
            Event::CData(_) if self.open.is_empty() => Err(self.broken(Violation::TextOutsideRoot)),
            Event::CData(text) => self.text(text),
            Event::GeneralRef(name) => self.reference(name),
            Event::Comment(text) => {
                markup::comment(text).map_err(|rule| self.broken(rule))?;
                self.leaf(NodeKind::Comment, Slice::default(), text)
            }
            Event::PI(content) => {
                let (target, data) = markup::instruction(content).map_err(|rule| self.broken(rule))?;
                self.leaf(NodeKind::ProcessingInstruction, self.slice(target), data)
            }
            Event::Decl(content) => self.declaration(content),
            Event::DocType(_) => Err(XmlError::Doctype),
            Event::Eof => Ok(()),
        }
    }

    fn declaration(&self, content: &str) -> Result<(), XmlError> {
        if content.len() + "<??>".len() > encoding::XML_DECLARATION_BYTES_MAX {
            return Err(encoding::declaration_too_long());
        }
        let encoding = markup::xml_declaration(content).map_err(|rule| self.broken(rule))?;
        self.sniffed.check_declared(encoding)
    }

    fn start(&mut self, content: &str) -> Result<(), XmlError> {
        if self.open.is_empty() && self.root.is_some() {
            return Err(self.broken(Violation::SecondRoot));
        }
        if self.open.len() >= self.limits.depth_max {
            return Err(XmlError::Limit { kind: LimitKind::Depth, max: self.limits.depth_max });
        }
        let outer_scope = self.scope.len();
        let first_declaration = self.declarations.len();
        let (name, tag) = TagReader::new(content);
        let (prefix, local) = split_qname(name).map_err(|rule| self.broken(rule))?;
        if prefix == "xmlns" {
            return Err(self.broken(Violation::ReservedPrefix));
        }
        self.read_attributes(tag, outer_scope)?;
        let mut node = Node::new(NodeKind::Element, self.parent(), 0);
        node.prefix = self.slice(prefix);
        node.local = self.slice(local);
        node.namespace = self.resolve(prefix)?;
        node.declarations = Run { start: narrow(first_declaration), end: narrow(self.declarations.len()) };
        node.attributes = self.resolve_attributes()?;
        let id = self.push(node)?;
        self.root.get_or_insert(NodeId(id));
        self.open.push(Open { node: id, scope: outer_scope });
        Ok(())
    }

    /// Takes the declarations of a tag into scope and keeps its other attributes for later.
    fn read_attributes(&mut self, mut tag: TagReader<'_>, outer_scope: usize) -> Result<(), XmlError> {
        self.pending.clear();
        while let Some(attribute) = tag.next().map_err(|rule| self.broken(rule))? {
            if self.pending.len() + self.scope.len() - outer_scope >= self.limits.attributes_max {
                return Err(XmlError::Limit { kind: LimitKind::Attributes, max: self.limits.attributes_max });
            }
            let start = self.built.len();
            let normalized = markup::attribute_value(attribute.value, &mut self.built);
            let value = match normalized.map_err(|rule| self.broken(rule))? {
                Normalized::AsWritten => self.slice(attribute.value),
                Normalized::Appended => self.built_since(start),
            };
            match attribute_name(attribute.name).map_err(|rule| self.broken(rule))? {
                AttributeName::Declaration { prefix } => self.declare(prefix, value, outer_scope)?,
                AttributeName::Ordinary { prefix, local } => {
                    let pending = Pending { prefix: self.slice(prefix), local: self.slice(local), value };
                    self.pending.push(pending);
                }
            }
        }
        Ok(())
    }

    fn declare(&mut self, prefix: &str, uri: Slice, outer_scope: usize) -> Result<(), XmlError> {
        check_declaration(prefix, self.chars(uri), NamespaceNames::Absolute)
            .map_err(|rule| self.broken(rule))?;
        let twice = self.scope.iter().skip(outer_scope).any(|binding| self.chars(binding.prefix) == prefix);
        if twice {
            return Err(self.broken(Violation::DuplicateAttribute));
        }
        if self.scope.len() >= self.limits.namespaces_max {
            return Err(self.too_many_namespaces());
        }
        let namespace = self.intern(uri)?;
        let prefix = self.slice(prefix);
        self.scope.push(Binding { prefix, namespace });
        self.declarations.push(DeclarationRecord { prefix, namespace });
        Ok(())
    }

    fn intern(&mut self, uri: Slice) -> Result<u16, XmlError> {
        let known = self.uris.iter().position(|&other| self.chars(other) == self.chars(uri));
        let number = known.unwrap_or(self.uris.len());
        if known.is_none() {
            // The first two numbers are those of no namespace and of xml.
            if self.uris.len() >= self.limits.namespaces_max.saturating_add(2) {
                return Err(self.too_many_namespaces());
            }
            self.uris.push(uri);
        }
        u16::try_from(number).map_err(|_| self.too_many_namespaces())
    }

    fn too_many_namespaces(&self) -> XmlError {
        XmlError::Limit { kind: LimitKind::Namespaces, max: self.limits.namespaces_max }
    }

    /// The namespace of an element's prefix.
    fn resolve(&self, prefix: &str) -> Result<u16, XmlError> {
        let binding = self.scope.iter().rev().find(|binding| self.chars(binding.prefix) == prefix);
        match (binding, prefix) {
            (Some(binding), _) => Ok(binding.namespace),
            (None, "") => Ok(NO_NAMESPACE),
            (None, "xml") => Ok(XML_NAMESPACE_NUMBER),
            (None, _) => Err(self.broken(Violation::UnboundPrefix)),
        }
    }

    fn resolve_attributes(&mut self) -> Result<Run, XmlError> {
        let start = self.attributes.len();
        for index in 0..self.pending.len() {
            let Some(&Pending { prefix, local, value }) = self.pending.get(index) else { break };
            let namespace = match self.chars(prefix) {
                "" => NO_NAMESPACE,
                prefix => self.resolve(prefix)?,
            };
            let twice =
                self.attributes.iter().skip(start).any(|other| {
                    other.namespace == namespace && self.chars(other.local) == self.chars(local)
                });
            if twice {
                return Err(self.broken(Violation::DuplicateAttribute));
            }
            self.attributes.push(AttributeRecord { prefix, local, namespace, value });
        }
        Ok(Run { start: narrow(start), end: narrow(self.attributes.len()) })
    }

    /// Closes the element that was opened last; quick-xml has compared the names.
    fn end(&mut self) {
        let end = self.count();
        if let Some(open) = self.open.pop() {
            self.scope.truncate(open.scope);
            if let Some(node) = self.nodes.get_mut(open.node as usize) {
                node.end = end;
            }
        }
    }

    fn text_event(&mut self, text: &str) -> Result<(), XmlError> {
        if self.open.is_empty() {
            return if is_blank(text) { Ok(()) } else { Err(self.broken(Violation::TextOutsideRoot)) };
        }
        if memchr::memmem::find(text.as_bytes(), b"]]>").is_some() {
            return Err(self.broken(Violation::CdataEnd));
        }
        self.text(text)
    }

    fn reference(&mut self, name: &str) -> Result<(), XmlError> {
        let c = reference(name).map_err(|rule| self.broken(rule))?;
        if self.open.is_empty() {
            return Err(self.broken(Violation::TextOutsideRoot));
        }
        self.text_built(|out| out.push(c))
    }

    /// Takes text as written, with its line ends made one LF each.
    fn text(&mut self, text: &str) -> Result<(), XmlError> {
        let parent = self.parent();
        let follows_text =
            self.nodes.last().is_some_and(|last| last.kind == NodeKind::Text && last.parent == parent);
        if text.is_empty() {
            return Ok(());
        }
        if !follows_text && memchr::memchr(b'\r', text.as_bytes()).is_none() {
            let mut node = Node::new(NodeKind::Text, parent, self.count() + 1);
            node.text = self.slice(text);
            return self.push(node).map(drop);
        }
        self.text_built(|out| push_line_ends(text, out))
    }

    /// Adds characters to the text node that stands last here, or makes one.
    fn text_built(&mut self, write: impl FnOnce(&mut String)) -> Result<(), XmlError> {
        let parent = self.parent();
        let before = self.nodes.last().filter(|last| last.kind == NodeKind::Text && last.parent == parent);
        let Some(before) = before.map(|last| last.text) else {
            let start = self.built.len();
            write(&mut self.built);
            let mut node = Node::new(NodeKind::Text, parent, self.count() + 1);
            node.text = self.built_since(start);
            return self.push(node).map(drop);
        };
        let mut start = before.start;
        if before.end != narrow(self.source.len() + self.built.len()) {
            let moved = self.built.len();
            let text = self.source.get(before.start as usize..before.end as usize).unwrap_or("");
            self.built.push_str(text);
            start = narrow(self.source.len() + moved);
        }
        write(&mut self.built);
        let end = narrow(self.source.len() + self.built.len());
        if let Some(last) = self.nodes.last_mut() {
            last.text = Slice { start, end };
        }
        Ok(())
    }

    fn leaf(&mut self, kind: NodeKind, target: Slice, text: &str) -> Result<(), XmlError> {
        let mut node = Node::new(kind, self.parent(), self.count() + 1);
        node.local = target;
        node.text = if memchr::memchr(b'\r', text.as_bytes()).is_none() {
            self.slice(text)
        } else {
            let start = self.built.len();
            push_line_ends(text, &mut self.built);
            self.built_since(start)
        };
        self.push(node).map(drop)
    }

    fn push(&mut self, node: Node) -> Result<u32, XmlError> {
        // The document node is not counted.
        if self.nodes.len() > self.limits.nodes_max {
            return Err(XmlError::Limit { kind: LimitKind::Nodes, max: self.limits.nodes_max });
        }
        let id = self.count();
        self.nodes.push(node);
        Ok(id)
    }

    fn parent(&self) -> u32 {
        self.open.last().map_or(0, |open| open.node)
    }

    fn count(&self) -> u32 {
        narrow(self.nodes.len())
    }

    /// Where a piece of the source stands in it. quick-xml hands out pieces of the source and never copies.
    fn slice(&self, part: &str) -> Slice {
        let start = part.as_ptr().addr().wrapping_sub(self.source.as_ptr().addr());
        if part.is_empty() || start > self.source.len() {
            return Slice::default();
        }
        Slice { start: narrow(start), end: narrow(start + part.len()) }
    }

    fn built_since(&self, start: usize) -> Slice {
        let base = self.source.len();
        Slice { start: narrow(base + start), end: narrow(base + self.built.len()) }
    }

    fn chars(&self, slice: Slice) -> &str {
        let (start, end) = (slice.start as usize, slice.end as usize);
        let base = self.source.len();
        let found = if start >= base {
            self.built.get(start - base..end - base)
        } else {
            self.source.get(start..end)
        };
        found.unwrap_or("")
    }

    fn broken(&self, rule: Violation) -> XmlError {
        XmlError::Malformed { rule, at: self.at }
    }

    fn translate(&self, error: &QuickError) -> XmlError {
        let rule = match error {
            QuickError::Syntax(SyntaxError::UnclosedDoctype)
            | QuickError::IllFormed(IllFormedError::MissingDoctypeName) => return XmlError::Doctype,
            QuickError::Syntax(SyntaxError::InvalidBangMarkup) => Violation::Markup,
            QuickError::Syntax(_) => Violation::Unclosed,
            QuickError::IllFormed(
                IllFormedError::MismatchedEndTag { .. } | IllFormedError::UnmatchedEndTag(_),
            ) => Violation::EndTag,
            QuickError::IllFormed(IllFormedError::UnclosedReference) => Violation::Reference,
            QuickError::IllFormed(IllFormedError::DoubleHyphenInComment) => Violation::Comment,
            _ => Violation::Markup,
        };
        self.broken(rule)
    }
}

/// Lengths here are below 2³² because `build` refuses longer sources.
fn narrow(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
