//! The disk, through `std::fs`: the crash harness sees every call that goes that way.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt},
    path::Path,
    sync::Arc,
};

use super::{LockState, OpenMode, Vfs, VfsFile};

/// Files are for the owner alone: they hold invoices.
const FILE_MODE: u32 = 0o600;
/// Directories likewise.
const DIRECTORY_MODE: u32 = 0o700;

/// The real file system.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealVfs;

#[derive(Debug)]
struct RealFile(fs::File);

impl VfsFile for RealFile {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(into, offset)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(data, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn try_lock(&self) -> io::Result<LockState> {
        match self.0.try_lock() {
            Ok(()) => Ok(LockState::Taken),
            Err(fs::TryLockError::WouldBlock) => Ok(LockState::Held),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }
}

impl Vfs for RealVfs {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn VfsFile>> {
        let mut options = fs::OpenOptions::new();
        options.read(true).mode(FILE_MODE);
        match mode {
            OpenMode::Read => {}
            OpenMode::Write => {
                options.write(true);
            }
            OpenMode::CreateNew => {
                options.write(true).create_new(true);
            }
            OpenMode::OpenOrCreate => {
                options.write(true).create(true).truncate(false);
            }
        }
        Ok(Arc::new(RealFile(options.open(path)?)))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        if path.is_dir() {
            return Ok(());
        }
        let above = path.parent().filter(|above| !above.as_os_str().is_empty());
        if let Some(above) = above {
            self.create_dir(above)?;
        }
        match fs::DirBuilder::new().mode(DIRECTORY_MODE).create(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
            made => made?,
        }
        self.sync_dir(above.unwrap_or_else(|| Path::new(".")))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        fs::File::open(path)?.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                names.extend(entry.file_name().into_string());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn free_space(&self, dir: &Path) -> io::Result<u64> {
        let space = rustix::fs::statvfs(dir)?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::store::vfs::{read_small, replace, write_all_at};

    #[test]
    fn directories_and_files_are_for_the_owner_alone() {
        let place = tempfile::tempdir().unwrap();
        let inner = place.path().join("a/b");
        RealVfs.create_dir(&inner).unwrap();
        RealVfs.create_dir(&inner).unwrap();
        replace(&RealVfs, &inner.join("F"), b"x").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&inner), DIRECTORY_MODE);
        assert_eq!(mode(&inner.join("F")), FILE_MODE);
        assert_eq!(RealVfs.list(&inner).unwrap(), ["F"]);
    }

    #[test]
    fn a_file_is_replaced_whole_and_a_longer_one_refused() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("CURRENT");
        assert_eq!(read_small(&RealVfs, &path, 9).unwrap(), None);
        replace(&RealVfs, &path, b"first, longer").unwrap();
        replace(&RealVfs, &path, b"second").unwrap();
        assert_eq!(read_small(&RealVfs, &path, 6).unwrap().unwrap(), b"second");
        assert_eq!(read_small(&RealVfs, &path, 5).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_lock_is_held_until_its_file_is_dropped() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("LOCK");
        let first = RealVfs.open(&path, OpenMode::OpenOrCreate).unwrap();
        let second = RealVfs.open(&path, OpenMode::OpenOrCreate).unwrap();
        assert_eq!(first.try_lock().unwrap(), LockState::Taken);
        assert_eq!(second.try_lock().unwrap(), LockState::Held);
        drop(first);
        assert_eq!(second.try_lock().unwrap(), LockState::Taken);
    }

    #[test]
    fn positions_are_absolute_and_holes_are_zero() {
        let place = tempfile::tempdir().unwrap();
        let file = RealVfs.open(&place.path().join("f"), OpenMode::CreateNew).unwrap();
        write_all_at(&*file, b"end", 10).unwrap();
        file.set_len(12).unwrap();
        let mut all = [9; 12];
        assert_eq!(crate::store::vfs::read_up_to_at(&*file, &mut all, 0).unwrap(), 12);
        assert_eq!(&all, b"\0\0\0\0\0\0\0\0\0\0en");
        assert!(RealVfs.free_space(place.path()).unwrap() > 0);
    }
}
