//! The committer: the only writer of frames. It takes whatever is queued, writes it as one batch, syncs once
//! and only then wakes who waits (storage §3.2).

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, PoisonError},
};

use super::{
    Class, Committed, Frame, JournalError, Location, Lsn, Origin, Work,
    batch::{BATCH_HEAD, BatchWriter, Position, SECTOR, to_sector},
    live::{Contents, Live, Spot},
    segment::{FIRST, SegmentHead, segment_path},
    shared::{Shared, locked},
    spares,
    ticket::{Once, Outcome},
};
use crate::store::vfs::{OpenMode, VfsFile, write_all_at};

/// Most frames of one batch, unless one append has more.
const BATCH_FRAMES: usize = 512;
/// Most octets of one batch, unless one append has more.
const BATCH_OCTETS: u64 = 4 << 20;
/// Most octets that may wait, in octets.
pub(super) const QUEUE_OCTETS: u64 = 256 << 20;
/// Most octets that may wait when nobody waits for them, in octets.
pub(super) const RELAXED_OCTETS: u64 = 32 << 20;

/// Frames with the number that they keep when they are copies.
pub(super) type Numbered = Vec<(Frame, Option<(Lsn, Origin)>)>;

/// Frames of one append: all or none.
#[derive(Debug)]
pub(super) struct Unit {
    frames: Numbered,
    octets: u64,
    class: Class,
    waiter: Option<Arc<Once<Outcome>>>,
}

impl Unit {
    /// New frames get a number when they are committed; copies keep theirs.
    pub(super) fn new(frames: Numbered, waiter: Option<Arc<Once<Outcome>>>) -> Self {
        let octets = frames.iter().map(|(frame, _)| frame.encoded_len() as u64).sum();
        let frees = frames.iter().all(|(frame, copy)| frame.class == Class::Freeing || copy.is_some());
        Self { frames, octets, class: if frees { Class::Freeing } else { Class::New }, waiter }
    }

    pub(super) fn octets(&self) -> u64 {
        self.octets
    }

    pub(super) fn resolve(&self, outcome: Outcome) {
        if let Some(waiter) = &self.waiter {
            waiter.set(outcome);
        }
    }
}

impl Drop for Unit {
    /// Nobody waits for ever, whatever became of the committer.
    fn drop(&mut self) {
        self.resolve(Err(JournalError::Closed));
    }
}

/// What waits to be committed.
#[derive(Debug, Default)]
pub(super) struct Queue {
    units: VecDeque<Unit>,
    octets: u64,
    closed: bool,
}

impl Queue {
    pub(super) fn push(&mut self, unit: Unit, limit: u64) -> Result<(), JournalError> {
        if self.closed {
            return Err(JournalError::Closed);
        }
        if self.octets > 0 && self.octets.saturating_add(unit.octets) > limit {
            return Err(JournalError::Busy);
        }
        self.octets = self.octets.saturating_add(unit.octets);
        self.units.push_back(unit);
        Ok(())
    }

    /// Takes nothing more, and gives back what still waits.
    pub(super) fn close(&mut self) -> VecDeque<Unit> {
        self.closed = true;
        self.octets = 0;
        std::mem::take(&mut self.units)
    }

    /// Takes nothing more; what waits is still committed. Says whether it was open until now.
    pub(super) fn finish(&mut self) -> bool {
        !std::mem::replace(&mut self.closed, true)
    }

    fn next_batch(&mut self, limit: u64) -> Vec<Unit> {
        let (mut units, mut frames, mut octets) = (Vec::new(), 0, 0);
        while let Some(unit) = self.units.front() {
            frames += unit.frames.len();
            octets += unit.octets;
            if !units.is_empty() && (frames > BATCH_FRAMES || octets > limit) {
                break;
            }
            self.octets = self.octets.saturating_sub(unit.octets);
            units.extend(self.units.pop_front());
        }
        units
    }
}

/// The open segment and where it stands.
#[derive(Debug)]
pub(super) struct Committer {
    pub(super) live: Arc<Live>,
    pub(super) file: Arc<dyn VfsFile>,
    pub(super) at: u64,
    pub(super) capacity: u64,
    pub(super) next_lsn: u64,
    /// Everything before is known to be durable.
    pub(super) synced: Position,
}

impl Committer {
    fn position(&self) -> Position {
        Position { segment: self.live.number, offset: self.at }
    }
}

impl Shared {
    /// Commits until the queue is closed and empty.
    pub(super) fn run_committer(&self) {
        while let Some(units) = self.wait_for_units() {
            let commit = AssertUnwindSafe(|| self.commit(&mut locked(&self.committer), units));
            if catch_unwind(commit).is_err() {
                self.fail(&JournalError::Poisoned("the committer panicked".into()));
            }
        }
    }

    fn wait_for_units(&self) -> Option<Vec<Unit>> {
        let mut queue = locked(&self.queue);
        loop {
            let units = queue.next_batch(self.batch_octets());
            if !units.is_empty() {
                return Some(units);
            }
            if queue.closed {
                return None;
            }
            queue = self.queued.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Commits what is queued now, on this thread.
    pub(super) fn commit_queued(&self) {
        loop {
            let mut committer = locked(&self.committer);
            let units = locked(&self.queue).next_batch(self.batch_octets());
            if units.is_empty() {
                return;
            }
            self.commit(&mut committer, units);
        }
    }

    fn batch_octets(&self) -> u64 {
        let in_segment = self.options.segment_bytes.saturating_sub(FIRST + SECTOR);
        BATCH_OCTETS.min(in_segment)
    }

    fn commit(&self, committer: &mut Committer, units: Vec<Unit>) {
        let units = if self.spares.room_for_new() { units } else { refuse_new(units, &JournalError::Full) };
        if units.is_empty() {
            return;
        }
        if let Some(error) = self.failure.get() {
            return units.iter().for_each(|unit| unit.resolve(Err(error.clone())));
        }
        let octets = units.iter().map(Unit::octets).sum::<u64>();
        let need = to_sector(octets.saturating_add(BATCH_HEAD as u64));
        if committer.at.saturating_add(need) > committer.capacity {
            let frees = units.iter().all(|unit| unit.class == Class::Freeing);
            match self.roll(committer, need, if frees { Class::Freeing } else { Class::New }) {
                Ok(()) => {}
                Err(error) if frees || !error.is_full() => {
                    return units.iter().for_each(|unit| unit.resolve(Err(error.clone())));
                }
                Err(error) => return self.commit(committer, refuse_new(units, &error)),
            }
        }
        match self.write_batch(committer, &units) {
            Ok(outcomes) => {
                for (unit, locations) in units.iter().zip(outcomes) {
                    unit.resolve(Ok(Committed { locations }));
                }
                self.prove(committer);
            }
            Err(error) => {
                self.fail(&error);
                units.iter().for_each(|unit| unit.resolve(Err(error.clone())));
            }
        }
    }

    /// Writes and syncs one batch, and makes its keys known.
    fn write_batch(
        &self,
        committer: &mut Committer,
        units: &[Unit],
    ) -> Result<Vec<Vec<Location>>, JournalError> {
        let first = Lsn(committer.next_lsn);
        let mut batch = BatchWriter::new();
        let mut places: Vec<Vec<(Spot, Lsn)>> = Vec::with_capacity(units.len());
        let base = u32::try_from(committer.at).unwrap_or(u32::MAX);
        for unit in units {
            let mut spots = Vec::with_capacity(unit.frames.len());
            for (frame, copy) in &unit.frames {
                let (lsn, origin) = copy.unwrap_or((Lsn(committer.next_lsn), Origin::Appended));
                let (offset, length) = batch.push(frame, lsn, origin);
                committer.next_lsn += u64::from(origin == Origin::Appended);
                spots.push((Spot { offset: base.saturating_add(offset), length }, lsn));
            }
            places.push(spots);
        }
        let octets = batch.finish(committer.live.epoch, committer.position(), first, committer.synced);
        let failed = |what| move |error| JournalError::poisoned(what, &error);
        write_all_at(&*committer.file, &octets, committer.at).map_err(failed("write a batch"))?;
        let start = (self.options.monotonic)();
        committer.file.sync_data().map_err(failed("sync a batch"))?;
        locked(&self.meter).add((self.options.monotonic)().saturating_sub(start));
        committer.at += octets.len() as u64;
        committer.synced = committer.position();
        Ok(publish(&committer.live, committer.at, units, &places))
    }

    /// When nothing waits, notes behind the last batch that it is durable, so that damage to it is not taken
    /// for a torn tail (storage §3.3 I4). The note needs no sync and the next batch overwrites it.
    fn prove(&self, committer: &Committer) {
        let idle = locked(&self.queue).units.is_empty();
        if !idle || committer.at.saturating_add(SECTOR) > committer.capacity {
            return;
        }
        let note = BatchWriter::new().finish(
            committer.live.epoch,
            committer.position(),
            Lsn(committer.next_lsn),
            committer.synced,
        );
        if let Err(error) = write_all_at(&*committer.file, &note, committer.at) {
            self.fail(&JournalError::poisoned("write a proof", &error));
        }
    }

    /// Makes the note behind the last batch durable, at a clean end: nothing is written again at the next start.
    pub(super) fn sync_proof(&self) {
        if self.failure.get().is_none()
            && let Err(error) = locked(&self.committer).file.sync_data()
        {
            self.fail(&JournalError::poisoned("sync the last batch", &error));
        }
    }

    /// Opens the next segment, with room for `need` octets.
    fn roll(&self, committer: &mut Committer, need: u64, class: Class) -> Result<(), JournalError> {
        let number = committer.live.number + 1;
        let path = segment_path(&self.home.journal, number);
        let capacity = self.options.segment_bytes.max(FIRST.saturating_add(need));
        let spare = if capacity > self.options.segment_bytes {
            let fresh = self.home.journal.join(format!("big-{number:08}.tmp"));
            spares::zeroed(&*self.vfs, &fresh, capacity).map_err(JournalError::io("make a segment"))?;
            fresh
        } else {
            if self.options.work != Work::Threads {
                let _ = self.spares.refill(&*self.vfs, &self.home.journal, capacity);
            }
            self.spares.take(class, self.options.work)?
        };
        let head =
            SegmentHead { number, epoch: committer.live.epoch, previous: committer.position(), capacity };
        let file = self.vfs.rename(&spare, &path).and_then(|()| {
            self.vfs.sync_dir(&self.home.journal)?;
            let file = self.vfs.open(&path, OpenMode::Write)?;
            write_all_at(&*file, &head.encode(), 0)?;
            // Synced alone: a segment without a valid head has never held a batch.
            file.sync_data()?;
            Ok(file)
        });
        let file = file.map_err(|error| {
            let error = JournalError::poisoned("open a segment", &error);
            self.fail(&error);
            error
        })?;
        committer.live.close();
        committer.live = Arc::new(Live::new(number, head.epoch, Contents::default(), FIRST));
        (committer.file, committer.at, committer.capacity) = (file, FIRST, capacity);
        let live = Arc::clone(&committer.live);
        self.change_sources(|sources| sources.live.push(live));
        self.wake_chores();
        Ok(())
    }
}

fn refuse_new(units: Vec<Unit>, error: &JournalError) -> Vec<Unit> {
    let (new, freeing): (Vec<_>, Vec<_>) = units.into_iter().partition(|unit| unit.class == Class::New);
    new.iter().for_each(|unit| unit.resolve(Err(error.clone())));
    freeing
}

/// Makes the keys of committed frames known; before anyone is woken.
fn publish(live: &Live, end: u64, units: &[Unit], places: &[Vec<(Spot, Lsn)>]) -> Vec<Vec<Location>> {
    let mut contents = live.contents_mut();
    let mut all = Vec::with_capacity(units.len());
    for (unit, spots) in units.iter().zip(places) {
        for ((frame, _), (spot, lsn)) in unit.frames.iter().zip(spots) {
            contents.summary.add(*lsn, frame.received_at, frame.expires);
            contents.add_keys(frame.keys.iter().copied(), *spot);
        }
        all.push(spots.iter().map(|(spot, _)| spot.within(live.number)).collect());
    }
    live.commit_to(end);
    all
}
