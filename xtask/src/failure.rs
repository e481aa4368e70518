//! Why a task could not be carried out. A check that failed is not here: it is counted.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

/// Facts of the failure; the text is made when it is shown.
#[derive(Debug)]
pub(crate) enum Failure {
    Start {
        command: String,
        source: io::Error,
    },
    Ended {
        command: String,
        status: ExitStatus,
    },
    TimedOut {
        command: String,
        after: Duration,
    },
    NotReady {
        what: String,
        after: Duration,
        log: PathBuf,
    },
    EndedEarly {
        what: String,
        log: PathBuf,
    },
    Missing {
        what: &'static str,
        remedy: String,
    },
    File {
        path: PathBuf,
        source: io::Error,
    },
    Json {
        path: PathBuf,
        source: serde_json::Error,
    },
    ExpectedLost {
        path: PathBuf,
        line: usize,
        reason: &'static str,
    },
    NoFreePort {
        source: io::Error,
    },
    /// What ran beside the other steps did not come to an end; it has said why.
    Lane,
    Workspace {
        reason: &'static str,
    },
    NoSuchScenario {
        scenario: String,
    },
    /// The suite found less in a run without the gateway than it should: (scenarios, checks).
    Baseline {
        directory: PathBuf,
        expected: (usize, usize),
        found: (usize, usize),
    },
    ClientBaseline {
        scenario: String,
        message: String,
    },
}

impl Failure {
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        |source| Self::File { path, source }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start { command, source } => write!(f, "can not start `{command}`: {source}"),
            Self::Ended { command, status } => write!(f, "{status}; repeat with: {command}"),
            Self::TimedOut { command, after } => {
                write!(f, "not done after {} s; repeat with: {command}", after.as_secs())
            }
            Self::NotReady { what, after, log } => {
                write!(f, "{what} did not answer within {} s; its log: {}", after.as_secs(), log.display())
            }
            Self::EndedEarly { what, log } => {
                write!(f, "{what} ended before it answered; its log: {}", log.display())
            }
            Self::Missing { what, remedy } => write!(f, "{what} is missing; run: {remedy}"),
            Self::File { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Json { path, source } => write!(f, "{}: {source}", path.display()),
            Self::ExpectedLost { path, line, reason } => {
                write!(f, "{}:{line}: {reason}", path.display())
            }
            Self::NoFreePort { source } => write!(f, "no free port on 127.0.0.1: {source}"),
            Self::Lane => write!(f, "a step that ran beside others panicked"),
            Self::Workspace { reason } => write!(f, "can not find the workspace: {reason}"),
            Self::NoSuchScenario { scenario } => {
                write!(f, "the suite has no scenario `{scenario}` in what was selected")
            }
            Self::Baseline { directory, expected, found } => write!(
                f,
                "the direct run passed {} scenarios and {} checks, expected at least {} and {}: {}",
                found.0,
                found.1,
                expected.0,
                expected.1,
                directory.display()
            ),
            Self::ClientBaseline { scenario, message } => {
                write!(f, "client scenario `{scenario}` fails without the gateway: {message}")
            }
        }
    }
}

impl std::error::Error for Failure {}
