//! Removing what has expired: whole segments, after what is still needed was copied forward (storage §3.4).

use std::sync::Arc;

use super::{
    FrameRef, JournalError, Keep, Location, Origin, PurgeBudget, PurgeStats, Ticket, Work,
    chores::scan_whole,
    committer::{Numbered, QUEUE_OCTETS, Unit},
    segment::{keys_path, segment_path},
    shared::{Shared, locked},
    sidecar::Sidecar,
    ticket::Once,
};
use crate::model::Timestamp;

/// Most octets that are copied forward in one append.
const COPY_OCTETS: usize = 1 << 20;

/// What a copy of such a frame is.
pub(super) fn copy_of(origin: Origin) -> Origin {
    match origin {
        Origin::Appended | Origin::Copied => Origin::Copied,
        Origin::Salvaged => Origin::Salvaged,
    }
}

impl Shared {
    pub(super) fn purge(
        &self,
        now: Timestamp,
        budget: PurgeBudget,
        keep: &dyn Fn(&FrameRef<'_>, Location) -> Keep,
    ) -> Result<PurgeStats, JournalError> {
        let mut purged = locked(&self.purged);
        let mut stats = PurgeStats::default();
        let (mut looked, mut copied) = (0, 0);
        let sources = self.sources();
        let due = |sidecar: &&Arc<Sidecar>| sidecar.summary.newest_expiry.is_none_or(|at| at <= now);
        for sidecar in sources.sealed.iter().filter(due) {
            if looked >= budget.segments || copied >= budget.octets {
                stats.left += 1;
                continue;
            }
            looked += 1;
            match self.copy_forward(sidecar, keep, &mut stats) {
                Ok(octets) => copied += octets,
                Err(error @ (JournalError::Damaged { .. } | JournalError::Gone { .. })) => {
                    (self.options.alarm)(&format!("not purged: {error}"));
                    stats.left += 1;
                    continue;
                }
                Err(error) => return Err(error),
            }
            // Noted first, so that a segment that is gone is never taken for one that was lost.
            purged.add(sidecar.of.number);
            let written = purged.write(&*self.vfs, &self.home.journal);
            written.map_err(JournalError::io("write PURGED"))?;
            self.remove(sidecar)?;
            stats.segments += 1;
            stats.octets = stats.octets.saturating_add(sidecar.of.end);
        }
        if stats.segments > 0 {
            self.wake_chores();
            self.cache.shrink(self.sources().sealed.clone());
        }
        Ok(stats)
    }

    /// Copies what is still needed into the open segment; durable on return. Says how many octets that were.
    fn copy_forward(
        &self,
        sidecar: &Sidecar,
        keep: &dyn Fn(&FrameRef<'_>, Location) -> Keep,
        stats: &mut PurgeStats,
    ) -> Result<u64, JournalError> {
        let file = self.files.segment(sidecar.of.number)?;
        let (mut copies, mut waiting, mut octets, mut copied) = (Numbered::new(), Vec::new(), 0, 0);
        scan_whole(&*file, sidecar.of, &mut |batch| {
            let whole = batch.for_each(&mut |frame, at| {
                let kept = match keep(frame, at) {
                    Keep::Drop => None,
                    Keep::Forward => Some(frame.to_frame()),
                    Keep::Replace(shorter) => Some(*shorter),
                };
                match kept {
                    None => stats.dropped += 1,
                    Some(kept) => {
                        octets += kept.encoded_len();
                        copied += kept.encoded_len() as u64;
                        copies.push((kept, Some((frame.lsn, copy_of(frame.origin)))));
                    }
                }
            });
            if octets >= COPY_OCTETS {
                octets = 0;
                stats.forwarded += copies.len() as u64;
                waiting.push(self.enqueue(std::mem::take(&mut copies), QUEUE_OCTETS));
            }
            whole
        })?;
        stats.forwarded += copies.len() as u64;
        waiting.push(self.enqueue(copies, QUEUE_OCTETS));
        if self.options.work == Work::Pumped {
            self.commit_queued();
        }
        for ticket in waiting {
            ticket.wait()?;
        }
        Ok(copied)
    }

    /// Queues one unit of frames.
    pub(super) fn enqueue(&self, frames: Numbered, limit: u64) -> Ticket {
        if let Some(error) = self.failure.get() {
            return Ticket::failed(error);
        }
        if let Some(error) = self.too_large(&frames) {
            return Ticket::failed(error);
        }
        let once = Once::new();
        if frames.is_empty() {
            once.set(Ok(super::Committed { locations: Vec::new() }));
            return Ticket(once);
        }
        let pushed = locked(&self.queue).push(Unit::new(frames, Some(Arc::clone(&once))), limit);
        if let Err(error) = pushed {
            return Ticket::failed(self.failure.get().unwrap_or(error));
        }
        self.queued.notify_one();
        if self.options.work == Work::Inline {
            self.commit_queued();
            self.do_chores();
            self.cache.run_queued();
        }
        Ticket(once)
    }

    fn too_large(&self, frames: &Numbered) -> Option<JournalError> {
        let octets = frames.iter().map(|(frame, _)| frame.encoded_len() as u64).sum::<u64>();
        let max = super::frame::FRAME_MAX as u64;
        let fits = octets <= max && frames.iter().all(|(frame, _)| frame.fits_format());
        (!fits).then_some(JournalError::TooLarge { octets, max })
    }

    fn remove(&self, sidecar: &Arc<Sidecar>) -> Result<(), JournalError> {
        let number = sidecar.of.number;
        sidecar.pin().map_err(JournalError::io("open a sidecar"))?;
        self.change_sources(|sources| sources.sealed.retain(|held| held.of.number != number));
        let dir = &self.home.journal;
        let removed = self
            .vfs
            .remove(&segment_path(dir, number))
            .and_then(|()| self.vfs.remove(&keys_path(dir, number)))
            .and_then(|()| self.vfs.sync_dir(dir));
        self.files.forget(&segment_path(dir, number));
        self.cache.remove(Arc::clone(sidecar));
        removed.map_err(JournalError::io("remove a segment"))
    }
}
