//! Durations and sizes as operators write them: `"90d"`, `"20s"`, `"100MiB"`.

use serde::{Deserialize, Serialize};

use crate::model::Span;

/// Why a text is no duration or size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// Not a whole number with a unit of time.
    #[error("{0:?} is no duration: write a whole number and ms, s, m, h or d, like \"20s\" or \"90d\"")]
    Duration(String),
    /// Not a whole number with a unit of size.
    #[error("{0:?} is no size: write a whole number and B, KiB, MiB or GiB, like \"100MiB\"")]
    Size(String),
}

/// A duration with its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Duration(Span);

/// A size in bytes with its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Size(u64);

/// Units of time, in milliseconds, the longest first.
const TIME_UNITS: &[(&str, u64)] =
    &[("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// Units of size, in bytes, the largest first.
const SIZE_UNITS: &[(&str, u64)] = &[("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

impl Duration {
    /// A duration from its span.
    #[must_use]
    pub const fn new(span: Span) -> Self {
        Self(span)
    }

    /// The span.
    #[must_use]
    pub const fn span(self) -> Span {
        self.0
    }

    /// Reads a whole number and a unit.
    ///
    /// # Errors
    /// When there is no unit, an unknown one, or the number does not fit.
    pub fn parse(text: &str) -> Result<Self, ValueError> {
        let millis = parse_unit(text, TIME_UNITS).ok_or_else(|| ValueError::Duration(text.to_owned()))?;
        Ok(Self(Span::millis(millis)))
    }
}

impl Size {
    /// A size in bytes.
    #[must_use]
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// In bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// Reads a whole number and a unit.
    ///
    /// # Errors
    /// When there is no unit, an unknown one, or the number does not fit.
    pub fn parse(text: &str) -> Result<Self, ValueError> {
        parse_unit(text, SIZE_UNITS).map(Self).ok_or_else(|| ValueError::Size(text.to_owned()))
    }
}

fn parse_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim())?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

fn print_unit(n: u64, units: &[(&str, u64)]) -> String {
    let fitting = units.iter().find(|(_, factor)| n.is_multiple_of(*factor) && n >= *factor);
    let (unit, factor) = fitting.or_else(|| units.last()).copied().unwrap_or(("", 1));
    format!("{}{unit}", n / factor)
}

impl std::fmt::Display for Duration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&print_unit(self.0.as_millis(), TIME_UNITS))
    }
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&print_unit(self.0, SIZE_UNITS))
    }
}

impl TryFrom<String> for Duration {
    type Error = ValueError;
    fn try_from(text: String) -> Result<Self, ValueError> {
        Self::parse(&text)
    }
}

impl TryFrom<String> for Size {
    type Error = ValueError;
    fn try_from(text: String) -> Result<Self, ValueError> {
        Self::parse(&text)
    }
}

impl From<Duration> for String {
    fn from(duration: Duration) -> Self {
        duration.to_string()
    }
}

impl From<Size> for String {
    fn from(size: Size) -> Self {
        size.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_print_as_they_are_read() {
        for text in ["90d", "36h", "10m", "20s", "250ms", "0ms"] {
            assert_eq!(Duration::parse(text).map(|d| d.to_string()), Ok(text.to_owned()));
        }
        for text in ["2GiB", "100MiB", "64KiB", "1B", "0B"] {
            assert_eq!(Size::parse(text).map(|s| s.to_string()), Ok(text.to_owned()));
        }
        assert_eq!(Duration::parse("120s").map(|d| d.to_string()), Ok("2m".to_owned()));
    }

    #[test]
    fn a_number_without_a_unit_is_refused_with_the_way_to_write_it() {
        for text in ["", "20", "s", "1.5h", "-1s", "20 parsecs", "99999999999999999999d"] {
            assert_eq!(Duration::parse(text), Err(ValueError::Duration(text.to_owned())));
        }
        for text in ["", "20", "MiB", "1MB", "99999999999GiB"] {
            assert_eq!(Size::parse(text), Err(ValueError::Size(text.to_owned())));
        }
    }
}
