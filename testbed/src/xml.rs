//! Writes XML twice: as it goes over the wire, and in exclusive canonical form (exc-c14n 1.0, no comments).
//! The digests of the composer come from the second, so it needs no canonicaliser, only this writer.

use crate::Fault;

/// Where written bytes go.
pub type Sink<'a> = dyn FnMut(&[u8]) -> Result<(), Fault> + 'a;

/// A namespace with the prefix that the composer writes for it; an empty prefix is the default namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// The prefix, without the colon.
    pub prefix: &'static str,
    /// The namespace name; empty: none.
    pub uri: &'static str,
}

/// No namespace: of attributes without prefix.
pub const NONE: Space = Space { prefix: "", uri: "" };

/// Which of the two forms is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// As sent: declarations where the caller wants them, empty elements short, comments, single quotes.
    Wire,
    /// Exclusive canonical form, the first element written being the apex.
    Canonical,
}

/// An attribute to be written; its prefix must be declared or get declared by the element.
pub type Attribute<'a> = (Space, &'a str, &'a str);

/// A start tag to be written.
#[derive(Debug, Clone, Copy)]
pub struct Tag<'a> {
    /// The namespace of the element.
    pub space: Space,
    /// Its local name.
    pub local: &'a str,
    /// Its attributes; written in this order on the wire.
    pub attributes: &'a [Attribute<'a>],
    /// Namespaces declared here on the wire, whether used or not.
    pub declare: &'a [Space],
}

struct Frame {
    name: String,
    bindings: usize,
}

/// How much is gathered before the sink is called, in bytes.
const BUFFER_BYTES: usize = 32 * 1024;

/// A push writer of one element and all below it.
pub struct Writer<'a, 's> {
    form: Form,
    sink: &'a mut Sink<'s>,
    buffer: Vec<u8>,
    open: bool,
    frames: Vec<Frame>,
    bindings: Vec<Space>,
}

impl std::fmt::Debug for Writer<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer")
            .field("form", &self.form)
            .field("depth", &self.frames.len())
            .finish_non_exhaustive()
    }
}

impl<'a, 's> Writer<'a, 's> {
    /// A writer of that form.
    pub fn new(form: Form, sink: &'a mut Sink<'s>) -> Self {
        Self { form, sink, buffer: Vec::new(), open: false, frames: Vec::new(), bindings: Vec::new() }
    }

    /// The form being written.
    #[must_use]
    pub fn form(&self) -> Form {
        self.form
    }

    fn put(&mut self, text: &str) -> Result<(), Fault> {
        self.buffer.extend_from_slice(text.as_bytes());
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    /// Gives the sink all that is finished.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn flush(&mut self) -> Result<(), Fault> {
        (self.sink)(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    fn close_tag(&mut self) -> Result<(), Fault> {
        if std::mem::take(&mut self.open) { self.put(">") } else { Ok(()) }
    }

    /// Closes an open start tag and flushes, so that what follows begins a piece of its own.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn boundary(&mut self) -> Result<(), Fault> {
        self.close_tag()?;
        self.flush()
    }

    fn bound(&self, prefix: &str) -> &'static str {
        self.bindings.iter().rev().find(|space| space.prefix == prefix).map_or("", |space| space.uri)
    }

    /// The declarations that this tag needs: in canonical form those it uses visibly, on the wire those asked
    /// for and, of the ones used, those not in scope.
    fn declarations(&self, tag: &Tag<'_>) -> Vec<Space> {
        let mut wanted: Vec<Space> = match self.form {
            Form::Wire => tag.declare.to_vec(),
            Form::Canonical => Vec::new(),
        };
        let used = std::iter::once(tag.space).chain(
            tag.attributes.iter().map(|(space, _, _)| *space).filter(|space| !space.prefix.is_empty()),
        );
        for space in used {
            if self.bound(space.prefix) != space.uri && !wanted.contains(&space) && space.prefix != "xml" {
                wanted.push(space);
            }
        }
        if self.form == Form::Canonical {
            wanted.sort_by_key(|space| space.prefix);
        }
        wanted
    }

    /// Writes a start tag.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn start(&mut self, tag: &Tag<'_>) -> Result<(), Fault> {
        self.close_tag()?;
        let name = qualified(tag.space.prefix, tag.local);
        self.put("<")?;
        self.put(&name)?;
        let declared = self.declarations(tag);
        self.frames.push(Frame { name, bindings: self.bindings.len() });
        for space in declared {
            let name =
                if space.prefix.is_empty() { "xmlns".to_owned() } else { format!("xmlns:{}", space.prefix) };
            self.attribute(&name, space.uri)?;
            self.bindings.push(space);
        }
        let mut attributes = tag.attributes.to_vec();
        if self.form == Form::Canonical {
            attributes.sort_by_key(|(space, local, _)| (space.uri, *local));
        }
        for (space, local, value) in attributes {
            self.attribute(&qualified(space.prefix, local), value)?;
        }
        self.open = true;
        Ok(())
    }

    fn attribute(&mut self, name: &str, value: &str) -> Result<(), Fault> {
        let quote = if self.form == Form::Wire && name.len().is_multiple_of(3) { "'" } else { "\"" };
        self.put(" ")?;
        self.put(name)?;
        self.put("=")?;
        self.put(quote)?;
        self.put(&escaped(value, Place::Attribute))?;
        self.put(quote)
    }

    /// Writes text.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn text(&mut self, text: &str) -> Result<(), Fault> {
        self.close_tag()?;
        self.put(&escaped(text, Place::Text))
    }

    /// Writes a comment, which canonical form leaves out.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn comment(&mut self, text: &str) -> Result<(), Fault> {
        match self.form {
            Form::Canonical => Ok(()),
            Form::Wire => {
                self.close_tag()?;
                self.put(&format!("<!--{text}-->"))
            }
        }
    }

    /// Ends the innermost element.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn end(&mut self) -> Result<(), Fault> {
        let Some(frame) = self.frames.pop() else { return Ok(()) };
        self.bindings.truncate(frame.bindings);
        if self.form == Form::Wire && std::mem::take(&mut self.open) {
            return self.put("/>");
        }
        self.close_tag()?;
        self.put("</")?;
        self.put(&frame.name)?;
        self.put(">")
    }

    /// An element with text and nothing else.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn leaf(
        &mut self,
        space: Space,
        local: &str,
        attributes: &[Attribute<'_>],
        text: &str,
    ) -> Result<(), Fault> {
        self.start(&Tag { space, local, attributes, declare: &[] })?;
        if !text.is_empty() {
            self.text(text)?;
        }
        self.end()
    }
}

fn qualified(prefix: &str, local: &str) -> String {
    if prefix.is_empty() { local.to_owned() } else { format!("{prefix}:{local}") }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Text,
    Attribute,
}

/// Both forms escape alike, so that only structure differs; `'` never occurs in what the composer writes.
fn escaped(text: &str, place: Place) -> std::borrow::Cow<'_, str> {
    if !text.contains(['&', '<', '>', '"', '\r', '\n', '\t']) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match (c, place) {
            ('&', _) => out.push_str("&amp;"),
            ('<', _) => out.push_str("&lt;"),
            ('\r', _) => out.push_str("&#xD;"),
            ('>', Place::Text) => out.push_str("&gt;"),
            ('"', Place::Attribute) => out.push_str("&quot;"),
            ('\n', Place::Attribute) => out.push_str("&#xA;"),
            ('\t', Place::Attribute) => out.push_str("&#x9;"),
            _ => out.push(c),
        }
    }
    out.into()
}

/// An element held in memory, for what is small: the SOAP envelope.
#[derive(Debug, Clone)]
pub struct Element {
    space: Space,
    local: &'static str,
    attributes: Vec<(Space, &'static str, String)>,
    declare: Vec<Space>,
    children: Vec<Child>,
}

#[derive(Debug, Clone)]
enum Child {
    Element(Element),
    Text(String),
    Comment(&'static str),
}

impl Element {
    /// An empty element.
    #[must_use]
    pub fn new(space: Space, local: &'static str) -> Self {
        Self { space, local, attributes: Vec::new(), declare: Vec::new(), children: Vec::new() }
    }

    /// With an attribute in no namespace.
    #[must_use]
    pub fn with(self, local: &'static str, value: impl Into<String>) -> Self {
        self.with_in(NONE, local, value)
    }

    /// With an attribute in a namespace.
    #[must_use]
    pub fn with_in(mut self, space: Space, local: &'static str, value: impl Into<String>) -> Self {
        self.attributes.push((space, local, value.into()));
        self
    }

    /// With namespaces declared here on the wire.
    #[must_use]
    pub fn declaring(mut self, spaces: &[Space]) -> Self {
        self.declare.extend_from_slice(spaces);
        self
    }

    /// With text.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.children.push(Child::Text(text.into()));
        self
    }

    /// With a comment.
    #[must_use]
    pub fn comment(mut self, text: &'static str) -> Self {
        self.children.push(Child::Comment(text));
        self
    }

    /// With a child element.
    #[must_use]
    pub fn child(mut self, child: Self) -> Self {
        self.children.push(Child::Element(child));
        self
    }

    /// With child elements.
    #[must_use]
    pub fn children(mut self, children: impl IntoIterator<Item = Self>) -> Self {
        self.children.extend(children.into_iter().map(Child::Element));
        self
    }

    fn write(&self, writer: &mut Writer<'_, '_>) -> Result<(), Fault> {
        let attributes: Vec<Attribute<'_>> =
            self.attributes.iter().map(|(space, local, value)| (*space, *local, value.as_str())).collect();
        writer.start(&Tag {
            space: self.space,
            local: self.local,
            attributes: &attributes,
            declare: &self.declare,
        })?;
        for child in &self.children {
            match child {
                Child::Element(element) => element.write(writer)?,
                Child::Text(text) => writer.text(text)?,
                Child::Comment(text) => writer.comment(text)?,
            }
        }
        writer.end()
    }

    /// The bytes in that form, with this element as the apex.
    ///
    /// # Errors
    /// Never by itself.
    pub fn to_bytes(&self, form: Form) -> Result<Vec<u8>, Fault> {
        let mut out = Vec::new();
        let mut sink = |bytes: &[u8]| {
            out.extend_from_slice(bytes);
            Ok(())
        };
        let mut writer = Writer::new(form, &mut sink);
        self.write(&mut writer)?;
        writer.flush()?;
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Space = Space { prefix: "a", uri: "urn:a" };
    const B: Space = Space { prefix: "b", uri: "urn:b" };
    const D: Space = Space { prefix: "", uri: "urn:d" };

    fn check(element: &Element, wire: &str, canonical: &str) {
        assert_eq!(String::from_utf8(element.to_bytes(Form::Wire).unwrap()).unwrap(), wire);
        assert_eq!(String::from_utf8(element.to_bytes(Form::Canonical).unwrap()).unwrap(), canonical);
    }

    #[test]
    fn canonical_form_declares_where_a_prefix_is_used_and_sorts() {
        let inner = Element::new(B, "y").with("z", "1").with_in(A, "k", "<\"").with("c", "2");
        let outer =
            Element::new(A, "x").declaring(&[A, B]).child(inner).comment("gone").child(Element::new(D, "e"));
        check(
            &outer,
            r#"<a:x xmlns:a="urn:a" xmlns:b="urn:b"><b:y z="1" a:k='&lt;&quot;' c="2"/><!--gone--><e xmlns="urn:d"/></a:x>"#,
            r#"<a:x xmlns:a="urn:a"><b:y xmlns:b="urn:b" c="2" z="1" a:k="&lt;&quot;"></b:y><e xmlns="urn:d"></e></a:x>"#,
        );
    }
}
