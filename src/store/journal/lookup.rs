//! Finding frames by key, and reading them. A key that is in the journal is always found (storage §3.3 I7).

use std::{cmp::Reverse, collections::BinaryHeap, io, sync::Arc};

use bytes::Bytes;

use super::{
    FrameRef, JournalError, Key, Location, Origin, StoredFrame,
    batch::Position,
    cache::Looked,
    filter::Hashed,
    frame::{Decoded, FRAME_MAX},
    live::{KeyMap, Spot},
    shared::{Shared, Sources},
    sidecar::{Entry, Sidecar, SidecarError},
};
use crate::store::vfs::read_exact_at;

/// How often a look-up begins again because a segment was purged meanwhile.
const TRIES: usize = 4;
const ID_MAX: [u8; 16] = [u8::MAX; 16];

/// Where the next key of one source comes from.
enum Cursor {
    Sealed { sidecar: Arc<Sidecar>, next_block: usize, entries: std::vec::IntoIter<Entry> },
    Listed { segment: u64, entries: std::vec::IntoIter<Entry> },
}

impl Cursor {
    fn segment(&self) -> u64 {
        match self {
            Self::Sealed { sidecar, .. } => sidecar.of.number,
            Self::Listed { segment, .. } => *segment,
        }
    }

    fn listed(segment: u64, keys: &KeyMap, from: Key, to: Key, limit: usize) -> Self {
        let range = keys.range(from..=to);
        let entries = range.flat_map(|(key, spots)| spots.iter().map(|spot| (*key, *spot)));
        Self::Listed { segment, entries: entries.take(limit).collect::<Vec<_>>().into_iter() }
    }
}

impl Shared {
    /// Runs a look-up, again when a segment went away under it.
    fn again_when_gone<T>(
        &self,
        mut look: impl FnMut(&Sources) -> Result<T, JournalError>,
    ) -> Result<T, JournalError> {
        for _ in 1..TRIES {
            match look(&self.sources()) {
                Err(JournalError::Gone { .. }) => {}
                done => return done,
            }
        }
        look(&self.sources())
    }

    pub(super) fn find(&self, key: &Key) -> Result<Vec<Location>, JournalError> {
        let hashed = Hashed::of(key);
        self.again_when_gone(|sources| {
            let mut found = Vec::new();
            for sidecar in sources.sealed.iter().filter(|sidecar| sidecar.may_hold(hashed)) {
                let spots = self.find_sealed(sidecar, key)?;
                found.extend(spots.into_iter().map(|spot| spot.within(sidecar.of.number)));
            }
            for live in &sources.live {
                let contents = live.contents();
                let spots = contents.keys.get(key).into_iter().flatten();
                found.extend(spots.map(|spot| spot.within(live.number)));
            }
            Ok(found)
        })
    }

    /// The cache first; what it does not have is looked for in the sidecar.
    fn find_sealed(&self, sidecar: &Sidecar, key: &Key) -> Result<Vec<Spot>, JournalError> {
        let looked = self.cache.look(key, sidecar.of.number);
        if let Looked::Places(spots) = looked {
            return Ok(spots);
        }
        match sidecar.find(key) {
            Ok(found) => {
                if looked == Looked::Absent && !found.is_empty() {
                    self.count_fault("the index had lost a key; it is rebuilt");
                    self.cache.rebuild(self.sources().sealed.clone());
                }
                Ok(found)
            }
            Err(error) => {
                let contents = self.without_sidecar(sidecar, error)?;
                Ok(contents.get(key).cloned().unwrap_or_default())
            }
        }
    }

    /// The keys of a segment whose sidecar cannot be read.
    fn without_sidecar(&self, sidecar: &Sidecar, error: SidecarError) -> Result<KeyMap, JournalError> {
        if let SidecarError::Io(error) = error
            && error.kind() != io::ErrorKind::UnexpectedEof
        {
            return Err(JournalError::io("read a sidecar")(error));
        }
        self.count_fault("a sidecar is damaged; it is made anew");
        self.report_damaged_sidecar(sidecar.of.number);
        Ok(self.contents_of(sidecar.of)?.keys)
    }

    fn block(&self, sidecar: &Sidecar, number: usize) -> Result<Option<Vec<Entry>>, JournalError> {
        match sidecar.block(number) {
            Ok(entries) => Ok(Some(entries)),
            Err(SidecarError::Damaged) => Ok(None),
            Err(SidecarError::Io(error)) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(SidecarError::Io(error)) => Err(JournalError::io("read a sidecar")(error)),
        }
    }

    pub(super) fn range(
        &self,
        prefix: u8,
        from: [u8; 16],
        limit: usize,
    ) -> Result<Vec<([u8; 16], Location)>, JournalError> {
        let (from, to) = (Key::new(prefix, from), Key::new(prefix, ID_MAX));
        self.again_when_gone(|sources| self.merge(sources, from, to, limit))
    }

    /// Merges the sources by key.
    fn merge(
        &self,
        sources: &Sources,
        from: Key,
        to: Key,
        limit: usize,
    ) -> Result<Vec<([u8; 16], Location)>, JournalError> {
        let mut cursors = Vec::new();
        for sidecar in &sources.sealed {
            let next_block = sidecar.block_of(&from);
            let entries = Vec::new().into_iter();
            cursors.push(Cursor::Sealed { sidecar: Arc::clone(sidecar), next_block, entries });
        }
        for live in &sources.live {
            cursors.push(Cursor::listed(live.number, &live.contents().keys, from, to, limit));
        }
        let mut heads = BinaryHeap::new();
        for (index, cursor) in cursors.iter_mut().enumerate() {
            heads.extend(self.advance(cursor, from, to)?.map(|entry| Reverse((entry, index))));
        }
        let mut merged = Vec::new();
        while merged.len() < limit
            && let Some(Reverse(((key, spot), index))) = heads.pop()
            && let Some(cursor) = cursors.get_mut(index)
        {
            merged.push((key.id(), spot.within(cursor.segment())));
            heads.extend(self.advance(cursor, from, to)?.map(|entry| Reverse((entry, index))));
        }
        Ok(merged)
    }

    /// The next entry of a source within the range.
    fn advance(&self, cursor: &mut Cursor, from: Key, to: Key) -> Result<Option<Entry>, JournalError> {
        loop {
            let (Cursor::Sealed { entries, .. } | Cursor::Listed { entries, .. }) = cursor;
            match entries.next() {
                Some((key, _)) if key < from => continue,
                Some((key, _)) if key > to => return Ok(None),
                Some(entry) => return Ok(Some(entry)),
                None => {}
            }
            let Cursor::Sealed { sidecar, next_block, entries } = cursor else { return Ok(None) };
            if *next_block >= sidecar.blocks() {
                return Ok(None);
            }
            match self.block(sidecar, *next_block)? {
                Some(block) => *entries = block.into_iter(),
                None => {
                    let all = self.without_sidecar(sidecar, SidecarError::Damaged)?;
                    let start = sidecar.first_of(*next_block).unwrap_or(from).max(from);
                    *cursor = Cursor::listed(sidecar.of.number, &all, start, to, usize::MAX);
                    continue;
                }
            }
            *next_block += 1;
        }
    }

    pub(super) fn for_each_key(
        &self,
        prefix: u8,
        on: &mut dyn FnMut([u8; 16], Location),
    ) -> Result<(), JournalError> {
        let (from, to) = (Key::new(prefix, [0; 16]), Key::new(prefix, ID_MAX));
        // Gathered before anything is told, so that a segment that goes away meanwhile is told of once.
        let all = self.again_when_gone(|sources| {
            let mut all = Vec::new();
            for sidecar in &sources.sealed {
                let (next_block, entries) = (sidecar.block_of(&from), Vec::new().into_iter());
                let mut cursor = Cursor::Sealed { sidecar: Arc::clone(sidecar), next_block, entries };
                while let Some((key, spot)) = self.advance(&mut cursor, from, to)? {
                    all.push((key.id(), spot.within(cursor.segment())));
                }
            }
            for live in &sources.live {
                let contents = live.contents();
                for (key, spots) in contents.keys.range(from..=to) {
                    all.extend(spots.iter().map(|spot| (key.id(), spot.within(live.number))));
                }
            }
            Ok(all)
        })?;
        for (id, at) in all {
            on(id, at);
        }
        Ok(())
    }

    /// The octets of a frame.
    fn octets_of(&self, at: Location) -> Result<Bytes, JournalError> {
        let damaged = |what| JournalError::Damaged { segment: at.segment, offset: at.offset.into(), what };
        let length = usize::try_from(at.length).unwrap_or(usize::MAX);
        if length > FRAME_MAX {
            return Err(damaged("the length of a frame"));
        }
        let file = self.files.segment(at.segment)?;
        let mut octets = vec![0; length];
        match read_exact_at(&*file, &mut octets, at.offset.into()) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(damaged("the end of a frame")),
            read => read.map(|()| octets.into()).map_err(JournalError::io("read a frame")),
        }
    }

    pub(super) fn read(&self, at: Location) -> Result<StoredFrame, JournalError> {
        let octets = self.octets_of(at)?;
        let (segment, offset) = (at.segment, at.offset.into());
        match FrameRef::decode(&octets) {
            Some(Decoded::Whole(frame)) if frame.origin != Origin::Salvaged => {
                Ok(StoredFrame::from_parts(&octets, &frame))
            }
            Some(_) => Err(JournalError::BodyDamaged { segment, offset }),
            None => Err(JournalError::Damaged { segment, offset, what: "the head of a frame" }),
        }
    }

    pub(super) fn read_head(&self, at: Location) -> Result<StoredFrame, JournalError> {
        let octets = self.octets_of(at)?;
        match FrameRef::decode(&octets) {
            Some(Decoded::Whole(frame) | Decoded::HeadOnly(frame)) => {
                Ok(StoredFrame::from_parts(&octets, &frame.without_body()))
            }
            None => Err(JournalError::Damaged {
                segment: at.segment,
                offset: at.offset.into(),
                what: "the head of a frame",
            }),
        }
    }

    /// Every segment with its end, oldest first.
    pub(super) fn extents(&self) -> Vec<(Position, u64)> {
        let sources = self.sources();
        let sealed = sources.sealed.iter().map(|sidecar| {
            (Position { segment: sidecar.of.number, offset: sidecar.of.end }, sidecar.of.epoch)
        });
        let live = sources
            .live
            .iter()
            .map(|live| (Position { segment: live.number, offset: live.committed() }, live.epoch));
        sealed.chain(live).collect()
    }
}
