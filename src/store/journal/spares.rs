//! Segments made ahead: filled with zeros and synced, so that the committer only ever overwrites, and so that
//! a full disk is met before anything is promised (storage §3.5).

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

use super::{Class, JournalError, Work, batch::SECTOR_OCTETS};
use crate::store::vfs::{OpenMode, Vfs, read_exact_at, write_all_at};

/// Spares that are kept ready; the last one is for frames that free room.
pub(super) const SPARES: usize = 2;
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

#[derive(Debug)]
enum Making {
    Fine,
    /// The last attempt failed.
    Failed,
    Closed,
}

#[derive(Debug)]
struct State {
    ready: Vec<PathBuf>,
    next: u64,
    making: Making,
}

/// The spares of one journal.
#[derive(Debug)]
pub(super) struct Spares {
    state: Mutex<State>,
    changed: Condvar,
}

/// Makes a file of so many zeros under a temporary name, synced; the caller renames it.
pub(super) fn zeroed(vfs: &dyn Vfs, path: &Path, octets: u64) -> io::Result<()> {
    let made = vfs.open(path, OpenMode::OpenOrCreate).and_then(|file| {
        file.set_len(0)?;
        let mut at = 0;
        while at < octets {
            let left = usize::try_from(octets - at).unwrap_or(usize::MAX).min(ZEROS.len());
            write_all_at(&*file, ZEROS.get(..left).unwrap_or_default(), at)?;
            at += left as u64;
        }
        file.sync_all()
    });
    if made.is_err() {
        let _ = vfs.remove(path);
    }
    made
}

fn is_clean(vfs: &dyn Vfs, path: &Path, octets: u64) -> io::Result<bool> {
    let file = vfs.open(path, OpenMode::Read)?;
    let mut head = [0; SECTOR_OCTETS];
    Ok(file.size()? == octets && read_exact_at(&*file, &mut head, 0).is_ok() && head.iter().all(|b| *b == 0))
}

impl Spares {
    /// Takes over the spares of an earlier run that are whole; removes the others.
    pub(super) fn adopt(vfs: &dyn Vfs, dir: &Path, names: &[String], octets: u64) -> io::Result<Self> {
        let mut ready = Vec::new();
        let mut next = 1;
        for name in names.iter().filter(|name| name.starts_with("spare-")) {
            let path = dir.join(name);
            if ready.len() < SPARES && name.ends_with(".seg") && is_clean(vfs, &path, octets)? {
                ready.push(path);
            } else {
                vfs.remove(&path)?;
            }
            let number = name.trim_start_matches("spare-").split('.').next().and_then(|n| n.parse().ok());
            next = next.max(number.map_or(1, |number: u64| number.saturating_add(1)));
        }
        let state = State { ready, next, making: Making::Fine };
        Ok(Self { state: Mutex::new(state), changed: Condvar::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn count(&self) -> usize {
        self.state().ready.len()
    }

    /// May new frames be written, as far as spares tell?
    pub(super) fn room_for_new(&self) -> bool {
        let state = self.state();
        !state.ready.is_empty() || matches!(state.making, Making::Fine)
    }

    /// Can making go on, or did it fail?
    pub(super) fn failing(&self) -> bool {
        matches!(self.state().making, Making::Failed)
    }

    /// Wakes who waits for a spare: none will come.
    pub(super) fn close(&self) {
        self.state().making = Making::Closed;
        self.changed.notify_all();
    }

    /// Makes spares until there are enough.
    pub(super) fn refill(&self, vfs: &dyn Vfs, dir: &Path, octets: u64) -> io::Result<()> {
        while self.count() < SPARES {
            let made = self.make(vfs, dir, octets);
            let mut state = self.state();
            match &made {
                Ok(path) => state.ready.push(path.clone()),
                Err(_) if matches!(state.making, Making::Fine) => state.making = Making::Failed,
                Err(_) => {}
            }
            if made.is_ok() && matches!(state.making, Making::Failed) {
                state.making = Making::Fine;
            }
            drop(state);
            self.changed.notify_all();
            made?;
        }
        Ok(())
    }

    fn make(&self, vfs: &dyn Vfs, dir: &Path, octets: u64) -> io::Result<PathBuf> {
        let number = {
            let mut state = self.state();
            state.next += 1;
            state.next - 1
        };
        let path = dir.join(format!("spare-{number:08}.seg"));
        let fresh = path.with_extension("tmp");
        zeroed(vfs, &fresh, octets)?;
        vfs.rename(&fresh, &path)?;
        vfs.sync_dir(dir)?;
        Ok(path)
    }

    /// Takes a spare for frames of this class; with threads it waits while one is being made.
    pub(super) fn take(&self, class: Class, work: Work) -> Result<PathBuf, JournalError> {
        let wanted = match class {
            Class::New => SPARES,
            Class::Freeing => 1,
        };
        let mut state = self.state();
        loop {
            if state.ready.len() >= wanted {
                return Ok(state.ready.remove(0));
            }
            match state.making {
                Making::Fine if work == Work::Threads => {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                Making::Fine | Making::Failed => return Err(JournalError::Full),
                Making::Closed => return Err(JournalError::Closed),
            }
        }
    }

    /// A spare for the first segment after a start, when there is one.
    pub(super) fn take_any(&self) -> Option<PathBuf> {
        self.state().ready.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::vfs::{Cut, Directories, Faults, FaultyVfs};

    fn names(vfs: &FaultyVfs) -> Vec<String> {
        vfs.list(Path::new("/d")).unwrap()
    }

    #[test]
    fn the_last_spare_is_for_frames_that_free_room() {
        let vfs = FaultyVfs::new(1, Cut::All, Directories::Strict);
        let dir = Path::new("/d");
        let spares = Spares::adopt(&vfs, dir, &[], 4096).unwrap();
        spares.refill(&vfs, dir, 4096).unwrap();
        assert_eq!(names(&vfs), ["spare-00000001.seg", "spare-00000002.seg"]);
        vfs.set_faults(Faults { capacity: Some(8192), ..Faults::default() });
        let first = spares.take(Class::New, Work::Pumped).unwrap();
        assert!(spares.refill(&vfs, dir, 4096).is_err());
        assert!(spares.failing() && spares.room_for_new());
        assert!(matches!(spares.take(Class::New, Work::Threads), Err(JournalError::Full)));
        spares.take(Class::Freeing, Work::Threads).unwrap();
        assert!(!spares.room_for_new());
        assert!(matches!(spares.take(Class::Freeing, Work::Threads), Err(JournalError::Full)));
        vfs.remove(&first).unwrap();
        vfs.set_faults(Faults::default());
        spares.refill(&vfs, dir, 4096).unwrap();
        assert!(spares.room_for_new() && !spares.failing());
    }

    #[test]
    fn whole_spares_are_used_again_and_the_rest_is_removed() {
        let vfs = FaultyVfs::new(1, Cut::All, Directories::Strict);
        let dir = Path::new("/d");
        vfs.put(&dir.join("spare-00000004.seg"), &[0; 4096]);
        vfs.put(&dir.join("spare-00000005.seg"), &[1; 4096]);
        vfs.put(&dir.join("spare-00000006.seg"), &[0; 4000]);
        vfs.put(&dir.join("spare-00000007.tmp"), &[0; 10]);
        let spares = Spares::adopt(&vfs, dir, &names(&vfs), 4096).unwrap();
        assert_eq!((spares.count(), names(&vfs)), (1, vec!["spare-00000004.seg".to_owned()]));
        spares.refill(&vfs, dir, 4096).unwrap();
        assert_eq!(names(&vfs), ["spare-00000004.seg", "spare-00000008.seg"]);
    }
}
