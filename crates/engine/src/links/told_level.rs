//! What a link was told to log, and who has a say in that. Telling it is the matter of `log_levels.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tidings_hub::scope::{AccessScope, ServerAudience};
use tidings_proto::LogLevel;

/// What a link was told to log. Read for every log message, so it takes no lock.
#[derive(Debug, Default)]
pub(crate) struct ToldLevel(AtomicU8);

impl ToldLevel {
    pub(crate) fn get(&self) -> Option<LogLevel> {
        // Nothing is 0, so the levels begin at 1.
        LogLevel::from_place(self.0.load(Ordering::Relaxed).checked_sub(1)?)
    }

    /// Whether it was told otherwise before.
    pub(super) fn set(&self, level: LogLevel) -> bool {
        self.0.swap(level as u8 + 1, Ordering::Relaxed) != level as u8 + 1
    }
}

/// Whose server a link leads to: who is not permitted has no say in it.
#[derive(Clone, Debug)]
pub(crate) struct LinkAudience {
    pub(crate) audience: ServerAudience,
    pub(crate) name: Arc<str>,
}

impl LinkAudience {
    /// The least level that those want who may use the server.
    pub(super) fn least(&self, wanted: &[(AccessScope, LogLevel)]) -> Option<LogLevel> {
        let permitted = |(scope, _): &&(AccessScope, LogLevel)| scope.permits(self.audience, &self.name);
        wanted.iter().filter(permitted).map(|(_, level)| *level).min()
    }
}
