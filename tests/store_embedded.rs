//! The embedded store alone: what damage, restarts and purge do to what is on the disk.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking"
)]

mod store_support;

use std::{path::Path, sync::Arc};

use oncepoint::{
    model::Scope,
    store::{
        Ack, AckResult, AnswerError, Claim, INLINE_BYTES_MAX, OpenError, Purge, RECORDS_PER_MESSAGE_MAX,
        RecordState, Store, StoreError,
        journal::{JournalError, Work},
        vfs::{Cut, Directories, FaultyVfs, Vfs},
    },
};
use store_support::*;

/// Messages that fill several segments of the tests' size.
const MANY: u64 = 150;

fn disk() -> FaultyVfs {
    FaultyVfs::new(3, Cut::All, Directories::Strict)
}

fn open_on(vfs: &FaultyVfs) -> Result<Store, OpenError> {
    let vfs: Arc<dyn Vfs> = Arc::new(vfs.clone());
    open(&vfs, Work::Threads)
}

/// Closed in order, and opened again.
fn reopened(vfs: &mut FaultyVfs, store: Store) -> Store {
    store.close().unwrap();
    drop(store);
    *vfs = vfs.reboot();
    open_on(vfs).unwrap()
}

fn filled(vfs: &FaultyVfs) -> Store {
    let store = open_on(vfs).unwrap();
    run(async {
        for n in 1..=MANY {
            accept(&store, n, day(0)).await.unwrap();
        }
    });
    store
}

/// Changes one byte of the only place where `needle` stands in the journal.
fn damage(vfs: &FaultyVfs, needle: &str) {
    let mut hits = 0;
    for path in vfs.files() {
        let mut contents = vfs.contents(&path).unwrap();
        let at = contents.windows(needle.len()).position(|window| window == needle.as_bytes());
        if let Some(at) = at.filter(|_| path.extension().is_some_and(|end| end == "seg")) {
            contents[at + 1] ^= 1;
            vfs.put(&path, &contents);
            hits += 1;
        }
    }
    assert_eq!(hits, 1, "{needle} stands once");
}

#[test]
fn a_damaged_receipt_is_rebuilt_once_and_stays_over_restarts() {
    let mut vfs = disk();
    let store = filled(&vfs);
    store.close().unwrap();
    drop(store);
    damage(&vfs, &format!("<Receipt>1 at {}</Receipt>", day(0)));
    vfs = vfs.reboot();
    let store = open_on(&vfs).unwrap();
    assert_eq!(store.seen(&key("A", 1), Scope::PartyId).unwrap()[0].content, content(1, 1));
    assert_eq!(store.answer(item(1)), Err(AnswerError::Unreadable));
    assert!(store.answer(item(2)).is_ok());
    assert!(!store.verify().unwrap().findings.is_empty());
    let rebuilt = run(store.replace_answer(item(1), answer("rebuilt"), day(1)));
    assert_eq!(rebuilt, Ok(answer("rebuilt")));
    assert_eq!(store.answer(item(1)), Ok(answer("rebuilt")));
    let store = reopened(&mut vfs, store);
    assert_eq!(store.answer(item(1)), Ok(answer("rebuilt")));
    assert_eq!(run(store.replace_answer(item(1), answer("late"), day(2))), Ok(answer("rebuilt")));
    assert_eq!(run(lease(&store, 1, day(2)))[0].item.id, item(1), "it is still delivered");
}

#[test]
fn what_a_repeat_is_judged_by_is_never_guessed() {
    let mut vfs = disk();
    let store = filled(&vfs);
    store.close().unwrap();
    drop(store);
    damage(&vfs, "\"message_id\":\"1@test\"");
    vfs = vfs.reboot();
    // Either the store does not start, or it says that it cannot judge this message: never "new".
    match open_on(&vfs) {
        Err(_) => {}
        Ok(store) => {
            assert!(matches!(store.seen(&key("A", 1), Scope::PartyId), Err(StoreError::Damaged(_))));
            let claim = store.claim(&key("A", 1), Scope::PartyId, &[], day(1), PATIENCE);
            assert!(matches!(claim, Err(StoreError::Damaged(_))), "{claim:?}");
            assert_eq!(store.health().claims, 0);
            assert_eq!(store.seen(&key("A", 2), Scope::PartyId).unwrap().len(), 1);
        }
    }
}

#[test]
fn purge_gives_room_back_and_brings_nothing_back() {
    let mut vfs = disk();
    let store = filled(&vfs);
    run(async {
        let leased = lease(&store, MANY as usize, day(1)).await;
        let acks: Vec<Ack> = leased
            .iter()
            .filter(|leased| leased.item.id != item(3))
            .map(|leased| Ack { item: leased.item.id, lease: leased.lease, external_ref: None })
            .collect();
        assert!(store.ack(&acks, day(1)).await.unwrap().iter().all(|result| *result == AckResult::Acked));
        for n in 1000..1000 + MANY {
            accept(&store, n, day(60)).await.unwrap();
        }
    });
    let store = reopened(&mut vfs, store);
    let early = store.purge(&purge_order(day(89), Purge::Forced)).unwrap();
    assert_eq!((early.segments, early.dropped), (0, 0));
    let stats = store.purge(&purge_order(day(91), Purge::Forced)).unwrap();
    assert!(stats.segments >= 1 && stats.dropped >= MANY / 2, "{stats:?}");
    let forgotten =
        (1..=MANY).filter(|n| store.seen(&key("A", *n), Scope::PartyId).unwrap().is_empty()).count();
    assert!(forgotten > 0);
    let store = reopened(&mut vfs, store);
    assert!(store.answer(item(3)).is_ok(), "not taken by the backend");
    assert!((1000..1000 + MANY).all(|n| store.answer(item(n)).is_ok()), "in their window");
    let open: Vec<_> = run(lease(&store, 1000, day(92))).into_iter().map(|leased| leased.item.id).collect();
    let owed: Vec<_> = [3].into_iter().chain(1000..1000 + MANY).map(item).collect();
    assert_eq!(open, owed);
    assert_eq!(store.verify().unwrap().findings, Vec::<String>::new());
}

#[test]
fn payload_files_go_with_their_message_and_orphans_at_the_start() {
    let mut vfs = disk();
    let store = open_on(&vfs).unwrap();
    let blobs = |vfs: &FaultyVfs| {
        let blob = Path::new(DIR).join("blob");
        vfs.files().into_iter().filter(|path| path.starts_with(&blob)).count()
    };
    run(async {
        let large = payload(&store, 1, INLINE_BYTES_MAX + 1).unwrap();
        let fence = won(claim(&store, &key("A", 1), Scope::PartyId, day(0)));
        fence.accept(acceptance(1, day(0), Some(large))).await.unwrap();
        drop(payload(&store, 2, INLINE_BYTES_MAX + 1).unwrap());
        assert_eq!(blobs(&vfs), 1, "nobody came to name the second");
        std::mem::forget(payload(&store, 3, INLINE_BYTES_MAX + 1).unwrap());
        assert_eq!(blobs(&vfs), 2);
    });
    let store = reopened(&mut vfs, store);
    assert_eq!(blobs(&vfs), 1, "the orphan is gone");
    assert!(stored_payload(&store, 1) == payload_bytes(1, INLINE_BYTES_MAX + 1));
    run(async {
        let leased = lease(&store, 1, day(0)).await.remove(0);
        let ack = Ack { item: item(1), lease: leased.lease, external_ref: None };
        store.ack(&[ack], day(0)).await.unwrap();
    });
    let store = reopened(&mut vfs, store);
    let stats = store.purge(&purge_order(day(91), Purge::Forced)).unwrap();
    assert_eq!((stats.payload_files, blobs(&vfs)), (1, 0));
}

#[test]
fn a_damaged_payload_file_is_found() {
    let mut vfs = disk();
    let store = open_on(&vfs).unwrap();
    run(async {
        let large = payload(&store, 1, INLINE_BYTES_MAX + 1).unwrap();
        let fence = won(claim(&store, &key("A", 1), Scope::PartyId, day(0)));
        fence.accept(acceptance(1, day(0), Some(large))).await.unwrap();
    });
    let path = vfs.files().into_iter().find(|path| path.starts_with("/data/blob")).unwrap();
    let mut contents = vfs.contents(&path).unwrap();
    contents[5] ^= 1;
    vfs.put(&path, &contents);
    let store = reopened(&mut vfs, store);
    assert_eq!(store.verify().unwrap().findings.len(), 1);
    vfs.take(&path);
    assert!(matches!(store.payload(item(1)), Err(AnswerError::Unreadable)));
    assert!(store.answer(item(1)).is_ok(), "the receipt does not depend on it");
}

#[test]
fn counts_of_repeats_go_on_after_a_restart() {
    let mut vfs = disk();
    let mut store = open_on(&vfs).unwrap();
    run(accept(&store, 1, second(0))).unwrap();
    let mut n = 1000;
    for repeats in [RECORDS_PER_MESSAGE_MAX - 1, 3, 2] {
        for _ in 0..repeats {
            store.note(record(n, second(n), RecordState::RefusedDuplicate, Some(1)));
            n += 1;
        }
        store = reopened(&mut vfs, store);
    }
    let count = store.repeats(item(1)).unwrap().unwrap();
    assert_eq!((count.count, count.last_at), (RECORDS_PER_MESSAGE_MAX + 4, second(n - 1)));
}

#[test]
fn claims_are_forgotten_by_a_restart_and_the_directory_is_ours_alone() {
    let vfs = disk();
    let store = open_on(&vfs).unwrap();
    std::mem::forget(won(claim(&store, &key("A", 1), Scope::PartyId, day(0))));
    assert!(matches!(open_on(&vfs), Err(OpenError::Journal(JournalError::InUse { .. }))));
    let store = open_on(&vfs.reboot()).unwrap();
    assert!(matches!(claim(&store, &key("A", 1), Scope::PartyId, day(0)), Claim::Won(_)));
}

#[test]
fn the_real_disk_does_as_the_simulated_one() {
    let folder = tempfile::tempdir().unwrap();
    let vfs: Arc<dyn Vfs> = Arc::new(oncepoint::store::vfs::RealVfs);
    let dir = folder.path().join("data");
    let open = || Store::open(&vfs, &dir, options(Work::Threads)).unwrap().0;
    let store = open();
    run(async {
        for n in 1..=3 {
            accept(&store, n, day(0)).await.unwrap();
        }
        let large = payload(&store, 4, INLINE_BYTES_MAX + 1).unwrap();
        let fence = won(claim(&store, &key("A", 4), Scope::PartyId, day(0)));
        fence.accept(acceptance(4, day(0), Some(large))).await.unwrap();
        let leased = lease(&store, 1, day(0)).await.remove(0);
        store.ack(&[Ack { item: item(1), lease: leased.lease, external_ref: None }], day(0)).await.unwrap();
        let mut spool = store.spool(10);
        std::io::Write::write_all(&mut spool, &[7; 5000]).unwrap();
        let mut back = Vec::new();
        std::io::Read::read_to_end(&mut spool.into_reader(), &mut back).unwrap();
        assert!(back == [7; 5000]);
    });
    store.close().unwrap();
    drop(store);
    let store = open();
    assert!(stored_payload(&store, 4) == payload_bytes(4, INLINE_BYTES_MAX + 1));
    let open: Vec<_> = run(lease(&store, 9, day(1))).into_iter().map(|leased| leased.item.id).collect();
    assert_eq!(open, [item(2), item(3), item(4)]);
    assert_eq!(store.verify().unwrap().findings, Vec::<String>::new());
    assert_eq!(std::fs::read_dir(dir.join("tmp")).unwrap().count(), 0);
}
