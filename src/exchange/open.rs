//! Opening the payload, piece by piece and in two steps.
//!
//! First [`PartOpening`]: decrypt and compare with the signed digest, as the part arrives. What it gives out is
//! proven by nothing before [`PartOpening::finish`] returned: the caller keeps it in quarantine. Then
//! [`DocumentOpening`] over the proven bytes: decompress, read the envelope, take the digests that content is
//! judged by. Memory does not depend on the size of either.

use openssl::sha::Sha256;

use super::{Admitted, Refusal, RefusalCause};
use crate::{
    model::{ContentRecord, Digest},
    peppol::{Fault, Violation},
    pmode::Network,
    security::{
        DecryptionFailed, SecurityError,
        attachment::PartDigester,
        encryption::{self, ContentKey, GcmOpener},
        signature::{AttachmentClaim, Protection},
    },
    wire::{
        gzip::{GzipError, GzipLimits, Inflater, RATIO_FROM},
        sbdh::{PayloadForm, Sbd, SbdError, SbdLimits, SbdReader},
        scan::ScanLimits,
    },
};

/// The only compression of AS4 (AS4 §3.1).
const GZIP: &str = "application/gzip";

/// Unwraps the content key of a message with the key of the seat it is addressed to: the one private-key
/// operation of opening. None when nothing in it is encrypted.
///
/// # Errors
/// EBMS:0102 when it is wrapped for somebody else.
pub fn content_key(admitted: &Admitted) -> Result<Option<ContentKey>, Refusal> {
    let Some(wrapped) = admitted.verified().wrapped_key() else { return Ok(None) };
    match encryption::unwrap(wrapped, &admitted.identity().key) {
        Ok(key) => Ok(Some(key)),
        Err(failed) => Err(admitted.refuse(SecurityError::from(failed))),
    }
}

/// One part on its way through decryption and digest.
pub struct PartOpening {
    opener: Option<GcmOpener>,
    digester: PartDigester,
    failed: Option<SecurityError>,
    claim: AttachmentClaim,
}

impl PartOpening {
    /// For the payload at that place of `PayloadInfo`. `content_type` is that of the MIME part: of a part that
    /// is not encrypted it decides what was digested.
    ///
    /// # Errors
    /// EBMS:0102 when it is encrypted and there is no key, or there is no such payload.
    pub fn new(
        admitted: &Admitted,
        part: usize,
        content_type: Option<&str>,
        key: Option<&ContentKey>,
    ) -> Result<Self, Refusal> {
        let refuse = || admitted.refuse(SecurityError::from(DecryptionFailed));
        let claim = admitted.verified().attachments().get(part).ok_or_else(refuse)?.clone();
        let (opener, media_type) = match &claim.protection {
            Protection::Encrypted { media_type } => {
                (Some(GcmOpener::new(key.ok_or_else(refuse)?)), media_type.as_str())
            }
            Protection::Clear => (None, content_type.unwrap_or_default()),
        };
        let digester = PartDigester::new(media_type, ScanLimits::CANONICAL);
        Ok(Self { opener, digester, failed: None, claim })
    }

    /// Takes the next piece of the part, transfer-decoded, and gives out what it deciphers to: to quarantine.
    pub fn feed(&mut self, bytes: &[u8], quarantine: &mut dyn FnMut(&[u8])) {
        let Self { opener, digester, failed, .. } = self;
        let mut plain = |bytes: &[u8]| {
            quarantine(bytes);
            if failed.is_none()
                && let Err(error) = digester.feed(bytes)
            {
                *failed = Some(error.into());
            }
        };
        let Some(opener) = opener else { return plain(bytes) };
        let mut out = |bytes: &[u8]| -> Result<(), DecryptionFailed> {
            plain(bytes);
            Ok(())
        };
        let fed = opener.feed(bytes, &mut out);
        if let Err(error) = fed {
            *failed = Some(error.into());
        }
    }

    /// Ends the part: the tag first, then the signed digest. Only now what was given out may be used.
    ///
    /// # Errors
    /// EBMS:0102 for a wrong tag, EBMS:0101 for a part that is not the signed one.
    pub fn finish(self, admitted: &Admitted) -> Result<(), Refusal> {
        self.proven().map_err(|error| admitted.refuse(error))
    }

    fn proven(self) -> Result<(), SecurityError> {
        if let Some(opener) = self.opener {
            opener.finish()?;
        }
        match self.failed {
            Some(error) => Err(error),
            None => Ok(self.claim.check(self.digester.finish()?)?),
        }
    }
}

/// How a failure of decompression or envelope is passed through the readers.
enum Failure {
    Gzip(GzipError),
    Sbd(SbdError),
    TooLarge,
}

impl From<GzipError> for Failure {
    fn from(error: GzipError) -> Self {
        Self::Gzip(error)
    }
}

/// What comes out of decompression: counted, digested, read as an envelope.
struct Reading {
    /// None once it turned out to be no envelope.
    sbd: Option<SbdReader>,
    /// Why, where one is demanded. It waits for the end: a fault of decompression comes first.
    no_sbd: Option<SbdError>,
    is_sbd_demanded: bool,
    hash: Sha256,
    size: u64,
    size_max: u64,
}

/// One proven part on its way through decompression and envelope.
pub struct DocumentOpening {
    inflater: Option<Inflater>,
    reading: Reading,
    bytes_max: u64,
}

impl DocumentOpening {
    /// For the payload at that place of `PayloadInfo`; `before` bytes of the limit are used up by the
    /// payloads opened before it.
    #[must_use]
    pub fn new(admitted: &Admitted, part: usize, before: u64) -> Self {
        let info = admitted.message().parts.get(part);
        let compressed = info.and_then(|info| info.property("CompressionType")) == Some(GZIP);
        let bytes_max = admitted.payload_bytes_max();
        let size_max = bytes_max.saturating_sub(before);
        let limits =
            GzipLimits { output_max: size_max, ratio_max: admitted.ratio_max(), ratio_from: RATIO_FROM };
        let is_sbd_demanded = admitted.pmode().network == Network::Peppol && !admitted.is_ping();
        Self {
            inflater: compressed.then(|| Inflater::new(limits)),
            reading: Reading {
                sbd: Some(SbdReader::new(SbdLimits::default())),
                no_sbd: None,
                is_sbd_demanded,
                hash: Sha256::new(),
                size: 0,
                size_max,
            },
            bytes_max,
        }
    }

    /// Takes the next piece of the proven part and gives out what it decompresses to: what is stored.
    ///
    /// # Errors
    /// EBMS:0303 for damage or a limit, EBMS:0004 where an envelope is demanded and this is none.
    pub fn feed(
        &mut self,
        admitted: &Admitted,
        bytes: &[u8],
        out: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Refusal> {
        let reading = &mut self.reading;
        let mut take = |bytes: &[u8]| {
            reading.feed(bytes)?;
            // What is refused at the end anyway is not stored.
            if reading.no_sbd.is_none() {
                out(bytes);
            }
            Ok(())
        };
        let fed = match &mut self.inflater {
            Some(inflater) => inflater.feed::<Failure>(bytes, &mut take),
            None => take(bytes),
        };
        fed.map_err(|failure| refuse(admitted, failure, self.bytes_max))
    }

    /// Ends the payload.
    ///
    /// # Errors
    /// As `feed`, for what only the end shows.
    pub fn finish(self, admitted: &Admitted) -> Result<OpenedPart, Refusal> {
        let bytes_max = self.bytes_max;
        if let Some(inflater) = self.inflater {
            inflater.finish().map_err(|error| admitted.refuse(error))?;
        }
        self.reading.finish().map_err(|failure| refuse(admitted, failure, bytes_max))
    }
}

fn refuse(admitted: &Admitted, failure: Failure, bytes_max: u64) -> Refusal {
    match failure {
        Failure::Gzip(GzipError::TooLarge(_)) | Failure::TooLarge => {
            admitted.refuse(RefusalCause::PayloadTooLarge(bytes_max))
        }
        Failure::Gzip(error) => admitted.refuse(error),
        Failure::Sbd(error) => admitted.refuse(error),
    }
}

impl Reading {
    fn feed(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.size = self.size.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        if self.size > self.size_max {
            return Err(Failure::TooLarge);
        }
        self.hash.update(bytes);
        if let Some(reader) = &mut self.sbd
            && let Err(error) = reader.feed(bytes)
        {
            // Outside Peppol a payload that is no envelope is a payload like any other.
            self.sbd = None;
            self.no_sbd = self.is_sbd_demanded.then_some(error);
        }
        Ok(())
    }

    fn finish(self) -> Result<OpenedPart, Failure> {
        if let Some(error) = self.no_sbd {
            return Err(Failure::Sbd(error));
        }
        let sbd = match self.sbd.map(SbdReader::finish) {
            Some(Ok(sbd)) => Some(sbd),
            Some(Err(error)) if self.is_sbd_demanded => return Err(Failure::Sbd(error)),
            _ => None,
        };
        Ok(OpenedPart { digest: Digest::new(self.hash.finish()), size: self.size, sbd })
    }
}

/// A payload, opened.
#[derive(Debug)]
pub struct OpenedPart {
    /// SHA-256 of the decompressed bytes.
    pub digest: Digest,
    /// How many there are.
    pub size: u64,
    /// What the envelope says, when it is one.
    pub sbd: Option<Sbd>,
}

/// A message, opened: every payload decrypted, proven, decompressed.
#[derive(Debug)]
pub struct Opened {
    parts: Vec<OpenedPart>,
    content: ContentRecord,
}

impl Opened {
    /// Puts the payloads together, in the order of `PayloadInfo`.
    #[must_use]
    pub fn new(admitted: &Admitted, parts: Vec<OpenedPart>) -> Self {
        let of = |digest: fn(&OpenedPart) -> Digest| combined(parts.iter().map(digest));
        let content = ContentRecord {
            document: of(|part| part.sbd.as_ref().map_or(part.digest, |sbd| sbd.document)),
            envelope: of(|part| part.sbd.as_ref().map_or(part.digest, |sbd| sbd.envelope)),
            ..admitted.content().clone()
        };
        Self { parts, content }
    }

    /// What its content is judged by, document and envelope included.
    #[must_use]
    pub const fn content(&self) -> &ContentRecord {
        &self.content
    }

    /// The payloads, in the order of `PayloadInfo`.
    #[must_use]
    pub fn parts(&self) -> &[OpenedPart] {
        &self.parts
    }

    /// The one envelope that a Peppol message has (check 9).
    pub(super) fn single_sbd(&self) -> Result<&Sbd, Violation> {
        match self.parts.as_slice() {
            [OpenedPart { sbd: Some(sbd), .. }] => Ok(sbd),
            [_] => Err(Violation::missing(Fault::InvalidSbdXml)),
            parts => Err(Violation::found(Fault::InvalidPayloadCount, &parts.len().to_string())),
        }
    }

    /// The root name of the leading document, when it is in an envelope.
    pub(super) fn root_name(&self) -> Option<&str> {
        let sbd = self.parts.first()?.sbd.as_ref()?;
        (sbd.payload.form == PayloadForm::Xml).then_some(sbd.payload.root_local.as_str())
    }
}

/// One digest for several payloads: that of the digests, in order. Of one payload its own; of none, none.
fn combined(digests: impl Iterator<Item = Digest>) -> Option<Digest> {
    let all: Vec<Digest> = digests.collect();
    match all.as_slice() {
        [] => None,
        [one] => Some(*one),
        several => {
            Some(Digest::of(&several.iter().flat_map(|digest| *digest.as_bytes()).collect::<Vec<u8>>()))
        }
    }
}
