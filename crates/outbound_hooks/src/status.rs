//! What people see of each URL: in `tidings status`, `tidings doctor` and the metrics.

use crate::queue::{DeliveryQueue, QueueStep};

/// How a URL stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DeliveryState {
    /// It has everything, or is about to.
    #[default]
    Fine,
    /// Something was not taken, and is tried again.
    Retrying,
    /// It answered 410: nothing is sent any more.
    Disabled,
}

impl DeliveryState {
    /// The word in output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Retrying => "retrying",
            Self::Disabled => "disabled",
        }
    }
}

/// One URL at one moment. Nothing in it is a secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookStatus {
    /// Its name, else its scheme and host.
    pub shown: String,
    /// How it stands.
    pub state: DeliveryState,
    /// How many messages wait.
    pub pending: usize,
    /// The number of the last change that was looked at.
    pub cursor: u64,
    /// Messages that it took since the start of the process.
    pub delivered: u64,
    /// Tries that came to nothing since then.
    pub failed: u64,
    /// Messages that were given up since then, because they were tried for three days, or the log no longer had them.
    pub given_up: u64,
    /// What went wrong last, if the last try did.
    pub error: Option<String>,
    /// When the next try is, in milliseconds since 1970, if one waits for that.
    pub next_try: Option<u64>,
}

impl HookStatus {
    /// Follows what the queue knows. `next` is what it said last.
    pub(crate) fn follow(&mut self, queue: &DeliveryQueue, next: QueueStep) {
        let (kept, counts) = (queue.kept(), queue.counts());
        let has_failed = kept.failures > 0 || kept.pending.iter().any(|message| message.attempts > 0);
        self.state = match (kept.disabled, has_failed) {
            (true, _) => DeliveryState::Disabled,
            (false, true) => DeliveryState::Retrying,
            (false, false) => DeliveryState::Fine,
        };
        self.pending = kept.pending.len();
        self.cursor = kept.cursor;
        self.delivered = counts.delivered;
        self.failed = counts.failed;
        self.given_up = counts.expired + counts.missed;
        self.next_try = match next {
            QueueStep::Wait(until) => Some(until),
            QueueStep::Send(_) | QueueStep::Idle => None,
        };
        if self.state == DeliveryState::Fine {
            self.error = None;
        }
    }
}
