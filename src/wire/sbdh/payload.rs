//! The payload element while its events pass by, and the digest of the business document.

use openssl::sha::Sha256;

use super::{CONTENT_NAMESPACE, Insert, PayloadForm, PayloadSpan, SbdError, usage::Usage};
use crate::{
    model::Digest,
    wire::{
        mime::Base64Decoder,
        scan::{Attributes, Declarations, ScanEvent, ScanName, Span},
        xml::Encoding,
    },
};

/// A payload element that has begun.
pub(super) struct Payload {
    start: u64,
    name_end: u64,
    tag_end: u64,
    end: Option<u64>,
    root_namespace: String,
    root_local: String,
    depth: usize,
    document: Document,
}

/// How the business document is had.
enum Document {
    Xml(Xml),
    Wrapped(Wrapped),
}

/// XML: the bytes of the element are digested as they come, with and without what may have to be inserted.
struct Xml {
    usage: Usage,
    encoding: Encoding,
    /// With the declarations that the start tag uses.
    lean: Inserted,
    /// With all of the envelope; none when the start tag uses them all.
    full: Option<Inserted>,
}

/// A digest of the element with something inserted behind its name.
struct Inserted {
    declarations: Vec<u8>,
    sha: Sha256,
}

/// `BinaryContent` and `TextContent`: what their text stands for is digested.
struct Wrapped {
    form: PayloadForm,
    decoder: Option<Base64Decoder>,
    sha: Sha256,
    size: u64,
}

/// The start tag of a payload, as the scanner reports it.
pub(super) struct StartTag<'a> {
    pub(super) name: ScanName<'a>,
    pub(super) attributes: Attributes<'a>,
    pub(super) declarations: Declarations<'a>,
    pub(super) in_scope: Declarations<'a>,
    pub(super) span: Span,
    pub(super) name_end: u64,
}

impl Payload {
    pub(super) fn new(tag: &StartTag<'_>, encoding: Encoding) -> Self {
        let wrapper = |local| tag.name.is(CONTENT_NAMESPACE, local);
        let attribute = |local| tag.attributes.value("", local).map(str::to_owned);
        let media_type = attribute("mimeType");
        let document = if wrapper("BinaryContent") {
            let form = PayloadForm::Binary { media_type, encoding: attribute("encoding") };
            Document::Wrapped(Wrapped::new(form, Some(Base64Decoder::default())))
        } else if wrapper("TextContent") {
            Document::Wrapped(Wrapped::new(PayloadForm::Text { media_type }, None))
        } else {
            Document::Xml(Xml::new(tag, encoding))
        };
        Self {
            start: tag.span.start,
            name_end: tag.name_end,
            tag_end: tag.span.end,
            end: None,
            root_namespace: tag.name.namespace.to_owned(),
            root_local: tag.name.local.to_owned(),
            depth: 0,
            document,
        }
    }

    /// An event inside the element, its own end included; whether that was it.
    pub(super) fn on(&mut self, event: &ScanEvent<'_>) -> Result<bool, SbdError> {
        match (event, &mut self.document) {
            (ScanEvent::End { span, .. }, document) => {
                let Some(depth) = self.depth.checked_sub(1) else {
                    self.end = Some(span.end);
                    document.end()?;
                    return Ok(true);
                };
                self.depth = depth;
                if let Document::Xml(xml) = document {
                    xml.usage.end();
                }
            }
            (ScanEvent::Start { .. }, Document::Wrapped(_)) => return Err(SbdError::WrapperContent),
            (ScanEvent::Start { name, attributes, declarations, .. }, Document::Xml(xml)) => {
                self.depth += 1;
                xml.usage.start(*name, *attributes, *declarations);
            }
            (ScanEvent::Text { text, .. }, Document::Xml(xml)) => xml.usage.text(text),
            (ScanEvent::Text { text, .. }, Document::Wrapped(wrapped)) => wrapped.text(text)?,
            (ScanEvent::Comment { .. } | ScanEvent::ProcessingInstruction { .. }, _) => {}
        }
        Ok(false)
    }

    /// Where the bytes begin that stand in the envelope's digest only by the document's.
    pub(super) const fn content_start(&self) -> u64 {
        match self.document {
            Document::Xml(_) => self.start,
            Document::Wrapped(_) => self.tag_end,
        }
    }

    /// The byte behind the element, once it ended.
    pub(super) const fn end(&self) -> Option<u64> {
        self.end
    }

    /// Takes the first bytes from [`Self::content_start`] on, at least the whole start tag.
    pub(super) fn begin(&mut self, bytes: &[u8]) {
        let Document::Xml(xml) = &mut self.document else { return };
        let name = usize::try_from(self.name_end - self.start).unwrap_or(usize::MAX);
        let (name, rest) = bytes.split_at_checked(name).unwrap_or((bytes, &[]));
        for inserted in std::iter::once(&mut xml.lean).chain(&mut xml.full) {
            inserted.sha.update(name);
            inserted.sha.update(&inserted.declarations);
            inserted.sha.update(rest);
        }
    }

    /// Takes the next bytes of the element.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        let Document::Xml(xml) = &mut self.document else { return };
        xml.lean.sha.update(bytes);
        if let Some(full) = &mut xml.full {
            full.sha.update(bytes);
        }
    }

    /// What the business document is, now that the element has ended.
    pub(super) fn finish(self) -> Finished {
        let end = self.end.unwrap_or(self.start);
        let raw_size = end.saturating_sub(self.start);
        let utf8 = || "UTF-8".to_owned();
        let (form, charset, insert, sha, size) = match self.document {
            Document::Wrapped(wrapped) => (wrapped.form, utf8(), None, wrapped.sha, wrapped.size),
            Document::Xml(xml) => {
                let charset = charset(xml.encoding).to_owned();
                let Inserted { declarations: bytes, sha } = xml.chosen();
                let size = raw_size.saturating_add(bytes.len() as u64);
                let insert = (!bytes.is_empty()).then_some(Insert { at: self.name_end, bytes });
                (PayloadForm::Xml, charset, insert, sha, size)
            }
        };
        let span = PayloadSpan {
            start: self.start,
            end,
            root_namespace: self.root_namespace,
            root_local: self.root_local,
            insert,
            charset,
            form,
        };
        Finished { span, digest: Digest::new(sha.finish()), size }
    }
}

/// A payload that has ended.
pub(super) struct Finished {
    pub(super) span: PayloadSpan,
    pub(super) digest: Digest,
    pub(super) size: u64,
}

impl Document {
    fn end(&mut self) -> Result<(), SbdError> {
        match self {
            Self::Xml(_) => Ok(()),
            Self::Wrapped(wrapped) => wrapped.end(),
        }
    }
}

impl Xml {
    fn new(tag: &StartTag<'_>, encoding: Encoding) -> Self {
        let usage = Usage::new(tag.name, tag.attributes, tag.declarations, tag.in_scope);
        let (used, all) = (usage.used(), usage.all());
        let inserted = |declarations: &[(String, String)]| Inserted {
            declarations: written(declarations, encoding),
            sha: Sha256::new(),
        };
        let full = (used.len() < all.len()).then(|| inserted(&all));
        Self { lean: inserted(&used), full, usage, encoding }
    }

    /// The digest that holds, now that all of the element was seen.
    fn chosen(self) -> Inserted {
        let used_below = written(&self.usage.used(), self.encoding) != self.lean.declarations;
        match self.full {
            Some(full) if used_below => full,
            _ => self.lean,
        }
    }
}

impl Wrapped {
    fn new(form: PayloadForm, decoder: Option<Base64Decoder>) -> Self {
        Self { form, decoder, sha: Sha256::new(), size: 0 }
    }

    fn text(&mut self, text: &str) -> Result<(), SbdError> {
        let (sha, size) = (&mut self.sha, &mut self.size);
        let mut digest = |bytes: &[u8]| {
            sha.update(bytes);
            *size += bytes.len() as u64;
            Ok(())
        };
        match &mut self.decoder {
            None => digest(text.as_bytes()),
            Some(decoder) => decoder.push(text.as_bytes(), || SbdError::Base64, &mut digest),
        }
    }

    fn end(&mut self) -> Result<(), SbdError> {
        let Some(decoder) = &mut self.decoder else { return Ok(()) };
        let (sha, size) = (&mut self.sha, &mut self.size);
        decoder.finish(|| SbdError::Base64, &mut |bytes| {
            sha.update(bytes);
            *size += bytes.len() as u64;
            Ok(())
        })
    }
}

/// The name of an encoding in a `charset` parameter.
const fn charset(encoding: Encoding) -> &'static str {
    match encoding {
        Encoding::Ascii => "US-ASCII",
        Encoding::Latin1 => "ISO-8859-1",
        Encoding::Utf16Be => "UTF-16BE",
        Encoding::Utf16Le => "UTF-16LE",
        Encoding::Utf8 => "UTF-8",
    }
}

/// Namespace declarations as they stand in a tag, each behind a blank.
fn written(declarations: &[(String, String)], encoding: Encoding) -> Vec<u8> {
    let mut text = String::new();
    for (prefix, uri) in declarations {
        text.push_str(if prefix.is_empty() { " xmlns" } else { " xmlns:" });
        text.push_str(prefix);
        text.push_str("=\"");
        for c in uri.chars() {
            match c {
                '&' => text.push_str("&amp;"),
                '<' => text.push_str("&lt;"),
                '"' => text.push_str("&quot;"),
                '\t' | '\n' | '\r' => text.push_str(&format!("&#{};", u32::from(c))),
                c if is_encodable(c, encoding) => text.push(c),
                c => text.push_str(&format!("&#{};", u32::from(c))),
            }
        }
        text.push('"');
    }
    encoded(&text, encoding)
}

const fn is_encodable(c: char, encoding: Encoding) -> bool {
    match encoding {
        Encoding::Ascii => c.is_ascii(),
        Encoding::Latin1 => c <= '\u{FF}',
        Encoding::Utf8 | Encoding::Utf16Be | Encoding::Utf16Le => true,
    }
}

fn encoded(text: &str, encoding: Encoding) -> Vec<u8> {
    match encoding {
        Encoding::Ascii | Encoding::Utf8 => text.as_bytes().to_vec(),
        Encoding::Latin1 => text.chars().map(|c| u8::try_from(u32::from(c)).unwrap_or(b'?')).collect(),
        Encoding::Utf16Be => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
        Encoding::Utf16Le => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
    }
}
