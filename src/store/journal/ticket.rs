//! Waiting for the disk.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use super::{JournalError, Location};

/// Where the frames of one append lie, in their order; they are durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// One for each frame.
    pub locations: Vec<Location>,
}

/// A value that is set once, waited for by a thread or a task.
#[derive(Debug)]
pub(super) struct Once<T> {
    state: Mutex<(Option<T>, Vec<Waker>)>,
    set: Condvar,
}

impl<T: Clone> Once<T> {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::new((None, Vec::new())), set: Condvar::new() })
    }

    fn state(&self) -> MutexGuard<'_, (Option<T>, Vec<Waker>)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the value; only the first one counts.
    pub(super) fn set(&self, value: T) {
        let mut state = self.state();
        if state.0.is_none() {
            state.0 = Some(value);
        }
        let wakers = std::mem::take(&mut state.1);
        drop(state);
        self.set.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(super) fn get(&self) -> Option<T> {
        self.state().0.clone()
    }

    fn wait(&self) -> T {
        let mut state = self.state();
        loop {
            match &state.0 {
                Some(value) => return value.clone(),
                None => state = self.set.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn poll(&self, context: &Context<'_>) -> Poll<T> {
        let mut state = self.state();
        match &state.0 {
            Some(value) => Poll::Ready(value.clone()),
            None => {
                if !state.1.iter().any(|waker| waker.will_wake(context.waker())) {
                    state.1.push(context.waker().clone());
                }
                Poll::Pending
            }
        }
    }
}

pub(super) type Outcome = Result<Committed, JournalError>;

/// What an append gives back: resolves only after the sync of its batch returned 0, or with the reason why
/// nothing is durable (storage §3.3 I1). Dropping it does not undo the append.
#[derive(Debug)]
#[must_use = "the append is durable only once the ticket resolved"]
pub struct Ticket(pub(super) Arc<Once<Outcome>>);

impl Ticket {
    pub(super) fn failed(error: JournalError) -> Self {
        let once = Once::new();
        once.set(Err(error));
        Self(once)
    }

    /// Blocks this thread until the outcome is known.
    ///
    /// # Errors
    /// When the frames are not durable.
    pub fn wait(self) -> Result<Committed, JournalError> {
        self.0.wait()
    }

    /// The outcome, when it is known already.
    #[must_use]
    pub fn outcome(&self) -> Option<Result<Committed, JournalError>> {
        self.0.get()
    }
}

impl Future for Ticket {
    type Output = Result<Committed, JournalError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(context)
    }
}

/// Resolves when the journal failed for good, with the reason: the process must then end with a status other
/// than 0 (storage §3.3 I8).
#[derive(Debug, Clone)]
pub struct Failure(pub(super) Arc<Once<JournalError>>);

impl Failure {
    /// Blocks this thread until the journal fails.
    #[must_use]
    pub fn wait(self) -> JournalError {
        self.0.wait()
    }
}

impl Future for Failure {
    type Output = JournalError;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_and_a_task_get_the_first_value() {
        let once = Once::new();
        let task = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let waiting = std::thread::spawn({
            let once = Arc::clone(&once);
            move || once.wait()
        });
        let failure = Failure(Arc::clone(&once));
        let setter = std::thread::spawn({
            let once = Arc::clone(&once);
            move || {
                once.set(JournalError::Full);
                once.set(JournalError::Closed);
            }
        });
        assert!(matches!(task.block_on(failure), JournalError::Full));
        assert!(matches!(waiting.join().unwrap(), JournalError::Full));
        setter.join().unwrap();
        assert!(matches!(once.get(), Some(JournalError::Full)));
    }
}
