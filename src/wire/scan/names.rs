//! Open elements, the namespace declarations in scope, and the attributes of the current tag.

use std::ops::Range;

use super::event::{ScanAttribute, ScanDeclaration, ScanName};
use crate::wire::xml::chars::split_qname;
use crate::wire::xml::markup::{Normalized, TagReader, attribute_value};
use crate::wire::xml::names::{AttributeName, attribute_name, check_declaration};
use crate::wire::xml::{LimitKind, NamespaceNames, Violation, XML_NAMESPACE};

/// Most bytes of names and declarations of all open elements together.
pub(super) const OPEN_NAMES_BYTES_MAX: usize = 1 << 20;

/// Why a tag is refused.
#[derive(Debug, Clone, Copy)]
pub(super) enum TagFault {
    Limit { kind: LimitKind, max: usize },
    Rule(Violation),
}

impl From<Violation> for TagFault {
    fn from(rule: Violation) -> Self {
        Self::Rule(rule)
    }
}

/// What a prefix stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Namespace {
    None,
    Xml,
    /// By number of the declaration in scope.
    Declared(usize),
}

#[derive(Debug)]
struct Open {
    /// Length of `chars` outside of the element; its name as written begins here.
    chars: usize,
    prefix_end: usize,
    name_end: usize,
    /// Declarations in scope outside of the element.
    declarations: usize,
    namespace: Namespace,
}

#[derive(Debug)]
struct DeclarationRecord {
    prefix: Range<usize>,
    uri: Range<usize>,
}

#[derive(Debug)]
struct AttributeRecord {
    prefix: Range<usize>,
    local: Range<usize>,
    value: Range<usize>,
    namespace: Namespace,
}

/// The limits that concern names.
#[derive(Debug, Clone, Copy)]
pub(super) struct NameLimits {
    pub(super) depth_max: usize,
    pub(super) attributes_max: usize,
    pub(super) namespaces_max: usize,
    pub(super) namespace_names: NamespaceNames,
}

/// Elements that have begun and not ended, and what they declare.
#[derive(Debug)]
pub(super) struct Scope {
    limits: NameLimits,
    /// Names, prefixes and namespace names of the open elements, outermost first.
    chars: String,
    open: Vec<Open>,
    declarations: Vec<DeclarationRecord>,
    /// Names and values of the attributes of the current tag.
    tag_chars: String,
    attributes: Vec<AttributeRecord>,
    /// A namespace name while it is put together.
    scratch: String,
}

impl Scope {
    pub(super) fn new(limits: NameLimits) -> Self {
        Self {
            limits,
            chars: String::new(),
            open: Vec::new(),
            declarations: Vec::new(),
            tag_chars: String::new(),
            attributes: Vec::new(),
            scratch: String::new(),
        }
    }

    /// Elements that are open.
    pub(super) fn depth(&self) -> usize {
        self.open.len()
    }

    /// Opens an element by what stands between `<` and `>` or `/>`.
    pub(super) fn open(&mut self, content: &str) -> Result<(), TagFault> {
        if self.open.len() >= self.limits.depth_max {
            return Err(TagFault::Limit { kind: LimitKind::Depth, max: self.limits.depth_max });
        }
        let (name, tag) = TagReader::new(content);
        let (prefix, _) = split_qname(name)?;
        if prefix == "xmlns" {
            return Err(Violation::ReservedPrefix.into());
        }
        let chars = self.chars.len();
        self.chars.push_str(name);
        self.open.push(Open {
            chars,
            prefix_end: chars + prefix.len(),
            name_end: self.chars.len(),
            declarations: self.declarations.len(),
            namespace: Namespace::None,
        });
        self.read_attributes(tag)?;
        let namespace = self.resolve(prefix)?;
        if let Some(open) = self.open.last_mut() {
            open.namespace = namespace;
        }
        self.resolve_attributes()?;
        if self.chars.len() > OPEN_NAMES_BYTES_MAX {
            return Err(TagFault::Limit { kind: LimitKind::OpenNames, max: OPEN_NAMES_BYTES_MAX });
        }
        Ok(())
    }

    fn read_attributes(&mut self, mut tag: TagReader<'_>) -> Result<(), TagFault> {
        self.tag_chars.clear();
        self.attributes.clear();
        while let Some(attribute) = tag.next()? {
            let declared = self.declarations.len() - self.outer_declarations();
            if self.attributes.len() + declared >= self.limits.attributes_max {
                return Err(TagFault::Limit { kind: LimitKind::Attributes, max: self.limits.attributes_max });
            }
            match attribute_name(attribute.name)? {
                AttributeName::Declaration { prefix } => {
                    let mut scratch = std::mem::take(&mut self.scratch);
                    scratch.clear();
                    let declared = match attribute_value(attribute.value, &mut scratch)? {
                        Normalized::AsWritten => self.declare(prefix, attribute.value),
                        Normalized::Appended => self.declare(prefix, &scratch),
                    };
                    self.scratch = scratch;
                    declared?;
                }
                AttributeName::Ordinary { prefix, local } => {
                    let prefix = append(&mut self.tag_chars, prefix);
                    let local = append(&mut self.tag_chars, local);
                    let value = self.tag_chars.len();
                    if attribute_value(attribute.value, &mut self.tag_chars)? == Normalized::AsWritten {
                        self.tag_chars.push_str(attribute.value);
                    }
                    let value = value..self.tag_chars.len();
                    self.attributes.push(AttributeRecord {
                        prefix,
                        local,
                        value,
                        namespace: Namespace::None,
                    });
                }
            }
        }
        Ok(())
    }

    fn declare(&mut self, prefix: &str, uri: &str) -> Result<(), TagFault> {
        check_declaration(prefix, uri, self.limits.namespace_names)?;
        if self.own_declarations().iter().any(|declaration| declaration.prefix == prefix) {
            return Err(Violation::DuplicateAttribute.into());
        }
        if self.declarations.len() >= self.limits.namespaces_max {
            return Err(TagFault::Limit { kind: LimitKind::Namespaces, max: self.limits.namespaces_max });
        }
        let prefix = append(&mut self.chars, prefix);
        let uri = append(&mut self.chars, uri);
        self.declarations.push(DeclarationRecord { prefix, uri });
        Ok(())
    }

    fn resolve(&self, prefix: &str) -> Result<Namespace, Violation> {
        let declared =
            self.declarations.iter().rposition(|record| text(&self.chars, &record.prefix) == prefix);
        match (declared, prefix) {
            (Some(number), _) => Ok(Namespace::Declared(number)),
            (None, "") => Ok(Namespace::None),
            (None, "xml") => Ok(Namespace::Xml),
            (None, _) => Err(Violation::UnboundPrefix),
        }
    }

    fn resolve_attributes(&mut self) -> Result<(), Violation> {
        for number in 0..self.attributes.len() {
            let Some(record) = self.attributes.get(number) else { break };
            let namespace = match text(&self.tag_chars, &record.prefix) {
                "" => Namespace::None,
                prefix => self.resolve(prefix)?,
            };
            let uri = self.uri(namespace);
            let local = text(&self.tag_chars, &record.local);
            let twice = self.attributes.iter().take(number).any(|other| {
                text(&self.tag_chars, &other.local) == local && self.uri(other.namespace) == uri
            });
            if twice {
                return Err(Violation::DuplicateAttribute);
            }
            if let Some(record) = self.attributes.get_mut(number) {
                record.namespace = namespace;
            }
        }
        Ok(())
    }

    /// Whether the innermost open element has this name, as written.
    pub(super) fn is_innermost(&self, name: &str) -> bool {
        self.open.last().is_some_and(|open| text(&self.chars, &(open.chars..open.name_end)) == name)
    }

    /// Name of the innermost open element.
    pub(super) fn name(&self) -> ScanName<'_> {
        let Some(open) = self.open.last() else { return ScanName { prefix: "", local: "", namespace: "" } };
        let colon = usize::from(open.prefix_end > open.chars);
        ScanName {
            prefix: text(&self.chars, &(open.chars..open.prefix_end)),
            local: text(&self.chars, &(open.prefix_end + colon..open.name_end)),
            namespace: self.uri(open.namespace),
        }
    }

    /// Attributes of the tag that was opened last.
    pub(super) fn attributes(&self) -> Attributes<'_> {
        Attributes { scope: self }
    }

    /// Declarations of the innermost open element.
    pub(super) fn own_declarations(&self) -> Declarations<'_> {
        self.declarations_from(self.outer_declarations())
    }

    /// All declarations of open elements, outermost first.
    pub(super) fn declarations_in_scope(&self) -> Declarations<'_> {
        self.declarations_from(0)
    }

    fn declarations_from(&self, start: usize) -> Declarations<'_> {
        Declarations { chars: &self.chars, records: self.declarations.get(start..).unwrap_or(&[]) }
    }

    fn outer_declarations(&self) -> usize {
        self.open.last().map_or(0, |open| open.declarations)
    }

    /// Closes the innermost open element.
    pub(super) fn close(&mut self) {
        if let Some(open) = self.open.pop() {
            self.chars.truncate(open.chars);
            self.declarations.truncate(open.declarations);
        }
    }

    fn uri(&self, namespace: Namespace) -> &str {
        match namespace {
            Namespace::None => "",
            Namespace::Xml => XML_NAMESPACE,
            Namespace::Declared(number) => {
                self.declarations.get(number).map_or("", |record| text(&self.chars, &record.uri))
            }
        }
    }
}

fn append(chars: &mut String, part: &str) -> Range<usize> {
    let start = chars.len();
    chars.push_str(part);
    start..chars.len()
}

fn text<'c>(chars: &'c str, range: &Range<usize>) -> &'c str {
    chars.get(range.clone()).unwrap_or("")
}

/// The attributes of a tag, without namespace declarations, in the order written.
#[derive(Debug, Clone, Copy)]
pub struct Attributes<'a> {
    scope: &'a Scope,
}

impl<'a> Attributes<'a> {
    /// How many there are.
    #[must_use]
    pub fn len(self) -> usize {
        self.scope.attributes.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The attribute at a place in the order written.
    #[must_use]
    pub fn get(self, index: usize) -> Option<ScanAttribute<'a>> {
        self.scope.attributes.get(index).map(|record| self.attribute(record))
    }

    /// One after the other.
    pub fn iter(self) -> impl Iterator<Item = ScanAttribute<'a>> {
        self.scope.attributes.iter().map(move |record| self.attribute(record))
    }

    /// The value of an attribute; `""` as namespace means one without prefix.
    #[must_use]
    pub fn value(self, namespace: &str, local: &str) -> Option<&'a str> {
        self.iter()
            .find(|attribute| attribute.local == local && attribute.namespace == namespace)
            .map(|attribute| attribute.value)
    }

    fn attribute(self, record: &AttributeRecord) -> ScanAttribute<'a> {
        let chars = &self.scope.tag_chars;
        ScanAttribute {
            prefix: text(chars, &record.prefix),
            local: text(chars, &record.local),
            namespace: self.scope.uri(record.namespace),
            value: text(chars, &record.value),
        }
    }
}

/// Namespace declarations in the order written, outermost first.
#[derive(Debug, Clone, Copy)]
pub struct Declarations<'a> {
    chars: &'a str,
    records: &'a [DeclarationRecord],
}

impl<'a> Declarations<'a> {
    /// How many there are.
    #[must_use]
    pub fn len(self) -> usize {
        self.records.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.records.is_empty()
    }

    /// One after the other.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = ScanDeclaration<'a>> {
        self.records.iter().map(move |record| ScanDeclaration {
            prefix: text(self.chars, &record.prefix),
            uri: text(self.chars, &record.uri),
        })
    }

    /// What a prefix is declared as here, the innermost declaration counting; `Some("")` when the default
    /// namespace is taken away.
    #[must_use]
    pub fn uri(self, prefix: &str) -> Option<&'a str> {
        self.iter().rev().find(|declaration| declaration.prefix == prefix).map(|declaration| declaration.uri)
    }
}
