//! Why a command did not do what it should, in words for the person at the terminal.

use std::fmt;
use std::process::ExitCode;

/// A failed command.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Wrong use: exit code 2.
    Usage(String),
    /// The configuration is not valid; says so by itself.
    Config(tidings_config::Errors),
    /// A request was answered with an error.
    Refused {
        /// Its code.
        code: i64,
        /// Its words.
        message: String,
    },
    /// Everything else.
    Failed(String),
}

impl Failure {
    pub(crate) fn failed(error: impl fmt::Display) -> Self {
        Self::Failed(error.to_string())
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Config(_) | Self::Refused { .. } | Self::Failed(_) => ExitCode::FAILURE,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) | Self::Failed(text) => write!(f, "tidings: {text}"),
            Self::Refused { code, message } => write!(f, "tidings: {message} ({code})"),
            Self::Config(errors) => write!(f, "{errors}"),
        }
    }
}
