//! Tasks that outlive their connection, and waiting for them at the end.

use std::{future::Future, sync::Arc};

use tokio::sync::watch;

/// Counts tasks. Clones share the count.
#[derive(Debug, Clone)]
pub struct Tasks(Arc<watch::Sender<usize>>);

impl Default for Tasks {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

struct Counted(Arc<watch::Sender<usize>>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}

impl Tasks {
    /// Runs a task on the runtime.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.send_modify(|count| *count = count.saturating_add(1));
        let counted = Counted(Arc::clone(&self.0));
        tokio::spawn(async move {
            task.await;
            drop(counted);
        });
    }

    /// Returns once no task is left.
    pub async fn finished(&self) {
        // The sender lives as long as self, so waiting cannot fail.
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn the_end_waits_for_the_last_task_even_when_one_panics() {
        let tasks = Tasks::default();
        let (go, wait) = oneshot::channel::<()>();
        tasks.spawn(async move { wait.await.unwrap() });
        tasks.spawn(async { panic!("bug") });
        let mut finished = tokio::spawn({
            let tasks = tasks.clone();
            async move { tasks.finished().await }
        });
        tokio::select! {
            _ = &mut finished => panic!("one task is still there"),
            () = tokio::task::yield_now() => {}
        }
        go.send(()).unwrap();
        finished.await.unwrap();
    }
}
