//! Why bytes are no document.

/// A limit that a document exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitKind {
    /// Attributes of one element.
    Attributes,
    /// Bytes of the document.
    Bytes,
    /// Nesting of elements.
    Depth,
    /// Namespace names, or declarations in scope.
    Namespaces,
    /// Nodes of the tree.
    Nodes,
    /// Bytes of the names and namespace declarations of all open elements.
    OpenNames,
    /// Bytes of one tag, reference, comment or processing instruction.
    Token,
    /// Bytes of the XML declaration.
    XmlDeclaration,
}

impl LimitKind {
    /// What is counted, in words.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Attributes => "attributes of one element",
            Self::Bytes => "bytes",
            Self::Depth => "levels of elements",
            Self::Namespaces => "namespaces",
            Self::Nodes => "nodes",
            Self::OpenNames => "bytes of names of open elements",
            Self::Token => "bytes of one tag, comment or instruction",
            Self::XmlDeclaration => "bytes of XML declaration",
        }
    }
}

/// A rule of XML 1.0 or of Namespaces in XML 1.0 that a document breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// XML §3.1: white space between attributes.
    #[error("white space is missing before an attribute")]
    AttributeSpace,
    /// XML §3.1: `name="value"`.
    #[error("an attribute is not name, equals sign, quoted value")]
    AttributeSyntax,
    /// XML §2.4: `]]>` does not stand in text.
    #[error("]]> stands in text")]
    CdataEnd,
    /// XML §2.2: Char.
    #[error("a character that XML does not allow")]
    Character,
    /// XML §2.5: `--` does not stand in a comment.
    #[error("-- stands in a comment")]
    Comment,
    /// XML §2.8: shape of the XML declaration; only version 1.0 is read.
    #[error("the XML declaration is malformed or not of version 1.0")]
    Declaration,
    /// XML §2.8: place of the XML declaration.
    #[error("an XML declaration stands elsewhere than at the start")]
    DeclarationPlace,
    /// XML §3.1, Namespaces §6.3: one attribute of a name.
    #[error("an attribute occurs twice")]
    DuplicateAttribute,
    /// XML §3: end tags match start tags.
    #[error("an end tag does not match its start tag")]
    EndTag,
    /// XML §3.1: `<` does not stand in an attribute value.
    #[error("< stands in an attribute value")]
    LessThanInAttribute,
    /// XML §2.8: what starts with `<!` is a comment or a CDATA section here.
    #[error("unknown markup")]
    Markup,
    /// XML §2.3: Name; Namespaces §4: `QName`.
    #[error("a name is malformed")]
    Name,
    /// Namespace names that are no absolute URIs, or contain `&`, have no agreed canonical form.
    #[error("a namespace name is no absolute URI, or contains an ampersand")]
    NamespaceName,
    /// XML §2.1: one document element.
    #[error("there is no element")]
    NoRoot,
    /// Namespaces §5: a prefix is not undeclared.
    #[error("a prefix is bound to nothing")]
    PrefixUndeclared,
    /// XML §2.6: `PITarget`; Namespaces §7: no colon.
    #[error("the target of a processing instruction is malformed or xml")]
    ProcessingInstruction,
    /// XML §4.1: references are to characters or to the five entities.
    #[error("an undefined entity or a bad character reference")]
    Reference,
    /// Namespaces §3: xml and xmlns.
    #[error("the prefix xml or xmlns, or its namespace, is misused")]
    ReservedPrefix,
    /// XML §2.1: one document element.
    #[error("there is a second document element")]
    SecondRoot,
    /// XML §2.1: only comments, instructions and white space outside the document element.
    #[error("text stands outside the document element")]
    TextOutsideRoot,
    /// Namespaces §5: prefixes are declared.
    #[error("a prefix is not declared")]
    UnboundPrefix,
    /// XML §2.1: what begins also ends.
    #[error("the document ends inside an element, tag, comment or other markup")]
    Unclosed,
}

/// Why bytes are no [`super::Document`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum XmlError {
    /// A document type declaration, of which none is taken.
    #[error("the document has a DOCTYPE")]
    Doctype,
    /// The bytes are not in the encoding that they claim, or in one that is not read.
    #[error("encoding: {0}")]
    Encoding(&'static str),
    /// Too much of something.
    #[error("more than {max} {}", kind.as_str())]
    Limit {
        /// Of what.
        kind: LimitKind,
        /// The limit.
        max: usize,
    },
    /// Not well-formed, or not namespace-well-formed.
    #[error("{rule} (near character {at})")]
    Malformed {
        /// The rule that is broken.
        rule: Violation,
        /// Where, in bytes of the document in UTF-8 without byte order mark.
        at: usize,
    },
}
