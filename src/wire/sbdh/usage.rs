//! Which namespace declarations of the envelope a payload uses.
//!
//! A payload uses a declaration when a name in it resolves by it, or when `prefix:` stands in an attribute
//! value or a text, where it may be part of a qualified name (`xsi:type`, a path). Text that only looks like
//! it counts too: an unneeded declaration harms nothing, a missing one changes the document.

use memchr::{memchr, memmem};

use crate::wire::scan::{Attributes, Declarations, ScanName};

/// XML Schema instance: an unprefixed value of its `type` uses the default namespace.
const XSI: &str = "http://www.w3.org/2001/XMLSchema-instance";
/// Longest character in UTF-8, in bytes.
const CHAR_BYTES_MAX: usize = 4;

/// A declaration of the envelope that the payload's root does not repeat.
#[derive(Debug)]
struct Candidate {
    prefix: String,
    uri: String,
    used: bool,
    /// The depth of the element that declares the prefix anew.
    shadowed_at: Option<usize>,
}

impl Candidate {
    const fn is_open(&self) -> bool {
        !self.used && self.shadowed_at.is_none()
    }

    fn see_attributes(&mut self, attributes: Attributes<'_>) {
        for attribute in attributes.iter() {
            let named = !attribute.prefix.is_empty() && attribute.prefix == self.prefix;
            let unprefixed_type = self.prefix.is_empty()
                && (attribute.namespace, attribute.local) == (XSI, "type")
                && memchr(b':', attribute.value.as_bytes()).is_none();
            self.used |= named || unprefixed_type || mentions(attribute.value, &self.prefix);
        }
    }
}

/// Watches a payload for declarations that it uses.
#[derive(Debug)]
pub(super) struct Usage {
    candidates: Vec<Candidate>,
    /// Whether anything is left to be found.
    watching: bool,
    depth: usize,
    /// The end of the text so far, as long as a mention may begin in it.
    tail: String,
    prefix_bytes_max: usize,
}

impl Usage {
    /// Begins at the start tag of the payload: `own` are its declarations, `in_scope` these and the envelope's.
    pub(super) fn new(
        name: ScanName<'_>,
        attributes: Attributes<'_>,
        own: Declarations<'_>,
        in_scope: Declarations<'_>,
    ) -> Self {
        let foreign = |prefix: &str| prefix != "xml" && own.uri(prefix).is_none();
        let mut candidates: Vec<Candidate> = in_scope
            .iter()
            .filter(|declaration| foreign(declaration.prefix) && !declaration.uri.is_empty())
            .map(|declaration| Candidate {
                prefix: declaration.prefix.to_owned(),
                uri: declaration.uri.to_owned(),
                used: false,
                shadowed_at: None,
            })
            .collect();
        for candidate in &mut candidates {
            candidate.used = name.prefix == candidate.prefix;
            candidate.see_attributes(attributes);
        }
        let prefix_bytes_max = candidates.iter().map(|candidate| candidate.prefix.len()).max().unwrap_or(0);
        let watching = candidates.iter().any(Candidate::is_open);
        Self { candidates, watching, depth: 0, tail: String::new(), prefix_bytes_max }
    }

    /// The declarations that are used so far: (prefix, namespace name).
    pub(super) fn used(&self) -> Vec<(String, String)> {
        let used = self.candidates.iter().filter(|candidate| candidate.used);
        used.map(|candidate| (candidate.prefix.clone(), candidate.uri.clone())).collect()
    }

    /// All that could be used.
    pub(super) fn all(&self) -> Vec<(String, String)> {
        self.candidates.iter().map(|candidate| (candidate.prefix.clone(), candidate.uri.clone())).collect()
    }

    /// An element below the payload's root begins.
    pub(super) fn start(&mut self, name: ScanName<'_>, attributes: Attributes<'_>, own: Declarations<'_>) {
        if !self.watching {
            return;
        }
        self.tail.clear();
        self.depth += 1;
        for candidate in self.candidates.iter_mut().filter(|candidate| candidate.is_open()) {
            if own.uri(&candidate.prefix).is_some() {
                candidate.shadowed_at = Some(self.depth);
            } else {
                candidate.used = name.prefix == candidate.prefix;
                candidate.see_attributes(attributes);
            }
        }
        self.watching = self.candidates.iter().any(|candidate| !candidate.used);
    }

    /// An element below the payload's root ends.
    pub(super) fn end(&mut self) {
        if !self.watching {
            return;
        }
        self.tail.clear();
        for candidate in &mut self.candidates {
            if candidate.shadowed_at == Some(self.depth) {
                candidate.shadowed_at = None;
            }
        }
        self.depth = self.depth.saturating_sub(1);
    }

    /// Text in the payload; pieces may be cut anywhere.
    pub(super) fn text(&mut self, text: &str) {
        if !self.watching {
            return;
        }
        if memchr(b':', text.as_bytes()).is_some() {
            // What spans two pieces: the end of the one before with as much as completes a mention.
            let mut seam = std::mem::take(&mut self.tail);
            let reach = text.ceil_char_boundary((self.prefix_bytes_max + 1).min(text.len()));
            seam.push_str(text.get(..reach).unwrap_or(text));
            for candidate in self.candidates.iter_mut().filter(|candidate| candidate.is_open()) {
                candidate.used =
                    mentions(&seam, &candidate.prefix) || mentions_inside(text, &candidate.prefix);
            }
            self.watching = self.candidates.iter().any(|candidate| !candidate.used);
            self.tail.clear();
        }
        self.remember(text);
    }

    fn remember(&mut self, text: &str) {
        let keep = self.prefix_bytes_max + CHAR_BYTES_MAX;
        self.tail
            .push_str(text.get(text.ceil_char_boundary(text.len().saturating_sub(keep))..).unwrap_or(text));
        let surplus = self.tail.ceil_char_boundary(self.tail.len().saturating_sub(keep));
        self.tail.drain(..surplus);
    }
}

/// Whether `prefix:` stands in a text, not as the end of a longer name.
fn mentions(text: &str, prefix: &str) -> bool {
    found_at(text, prefix).next().is_some()
}

/// The same, but not at the very start, where what stands before is not known.
fn mentions_inside(text: &str, prefix: &str) -> bool {
    found_at(text, prefix).any(|at| at > 0)
}

fn found_at(text: &str, prefix: &str) -> impl Iterator<Item = usize> {
    let bytes = text.as_bytes();
    let places =
        (!prefix.is_empty()).then(|| memmem::find_iter(bytes, prefix).map(|at| (at, at + prefix.len())));
    places.into_iter().flatten().filter_map(move |(at, end)| {
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        let continues = before.is_some_and(|b| {
            b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':') || !b.is_ascii()
        });
        (bytes.get(end) == Some(&b':') && !continues).then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::scan::{ScanError, ScanEvent, ScanLimits, Scanner};

    /// The prefixes that the first child of the root uses of the root's declarations, whatever the pieces.
    fn check(envelope: &str, expected: &[&str]) {
        for piece in [1, 2, 3, 7, usize::MAX] {
            let mut usage: Option<Usage> = None;
            let mut depth = 0;
            let mut on = |event: ScanEvent<'_>| -> Result<(), ScanError> {
                match event {
                    ScanEvent::Start { name, attributes, declarations, in_scope, .. } => {
                        depth += 1;
                        match &mut usage {
                            Some(usage) => usage.start(name, attributes, declarations),
                            None if depth == 2 => {
                                usage = Some(Usage::new(name, attributes, declarations, in_scope));
                            }
                            None => {}
                        }
                    }
                    ScanEvent::End { .. } => usage.iter_mut().for_each(Usage::end),
                    ScanEvent::Text { text, .. } => usage.iter_mut().for_each(|usage| usage.text(text)),
                    _ => {}
                }
                Ok(())
            };
            let mut scanner = Scanner::new(ScanLimits::DOCUMENT);
            envelope.as_bytes().chunks(piece).try_for_each(|bytes| scanner.feed(bytes, &mut on)).unwrap();
            scanner.finish(&mut on).unwrap();
            let used: Vec<String> = usage.unwrap().used().into_iter().map(|(prefix, _)| prefix).collect();
            assert_eq!(used, expected, "{envelope} by {piece}");
        }
    }

    #[test]
    fn names_use_what_they_resolve_by() {
        check("<e xmlns='urn:e' xmlns:p='urn:p'><p:a/></e>", &["p"]);
        check("<e xmlns='urn:e' xmlns:p='urn:p'><a/></e>", &[""]);
        check("<e xmlns='urn:e' xmlns:p='urn:p'><a xmlns='urn:a'><b p:x=''/></a></e>", &["p"]);
        check("<e xmlns='urn:e' xmlns:p='urn:p'><a xmlns='urn:a'><b xml:lang='en' x=''/></a></e>", &[]);
        check("<p:e xmlns:p='urn:e'><q:a xmlns:q='urn:q'><b/><p:c/></q:a></p:e>", &["p"]);
        check("<e xmlns='urn:e'><q:a xmlns:q='urn:q'><b/></q:a></e>", &[""]);
        check("<e xmlns='urn:e'><q:a xmlns:q='urn:q'><q:b/></q:a></e>", &[]);
    }

    #[test]
    fn what_is_declared_anew_is_not_used_in_there() {
        check("<e xmlns:p='urn:p'><a><b xmlns:p='urn:o'><p:c/>p:c</b></a></e>", &[]);
        check("<e xmlns:p='urn:p'><a><b xmlns:p='urn:o'/><p:c/></a></e>", &["p"]);
        check("<e xmlns:p='urn:p'><a xmlns:p='urn:o'><p:c/></a></e>", &[]);
        check("<e xmlns='urn:e'><a xmlns=''><b/></a></e>", &[]);
    }

    #[test]
    fn text_and_values_that_look_like_qnames_count() {
        check("<e xmlns:xs='urn:p'><a><b>xs:int</b></a></e>", &["xs"]);
        check("<e xmlns:xs='urn:p'><a><b>as xs<!-- -->:int</b></a></e>", &["xs"]);
        check("<e xmlns:xs='urn:p'><a><b>as x<![CDATA[s:int]]></b></a></e>", &["xs"]);
        check("<e xmlns:xs='urn:p'><a><b x='(xs:int)'/></a></e>", &["xs"]);
        check("<e xmlns:xs='urn:p'><a><b x='axs:int'>bxs:int</b>xs<c/>:x</a></e>", &[]);
        check("<e xmlns:s='urn:p'><a>https://s.s-s:x/\u{e9}s:s</a></e>", &[]);
        let instance = format!("<e xmlns='urn:e' xmlns:i='{XSI}'><q:a xmlns:q='urn:q' i:type='t'/></e>");
        check(&instance, &["", "i"]);
    }
}
