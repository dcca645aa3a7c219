//! What is done behind the commits: spares are made, closed segments are sealed.

use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, PoisonError},
    time::Duration,
};

use super::{
    JournalError,
    batch::Batch,
    files::Files,
    live::Contents,
    segment::{BatchReader, keys_path, segment_path},
    shared::{Shared, locked},
    sidecar::{self, Sealed, Sidecar},
};
use crate::store::vfs::{OpenMode, Vfs, VfsFile, replace};

/// How long before what failed for lack of space is tried again.
const RETRY: Duration = Duration::from_secs(5);

/// What the housekeeper was told last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Call {
    #[default]
    None,
    Work,
    End,
}

/// What is to be done.
#[derive(Debug, Default)]
pub(super) struct Chores {
    call: Call,
    /// Segments whose sidecar is damaged.
    damaged: BTreeSet<u64>,
}

impl Shared {
    pub(super) fn wake_chores(&self) {
        let mut chores = locked(&self.chores);
        if chores.call == Call::None {
            chores.call = Call::Work;
        }
        drop(chores);
        self.chore.notify_all();
    }

    pub(super) fn end_chores(&self) {
        locked(&self.chores).call = Call::End;
        self.chore.notify_all();
    }

    /// The sidecar of this segment will be made anew.
    pub(super) fn report_damaged_sidecar(&self, number: u64) {
        locked(&self.chores).damaged.insert(number);
        self.wake_chores();
    }

    /// Does chores until the end.
    pub(super) fn run_chores(&self) {
        while self.wait_for_chores() {
            if catch_unwind(AssertUnwindSafe(|| self.do_chores())).is_err() {
                self.fail(&JournalError::Poisoned("the housekeeper panicked".into()));
            }
        }
    }

    fn wait_for_chores(&self) -> bool {
        let mut chores = locked(&self.chores);
        loop {
            if chores.call == Call::End || self.failure.get().is_some() {
                return false;
            }
            if std::mem::take(&mut chores.call) == Call::Work {
                return true;
            }
            let waited = self.chore.wait_timeout(chores, RETRY).unwrap_or_else(PoisonError::into_inner);
            let unsealed = self.sources().live.len() > 1;
            if waited.1.timed_out() && (self.spares.failing() || unsealed) {
                return true;
            }
            chores = waited.0;
        }
    }

    /// Spares first, as the committer may wait for one; again after sealing, which gives room back.
    pub(super) fn do_chores(&self) {
        let refill = || {
            let made = self.spares.refill(&*self.vfs, &self.home.journal, self.options.segment_bytes);
            made.map_err(JournalError::io("make a spare segment"))
        };
        let first = refill();
        let done = self.seal_closed().and_then(|()| self.mend_sidecars());
        let again = if first.is_err() { refill() } else { Ok(()) };
        for error in [done.err(), again.err()].into_iter().flatten() {
            self.fail_unless_full(&error);
        }
    }

    fn seal_closed(&self) -> Result<(), JournalError> {
        loop {
            let sources = self.sources();
            let closed = sources.live.first().and_then(|live| Some((Arc::clone(live), live.closed()?)));
            let Some((live, end)) = closed else { return Ok(()) };
            let of = Sealed { number: live.number, epoch: live.epoch, end };
            let sealed = Arc::new(seal(&*self.vfs, &self.files, &self.home.journal, of, &live.contents())?);
            self.change_sources(|sources| {
                sources.live.retain(|held| held.number != live.number);
                sources.sealed.push(Arc::clone(&sealed));
            });
            self.cache.add(sealed);
        }
    }

    fn mend_sidecars(&self) -> Result<(), JournalError> {
        let damaged = std::mem::take(&mut locked(&self.chores).damaged);
        for number in damaged {
            let sources = self.sources();
            let Some(old) = sources.sealed.iter().find(|sidecar| sidecar.of.number == number) else {
                continue;
            };
            let contents = self.contents_of(old.of)?;
            let fresh = Arc::new(seal(&*self.vfs, &self.files, &self.home.journal, old.of, &contents)?);
            self.change_sources(|sources| {
                for held in sources.sealed.iter_mut().filter(|held| held.of.number == number) {
                    *held = Arc::clone(&fresh);
                }
            });
        }
        Ok(())
    }

    /// Reads the keys of a sealed segment from the segment itself.
    pub(super) fn contents_of(&self, of: Sealed) -> Result<Contents, JournalError> {
        let file = self.files.segment(of.number)?;
        let mut contents = Contents::default();
        scan_whole(&*file, of, &mut |batch| batch.for_each(&mut |frame, at| contents.add(frame, at)))?;
        Ok(contents)
    }
}

/// Reads every batch of a closed segment; anything less than all of it is damage (storage §3.3 I4).
pub(super) fn scan_whole(
    file: &dyn VfsFile,
    of: Sealed,
    on: &mut dyn FnMut(&Batch) -> bool,
) -> Result<(), JournalError> {
    let mut reader = BatchReader::new(file, of.number, of.epoch, of.end);
    while let Some(batch) = reader.next()? {
        if !on(&batch) {
            let offset = batch.head.at.offset;
            return Err(JournalError::Damaged { segment: of.number, offset, what: "a frame" });
        }
    }
    if reader.at < of.end {
        return Err(JournalError::Damaged { segment: of.number, offset: reader.at, what: "a batch" });
    }
    Ok(())
}

/// Cuts a closed segment to its end and writes its sidecar; both are durable on return.
pub(super) fn seal(
    vfs: &dyn Vfs,
    files: &Arc<Files>,
    dir: &std::path::Path,
    of: Sealed,
    contents: &Contents,
) -> Result<Sidecar, JournalError> {
    cut(vfs, dir, of)?;
    let path = keys_path(dir, of.number);
    replace(vfs, &path, &sidecar::encode(of, contents)).map_err(JournalError::io("write a sidecar"))?;
    files.forget(&path);
    Sidecar::open(vfs, files, &path, of)?.ok_or(JournalError::Damaged {
        segment: of.number,
        offset: 0,
        what: "its sidecar, just written",
    })
}

/// Cuts a closed segment to its end.
pub(super) fn cut(vfs: &dyn Vfs, dir: &std::path::Path, of: Sealed) -> Result<(), JournalError> {
    let io = |error| JournalError::io("cut a segment")(error);
    let file = vfs.open(&segment_path(dir, of.number), OpenMode::Write).map_err(io)?;
    if file.size().map_err(io)? > of.end {
        file.set_len(of.end).map_err(io)?;
        file.sync_all().map_err(io)?;
    }
    Ok(())
}
