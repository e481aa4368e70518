//! `[audit]`.

use std::path::PathBuf;
use std::time::Duration;

/// What is recorded of calls and decisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditSettings {
    /// Whether anything is.
    pub enabled: bool,
    /// Whether the arguments of calls are, and not only their hash.
    pub arguments: bool,
    /// How long records are kept.
    pub keep: Duration,
    /// How many are kept.
    pub max_records: u64,
    /// A file that every record is appended to.
    pub file: Option<PathBuf>,
    /// The socket of the system's log, which gets every record.
    pub syslog: Option<PathBuf>,
}

impl Default for AuditSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            arguments: false,
            keep: Duration::from_secs(90 * 24 * 60 * 60),
            max_records: 250_000,
            file: None,
            syslog: None,
        }
    }
}
