//! `[quotas]`.

/// What one principal may have at a time. Limits that nobody meets who is honest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaSettings {
    /// Requests that are not answered yet.
    pub calls: usize,
    /// Open `subscriptions/listen` requests.
    pub listens: usize,
    /// Legacy sessions.
    pub sessions: usize,
    /// Resources that are followed, counted for each client.
    pub subscriptions: usize,
    /// MiB of messages above 64 KiB.
    pub message_mib: usize,
}

impl Default for QuotaSettings {
    fn default() -> Self {
        // Half of all the sessions, subscriptions and memory for messages that there may be.
        Self { calls: 4_096, listens: 50_000, sessions: 5_000, subscriptions: 1_000_000, message_mib: 256 }
    }
}
