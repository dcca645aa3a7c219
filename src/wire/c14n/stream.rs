//! Canonical form of a document of any length, while it passes by.

use std::cmp::Ordering;
use std::ops::Range;

use super::escape;
use crate::wire::scan::{Attributes, ScanAttribute, ScanError, ScanEvent, ScanLimits, ScanName, Scanner};
use crate::wire::xml::NamespaceNames;

/// Bytes of canonical form that are gathered before they are handed on.
const OUT_BYTES: usize = 32 * 1024;
/// Texts from this length on are handed on without being gathered, when nothing in them is escaped.
const DIRECT_BYTES_MIN: usize = 4096;

/// Writes the exclusive canonical form, without comments, of a whole document that is pushed through.
///
/// The result is that of [`super::exclusive`] with the document node as apex; memory is bounded by the limits.
/// What has been written is of no use until [`Self::finish`] has said that the document is one.
#[derive(Debug)]
pub struct StreamCanonicalizer {
    scanner: Scanner,
    writer: Writer,
}

impl StreamCanonicalizer {
    /// A canonicaliser at the start of a document. Namespace names must be absolute URIs, whatever the limits say.
    #[must_use]
    pub fn new(limits: ScanLimits) -> Self {
        let limits = ScanLimits { namespace_names: NamespaceNames::Absolute, ..limits };
        Self { scanner: Scanner::new(limits), writer: Writer::default() }
    }

    /// Takes the next bytes and hands on canonical form.
    ///
    /// # Errors
    /// When the document is malformed or exceeds a limit; and from then on.
    pub fn feed(&mut self, bytes: &[u8], out: &mut dyn FnMut(&[u8])) -> Result<(), ScanError> {
        let Self { scanner, writer } = self;
        scanner.feed(bytes, &mut |event| {
            writer.event(event, out);
            Ok::<(), ScanError>(())
        })?;
        writer.flush(out);
        Ok(())
    }

    /// Ends the document and hands on the rest.
    ///
    /// # Errors
    /// When the document is not complete, or as [`Self::feed`].
    pub fn finish(self, out: &mut dyn FnMut(&[u8])) -> Result<(), ScanError> {
        let Self { scanner, mut writer } = self;
        scanner.finish(&mut |event| {
            writer.event(event, out);
            Ok::<(), ScanError>(())
        })?;
        writer.flush(out);
        Ok(())
    }
}

/// A declaration that was written, by its place in `chars`.
#[derive(Debug)]
struct Rendered {
    prefix: Range<usize>,
    uri: Range<usize>,
}

/// What an element changed that its end undoes.
#[derive(Debug)]
struct Outer {
    rendered: usize,
    chars: usize,
}

#[derive(Debug, Default)]
struct Writer {
    buffer: Vec<u8>,
    chars: String,
    rendered: Vec<Rendered>,
    open: Vec<Outer>,
    root_seen: bool,
    /// Attributes of the current tag, by number, while they are put in order.
    order: Vec<usize>,
}

impl Writer {
    fn event(&mut self, event: ScanEvent<'_>, out: &mut dyn FnMut(&[u8])) {
        match event {
            ScanEvent::Start { name, attributes, .. } => self.start(name, attributes),
            ScanEvent::End { name, .. } => self.end(name),
            ScanEvent::Text { text, .. } => self.text(text, out),
            ScanEvent::Comment { .. } => {}
            ScanEvent::ProcessingInstruction { target, data, .. } => self.instruction(target, data),
        }
        if self.buffer.len() >= OUT_BYTES {
            self.flush(out);
        }
    }

    fn flush(&mut self, out: &mut dyn FnMut(&[u8])) {
        if !self.buffer.is_empty() {
            out(&self.buffer);
            self.buffer.clear();
        }
    }

    fn text(&mut self, text: &str, out: &mut dyn FnMut(&[u8])) {
        if text.len() >= DIRECT_BYTES_MIN && escape::is_plain_text(text) {
            self.flush(out);
            out(text.as_bytes());
        } else {
            escape::text(text, &mut self.buffer);
        }
    }

    fn instruction(&mut self, target: &str, data: &str) {
        let outside = self.open.is_empty();
        if outside && self.root_seen {
            self.buffer.push(b'\n');
        }
        escape::instruction(target, data, &mut self.buffer);
        if outside && !self.root_seen {
            self.buffer.push(b'\n');
        }
    }

    fn start(&mut self, name: ScanName<'_>, attributes: Attributes<'_>) {
        self.root_seen = true;
        self.open.push(Outer { rendered: self.rendered.len(), chars: self.chars.len() });
        self.buffer.push(b'<');
        escape::name(name.prefix, name.local, &mut self.buffer);
        self.render_needed(name, attributes);
        self.order_attributes(attributes, |a, b| (a.namespace, a.local).cmp(&(b.namespace, b.local)));
        for attribute in self.order.iter().filter_map(|&index| attributes.get(index)) {
            escape::named_attribute(attribute.prefix, attribute.local, attribute.value, &mut self.buffer);
        }
        self.buffer.push(b'>');
    }

    /// Writes the declarations that the tag uses visibly and that are not written around it, by prefix.
    fn render_needed(&mut self, name: ScanName<'_>, attributes: Attributes<'_>) {
        self.order_attributes(attributes, |a, b| a.prefix.cmp(b.prefix));
        let mut element_is_due = true;
        for number in 0..self.order.len() {
            let Some(attribute) = self.order.get(number).and_then(|&index| attributes.get(index)) else {
                break;
            };
            if element_is_due && name.prefix <= attribute.prefix {
                self.render(name.prefix, name.namespace);
                element_is_due = false;
            }
            if !attribute.prefix.is_empty() {
                self.render(attribute.prefix, attribute.namespace);
            }
        }
        if element_is_due {
            self.render(name.prefix, name.namespace);
        }
    }

    fn order_attributes(
        &mut self,
        attributes: Attributes<'_>,
        compare: impl Fn(&ScanAttribute<'_>, &ScanAttribute<'_>) -> Ordering,
    ) {
        self.order.clear();
        self.order.extend(0..attributes.len());
        if self.order.len() > 1 {
            self.order.sort_unstable_by(|&a, &b| match (attributes.get(a), attributes.get(b)) {
                (Some(a), Some(b)) => compare(&a, &b),
                _ => Ordering::Equal,
            });
        }
    }

    fn render(&mut self, prefix: &str, uri: &str) {
        if prefix == "xml" {
            return;
        }
        let part = |range: &Range<usize>| self.chars.get(range.clone()).unwrap_or("");
        let written = self.rendered.iter().rev().find(|written| part(&written.prefix) == prefix);
        let is_there = match written {
            Some(written) => part(&written.uri) == uri,
            None => prefix.is_empty() && uri.is_empty(),
        };
        if is_there {
            return;
        }
        escape::declaration(prefix, uri, &mut self.buffer);
        let start = self.chars.len();
        self.chars.push_str(prefix);
        let middle = self.chars.len();
        self.chars.push_str(uri);
        self.rendered.push(Rendered { prefix: start..middle, uri: middle..self.chars.len() });
    }

    fn end(&mut self, name: ScanName<'_>) {
        self.buffer.extend_from_slice(b"</");
        escape::name(name.prefix, name.local, &mut self.buffer);
        self.buffer.push(b'>');
        if let Some(outer) = self.open.pop() {
            self.rendered.truncate(outer.rendered);
            self.chars.truncate(outer.chars);
        }
    }
}
