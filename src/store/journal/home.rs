//! The data directory: who works in it (LOCK), and what it is (FORMAT).

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    JournalError,
    codec::{self, Reader},
};
use crate::{
    model::Timestamp,
    store::vfs::{LockState, OpenMode, Vfs, VfsFile, read_small, read_up_to_at, replace, write_all_at},
};

const LOCK_MAGIC: [u8; 8] = *b"OPLOCK01";
/// One sector: it is replaced whole.
const LOCK_OCTETS: usize = 512;
const BOOT_ID_MAX: usize = 64;
/// Version of everything that lies in the data directory.
pub(super) const FORMAT: u32 = 1;
const FORMAT_OCTETS_MAX: usize = 4096;

/// How the process before ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Past {
    /// It closed everything.
    Clean,
    /// It died; the machine did not.
    ProcessDied,
    /// The machine went down, or nothing is known.
    MachineDied,
}

/// The lock on the data directory, held until dropped.
#[derive(Debug)]
pub(super) struct Lock {
    file: Arc<dyn VfsFile>,
    boot_id: Vec<u8>,
}

fn lock_record(pid: u32, boot_id: &[u8], clean: u8) -> Vec<u8> {
    let mut out = LOCK_MAGIC.to_vec();
    out.extend_from_slice(&pid.to_le_bytes());
    out.push(clean);
    out.push(u8::try_from(boot_id.len()).unwrap_or(0));
    out.extend_from_slice(boot_id);
    out.resize(LOCK_OCTETS - 4, 0);
    codec::seal(&mut out, 0);
    out
}

fn read_lock(octets: &[u8]) -> Option<(u32, u8, &[u8])> {
    let mut reader = Reader::new(codec::checked(octets)?);
    if reader.array()? != LOCK_MAGIC {
        return None;
    }
    let (pid, clean, length) = (reader.u32()?, reader.u8()?, reader.u8()?);
    Some((pid, clean, reader.take(usize::from(length))?))
}

/// Which boot this is; nothing when the system does not say.
fn boot_id(path: &Path) -> Vec<u8> {
    let mut id = std::fs::read(path).unwrap_or_default();
    id.truncate(BOOT_ID_MAX);
    id.trim_ascii().to_vec()
}

impl Lock {
    /// Takes the lock, and tells how the one before ended.
    pub(super) fn take(
        vfs: &dyn Vfs,
        directory: &Path,
        boot_id_path: &Path,
    ) -> Result<(Self, Past), JournalError> {
        let opened = vfs.open(&directory.join("LOCK"), OpenMode::OpenOrCreate);
        let file = opened.map_err(JournalError::io("open LOCK"))?;
        let mut octets = [0; LOCK_OCTETS];
        let read = read_up_to_at(&*file, &mut octets, 0).map_err(JournalError::io("read LOCK"))?;
        let before = octets.get(..read).and_then(read_lock);
        if file.try_lock().map_err(JournalError::io("take LOCK"))? == LockState::Held {
            let pid = before.map_or(0, |(pid, _, _)| pid);
            return Err(JournalError::InUse { directory: directory.to_path_buf(), pid });
        }
        let boot_id = boot_id(boot_id_path);
        let past = match before {
            Some((_, 1, _)) => Past::Clean,
            Some((_, _, boot)) if boot == boot_id && !boot.is_empty() => Past::ProcessDied,
            _ => Past::MachineDied,
        };
        let lock = Self { file, boot_id };
        lock.write(0).map_err(JournalError::io("write LOCK"))?;
        vfs.sync_dir(directory).map_err(JournalError::io("write LOCK"))?;
        Ok((lock, past))
    }

    fn write(&self, clean: u8) -> io::Result<()> {
        write_all_at(&*self.file, &lock_record(std::process::id(), &self.boot_id, clean), 0)?;
        self.file.sync_all()
    }

    /// Everything was closed.
    pub(super) fn mark_clean(&self) -> io::Result<()> {
        self.write(1)
    }
}

/// Where things are.
#[derive(Debug, Clone)]
pub(super) struct Home {
    pub(super) root: PathBuf,
    pub(super) journal: PathBuf,
    pub(super) quarantine: PathBuf,
}

impl Home {
    /// Makes the directories that are missing.
    pub(super) fn make(vfs: &dyn Vfs, root: &Path) -> io::Result<Self> {
        let home = Self {
            root: root.to_path_buf(),
            journal: root.join("journal"),
            quarantine: root.join("quarantine"),
        };
        for directory in [&home.root, &home.journal, &home.quarantine] {
            vfs.create_dir(directory)?;
        }
        Ok(home)
    }

    /// Writes FORMAT when it is missing, refuses it when it is newer or damaged.
    pub(super) fn check_format(&self, vfs: &dyn Vfs, now: Timestamp) -> Result<(), JournalError> {
        let path = self.root.join("FORMAT");
        let found = read_small(vfs, &path, FORMAT_OCTETS_MAX).map_err(JournalError::io("read FORMAT"))?;
        let Some(octets) = found else {
            let text = format_text(&uuid::Uuid::new_v4().to_string(), now);
            return replace(vfs, &path, text.as_bytes()).map_err(JournalError::io("write FORMAT"));
        };
        match read_format(&octets) {
            Some(FORMAT) => Ok(()),
            Some(found) => Err(JournalError::NewerFormat { found, known: FORMAT }),
            None => Err(JournalError::FileDamaged { file: "FORMAT" }),
        }
    }
}

fn format_text(node: &str, now: Timestamp) -> String {
    let said = format!("format {FORMAT}\nnode {node}\ncreated {now}\n");
    format!("{said}sha256 {}\n", hex(&openssl::sha::sha256(said.as_bytes())))
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn read_format(octets: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(octets).ok()?;
    let (said, sum) = text.split_at_checked(text.rfind("sha256 ")?)?;
    if sum.trim_end() != format!("sha256 {}", hex(&openssl::sha::sha256(said.as_bytes()))) {
        return None;
    }
    said.lines().next()?.strip_prefix("format ")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::vfs::{Cut, Directories, FaultyVfs};

    fn vfs() -> FaultyVfs {
        FaultyVfs::new(1, Cut::All, Directories::Strict)
    }

    #[test]
    fn a_second_process_is_told_who_holds_the_directory() {
        let (vfs, boot) = (vfs(), Path::new("/proc/sys/kernel/random/boot_id"));
        let held = Lock::take(&vfs, Path::new("/d"), boot).unwrap();
        let refused = Lock::take(&vfs, Path::new("/d"), boot).unwrap_err();
        assert_eq!(refused.to_string(), format!("/d is in use by pid {}", std::process::id()));
        drop(held);
        assert!(Lock::take(&vfs, Path::new("/d"), boot).is_ok());
    }

    #[test]
    fn the_lock_remembers_how_the_last_one_ended() {
        let place = tempfile::tempdir().unwrap();
        let boot = place.path().join("boot_id");
        std::fs::write(&boot, "one\n").unwrap();
        let vfs = vfs();
        let take = || Lock::take(&vfs, Path::new("/d"), &boot).unwrap();
        assert_eq!(take().1, Past::MachineDied);
        assert_eq!(take().1, Past::ProcessDied);
        std::fs::write(&boot, "two\n").unwrap();
        assert_eq!(take().1, Past::MachineDied);
        take().0.mark_clean().unwrap();
        assert_eq!(take().1, Past::Clean);
        std::fs::remove_file(&boot).unwrap();
        assert_eq!(take().1, Past::MachineDied);
        assert_eq!(take().1, Past::MachineDied, "unknown is not the same");
    }

    #[test]
    fn a_newer_or_damaged_format_is_refused() {
        let vfs = vfs();
        let home = Home::make(&vfs, Path::new("/d")).unwrap();
        home.check_format(&vfs, Timestamp::from_millis(0)).unwrap();
        home.check_format(&vfs, Timestamp::from_millis(9)).unwrap();
        let path = Path::new("/d/FORMAT");
        let text = String::from_utf8(vfs.contents(path).unwrap()).unwrap();
        let (said, _) = text.split_at(text.find("sha256").unwrap());
        let newer = said.replace("format 1", "format 2");
        let newer = format!("{newer}sha256 {}\n", hex(&openssl::sha::sha256(newer.as_bytes())));
        vfs.put(path, newer.as_bytes());
        let refused = home.check_format(&vfs, Timestamp::default()).unwrap_err();
        assert!(matches!(refused, JournalError::NewerFormat { found: 2, known: 1 }));
        vfs.put(path, text.replace("created 19", "created 20").as_bytes());
        let refused = home.check_format(&vfs, Timestamp::default()).unwrap_err();
        assert!(matches!(refused, JournalError::FileDamaged { file: "FORMAT" }));
    }
}
