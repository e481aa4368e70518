//! Why a change of the set of servers was refused. Nothing has happened then.

use tidings_config::ConfigErrors;
use tidings_engine::{ChangeError, Prefix};

use crate::planner::{LoadFault, WatchFault};

/// What a refusal means for whoever asked, in the terms of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalClass {
    /// What was asked for makes no sense as it stands (422).
    Invalid,
    /// It is at odds with what is there (409).
    Conflict,
    /// There is no such server (404).
    Unknown,
    /// The server did not do its part (502).
    Failed,
    /// The server took too long (504).
    Late,
    /// It can not be kept (507).
    NotKept,
    /// The gateway is starting or stopping (503).
    Unavailable,
    /// Whoever asked went away (499, as others have it).
    Cancelled,
}

impl RefusalClass {
    /// The HTTP status that the API answers with.
    pub const fn status(self) -> u16 {
        match self {
            Self::Invalid => 422,
            Self::Conflict => 409,
            Self::Unknown => 404,
            Self::Failed => 502,
            Self::Late => 504,
            Self::NotKept => 507,
            Self::Unavailable => 503,
            Self::Cancelled => 499,
        }
    }

    /// A short name that programs can rely on.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::Conflict => "conflict",
            Self::Unknown => "unknown",
            Self::Failed => "failed",
            Self::Late => "late",
            Self::NotKept => "not-kept",
            Self::Unavailable => "unavailable",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Why nothing was changed. Each says what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryRefusal {
    /// The description of a server has faults; each names its key and the remedy.
    #[error("{0}")]
    Invalid(ConfigErrors),
    /// One name stands twice in one batch.
    #[error("server \"{name}\" stands twice in one batch; leave one of them out")]
    Twice {
        /// The name of the server that was asked for.
        name: String,
    },
    /// A server that is to be added is there already.
    #[error("there is a server \"{name}\" already; remove it first, or choose another name")]
    NameTaken {
        /// The name of the server that was asked for.
        name: String,
    },
    /// Its public names could not be told from another's.
    #[error(
        "server \"{name}\" would share the {} \"{prefix}\" with server \"{other}\"; give it another `prefix`",
        prefix_word(*.kind)
    )]
    PrefixClash {
        /// The server that is to be added.
        name: String,
        /// The one it clashes with.
        other: String,
        /// The prefix that both would have.
        prefix: String,
        /// Whether it is the prefix of names or that of URIs.
        kind: Prefix,
    },
    /// It stands in the configuration file.
    #[error("server \"{name}\" stands in the configuration file; change it there (a saved change is applied at once)")]
    FromFile {
        /// The name of the server that was asked for.
        name: String,
    },
    /// There is no such server.
    #[error("there is no server \"{name}\"; `tidings servers` lists all")]
    Unknown {
        /// The name of the server that was asked for.
        name: String,
    },
    /// It is switched off.
    #[error("server \"{name}\" is disabled; enable it first")]
    Disabled {
        /// The name of the server that was asked for.
        name: String,
    },
    /// This build can not run it.
    #[error("server \"{name}\": {reason}")]
    Unsupported {
        /// The name of the server that was asked for.
        name: String,
        /// What the source or the engine says about it.
        reason: String,
    },
    /// It did not start, or could not be listed.
    #[error("server \"{name}\" {error}")]
    Failed {
        /// The name of the server that was asked for.
        name: String,
        /// What happened, with its last words.
        error: String,
        /// The end of what it wrote to standard error.
        last_words: Option<String>,
    },
    /// It took too long to start.
    #[error("server \"{name}\" did not start within {seconds} s{}", words(.last_words))]
    Timeout {
        /// The name of the server that was asked for.
        name: String,
        /// How long was waited.
        seconds: u64,
        /// The end of what it wrote to standard error.
        last_words: Option<String>,
    },
    /// It could not be kept, so it was not done.
    #[error(
        "nothing was changed, because it can not be kept: {reason}; is the disk of the data directory full or read-only?"
    )]
    Store {
        /// What the source or the engine says about it.
        reason: String,
    },
    /// Another change of the same server was made meanwhile.
    #[error("server \"{name}\" was changed by somebody else meanwhile; try again")]
    Overtaken {
        /// The name of the server that was asked for.
        name: String,
    },
    /// Whoever reviewed it does not want it.
    #[error("nothing was changed: {reason}")]
    Declined {
        /// Why not.
        reason: String,
    },
    /// Whoever asked went away before it was done.
    #[error("nothing was changed, because whoever asked for it went away")]
    Cancelled,
    /// The replicas of a cluster can not agree on it at the moment, or nobody knows whether they did.
    #[error("{reason}")]
    NotAgreed {
        /// Why not, and what to do.
        reason: String,
    },
    /// The gateway is starting or stopping.
    #[error("the gateway is not running; try again")]
    NotRunning,
}

impl RegistryRefusal {
    /// What it means for whoever asked.
    pub const fn kind(&self) -> RefusalClass {
        match self {
            Self::Invalid(_) | Self::Twice { .. } | Self::Unsupported { .. } => RefusalClass::Invalid,
            Self::NameTaken { .. }
            | Self::PrefixClash { .. }
            | Self::FromFile { .. }
            | Self::Disabled { .. }
            | Self::Overtaken { .. }
            | Self::Declined { .. } => RefusalClass::Conflict,
            Self::Unknown { .. } => RefusalClass::Unknown,
            Self::Failed { .. } => RefusalClass::Failed,
            Self::Timeout { .. } => RefusalClass::Late,
            Self::Store { .. } => RefusalClass::NotKept,
            Self::Cancelled => RefusalClass::Cancelled,
            Self::NotAgreed { .. } | Self::NotRunning => RefusalClass::Unavailable,
        }
    }
}

/// Why a reading of the configuration file changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReloadFault {
    /// The gateway was started without one.
    #[error("there is no configuration file")]
    NoFile,
    /// The gateway has ended meanwhile.
    #[error("the gateway is not running")]
    Ended,
    /// The gateway is starting or stopping.
    #[error("{0}")]
    Refused(RegistryRefusal),
    /// The file does not count as it is.
    #[error("{0}")]
    File(#[from] LoadFault),
    /// A watch of it can not be made.
    #[error("{0}")]
    Watch(#[from] WatchFault),
    /// What differs could not be applied.
    #[error("{0}")]
    Change(ChangeError),
    /// Reading it failed in a way that nobody foresaw.
    #[error("{0}")]
    Reading(String),
}

impl From<ChangeError> for RegistryRefusal {
    fn from(error: ChangeError) -> Self {
        match error {
            ChangeError::Twice { name } => Self::Twice { name },
            ChangeError::Unknown { name } => Self::Unknown { name },
            ChangeError::Clash { name, other, prefix, kind } => Self::PrefixClash { name, other, prefix, kind },
            ChangeError::Failed { name, error } => {
                Self::Failed { name, last_words: error.last_words().map(str::to_owned), error: error.to_string() }
            }
            ChangeError::Late { name, seconds, last_words } => Self::Timeout { name, seconds, last_words },
            ChangeError::Overtaken { name } => Self::Overtaken { name },
            ChangeError::Cancelled => Self::Cancelled,
            ChangeError::Declined(reason) => Self::Declined { reason },
            ChangeError::Withheld(reason) => Self::Store { reason },
            ChangeError::Stopping => Self::NotRunning,
            error @ (ChangeError::Isolated(_) | ChangeError::Unanswered) => {
                Self::NotAgreed { reason: error.to_string() }
            }
            error @ (ChangeError::InCluster | ChangeError::Elsewhere { .. }) => {
                Self::Declined { reason: error.to_string() }
            }
        }
    }
}

fn prefix_word(kind: Prefix) -> &'static str {
    match kind {
        Prefix::Name => "name prefix",
        Prefix::Uri => "URI prefix",
    }
}

fn words(words: &Option<String>) -> String {
    words.as_ref().map(|words| format!("; its last words: {words}")).unwrap_or_default()
}
