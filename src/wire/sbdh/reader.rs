//! The push reader of an envelope.
//!
//! Two things happen to each piece: the scanner turns it into events, which say where the parts of the envelope
//! stand, and its bytes go into digests. Up to the start of the payload the bytes are held, because only events
//! say which of them are the text of `CreationDateAndTime`; from there on each byte is digested twice, for the
//! whole and for the business document, and nothing is held. What envelopes are compared by costs no third pass:
//! it is made of the bytes around the payload and of the business document's digest.

use openssl::sha::Sha256;

use super::{
    PayloadForm, SBDH_NAMESPACE, Sbd, SbdError, Sbdh,
    header::HeaderBuilder,
    payload::{Finished, Payload, StartTag},
};
use crate::{
    model::Digest,
    wire::{
        scan::{ScanError, ScanEvent, ScanLimits, Scanner, Span},
        xml::{
            Encoding,
            encoding::{Extent, sniff},
        },
    },
};

/// Most bytes before the payload: prolog, start of the envelope, header.
pub const HEAD_BYTES_MAX: usize = 256 * 1024;

/// How much of an envelope is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SbdLimits {
    /// Most bytes before the payload.
    pub head_bytes_max: usize,
    /// The limits of everything in it.
    pub scan: ScanLimits,
}

impl Default for SbdLimits {
    fn default() -> Self {
        Self { head_bytes_max: HEAD_BYTES_MAX, scan: ScanLimits::DOCUMENT }
    }
}

/// Reads a standard business document, fed in pieces of any size. After an error it must not be fed again.
pub struct SbdReader {
    limits: SbdLimits,
    scanner: Scanner,
    outline: Outline,
    digests: Digests,
}

impl SbdReader {
    /// A reader at the start of an envelope.
    #[must_use]
    pub fn new(limits: SbdLimits) -> Self {
        Self {
            limits,
            scanner: Scanner::new(limits.scan),
            outline: Outline::new(limits.head_bytes_max),
            digests: Digests::new(),
        }
    }

    /// Takes the next piece.
    ///
    /// # Errors
    /// When it is no standard business document, not well-formed, or beyond a limit.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), SbdError> {
        let Self { scanner, outline, digests, .. } = self;
        digests.hold(bytes);
        scanner.feed(bytes, &mut |event| outline.on(&event, &digests.head))?;
        self.digest(bytes)
    }

    /// Ends the envelope.
    ///
    /// # Errors
    /// When it is not complete.
    pub fn finish(mut self) -> Result<Sbd, SbdError> {
        let Self { scanner, mut outline, digests, .. } = self;
        // An envelope of a few bytes may be read only now.
        scanner.finish(&mut |event| outline.on(&event, &digests.head))?;
        (self.outline, self.digests, self.scanner) = (outline, digests, Scanner::new(self.limits.scan));
        self.digest(&[])?;
        let header = std::mem::take(&mut self.outline.header);
        let finished = self.digests.finished.take().ok_or(SbdError::NoPayload)?;
        Ok(Sbd {
            header,
            payload: finished.span,
            document: finished.digest,
            document_size: finished.size,
            envelope: Digest::new(self.digests.envelope.finish()),
            total: Digest::new(self.digests.total.finish()),
            total_size: self.digests.size,
        })
    }

    fn digest(&mut self, bytes: &[u8]) -> Result<(), SbdError> {
        self.digests.whole(bytes);
        if self.digests.is_in_head() && self.outline.payload.is_none() {
            // A start tag that begins in time ends within the longest token.
            let held_max = self.limits.head_bytes_max.saturating_add(self.limits.scan.token_bytes_max * 4);
            let held = self.digests.head.len();
            return if held > held_max {
                Err(SbdError::HeadTooLong(self.limits.head_bytes_max))
            } else {
                Ok(())
            };
        }
        self.digests.around(bytes, &mut self.outline);
        Ok(())
    }
}

/// Where in the envelope the events are.
enum Place {
    Start,
    Root,
    Header(Box<HeaderBuilder>),
    BehindHeader,
    Payload,
    BehindPayload,
}

/// What the events say of the envelope.
struct Outline {
    head_bytes_max: usize,
    place: Place,
    header: Sbdh,
    /// Where the text of `CreationDateAndTime` stands.
    creation: Vec<Span>,
    payload: Option<Payload>,
}

impl Outline {
    const fn new(head_bytes_max: usize) -> Self {
        const NO_HEADER: Sbdh = Sbdh {
            header_version: None,
            sender: None,
            receiver: None,
            standard: None,
            type_version: None,
            instance_identifier: None,
            document_type: None,
            creation: None,
            scopes: Vec::new(),
        };
        Self { head_bytes_max, place: Place::Start, header: NO_HEADER, creation: Vec::new(), payload: None }
    }

    /// Takes an event; `head` are the first bytes of the envelope.
    fn on(&mut self, event: &ScanEvent<'_>, head: &[u8]) -> Result<(), SbdError> {
        match &mut self.place {
            Place::Header(builder) => match *event {
                ScanEvent::Start { name, attributes, .. } => builder.start(name, attributes),
                ScanEvent::Text { text, span } => {
                    builder.text(text);
                    if builder.in_creation() {
                        self.creation.push(span);
                    }
                    Ok(())
                }
                ScanEvent::End { .. } => {
                    if builder.end() {
                        self.header = std::mem::take(&mut **builder).finish();
                        self.place = Place::BehindHeader;
                    }
                    Ok(())
                }
                ScanEvent::Comment { .. } | ScanEvent::ProcessingInstruction { .. } => Ok(()),
            },
            Place::Payload => {
                if self.payload.as_mut().map_or(Ok(false), |payload| payload.on(event))? {
                    self.place = Place::BehindPayload;
                }
                Ok(())
            }
            Place::Start | Place::Root | Place::BehindHeader | Place::BehindPayload => {
                self.child(event, head)
            }
        }
    }

    /// An event that concerns the root element or one of its children.
    fn child(&mut self, event: &ScanEvent<'_>, head: &[u8]) -> Result<(), SbdError> {
        match *event {
            ScanEvent::Text { text, .. } if text.trim_matches([' ', '\t', '\r', '\n']).is_empty() => Ok(()),
            ScanEvent::Text { .. } => Err(SbdError::StrayText),
            ScanEvent::End { .. } => match self.place {
                Place::BehindPayload => Ok(()),
                Place::BehindHeader => Err(SbdError::NoPayload),
                _ => Err(SbdError::NoHeader),
            },
            ScanEvent::Start { name, attributes, declarations, in_scope, span, name_end, .. } => {
                let tag = StartTag { name, attributes, declarations, in_scope, span, name_end };
                self.begin(&tag, head)
            }
            ScanEvent::Comment { .. } | ScanEvent::ProcessingInstruction { .. } => Ok(()),
        }
    }

    fn begin(&mut self, tag: &StartTag<'_>, head: &[u8]) -> Result<(), SbdError> {
        self.place = match self.place {
            Place::Start if tag.name.is(SBDH_NAMESPACE, "StandardBusinessDocument") => Place::Root,
            Place::Start => return Err(SbdError::NotAnSbd),
            Place::Root if tag.name.is(SBDH_NAMESPACE, "StandardBusinessDocumentHeader") => {
                Place::Header(Box::default())
            }
            Place::Root => return Err(SbdError::NoHeader),
            Place::BehindHeader if tag.name.is(SBDH_NAMESPACE, "StandardBusinessDocumentHeader") => {
                return Err(SbdError::Twice("StandardBusinessDocumentHeader".to_owned()));
            }
            Place::BehindHeader if tag.name.is(SBDH_NAMESPACE, "StandardBusinessDocument") => {
                return Err(SbdError::Nested);
            }
            Place::BehindHeader if tag.span.start > self.head_bytes_max as u64 => {
                return Err(SbdError::HeadTooLong(self.head_bytes_max));
            }
            Place::BehindHeader => {
                self.payload = Some(Payload::new(tag, encoding(head)?));
                Place::Payload
            }
            Place::BehindPayload | Place::Header(_) | Place::Payload => return Err(SbdError::SecondPayload),
        };
        Ok(())
    }
}

/// The encoding of an envelope of which these are the first bytes.
fn encoding(head: &[u8]) -> Result<Encoding, SbdError> {
    let sniffed = sniff(head, Extent::Whole).map_err(ScanError::from)?;
    Ok(sniffed.map_or(Encoding::Utf8, |sniffed| sniffed.encoding))
}

/// Which bytes come next.
enum Region {
    /// Before the payload's content.
    Head,
    /// The payload; its next byte is at this offset.
    Payload(u64),
    /// Behind the payload.
    Tail,
}

/// The digests and the bytes that cannot be digested yet.
struct Digests {
    total: Sha256,
    size: u64,
    envelope: Sha256,
    region: Region,
    head: Vec<u8>,
    finished: Option<Finished>,
}

impl Digests {
    fn new() -> Self {
        Self {
            total: Sha256::new(),
            size: 0,
            envelope: Sha256::new(),
            region: Region::Head,
            head: Vec::new(),
            finished: None,
        }
    }

    const fn is_in_head(&self) -> bool {
        matches!(self.region, Region::Head)
    }

    fn hold(&mut self, bytes: &[u8]) {
        if self.is_in_head() {
            self.head.extend_from_slice(bytes);
        }
    }

    fn whole(&mut self, bytes: &[u8]) {
        self.total.update(bytes);
        self.size += bytes.len() as u64;
    }

    /// Sorts bytes into payload and surroundings. In the head they are held already.
    fn around(&mut self, bytes: &[u8], outline: &mut Outline) {
        match self.region {
            Region::Head => self.leave_head(outline),
            Region::Payload(at) => self.payload(at, bytes, outline),
            Region::Tail => self.envelope.update(bytes),
        }
    }

    /// The payload has begun: the held bytes fall apart at its start.
    fn leave_head(&mut self, outline: &mut Outline) {
        let Some(payload) = &mut outline.payload else { return };
        let head = std::mem::take(&mut self.head);
        let start = payload.content_start();
        let mut at = 0;
        for text in &outline.creation {
            self.envelope.update(slice(&head, at, text.start));
            at = text.end;
        }
        self.envelope.update(slice(&head, at, start));
        let rest = slice(&head, start, u64::MAX);
        let end = payload.end().unwrap_or(u64::MAX);
        payload.begin(slice(&head, start, end));
        self.region = Region::Payload(start.saturating_add(rest.len() as u64));
        if payload.end().is_some() {
            self.leave_payload(slice(&head, end, u64::MAX), outline);
        }
    }

    fn payload(&mut self, at: u64, bytes: &[u8], outline: &mut Outline) {
        let Some(payload) = &mut outline.payload else { return };
        match payload.end() {
            None => {
                payload.bytes(bytes);
                self.region = Region::Payload(at.saturating_add(bytes.len() as u64));
            }
            Some(end) => {
                payload.bytes(slice(bytes, 0, end.saturating_sub(at)));
                self.leave_payload(slice(bytes, end.saturating_sub(at), u64::MAX), outline);
            }
        }
    }

    /// The payload has ended; `behind` follows it.
    fn leave_payload(&mut self, behind: &[u8], outline: &mut Outline) {
        let Some(payload) = outline.payload.take() else { return };
        let raw_size = payload.end().unwrap_or(0).saturating_sub(payload.content_start());
        let finished = payload.finish();
        self.envelope.update(finished.digest.as_bytes());
        // A wrapper's digest is of what it stands for: how it is written counts by its length.
        if finished.span.form != PayloadForm::Xml {
            self.envelope.update(&raw_size.to_be_bytes());
        }
        self.envelope.update(behind);
        self.region = Region::Tail;
        self.finished = Some(finished);
    }
}

/// The bytes from one offset to another, as far as they are there.
fn slice(bytes: &[u8], from: u64, to: u64) -> &[u8] {
    let bound = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
    bytes.get(bound(from)..bound(to)).unwrap_or_default()
}
