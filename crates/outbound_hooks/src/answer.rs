//! What an answer of a receiver means, as Standard Webhooks has it.

use std::time::SystemTime;

use http::{HeaderMap, StatusCode, header};

use crate::queue::GIVE_UP;

/// What came of one try. `after`: so many milliseconds the receiver wants to be left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryAnswer {
    /// The receiver has it.
    Taken,
    /// The receiver wants nothing more, for ever.
    Gone,
    /// The receiver refused this message.
    Refused {
        /// The pause that it asks for.
        after: Option<u64>,
    },
    /// The receiver did not answer, or has no time.
    Unavailable {
        /// The pause that it asks for.
        after: Option<u64>,
    },
}

impl DeliveryAnswer {
    /// The receiver could not be reached, or did not answer in time.
    pub const UNREACHED: Self = Self::Unavailable { after: None };

    /// What an answer over HTTP means.
    pub fn of(status: StatusCode, headers: &HeaderMap, now: SystemTime) -> Self {
        let after = retry_after(headers, now);
        match status.as_u16() {
            200..=299 => Self::Taken,
            410 => Self::Gone,
            // It says nothing about the message: there was no time for it, or it went elsewhere.
            408 | 425 | 429 => Self::Unavailable { after },
            400..=499 => Self::Refused { after },
            // Also redirects: they are not followed, since the message is signed for whoever is configured.
            _ => Self::Unavailable { after },
        }
    }
}

/// Seconds or a date, in milliseconds from now; at most for as long as a message is tried.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<u64> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    let millis = match text.parse::<u64>() {
        Ok(seconds) => seconds.saturating_mul(1_000),
        // A date that has passed is no wait.
        Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(now).ok()?.as_millis().try_into().ok()?,
    };
    Some(millis.min(GIVE_UP))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    // reach 3
    #[test]
    fn answers_mean_what_standard_webhooks_says() {
        let now = UNIX_EPOCH + Duration::from_secs(784_111_777);
        let of = |status: u16, retry: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            if let Some(retry) = retry {
                headers.insert(header::RETRY_AFTER, retry.parse().unwrap());
            }
            DeliveryAnswer::of(StatusCode::from_u16(status).unwrap(), &headers, now)
        };
        assert_eq!([200, 202, 204, 299].map(|status| of(status, None)), [DeliveryAnswer::Taken; 4]);
        assert_eq!(of(410, Some("9")), DeliveryAnswer::Gone);
        assert_eq!([301, 500, 503].map(|status| of(status, None)), [DeliveryAnswer::UNREACHED; 3]);
        assert_eq!(of(429, Some("7")), DeliveryAnswer::Unavailable { after: Some(7_000) });
        let date = Some("Sun, 06 Nov 1994 08:49:39 GMT");
        assert_eq!(of(503, date), DeliveryAnswer::Unavailable { after: Some(2_000) });
        assert_eq!(of(503, Some("soon")), DeliveryAnswer::UNREACHED);
        assert_eq!(of(503, Some("99999999999999999")), DeliveryAnswer::Unavailable { after: Some(GIVE_UP) });
        assert_eq!(of(404, None), DeliveryAnswer::Refused { after: None });
    }
}
