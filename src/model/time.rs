//! Instants and spans. The pure half is given the time; it never asks for it.

use std::{fmt, time::Duration};

use jiff::{civil::DateTime, tz::TimeZone};
use serde::{Deserialize, Serialize};

/// Why a text is no instant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    /// Not an xs:dateTime between 1970 and 9999.
    #[error("not an xs:dateTime between 1970 and 9999")]
    Syntax,
}

/// An instant in UTC, in milliseconds since 1970-01-01.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(u64);

/// A length of time in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Span(u64);

impl Span {
    /// So many milliseconds.
    #[must_use]
    pub const fn millis(n: u64) -> Self {
        Self(n)
    }

    /// So many seconds.
    #[must_use]
    pub const fn seconds(n: u64) -> Self {
        Self(n.saturating_mul(1000))
    }

    /// So many minutes.
    #[must_use]
    pub const fn minutes(n: u64) -> Self {
        Self::seconds(n.saturating_mul(60))
    }

    /// So many days of 24 hours.
    #[must_use]
    pub const fn days(n: u64) -> Self {
        Self::minutes(n.saturating_mul(24 * 60))
    }

    /// In milliseconds.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// For timers.
    #[must_use]
    pub const fn as_duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

impl Timestamp {
    /// So many milliseconds after 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// That much later, or the end of time.
    #[must_use]
    pub const fn plus(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// That much earlier, or 1970.
    #[must_use]
    pub const fn minus(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }

    /// How long after `earlier`; zero when it is not after.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// Reads xs:dateTime: no zone counts as UTC, any offset and any number of fraction digits is taken
    /// (ebMS3 Core §5.2.2.1; peers send all of these).
    ///
    /// # Errors
    /// When it is no date and time between 1970 and 9999.
    pub fn parse(text: &str) -> Result<Self, TimeError> {
        let text = text.trim();
        let dated = text.as_bytes().get(10) == Some(&b'T') && text.is_ascii() && !text.contains('[');
        if !dated {
            return Err(TimeError::Syntax);
        }
        let instant = text.parse::<jiff::Timestamp>().or_else(|_| {
            text.parse::<DateTime>().and_then(|local| local.to_zoned(TimeZone::UTC)).map(|z| z.timestamp())
        });
        let millis = instant.map_err(|_| TimeError::Syntax)?.as_millisecond();
        u64::try_from(millis).map(Self).map_err(|_| TimeError::Syntax)
    }
}

impl fmt::Display for Timestamp {
    /// `YYYY-MM-DDThh:mm:ss.SSSZ`, the form that is sent.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = i64::try_from(self.0).unwrap_or(i64::MAX);
        match jiff::Timestamp::from_millisecond(millis) {
            Ok(instant) => write!(f, "{instant:.3}"),
            Err(_) => f.write_str("9999-12-31T23:59:59.999Z"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, printed: &str) {
        assert_eq!(Timestamp::parse(text).map(|t| t.to_string()), Ok(printed.to_owned()), "{text}");
    }

    #[test]
    fn reads_every_spelling_of_peers_and_prints_one() {
        check("2026-12-01T04:00:00.123Z", "2026-12-01T04:00:00.123Z");
        check("2026-12-01T04:00:00", "2026-12-01T04:00:00.000Z");
        check("2026-12-01T05:00:00.1234567+01:00", "2026-12-01T04:00:00.123Z");
        check("2026-12-01T04:00:00.1234567", "2026-12-01T04:00:00.123Z");
        check("1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn refuses_what_is_no_instant() {
        for wrong in
            ["", "2026-12-01", "2026-13-01T00:00:00Z", "1969-12-31T23:59:59Z", "now", "é026-12-01T00:00"]
        {
            assert_eq!(Timestamp::parse(wrong), Err(TimeError::Syntax), "{wrong}");
        }
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Timestamp::from_millis(5).since(Timestamp::from_millis(9)), Span::millis(0));
        assert_eq!(Timestamp::from_millis(5).minus(Span::days(1)), Timestamp::from_millis(0));
        assert_eq!(
            Timestamp::from_millis(u64::MAX).plus(Span::days(1)).to_string(),
            "9999-12-31T23:59:59.999Z"
        );
    }
}
