//! What the scanner reports.

use super::names::{Attributes, Declarations};

/// A range of the input, in bytes from its start as received (byte order mark included).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The first byte.
    pub start: u64,
    /// The byte behind the last.
    pub end: u64,
}

/// Name of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanName<'a> {
    /// Prefix as written; empty without one.
    pub prefix: &'a str,
    /// Local name.
    pub local: &'a str,
    /// Namespace name; empty without one.
    pub namespace: &'a str,
}

impl ScanName<'_> {
    /// Whether this is the name asked for.
    #[must_use]
    pub fn is(&self, namespace: &str, local: &str) -> bool {
        self.local == local && self.namespace == namespace
    }
}

/// An attribute of an element that is no namespace declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanAttribute<'a> {
    /// Prefix as written; empty without one.
    pub prefix: &'a str,
    /// Local name.
    pub local: &'a str,
    /// Namespace name; empty for an attribute without prefix.
    pub namespace: &'a str,
    /// Normalised value.
    pub value: &'a str,
}

/// A namespace declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanDeclaration<'a> {
    /// Prefix; empty for the default namespace.
    pub prefix: &'a str,
    /// Namespace name; empty when the default namespace is taken away.
    pub uri: &'a str,
}

/// A piece of a document, in document order.
#[derive(Debug, Clone, Copy)]
pub enum ScanEvent<'a> {
    /// A start tag, or the tag of an empty element, which an [`Self::End`] follows all the same.
    Start {
        /// The element's name.
        name: ScanName<'a>,
        /// Its attributes in the order written.
        attributes: Attributes<'a>,
        /// Its own namespace declarations in the order written.
        declarations: Declarations<'a>,
        /// Everything that is in scope inside: declarations of the element and of those above, innermost last.
        in_scope: Declarations<'a>,
        /// The tag.
        span: Span,
        /// Where the name ends in the input: what is inserted here stands before all attributes.
        name_end: u64,
        /// Whether the tag ends in `/>`.
        empty: bool,
    },
    /// An end tag; of an empty element its span has no length and stands behind the tag.
    End {
        /// The element's name.
        name: ScanName<'a>,
        /// The tag.
        span: Span,
    },
    /// A piece of text inside the document element; adjacent pieces belong together. References and CDATA
    /// sections are resolved, line ends are one LF. White space outside the document element is not reported.
    Text {
        /// The characters; never empty.
        text: &'a str,
        /// Where they come from.
        span: Span,
    },
    /// A comment.
    Comment {
        /// What stands between the delimiters.
        text: &'a str,
        /// The comment.
        span: Span,
    },
    /// A processing instruction.
    ProcessingInstruction {
        /// Its target.
        target: &'a str,
        /// What follows the white space behind the target; may be empty.
        data: &'a str,
        /// The instruction.
        span: Span,
    },
}
