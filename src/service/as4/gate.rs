//! The duplicate gate as the shell sees it: read the log, decide, claim (`duplicates` §2).

use super::intake::Stop;
use crate::{
    exchange::{
        Admitted, Notice, Opened, Refusal,
        duplicate::{self, Decision, Memory},
        receive,
    },
    model::{ItemId, MessageKey, Seen, Timestamp},
    store::{Busy, Claim, Fence, Store, StoreError},
};

/// What the gate says.
pub(super) enum Gate {
    /// A first message, and the id is ours.
    Ours(Fence, Vec<Notice>),
    /// Perhaps a repeat: open it without a claim, then ask again.
    LookCloser,
    /// A repeat: the stored answer of that item goes out.
    Replay(ItemId, Vec<Notice>),
    /// Somebody works on it: wait, then ask again.
    Busy(Busy),
}

/// How often the log may change between reading and claiming before we give up and answer 503.
const CHANGES_MAX: usize = 8;

/// Asks. `opened` is there once the payload was opened because of [`Gate::LookCloser`].
///
/// # Errors
/// The refusal of a conflict, a replayed signature, a signer that is not good; a fault of ours.
pub(super) fn ask(
    store: &Store,
    admitted: &Admitted,
    opened: Option<&Opened>,
    now: Timestamp,
) -> Result<Gate, Stop> {
    for _ in 0..CHANGES_MAX {
        let seen = store.seen(admitted.key(), admitted.arrival().scope)?;
        let decision = decide(store, admitted, opened, &seen, now)?;
        if let Some(refusal) = receive::refusal_of(admitted, &decision, &seen) {
            return Err(refusal.into());
        }
        let notices = match decision {
            Decision::Process(notices) => notices,
            Decision::Replay { index, notices } => {
                let first = seen.get(index).ok_or_else(|| Refusal::ours("the decision names no message"))?;
                return Ok(Gate::Replay(first.item, notices));
            }
            Decision::LookCloser { .. } => return Ok(Gate::LookCloser),
            Decision::Conflict { .. } | Decision::ReplayedSignature { .. } | Decision::SignerNotGood => {
                return Err(Refusal::ours("a decision without an answer").into());
            }
        };
        let policy = &admitted.pmode().duplicates;
        match store.claim(admitted.key(), policy.scope, &seen, now, policy.takeover_after)? {
            Claim::Won(fence) => return Ok(Gate::Ours(fence, notices)),
            Claim::Busy(busy) => return Ok(Gate::Busy(busy)),
            Claim::Changed => {}
        }
    }
    Err(Refusal::ours("the log kept changing").into())
}

fn decide(
    store: &Store,
    admitted: &Admitted,
    opened: Option<&Opened>,
    seen: &[Seen],
    now: Timestamp,
) -> Result<Decision, Stop> {
    let others: Vec<MessageKey> =
        store.seen_from_others(admitted.key())?.into_iter().map(|seen| seen.key).collect();
    let signature = &admitted.content().signature;
    let used = store.signature_used(admitted.key(), signature, now)?;
    let memory = Memory { seen, others: &others, signature_used_by: used };
    Ok(match opened {
        None => duplicate::decide(admitted, &memory, now),
        Some(opened) => duplicate::decide_opened(admitted, opened, &memory, now),
    })
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Refusal::ours(error.to_string()).into()
    }
}
