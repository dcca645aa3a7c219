//! The file system as the journal sees it: a few operations, so that a crash can be simulated.
//!
//! [`RealVfs`] is the disk. [`FaultyVfs`] lives in memory, loses what was not synced and fails on demand,
//! deterministic by seed.

mod faulty;
mod real;

pub use faulty::{Cut, Directories, Faults, FaultyVfs};
pub use real::RealVfs;

use std::{io, path::Path, sync::Arc};

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// It must exist; only read.
    Read,
    /// It must exist; read and written.
    Write,
    /// It must not exist; mode 0600.
    CreateNew,
    /// Made when absent, kept as it is otherwise; mode 0600.
    OpenOrCreate,
}

/// What [`VfsFile::try_lock`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockState {
    /// The lock is ours until the file is dropped.
    Taken,
    /// Another holder has it.
    Held,
}

/// An open file. All positions are absolute, so a file may be shared between threads.
pub trait VfsFile: Send + Sync + std::fmt::Debug {
    /// Reads at most `into.len()` octets at `offset`; 0 at the end.
    ///
    /// # Errors
    /// As pread(2).
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes at `offset`; may write less than asked.
    ///
    /// # Errors
    /// As pwrite(2).
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<usize>;

    /// The contents are on the disk when this returns `Ok`.
    ///
    /// # Errors
    /// As fdatasync(2). After an error nothing is known of the contents, and a second call proves nothing.
    fn sync_data(&self) -> io::Result<()>;

    /// Contents and length are on the disk when this returns `Ok`.
    ///
    /// # Errors
    /// As fsync(2).
    fn sync_all(&self) -> io::Result<()>;

    /// Length in octets.
    ///
    /// # Errors
    /// As fstat(2).
    fn size(&self) -> io::Result<u64>;

    /// Cuts the file, or lengthens it with zeros.
    ///
    /// # Errors
    /// As ftruncate(2).
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Takes the advisory lock of the file, without waiting.
    ///
    /// # Errors
    /// As flock(2).
    fn try_lock(&self) -> io::Result<LockState>;
}

/// Directories and names.
pub trait Vfs: Send + Sync + std::fmt::Debug {
    /// Opens a file.
    ///
    /// # Errors
    /// As open(2).
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn VfsFile>>;

    /// Makes a directory, mode 0700, and those above it; one that exists is fine. Those made are durable when
    /// this returns.
    ///
    /// # Errors
    /// As mkdir(2).
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// The names made, changed and removed in this directory are on the disk when this returns `Ok`.
    ///
    /// # Errors
    /// As fsync(2).
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// Moves a file over whatever has the new name.
    ///
    /// # Errors
    /// As rename(2).
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file's name.
    ///
    /// # Errors
    /// As unlink(2).
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Names of the files in a directory, sorted.
    ///
    /// # Errors
    /// As readdir(3).
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Octets that an unprivileged process may still write on the file system of `dir`.
    ///
    /// # Errors
    /// As statvfs(3).
    fn free_space(&self, dir: &Path) -> io::Result<u64>;
}

/// Writes all of `data`.
///
/// # Errors
/// As [`VfsFile::write_at`]; `WriteZero` when the disk takes nothing more.
pub fn write_all_at(file: &dyn VfsFile, mut data: &[u8], mut offset: u64) -> io::Result<()> {
    while !data.is_empty() {
        let done = match file.write_at(data, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(done) => done,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        data = data.get(done..).unwrap_or_default();
        offset = offset.saturating_add(done as u64);
    }
    Ok(())
}

/// Fills `into`.
///
/// # Errors
/// As [`VfsFile::read_at`]; `UnexpectedEof` when the file ends before.
pub fn read_exact_at(file: &dyn VfsFile, into: &mut [u8], offset: u64) -> io::Result<()> {
    if read_up_to_at(file, into, offset)? < into.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

/// Fills `into` as far as the file goes and says how far that was.
///
/// # Errors
/// As [`VfsFile::read_at`].
pub fn read_up_to_at(file: &dyn VfsFile, into: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = into.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset.saturating_add(filled as u64)) {
            Ok(0) => break,
            Ok(done) => filled += done,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Replaces a small file whole: the old contents or the new, never a mixture, and durable on return.
///
/// # Errors
/// Any of the operations it is made of; the old contents then still stand.
pub fn replace(vfs: &dyn Vfs, path: &Path, contents: &[u8]) -> io::Result<()> {
    let fresh = path.with_extension("tmp");
    let file = vfs.open(&fresh, OpenMode::OpenOrCreate)?;
    file.set_len(0)?;
    write_all_at(&*file, contents, 0)?;
    file.sync_all()?;
    vfs.rename(&fresh, path)?;
    vfs.sync_dir(path.parent().unwrap_or_else(|| Path::new("/")))
}

/// The contents of a small file, or `None` when there is no such file.
///
/// # Errors
/// Any but "not found"; `InvalidData` when it is longer than `max` octets.
pub fn read_small(vfs: &dyn Vfs, path: &Path, max: usize) -> io::Result<Option<Vec<u8>>> {
    let file = match vfs.open(path, OpenMode::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let size = usize::try_from(file.size()?).unwrap_or(usize::MAX);
    if size > max {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut contents = vec![0; size];
    read_exact_at(&*file, &mut contents, 0)?;
    Ok(Some(contents))
}
