//! The one XML tree.
//!
//! [`Document`] is built once from received bytes, is immutable, and is what the signature is verified on and
//! what the header is read from: there is no second reading that could see something else.
//!
//! quick-xml delivers the events and is used nowhere else, because by itself it accepts much that is no XML
//! (two roots, undefined entities, unbound prefixes, `]]>` in text, …). Every rule of XML 1.0 and of Namespaces
//! in XML 1.0 that concerns a document without DOCTYPE is checked here. The lexical rules (`chars`, `markup`,
//! `names`, `encoding`) are shared with [`super::scan`], which reads documents of any length.

mod build;
pub(in crate::wire) mod chars;
pub(in crate::wire) mod encoding;
mod error;
pub(in crate::wire) mod markup;
pub(in crate::wire) mod names;
mod tree;

#[cfg(test)]
mod tests;

pub use encoding::Encoding;
pub use error::{LimitKind, Violation, XmlError};
pub use names::NamespaceNames;
pub use tree::{Attribute, Declaration, Document, NodeId, NodeKind};

/// The namespace that the prefix `xml` is always bound to (Namespaces in XML 1.0 §3).
pub const XML_NAMESPACE: &str = "http://www.w3.org/XML/1998/namespace";
/// The namespace that the prefix `xmlns` is always bound to (Namespaces in XML 1.0 §3).
pub const XMLNS_NAMESPACE: &str = "http://www.w3.org/2000/xmlns/";

/// How much of a document is taken before it is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XmlLimits {
    /// Longest document, in bytes as received.
    pub bytes_max: usize,
    /// Deepest nesting of elements; the document element is at depth 1.
    pub depth_max: usize,
    /// Most attributes, namespace declarations included, of one element.
    pub attributes_max: usize,
    /// Most different namespace names in the document, and most declarations in scope at one element.
    pub namespaces_max: usize,
    /// Most nodes: elements, texts, comments and processing instructions together.
    pub nodes_max: usize,
}

impl XmlLimits {
    /// The limits of a SOAP envelope (`AS4` sets none; see the pitfalls of XML processing in the AS4 profile).
    pub const SOAP: Self = Self {
        bytes_max: 1 << 20,
        depth_max: 64,
        attributes_max: 64,
        namespaces_max: 256,
        nodes_max: 65_536,
    };
}
