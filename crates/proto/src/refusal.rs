//! Errors that the gateway itself gives to a client: facts first, then one place that words them.

use std::fmt;

use bytes::Bytes;
use tidings_wire::{RawId, encode_string, error_response};

use crate::{Era, Revision, code, task};

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestRefusal {
    /// No such method, or not in this era.
    #[error("method not found: {0}")]
    UnknownMethod(String),
    /// A method of nobody that is known, where several servers could be meant.
    #[error("method not found: {method}: {reason}; a gateway in front of that server alone passes it on")]
    Unroutable {
        /// As the client named it.
        method: String,
        /// Why no server can be chosen.
        reason: &'static str,
    },
    /// The parameters lack something.
    #[error("{0}")]
    InvalidParams(String),
    /// No server that the client sees has a tool of this name.
    #[error("unknown tool: {0}")]
    UnknownTool(String),
    /// A tool that the client could see, and that is not there any more.
    #[error("{0}")]
    DepartedTool(Box<ToolDeparture>),
    /// No server that the client sees has a prompt of this name.
    #[error("unknown prompt: {0}")]
    UnknownPrompt(String),
    /// No server has this URI.
    #[error("resource not found: {0}")]
    UnknownResource(String),
    /// A cursor that was not ours, or of another list.
    #[error("invalid cursor")]
    InvalidCursor,
    /// The state of a retry does not belong to this request.
    #[error("requestState is not valid for this request: {0}")]
    InvalidState(&'static str),
    /// The message is not valid here.
    #[error("{0}")]
    InvalidRequest(String),
    /// Headers and body disagree.
    #[error("header mismatch: {0}")]
    HeaderMismatch(String),
    /// A version we do not serve.
    #[error("unsupported protocol version: {0}")]
    UnsupportedVersion(String),
    /// The server behind it can not be reached, or was lost during the call.
    #[error("server \"{server}\" {reason}")]
    ServerDown {
        /// Its configured name.
        server: String,
        /// Why it can not be reached, as far as it is known.
        reason: String,
    },
    /// A person has to log in to the server behind it first. It did not read the request.
    #[error("server \"{server}\" {reason}")]
    NeedsLogin {
        /// Its configured name.
        server: String,
        /// That, why, and how.
        reason: String,
    },
    /// No answer in time.
    #[error("server \"{server}\" did not answer within {seconds} s; the call was cancelled")]
    TimedOut {
        /// Its configured name.
        server: String,
        /// How long was waited for the answer.
        seconds: u64,
    },
    /// A resource whose changes can not be told.
    #[error("resource {uri} of server \"{server}\" can not be followed: {reason}")]
    NotFollowed {
        /// As the client has it.
        uri: String,
        /// The server's configured name.
        server: String,
        /// The reason, in words for whoever made the request.
        reason: String,
    },
    /// The client has too many calls in flight.
    #[error("too many requests in flight ({limit}); wait for one to finish")]
    TooMany {
        /// The bound that was reached.
        limit: usize,
    },
    /// Whoever asks has as much as they may.
    #[error("{0}; wait for one to finish")]
    OverQuota(String),
    /// Whoever asks has used up what they may.
    #[error("{reason}")]
    OverLimit {
        /// Which limit it is, and when to try again.
        reason: String,
        /// The same for programs.
        retry_after_ms: u64,
    },
    /// The token of whoever asks lacks a scope.
    #[error("this needs a token with the scopes: {scopes}")]
    InsufficientScope {
        /// All that a token for this has to have, separated by spaces.
        scopes: String,
    },
    /// The server asked for something that the client does not answer.
    #[error("server \"{server}\" asked this client for {method}, without which the call can not go on: {reason}")]
    CanNotAsk {
        /// Its configured name.
        server: String,
        /// What it asked for.
        method: String,
        /// Why there is no answer.
        reason: String,
    },
    /// The server asked again and again.
    #[error("server \"{server}\" asked again and again and came to no end; the call was given up")]
    NoEnd {
        /// Its configured name.
        server: String,
    },
    /// The call that a retry belongs to is not here: the gateway was restarted, or its answer is not kept any more.
    #[error(
        "the call that this requestState belongs to is not waiting here any more, and whether it had an effect is not known; \
         to make it anew call again without requestState"
    )]
    ParkLost,
    /// The server asked something in the middle of a call, and too many calls wait for their clients already.
    #[error(
        "server \"{server}\" asked for input in the middle of the call, and too many calls wait for input ({limit}); the call was \
         cancelled after it had begun; answer or give up others first, then call again"
    )]
    TooManyParked {
        /// Its configured name.
        server: String,
        /// The bound that was reached.
        limit: usize,
    },
    /// As before, in bytes.
    #[error(
        "server \"{server}\" asked for input in the middle of the call, and there is no room to keep it; the call was cancelled after \
         it had begun; answer or give up other calls that wait for input first, then call again"
    )]
    NoRoomToPark {
        /// Its configured name.
        server: String,
    },
    /// The server asked too often in one call.
    #[error(
        "the server asked for input more than {limit} times in this call, so it was cancelled after it had begun; calling again will \
         end the same way"
    )]
    TooManyRounds {
        /// How often it may.
        limit: u32,
    },
    /// The user of a client that was asked something took longer than the call may last.
    #[error(
        "server \"{server}\" asked for input, and the answer did not come within {seconds} s, the longest that a call may take; \
         `max_timeout` of the server allows more"
    )]
    InputTooLate {
        /// Its configured name.
        server: String,
        /// How long that is.
        seconds: u64,
    },
    /// No task with this id that the client could mean: never made, forgotten, or somebody else's.
    #[error("unknown task: {0}")]
    UnknownTask(String),
    /// A client asked for a task, the server answered at once, and its answer would have to be kept.
    #[error(
        "server \"{server}\" has run the call and answered at once, and there is no room to keep the answer for the task that was \
         asked for; without `task` the answer comes at once"
    )]
    NoRoomForOutcome {
        /// Its configured name.
        server: String,
    },
    /// A modern client asks about tasks without declaring the extension.
    #[error("the client does not declare the extension {}", task::TASKS)]
    TasksUndeclared,
    /// The gateway is about to end and takes no new requests.
    #[error("the gateway is shutting down")]
    ShuttingDown,
}

/// When a tool went, and what its callers may want instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolDeparture {
    /// What the client calls it.
    pub name: String,
    /// Its whole name, which the change feed has, where the client was shown a short one.
    pub full_name: Option<String>,
    /// When it went, as RFC 3339 has it.
    pub at: String,
    /// The number of the commit by which it went: `commit` in the change feed.
    pub change: u64,
    /// What it is called now, if that is known.
    pub renamed: Option<String>,
    /// Names that the client sees and that come near to it, the nearest first.
    pub nearest: Vec<String>,
}

impl ToolDeparture {
    fn data(&self) -> String {
        let nearest: Vec<String> = self.nearest.iter().map(|name| encode_string(name)).collect();
        let renamed = self.renamed.as_ref().map(|name| format!(",\"renamedTo\":{}", encode_string(name)));
        let full_name = self.full_name.as_ref().map(|name| format!(",\"fullName\":{}", encode_string(name)));
        format!(
            r#"{{"tool":{}{},"removedAt":{},"change":{}{},"nearest":[{}]}}"#,
            encode_string(&self.name),
            full_name.unwrap_or_default(),
            encode_string(&self.at),
            self.change,
            renamed.unwrap_or_default(),
            nearest.join(",")
        )
    }
}

impl fmt::Display for ToolDeparture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, at, change, renamed, nearest, full_name: _ } = self;
        write!(f, "unknown tool: {name}: it went at {at} (change {change})")?;
        if let Some(renamed) = renamed {
            write!(f, " and is called {renamed} now")?;
        }
        f.write_str("; list the tools again")?;
        match nearest.is_empty() {
            true => Ok(()),
            false => write!(f, ". Nearest names: {}", nearest.join(", ")),
        }
    }
}

impl RequestRefusal {
    /// The code for a client of this era.
    pub fn code(&self, era: Era) -> i64 {
        match self {
            Self::UnknownMethod(_) | Self::Unroutable { .. } => code::METHOD_NOT_FOUND,
            Self::OverLimit { .. } => code::TOO_MANY_REQUESTS,
            Self::InsufficientScope { .. } => code::INSUFFICIENT_SCOPE,
            // The modern era has no code of its own for it, and gets that of a wrong parameter below.
            Self::UnknownResource(_) if era == Era::Legacy => code::RESOURCE_NOT_FOUND,
            Self::InvalidParams(_)
            | Self::UnknownTool(_)
            | Self::DepartedTool(_)
            | Self::UnknownPrompt(_)
            | Self::UnknownResource(_)
            | Self::InvalidCursor
            | Self::NotFollowed { .. }
            | Self::UnknownTask(_)
            | Self::InvalidState(_) => code::INVALID_PARAMS,
            Self::TasksUndeclared => code::MISSING_CLIENT_CAPABILITY,
            Self::InvalidRequest(_) => code::INVALID_REQUEST,
            Self::HeaderMismatch(_) => code::HEADER_MISMATCH,
            Self::UnsupportedVersion(_) => code::UNSUPPORTED_VERSION,
            // JSON-RPC has no code for it; the words say what happened.
            Self::ServerDown { .. }
            | Self::NeedsLogin { .. }
            | Self::TimedOut { .. }
            | Self::TooMany { .. }
            | Self::OverQuota(_)
            | Self::CanNotAsk { .. }
            | Self::NoEnd { .. }
            | Self::ParkLost
            | Self::TooManyParked { .. }
            | Self::NoRoomToPark { .. }
            | Self::TooManyRounds { .. }
            | Self::InputTooLate { .. }
            | Self::NoRoomForOutcome { .. }
            | Self::ShuttingDown => code::INTERNAL_ERROR,
        }
    }

    /// The error response under this id. Codes differ between the eras.
    pub fn respond(&self, id: &RawId, era: Era) -> Bytes {
        let data = match self {
            Self::UnknownResource(uri) | Self::NotFollowed { uri, .. } => {
                Some(format!("{{\"uri\":{}}}", encode_string(uri)))
            }
            Self::DepartedTool(departure) => Some(departure.data()),
            Self::OverLimit { retry_after_ms, .. } => Some(format!(r#"{{"retryAfterMs":{retry_after_ms}}}"#)),
            Self::InsufficientScope { scopes } => {
                Some(format!(r#"{{"error":"insufficient_scope","scope":{}}}"#, encode_string(scopes)))
            }
            Self::TasksUndeclared => {
                Some(format!(r#"{{"requiredCapabilities":{{"extensions":{{"{}":{{}}}}}}}}"#, task::TASKS))
            }
            // The protocol asks for both lists, so that the client can try again with one that fits.
            Self::UnsupportedVersion(asked) => {
                let supported: Vec<_> = Revision::of_era(Era::Modern).map(|known| format!("\"{known}\"")).collect();
                let supported = supported.join(",");
                Some(format!(r#"{{"supported":[{supported}],"requested":{}}}"#, encode_string(asked)))
            }
            _ => None,
        };
        error_response(Some(id), self.code(era), &self.to_string(), data.as_deref().map(str::as_bytes))
    }
}
