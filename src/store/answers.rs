//! The answers that went out last, in memory: a burst of repeats of one message reads the log once.

use std::{collections::VecDeque, sync::Mutex};

use crate::model::{Answer, ItemId};

use super::lock::lock;

/// Answers that are held.
const ANSWERS_MAX: usize = 64;
/// Largest answer that is held, in bytes.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Durable answers, the newest last.
#[derive(Debug, Default)]
pub(crate) struct AnswerCache {
    held: Mutex<VecDeque<(ItemId, Answer)>>,
}

impl AnswerCache {
    pub(crate) fn find(&self, item: ItemId) -> Option<Answer> {
        lock(&self.held).iter().rev().find(|(held, _)| *held == item).map(|(_, answer)| answer.clone())
    }

    /// Holds an answer that was read from the log.
    pub(crate) fn put(&self, item: ItemId, answer: &Answer) {
        if answer.body.len() > ANSWER_BYTES_MAX {
            return;
        }
        // A part of a frame would hold all of it.
        let body = bytes::Bytes::copy_from_slice(&answer.body);
        let mut held = lock(&self.held);
        held.retain(|(other, _)| *other != item);
        if held.len() >= ANSWERS_MAX {
            held.pop_front();
        }
        held.push_back((item, Answer { body, ..answer.clone() }));
    }

    /// Forgets all: what the log holds has changed.
    pub(crate) fn clear(&self) {
        lock(&self.held).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::AnswerKind;

    fn answer(size: usize) -> Answer {
        Answer { kind: AnswerKind::Receipt, status: 200, content_type: None, body: vec![b'x'; size].into() }
    }

    fn item(n: u128) -> ItemId {
        ItemId::from_uuid(uuid::Uuid::from_u128(n))
    }

    #[test]
    fn the_last_answers_are_held_and_none_beyond_the_limits() {
        let cache = AnswerCache::default();
        for n in 0..=ANSWERS_MAX as u128 {
            cache.put(item(n), &answer(1));
        }
        assert_eq!(cache.find(item(0)), None);
        assert_eq!(cache.find(item(1)), Some(answer(1)));
        cache.put(item(900), &answer(ANSWER_BYTES_MAX));
        assert!(cache.find(item(900)).is_some());
        cache.put(item(901), &answer(ANSWER_BYTES_MAX + 1));
        assert_eq!(cache.find(item(901)), None);
        cache.clear();
        assert_eq!(cache.find(item(900)), None);
    }
}
