//! Spans of time as people write them: `250ms`, `5s`, `5m`, `1h`, `0`.

use std::time::Duration;

use schemars::JsonSchema;

/// A text that is not a span of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected a duration such as \"250ms\", \"5s\", \"5m\", \"1h\" or \"0\"")]
pub struct DurationError;

/// Reads a span of time: a whole number and one of `ms`, `s`, `m`, `h`, `d`; only `0` needs no unit.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| DurationError)?;
    let millis = match unit.trim_start() {
        "ms" => 1,
        "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "" if number == 0 => 0,
        _ => return Err(DurationError),
    };
    number.checked_mul(millis).map(Duration::from_millis).ok_or(DurationError)
}

/// A span of time: a whole number with ms, s, m, h or d; or 0.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[schemars(rename = "Span")]
#[allow(dead_code, reason = "only its shape is used")]
pub(crate) enum SpanSchema {
    Text(#[schemars(regex(pattern = r"^\s*(0|\d+\s*(ms|s|m|min|h|d)|.*\$\{.*\}.*)\s*$"))] String),
    Zero(#[schemars(range(min = 0, max = 0))] u8),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_understood() {
        let table = [
            ("250ms", 250),
            ("5s", 5_000),
            ("5m", 300_000),
            ("1h", 3_600_000),
            ("2d", 172_800_000),
            ("0", 0),
            ("0s", 0),
            (" 5 s ", 5_000),
        ];
        for (text, millis) in table {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn a_number_without_a_unit_and_other_nonsense_are_refused() {
        for text in ["", "5", "s", "-5s", "1.5s", "5 parsecs", "99999999999999999999s", "18446744073709551615h"] {
            assert_eq!(parse_duration(text), Err(DurationError), "{text}");
        }
    }
}
