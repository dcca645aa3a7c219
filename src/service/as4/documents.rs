//! The second step of opening: from the proven bytes of each payload to the document, in slices, so that a
//! large one does not keep others from the pool.

use std::io::{Read as _, Write as _};

use super::{
    held::HeldReader,
    intake::{Intake, PIECE_BYTES, Stop},
};
use crate::{
    exchange::{
        Admitted,
        open::{DocumentOpening, OpenedPart},
    },
    model::ItemId,
    security::{AttachmentFault, SecurityError},
    store::{Payload, PayloadWriter, Store},
};

/// Bytes, read and made, after which others have their turn.
const SLICE_BYTES: u64 = 8 * 1024 * 1024;

/// Whether there is more to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// Call again.
    More,
    /// All payloads are opened.
    Done,
}

struct Running {
    opening: DocumentOpening,
    from: HeldReader,
    to: Option<PayloadWriter>,
}

/// The payloads of one message on their way.
pub(super) struct Documents {
    item: ItemId,
    running: Option<Running>,
    used: u64,
    parts: Vec<OpenedPart>,
    payload: Option<Payload>,
    buffer: Vec<u8>,
}

impl Documents {
    /// For the message that becomes `item`.
    pub(super) fn new(item: ItemId) -> Self {
        Self { item, running: None, used: 0, parts: Vec::new(), payload: None, buffer: Vec::new() }
    }

    /// Does a slice of the work.
    ///
    /// # Errors
    /// When a payload is not what it should be, or a file cannot be written.
    pub(super) fn advance(
        &mut self,
        admitted: &Admitted,
        intake: &mut Intake,
        store: &Store,
    ) -> Result<Progress, Stop> {
        let mut left = SLICE_BYTES;
        while left > 0 {
            let mut running = match self.running.take() {
                Some(running) => running,
                None if self.parts.len() == admitted.message().parts.len() => return Ok(Progress::Done),
                None => self.begin(admitted, intake, store)?,
            };
            self.buffer.resize(PIECE_BYTES, 0);
            let read = running.from.read(&mut self.buffer)?;
            if read == 0 {
                self.end(running, admitted)?;
                continue;
            }
            let piece = self.buffer.get(..read).unwrap_or_default();
            left = left.saturating_sub(pass(&mut running, admitted, piece)?);
            self.running = Some(running);
        }
        Ok(Progress::More)
    }

    /// What was opened, in the order of `PayloadInfo`, and what is to be stored.
    pub(super) fn finish(self) -> (Vec<OpenedPart>, Option<Payload>) {
        (self.parts, self.payload)
    }

    fn begin(&self, admitted: &Admitted, intake: &mut Intake, store: &Store) -> Result<Running, Stop> {
        let index = self.parts.len();
        // Two parts of one digest are two parts: each has to be there.
        let missing = || admitted.refuse(SecurityError::from(AttachmentFault::Digest));
        let from = intake.take_proven(index).ok_or_else(missing)?;
        let is_kept = index == 0 && !admitted.is_ping();
        Ok(Running {
            opening: DocumentOpening::new(admitted, index, self.used),
            from,
            to: is_kept.then(|| store.payload_writer(self.item)),
        })
    }

    fn end(&mut self, running: Running, admitted: &Admitted) -> Result<(), Stop> {
        let opened = running.opening.finish(admitted)?;
        self.used = self.used.saturating_add(opened.size);
        self.parts.push(opened);
        if let Some(writer) = running.to {
            self.payload = Some(writer.finish()?);
        }
        Ok(())
    }
}

/// Passes a piece through; returns how much work that was, in bytes.
fn pass(running: &mut Running, admitted: &Admitted, piece: &[u8]) -> Result<u64, Stop> {
    let Running { opening, to, .. } = running;
    let mut written = Ok(());
    let mut work = u64::try_from(piece.len()).unwrap_or(u64::MAX);
    opening.feed(admitted, piece, &mut |bytes| {
        work = work.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        if let (Some(writer), true) = (to.as_mut(), written.is_ok()) {
            written = writer.write_all(bytes);
        }
    })?;
    written?;
    Ok(work)
}
