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
    /// No parameter of the request.
    #[error("unknown parameter `{0}`; GET /api/v1/openapi.json says which there are")]
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
    #[error(
        "state: \"{0}\" is none; there are heard, owed, waiting, deaf, unreached, sent, not asking, silent and unknown"
    )]
    ClientState(String),
    /// Not the number of a client either.
    #[error("client: \"{0}\" is not the number of a client")]
    ClientNumber(String),
    /// Not the number of a client.
    #[error("before: \"{0}\" is not the number of a client")]
    ClientBefore(String),
    /// Neither a time nor a day.
    #[error("at: \"{0}\" is neither a time such as 2026-11-10T12:00:00Z nor a day such as 2026-11-10")]
    Moment(String),
    /// No list.
    #[error("\"{0}\" is no list; there are tools, prompts, resources and resource_templates")]
    Kind(String),
    /// No client that is connected.
    #[error("as: there is no client \"{0}\" now")]
    NoClient(String),
    /// No way for a call to end.
    #[error("outcome: \"{0}\" is none; there are answered, error, cancelled and abandoned")]
    Outcome(String),
    /// No state of a server.
    #[error("state: \"{0}\" is none; there are ready, connecting, failing, needs login and disabled")]
    ServerState(String),
    /// Neither a number nor a time.
    #[error("since: {0}")]
    Since(#[from] SinceError),
}
