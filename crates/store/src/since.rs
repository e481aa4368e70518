//! From where on changes are wanted, as people write it.

use std::str::FromStr;

use jiff::{Span, Timestamp, Zoned, civil};

/// A point in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogPosition {
    /// After the change with this number.
    After(u64),
    /// At this time or later.
    At(Timestamp),
}

/// Text that names no point in the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is neither the number of a change, nor a time, nor a duration; \
     write 42, 2026-11-15T12:00:00Z, 2026-11-15 or 1h30m"
)]
pub struct SinceError(pub String);

impl LogPosition {
    /// Reads a number, an RFC 3339 time, a local date or date and time, or how long ago.
    pub fn parse(text: &str, now: &Zoned) -> Result<Self, SinceError> {
        let text = text.trim();
        let unknown = || SinceError(text.chars().take(80).collect());
        // Before the dates: `20261115` is the number of a change, and a date only with hyphens.
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return text.parse().map(Self::After).map_err(|_| unknown());
        }
        if let Ok(time) = Timestamp::from_str(text) {
            return Ok(Self::At(time));
        }
        // Without an offset the time of this machine is meant.
        if let Ok(local) = civil::DateTime::from_str(text) {
            let zoned = local.to_zoned(now.time_zone().clone()).map_err(|_| unknown())?;
            return Ok(Self::At(zoned.timestamp()));
        }
        // "1h" and "-1h" both mean an hour ago.
        let ago = Span::from_str(text).map_err(|_| unknown())?.abs();
        now.checked_sub(ago).map(|then| Self::At(then.timestamp())).map_err(|_| unknown())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<LogPosition, SinceError> {
        let now: Zoned = "2026-11-15T12:00:00+02:00[+02:00]".parse().expect("a time");
        LogPosition::parse(text, &now)
    }

    fn at(text: &str) -> Result<LogPosition, SinceError> {
        Ok(LogPosition::At(text.parse().expect("a time")))
    }

    #[test]
    fn numbers_times_and_durations_are_understood() {
        assert_eq!(parse("0"), Ok(LogPosition::After(0)));
        assert_eq!(parse(" 42 "), Ok(LogPosition::After(42)));
        assert_eq!(parse("2026-11-15T09:30:00Z"), at("2026-11-15T09:30:00Z"));
        assert_eq!(parse("2026-11-15T09:30:00.25+01:00"), at("2026-11-15T08:30:00.25Z"));
        assert_eq!(parse("2026-11-15"), at("2026-11-14T22:00:00Z"));
        assert_eq!(parse("2026-11-15T08:00"), at("2026-11-15T06:00:00Z"));
        assert_eq!(parse("1h"), at("2026-11-15T09:00:00Z"));
        assert_eq!(parse("1h 30m"), at("2026-11-15T08:30:00Z"));
        assert_eq!(parse("7d"), at("2026-11-08T10:00:00Z"));
        assert_eq!(parse("90s"), at("2026-11-15T09:58:30Z"));
    }

    #[test]
    fn everything_else_is_refused_with_a_remedy() {
        for text in ["", "yesterday", "-1", "1.5", "99999999999999999999999", "12:00", "1 fortnight", "9999999y"] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains("1h30m"), "{error}");
        }
    }
}
