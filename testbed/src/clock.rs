//! The one place of the testbed that asks the time.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Now, in UTC, as `YYYY-MM-DDThh:mm:ss.SSSZ`.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "messages carry the time at which they are sent")]
pub fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = i64::try_from(since.as_millis()).unwrap_or_default();
    jiff::Timestamp::from_millisecond(millis).map(|now| format!("{now:.3}")).unwrap_or_default()
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
