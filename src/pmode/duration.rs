//! Lengths of time as an operator writes them: `90d`, `20s`, `10m`.

use crate::model::Span;

/// Why a text is no length of time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// No whole number, or none of the units.
    #[error("not a whole number with one of the units ms, s, m, h, d")]
    Syntax,
    /// More milliseconds than 64 bits hold.
    #[error("longer than can be counted")]
    TooLong,
}

/// Reads a whole number followed by its unit: `ms`, `s`, `m` (minutes), `h` or `d` (24 hours).
///
/// # Errors
/// When there is no number, no such unit, or the product does not fit.
pub fn parse(text: &str) -> Result<Span, DurationError> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits).ok_or(DurationError::Syntax)?;
    let number: u64 = match number {
        "" => return Err(DurationError::Syntax),
        number => number.parse().map_err(|_| DurationError::TooLong)?,
    };
    let millis = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(DurationError::Syntax),
    };
    number.checked_mul(millis).map(Span::millis).ok_or(DurationError::TooLong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_unit() {
        assert_eq!(parse("5ms"), Ok(Span::millis(5)));
        assert_eq!(parse("20s"), Ok(Span::seconds(20)));
        assert_eq!(parse("10m"), Ok(Span::minutes(10)));
        assert_eq!(parse("2h"), Ok(Span::minutes(120)));
        assert_eq!(parse("90d"), Ok(Span::days(90)));
        assert_eq!(parse("0s"), Ok(Span::millis(0)));
    }

    #[test]
    fn refuses_what_has_no_unit_or_does_not_fit() {
        for wrong in ["", "90", "d", "-1s", "1.5s", " 1s", "1 s", "1w", "é"] {
            assert_eq!(parse(wrong), Err(DurationError::Syntax), "{wrong}");
        }
        assert_eq!(parse("18446744073709551615ms"), Ok(Span::millis(u64::MAX)));
        assert_eq!(parse("18446744073709551616ms"), Err(DurationError::TooLong));
        assert_eq!(parse("18446744073709551615s"), Err(DurationError::TooLong));
    }
}
