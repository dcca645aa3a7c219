//! Open files of segments and sidecars, so that a read costs no open; bounded.

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{JournalError, segment::segment_path};
use crate::store::vfs::{OpenMode, Vfs, VfsFile};

/// Most files that are kept open for reading.
const OPEN_MAX: usize = 256;

#[derive(Debug)]
pub(super) struct Files {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    open: Mutex<HashMap<PathBuf, Arc<dyn VfsFile>>>,
}

impl Files {
    pub(super) fn new(vfs: Arc<dyn Vfs>, dir: PathBuf) -> Self {
        Self { vfs, dir, open: Mutex::default() }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<PathBuf, Arc<dyn VfsFile>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file, for reading.
    pub(super) fn get(&self, path: &Path) -> io::Result<Arc<dyn VfsFile>> {
        if let Some(file) = self.open().get(path) {
            return Ok(Arc::clone(file));
        }
        let file = self.vfs.open(path, OpenMode::Read)?;
        let mut open = self.open();
        if open.len() >= OPEN_MAX
            && let Some(one) = open.keys().next().cloned()
        {
            open.remove(&one);
        }
        open.insert(path.to_path_buf(), Arc::clone(&file));
        Ok(file)
    }

    /// The file of a segment, for reading.
    pub(super) fn segment(&self, number: u64) -> Result<Arc<dyn VfsFile>, JournalError> {
        match self.get(&segment_path(&self.dir, number)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(JournalError::Gone { segment: number })
            }
            opened => opened.map_err(JournalError::io("open a segment")),
        }
    }

    /// The file was removed or replaced.
    pub(super) fn forget(&self, path: &Path) {
        self.open().remove(path);
    }
}
