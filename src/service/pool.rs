//! A bounded pool for what takes a processor: private-key work, decryption, parsing, index lookups.
//!
//! Guarantees: at most `slots` jobs run and at most `queue_max` wait, so the runtime that moves bytes never
//! stalls and an overloaded node says so at once; a panic in a job costs that job only.

use std::sync::Arc;

use tokio::{sync::Semaphore, task::spawn_blocking};

/// Why a job gave no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// As many jobs wait as may wait.
    #[error("too much work is waiting")]
    Full,
    /// The job panicked: a bug of ours.
    #[error("a job panicked")]
    Panicked,
    /// The pool is closed.
    #[error("the service is ending")]
    Closed,
}

/// The pool. Clones share it.
#[derive(Debug, Clone)]
pub struct Pool {
    places: Arc<Semaphore>,
    slots: Arc<Semaphore>,
}

impl Pool {
    /// A pool that runs `slots` jobs at once and lets `queue_max` more wait.
    #[must_use]
    pub fn new(slots: usize, queue_max: usize) -> Self {
        let slots = slots.max(1);
        Self {
            places: Arc::new(Semaphore::new(slots.saturating_add(queue_max))),
            slots: Arc::new(Semaphore::new(slots)),
        }
    }

    /// Runs a job, in the order of asking.
    ///
    /// # Errors
    /// At once when too many wait; when the job panicked.
    pub async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, PoolError> {
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| PoolError::Full)?;
        let slot = Arc::clone(&self.slots).acquire_owned().await.map_err(|_| PoolError::Closed)?;
        // Place and slot go along: a caller that stops waiting does not make the job shorter.
        let job = spawn_blocking(move || {
            let result = job();
            drop((slot, place));
            result
        });
        job.await.map_err(|error| if error.is_panic() { PoolError::Panicked } else { PoolError::Closed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[tokio::test]
    async fn a_pool_takes_as_many_as_may_wait_and_not_one_more() {
        let pool = Pool::new(1, 1);
        let (go, wait) = mpsc::channel::<()>();
        let running = tokio::spawn({
            let pool = pool.clone();
            async move { pool.run(move || wait.recv().unwrap()).await }
        });
        while pool.slots.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let waiting = tokio::spawn({
            let pool = pool.clone();
            async move { pool.run(|| 2).await }
        });
        while pool.places.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(pool.run(|| 3).await, Err(PoolError::Full));
        go.send(()).unwrap();
        assert_eq!(running.await.unwrap(), Ok(()));
        assert_eq!(waiting.await.unwrap(), Ok(2));
        assert_eq!(pool.run(|| 4).await, Ok(4));
    }

    #[tokio::test]
    async fn a_panic_costs_one_job() {
        let pool = Pool::new(1, 0);
        assert_eq!(pool.run(|| panic!("bug")).await, Err::<(), _>(PoolError::Panicked));
        assert_eq!(pool.run(|| 1).await, Ok(1));
    }
}
