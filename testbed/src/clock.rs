//! The one place of the testbed that asks the time.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use oncepoint::model::Timestamp;

/// Now, in UTC.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "messages carry the time at which they are sent")]
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Measures how long something takes.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts to measure.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the load tool measures durations")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Since the start.
    #[must_use]
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}
