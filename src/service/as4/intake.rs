//! From wire bytes to the parts of a package: the root is collected, attachments are set aside as they came
//! until the message has authenticated, and from then on deciphered while they arrive.

use std::io;

use super::held::{Held, HeldReader};
use crate::{
    exchange::{Admitted, Refusal, open::PartOpening},
    model::ContentId,
    security::encryption::ContentKey,
    service::budget::Budget,
    store::Store,
    wire::{
        mime::{self, MimeError, MimeLimits, Multipart, Package, PartEvent, PartHead, PartReader},
        xml::XmlLimits,
    },
};

/// Why the work on a message ends early.
#[derive(Debug)]
pub(super) enum Stop {
    /// It is refused.
    Refused(Box<Refusal>),
    /// A fault of ours: no file could be written or read.
    Io(io::Error),
    /// The package is damaged; the message may be known by now.
    Mime(MimeError),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(Box::new(refusal))
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<MimeError> for Stop {
    fn from(error: MimeError) -> Self {
        Self::Mime(error)
    }
}

/// What an authenticated message's attachments are deciphered with.
pub(super) struct Opener<'a> {
    pub(super) admitted: &'a Admitted,
    pub(super) key: Option<&'a ContentKey>,
}

/// An attachment.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) id: ContentId,
    content_type: Option<String>,
    body: PartBody,
}

enum PartBody {
    /// As it came.
    Raw(Held),
    /// Being deciphered: nothing is proven.
    Opening { index: usize, opening: Box<PartOpening>, plain: Held },
    /// Tag and signed digest are good.
    Proven { index: usize, plain: HeldReader },
    /// Taken over, or given up.
    Gone,
}

impl std::fmt::Debug for PartBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Raw(_) => "Raw",
            Self::Opening { .. } => "Opening",
            Self::Proven { .. } => "Proven",
            Self::Gone => "Gone",
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Current {
    None,
    Root,
    Attachment(usize),
}

/// Takes a body apart.
pub(super) struct Intake {
    reader: Option<PartReader>,
    parts: Parts,
}

/// Everything but the reader, which holds on to it while it hands out pieces.
struct Parts {
    store: Store,
    budget: Budget,
    package: Option<Multipart>,
    root: Option<Held>,
    root_type: String,
    root_is_whole: bool,
    attachments: Vec<Part>,
    current: Current,
    count: usize,
}

impl Intake {
    /// For a body of that Content-Type.
    ///
    /// # Errors
    /// When it is neither SOAP 1.2 nor a package of it.
    pub(super) fn new(content_type: Option<&str>, store: &Store, budget: &Budget) -> Result<Self, MimeError> {
        let (package, current) = match mime::package(content_type)? {
            Package::Bare => (None, Current::Root),
            Package::Multipart(package) => (Some(package), Current::None),
        };
        let reader =
            package.as_ref().map(|package| PartReader::new(&package.boundary, MimeLimits::default()));
        let parts = Parts {
            store: store.clone(),
            budget: budget.clone(),
            package,
            root: Some(Held::new(store, budget)),
            root_type: content_type.unwrap_or_default().to_owned(),
            root_is_whole: false,
            attachments: Vec::new(),
            current,
            count: 0,
        };
        Ok(Self { reader, parts })
    }

    /// Takes the next piece of the body.
    ///
    /// # Errors
    /// When the package is malformed, an attachment is not what was signed, or no file can be written.
    pub(super) fn feed(&mut self, bytes: &[u8], opener: Option<&Opener<'_>>) -> Result<(), Stop> {
        let parts = &mut self.parts;
        match &mut self.reader {
            None => parts.root_data(bytes),
            Some(reader) => reader.feed(bytes, &mut |event| parts.on(event, opener)),
        }
    }

    /// The body has ended.
    ///
    /// # Errors
    /// When its last delimiter did not come, or no part was the root.
    pub(super) fn end(&mut self, opener: Option<&Opener<'_>>) -> Result<(), Stop> {
        let parts = &mut self.parts;
        if let Some(reader) = &mut self.reader {
            reader.finish(&mut |event| parts.on(event, opener))?;
        } else {
            parts.root_is_whole = true;
        }
        if parts.root_is_whole { Ok(()) } else { Err(MimeError::StartUnresolved.into()) }
    }

    /// The root part, once, when it is whole: its bytes and its Content-Type.
    pub(super) fn take_root(&mut self) -> Option<(Held, String)> {
        if !self.parts.root_is_whole {
            return None;
        }
        let root = self.parts.root.take()?;
        Some((root, std::mem::take(&mut self.parts.root_type)))
    }

    /// Deciphers what was set aside before the message had authenticated.
    ///
    /// # Errors
    /// When an attachment is not what was signed, or no file can be read or written.
    pub(super) fn open_raw(&mut self, opener: &Opener<'_>) -> Result<(), Stop> {
        let Parts { store, budget, attachments, current, .. } = &mut self.parts;
        for (at, part) in attachments.iter_mut().enumerate() {
            let PartBody::Raw(raw) = std::mem::replace(&mut part.body, PartBody::Gone) else { continue };
            let held = Held::new(store, budget);
            part.body = opening(&part.id, part.content_type.as_deref(), opener, held)?;
            read_pieces(raw.into_reader(), |bytes| part.feed(bytes))?;
            if *current != Current::Attachment(at) {
                part.end(opener)?;
            }
        }
        Ok(())
    }

    /// The Content-IDs of the attachments.
    pub(super) fn content_ids(&self) -> Vec<ContentId> {
        self.parts.attachments.iter().map(|part| part.id.clone()).collect()
    }

    /// The proven bytes of the payload at that place of `PayloadInfo`, once.
    pub(super) fn take_proven(&mut self, wanted: usize) -> Option<HeldReader> {
        let is_wanted =
            |part: &&mut Part| matches!(part.body, PartBody::Proven { index, .. } if index == wanted);
        let part = self.parts.attachments.iter_mut().find(is_wanted)?;
        match std::mem::replace(&mut part.body, PartBody::Gone) {
            PartBody::Proven { plain, .. } => Some(plain),
            _ => None,
        }
    }
}

impl Parts {
    fn on(&mut self, event: PartEvent<'_>, opener: Option<&Opener<'_>>) -> Result<(), Stop> {
        match event {
            PartEvent::Head(head) => self.begin(&head, opener),
            PartEvent::Data(bytes) => match self.current {
                Current::Root => self.root_data(bytes),
                Current::Attachment(at) => {
                    self.attachments.get_mut(at).map_or(Ok(()), |part| part.feed(bytes)).map_err(Stop::from)
                }
                Current::None => Ok(()),
            },
            PartEvent::End => self.end(opener),
        }
    }

    fn begin(&mut self, head: &PartHead, opener: Option<&Opener<'_>>) -> Result<(), Stop> {
        let index = self.count;
        self.count = self.count.saturating_add(1);
        if let Some(package) = self.package.as_ref().filter(|package| mime::is_root(package, index, head)) {
            head.check_root(package)?;
            self.root_type = head.content_type.clone().unwrap_or_default();
            self.current = Current::Root;
            return Ok(());
        }
        let id = head.required_id()?.clone();
        let held = Held::new(&self.store, &self.budget);
        let body = match opener {
            None => PartBody::Raw(held),
            Some(opener) => opening(&id, head.content_type.as_deref(), opener, held)?,
        };
        self.current = Current::Attachment(self.attachments.len());
        self.attachments.push(Part { id, content_type: head.content_type.clone(), body });
        Ok(())
    }

    /// Keeps one byte more than an envelope may have: reading it then says what is wrong.
    fn root_data(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        let Some(root) = &mut self.root else { return Ok(()) };
        let held = usize::try_from(root.size()).unwrap_or(usize::MAX);
        let room = XmlLimits::SOAP.bytes_max.saturating_add(1).saturating_sub(held);
        let kept = bytes.get(..room.min(bytes.len())).unwrap_or_default();
        Ok(root.write(kept)?)
    }

    fn end(&mut self, opener: Option<&Opener<'_>>) -> Result<(), Stop> {
        match std::mem::replace(&mut self.current, Current::None) {
            Current::Root => self.root_is_whole = true,
            Current::Attachment(at) => {
                if let (Some(part), Some(opener)) = (self.attachments.get_mut(at), opener) {
                    part.end(opener)?;
                }
            }
            Current::None => {}
        }
        Ok(())
    }
}

fn opening(
    id: &ContentId,
    content_type: Option<&str>,
    opener: &Opener<'_>,
    plain: Held,
) -> Result<PartBody, Stop> {
    let index = opener.admitted.part_named(id)?;
    let opening = PartOpening::new(opener.admitted, index, content_type, opener.key)?;
    Ok(PartBody::Opening { index, opening: Box::new(opening), plain })
}

impl Part {
    fn feed(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.body {
            PartBody::Raw(held) => held.write(bytes),
            PartBody::Opening { opening, plain, .. } => {
                let mut written = Ok(());
                opening.feed(bytes, &mut |piece| {
                    if written.is_ok() {
                        written = plain.write(piece);
                    }
                });
                written
            }
            PartBody::Proven { .. } | PartBody::Gone => Ok(()),
        }
    }

    fn end(&mut self, opener: &Opener<'_>) -> Result<(), Stop> {
        match std::mem::replace(&mut self.body, PartBody::Gone) {
            PartBody::Opening { index, opening, plain } => {
                opening.finish(opener.admitted)?;
                self.body = PartBody::Proven { index, plain: plain.into_reader() };
            }
            other => self.body = other,
        }
        Ok(())
    }
}

/// Bytes that are read from a file at once.
pub(super) const PIECE_BYTES: usize = 64 * 1024;

fn read_pieces(mut from: impl io::Read, mut on: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        let read = from.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        on(buffer.get(..read).unwrap_or_default())?;
    }
}
