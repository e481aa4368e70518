//! What can go wrong in a run.

use std::path::PathBuf;
use std::time::Duration;

use crate::load::http::HttpError;

/// Why a part or a case of the suite could not do its work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    #[error("{doing}: {source}")]
    Io { doing: &'static str, source: std::io::Error },
    #[error("{0}")]
    Http(#[from] HttpError),
    #[error("no gateway at {}; build it with `cargo build --release -p tidings`", .0.display())]
    GatewayMissing(PathBuf),
    #[error("the gateway did not answer within {waited:?}; its log ends:\n{log}")]
    GatewayNotReady { waited: Duration, log: String },
    #[error("the {part} part ended early ({status}): {stderr}")]
    PartEnded { part: &'static str, status: String, stderr: String },
    #[error("{from} gave {got:?} where {expected} was expected")]
    Unexpected { from: &'static str, expected: &'static str, got: String },
    #[error("interrupted")]
    Interrupted,
}

impl BenchError {
    /// For `map_err`: names what was being done when the operating system refused.
    pub(crate) fn io(doing: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }

    /// A peer answered with something else; long answers are cut to what a person reads.
    pub(crate) fn unexpected(from: &'static str, expected: &'static str, got: &[u8]) -> Self {
        let mut got = String::from_utf8_lossy(got).into_owned();
        if let Some((cut, _)) = got.char_indices().nth(300) {
            got.truncate(cut);
            got.push('…');
        }
        Self::Unexpected { from, expected, got }
    }
}
