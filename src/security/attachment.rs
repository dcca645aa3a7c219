//! The signed digest of a part under the Attachment-Content-Signature-Transform.
//!
//! Which octets are digested depends on the media type that the part had when it was signed: of an encrypted
//! part `xenc:EncryptedData/@MimeType`, of a clear one its MIME `Content-Type` (`as4-wire` §5.5, as WSS4J
//! does it).

use openssl::sha::Sha256;

use crate::{
    model::Digest,
    wire::{c14n::StreamCanonicalizer, scan::ScanLimits},
};

use super::error::AttachmentFault;

/// How a part is brought into the form that is digested.
enum Form {
    /// As it is.
    Raw,
    /// Every line end becomes CRLF.
    Text(Last),
    /// Exclusive canonical XML without comments.
    Xml(Box<StreamCanonicalizer>),
}

/// The octet before the next piece.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Cr,
    Other,
}

/// Digests a part piece by piece.
pub struct PartDigester {
    form: Form,
    hash: Sha256,
}

impl PartDigester {
    /// For a part of this media type; an empty one stands for none.
    #[must_use]
    pub fn new(media_type: &str, limits: ScanLimits) -> Self {
        Self { form: form(media_type, limits), hash: Sha256::new() }
    }

    /// Takes the next piece.
    ///
    /// # Errors
    /// When the part is signed as XML and is none, or exceeds a limit.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), AttachmentFault> {
        let Self { form, hash } = self;
        match form {
            Form::Raw => hash.update(bytes),
            Form::Text(last) => digest_text(bytes, last, hash),
            Form::Xml(canonicalizer) => canonicalizer
                .feed(bytes, &mut |canonical| hash.update(canonical))
                .map_err(|error| AttachmentFault::NotXml(error.to_string()))?,
        }
        Ok(())
    }

    /// The digest of everything.
    ///
    /// # Errors
    /// When the part is signed as XML and ends too early.
    pub fn finish(self) -> Result<Digest, AttachmentFault> {
        let Self { form, mut hash } = self;
        if let Form::Xml(canonicalizer) = form {
            canonicalizer
                .finish(&mut |canonical| hash.update(canonical))
                .map_err(|error| AttachmentFault::NotXml(error.to_string()))?;
        }
        Ok(Digest::new(hash.finish()))
    }
}

/// The rule of WSS4J: prefixes, without regard to case.
fn form(media_type: &str, limits: ScanLimits) -> Form {
    let media_type = media_type.trim_start().to_ascii_lowercase();
    let is_plus_xml = ["application/", "image/"]
        .iter()
        .any(|top| media_type.strip_prefix(top).is_some_and(|subtype| subtype.contains("+xml")));
    if is_plus_xml || media_type.starts_with("text/xml") || media_type.starts_with("application/xml") {
        Form::Xml(Box::new(StreamCanonicalizer::new(limits)))
    } else if media_type.starts_with("text/") {
        Form::Text(Last::Other)
    } else {
        Form::Raw
    }
}

/// Digests text with every CR, LF and CRLF as CRLF.
fn digest_text(bytes: &[u8], last: &mut Last, hash: &mut Sha256) {
    for line in bytes.split_inclusive(|&byte| byte == b'\n' || byte == b'\r') {
        let (end, text) = match line.split_last() {
            Some((end @ (b'\n' | b'\r'), text)) => (Some(*end), text),
            _ => (None, line),
        };
        hash.update(text);
        // The LF of a CRLF was already written with its CR.
        let is_second_half = end == Some(b'\n') && text.is_empty() && *last == Last::Cr;
        if end.is_some() && !is_second_half {
            hash.update(b"\r\n");
        }
        *last = if end == Some(b'\r') { Last::Cr } else { Last::Other };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(media_type: &str, content: &[u8], step: usize) -> Result<Digest, AttachmentFault> {
        let mut digester = PartDigester::new(media_type, ScanLimits::CANONICAL);
        for piece in content.chunks(step) {
            digester.feed(piece)?;
        }
        digester.finish()
    }

    fn check(media_type: &str, content: &str, digested: &str) {
        for step in 1..=content.len().max(1) {
            let found = digest(media_type, content.as_bytes(), step);
            assert_eq!(found, Ok(Digest::of(digested.as_bytes())), "{media_type:?} {content:?} {step}");
        }
    }

    #[test]
    fn anything_but_text_and_xml_is_digested_as_it_is() {
        let types =
            ["application/gzip", "application/octet-stream", "", "image/png", "image/xml", "xml/text"];
        for media_type in types {
            check(media_type, "<a  b='1'/>\r\n\n", "<a  b='1'/>\r\n\n");
        }
    }

    #[test]
    fn every_line_end_of_text_counts_as_crlf_across_pieces() {
        check("text/plain", "a\rb\nc\r\nd", "a\r\nb\r\nc\r\nd");
        check("Text/CSV; charset=utf-8", "a\r\r\nb", "a\r\n\r\nb");
        check("text/plain", "\n\r\r\n\n\r", "\r\n\r\n\r\n\r\n\r\n");
        check("text/plain", "", "");
    }

    #[test]
    fn xml_is_digested_in_canonical_form_under_each_of_its_types() {
        let types = [
            "application/xml",
            "text/xml; charset=UTF-8",
            "APPLICATION/XML",
            "application/vnd.x+xml",
            "image/svg+xml",
        ];
        for media_type in types {
            check(
                media_type,
                "<?xml version='1.0'?>\r\n<!-- c --><?pi a?><a  b='1'><![CDATA[<]]></a>\n<?end?>",
                "<?pi a?>\n<a b=\"1\">&lt;</a>\n<?end?>",
            );
        }
    }

    #[test]
    fn what_is_signed_as_xml_must_be_xml_to_its_end() {
        for content in ["", "<a>", "<a/>x", "<!DOCTYPE a><a/>", "no"] {
            let found = digest("application/xml", content.as_bytes(), 3);
            assert!(matches!(found, Err(AttachmentFault::NotXml(_))), "{content}");
        }
    }
}
