//! Open files of segments, so that a read costs no open; bounded.

use std::{
    collections::HashMap,
    io,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{JournalError, segment::segment_path};
use crate::store::vfs::{OpenMode, Vfs, VfsFile};

/// Most segments that are kept open for reading.
const OPEN_MAX: usize = 256;

#[derive(Debug)]
pub(super) struct Files {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    open: Mutex<HashMap<u64, Arc<dyn VfsFile>>>,
}

impl Files {
    pub(super) fn new(vfs: Arc<dyn Vfs>, dir: PathBuf) -> Self {
        Self { vfs, dir, open: Mutex::default() }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, Arc<dyn VfsFile>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file of a segment, for reading.
    pub(super) fn segment(&self, number: u64) -> Result<Arc<dyn VfsFile>, JournalError> {
        if let Some(file) = self.open().get(&number) {
            return Ok(Arc::clone(file));
        }
        let file = match self.vfs.open(&segment_path(&self.dir, number), OpenMode::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(JournalError::Gone { segment: number });
            }
            opened => opened.map_err(JournalError::io("open a segment"))?,
        };
        let mut open = self.open();
        if open.len() >= OPEN_MAX
            && let Some(oldest) = open.keys().min().copied()
        {
            open.remove(&oldest);
        }
        open.insert(number, Arc::clone(&file));
        Ok(file)
    }

    pub(super) fn forget(&self, number: u64) {
        self.open().remove(&number);
    }
}
