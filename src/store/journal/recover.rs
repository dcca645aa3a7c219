//! Opening: what is on the disk is told apart into durable, torn and damaged, and a new segment is begun
//! (storage §3.3 I4, I5, I9).

use std::{collections::BTreeSet, io, path::Path, sync::Arc};

use super::{
    FrameRef, JournalError, JournalOptions, Location, Lsn, Recovery,
    batch::{Batch, BatchWriter, Position},
    chores::{cut, scan_whole, seal},
    committer::Committer,
    files::Files,
    home::Home,
    live::{Contents, Live, Spot},
    purge::copy_of,
    purged::Purged,
    segment::{BatchReader, FIRST, SegmentHead, keys_path, numbered, segment_path},
    shared::Sources,
    sidecar::{Sealed, Sidecar},
    spares::{self, Spares},
};
use crate::store::vfs::{OpenMode, Vfs, VfsFile, read_up_to_at, write_all_at};

/// Length of the first segment when no spare is there, so that a start need not wait for zeros, in octets.
const FIRST_CAPACITY: u64 = 1 << 20;
/// How much of a segment without a head is looked at, in octets.
const GLANCE: usize = 1 << 16;
/// The segment being begun, until it has its name.
const OPENING: &str = "opening.seg";

/// Told of every frame that is scanned, at the place where it is found from now on.
pub(super) type Replay<'a> = &'a mut dyn FnMut(&FrameRef<'_>, Location);

/// What is needed to go on.
pub(super) struct Recovered {
    pub(super) sources: Sources,
    pub(super) committer: Committer,
    pub(super) spares: Spares,
    pub(super) purged: Purged,
    pub(super) report: Recovery,
}

struct Found {
    head: SegmentHead,
    file: Arc<dyn VfsFile>,
    size: u64,
}

/// What the last segment turned out to hold.
struct Tail {
    /// Frames that a later batch proves to be durable.
    proven: Contents,
    /// Where they end.
    end: u64,
    /// Batches behind, which may be in a page cache only.
    unproven: Vec<Batch>,
}

struct Opening<'a> {
    vfs: &'a dyn Vfs,
    files: &'a Arc<Files>,
    home: &'a Home,
    options: &'a JournalOptions,
    report: Recovery,
    last_lsn: u64,
}

/// Recovers the journal of `home`.
pub(super) fn recover(
    vfs: &dyn Vfs,
    files: &Arc<Files>,
    home: &Home,
    options: &JournalOptions,
    replay: Replay<'_>,
) -> Result<Recovered, JournalError> {
    let mut opening = Opening { vfs, files, home, options, report: Recovery::default(), last_lsn: 0 };
    let (mut found, purged, spares) = opening.inventory()?;
    opening.report.segments = found.len() as u64;
    let last = found.pop();
    let mut sources = Sources::default();
    for (index, segment) in found.iter().enumerate() {
        let next = found.get(index + 1).or(last.as_ref()).map(|next| next.head.previous);
        opening.reopen_closed(segment, next, &mut sources, replay)?;
    }
    let mut tail = match &last {
        Some(last) => opening.scan_last(last, replay)?,
        None => Tail { proven: Contents::default(), end: 0, unproven: Vec::new() },
    };
    opening.last_lsn = opening.last_lsn.max(tail.proven.summary.last_lsn);
    let committer = opening.begin(last.as_ref(), &tail, &spares, replay)?;
    if let Some(last) = last.filter(|last| last.head.number != committer.live.number) {
        let proven = std::mem::take(&mut tail.proven);
        let live = Live::new(last.head.number, last.head.epoch, proven, tail.end);
        live.close();
        sources.live.push(Arc::new(live));
    }
    sources.live.push(Arc::clone(&committer.live));
    Ok(Recovered { sources, committer, spares, purged, report: opening.report })
}

fn io(what: &'static str) -> impl Fn(io::Error) -> JournalError {
    move |error| JournalError::io(what)(error)
}

impl Opening<'_> {
    /// What is there; leftovers of interrupted steps are removed.
    fn inventory(&self) -> Result<(Vec<Found>, Purged, Spares), JournalError> {
        let dir = &self.home.journal;
        let names = self.vfs.list(dir).map_err(io("list the journal"))?;
        let purged = Purged::read(self.vfs, dir)?;
        let octets = self.options.segment_bytes;
        let spares = Spares::adopt(self.vfs, dir, &names, octets).map_err(io("look at the spares"))?;
        let mut numbers = BTreeSet::new();
        let mut leftovers = Vec::new();
        for name in &names {
            let spare = name.starts_with("spare-");
            match numbered(name, ".seg") {
                Some(number) if !purged.has(number) => {
                    numbers.insert(number);
                }
                Some(_) => leftovers.push(name),
                None if name == OPENING || (name.ends_with(".tmp") && !spare) => leftovers.push(name),
                None => {}
            }
        }
        leftovers.extend(
            names.iter().filter(|name| numbered(name, ".keys").is_some_and(|n| !numbers.contains(&n))),
        );
        for name in leftovers {
            self.vfs.remove(&dir.join(name)).map_err(io("remove a leftover"))?;
        }
        let found = self.heads(&numbers)?;
        let there: BTreeSet<u64> = found.iter().map(|found| found.head.number).collect();
        let last = there.last().copied().unwrap_or(0);
        if let Some(segment) = purged.first_missing(&there, last) {
            return Err(JournalError::Missing { segment });
        }
        self.vfs.sync_dir(dir).map_err(io("sync the journal's directory"))?;
        Ok((found, purged, spares))
    }

    fn heads(&self, numbers: &BTreeSet<u64>) -> Result<Vec<Found>, JournalError> {
        let mut found = Vec::new();
        for number in numbers {
            let path = segment_path(&self.home.journal, *number);
            let file = self.vfs.open(&path, OpenMode::Read).map_err(io("open a segment"))?;
            let size = file.size().map_err(io("open a segment"))?;
            match SegmentHead::read(&*file, *number)? {
                Some(head) => found.push(Found { head, file, size }),
                // Its head is synced before its first batch: it was being begun and holds nothing.
                None if numbers.last() == Some(number) && is_empty(&*file)? => {
                    self.vfs.remove(&path).map_err(io("remove a segment without a head"))?;
                }
                None => {
                    let what = "the head of the segment";
                    return Err(JournalError::Damaged { segment: *number, offset: 0, what });
                }
            }
        }
        Ok(found)
    }

    /// A segment that is not the last: by its sidecar, or read whole when that is missing or damaged.
    fn reopen_closed(
        &mut self,
        segment: &Found,
        next: Option<Position>,
        sources: &mut Sources,
        replay: Replay<'_>,
    ) -> Result<(), JournalError> {
        let head = &segment.head;
        let named = next.filter(|next| next.segment == head.number).map(|next| next.offset);
        let end = named.unwrap_or(segment.size);
        if segment.size < end {
            let what = "the end of the segment";
            return Err(JournalError::Damaged { segment: head.number, offset: segment.size, what });
        }
        let of = Sealed { number: head.number, epoch: head.epoch, end };
        let sidecar =
            match Sidecar::open(self.vfs, self.files, &keys_path(&self.home.journal, head.number), of)? {
                Some(sidecar) if segment.size > end => {
                    cut(self.vfs, &self.home.journal, of)?;
                    sidecar
                }
                Some(sidecar) => sidecar,
                None => {
                    let mut contents = Contents::default();
                    scan_whole(&*segment.file, of, &mut |batch| {
                        batch.for_each(&mut |frame, at| {
                            contents.add(frame, at);
                            self.report.replayed += 1;
                            replay(frame, at);
                        })
                    })?;
                    self.report.sidecars_rebuilt += 1;
                    seal(self.vfs, self.files, &self.home.journal, of, &contents)?
                }
            };
        self.last_lsn = self.last_lsn.max(sidecar.summary.last_lsn);
        sources.sealed.push(Arc::new(sidecar));
        Ok(())
    }

    /// The last segment: how far it is proven, what is behind, and whether the rest is torn or damaged.
    fn scan_last(&mut self, last: &Found, replay: Replay<'_>) -> Result<Tail, JournalError> {
        let number = last.head.number;
        let damaged = |offset, what| JournalError::Damaged { segment: number, offset, what };
        let mut reader = BatchReader::new(&*last.file, number, last.head.epoch, last.size);
        let mut tail = Tail { proven: Contents::default(), end: FIRST, unproven: Vec::new() };
        while let Some(batch) = reader.next()? {
            if batch.head.synced.segment == number {
                tail.end = tail.end.max(batch.head.synced.offset);
            }
            tail.unproven.push(batch);
            let proven = tail.unproven.iter().take_while(|batch| batch.head.at.offset < tail.end).count();
            for batch in tail.unproven.drain(..proven) {
                let whole = batch.for_each(&mut |frame, at| {
                    tail.proven.add(frame, at);
                    self.report.replayed += 1;
                    replay(frame, at);
                });
                if !whole {
                    return Err(damaged(batch.head.at.offset, "a frame"));
                }
            }
        }
        let stopped = Position { segment: number, offset: reader.at };
        let used = reader.used_end()?;
        while used > stopped.offset && reader.resume()? {
            // A later batch was written after this place was synced: what is not valid here is damage.
            if reader.next()?.is_some_and(|batch| batch.head.synced > stopped) {
                return Err(damaged(stopped.offset, "a batch"));
            }
        }
        if used > stopped.offset {
            self.keep_torn(&*last.file, stopped, used)?;
        }
        Ok(tail)
    }

    /// Copies a torn tail to quarantine.
    fn keep_torn(&mut self, from: &dyn VfsFile, at: Position, end: u64) -> Result<(), JournalError> {
        self.report.torn_octets = end - at.offset;
        let name = format!("{:08}-{:08}.torn", at.segment, at.offset);
        let kept = self.vfs.open(&self.home.quarantine.join(name), OpenMode::OpenOrCreate).and_then(|file| {
            file.set_len(0)?;
            let mut window = vec![0; GLANCE];
            for offset in (at.offset..end).step_by(GLANCE) {
                let read = read_up_to_at(from, &mut window, offset)?;
                let wanted = read.min(usize::try_from(end - offset).unwrap_or(read));
                write_all_at(&*file, window.get(..wanted).unwrap_or_default(), offset - at.offset)?;
            }
            file.sync_all()?;
            self.vfs.sync_dir(&self.home.quarantine)
        });
        match kept {
            // A tail that nobody was told of is not worth refusing to start on a full disk.
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                (self.options.alarm)("no room to keep a torn tail for inspection");
                Ok(())
            }
            kept => kept.map_err(io("keep a torn tail")),
        }
    }

    /// Begins the next segment. What no later batch proves is written into it again, and all of it is synced
    /// before the segment gets its name: then the old end is settled, not before. A last segment in which
    /// nothing is proven, not even its head, is replaced.
    fn begin(
        &mut self,
        last: Option<&Found>,
        tail: &Tail,
        spares: &Spares,
        replay: Replay<'_>,
    ) -> Result<Committer, JournalError> {
        let epoch = next_epoch(last.map_or(0, |last| last.head.epoch));
        let (number, previous) = match last.map(|last| last.head) {
            None => (1, Position::default()),
            Some(head) if tail.end == FIRST => (head.number, head.previous),
            Some(head) => (head.number + 1, Position { segment: head.number, offset: tail.end }),
        };
        let (batch, contents) = self.copy_unproven(number, tail, replay)?;
        let mut next_lsn = self.last_lsn.max(contents.summary.last_lsn) + 1;
        next_lsn = next_lsn.max(1);
        let need = FIRST + if contents.summary.frames > 0 { batch.octets_on_disk() } else { 0 };
        let capacity = self.place(spares, need)?;
        let head = SegmentHead { number, epoch, previous, capacity };
        let opening = self.home.journal.join(OPENING);
        let path = segment_path(&self.home.journal, number);
        let begun = self.vfs.open(&opening, OpenMode::Write).and_then(|file| {
            write_all_at(&*file, &head.encode(), 0)?;
            let mut at = FIRST;
            if contents.summary.frames > 0 {
                let here = Position { segment: number, offset: FIRST };
                let octets = batch.finish(epoch, here, Lsn(next_lsn), previous);
                write_all_at(&*file, &octets, FIRST)?;
                at += octets.len() as u64;
            }
            file.sync_all()?;
            self.vfs.rename(&opening, &path)?;
            self.vfs.sync_dir(&self.home.journal)?;
            Ok((self.vfs.open(&path, OpenMode::Write)?, at))
        });
        let (file, at) = begun.map_err(io("begin a segment"))?;
        let live = Arc::new(Live::new(number, epoch, contents, at));
        let synced = Position { segment: number, offset: at };
        Ok(Committer { live, file, at, capacity, next_lsn, synced })
    }

    fn copy_unproven(
        &mut self,
        number: u64,
        tail: &Tail,
        replay: Replay<'_>,
    ) -> Result<(BatchWriter, Contents), JournalError> {
        let (mut batch, mut contents) = (BatchWriter::new(), Contents::default());
        for unproven in &tail.unproven {
            let whole = unproven.for_each(&mut |frame, _| {
                let (offset, length) = batch.push(&frame.to_frame(), frame.lsn, copy_of(frame.origin));
                let offset = u32::try_from(FIRST).unwrap_or(u32::MAX).saturating_add(offset);
                let at = Spot { offset, length }.within(number);
                contents.add(frame, at);
                self.report.rewritten += 1;
                self.report.replayed += 1;
                replay(frame, at);
            });
            if !whole {
                let Position { segment, offset } = unproven.head.at;
                return Err(JournalError::Damaged { segment, offset, what: "a frame" });
            }
        }
        Ok((batch, contents))
    }

    /// Puts a file of zeros under the name [`OPENING`]; says how long it is.
    fn place(&self, spares: &Spares, need: u64) -> Result<u64, JournalError> {
        let opening = self.home.journal.join(OPENING);
        let spare = if need <= self.options.segment_bytes { spares.take_any() } else { None };
        if let Some(spare) = spare {
            // The name is durable before anything is written: a spare by name is always clean.
            let renamed = self.vfs.rename(&spare, &opening);
            let renamed = renamed.and_then(|()| self.vfs.sync_dir(&self.home.journal));
            renamed.map_err(io("begin a segment"))?;
            return Ok(self.options.segment_bytes);
        }
        let capacity = self.options.segment_bytes.min(FIRST_CAPACITY).max(need);
        spares::zeroed(self.vfs, &opening, capacity).map_err(io("make a segment"))?;
        Ok(capacity)
    }
}

/// Greater than the one before, and nothing that a sender could guess and write into a payload: a payload that
/// looks like a batch is never taken for one.
fn next_epoch(before: u64) -> u64 {
    let (_, random) = uuid::Uuid::new_v4().as_u64_pair();
    ((before >> 32) + 1) << 32 | (random & u64::from(u32::MAX))
}

/// Is there nothing behind the head?
fn is_empty(file: &dyn VfsFile) -> Result<bool, JournalError> {
    let mut glance = vec![0; GLANCE];
    let read = read_up_to_at(file, &mut glance, FIRST).map_err(io("read a segment"))?;
    Ok(glance.get(..read).unwrap_or_default().iter().all(|octet| *octet == 0))
}

/// Makes the directories, durable.
pub(super) fn make_home(vfs: &dyn Vfs, root: &Path) -> Result<Home, JournalError> {
    Home::make(vfs, root).map_err(io("make the data directory"))
}
