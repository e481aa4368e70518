//! What is wrong with the parameters of a request, in words for whoever sent it.

use tidings_store::SinceError;

/// Why a query can not be understood. Each names the parameter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QueryFault {
    /// A value is not encoded as it must be.
    #[error("`{0}` is not percent-encoded UTF-8")]
    NotEncoded(String),
    /// A search for nothing.
    #[error("`q` is empty; leave it out to list all tools")]
    EmptySearch,
    /// Not a number of tools.
    #[error("`limit` must be a whole number above 0")]
    ToolLimit,
    /// No parameter of `/tools`.
    #[error("unknown parameter `{0}`; there are `q` and `limit`")]
    UnknownParameter(String),
    /// Not a number of changes.
    #[error("limit: \"{text}\" is not a number from 1 to {most}")]
    ChangeLimit {
        /// What stands there.
        text: String,
        /// The most that are given at once.
        most: usize,
    },
    /// Not the number of a change.
    #[error("before: \"{0}\" is not the number of a change")]
    Before(String),
    /// No severity.
    #[error("severity: \"{0}\" is none; there are suspect, breaking, wording and quiet")]
    Severity(String),
    /// No state of a client.
    #[error("state: \"{0}\" is none; there are current, owed, told, ignoring, deaf, silent and unknown")]
    ClientState(String),
    /// Neither a number nor a time.
    #[error("since: {0}")]
    Since(#[from] SinceError),
}
