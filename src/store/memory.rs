//! The log in memory: the same frames, for tests and trials. Nothing survives the process.

use std::{collections::BTreeMap, ops::Range, sync::Mutex};

use bytes::Bytes;

use super::{
    StoreError,
    frame::{Entry, Head, IndexKey},
    journal::PurgeBudget,
    lock::lock,
    log::{Done, Met, More, Place, Purged, Verdict},
};

/// What a purge budget's segment is worth, in frames.
const FRAMES_PER_SEGMENT: u64 = 1000;

/// A log that is durable as long as the process.
#[derive(Debug, Default)]
pub(crate) struct MemoryLog {
    frames: Mutex<Frames>,
}

#[derive(Debug, Default)]
struct Frames {
    kept: BTreeMap<usize, Kept>,
    keys: BTreeMap<IndexKey, Vec<usize>>,
    next: usize,
    fault: Option<StoreError>,
}

#[derive(Debug)]
struct Kept {
    head: Vec<u8>,
    body: Bytes,
    keys: Vec<IndexKey>,
}

impl MemoryLog {
    pub(crate) fn append(&self, entries: Vec<Entry>, done: Done) {
        let result = {
            let mut frames = lock(&self.frames);
            match &frames.fault {
                Some(fault) => Err(fault.clone()),
                None => {
                    entries.into_iter().for_each(|entry| frames.push(entry));
                    Ok(())
                }
            }
        };
        done(result);
    }

    /// From now on every append fails so; none: appends work again.
    pub(crate) fn set_fault(&self, fault: Option<StoreError>) {
        lock(&self.frames).fault = fault;
    }

    pub(crate) fn fault(&self) -> Option<StoreError> {
        lock(&self.frames).fault.clone()
    }

    pub(crate) fn heads(&self, key: &IndexKey) -> Result<Vec<(Place, Head)>, StoreError> {
        let numbers = lock(&self.frames).keys.get(key).cloned().unwrap_or_default();
        numbers.into_iter().map(|number| Ok((Place::Memory(number), self.head(number)?))).collect()
    }

    fn head(&self, number: usize) -> Result<Head, StoreError> {
        let head = lock(&self.frames).kept.get(&number).map(|kept| kept.head.clone());
        Head::decode(&head.ok_or_else(gone)?)
    }

    pub(crate) fn body(&self, number: usize, range: Range<u64>) -> Result<Bytes, StoreError> {
        let body = lock(&self.frames).kept.get(&number).map(|kept| kept.body.clone()).ok_or_else(gone)?;
        cut(&body, range)
    }

    pub(crate) fn range(&self, prefix: u8, after: Option<[u8; 16]>, max: usize) -> (Vec<[u8; 16]>, More) {
        let frames = lock(&self.frames);
        let mut from = [prefix; 17];
        from.iter_mut().skip(1).zip(after.unwrap_or_default()).for_each(|(to, byte)| *to = byte);
        let of_prefix = frames.keys.range(from..).map_while(|(key, _)| {
            let [first, id @ ..] = *key;
            (first == prefix).then_some(id)
        });
        let ids: Vec<[u8; 16]> = of_prefix.filter(|id| Some(*id) != after).take(max).collect();
        let more = if ids.len() < max { More::None } else { More::Perhaps };
        (ids, more)
    }

    /// A segment of the budget counts as [`FRAMES_PER_SEGMENT`] frames here.
    pub(crate) fn purge(
        &self,
        budget: PurgeBudget,
        judge: &dyn Fn(&Head, Place) -> Verdict,
    ) -> Result<Purged, StoreError> {
        let mut purged = Purged::default();
        let budget = budget.segments.saturating_mul(FRAMES_PER_SEGMENT);
        for number in self.numbers() {
            if purged.dropped >= budget {
                purged.left = 1;
                break;
            }
            if judge(&self.head(number)?, Place::Memory(number)) == Verdict::Expired {
                lock(&self.frames).remove(number);
                purged.dropped += 1;
            }
        }
        Ok(purged)
    }

    pub(crate) fn verify(&self, each: &mut dyn FnMut(&Met<'_>)) -> Result<Vec<String>, StoreError> {
        for number in self.numbers() {
            let (head, body) = (self.head(number)?, self.body(number, 0..u64::MAX)?);
            each(&Met { head: &head, body: &body, expires_at: head.expires_at() });
        }
        Ok(Vec::new())
    }

    fn numbers(&self) -> Vec<usize> {
        lock(&self.frames).kept.keys().copied().collect()
    }

    /// Changes a stored byte, as a bad disk would.
    pub(crate) fn damage(&self, place: Place, offset: usize) {
        let Place::Memory(number) = place else { return };
        if let Some(kept) = lock(&self.frames).kept.get_mut(&number) {
            let mut body = kept.body.to_vec();
            body.get_mut(offset).into_iter().for_each(|byte| *byte ^= 0x40);
            kept.body = body.into();
        }
    }
}

impl Frames {
    fn push(&mut self, entry: Entry) {
        for key in &entry.keys {
            self.keys.entry(*key).or_default().push(self.next);
        }
        self.kept.insert(self.next, Kept { head: entry.head, body: entry.body.into(), keys: entry.keys });
        self.next += 1;
    }

    fn remove(&mut self, number: usize) {
        let Some(kept) = self.kept.remove(&number) else { return };
        for key in kept.keys {
            if let Some(numbers) = self.keys.get_mut(&key) {
                numbers.retain(|other| *other != number);
                if numbers.is_empty() {
                    self.keys.remove(&key);
                }
            }
        }
    }
}

/// Those bytes of `body`; an end beyond it means its end.
pub(crate) fn cut(body: &Bytes, range: Range<u64>) -> Result<Bytes, StoreError> {
    let length = body.len();
    let within = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX).min(length);
    let (start, end) = (within(range.start), within(range.end));
    if start > end {
        return Err(StoreError::Damaged("a section begins behind its end".to_owned()));
    }
    Ok(body.slice(start..end))
}

fn gone() -> StoreError {
    StoreError::Damaged("a frame that is named is not there".to_owned())
}
