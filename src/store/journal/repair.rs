//! `oncepoint store repair`: what is damaged is given up, knowingly, so that the rest can be used again.
//!
//! Each damaged stretch is copied to `quarantine/*.hole` and covered with an empty batch; whatever frames in it
//! are undamaged are written again, those whose head is undamaged without their body. A missing segment is noted
//! as purged.

use std::{io, path::Path, sync::Arc};

use super::{
    FrameRef, Journal, JournalError, JournalOptions, Lsn, Origin, VerifyFault, Work,
    batch::{BATCH_HEAD, BatchHead, BatchWriter, Position, SECTOR_OCTETS, split_frame},
    committer::{Numbered, QUEUE_OCTETS},
    frame::Decoded,
    home::{Home, Lock},
    purge::copy_of,
    purged::Purged,
    recover::make_home,
    segment::{BatchReader, FIRST, SegmentHead, keys_path, numbered, segment_path},
};
use crate::{
    model::Timestamp,
    store::vfs::{OpenMode, Vfs, VfsFile, read_exact_at, replace, write_all_at},
};

/// Ending of a stretch whose frames are still to be written again.
const HOLE: &str = ".hole";
/// Ending once they are.
const DONE: &str = "salvaged";

/// What a repair did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// Segments that are missing, or had nothing left; noted as purged.
    pub given_up: Vec<u64>,
    /// FORMAT was damaged and was made anew, with another node id.
    pub format_renewed: bool,
    /// Damaged stretches that were covered.
    pub covered: Vec<VerifyFault>,
    /// Undamaged frames in them, written again.
    pub salvaged: u64,
    /// Frames in them that were written again without their body.
    pub bodies_lost: u64,
}

struct Repair<'a> {
    vfs: &'a dyn Vfs,
    home: &'a Home,
    report: RepairReport,
}

impl Journal {
    /// Makes a damaged journal usable again; nothing else may have it open. One that is sound is left as it is.
    ///
    /// # Errors
    /// When the directory is in use or the disk fails; it may then be run again.
    pub fn repair(
        vfs: &Arc<dyn Vfs>,
        dir: &Path,
        options: JournalOptions,
    ) -> Result<RepairReport, JournalError> {
        let home = make_home(&**vfs, dir)?;
        let lock = Lock::take(&**vfs, dir, &options.boot_id_path)?;
        let mut repair = Repair { vfs: &**vfs, home: &home, report: RepairReport::default() };
        repair.format(options.now)?;
        repair.segments()?;
        let report = repair.report;
        drop(lock);
        let options = JournalOptions { work: Work::Inline, ..options };
        let (journal, _) = Self::open(Arc::clone(vfs), dir, options, &mut |_, _| {})?;
        let report = journal.salvage(&**vfs, &home, report)?;
        journal.close()?;
        Ok(report)
    }

    /// Writes again what is whole in the stretches that were covered, now or by a repair that was interrupted.
    fn salvage(
        &self,
        vfs: &dyn Vfs,
        home: &Home,
        mut report: RepairReport,
    ) -> Result<RepairReport, JournalError> {
        for name in vfs.list(&home.quarantine).map_err(io("list the quarantine"))? {
            if !name.ends_with(HOLE) {
                continue;
            }
            let path = home.quarantine.join(&name);
            for frame in self.frames_of_hole(vfs, &path, &name)? {
                let bodiless = frame.1.is_some_and(|(_, origin)| origin == Origin::Salvaged);
                self.shared().enqueue(vec![frame], QUEUE_OCTETS).wait()?;
                report.bodies_lost += u64::from(bodiless);
                report.salvaged += u64::from(!bodiless);
            }
            let done = vfs.rename(&path, &path.with_extension(DONE));
            done.and_then(|()| vfs.sync_dir(&home.quarantine)).map_err(io("mark a stretch as done"))?;
        }
        Ok(report)
    }

    /// The frames of a covered stretch. It begins with a batch; others in it count when their head is whole.
    fn frames_of_hole(&self, vfs: &dyn Vfs, path: &Path, name: &str) -> Result<Numbered, JournalError> {
        let file = vfs.open(path, OpenMode::Read).map_err(io("read a stretch"))?;
        let octets = read_whole(&*file).map_err(io("read a stretch"))?;
        let place = name.trim_end_matches(HOLE).split_once('-');
        let place = place.and_then(|(segment, offset)| Some((segment.parse().ok()?, offset.parse().ok()?)));
        let Some((segment, offset)) = place else { return Ok(Numbered::new()) };
        let epoch = match self.shared().files.segment(segment) {
            Ok(file) => SegmentHead::read(&*file, segment)?.map_or(0, |head| head.epoch),
            Err(JournalError::Gone { .. }) => 0,
            Err(error) => return Err(error),
        };
        let mut frames = Numbered::new();
        for start in (0..octets.len()).step_by(SECTOR_OCTETS) {
            let batch = octets.get(start..).unwrap_or_default();
            let at = Position { segment, offset: u64::saturating_add(offset, start as u64) };
            if start == 0 || is_batch(batch, at, epoch) {
                frames.extend(frames_in(batch));
            }
        }
        Ok(frames)
    }
}

/// A batch may begin in this sector: it names its own place and epoch, which no sender can guess.
fn is_batch(sector: &[u8], at: Position, epoch: u64) -> bool {
    BatchHead::decode(sector).is_some_and(|(head, _)| head.at == at && head.epoch == epoch)
}

fn io(what: &'static str) -> impl Fn(io::Error) -> JournalError {
    move |error| JournalError::io(what)(error)
}

fn read_whole(file: &dyn VfsFile) -> io::Result<Vec<u8>> {
    let mut octets = vec![0; usize::try_from(file.size()?).unwrap_or(0)];
    read_exact_at(file, &mut octets, 0)?;
    Ok(octets)
}

/// The frames behind a batch head, up to the first whose head is damaged: its length cannot be relied on, and
/// what lies at a guessed place may be a payload that looks like a frame.
fn frames_in(batch: &[u8]) -> Numbered {
    let mut frames = Numbered::new();
    let mut rest = batch.get(BATCH_HEAD..).unwrap_or_default();
    while let Some((octets, after)) = split_frame(rest) {
        let (frame, origin): (FrameRef<'_>, _) = match FrameRef::decode(octets) {
            Some(Decoded::Whole(frame)) => (frame, copy_of(frame.origin)),
            Some(Decoded::HeadOnly(frame)) => (frame, Origin::Salvaged),
            None => break,
        };
        frames.push((frame.to_frame(), Some((frame.lsn, origin))));
        rest = after;
    }
    frames
}

impl Repair<'_> {
    /// A damaged FORMAT is set aside; the start makes a new one, with a new node id.
    fn format(&mut self, now: Timestamp) -> Result<(), JournalError> {
        match self.home.check_format(self.vfs, now) {
            Err(JournalError::FileDamaged { .. }) => {
                let moved =
                    self.vfs.rename(&self.home.root.join("FORMAT"), &self.home.quarantine.join("FORMAT"));
                let moved = moved.and_then(|()| {
                    self.vfs.sync_dir(&self.home.quarantine)?;
                    self.vfs.sync_dir(&self.home.root)
                });
                self.report.format_renewed = moved.map(|()| true).map_err(io("set FORMAT aside"))?;
                Ok(())
            }
            checked => checked,
        }
    }

    fn segments(&mut self) -> Result<(), JournalError> {
        let dir = &self.home.journal;
        let names = self.vfs.list(dir).map_err(io("list the journal"))?;
        let (mut purged, readable) = match Purged::read(self.vfs, dir) {
            Err(JournalError::FileDamaged { .. }) => (Purged::default(), false),
            read => (read?, true),
        };
        let numbers: Vec<u64> = names.iter().filter_map(|name| numbered(name, ".seg")).collect();
        let mut there: std::collections::BTreeSet<u64> =
            numbers.into_iter().filter(|number| !purged.has(*number)).collect();
        let mut previous = Position::default();
        for number in there.clone() {
            match self.segment(number, previous, there.range(number + 1..).next().copied())? {
                Some(end) => previous = Position { segment: number, offset: end },
                None => {
                    there.remove(&number);
                }
            }
        }
        let last = there.last().copied().unwrap_or(0);
        let before = purged.clone();
        while let Some(number) = purged.first_missing(&there, last) {
            purged.add(number);
            if readable {
                self.report.given_up.push(number);
            }
        }
        if purged != before || !readable {
            purged.write(self.vfs, dir).map_err(io("write PURGED"))?;
        }
        Ok(())
    }

    /// Repairs one segment; says where it ends, or nothing when it had to be given up.
    fn segment(
        &mut self,
        number: u64,
        previous: Position,
        next: Option<u64>,
    ) -> Result<Option<u64>, JournalError> {
        let path = segment_path(&self.home.journal, number);
        let file = self.vfs.open(&path, OpenMode::Write).map_err(io("open a segment"))?;
        let size = file.size().map_err(io("open a segment"))?;
        let Some(head) = self.head(&*file, number, previous, size)? else {
            if next.is_none() {
                // The normal start removes a last segment that holds nothing.
                return Ok(None);
            }
            let kept = self.home.quarantine.join(format!("{number:08}.seg"));
            let moved = self.vfs.rename(&path, &kept).and_then(|()| {
                self.vfs.sync_dir(&self.home.quarantine)?;
                self.vfs.sync_dir(&self.home.journal)
            });
            moved.map_err(io("move a segment to quarantine"))?;
            return Ok(None);
        };
        let named = next.filter(|next| *next == number + 1).map(|next| self.end_named_by(next, number));
        let end = named.transpose()?.flatten();
        if let Some(end) = end.filter(|end| *end > size) {
            file.set_len(end).map_err(io("lengthen a segment"))?;
        }
        let limit = end.unwrap_or(size);
        let mut reader = BatchReader::new(&*file, number, head.epoch, limit);
        let mut valid = FIRST;
        while reader.at < limit {
            if reader.next()?.is_some() {
                valid = reader.at;
                continue;
            }
            let from = reader.at;
            let resumed = reader.resume()?;
            let to = if resumed { reader.at } else { limit };
            // Without a later batch the end of the last segment is torn, which is no damage.
            if !resumed && next.is_none() {
                break;
            }
            self.cover(&*file, &head, from, to)?;
            reader.at = to;
            valid = to;
        }
        Ok(Some(end.unwrap_or(valid)))
    }

    /// The end of a segment by the head of the next one.
    fn end_named_by(&self, next: u64, number: u64) -> Result<Option<u64>, JournalError> {
        let path = segment_path(&self.home.journal, next);
        let file = self.vfs.open(&path, OpenMode::Read).map_err(io("open a segment"))?;
        let head = SegmentHead::read(&*file, next)?;
        Ok(head.filter(|head| head.previous.segment == number).map(|head| head.previous.offset))
    }

    /// The head of a segment, made anew from a batch when it is damaged.
    fn head(
        &mut self,
        file: &dyn VfsFile,
        number: u64,
        previous: Position,
        size: u64,
    ) -> Result<Option<SegmentHead>, JournalError> {
        if let Some(head) = SegmentHead::read(file, number)? {
            return Ok(Some(head));
        }
        let Some(epoch) = BatchReader::new(file, number, 0, size).find_epoch()? else { return Ok(None) };
        let head = SegmentHead { number, epoch, previous, capacity: size };
        let written = write_all_at(file, &head.encode(), 0).and_then(|()| file.sync_all());
        written.map_err(io("write the head of a segment"))?;
        self.report.covered.push(VerifyFault { segment: number, offset: 0, what: "the head of the segment" });
        Ok(Some(head))
    }

    /// Keeps the octets of a damaged stretch and puts an empty batch in their place.
    fn cover(
        &mut self,
        file: &dyn VfsFile,
        head: &SegmentHead,
        from: u64,
        to: u64,
    ) -> Result<(), JournalError> {
        let io = io("cover a damaged stretch");
        let mut octets = vec![0; usize::try_from(to - from).unwrap_or(0)];
        read_exact_at(file, &mut octets, from).map_err(&io)?;
        let name = format!("{:08}-{from:08}{HOLE}", head.number);
        replace(self.vfs, &self.home.quarantine.join(name), &octets).map_err(&io)?;
        match self.vfs.remove(&keys_path(&self.home.journal, head.number)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed.and_then(|()| self.vfs.sync_dir(&self.home.journal)).map_err(&io)?,
        }
        let at = Position { segment: head.number, offset: from };
        let cover = BatchWriter::cover(octets.len()).finish(head.epoch, at, Lsn(0), at);
        write_all_at(file, &cover, from).and_then(|()| file.sync_all()).map_err(&io)?;
        self.report.covered.push(VerifyFault { segment: head.number, offset: from, what: "a batch" });
        Ok(())
    }
}
