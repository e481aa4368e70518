//! Log levels of `notifications/message`.

/// Severity by RFC 5424, the least severe first, so that levels can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum LogLevel {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl LogLevel {
    const ALL: [(Self, &'static str); 8] = [
        (Self::Debug, "debug"),
        (Self::Info, "info"),
        (Self::Notice, "notice"),
        (Self::Warning, "warning"),
        (Self::Error, "error"),
        (Self::Critical, "critical"),
        (Self::Alert, "alert"),
        (Self::Emergency, "emergency"),
    ];

    /// Reads the word that stands in a message; `None` for any other.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, name)| *name == text).map(|(level, _)| *level)
    }

    /// The level at this place of the order, from 0.
    pub fn from_place(place: u8) -> Option<Self> {
        Self::ALL.get(usize::from(place)).map(|(level, _)| *level)
    }

    /// The word that stands in a message.
    pub fn as_str(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}
