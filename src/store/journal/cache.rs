//! sled as a cache over the sidecars: it may lose anything at any time (storage §3.3 I6).
//!
//! `index/gen-000N/` is one sled directory, `index/CURRENT` names it, `CHECKPOINT` says which segments it
//! surely holds. Everything here happens on the real file system, behind the journal's back and never in
//! anyone's way: while sled is opened, filled or dead, the sidecars answer.

use std::{
    collections::{BTreeSet, VecDeque},
    fmt, fs, io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{
    Alarm, IndexState, Key,
    checkpoint::Checkpoint,
    codec::Reader,
    home::Past,
    live::Spot,
    shared::locked,
    sidecar::{Sidecar, SidecarError},
};
use crate::store::vfs::{RealVfs, Vfs, replace};

/// Memory that sled may use for its pages, in octets (storage §2.4).
const CACHE_OCTETS: u64 = 16 << 20;
/// Most operations of one sled batch: memory explodes with more (storage §2.4).
const BATCH: usize = 500;
/// Octets on the disk that one key should take in sled.
const OCTETS_PER_KEY: u64 = 200;
/// A sled directory below this size is never too large, in octets.
const SMALL: u64 = 64 << 20;

/// Work for the cache.
#[derive(Debug)]
enum Task {
    /// Open what was there, and fill in what it lacks of these.
    Open(Vec<Arc<Sidecar>>),
    Add(Arc<Sidecar>),
    Remove(Arc<Sidecar>),
    /// Start a new generation from these.
    Rebuild(Vec<Arc<Sidecar>>),
    /// The same, when the directory is much larger than these need.
    Shrink(Vec<Arc<Sidecar>>),
}

/// What the cache knows of a key in a segment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Looked {
    /// Nothing can be said.
    Unknown,
    /// It should know and has nothing.
    Absent,
    Places(Vec<Spot>),
}

struct Held {
    db: Option<sled::Db>,
    generation: u64,
    applied: BTreeSet<u64>,
    state: IndexState,
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("generation", &self.generation).field("state", &self.state).finish()
    }
}

/// The cache, or none.
#[derive(Debug)]
pub(super) struct Cache(Option<SledCache>);

struct SledCache {
    index: PathBuf,
    root: PathBuf,
    past: Past,
    alarm: Alarm,
    tasks: Mutex<VecDeque<Task>>,
    wake: Condvar,
    ending: AtomicBool,
    held: RwLock<Held>,
}

impl fmt::Debug for SledCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SledCache").field("index", &self.index).finish_non_exhaustive()
    }
}

impl Cache {
    pub(super) fn none() -> Self {
        Self(None)
    }

    /// A cache in `index`; nothing is opened yet.
    pub(super) fn sled(root: &Path, index: &Path, past: Past, alarm: Alarm) -> Self {
        let held = Held { db: None, generation: 0, applied: BTreeSet::new(), state: IndexState::Building };
        Self(Some(SledCache {
            index: index.to_path_buf(),
            root: root.to_path_buf(),
            past,
            alarm,
            tasks: Mutex::default(),
            wake: Condvar::new(),
            ending: AtomicBool::new(false),
            held: RwLock::new(held),
        }))
    }

    fn push(&self, task: Task) {
        if let Some(cache) = &self.0 {
            locked(&cache.tasks).push_back(task);
            cache.wake.notify_all();
        }
    }

    pub(super) fn open(&self, sealed: Vec<Arc<Sidecar>>) {
        self.push(Task::Open(sealed));
    }

    pub(super) fn add(&self, sidecar: Arc<Sidecar>) {
        self.push(Task::Add(sidecar));
    }

    pub(super) fn remove(&self, sidecar: Arc<Sidecar>) {
        self.push(Task::Remove(sidecar));
    }

    /// Begins a new generation, unless one is being filled.
    pub(super) fn rebuild(&self, sealed: Vec<Arc<Sidecar>>) {
        if let Some(cache) = &self.0 {
            let mut held = cache.held_mut();
            if held.state != IndexState::Building {
                held.state = IndexState::Building;
                held.applied.clear();
                drop(held);
                self.push(Task::Rebuild(sealed));
            }
        }
    }

    pub(super) fn shrink(&self, sealed: Vec<Arc<Sidecar>>) {
        self.push(Task::Shrink(sealed));
    }

    pub(super) fn state(&self) -> IndexState {
        self.0.as_ref().map_or(IndexState::Off, |cache| cache.held().state)
    }

    /// Asks for the places of a key in a segment.
    pub(super) fn look(&self, key: &Key, segment: u64) -> Looked {
        let Some(cache) = &self.0 else { return Looked::Unknown };
        let held = cache.held();
        let Some(db) = held.db.as_ref().filter(|_| held.applied.contains(&segment)) else {
            return Looked::Unknown;
        };
        match guarded(|| db.get(sled_key(key, segment))) {
            Ok(Some(places)) => decode_places(&places).map_or(Looked::Unknown, Looked::Places),
            Ok(None) => Looked::Absent,
            Err(why) => {
                drop(held);
                cache.die(&why);
                Looked::Unknown
            }
        }
    }

    /// Works until the end.
    pub(super) fn run(&self) {
        if let Some(cache) = &self.0 {
            while let Some(task) = cache.wait_for_task() {
                cache.work(task);
            }
        }
    }

    /// Works off what is queued.
    pub(super) fn run_queued(&self) {
        if let Some(cache) = &self.0 {
            while let Some(task) = cache.next_task() {
                cache.work(task);
            }
        }
    }

    pub(super) fn end(&self) {
        if let Some(cache) = &self.0 {
            cache.ending.store(true, Ordering::Release);
            // Under the lock, so that the worker cannot miss it between its look and its wait.
            drop(locked(&cache.tasks));
            cache.wake.notify_all();
        }
    }

    /// Saves and closes sled; after the worker ended.
    pub(super) fn close(&self) {
        if let Some(cache) = &self.0 {
            cache.save();
            let db = cache.held_mut().db.take();
            if let Err(why) = guarded(|| {
                drop(db);
                Ok(())
            }) {
                (cache.alarm)(&format!("index: {why}"));
            }
        }
    }
}

/// Calls into sled, whose faults are sometimes panics.
fn guarded<T>(call: impl FnOnce() -> sled::Result<T>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err("sled panicked".to_owned()),
    }
}

fn sled_key(key: &Key, segment: u64) -> Vec<u8> {
    let mut octets = key.0.to_vec();
    octets.extend_from_slice(&segment.to_be_bytes());
    octets
}

fn encode_places(spots: &[Spot]) -> Vec<u8> {
    let numbers = spots.iter().flat_map(|spot| [spot.offset, spot.length]);
    numbers.flat_map(u32::to_le_bytes).collect()
}

fn decode_places(octets: &[u8]) -> Option<Vec<Spot>> {
    let mut reader = Reader::new(octets);
    let mut spots = Vec::with_capacity(octets.len() / 8);
    while let Some(offset) = reader.u32() {
        spots.push(Spot { offset, length: reader.u32()? });
    }
    (!spots.is_empty()).then_some(spots)
}

fn generation_name(generation: u64) -> String {
    format!("gen-{generation:04}")
}

impl SledCache {
    fn held(&self) -> RwLockReadGuard<'_, Held> {
        self.held.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn held_mut(&self) -> RwLockWriteGuard<'_, Held> {
        self.held.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }

    fn next_task(&self) -> Option<Task> {
        locked(&self.tasks).pop_front()
    }

    fn wait_for_task(&self) -> Option<Task> {
        let mut tasks = locked(&self.tasks);
        loop {
            if self.ending() {
                return None;
            }
            match tasks.pop_front() {
                Some(task) => return Some(task),
                None => tasks = self.wake.wait(tasks).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// sled is given up; sidecars answer from now on.
    fn die(&self, why: &str) {
        let mut held = self.held_mut();
        held.state = IndexState::Dead;
        held.applied.clear();
        let db = held.db.take();
        drop(held);
        let _ = guarded(|| {
            drop(db);
            Ok(())
        });
        (self.alarm)(&format!("the index failed and is not used until it is rebuilt: {why}"));
    }

    fn work(&self, task: Task) {
        let done = match task {
            Task::Open(sealed) => self.open(&sealed),
            Task::Rebuild(sealed) => self.start_over("rebuild").and_then(|()| self.fill(&sealed)),
            Task::Add(sidecar) if self.held().state == IndexState::Ready => self.apply(&sidecar),
            Task::Add(sidecar) => self.fill(&[sidecar]),
            Task::Remove(sidecar) => self.forget(&sidecar),
            Task::Shrink(sealed) => self.shrink(&sealed),
        };
        match done {
            Ok(()) if locked(&self.tasks).is_empty() => self.save(),
            Ok(()) => {}
            Err(why) => self.die(&why),
        }
    }

    /// Opens the generation that CHECKPOINT vouches for, or starts a new one.
    fn open(&self, sealed: &[Arc<Sidecar>]) -> Result<(), String> {
        let current = fs::read_to_string(self.index.join("CURRENT")).unwrap_or_default();
        let generation = current.trim().strip_prefix("gen-").and_then(|number| number.parse().ok());
        let vouched = Checkpoint::read(&self.root).filter(|saved| Some(saved.generation) == generation);
        self.held_mut().generation = generation.unwrap_or(0);
        match vouched {
            Some(saved) if self.past != Past::MachineDied => match self.open_sled(saved.generation) {
                Ok(db) => {
                    let there: BTreeSet<u64> = sealed.iter().map(|sidecar| sidecar.of.number).collect();
                    let mut held = self.held_mut();
                    held.applied = saved.segments.intersection(&there).copied().collect();
                    held.db = Some(db);
                }
                Err(why) => self.start_over(&why)?,
            },
            _ => self.start_over("not known to be whole")?,
        }
        self.fill(sealed)
    }

    fn open_sled(&self, generation: u64) -> Result<sled::Db, String> {
        let path = self.index.join(generation_name(generation));
        let config = sled::Config::new().path(path).cache_capacity(CACHE_OCTETS).flush_every_ms(None);
        guarded(|| config.open())
    }

    /// Moves the generation to quarantine and opens an empty one.
    fn start_over(&self, why: &str) -> Result<(), String> {
        let mut held = self.held_mut();
        let (old, db) = (held.generation, held.db.take());
        held.applied.clear();
        held.state = IndexState::Building;
        held.generation = old + 1;
        drop(held);
        guarded(|| {
            drop(db);
            Ok(())
        })?;
        self.replace_generation(old, why).map_err(|error| error.to_string())?;
        let db = self.open_sled(old + 1)?;
        self.held_mut().db = Some(db);
        Ok(())
    }

    fn replace_generation(&self, old: u64, why: &str) -> io::Result<()> {
        RealVfs.create_dir(&self.index)?;
        let quarantine = self.root.join("quarantine");
        RealVfs.create_dir(&quarantine)?;
        for entry in fs::read_dir(&quarantine)?.flatten() {
            // One is enough to look at.
            if entry.file_name().to_string_lossy().starts_with("gen-") {
                fs::remove_dir_all(entry.path())?;
            }
        }
        let name = generation_name(old);
        if self.index.join(&name).exists() {
            (self.alarm)(&format!("index {name} goes to quarantine: {why}"));
            fs::rename(self.index.join(&name), quarantine.join(&name))?;
        }
        for entry in fs::read_dir(&self.index)?.flatten().filter(|entry| entry.path().is_dir()) {
            fs::remove_dir_all(entry.path())?;
        }
        replace(&RealVfs, &self.index.join("CURRENT"), generation_name(old + 1).as_bytes())
    }

    /// Applies what is not in yet; ready when nothing is missing.
    fn fill(&self, sealed: &[Arc<Sidecar>]) -> Result<(), String> {
        for sidecar in sealed {
            let known = self.held().applied.contains(&sidecar.of.number);
            if !known && !self.ending() {
                self.apply(sidecar)?;
            }
        }
        let mut held = self.held_mut();
        if held.db.is_some() && !self.ending() {
            held.state = IndexState::Ready;
        }
        Ok(())
    }

    /// Puts one segment in, sorted and in small batches; a key's places in it are one entry, so that they are
    /// there all together or not at all.
    fn apply(&self, sidecar: &Sidecar) -> Result<(), String> {
        let Some(db) = self.held().db.clone() else { return Ok(()) };
        let mut batch = sled::Batch::default();
        let mut filled = 0;
        let done = each_key(sidecar, &mut |key, spots| {
            batch.insert(sled_key(&key, sidecar.of.number), encode_places(spots));
            filled += 1;
            if filled == BATCH {
                filled = 0;
                let full = std::mem::take(&mut batch);
                guarded(|| db.apply_batch(full))?;
            }
            if self.ending() { Err("ending".to_owned()) } else { Ok(()) }
        });
        if self.ending() {
            return Ok(());
        }
        if done? {
            guarded(|| db.apply_batch(batch))?;
            self.held_mut().applied.insert(sidecar.of.number);
        }
        Ok(())
    }

    /// Takes the keys of a purged segment out.
    fn forget(&self, sidecar: &Sidecar) -> Result<(), String> {
        let was = self.held_mut().applied.remove(&sidecar.of.number);
        let Some(db) = self.held().db.clone().filter(|_| was) else { return Ok(()) };
        let mut batch = sled::Batch::default();
        let mut filled = 0;
        let done = each_key(sidecar, &mut |key, _| {
            batch.remove(sled_key(&key, sidecar.of.number));
            filled += 1;
            if filled == BATCH {
                filled = 0;
                let full = std::mem::take(&mut batch);
                guarded(|| db.apply_batch(full))?;
            }
            if self.ending() { Err("ending".to_owned()) } else { Ok(()) }
        });
        if self.ending() {
            return Ok(());
        }
        done?;
        guarded(|| db.apply_batch(batch))
    }

    /// sled gives no space back, so a directory that became too large is made anew (storage §3.4).
    fn shrink(&self, sealed: &[Arc<Sidecar>]) -> Result<(), String> {
        let Some(db) = self.held().db.clone() else { return Ok(()) };
        let size = guarded(|| db.size_on_disk())?;
        drop(db);
        let keys: u64 = sealed.iter().map(|sidecar| sidecar.entries).sum();
        if size < SMALL || size <= keys.saturating_mul(3 * OCTETS_PER_KEY) {
            return Ok(());
        }
        self.start_over("too large for its keys")?;
        self.fill(sealed)
    }

    /// Makes what sled holds durable by our own syncs, then vouches for it.
    fn save(&self) {
        let (db, saved) = {
            let held = self.held();
            let saved = Checkpoint { generation: held.generation, segments: held.applied.clone() };
            (held.db.clone(), saved)
        };
        let Some(db) = db else { return };
        if Checkpoint::read(&self.root).as_ref() == Some(&saved) {
            return;
        }
        let path = self.index.join(generation_name(saved.generation));
        let done = guarded(|| db.flush()).and_then(|_| {
            sync_all_below(&path).and_then(|()| saved.write(&self.root)).map_err(|error| error.to_string())
        });
        if let Err(why) = done {
            drop(db);
            self.die(&why);
        }
    }
}

/// Told of a key and its places; an error ends the walk.
type OnKey<'a> = &'a mut dyn FnMut(Key, &[Spot]) -> Result<(), String>;

/// Calls for each key with its places; `false` when a block is damaged.
fn each_key(sidecar: &Sidecar, on: OnKey<'_>) -> Result<bool, String> {
    let mut group: Option<(Key, Vec<Spot>)> = None;
    for number in 0..sidecar.blocks() {
        let entries = match sidecar.block(number) {
            Ok(entries) => entries,
            Err(SidecarError::Damaged) => return Ok(false),
            Err(SidecarError::Io(error)) => return Err(error.to_string()),
        };
        for (key, spot) in entries {
            match &mut group {
                Some((held, spots)) if *held == key => spots.push(spot),
                _ => {
                    if let Some((key, spots)) = group.replace((key, vec![spot])) {
                        on(key, &spots)?;
                    }
                }
            }
        }
    }
    if let Some((key, spots)) = group {
        on(key, &spots)?;
    }
    Ok(true)
}

fn sync_all_below(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_all_below(&entry.path())?;
        } else {
            fs::File::open(entry.path())?.sync_all()?;
        }
    }
    fs::File::open(path)?.sync_all()
}
