//! What people see of the export.

/// Whether the collector takes what it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectorState {
    /// It does, or nothing was sent yet.
    Fine,
    /// It did not take the last that it was sent.
    Down,
}

impl CollectorState {
    /// In a word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Down => "down",
        }
    }
}

/// How the export goes.
#[derive(Clone, Debug)]
pub struct TelemetryStatus {
    /// Where it goes, without secrets.
    pub endpoint: String,
    /// Whether that works.
    pub state: CollectorState,
    /// Why not.
    pub error: Option<String>,
    /// Spans that the collector took.
    pub exported: u64,
    /// Requests to it that came to nothing.
    pub failed: u64,
    /// Spans that were dropped: there was no room, the collector did not want them, or the end came first.
    pub dropped: u64,
    /// Spans that wait.
    pub queued: usize,
}
