//! Crashes of the journal, thousands of them, deterministic by seed: what was acknowledged is found with the
//! same octets, nothing appears that was never appended, nothing that was lost comes back.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "helpers of tests, outside test functions"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use oncepoint::{
    model::{Span, Timestamp},
    store::{
        journal::{
            Class, Expiry, Frame, FrameKind, FrameRef, IndexChoice, IndexState, Journal, JournalError,
            JournalOptions, Keep, Key, Location, Lsn, PurgeBudget, RepairReport, Ticket, Work,
        },
        vfs::{Cut, Directories, Faults, FaultyVfs, RealVfs, Vfs},
    },
};

const DIR: &str = "/data";
const SEGMENT: u64 = 16 << 10;
/// Stories of the campaign, and crashes in each.
const STORIES: u64 = 1250;
const LIVES: usize = 8;

/// `splitmix64`.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::try_from(self.below(choices.len() as u64)).unwrap()]
    }
}

fn at(day: u64) -> Timestamp {
    Timestamp::from_millis(0).plus(Span::days(day))
}

fn key(id: u64) -> Key {
    Key::new(b'm', u128::from(id).to_be_bytes())
}

fn id_of(frame: &FrameRef<'_>) -> u64 {
    u64::try_from(u128::from_be_bytes(frame.keys().next().unwrap().id())).unwrap()
}

/// The one frame that belongs to an id; short mostly, longer than a segment now and then.
fn frame(seed: u64, id: u64) -> Frame {
    let mut chance = Chance(seed ^ id.wrapping_mul(0x5851_F42D_4C95_7F2D));
    let length = match chance.below(40) {
        0 => 20_000,
        1..=4 => 4_000 + chance.below(3_000),
        _ => chance.below(700),
    };
    let fill = u8::try_from(chance.below(255)).unwrap() + 1;
    Frame {
        kind: FrameKind(1),
        class: if chance.one_in(5) { Class::Freeing } else { Class::New },
        received_at: at(id),
        expires: if chance.one_in(30) { Expiry::Never } else { Expiry::At(at(id + chance.below(60))) },
        keys: vec![key(id), Key::new(b'g', u128::from(id % 3).to_be_bytes())],
        head: id.to_le_bytes().to_vec().into(),
        body: vec![fill; usize::try_from(length).unwrap()].into(),
    }
}

/// What must hold for an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Its ticket resolved, or it was served after a start: there from now on.
    Kept,
    /// Nobody was told: all of it or nothing, decided by the next start.
    Open,
    /// Refused, or not there after a start: never to be seen.
    Lost,
}

struct Story {
    seed: u64,
    chance: Chance,
    vfs: FaultyVfs,
    next_id: u64,
    /// First id and number of frames of each append, and what became of it.
    appends: Vec<(u64, u64, Fate)>,
    /// Purge was told that these may go.
    released: BTreeSet<u64>,
    crashes: u64,
    crashes_while_opening: u64,
}

impl Story {
    fn new(seed: u64) -> Self {
        let mut chance = Chance(seed);
        let directories = chance.of(&[Directories::Strict, Directories::Strict, Directories::Lenient]);
        let vfs = FaultyVfs::new(chance.next(), Cut::All, directories);
        Self {
            seed,
            chance,
            vfs,
            next_id: 0,
            appends: Vec::new(),
            released: BTreeSet::new(),
            crashes: 0,
            crashes_while_opening: 0,
        }
    }

    fn options(work: Work) -> JournalOptions {
        JournalOptions {
            segment_bytes: SEGMENT,
            reserve_bytes: 0,
            work,
            boot_id_path: PathBuf::from("/nonexistent"),
            ..JournalOptions::new(at(0))
        }
    }

    fn open(&self) -> Result<Journal, JournalError> {
        let options = Self::options(Work::Pumped);
        let opened = Journal::open(Arc::new(self.vfs.clone()), Path::new(DIR), options, &mut |_, _| {});
        opened.map(|(journal, _)| journal)
    }

    /// One life of the machine: faults, a start, work, a crash.
    fn live(&mut self) {
        self.set_faults();
        match self.open() {
            Ok(journal) => {
                // Once open, what is found is what was promised.
                self.check(&journal, Fate::Open);
                self.work(&journal);
                self.vfs = self.vfs.reboot();
            }
            Err(JournalError::Io { .. }) => {
                self.crashes_while_opening += u64::from(self.vfs.is_down());
                self.vfs = self.vfs.reboot();
            }
            Err(error) => panic!("seed {}: a start was refused: {error}", self.seed),
        }
        self.crashes += 1;
    }

    fn set_faults(&mut self) {
        let cut = self.chance.of(&[Cut::All, Cut::Half, Cut::Torn, Cut::Torn, Cut::Nothing]);
        self.vfs.set_cut(cut);
        let used: usize =
            self.vfs.files().iter().filter_map(|path| self.vfs.contents(path)).map(|c| c.len()).sum();
        let early = self.chance.one_in(3);
        let crash_at = 1 + self.chance.below(if early { 40 } else { 250 });
        self.vfs.set_faults(Faults {
            crash_at: Some(crash_at),
            sync_fails_at: self.chance.one_in(6).then(|| 1 + self.chance.below(25)),
            capacity: self.chance.one_in(6).then(|| used as u64 + self.chance.below(3 * SEGMENT)),
            short_write_in: self.chance.one_in(4).then_some(3),
        });
    }

    fn work(&mut self, journal: &Journal) {
        let mut waiting: Vec<(usize, Ticket)> = Vec::new();
        for _ in 0..60 {
            if self.vfs.is_down() {
                break;
            }
            match self.chance.below(24) {
                0..=15 => self.append(journal, &mut waiting),
                16 | 17 => {
                    journal.pump();
                    self.settle(&mut waiting);
                }
                18 => self.purge(journal),
                19 => self.look(journal),
                20 if self.chance.one_in(12) => {
                    let _ = journal.close();
                }
                _ => {}
            }
        }
        journal.pump();
        self.settle(&mut waiting);
    }

    fn append(&mut self, journal: &Journal, waiting: &mut Vec<(usize, Ticket)>) {
        let (first, count) = (self.next_id, 1 + self.chance.below(3));
        self.next_id += count;
        let frames = (first..first + count).map(|id| frame(self.seed, id)).collect();
        self.appends.push((first, count, Fate::Open));
        if self.chance.one_in(6) {
            if journal.append_relaxed(frames).is_err() {
                self.appends.last_mut().unwrap().2 = Fate::Lost;
            }
        } else {
            waiting.push((self.appends.len() - 1, journal.append(frames)));
        }
    }

    /// Takes note of what the tickets say.
    fn settle(&mut self, waiting: &mut Vec<(usize, Ticket)>) {
        for (index, ticket) in waiting.drain(..) {
            match ticket.outcome() {
                Some(Ok(_)) => self.appends[index].2 = Fate::Kept,
                // These say that nothing was written.
                Some(Err(JournalError::Full | JournalError::Busy)) => self.appends[index].2 = Fate::Lost,
                Some(Err(_)) | None => {}
            }
        }
    }

    fn purge(&mut self, journal: &Journal) {
        let now = at(self.next_id);
        let seed = self.seed;
        let released = std::cell::RefCell::new(BTreeSet::new());
        let keep = |held: &FrameRef<'_>, _: Location| {
            let id = id_of(held);
            // One in seven is still needed.
            let expired = matches!(held.expires, Expiry::At(expiry) if expiry <= now);
            if expired && !(id ^ seed).is_multiple_of(7) {
                released.borrow_mut().insert(id);
                Keep::Drop
            } else {
                Keep::Forward
            }
        };
        let _ = journal.purge(now, PurgeBudget { segments: 3, octets: 1 << 20 }, &keep);
        self.released.append(&mut released.into_inner());
    }

    /// Looks for some that must be there, and one that cannot.
    fn look(&mut self, journal: &Journal) {
        for _ in 0..4 {
            if self.appends.is_empty() {
                return;
            }
            let index = usize::try_from(self.chance.below(self.appends.len() as u64)).unwrap();
            let (first, _, fate) = self.appends[index];
            if fate == Fate::Kept && !self.released.contains(&first) {
                self.check_found(journal, first);
            }
        }
        if let Ok(places) = journal.find(&key(u64::MAX)) {
            assert_eq!(places, [], "seed {}", self.seed);
        }
    }

    fn check_found(&self, journal: &Journal, id: u64) {
        let found = match journal.find(&key(id)) {
            Ok(found) => found,
            Err(_) if self.vfs.is_down() => return,
            Err(error) => panic!("seed {}: find {id}: {error}", self.seed),
        };
        assert!(!found.is_empty(), "seed {}: {id} is not found", self.seed);
        for place in found {
            match journal.read(place) {
                Ok(read) => assert_eq!(read.frame, frame(self.seed, id), "seed {}", self.seed),
                Err(_) if self.vfs.is_down() => {}
                Err(error) => panic!("seed {}: read {id}: {error}", self.seed),
            }
        }
    }

    /// Compares everything that is there with everything that must be; `Open` appends are decided by it.
    fn check(&mut self, journal: &Journal, decided: Fate) {
        let seed = self.seed;
        let mut there: BTreeMap<u64, Lsn> = BTreeMap::new();
        let mut numbers: BTreeMap<Lsn, u64> = BTreeMap::new();
        let scanned = journal.scan(&mut |held, _| {
            let id = id_of(held);
            assert!(held.to_frame() == frame(seed, id), "seed {seed}: frame {id} has other octets");
            let before = there.insert(id, held.lsn);
            assert!(before.is_none_or(|lsn| lsn == held.lsn), "seed {seed}: frame {id} has two numbers");
            let other = numbers.insert(held.lsn, id);
            assert!(other.is_none_or(|other| other == id), "seed {seed}: {other:?} and {id} share a number");
        });
        scanned.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let mut known = 0;
        for (first, count, fate) in &mut self.appends {
            let ids = *first..*first + *count;
            let present = ids.clone().filter(|id| there.contains_key(id)).count() as u64;
            let gone = ids.clone().filter(|id| self.released.contains(id)).count() as u64;
            known += present;
            match *fate {
                Fate::Kept => {
                    let lost = ids.clone().find(|id| !there.contains_key(id) && !self.released.contains(id));
                    assert_eq!(lost, None, "seed {seed}: acknowledged and lost");
                }
                Fate::Lost => assert_eq!(present, 0, "seed {seed}: {ids:?} came back"),
                Fate::Open => {
                    assert!(present == 0 || present + gone >= *count, "seed {seed}: half of {ids:?}");
                    if decided == Fate::Open {
                        *fate = if present > 0 || gone > 0 { Fate::Kept } else { Fate::Lost };
                    }
                }
            }
        }
        assert_eq!(known, there.len() as u64, "seed {seed}: something was never appended");
    }

    /// A last start on a sound machine: everything is found by key.
    fn finish(&mut self) {
        let journal = self.open().unwrap_or_else(|error| panic!("seed {}: {error}", self.seed));
        self.check(&journal, Fate::Open);
        for (first, count, fate) in &self.appends {
            for id in
                (*first..*first + *count).filter(|id| *fate == Fate::Kept && !self.released.contains(id))
            {
                self.check_found(&journal, id);
            }
        }
        let faults = journal.verify(&mut |_, _| {}).unwrap().faults;
        assert_eq!(faults, [], "seed {}", self.seed);
        let kept = self.appends.iter().filter(|(_, _, fate)| *fate == Fate::Kept);
        let kept: u64 = kept
            .map(|(first, count, _)| {
                (*first..*first + *count).filter(|id| !self.released.contains(id)).count() as u64
            })
            .sum();
        let mut listed = BTreeSet::new();
        journal
            .for_each_key(b'm', &mut |id, _| {
                listed.insert(id);
            })
            .unwrap();
        assert!(listed.len() as u64 >= kept, "seed {}", self.seed);
        let mut paged: Vec<_> =
            journal.range(b'm', [0; 16], usize::MAX).unwrap().into_iter().map(|(id, _)| id).collect();
        paged.dedup();
        assert_eq!(paged, listed.into_iter().collect::<Vec<_>>(), "seed {}", self.seed);
    }
}

/// Crashes, those while opening, appends kept.
type Count = (u64, u64, u64);

fn tell(seed: u64) -> Count {
    let mut story = Story::new(seed);
    for _ in 0..LIVES {
        story.live();
    }
    story.finish();
    let kept = story.appends.iter().filter(|(_, _, fate)| *fate == Fate::Kept).count();
    (story.crashes, story.crashes_while_opening, kept as u64)
}

fn sum(counts: impl Iterator<Item = Count>) -> Count {
    counts.fold((0, 0, 0), |all, one| (all.0 + one.0, all.1 + one.1, all.2 + one.2))
}

#[test]
fn ten_thousand_crashes_lose_nothing_and_bring_nothing_back() {
    if let Some(seed) = std::env::var("ONCEPOINT_CRASH_SEED").ok().and_then(|seed| seed.parse().ok()) {
        println!("{:?}", tell(seed));
        return;
    }
    let lanes = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let (crashes, opening, kept) = std::thread::scope(|scope| {
        let lane = |lane| scope.spawn(move || sum((lane..STORIES).step_by(lanes as usize).map(tell)));
        let running: Vec<_> = (0..lanes).map(lane).collect();
        sum(running.into_iter().map(|lane| lane.join().unwrap()))
    });
    println!("{crashes} crashes, {opening} of them while opening; {kept} appends kept");
    assert!(crashes >= 10_000 && opening >= 1_000 && kept >= 10_000);
}

/// A journal of some closed segments, cleanly closed; ids from 0 to the number that is given back.
fn settled(seed: u64) -> (FaultyVfs, u64) {
    let mut story = Story::new(seed);
    let journal = story.open().unwrap();
    let mut waiting = Vec::new();
    for n in 0..30 {
        story.append(&journal, &mut waiting);
        if n % 3 == 0 {
            journal.pump();
        }
    }
    journal.close().unwrap();
    (story.vfs.reboot(), story.next_id)
}

/// What became of one flipped bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Seen {
    AtStart,
    WhenRead,
    WhenVerified,
    /// It was in zeros, in a note, or in something that is made anew.
    Harmless,
}

fn read_all_after_rot(seed: u64, vfs: &FaultyVfs, ids: u64, what: &str) -> Seen {
    let story = Story { vfs: vfs.clone(), ..Story::new(seed) };
    let journal = match story.open() {
        Ok(journal) => journal,
        Err(
            JournalError::Damaged { .. } | JournalError::Missing { .. } | JournalError::FileDamaged { .. },
        ) => return Seen::AtStart,
        Err(error) => panic!("{what}: {error}"),
    };
    let mut unreadable = 0;
    for id in 0..ids {
        let places = match journal.find(&key(id)) {
            Ok(places) => places,
            Err(JournalError::Damaged { .. }) => {
                unreadable += 1;
                continue;
            }
            Err(error) => panic!("{what}: {error}"),
        };
        assert!(!places.is_empty(), "{what}: {id} was silently lost");
        match journal.read(places[0]) {
            Ok(read) => assert!(read.frame == frame(seed, id), "{what}: {id} was silently changed"),
            Err(JournalError::Damaged { .. } | JournalError::BodyDamaged { .. }) => unreadable += 1,
            Err(error) => panic!("{what}: {error}"),
        }
    }
    let faults = journal.verify(&mut |_, _| {}).unwrap().faults.len();
    assert!(unreadable == 0 || faults > 0, "{what}: verify saw nothing");
    match (unreadable, faults) {
        (0, 0) => Seen::Harmless,
        (0, _) => Seen::WhenVerified,
        _ => Seen::WhenRead,
    }
}

/// Repairs, and counts the frames that are no longer found; what is found is what it was, or says that its body
/// is lost.
fn lost_after_repair(seed: u64, vfs: &FaultyVfs, ids: u64, what: &str) -> u64 {
    let vfs = vfs.reboot();
    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let options = Story::options(Work::Inline);
    let report = Journal::repair(&shared, Path::new(DIR), options.clone()).unwrap();
    let again = Journal::repair(&shared, Path::new(DIR), options).unwrap();
    assert_eq!(again, RepairReport::default(), "{what}: a repaired journal is sound");
    let journal = Story { vfs, ..Story::new(seed) }.open().unwrap();
    let faults = journal.verify(&mut |_, _| {}).unwrap().faults;
    assert!(faults.iter().all(|fault| fault.what.contains("sidecar")), "{what}: {faults:?}");
    let (mut lost, mut bodiless) = (0, 0);
    for id in 0..ids {
        let places = journal.find(&key(id)).unwrap();
        match places.last().map(|place| (journal.read(*place), journal.read_head(*place))) {
            None => lost += 1,
            Some((Ok(read), _)) => assert!(read.frame == frame(seed, id), "{what}: {id}"),
            Some((Err(JournalError::BodyDamaged { .. }), Ok(read))) => {
                assert_eq!(read.frame.head, frame(seed, id).head, "{what}");
                bodiless += 1;
            }
            Some((Err(error), _)) => panic!("{what}: {error}"),
        }
    }
    assert_eq!(bodiless, report.bodies_lost, "{what}");
    lost
}

#[test]
fn a_flipped_bit_in_any_file_is_seen_and_never_loses_a_frame_silently() {
    let (mut seen, mut lost) = (BTreeMap::<Seen, u64>::new(), 0);
    for seed in 0..400 {
        let (vfs, ids) = settled(seed % 8);
        vfs.set_cut(Cut::Nothing);
        let mut chance = Chance(seed.wrapping_mul(77));
        let files: Vec<PathBuf> =
            vfs.files().into_iter().filter(|path| !path.to_string_lossy().contains("spare")).collect();
        let file = &files[chance.below(files.len() as u64) as usize];
        let mut octets = vfs.contents(file).unwrap();
        let place = chance.below(octets.len() as u64) as usize;
        octets[place] ^= 1 << chance.below(8);
        vfs.put(file, &octets);
        let what = format!("seed {seed}, {} at {place}", file.display());
        let how = read_all_after_rot(seed % 8, &vfs, ids, &what);
        *seen.entry(how).or_default() += 1;
        if how != Seen::Harmless {
            lost += lost_after_repair(seed % 8, &vfs, ids, &what);
        }
    }
    println!("{seen:?}, {lost} frames lost after repair");
    assert!(seen.keys().len() == 4, "every kind was met: {seen:?}");
    // Only a flip in the head of a frame takes it, and those of the same append or batch behind it, away.
    assert!(lost < 60, "{lost}");
}

#[test]
fn sidecars_that_are_deleted_cut_swapped_or_replaced_hide_no_key() {
    for seed in 0..60 {
        let (vfs, ids) = settled(seed % 8);
        let mut chance = Chance(seed.wrapping_mul(131));
        let sidecars: Vec<PathBuf> = vfs
            .files()
            .into_iter()
            .filter(|path| path.extension().is_some_and(|ending| ending == "keys"))
            .collect();
        for sidecar in &sidecars {
            let octets = vfs.contents(sidecar).unwrap();
            let other = &sidecars[chance.below(sidecars.len() as u64) as usize];
            match chance.below(5) {
                0 => vfs.take(sidecar),
                1 => vfs.put(sidecar, &octets[..chance.below(octets.len() as u64) as usize]),
                2 => vfs.put(sidecar, &vfs.contents(other).unwrap_or_default()),
                3 => vfs.put(sidecar, &vec![0; octets.len()]),
                _ => {}
            }
        }
        let story = Story { vfs, ..Story::new(seed % 8) };
        let journal = story.open().unwrap();
        (0..ids).for_each(|id| story.check_found(&journal, id));
        assert_eq!(journal.range(b'm', [0; 16], usize::MAX).unwrap().len() as u64, ids);
    }
}

/// A journal on the disk with sled, all work on this thread.
fn open_with_sled(root: &Path) -> Journal {
    std::fs::write(root.join("boot_id"), "the same boot").unwrap();
    let options = JournalOptions {
        segment_bytes: SEGMENT,
        reserve_bytes: 0,
        work: Work::Inline,
        index: IndexChoice::Sled(root.join("data/index")),
        boot_id_path: root.join("boot_id"),
        ..JournalOptions::new(at(0))
    };
    let journal = Journal::open(Arc::new(RealVfs), &root.join("data"), options, &mut |_, _| {}).unwrap().0;
    journal.pump();
    journal
}

fn fill(journal: &Journal, ids: std::ops::Range<u64>) {
    for id in ids {
        journal.append(vec![frame(5, id)]).wait().unwrap();
    }
}

fn check_all(journal: &Journal, ids: u64, what: &str) {
    for id in 0..ids {
        let places = journal.find(&key(id)).unwrap();
        assert!(!places.is_empty(), "{what}: {id}");
        assert!(journal.read(places[0]).unwrap().frame == frame(5, id), "{what}: {id}");
    }
}

fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            files.extend(files_below(&entry.path()));
        } else {
            files.push(entry.path());
        }
    }
    files.sort();
    files
}

#[test]
fn the_index_is_used_kept_over_restarts_and_follows_purge() {
    let place = tempfile::tempdir().unwrap();
    let journal = open_with_sled(place.path());
    fill(&journal, 0..120);
    journal.pump();
    assert_eq!(journal.health().index, IndexState::Ready);
    journal.close().unwrap();
    drop(journal);
    let journal = open_with_sled(place.path());
    assert_eq!(journal.health().index, IndexState::Ready);
    assert!(place.path().join("data/index/gen-0001").is_dir(), "the same generation");
    let all = PurgeBudget { segments: 2, octets: u64::MAX };
    assert_eq!(journal.purge(at(500), all, &|_, _| Keep::Forward).unwrap().segments, 2);
    journal.rebuild_index();
    journal.pump();
    assert_eq!(journal.health().index, IndexState::Ready);
    assert!(place.path().join("data/index/gen-0002").is_dir(), "a new generation");
    check_all(&journal, 120, "after purge and rebuild");
    assert_eq!(journal.health().index_faults, 0);
}

#[test]
fn a_sabotaged_index_costs_no_key() {
    let place = tempfile::tempdir().unwrap();
    let (pristine, older) = (place.path().join("pristine"), place.path().join("older"));
    let journal = open_with_sled(place.path());
    fill(&journal, 0..60);
    journal.close().unwrap();
    drop(journal);
    copy_dir(&place.path().join("data/index"), &older);
    let journal = open_with_sled(place.path());
    fill(&journal, 60..120);
    journal.close().unwrap();
    drop(journal);
    copy_dir(&place.path().join("data"), &pristine);

    let mut chance = Chance(9);
    let mut faults = 0;
    for round in 0..24 {
        let data = place.path().join("data");
        std::fs::remove_dir_all(&data).unwrap();
        copy_dir(&pristine, &data);
        let index = data.join("index");
        let files = files_below(&index);
        let file = &files[chance.below(files.len() as u64) as usize];
        let octets = std::fs::read(file).unwrap();
        match round % 6 {
            0 => std::fs::remove_dir_all(&index).unwrap(),
            1 => {
                std::fs::remove_dir_all(&index).unwrap();
                copy_dir(&older, &index);
            }
            2 => std::fs::write(data.join("CHECKPOINT"), b"nonsense").unwrap(),
            3 => std::fs::write(file, &octets[..chance.below(octets.len() as u64 + 1) as usize]).unwrap(),
            4 => std::fs::remove_file(file).unwrap(),
            _ => {
                let mut octets = octets;
                for _ in 0..50 {
                    let at = chance.below(octets.len().max(1) as u64) as usize;
                    octets[at] ^= 1 << chance.below(8);
                }
                std::fs::write(file, octets).unwrap();
            }
        }
        let what = format!("round {round}, {}", file.display());
        let journal = open_with_sled(place.path());
        check_all(&journal, 120, &what);
        faults += journal.health().index_faults;
        journal.pump();
        check_all(&journal, 120, &what);
        fill(&journal, 120..125);
        check_all(&journal, 125, &what);
    }
    assert!(faults > 0, "an older copy is noticed by what it lacks");
}

#[test]
fn after_a_machine_crash_the_index_is_made_anew() {
    let place = tempfile::tempdir().unwrap();
    let journal = open_with_sled(place.path());
    fill(&journal, 0..60);
    let data = place.path().join("data");
    // The process died: LOCK is not clean.
    let lock = std::fs::read(data.join("LOCK")).unwrap();
    journal.close().unwrap();
    drop(journal);
    std::fs::write(data.join("LOCK"), &lock).unwrap();
    let journal = open_with_sled(place.path());
    assert!(data.join("index/gen-0001").is_dir(), "the same boot: taken over");
    check_all(&journal, 60, "process crash");
    journal.close().unwrap();
    drop(journal);
    let mut other_boot = lock;
    other_boot[20] ^= 1;
    std::fs::write(data.join("LOCK"), &other_boot).unwrap();
    let journal = open_with_sled(place.path());
    assert!(data.join("index/gen-0002").is_dir() && data.join("quarantine/gen-0001").is_dir());
    check_all(&journal, 60, "machine crash");
    assert_eq!(journal.health().index, IndexState::Ready);
}
