//! The names of notifications, each written once. Those of the lists belong to [`crate::Topic`].

/// How far a call is. Names its call by a token.
pub const PROGRESS: &str = "notifications/progress";
/// A log message of a server.
pub const MESSAGE: &str = "notifications/message";
/// The sender of a request does not want its answer any more.
pub const CANCELLED: &str = "notifications/cancelled";
/// Legacy: a client has finished the handshake.
pub const INITIALIZED: &str = "notifications/initialized";
/// A client's roots are others than before.
pub const ROOTS_CHANGED: &str = "notifications/roots/list_changed";
/// A followed resource changed.
pub const UPDATED: &str = "notifications/resources/updated";
/// Modern: what a `subscriptions/listen` will be told of.
pub const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
/// Revision 2025-11-25: a task is further than before.
pub const TASK_STATUS: &str = "notifications/tasks/status";
/// The tasks extension: a task is further than before.
pub const TASKS: &str = "notifications/tasks";
/// Claude Code: a message for the conversation.
pub const CHANNEL: &str = "notifications/claude/channel";
/// The user has done what an elicitation by URL asked for.
pub const ELICITATION_COMPLETE: &str = "notifications/elicitation/complete";
