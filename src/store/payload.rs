//! Payloads: to 1 MiB inside the frame that names them, beyond as a file that is durable before that frame
//! (`storage` §3.3, I3). And spools for bodies that are not yet worth keeping.
//!
//! A payload file belongs to one item and is named by it, so no two messages share one; a file that no
//! acceptance came to name is removed when its [`Payload`] is dropped, or at the next start.

use std::{
    fmt,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use openssl::sha::Sha256;

use crate::model::{Digest, ItemId};

use super::vfs::{OpenMode, Vfs, VfsFile, read_exact_at, write_all_at};

/// Largest payload inside a frame, in bytes (`storage` §4).
pub const INLINE_BYTES_MAX: usize = 1 << 20;
/// Directory of payload files.
const BLOB: &str = "blob";
/// Directory of what is being received.
const TMP: &str = "tmp";

/// Where payloads and spools go.
#[derive(Clone)]
pub(crate) enum Payloads {
    /// Into memory, whatever their size.
    Memory,
    /// Into files.
    Files(Arc<Files>),
}

/// The folders of the data directory that hold payloads.
pub(crate) struct Files {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    /// For names in `tmp/`, which is emptied at the start.
    next: AtomicU64,
}

impl fmt::Debug for Payloads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("Memory"),
            Self::Files(files) => write!(f, "Files({})", files.dir.display()),
        }
    }
}

impl Payloads {
    /// Payloads below `dir`. `tmp/` is emptied.
    pub(crate) fn open(vfs: Arc<dyn Vfs>, dir: &Path) -> io::Result<Self> {
        let files = Files { vfs, dir: dir.to_owned(), next: AtomicU64::new(0) };
        files.vfs.create_dir(&files.dir.join(BLOB))?;
        let tmp = files.dir.join(TMP);
        files.vfs.create_dir(&tmp)?;
        for name in files.vfs.list(&tmp)? {
            files.vfs.remove(&tmp.join(name))?;
        }
        Ok(Self::Files(Arc::new(files)))
    }

    pub(crate) fn writer(&self, item: ItemId) -> PayloadWriter {
        PayloadWriter {
            payloads: self.clone(),
            item,
            sha: Sha256::new(),
            size: 0,
            held: Vec::new(),
            file: None,
        }
    }

    pub(crate) fn spool(&self, memory_max: usize) -> Spool {
        Spool { payloads: self.clone(), memory_max, size: 0, held: Vec::new(), file: None }
    }

    /// Opens the payload file of that name.
    pub(crate) fn file(&self, name: &str) -> io::Result<Arc<dyn VfsFile>> {
        match self {
            Self::Memory => Err(io::ErrorKind::NotFound.into()),
            Self::Files(files) => files.vfs.open(&files.path(name), OpenMode::Read),
        }
    }

    /// Removes the payload file of that name; one that is not there is fine.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        match self {
            Self::Memory => Ok(()),
            Self::Files(files) => match files.vfs.remove(&files.path(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
        }
    }

    /// SHA-256 of a payload file, when it has that size.
    pub(crate) fn digest(&self, name: &str, size: u64) -> io::Result<Digest> {
        let file = self.file(name)?;
        if file.size()? != size {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let (mut sha, mut at, mut chunk) = (Sha256::new(), 0, vec![0; 1 << 16]);
        while at < size {
            let read = read_some(Some(&*file), &[], size, at, &mut chunk)?;
            sha.update(chunk.get(..read).unwrap_or_default());
            at = at.saturating_add(read as u64);
        }
        Ok(Digest::new(sha.finish()))
    }

    /// The names of all payload files.
    pub(crate) fn names(&self) -> io::Result<Vec<String>> {
        let Self::Files(files) = self else { return Ok(Vec::new()) };
        let mut names = Vec::new();
        for fan in 0..=u8::MAX {
            match files.vfs.list(&files.dir.join(BLOB).join(format!("{fan:02x}"))) {
                Ok(here) => names.extend(here),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(names)
    }
}

impl Files {
    /// The last octet of an id is random: it spreads the files.
    fn path(&self, name: &str) -> PathBuf {
        let fan = name.get(name.len().saturating_sub(2)..).unwrap_or("00");
        self.dir.join(BLOB).join(fan).join(name)
    }

    fn temporary(&self) -> io::Result<(PathBuf, Arc<dyn VfsFile>)> {
        let path = self.dir.join(TMP).join(self.next.fetch_add(1, Ordering::Relaxed).to_string());
        let file = self.vfs.open(&path, OpenMode::CreateNew)?;
        Ok((path, file))
    }
}

/// A payload, durable as far as it is a file.
#[derive(Debug)]
pub struct Payload {
    size: u64,
    sha256: Digest,
    bytes: PayloadBytes,
    unnamed: Option<Unnamed>,
}

/// Where the bytes of a payload are.
#[derive(Debug, Clone)]
pub(crate) enum PayloadBytes {
    /// Here.
    Inline(Bytes),
    /// In the payload file of that name.
    File(String),
}

/// A payload file that no frame names yet.
#[derive(Debug)]
struct Unnamed {
    payloads: Payloads,
    name: String,
}

impl Drop for Unnamed {
    fn drop(&mut self) {
        if let Err(error) = self.payloads.remove(&self.name) {
            tracing::warn!(name = self.name, %error, "a payload file nobody needs was not removed");
        }
    }
}

impl Payload {
    /// Its size, in bytes.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Its SHA-256.
    #[must_use]
    pub const fn sha256(&self) -> Digest {
        self.sha256
    }

    /// Hands the bytes over to a frame: from here on the file stays.
    pub(crate) fn into_bytes(mut self) -> PayloadBytes {
        if let Some(unnamed) = self.unnamed.take() {
            std::mem::forget(unnamed);
        }
        self.bytes.clone()
    }
}

/// Takes a payload of any size.
pub struct PayloadWriter {
    payloads: Payloads,
    item: ItemId,
    sha: Sha256,
    size: u64,
    held: Vec<u8>,
    file: Option<Temporary>,
}

impl fmt::Debug for PayloadWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PayloadWriter")
            .field("item", &self.item)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

/// A named file in `tmp/`, removed when this is dropped.
struct Temporary {
    files: Arc<Files>,
    path: PathBuf,
    file: Arc<dyn VfsFile>,
    size: u64,
    /// It has another name by now.
    moved: Option<String>,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if self.moved.is_none()
            && let Err(error) = self.files.vfs.remove(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "a temporary file was not removed");
        }
    }
}

impl Temporary {
    fn new(files: &Arc<Files>) -> io::Result<Self> {
        let (path, file) = files.temporary()?;
        Ok(Self { files: files.clone(), path, file, size: 0, moved: None })
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        write_all_at(&*self.file, bytes, self.size)?;
        self.size = self.size.saturating_add(bytes.len() as u64);
        Ok(())
    }

    /// Durable under its own name, before anything refers to it.
    fn keep(&mut self, name: &str) -> io::Result<()> {
        let path = self.files.path(name);
        let dir = path.parent().unwrap_or(&self.files.dir).to_owned();
        self.file.sync_all()?;
        self.files.vfs.create_dir(&dir)?;
        self.files.vfs.rename(&self.path, &path)?;
        self.moved = Some(name.to_owned());
        // The new name counts once both directories know of the move.
        self.files.vfs.sync_dir(&dir)?;
        self.files.vfs.sync_dir(&self.files.dir.join(TMP))
    }
}

impl Write for PayloadWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sha.update(bytes);
        self.size = self.size.saturating_add(bytes.len() as u64);
        if let Some(file) = &mut self.file {
            file.append(bytes)?;
            return Ok(bytes.len());
        }
        self.held.extend_from_slice(bytes);
        if self.held.len() > INLINE_BYTES_MAX
            && let Payloads::Files(files) = &self.payloads
        {
            let mut file = Temporary::new(files)?;
            file.append(&std::mem::take(&mut self.held))?;
            self.file = Some(file);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl PayloadWriter {
    /// The payload, durable when it is a file.
    ///
    /// # Errors
    /// When the disk fails: nothing is kept.
    pub fn finish(self) -> io::Result<Payload> {
        let (size, sha256) = (self.size, Digest::new(self.sha.finish()));
        let Some(mut file) = self.file else {
            return Ok(Payload {
                size,
                sha256,
                bytes: PayloadBytes::Inline(self.held.into()),
                unnamed: None,
            });
        };
        let name = self.item.to_string();
        let unnamed = Unnamed { payloads: self.payloads, name: name.clone() };
        file.keep(&name)?;
        Ok(Payload { size, sha256, bytes: PayloadBytes::File(name), unnamed: Some(unnamed) })
    }
}

/// Takes bytes that are read once and then forgotten: in memory up to a limit, then in a file without a name.
pub struct Spool {
    payloads: Payloads,
    memory_max: usize,
    size: u64,
    held: Vec<u8>,
    file: Option<Arc<dyn VfsFile>>,
}

impl fmt::Debug for Spool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spool")
            .field("size", &self.size)
            .field("in_file", &self.file.is_some())
            .finish_non_exhaustive()
    }
}

impl Spool {
    /// How much was written, in bytes.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// How much of it is in memory, in bytes.
    #[must_use]
    pub fn in_memory(&self) -> usize {
        self.held.len()
    }

    /// Puts into the file what is in memory, and everything that follows.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn spill(&mut self) -> io::Result<()> {
        let Payloads::Files(files) = &self.payloads else { return Ok(()) };
        if self.file.is_none() {
            let (path, file) = files.temporary()?;
            files.vfs.remove(&path)?;
            write_all_at(&*file, &std::mem::take(&mut self.held), 0)?;
            self.file = Some(file);
        }
        Ok(())
    }

    /// What was written, from its beginning.
    #[must_use]
    pub fn into_reader(self) -> SpoolReader {
        SpoolReader { held: self.held.into(), file: self.file, size: self.size, at: 0 }
    }
}

impl Write for Spool {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.file.is_none() && self.held.len().saturating_add(bytes.len()) > self.memory_max {
            self.spill()?;
        }
        match &self.file {
            Some(file) => write_all_at(&**file, bytes, self.size)?,
            None => self.held.extend_from_slice(bytes),
        }
        self.size = self.size.saturating_add(bytes.len() as u64);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads a spool.
pub struct SpoolReader {
    held: Bytes,
    file: Option<Arc<dyn VfsFile>>,
    size: u64,
    at: u64,
}

impl fmt::Debug for SpoolReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpoolReader").field("size", &self.size).field("at", &self.at).finish_non_exhaustive()
    }
}

impl Read for SpoolReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = read_some(self.file.as_deref(), &self.held, self.size, self.at, into)?;
        self.at = self.at.saturating_add(read as u64);
        Ok(read)
    }
}

/// A payload that was stored.
#[derive(Clone)]
pub struct StoredPayload {
    pub(crate) size: u64,
    pub(crate) sha256: Digest,
    pub(crate) held: Bytes,
    pub(crate) file: Option<Arc<dyn VfsFile>>,
}

impl fmt::Debug for StoredPayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredPayload")
            .field("size", &self.size)
            .field("sha256", &self.sha256)
            .finish_non_exhaustive()
    }
}

impl StoredPayload {
    /// Its size, in bytes.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The SHA-256 of all of it.
    #[must_use]
    pub const fn sha256(&self) -> Digest {
        self.sha256
    }

    /// Reads at most `into.len()` bytes at `offset`; 0 at the end.
    ///
    /// # Errors
    /// When the disk fails or the file is shorter than was stored.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        read_some(self.file.as_deref(), &self.held, self.size, offset, into)
    }
}

fn read_some(
    file: Option<&dyn VfsFile>,
    held: &[u8],
    size: u64,
    at: u64,
    into: &mut [u8],
) -> io::Result<usize> {
    let left = usize::try_from(size.saturating_sub(at)).unwrap_or(usize::MAX);
    let length = left.min(into.len());
    let into = into.get_mut(..length).unwrap_or_default();
    match file {
        Some(file) => read_exact_at(file, into, at)?,
        None => {
            let start = usize::try_from(at).unwrap_or(usize::MAX);
            let from = held.get(start..start.saturating_add(length)).ok_or(io::ErrorKind::UnexpectedEof)?;
            into.copy_from_slice(from);
        }
    }
    Ok(length)
}
