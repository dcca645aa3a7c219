//! A file system in memory that forgets what was not synced, and fails on demand.
//!
//! The model: each page of [`PAGE`] octets that was written since the last completed sync of its file may come
//! back as it was, whole or torn at [`SECTOR`]; the length likewise; a name made, moved or removed lasts only
//! once its directory was synced. After a failed sync the pages stay readable, are never written, and the next
//! sync succeeds all the same, as Linux does it.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{LockState, OpenMode, Vfs, VfsFile};

/// Unit in which un-synced contents are lost, in octets.
const PAGE: usize = 4096;
/// Unit at which a page may be torn, in octets.
const SECTOR: usize = 512;
/// What is free when no capacity was set, in octets.
const BOUNDLESS: u64 = 1 << 50;

/// What a crash takes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Nothing: the process dies, the page cache stays (kill -9).
    Nothing,
    /// All that was not synced.
    All,
    /// A random half of the pages, a random number of the newest directory operations.
    Half,
    /// As `Half`, and pages may be torn between sectors.
    Torn,
}

/// When a name is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Directories {
    /// Once its own directory was synced (POSIX).
    Strict,
    /// Once any directory or file was synced (one ordered journal, as ext4 and XFS).
    Lenient,
}

/// What goes wrong, and when.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    /// The crash strikes in the operation with this number; the first changing operation is 1.
    pub crash_at: Option<u64>,
    /// The sync with this number fails with EIO; the first is 1.
    pub sync_fails_at: Option<u64>,
    /// Octets that all files together may have; growing beyond is ENOSPC.
    pub capacity: Option<u64>,
    /// Writes are cut short at random, once in so many.
    pub short_write_in: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    Possible,
    /// A sync failed over this page: it will surely be lost.
    Certain,
}

#[derive(Debug, Default)]
struct Inode {
    data: Vec<u8>,
    durable_len: usize,
    /// What each changed page holds on the disk.
    undo: BTreeMap<usize, (Vec<u8>, Loss)>,
    locked_by: Option<u64>,
}

impl Inode {
    fn page(&self, number: usize) -> Vec<u8> {
        let mut page = vec![0; PAGE];
        let held = self.data.get(number * PAGE..).unwrap_or_default();
        for (to, from) in page.chunks_mut(PAGE).zip(held.chunks(PAGE)) {
            if let Some(to) = to.get_mut(..from.len()) {
                to.copy_from_slice(from);
            }
        }
        page
    }

    fn touch(&mut self, from: usize, to: usize) {
        for number in from / PAGE..to.div_ceil(PAGE) {
            match self.undo.get_mut(&number) {
                Some((_, loss)) => *loss = Loss::Possible,
                None => {
                    let before = self.page(number);
                    self.undo.insert(number, (before, Loss::Possible));
                }
            }
        }
    }

    fn write(&mut self, data: &[u8], offset: usize) {
        let end = offset.saturating_add(data.len());
        self.touch(offset, end);
        if self.data.len() < end {
            self.data.resize(end, 0);
        }
        if let Some(into) = self.data.get_mut(offset..end) {
            into.copy_from_slice(data);
        }
    }

    fn set_len(&mut self, len: usize) {
        self.touch(len.min(self.data.len()), self.data.len());
        self.data.resize(len, 0);
    }

    fn sync(&mut self) {
        self.undo.retain(|_, (_, loss)| *loss == Loss::Certain);
        self.durable_len = self.data.len();
    }

    fn fail_sync(&mut self) {
        for (_, loss) in self.undo.values_mut() {
            *loss = Loss::Certain;
        }
    }

    fn cut(&mut self, cut: Cut, chance: &mut Chance) {
        let now = self.data.len();
        let (low, high) = (now.min(self.durable_len), now.max(self.durable_len));
        self.data.resize(high.max(now), 0);
        for (number, (before, loss)) in std::mem::take(&mut self.undo) {
            let sectors = before.chunks(SECTOR).zip(
                self.data.get_mut(number * PAGE..).unwrap_or_default().chunks_mut(SECTOR).take(PAGE / SECTOR),
            );
            let whole = chance.coin();
            for (old, new) in sectors {
                let lost = match cut {
                    Cut::Nothing => false,
                    Cut::All => true,
                    Cut::Half => whole,
                    Cut::Torn => chance.coin(),
                };
                if lost || loss == Loss::Certain {
                    let length = new.len();
                    new.copy_from_slice(old.get(..length).unwrap_or_default());
                }
            }
        }
        let len = match cut {
            Cut::Nothing => now,
            Cut::All => self.durable_len,
            Cut::Half | Cut::Torn => match chance.below(3) {
                0 => self.durable_len,
                1 => now,
                _ => low + chance.below(high - low + 1),
            },
        };
        self.data.resize(len, 0);
        self.durable_len = len;
    }
}

/// A small generator (`splitmix64`): the same seed, the same run.
#[derive(Debug)]
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn coin(&mut self) -> bool {
        self.next() & 1 == 1
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % (limit.max(1) as u64)).unwrap_or(0)
    }
}

#[derive(Debug)]
struct NameChange {
    before: Vec<(PathBuf, Option<usize>)>,
    unsynced: BTreeSet<PathBuf>,
}

#[derive(Debug)]
struct State {
    inodes: Vec<Inode>,
    names: BTreeMap<PathBuf, usize>,
    pending: Vec<NameChange>,
    chance: Chance,
    cut: Cut,
    directories: Directories,
    faults: Faults,
    operations: u64,
    syncs: u64,
    life: u64,
    down: bool,
    handles: u64,
}

/// Where in an operation the crash strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strike {
    None,
    Before,
    After,
}

fn powerless() -> io::Error {
    io::Error::other("the machine is down")
}

fn no_space() -> io::Error {
    io::ErrorKind::StorageFull.into()
}

impl State {
    fn alive(&self, life: u64) -> io::Result<()> {
        if self.down || life != self.life { Err(powerless()) } else { Ok(()) }
    }

    fn strike(&mut self, life: u64) -> io::Result<Strike> {
        self.alive(life)?;
        self.operations += 1;
        Ok(match self.faults.crash_at {
            Some(at) if at == self.operations && self.chance.coin() => Strike::Before,
            Some(at) if at == self.operations => Strike::After,
            _ => Strike::None,
        })
    }

    /// Runs one changing operation, with the crash before or after it when it is its turn.
    fn change<T>(&mut self, life: u64, operation: impl FnOnce(&mut Self) -> io::Result<T>) -> io::Result<T> {
        match self.strike(life)? {
            Strike::None => operation(self),
            Strike::Before => {
                self.crash();
                Err(powerless())
            }
            Strike::After => {
                let _ = operation(self);
                self.crash();
                Err(powerless())
            }
        }
    }

    fn crash(&mut self) {
        self.down = true;
        if self.cut == Cut::Nothing {
            return;
        }
        for inode in &mut self.inodes {
            inode.cut(self.cut, &mut self.chance);
        }
        let kept = match self.cut {
            Cut::Half | Cut::Torn => self.chance.below(self.pending.len() + 1),
            Cut::All | Cut::Nothing => 0,
        };
        for change in self.pending.drain(..).skip(kept).collect::<Vec<_>>().into_iter().rev() {
            for (path, before) in change.before {
                match before {
                    Some(inode) => self.names.insert(path, inode),
                    None => self.names.remove(&path),
                };
            }
        }
    }

    fn renamed(&mut self, paths: &[&Path]) {
        let before = paths.iter().map(|path| (path.to_path_buf(), self.names.get(*path).copied())).collect();
        let unsynced = paths.iter().filter_map(|path| path.parent()).map(Path::to_path_buf).collect();
        self.pending.push(NameChange { before, unsynced });
    }

    fn settle(&mut self, dir: &Path) {
        if self.directories == Directories::Lenient {
            return self.pending.clear();
        }
        for change in &mut self.pending {
            change.unsynced.remove(dir);
        }
        self.pending.retain(|change| !change.unsynced.is_empty());
    }

    fn used(&self) -> u64 {
        self.names.values().filter_map(|at| self.inodes.get(*at)).map(|inode| inode.data.len() as u64).sum()
    }

    fn room_for(&self, inode: usize, len: usize) -> io::Result<()> {
        let held = self.inodes.get(inode).map_or(0, |inode| inode.data.len());
        let growth = len.saturating_sub(held) as u64;
        match self.faults.capacity {
            Some(capacity) if growth > 0 && self.used().saturating_add(growth) > capacity => Err(no_space()),
            _ => Ok(()),
        }
    }

    fn inode(&mut self, at: usize) -> io::Result<&mut Inode> {
        self.inodes.get_mut(at).ok_or_else(powerless)
    }

    fn write(&mut self, at: usize, data: &[u8], offset: u64) -> io::Result<usize> {
        let offset = usize::try_from(offset).map_err(|_| no_space())?;
        let mut length = data.len();
        if let Some(one_in) = self.faults.short_write_in
            && length > 1
            && self.chance.next().is_multiple_of(one_in.max(1))
        {
            length = 1 + self.chance.below(length - 1);
        }
        self.room_for(at, offset.saturating_add(length))?;
        self.inode(at)?.write(data.get(..length).unwrap_or_default(), offset);
        Ok(length)
    }

    fn sync(&mut self, at: usize) -> io::Result<()> {
        self.syncs += 1;
        if self.faults.sync_fails_at == Some(self.syncs) {
            self.inode(at)?.fail_sync();
            return Err(io::Error::from_raw_os_error(5));
        }
        self.inode(at)?.sync();
        if self.directories == Directories::Lenient {
            self.pending.clear();
        }
        Ok(())
    }
}

/// The file system in memory. Clones share it; each belongs to one life of the machine and is dead after the
/// crash that ends it, so that threads of the old life can do no harm in the next.
#[derive(Debug, Clone)]
pub struct FaultyVfs {
    state: Arc<Mutex<State>>,
    life: u64,
}

impl FaultyVfs {
    /// An empty one.
    #[must_use]
    pub fn new(seed: u64, cut: Cut, directories: Directories) -> Self {
        let state = State {
            inodes: Vec::new(),
            names: BTreeMap::new(),
            pending: Vec::new(),
            chance: Chance(seed),
            cut,
            directories,
            faults: Faults::default(),
            operations: 0,
            syncs: 0,
            life: 0,
            down: false,
            handles: 0,
        };
        Self { state: Arc::new(Mutex::new(state)), life: 0 }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets what goes wrong from now on; operations and syncs are counted from here.
    pub fn set_faults(&self, faults: Faults) {
        let mut state = self.state();
        state.faults = faults;
        state.operations = 0;
        state.syncs = 0;
    }

    /// Changes what a crash takes away.
    pub fn set_cut(&self, cut: Cut) {
        self.state().cut = cut;
    }

    /// Changing operations since [`FaultyVfs::set_faults`].
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Has the crash struck?
    #[must_use]
    pub fn is_down(&self) -> bool {
        self.state().down
    }

    /// Crashes now, unless it already has, and starts the next life without faults.
    #[must_use]
    pub fn reboot(&self) -> Self {
        let mut state = self.state();
        if !state.down {
            state.crash();
        }
        state.life += 1;
        state.down = false;
        state.faults = Faults::default();
        state.operations = 0;
        state.syncs = 0;
        for inode in &mut state.inodes {
            inode.locked_by = None;
        }
        Self { state: Arc::clone(&self.state), life: state.life }
    }

    /// What a file holds, or `None`.
    #[must_use]
    pub fn contents(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state();
        let inode = state.names.get(path).and_then(|at| state.inodes.get(*at))?;
        Some(inode.data.clone())
    }

    /// Puts a file there behind everyone's back, durable at once.
    pub fn put(&self, path: &Path, contents: &[u8]) {
        let mut state = self.state();
        let inode = Inode { data: contents.to_vec(), durable_len: contents.len(), ..Inode::default() };
        state.inodes.push(inode);
        let at = state.inodes.len() - 1;
        state.names.insert(path.to_path_buf(), at);
    }

    /// Takes a file away behind everyone's back, durable at once.
    pub fn take(&self, path: &Path) {
        self.state().names.remove(path);
    }

    /// All files, sorted.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        self.state().names.keys().cloned().collect()
    }
}

#[derive(Debug)]
struct FaultyFile {
    state: Arc<Mutex<State>>,
    life: u64,
    inode: usize,
    handle: u64,
    mode: OpenMode,
}

impl FaultyFile {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, operation: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        if self.mode == OpenMode::Read {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.state().change(self.life, operation)
    }
}

impl Drop for FaultyFile {
    fn drop(&mut self) {
        let handle = self.handle;
        if let Ok(inode) = self.state().inode(self.inode)
            && inode.locked_by == Some(handle)
        {
            inode.locked_by = None;
        }
    }
}

impl VfsFile for FaultyFile {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.state();
        state.alive(self.life)?;
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let held = state.inode(self.inode)?.data.get(offset..).unwrap_or_default();
        let length = held.len().min(into.len());
        if let (Some(to), Some(from)) = (into.get_mut(..length), held.get(..length)) {
            to.copy_from_slice(from);
        }
        Ok(length)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<usize> {
        self.change(|state| state.write(self.inode, data, offset))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.change(|state| state.sync(self.inode))
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn size(&self) -> io::Result<u64> {
        let mut state = self.state();
        state.alive(self.life)?;
        Ok(state.inode(self.inode)?.data.len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(|state| {
            let len = usize::try_from(len).map_err(|_| no_space())?;
            state.room_for(self.inode, len)?;
            state.inode(self.inode)?.set_len(len);
            Ok(())
        })
    }

    fn try_lock(&self) -> io::Result<LockState> {
        let mut state = self.state();
        state.alive(self.life)?;
        let inode = state.inode(self.inode)?;
        if inode.locked_by.is_some_and(|holder| holder != self.handle) {
            return Ok(LockState::Held);
        }
        inode.locked_by = Some(self.handle);
        Ok(LockState::Taken)
    }
}

impl Vfs for FaultyVfs {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn VfsFile>> {
        let mut state = self.state();
        state.alive(self.life)?;
        let inode = match (state.names.get(path).copied(), mode) {
            (Some(_), OpenMode::CreateNew) => return Err(io::ErrorKind::AlreadyExists.into()),
            (Some(inode), _) => inode,
            (None, OpenMode::Read | OpenMode::Write) => return Err(io::ErrorKind::NotFound.into()),
            (None, OpenMode::CreateNew | OpenMode::OpenOrCreate) => state.change(self.life, |state| {
                state.renamed(&[path]);
                state.inodes.push(Inode::default());
                let inode = state.inodes.len() - 1;
                state.names.insert(path.to_path_buf(), inode);
                Ok(inode)
            })?,
        };
        state.handles += 1;
        let handle = state.handles;
        Ok(Arc::new(FaultyFile { state: Arc::clone(&self.state), life: self.life, inode, handle, mode }))
    }

    fn create_dir(&self, _path: &Path) -> io::Result<()> {
        self.state().alive(self.life)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.state().change(self.life, |state| {
            state.settle(path);
            Ok(())
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.state().change(self.life, |state| {
            let inode = state.names.get(from).copied().ok_or(io::ErrorKind::NotFound)?;
            state.renamed(&[from, to]);
            state.names.remove(from);
            state.names.insert(to.to_path_buf(), inode);
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.state().change(self.life, |state| {
            if !state.names.contains_key(path) {
                return Err(io::ErrorKind::NotFound.into());
            }
            state.renamed(&[path]);
            state.names.remove(path);
            Ok(())
        })
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let state = self.state();
        state.alive(self.life)?;
        let inside = state.names.keys().filter(|path| path.parent() == Some(dir));
        Ok(inside.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect())
    }

    fn free_space(&self, _dir: &Path) -> io::Result<u64> {
        let state = self.state();
        state.alive(self.life)?;
        Ok(state.faults.capacity.unwrap_or(BOUNDLESS).saturating_sub(state.used()))
    }
}

#[cfg(test)]
mod tests;
