//! The business document out of the stored envelope.

use super::{Insert, PayloadForm, PayloadSpan, SbdError};
use crate::wire::{
    mime::Base64Decoder,
    scan::{ScanEvent, ScanLimits, Scanner},
};

/// Turns an envelope, fed from its first byte in pieces of any size, into the business document that
/// [`SbdReader`](super::SbdReader) digested. After an error it must not be fed again.
#[derive(Debug)]
pub struct DocumentReader {
    at: u64,
    start: u64,
    end: u64,
    extract: Extract,
}

/// How the document is had.
#[derive(Debug)]
enum Extract {
    /// XML: the bytes of the element, with the insertion that is not made yet.
    Slice(Option<Insert>),
    /// A wrapper: its text.
    Text(Box<(Scanner, WrapperText)>),
}

/// The text of a wrapper.
#[derive(Debug)]
struct WrapperText {
    start: u64,
    decoder: Option<Base64Decoder>,
    place: TextPlace,
}

/// Where the scanner stands.
#[derive(Debug, PartialEq, Eq)]
enum TextPlace {
    Before,
    Inside,
    Behind,
}

impl DocumentReader {
    /// A reader for the payload that was found at `span`.
    #[must_use]
    pub fn new(span: &PayloadSpan) -> Self {
        let text = |decoder| {
            let text = WrapperText { start: span.start, decoder, place: TextPlace::Before };
            Extract::Text(Box::new((Scanner::new(ScanLimits::DOCUMENT), text)))
        };
        let extract = match span.form {
            PayloadForm::Xml => Extract::Slice(span.insert.clone()),
            PayloadForm::Binary { .. } => text(Some(Base64Decoder::default())),
            PayloadForm::Text { .. } => text(None),
        };
        Self { at: 0, start: span.start, end: span.end, extract }
    }

    /// Takes the next piece of the envelope and hands out what of the document is in it.
    ///
    /// # Errors
    /// When it is not the envelope that was read, or `out` fails.
    pub fn feed<E: From<SbdError>>(
        &mut self,
        bytes: &[u8],
        out: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let from = self.at;
        self.at = self.at.saturating_add(bytes.len() as u64);
        match &mut self.extract {
            Extract::Text(text) => {
                let (scanner, text) = &mut **text;
                scanner
                    .feed(bytes, &mut |event| text.on(&event, out).map_err(Stop))
                    .map_err(|Stop(error)| error)
            }
            Extract::Slice(insert) => {
                let cut = |from_offset: u64, to_offset: u64| {
                    let bound = |offset: u64| {
                        usize::try_from(offset.saturating_sub(from)).unwrap_or(usize::MAX).min(bytes.len())
                    };
                    bytes.get(bound(from_offset)..bound(to_offset)).unwrap_or_default()
                };
                let mut start = self.start;
                if let Some(Insert { at, bytes: inserted }) = insert.take_if(|insert| insert.at < self.at) {
                    hand_out(cut(start, at), out)?;
                    out(&inserted)?;
                    start = at;
                }
                hand_out(cut(start, self.end), out)
            }
        }
    }

    /// Ends the envelope.
    ///
    /// # Errors
    /// When it ended before the document did, or `out` fails.
    pub fn finish<E: From<SbdError>>(self, out: &mut dyn FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        match self.extract {
            Extract::Slice(_) if self.at >= self.end => Ok(()),
            Extract::Slice(_) => Err(SbdError::OtherEnvelope.into()),
            Extract::Text(text) => {
                let (scanner, mut text) = *text;
                scanner
                    .finish(&mut |event| text.on(&event, out).map_err(Stop))
                    .map_err(|Stop(error)| error)?;
                if text.place == TextPlace::Behind { Ok(()) } else { Err(SbdError::OtherEnvelope.into()) }
            }
        }
    }
}

/// Carries the caller's error through the scanner, which knows only its own.
struct Stop<E>(E);

impl<E: From<SbdError>> From<crate::wire::scan::ScanError> for Stop<E> {
    fn from(error: crate::wire::scan::ScanError) -> Self {
        Self(SbdError::Scan(error).into())
    }
}

fn hand_out<E>(bytes: &[u8], out: &mut dyn FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
    if bytes.is_empty() { Ok(()) } else { out(bytes) }
}

impl WrapperText {
    fn on<E: From<SbdError>>(
        &mut self,
        event: &ScanEvent<'_>,
        out: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        match (event, &self.place) {
            (ScanEvent::Start { span, .. }, TextPlace::Before) if span.start == self.start => {
                self.place = TextPlace::Inside;
            }
            (ScanEvent::Start { .. }, TextPlace::Inside) => return Err(SbdError::WrapperContent.into()),
            (ScanEvent::Text { text, .. }, TextPlace::Inside) => match &mut self.decoder {
                None => out(text.as_bytes())?,
                Some(decoder) => decoder.push(text.as_bytes(), || SbdError::Base64.into(), out)?,
            },
            (ScanEvent::End { .. }, TextPlace::Inside) => {
                self.place = TextPlace::Behind;
                if let Some(decoder) = &mut self.decoder {
                    decoder.finish(|| SbdError::Base64.into(), out)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}
