//! The times of audit records.

use std::time::Instant;

use jiff::Timestamp;

/// Turns moments into times: entries hold the cheaper of the two.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AuditClock {
    moment: Instant,
    millis: i64,
}

impl AuditClock {
    pub(crate) fn now() -> Self {
        Self { millis: Timestamp::now().as_millisecond(), moment: Instant::now() }
    }

    /// The time of a moment, in milliseconds since 1970.
    pub(crate) fn millis(&self, moment: Instant) -> u64 {
        // What came after the clock was read has the time of the clock.
        let ago = self.moment.saturating_duration_since(moment).as_millis();
        u64::try_from(self.millis - i64::try_from(ago).unwrap_or_default()).unwrap_or_default()
    }

    /// The time at which it was read.
    pub(crate) fn read_at(&self) -> u64 {
        u64::try_from(self.millis).unwrap_or_default()
    }
}

/// Writes times as text. The second that was written last is kept as text without the zone: most records share theirs with the one before.
#[derive(Debug)]
pub(crate) struct TimeText {
    second: u64,
    text: String,
}

impl TimeText {
    pub(crate) fn new() -> Self {
        Self { second: u64::MAX, text: String::new() }
    }

    /// Writes the member `time`, as every record has it after number and hash.
    pub(crate) fn write(&mut self, millis: u64, members: &mut Vec<u8>) {
        let (second, part) = (millis / 1_000, millis % 1_000);
        if self.second != second {
            let time = i64::try_from(second).ok().and_then(|second| Timestamp::from_second(second).ok());
            let mut text = time.unwrap_or(Timestamp::UNIX_EPOCH).to_string();
            text.truncate(text.trim_end_matches('Z').len());
            (self.second, self.text) = (second, text);
        }
        members.extend_from_slice(b"\"time\":\"");
        members.extend_from_slice(self.text.as_bytes());
        let digit = |unit| b'0' + u8::try_from(part / unit % 10).unwrap_or_default();
        members.extend_from_slice(&[b'.', digit(100), digit(10), digit(1), b'Z', b'"']);
    }
}
