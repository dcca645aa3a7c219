//! The store over a disk that crashes: at every changing operation of scripts drawn from seeds, in four ways
//! of losing what was not synced, again while it recovers; and over a disk that is full or fails to sync.
//! Together with `tests/journal_crash.rs` more than ten thousand crashes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking"
)]

mod store_support;

use std::sync::Arc;

use oncepoint::{
    model::Scope,
    store::{
        AcceptError, Claim, Store, StoreError,
        journal::Work,
        vfs::{Cut, Directories, Faults, FaultyVfs, Vfs},
    },
};
use store_support::{
    model::{Mutant, Run, Stop},
    *,
};

const CUTS: [Cut; 4] = [Cut::Nothing, Cut::All, Cut::Half, Cut::Torn];
/// Steps of a script before its crash, at most.
const STEPS: usize = 25;
/// Crashes that a mutant may survive before the suite counts as blind.
const MUTANT_CRASHES: u64 = 400;

fn open_on(vfs: &FaultyVfs) -> Result<Store, String> {
    let vfs: Arc<dyn Vfs> = Arc::new(vfs.clone());
    open(&vfs, Work::Pumped).map_err(|error| error.to_string())
}

/// What came of one script with one crash.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// The script ended before the crash.
    Ended,
    /// It crashed, recovered, and every promise held.
    Held,
    /// A promise was broken.
    Broken(String),
}

/// Where and how it crashes.
#[derive(Debug, Clone, Copy)]
struct Crash {
    seed: u64,
    /// In which changing operation.
    at: u64,
    /// Again in that operation of recovery.
    again_at: Option<u64>,
}

impl Crash {
    fn vfs(self) -> FaultyVfs {
        let directories =
            if self.seed.is_multiple_of(2) { Directories::Strict } else { Directories::Lenient };
        FaultyVfs::new(self.seed ^ (self.at << 20), CUTS[(self.at % 4) as usize], directories)
    }

    fn run(self, mutant: Mutant, shape: fn(Run) -> Run) -> Outcome {
        let vfs = self.vfs();
        let mut run = shape(Run::new(open_on(&vfs).unwrap(), self.seed, mutant));
        vfs.set_faults(Faults { crash_at: Some(self.at), ..Faults::default() });
        match run.steps(STEPS) {
            Ok(()) if !vfs.is_down() => return Outcome::Ended,
            Err(Stop::Broken(why)) if !vfs.is_down() => return Outcome::Broken(why),
            // What a store says over a dead disk reaches nobody.
            Ok(()) | Err(_) => {}
        }
        run.store = Store::memory();
        let mut vfs = vfs.reboot();
        if let Some(again_at) = self.again_at {
            vfs.set_faults(Faults { crash_at: Some(again_at), ..Faults::default() });
            drop(open_on(&vfs));
            vfs = vfs.reboot();
        }
        match open_on(&vfs).map(|store| run.recovered(store)) {
            Ok(Ok(())) => Outcome::Held,
            Ok(Err(stop)) => Outcome::Broken(format!("{stop:?}")),
            Err(why) => Outcome::Broken(format!("does not open: {why}")),
        }
    }
}

/// Crashes scripts at every `stride`th operation and says how often.
fn campaign(seeds: std::ops::Range<u64>, stride: u64, again: fn(u64) -> Option<u64>) -> u64 {
    let mut crashes = 0;
    for seed in seeds {
        for at in (1 + seed % stride..).step_by(stride as usize) {
            let crash = Crash { seed, at, again_at: again(at) };
            match crash.run(Mutant::None, |run| run) {
                Outcome::Held => crashes += 1,
                Outcome::Ended => break,
                Outcome::Broken(why) => panic!("{crash:?}: {why}"),
            }
        }
    }
    crashes
}

#[test]
fn nothing_promised_is_lost_wherever_it_crashes() {
    let crashes = campaign(0..24, 1, |_| None);
    println!("{crashes} crashes");
    assert!(crashes > 500, "{crashes}");
}

#[test]
fn a_crash_in_recovery_loses_nothing_either() {
    let crashes = campaign(100..124, 3, |at| Some(1 + at % 40));
    println!("{crashes} crashes");
    assert!(crashes > 200, "{crashes}");
}

#[test]
fn payload_files_are_whole_or_not_there() {
    let mut crashes = 0;
    for seed in 200..202 {
        for at in 1.. {
            let crash = Crash { seed, at, again_at: None };
            match crash.run(Mutant::None, Run::with_large_payloads) {
                Outcome::Held => crashes += 1,
                Outcome::Ended => break,
                Outcome::Broken(why) => panic!("{crash:?}: {why}"),
            }
        }
    }
    println!("{crashes} crashes");
    assert!(crashes > 50, "{crashes}");
}

#[test]
fn the_suite_sees_every_mutant() {
    for mutant in [Mutant::AnswerBeforeFlush, Mutant::TwoAppends, Mutant::AckBeforeFlush] {
        let mut crashes = 0..MUTANT_CRASHES;
        let seen = crashes.any(|n| {
            let crash = Crash { seed: n % 20, at: 1 + n / 2, again_at: None };
            matches!(crash.run(mutant, |run| run), Outcome::Broken(_))
        });
        assert!(seen, "{mutant:?} survived {MUTANT_CRASHES} crashes");
        println!("{mutant:?} after {} crashes", crashes.start);
    }
}

/// A store with one accepted message, and the disk below it.
fn one_accepted() -> (FaultyVfs, Store) {
    let vfs = FaultyVfs::new(7, Cut::All, Directories::Strict);
    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let store = open(&shared, Work::Threads).unwrap();
    run(accept(&store, 1, second(0))).unwrap();
    (vfs, store)
}

#[test]
fn a_failed_sync_poisons_the_store_and_repeats_are_still_answered() {
    let (vfs, store) = one_accepted();
    vfs.set_faults(Faults { sync_fails_at: Some(1), ..Faults::default() });
    let fence = won(claim(&store, &key("A", 2), Scope::PartyId, second(1)));
    let failed = run(fence.accept(acceptance(2, second(1), None)));
    assert!(matches!(failed, Err(AcceptError::Store(StoreError::Poisoned(_)))), "{failed:?}");
    assert!(matches!(run(store.failed()), StoreError::Poisoned(_)));
    let refused = store.claim(&key("A", 3), Scope::PartyId, &[], second(2), PATIENCE);
    assert!(matches!(refused, Err(StoreError::Poisoned(_))), "no id is taken");
    assert_eq!(store.health().claims, 0);
    assert!(!store.accepting());
    assert_eq!(store.seen(&key("A", 1), Scope::PartyId).unwrap().len(), 1);
    assert_eq!(store.answer(item(1)), Ok(acceptance(1, second(0), None).answer));
    drop(store);

    let store = open_on(&vfs.reboot()).unwrap();
    assert_eq!(store.answer(item(1)), Ok(acceptance(1, second(0), None).answer));
    assert!(matches!(claim(&store, &key("A", 3), Scope::PartyId, second(2)), Claim::Won(_)));
}

#[test]
fn a_full_disk_takes_no_id_answers_repeats_and_lets_the_backend_fetch() {
    let (vfs, store) = one_accepted();
    vfs.set_faults(Faults { capacity: Some(0), ..Faults::default() });
    let (mut refused, mut accepted) = (None, 1);
    for n in 2..2000 {
        match store.claim(&key("A", n), Scope::PartyId, &[], second(1), PATIENCE) {
            Ok(Claim::Won(fence)) => match run(fence.accept(acceptance(n, second(1), None))) {
                Ok(()) => accepted += 1,
                Err(error) => assert_eq!(error, AcceptError::Store(StoreError::Full)),
            },
            Ok(other) => panic!("{other:?}"),
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
    }
    assert_eq!(refused, Some(StoreError::Full));
    assert!(!store.accepting());
    assert_eq!(store.health().claims, 0);
    assert_eq!(store.answer(item(1)), Ok(acceptance(1, second(0), None).answer));
    let leased = run(lease(&store, 3, second(2)));
    // How many were accepted depends on how far the spare segments were when the disk filled up.
    assert_eq!(leased.len(), accepted.min(3), "what leads to room being freed still goes on");
    let payload = store.payload_writer(item(9999));
    drop(payload);
    let mut large = store.payload_writer(item(9999));
    let written = std::io::Write::write_all(&mut large, &vec![0; oncepoint::store::INLINE_BYTES_MAX + 1]);
    assert!(written.is_err(), "a payload file finds no room");
}
