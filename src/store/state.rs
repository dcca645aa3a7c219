//! What is known in memory: a fold over frames. Both backends have this one fold, so what a restart finds
//! is what was there before it.

use std::collections::HashSet;

use crate::model::{ItemId, Timestamp};

use super::{frame::Head, history::Tally, inbox::Board};

/// The state in memory.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub board: Board,
    pub tally: Tally,
    /// Items with a change on its way to the disk: nobody else changes them meanwhile.
    pub busy: HashSet<ItemId>,
    /// When the newest message was accepted or refused.
    pub newest: Timestamp,
}

impl State {
    /// Takes a durable frame. It cannot fail.
    pub(crate) fn apply(&mut self, head: &Head) {
        match head {
            Head::Accept(head) => {
                self.newest = self.newest.max(head.at);
                self.board.accepted(head);
            }
            Head::Delivery(head) => self.board.delivered(head),
            Head::Record(record) => {
                self.newest = self.newest.max(record.at);
                self.tally.recorded(record);
            }
            Head::Answer(_) | Head::Repeats(_) => {}
        }
    }
}
