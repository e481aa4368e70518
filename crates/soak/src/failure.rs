//! What did not hold.

use std::fmt;
use std::process::ExitStatus;

use crate::kinds::SoakTopic;
use tidings_testkit::Vitals;

/// Facts; the text is made when it is shown.
#[derive(Debug)]
pub(crate) enum SoakFailure {
    NotTheTruth { client: String, differences: Vec<String> },
    ToldTooOften { client: String, topic: SoakTopic, heard: u64, most: u64 },
    NotOnce { client: String, topic: SoakTopic, heard: u64 },
    LedgerDiffers { client: String, what: String },
    ClientFailed { client: String },
    Busy { client: String },
    Grew { warm: Vitals, end: Vitals },
    NoVitals,
    BadEnd { status: ExitStatus },
    LeftBehind { processes: Vec<u32> },
    Faults { server: String, faults: Vec<String> },
}

impl SoakFailure {
    /// The client that it is about.
    pub(crate) fn client(&self) -> Option<&str> {
        match self {
            Self::NotTheTruth { client, .. }
            | Self::ToldTooOften { client, .. }
            | Self::NotOnce { client, .. }
            | Self::LedgerDiffers { client, .. }
            | Self::ClientFailed { client }
            | Self::Busy { client } => Some(client),
            _ => None,
        }
    }
}

impl fmt::Display for SoakFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotTheTruth { client, differences } => {
                write!(f, "client {client} did not come to see the truth:\n  {}", differences.join("\n  "))
            }
            Self::ToldTooOften { client, topic, heard, most } => {
                write!(
                    f,
                    "client {client} was told {heard} times that {} changed, at most {most} are true",
                    topic.name()
                )
            }
            Self::NotOnce { client, topic, heard } => {
                write!(f, "client {client} was told {heard} times of one change of {}", topic.name())
            }
            Self::LedgerDiffers { client, what } => {
                write!(f, "of client {client} the gateway says something else: {what}")
            }
            Self::ClientFailed { client } => write!(f, "client {client} got no proper answer"),
            Self::Busy { client } => write!(f, "client {client} did not get its stream back"),
            Self::Grew { warm, end } => write!(f, "the gateway grew: {warm} after the warm-up, {end} at the end"),
            Self::NoVitals => write!(f, "the gateway has no process to look at"),
            Self::BadEnd { status } => write!(f, "the gateway ended with {status}"),
            Self::LeftBehind { processes } => write!(f, "processes were left behind: {processes:?}"),
            Self::Faults { server, faults } => {
                write!(f, "server {server} saw the protocol broken:\n  {}", faults.join("\n  "))
            }
        }
    }
}
