//! The journal as a whole, on the real file system and on the one that forgets.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use super::*;
use crate::{
    model::{Span, Timestamp},
    store::vfs::{Cut, Directories, Faults, FaultyVfs, RealVfs, Vfs},
};

const SEGMENT: u64 = 64 << 10;
const DIR: &str = "/data";

fn at(days: u64) -> Timestamp {
    Timestamp::from_millis(0).plus(Span::days(days))
}

fn key(n: u64) -> Key {
    Key::new(b'm', u128::from(n).to_be_bytes())
}

fn frame(n: u64, body: usize) -> Frame {
    Frame {
        kind: FrameKind(1),
        class: Class::New,
        received_at: at(n),
        expires: Expiry::At(at(n + 30)),
        keys: vec![key(n)],
        head: format!("head {n}").into_bytes().into(),
        body: vec![u8::try_from(n % 251).unwrap(); body].into(),
    }
}

fn options(work: Work) -> JournalOptions {
    JournalOptions { segment_bytes: SEGMENT, reserve_bytes: 0, work, ..JournalOptions::new(at(0)) }
}

fn open_with(vfs: &dyn Fn() -> Arc<dyn Vfs>, dir: &Path, options: JournalOptions) -> Journal {
    Journal::open(vfs(), dir, options, &mut |_, _| {}).unwrap().0
}

fn open(vfs: &FaultyVfs) -> Journal {
    open_with(&|| Arc::new(vfs.clone()), Path::new(DIR), options(Work::Inline))
}

fn forgetful() -> FaultyVfs {
    FaultyVfs::new(1, Cut::All, Directories::Strict)
}

fn put(journal: &Journal, n: u64, body: usize) -> Location {
    journal.append(vec![frame(n, body)]).wait().unwrap().locations[0]
}

fn check_found(journal: &Journal, n: u64, body: usize) {
    let places = journal.find(&key(n)).unwrap();
    assert_eq!(places.len(), 1, "key {n}: {places:?}");
    assert_eq!(journal.read(places[0]).unwrap().frame, frame(n, body), "key {n}");
}

fn path(name: &str) -> PathBuf {
    Path::new(DIR).join("journal").join(name)
}

#[test]
fn what_was_appended_is_found_over_many_segments_and_restarts() {
    let vfs = forgetful();
    let journal = open(&vfs);
    for n in 0..60 {
        put(&journal, n, 5000);
    }
    assert!(journal.health().segments > 4);
    (0..60).for_each(|n| check_found(&journal, n, 5000));
    journal.close().unwrap();
    drop(journal);
    let (journal, report) =
        Journal::open(Arc::new(vfs.reboot()), Path::new(DIR), options(Work::Inline), &mut |_, _| {}).unwrap();
    assert!(report.clean && report.rewritten == 0, "{report:?}");
    (0..60).for_each(|n| check_found(&journal, n, 5000));
    assert_eq!(journal.verify(&mut |_, _| {}).unwrap().faults, []);
}

#[test]
fn threads_commit_in_groups_and_every_ticket_resolves() {
    let place = tempfile::tempdir().unwrap();
    let journal = open_with(&|| Arc::new(RealVfs), place.path(), options(Work::Threads));
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let journal = &journal;
            scope.spawn(move || {
                (0..40).for_each(|n| {
                    put(journal, thread * 100 + n, 900);
                })
            });
        }
    });
    for thread in 0..8 {
        (0..40).for_each(|n| check_found(&journal, thread * 100 + n, 900));
    }
    assert!(journal.append_relaxed(vec![frame(5000, 1)]).is_ok());
    journal.close().unwrap();
    assert!(matches!(journal.append(vec![frame(1, 1)]).wait(), Err(JournalError::Closed)));
    drop(journal);
    let journal = open_with(&|| Arc::new(RealVfs), place.path(), options(Work::Threads));
    check_found(&journal, 5000, 1);
    check_found(&journal, 739, 900);
}

#[test]
fn a_ticket_is_a_future() {
    let place = tempfile::tempdir().unwrap();
    let journal = open_with(&|| Arc::new(RealVfs), place.path(), options(Work::Threads));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let committed = runtime.block_on(journal.append(vec![frame(1, 10), frame(2, 10)])).unwrap();
    assert_eq!(committed.locations.len(), 2);
}

#[test]
fn a_frame_longer_than_a_segment_gets_one_of_its_own() {
    let vfs = forgetful();
    let journal = open(&vfs);
    put(&journal, 1, 100);
    put(&journal, 2, 1 << 20);
    put(&journal, 3, 100);
    drop(journal);
    let journal = open(&vfs.reboot());
    [(1, 100), (2, 1 << 20), (3, 100)].into_iter().for_each(|(n, body)| check_found(&journal, n, body));
}

#[test]
fn an_append_above_the_limit_is_refused_and_one_at_it_is_taken() {
    let vfs = forgetful();
    let journal = open(&vfs);
    let empty = frame(1, 0).encoded_len();
    put(&journal, 1, FRAME_MAX - empty);
    let refused = journal.append(vec![frame(2, FRAME_MAX - empty + 1)]).wait();
    assert!(matches!(refused, Err(JournalError::TooLarge { .. })));
    check_found(&journal, 1, FRAME_MAX - empty);
}

#[test]
fn nothing_that_was_acknowledged_goes_with_the_power() {
    let vfs = forgetful();
    let journal = open(&vfs);
    put(&journal, 1, 700);
    put(&journal, 2, 700);
    let vfs = vfs.reboot();
    let journal = open(&vfs);
    check_found(&journal, 1, 700);
    check_found(&journal, 2, 700);
}

#[test]
fn frames_that_nothing_proves_are_written_again_before_they_are_served() {
    let vfs = forgetful();
    let journal = open(&vfs);
    put(&journal, 1, 700);
    // The batch of frame 2 stays in the page cache: its sync fails and never reached the disk.
    vfs.set_faults(Faults { sync_fails_at: Some(1), ..Faults::default() });
    let failed = journal.append(vec![frame(2, 700)]).wait();
    assert!(matches!(failed, Err(JournalError::Poisoned(_))), "{failed:?}");
    vfs.set_cut(Cut::Nothing);
    let vfs = vfs.reboot();
    let (journal, report) =
        Journal::open(Arc::new(vfs.clone()), Path::new(DIR), options(Work::Inline), &mut |_, _| {}).unwrap();
    assert_eq!(report.rewritten, 1);
    check_found(&journal, 2, 700);
    vfs.set_cut(Cut::All);
    let journal = open(&vfs.reboot());
    check_found(&journal, 1, 700);
    check_found(&journal, 2, 700);
}

#[test]
fn a_failed_sync_ends_the_journal_for_good_and_everyone_is_told() {
    let vfs = forgetful();
    let journal = open(&vfs);
    let failure = journal.failure();
    vfs.set_faults(Faults { sync_fails_at: Some(1), ..Faults::default() });
    assert!(journal.append(vec![frame(1, 10)]).wait().is_err());
    let written = vfs.operations();
    assert!(matches!(journal.append(vec![frame(2, 10)]).wait(), Err(JournalError::Poisoned(_))));
    assert!(journal.append_relaxed(vec![frame(3, 10)]).is_err());
    assert!(journal.poisoned() && !journal.accepting());
    assert!(matches!(failure.wait(), JournalError::Poisoned(_)));
    assert!(journal.health().failure.is_some());
    assert_eq!(vfs.operations(), written, "nothing is written again");
    assert!(journal.close().is_err());
}

#[test]
fn a_full_disk_refuses_new_frames_takes_those_that_free_room_and_recovers() {
    let vfs = forgetful();
    let journal = open(&vfs);
    let used: usize = vfs.files().iter().map(|file| vfs.contents(file).unwrap().len()).sum();
    vfs.set_faults(Faults { capacity: Some(used as u64), ..Faults::default() });
    let mut n = 0;
    while journal.append(vec![frame(n, 5000)]).wait().is_ok() {
        n += 1;
        assert!(n < 100, "the disk never filled");
    }
    assert!(!journal.accepting() && !journal.poisoned());
    assert!(matches!(journal.append(vec![frame(n, 5000)]).wait(), Err(JournalError::Full)));
    let freeing = Frame { class: Class::Freeing, ..frame(n + 1, 5000) };
    journal.append(vec![freeing.clone()]).wait().unwrap();
    (0..n).for_each(|n| check_found(&journal, n, 5000));
    vfs.set_faults(Faults::default());
    journal.pump();
    assert!(journal.accepting());
    put(&journal, n, 5000);
    check_found(&journal, n, 5000);
    assert_eq!(journal.find(&key(n + 1)).unwrap().len(), 1);
}

#[test]
fn below_the_reserve_nothing_new_is_asked_for() {
    let vfs = forgetful();
    let with_reserve = JournalOptions { reserve_bytes: 1 << 20, ..options(Work::Inline) };
    let journal = open_with(&|| Arc::new(vfs.clone()), Path::new(DIR), with_reserve);
    journal.pump();
    let used: usize = vfs.files().iter().map(|file| vfs.contents(file).unwrap().len()).sum();
    vfs.set_faults(Faults { capacity: Some((used + (1 << 20)) as u64), ..Faults::default() });
    assert!(journal.accepting());
    vfs.set_faults(Faults { capacity: Some((used + (1 << 20)) as u64 - 1), ..Faults::default() });
    assert!(!journal.accepting());
}

fn rotten(vfs: &FaultyVfs, name: &str, offset: usize) {
    let mut octets = vfs.contents(&path(name)).unwrap();
    octets[offset] ^= 0x40;
    vfs.put(&path(name), &octets);
}

fn refusal(vfs: &FaultyVfs) -> JournalError {
    Journal::open(Arc::new(vfs.clone()), Path::new(DIR), options(Work::Inline), &mut |_, _| {}).unwrap_err()
}

#[test]
fn damage_before_the_proven_end_refuses_the_start_and_names_the_repair() {
    let vfs = forgetful();
    let journal = open(&vfs);
    let places: Vec<Location> = (0..3).map(|n| put(&journal, n, 700)).collect();
    vfs.set_cut(Cut::Nothing);
    let vfs = vfs.reboot();
    drop(journal);
    for (n, place) in places.iter().enumerate() {
        let whole = vfs.contents(&path("00000001.seg")).unwrap();
        rotten(&vfs, "00000001.seg", place.offset as usize + 300);
        let refused = refusal(&vfs);
        let JournalError::Damaged { segment: 1, offset, .. } = refused else { panic!("{n}: {refused}") };
        assert!(offset <= u64::from(place.offset));
        assert!(refused.to_string().contains("oncepoint store repair"));
        vfs.put(&path("00000001.seg"), &whole);
    }
    rotten(&vfs, "00000001.seg", 9);
    assert!(matches!(refusal(&vfs), JournalError::Damaged { segment: 1, offset: 0, .. }));
}

#[test]
fn a_torn_tail_is_kept_for_inspection_and_never_comes_back() {
    let vfs = forgetful();
    let journal = open(&vfs);
    put(&journal, 1, 700);
    let next = put(&journal, 2, 700);
    vfs.set_cut(Cut::Nothing);
    let vfs = vfs.reboot();
    drop(journal);
    // What a torn write leaves: the batch of frame 3 without its first sector, over the note of the last proof.
    let tail = usize::try_from(u64::from(next.offset + next.length).next_multiple_of(512)).unwrap();
    let mut octets = vfs.contents(&path("00000001.seg")).unwrap();
    octets[tail..tail + 2000].fill(0xAB);
    vfs.put(&path("00000001.seg"), &octets);
    let (journal, report) =
        Journal::open(Arc::new(vfs.clone()), Path::new(DIR), options(Work::Inline), &mut |_, _| {}).unwrap();
    assert_eq!((report.torn_octets, report.rewritten), (2000, 1));
    check_found(&journal, 1, 700);
    check_found(&journal, 2, 700);
    journal.pump();
    assert!(vfs.files().iter().any(|file| file.extension().is_some_and(|ending| ending == "torn")));
    let cut = vfs.contents(&path("00000001.seg")).unwrap();
    assert!(cut.len() <= tail && !cut.contains(&0xAB), "cut to its valid end");
}

#[test]
fn a_missing_segment_is_noticed_and_a_purged_one_is_not_missed() {
    let vfs = forgetful();
    let journal = open(&vfs);
    (0..60).for_each(|n| {
        put(&journal, n, 5000);
    });
    let budget = PurgeBudget { segments: 1, octets: u64::MAX };
    let stats = journal.purge(at(60), budget, &|_, _| Keep::Drop).unwrap();
    assert_eq!((stats.segments, stats.forwarded), (1, 0));
    assert!(stats.left > 0, "the budget was kept");
    let vfs = vfs.reboot();
    assert!(vfs.contents(&path("00000001.seg")).is_none());
    drop(open(&vfs));
    vfs.take(&path("00000003.seg"));
    assert!(matches!(refusal(&vfs.reboot()), JournalError::Missing { segment: 3 }));
}

#[test]
fn purge_copies_forward_what_is_still_needed_with_its_number() {
    let vfs = forgetful();
    let journal = open(&vfs);
    let counter = Frame { expires: Expiry::Never, keys: vec![key(1000)], ..frame(7, 40) };
    journal.append(vec![counter.clone()]).wait().unwrap();
    (0..30).for_each(|n| {
        put(&journal, n, 5000);
    });
    let kept = journal.read(journal.find(&key(3)).unwrap()[0]).unwrap();
    let budget = PurgeBudget { segments: 9, octets: u64::MAX };
    let keep = |frame: &FrameRef<'_>, _: Location| match frame.keys().next() {
        Some(found) if found == key(3) || found == key(1000) => Keep::Forward,
        Some(found) if found == key(4) => {
            let shorter = Frame { body: bytes::Bytes::new(), ..frame.to_frame() };
            Keep::Replace(Box::new(shorter))
        }
        _ => Keep::Drop,
    };
    let stats = journal.purge(at(42), budget, &keep).unwrap();
    assert_eq!((stats.segments, stats.forwarded), (1, 3));
    assert_eq!(journal.purge(at(42), budget, &keep).unwrap(), PurgeStats::default());
    let check = |journal: &Journal| {
        assert_eq!(journal.find(&key(5)).unwrap(), []);
        let places = journal.find(&key(3)).unwrap();
        assert_eq!(journal.read(places[0]).unwrap(), kept);
        assert_eq!(places.len(), 1);
        assert_eq!(journal.read(journal.find(&key(4)).unwrap()[0]).unwrap().frame.body.len(), 0);
        assert_eq!(journal.read(journal.find(&key(1000)).unwrap()[0]).unwrap().frame, counter);
        check_found(journal, 20, 5000);
    };
    check(&journal);
    check(&open(&vfs.reboot()));
}

#[test]
fn a_place_in_a_purged_segment_is_gone_and_damage_to_a_body_leaves_the_head() {
    let vfs = forgetful();
    let journal = open(&vfs);
    let places: Vec<Location> = (0..30).map(|n| put(&journal, n, 5000)).collect();
    let budget = PurgeBudget { segments: 1, octets: u64::MAX };
    journal.purge(at(60), budget, &|_, _| Keep::Drop).unwrap();
    assert!(matches!(journal.read(places[0]), Err(JournalError::Gone { segment: 1 })));
    drop(journal);
    let vfs = vfs.reboot();
    rotten(&vfs, "00000002.seg", places[14].offset as usize + 1000);
    rotten(&vfs, "00000002.seg", places[16].offset as usize + 45);
    let journal = open(&vfs);
    assert_eq!(places[14].segment, 2);
    assert!(matches!(journal.read(places[14]), Err(JournalError::BodyDamaged { segment: 2, .. })));
    let head = journal.read_head(places[14]).unwrap().frame;
    assert_eq!((head.keys, head.head), (vec![key(14)], frame(14, 0).head));
    assert!(matches!(journal.read_head(places[16]), Err(JournalError::Damaged { segment: 2, .. })));
    let faults = journal.verify(&mut |_, _| {}).unwrap().faults;
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert!(journal.scan(&mut |_, _| {}).is_err());
}

#[test]
fn a_listing_is_in_the_order_of_keys_across_segments_and_pages() {
    let vfs = forgetful();
    let journal = open(&vfs);
    for n in 0..200u64 {
        let mut shuffled = frame(n, 900);
        shuffled.keys = vec![key(n * 7919 % 200), Key::new(b'z', [1; 16])];
        journal.append(vec![shuffled]).wait().unwrap();
    }
    let (mut from, mut seen) = ([0; 16], Vec::new());
    loop {
        let page = journal.range(b'm', from, 37).unwrap();
        let Some((last, _)) = page.last() else { break };
        from = (u128::from_be_bytes(*last) + 1).to_be_bytes();
        seen.extend(page.iter().map(|(id, _)| u64::try_from(u128::from_be_bytes(*id)).unwrap()));
    }
    assert_eq!(seen, (0..200).collect::<Vec<_>>());
    let mut count = 0;
    journal.for_each_key(b'z', &mut |_, _| count += 1).unwrap();
    assert_eq!((count, journal.range(b'z', [0; 16], 1000).unwrap().len()), (200, 200));
    assert_eq!(journal.find(&Key::new(b'z', [1; 16])).unwrap().len(), 200);
}

#[test]
fn a_missing_or_damaged_sidecar_is_made_anew_and_no_key_is_missed() {
    let vfs = forgetful();
    let journal = open(&vfs);
    (0..80).for_each(|n| {
        put(&journal, n, 5000);
    });
    drop(journal);
    let vfs = vfs.reboot();
    vfs.take(&path("00000001.keys"));
    let foot = vfs.contents(&path("00000002.keys")).unwrap().len() - 60;
    rotten(&vfs, "00000002.keys", foot);
    rotten(&vfs, "00000003.keys", 40);
    let other = vfs.contents(&path("00000005.keys")).unwrap();
    vfs.put(&path("00000004.keys"), &other);
    let alarms = Arc::new(AtomicU64::new(0));
    let heard = Arc::clone(&alarms);
    let alarm = Arc::new(move |_: &str| {
        heard.fetch_add(1, Ordering::Relaxed);
    });
    let with_alarm = JournalOptions { alarm, ..options(Work::Pumped) };
    let (journal, report) =
        Journal::open(Arc::new(vfs.clone()), Path::new(DIR), with_alarm, &mut |_, _| {}).unwrap();
    assert_eq!(report.sidecars_rebuilt, 3, "the fourth is only noticed when it is looked into");
    (0..80).for_each(|n| check_found(&journal, n, 5000));
    assert!(journal.health().index_faults > 0 && alarms.load(Ordering::Relaxed) > 0);
    assert_eq!(journal.range(b'm', [0; 16], 100).unwrap().len(), 80);
    journal.pump();
    let faults = journal.health().index_faults;
    (0..80).for_each(|n| check_found(&journal, n, 5000));
    assert_eq!(journal.health().index_faults, faults, "it was mended");
}

#[test]
fn syncs_are_measured_with_the_clock_that_was_given() {
    let ticks = Arc::new(Mutex::new(0));
    let clock: Monotonic = Arc::new(move || {
        let mut ticks = ticks.lock().unwrap();
        *ticks += 1;
        Duration::from_millis(*ticks * 10)
    });
    let vfs = forgetful();
    let measured = JournalOptions { monotonic: clock, ..options(Work::Inline) };
    let journal = open_with(&|| Arc::new(vfs.clone()), Path::new(DIR), measured);
    put(&journal, 1, 1);
    let health = journal.health();
    assert_eq!((health.sync_p50, health.sync_p99), (Duration::from_millis(10), Duration::from_millis(10)));
    assert_eq!((health.index, health.spares), (IndexState::Off, 2));
}

#[test]
fn a_second_opening_is_refused_while_the_first_is_open() {
    let vfs = forgetful();
    let journal = open(&vfs);
    assert!(matches!(refusal(&vfs), JournalError::InUse { .. }));
    drop(journal);
    drop(open(&vfs));
}

#[test]
fn a_repair_gives_up_a_missing_segment_and_mends_a_head() {
    let vfs = forgetful();
    let journal = open(&vfs);
    let places: Vec<Location> = (0..60).map(|n| put(&journal, n, 5000)).collect();
    journal.close().unwrap();
    drop(journal);
    let vfs = vfs.reboot();
    vfs.take(&path("00000003.seg"));
    rotten(&vfs, "00000002.seg", 20);
    rotten(&vfs, "00000006.seg", 20);
    assert!(matches!(refusal(&vfs), JournalError::Damaged { segment: 2, offset: 0, .. }));
    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let report = Journal::repair(&shared, Path::new(DIR), options(Work::Inline)).unwrap();
    assert_eq!(report.given_up, [3]);
    assert_eq!(report.covered.iter().map(|fault| fault.segment).collect::<Vec<_>>(), [2, 6]);
    let journal = open(&vfs.reboot());
    for (n, place) in (0..).zip(&places) {
        match place.segment {
            3 => assert_eq!(journal.find(&key(n)).unwrap(), []),
            _ => check_found(&journal, n, 5000),
        }
    }
    assert_eq!(journal.verify(&mut |_, _| {}).unwrap().faults, []);
}

#[test]
fn look_ups_miss_nothing_while_segments_are_sealed_purged_and_copied_forward() {
    let place = tempfile::tempdir().unwrap();
    let index = IndexChoice::Sled(place.path().join("index"));
    let busy = JournalOptions { segment_bytes: 16 << 10, index, ..options(Work::Threads) };
    let journal = open_with(&|| Arc::new(RealVfs), &place.path().join("data"), busy);
    let (written, ended) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..400 {
                put(&journal, n, 700);
                written.store(n + 1, Ordering::Release);
            }
            ended.store(1, Ordering::Release);
        });
        scope.spawn(|| {
            while ended.load(Ordering::Acquire) == 0 {
                let budget = PurgeBudget { segments: 2, octets: u64::MAX };
                journal.purge(at(10_000), budget, &|_, _| Keep::Forward).unwrap();
            }
        });
        scope.spawn(|| {
            let mut step = 0;
            while ended.load(Ordering::Acquire) == 0 {
                step += 1;
                let known = written.load(Ordering::Acquire);
                let n = step * 7919 % known.max(1);
                let read = || journal.find(&key(n)).unwrap().last().map(|place| journal.read(*place));
                let found = std::iter::from_fn(|| Some(read()))
                    .find(|read| !matches!(read, Some(Err(JournalError::Gone { .. }))));
                if known > 0 {
                    assert_eq!(found.unwrap().expect("never missed").unwrap().frame, frame(n, 700));
                }
            }
        });
    });
    assert_eq!(journal.health().index_faults, 0);
    journal.close().unwrap();
}
