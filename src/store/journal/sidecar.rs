//! A `.keys` sidecar: the keys of one sealed segment, sorted, with a filter over them.
//!
//! ```text
//! blocks of 4096: count u16 · entries of 25 (key 17, offset u32, length u32) · zeros · CRC32C
//! first key of each block · filter
//! foot of 128: "OPKEYS01" · segment, epoch, end, entries, frames, oldest, newest, newest expiry, last LSN u64
//!              blocks u32 · filter length u32 · CRC32C of fences and filter · zeros · CRC32C
//! ```
//!
//! At a start only the foot, the fences and the filter are read; a block is checked when it is looked into.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use super::{
    JournalError, Key,
    codec::{self, Reader},
    files::Files,
    filter::{Filter, Hashed},
    live::{Contents, Spot, Summary},
};
use crate::{
    model::Timestamp,
    store::vfs::{OpenMode, Vfs, VfsFile, read_exact_at},
};

const MAGIC: [u8; 8] = *b"OPKEYS01";
const BLOCK: usize = 4096;
const ENTRY: usize = Key::OCTETS + 8;
const CRC: usize = 4;
/// Entries of one block.
const ENTRIES: usize = (BLOCK - 2 - CRC) / ENTRY;
const FOOT: usize = 128;
/// No such instant.
const NONE: u64 = u64::MAX;

/// One key and one of its places.
pub(super) type Entry = (Key, Spot);

/// What a sidecar must be of, to count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sealed {
    pub(super) number: u64,
    pub(super) epoch: u64,
    /// Valid end of the segment, in octets.
    pub(super) end: u64,
}

/// A block that is not what was written.
#[derive(Debug)]
pub(super) enum SidecarError {
    Damaged,
    Io(std::io::Error),
}

impl From<std::io::Error> for SidecarError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

/// A sidecar, opened.
#[derive(Debug)]
pub(super) struct Sidecar {
    pub(super) of: Sealed,
    pub(super) summary: Summary,
    pub(super) entries: u64,
    fences: Vec<Key>,
    filter: Filter,
    path: PathBuf,
    files: Arc<Files>,
    /// Set when its name is about to go, for those who still read it.
    pinned: OnceLock<Arc<dyn VfsFile>>,
}

/// The octets of a sidecar.
pub(super) fn encode(of: Sealed, contents: &Contents) -> Vec<u8> {
    let entries: Vec<Entry> =
        contents.keys.iter().flat_map(|(key, spots)| spots.iter().map(|spot| (*key, *spot))).collect();
    let mut out = Vec::with_capacity((entries.len() / ENTRIES + 1) * BLOCK);
    let mut fences = Vec::new();
    for block in entries.chunks(ENTRIES) {
        let start = out.len();
        fences.extend(block.iter().take(1).flat_map(|(key, _)| key.0));
        out.extend_from_slice(&u16::try_from(block.len()).unwrap_or(0).to_le_bytes());
        for (key, spot) in block {
            out.extend_from_slice(&key.0);
            out.extend_from_slice(&spot.offset.to_le_bytes());
            out.extend_from_slice(&spot.length.to_le_bytes());
        }
        out.resize(start + BLOCK - CRC, 0);
        codec::seal(&mut out, start);
    }
    let filter = Filter::build(contents.keys.keys());
    let mut middle = fences;
    middle.extend_from_slice(filter.octets());
    out.extend_from_slice(&middle);
    let foot = foot(of, contents, entries.len(), &filter, crc32c::crc32c(&middle));
    out.extend_from_slice(&foot);
    out
}

fn foot(of: Sealed, contents: &Contents, entries: usize, filter: &Filter, middle: u32) -> Vec<u8> {
    let instant = |at: Option<Timestamp>| at.map_or(NONE, Timestamp::as_millis);
    let summary = &contents.summary;
    let mut foot = MAGIC.to_vec();
    for number in [
        of.number,
        of.epoch,
        of.end,
        entries as u64,
        summary.frames,
        instant(summary.oldest),
        instant(summary.newest),
        instant(summary.newest_expiry),
        summary.last_lsn,
    ] {
        foot.extend_from_slice(&number.to_le_bytes());
    }
    for number in [entries.div_ceil(ENTRIES), filter.octets().len()] {
        foot.extend_from_slice(&u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
    }
    foot.extend_from_slice(&middle.to_le_bytes());
    foot.resize(FOOT - CRC, 0);
    codec::seal(&mut foot, 0);
    foot
}

struct Foot {
    of: Sealed,
    entries: u64,
    summary: Summary,
    blocks: usize,
    filter: usize,
    middle: u32,
}

fn read_foot(octets: &[u8]) -> Option<Foot> {
    let mut reader = Reader::new(codec::checked(octets)?);
    if reader.array()? != MAGIC {
        return None;
    }
    let instant = |millis: u64| (millis != NONE).then(|| Timestamp::from_millis(millis));
    let of = Sealed { number: reader.u64()?, epoch: reader.u64()?, end: reader.u64()? };
    let entries = reader.u64()?;
    let summary = Summary {
        frames: reader.u64()?,
        oldest: instant(reader.u64()?),
        newest: instant(reader.u64()?),
        newest_expiry: instant(reader.u64()?),
        last_lsn: reader.u64()?,
    };
    Some(Foot { of, entries, summary, blocks: reader.size()?, filter: reader.size()?, middle: reader.u32()? })
}

impl Sidecar {
    /// Opens the sidecar at `path`; `None` when it is absent, damaged, or of something else than `of`.
    pub(super) fn open(
        vfs: &dyn Vfs,
        files: &Arc<Files>,
        path: &Path,
        of: Sealed,
    ) -> Result<Option<Self>, JournalError> {
        let file = match vfs.open(path, OpenMode::Read) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(JournalError::io("open a sidecar"))?,
        };
        Self::load(&*file, files, path, of).map_err(JournalError::io("read a sidecar"))
    }

    fn load(
        file: &dyn VfsFile,
        files: &Arc<Files>,
        path: &Path,
        of: Sealed,
    ) -> std::io::Result<Option<Self>> {
        let size = file.size()?;
        let Some(foot_at) = size.checked_sub(FOOT as u64) else { return Ok(None) };
        let mut octets = [0; FOOT];
        read_exact_at(file, &mut octets, foot_at)?;
        let Some(foot) = read_foot(&octets).filter(|foot| foot.of == of) else { return Ok(None) };
        let blocks = foot.blocks as u64;
        let fences = blocks.saturating_mul(Key::OCTETS as u64);
        let middle = fences.saturating_add(foot.filter as u64);
        if blocks.saturating_mul(BLOCK as u64).saturating_add(middle) != foot_at {
            return Ok(None);
        }
        let mut octets = vec![0; usize::try_from(middle).unwrap_or(0)];
        read_exact_at(file, &mut octets, foot_at - middle)?;
        if crc32c::crc32c(&octets) != foot.middle {
            return Ok(None);
        }
        let Some((fences, filter)) = octets.split_at_checked(foot.blocks * Key::OCTETS) else {
            return Ok(None);
        };
        let (fences, _) = fences.as_chunks::<{ Key::OCTETS }>();
        let fences = fences.iter().map(|key| Key(*key)).collect();
        let Some(filter) = Filter::from_octets(filter) else { return Ok(None) };
        Ok(Some(Self {
            of,
            summary: foot.summary,
            entries: foot.entries,
            fences,
            filter,
            path: path.to_path_buf(),
            files: Arc::clone(files),
            pinned: OnceLock::new(),
        }))
    }

    /// Keeps the file open until the sidecar is dropped; called before its name goes.
    pub(super) fn pin(&self) -> std::io::Result<()> {
        let _ = self.pinned.set(self.files.get(&self.path)?);
        self.files.forget(&self.path);
        Ok(())
    }

    /// `false`: the key is surely not in this segment.
    pub(super) fn may_hold(&self, hashed: Hashed) -> bool {
        self.filter.may_hold(hashed)
    }

    /// How many blocks there are.
    pub(super) fn blocks(&self) -> usize {
        self.fences.len()
    }

    /// The first key of a block.
    pub(super) fn first_of(&self, number: usize) -> Option<Key> {
        self.fences.get(number).copied()
    }

    /// The entries of one block, sorted.
    pub(super) fn block(&self, number: usize) -> Result<Vec<Entry>, SidecarError> {
        let mut octets = [0; BLOCK];
        let file = match self.pinned.get() {
            Some(file) => Arc::clone(file),
            None => self.files.get(&self.path)?,
        };
        read_exact_at(&*file, &mut octets, number as u64 * BLOCK as u64)?;
        let entries = parse_block(&octets).ok_or(SidecarError::Damaged)?;
        match (entries.first(), self.fences.get(number)) {
            (Some((first, _)), Some(fence)) if first == fence => Ok(entries),
            _ => Err(SidecarError::Damaged),
        }
    }

    /// The block in which the first entry at or after `key` lies.
    pub(super) fn block_of(&self, key: &Key) -> usize {
        self.fences.partition_point(|fence| fence < key).saturating_sub(1)
    }

    /// Every place of a key.
    pub(super) fn find(&self, key: &Key) -> Result<Vec<Spot>, SidecarError> {
        let mut found = Vec::new();
        for number in self.block_of(key)..self.blocks() {
            if self.fences.get(number).is_some_and(|fence| fence > key) {
                break;
            }
            found.extend(self.block(number)?.iter().filter(|(held, _)| held == key).map(|(_, spot)| *spot));
        }
        Ok(found)
    }
}

fn parse_block(octets: &[u8]) -> Option<Vec<Entry>> {
    let mut reader = Reader::new(codec::checked(octets)?);
    let count = reader.u16()?;
    let mut entries = Vec::with_capacity(usize::from(count).min(ENTRIES));
    for _ in 0..count {
        let key = Key(reader.array()?);
        entries.push((key, Spot { offset: reader.u32()?, length: reader.u32()? }));
    }
    Some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::vfs::{Cut, Directories, FaultyVfs};

    const OF: Sealed = Sealed { number: 3, epoch: 2, end: 9000 };

    fn key(n: u64) -> Key {
        Key::new(b'a', (u128::from(n) << 64).to_be_bytes())
    }

    fn contents(n: u64) -> Contents {
        let mut contents = Contents::default();
        for i in 0..n {
            let spot = Spot { offset: u32::try_from(i).unwrap(), length: 9 };
            contents.add_keys([key(i), key(i % 3)].into_iter(), spot);
        }
        contents.summary.frames = n;
        contents
    }

    fn opened(octets: &[u8], of: Sealed) -> Option<Sidecar> {
        let vfs = FaultyVfs::new(1, Cut::All, Directories::Strict);
        let path = Path::new("/d/k");
        vfs.put(path, octets);
        let files = Arc::new(Files::new(Arc::new(vfs.clone()), "/d".into()));
        Sidecar::open(&vfs, &files, path, of).unwrap()
    }

    #[test]
    fn every_key_is_found_with_all_its_places_across_blocks() {
        for n in [0, 1, 162, 163, 164, 2000] {
            let contents = contents(n);
            let sidecar = opened(&encode(OF, &contents), OF).unwrap();
            assert_eq!(sidecar.summary, contents.summary);
            for (key, spots) in &contents.keys {
                assert!(sidecar.may_hold(Hashed::of(key)));
                assert_eq!(&sidecar.find(key).unwrap(), spots);
            }
            assert_eq!(sidecar.find(&key(n + 5)).unwrap(), []);
            assert_eq!(sidecar.find(&Key([0; 17])).unwrap(), []);
        }
    }

    #[test]
    fn a_sidecar_of_another_segment_epoch_or_end_does_not_count() {
        let octets = encode(OF, &contents(9));
        for of in [Sealed { number: 4, ..OF }, Sealed { epoch: 3, ..OF }, Sealed { end: 8488, ..OF }] {
            assert!(opened(&octets, of).is_none());
        }
    }

    #[test]
    fn no_damaged_octet_hides_a_key() {
        let contents = contents(400);
        let whole = encode(OF, &contents);
        for at in (0..whole.len()).step_by(7) {
            let mut octets = whole.clone();
            octets[at] ^= 0x10;
            let Some(sidecar) = opened(&octets, OF) else { continue };
            let key = Key(sidecar.fences[at / BLOCK].0);
            assert!(matches!(sidecar.find(&key), Err(SidecarError::Damaged)), "octet {at}");
        }
        for cut in [0, 1, 127, 128, 5000, whole.len() - 1] {
            assert!(opened(&whole[..cut], OF).is_none());
        }
    }
}
