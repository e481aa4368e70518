//! What must hold, and did not.

use std::fmt;
use std::time::Duration;

use tidings_testkit::Vitals;

#[derive(Debug)]
pub(crate) enum ChaosFailure {
    /// The faults are over, and a server is still not to be used.
    StillDown {
        server: String,
        after: Duration,
        last: String,
    },
    /// `tidings servers` says one thing and calls another.
    SaidReady {
        server: String,
        error: String,
    },
    /// A server ran one call more than once.
    RanTwice {
        token: String,
        times: usize,
    },
    /// An answer belongs to another call.
    WrongAnswer {
        token: String,
        answer: String,
    },
    /// More calls failed than faults explain.
    TooManyFailed {
        stage: &'static str,
        failed: u64,
        injected: u64,
        calls: u64,
    },
    /// Nothing failed and nothing succeeded: the run proves nothing.
    NoCalls {
        stage: &'static str,
    },
    /// A client did not end its calls in time.
    Hung {
        client: String,
    },
    /// A follower was told of a change not at all, or more than once.
    ToldWrongly {
        client: String,
        times: usize,
    },
    /// A follower was not told of the change that only marks a place in time.
    FenceUntold {
        client: String,
        server: &'static str,
    },
    /// A list is not what the servers have.
    WrongList {
        client: String,
        missing: Vec<String>,
    },
    Grew {
        warm: Vitals,
        end: Vitals,
    },
    BadEnd {
        status: String,
    },
}

impl fmt::Display for ChaosFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StillDown { server, after, last } => {
                write!(f, "{server} answers no call {after:?} after the faults ended: {last}")
            }
            Self::SaidReady { server, error } => write!(f, "{server} is said to be ready while calls fail: {error}"),
            Self::RanTwice { token, times } => write!(f, "the call {token} ran {times} times"),
            Self::WrongAnswer { token, answer } => write!(f, "the call {token} was answered with {answer}"),
            Self::TooManyFailed { stage, failed, injected, calls } => {
                write!(f, "{stage}: {failed} of {calls} calls failed, with {injected} faults")
            }
            Self::NoCalls { stage } => write!(f, "{stage}: no call was made"),
            Self::Hung { client } => write!(f, "{client} still waits for a call"),
            Self::ToldWrongly { client, times } => write!(f, "{client} was told {times} times of one change"),
            Self::FenceUntold { client, server } => write!(f, "{client} was not told of a change at {server}"),
            Self::WrongList { client, missing } => write!(f, "{client} does not see {missing:?}"),
            Self::Grew { warm, end } => write!(f, "the gateway grew: {warm}, then {end}"),
            Self::BadEnd { status } => write!(f, "the gateway ended with {status}"),
        }
    }
}
