//! From `[watch.X]` to its source, and to what `tidings doctor` says of it.
//!
//! A kind of watch is one file of this crate: a [`WatchedSource`], and [`DeclaredWatch`] for the part of the configuration that it is made
//! of. It is named in `lib.rs` as a module and here in [`declared`]. What it is configured with is in the crate `config`.

use std::error::Error;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tidings_config::{WatchConfig, WatchSource};

use super::AboutResource;
use super::source::WatchedSource;
use super::webhook::{DeliveryKeeper, SharedHooks, WebhookSource};

/// What the configuration says of a watch of one kind.
pub(crate) trait DeclaredWatch {
    /// Makes its source. Nothing is watched yet.
    fn make(&self, about: AboutResource, inputs: &SourceInputs<'_>) -> Result<MadeSource, SourceFault>;

    /// Tries what it can without watching, and says what it found.
    fn examine(&self, about: AboutResource) -> BoxFuture<'_, Vec<WatchFinding>>;
}

/// The table of kinds.
fn declared(source: &WatchSource) -> &dyn DeclaredWatch {
    match source {
        WatchSource::File(watch) => watch,
        WatchSource::Http(watch) => watch,
        WatchSource::Postgres(watch) => watch,
        WatchSource::Webhook(watch) => watch,
    }
}

/// Makes the source of a watch. Nothing is watched yet.
pub fn make_source(watch: &WatchConfig, inputs: &SourceInputs<'_>) -> Result<MadeSource, SourceFault> {
    declared(&watch.source).make(AboutResource::from(watch), inputs)
}

/// Says whether a watch can be had, and whether what it watches tells of its changes. Asks other machines where it has to.
pub async fn examine_watch(watch: &WatchConfig) -> Vec<WatchFinding> {
    declared(&watch.source).examine(AboutResource::from(watch)).await
}

/// What a source is made with, beside its configuration.
#[derive(Default)]
pub struct SourceInputs<'a> {
    /// Keeps what is received beyond the life of the process; `None` where nothing is kept.
    pub keeper: Option<Arc<dyn DeliveryKeeper>>,
    /// What the webhooks of all replicas of a cluster share; `None` for one process alone.
    pub replicas: Option<Arc<SharedHooks>>,
    /// What the watch of the same name was until now, when it is configured differently from now on.
    pub before: Option<&'a MadeSource>,
}

/// A source, and the way in to it where it has one.
#[derive(Clone)]
pub struct MadeSource {
    /// Lists, reads and signals.
    pub source: Arc<dyn WatchedSource>,
    /// The NAME of `/hooks/NAME` and what takes its deliveries, where it is a webhook.
    pub hook: Option<(String, Arc<WebhookSource>)>,
}

impl From<Arc<dyn WatchedSource>> for MadeSource {
    fn from(source: Arc<dyn WatchedSource>) -> Self {
        Self { source, hook: None }
    }
}

/// A fault of the configuration that only the source itself can find.
#[derive(Debug, thiserror::Error)]
#[error("{fault}")]
pub struct SourceFault {
    /// The key of `[watch.X]` whose value is at fault.
    pub key: &'static str,
    fault: Box<dyn Error + Send + Sync>,
}

impl SourceFault {
    /// The value of a key is of no use.
    pub(crate) fn new(key: &'static str, fault: impl Error + Send + Sync + 'static) -> Self {
        Self { key, fault: Box::new(fault) }
    }
}

/// One thing that an examination found, in words for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchFinding {
    /// How bad it is.
    pub verdict: WatchVerdict,
    /// What was found.
    pub what: String,
    /// SQL that belongs to it; empty where there is none.
    pub sql: String,
}

/// How bad a finding is, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchVerdict {
    /// As it should be.
    Fine,
    /// Worth knowing; nothing is broken.
    Note {
        /// What to do, if it is not meant to be so.
        remedy: String,
    },
    /// The watch does not work, or misses changes.
    Problem {
        /// What to do, so that it works.
        remedy: String,
    },
}

impl WatchFinding {
    pub(crate) fn fine(what: impl Into<String>) -> Self {
        Self { verdict: WatchVerdict::Fine, what: what.into(), sql: String::new() }
    }

    pub(crate) fn note(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { verdict: WatchVerdict::Note { remedy: remedy.into() }, ..Self::fine(what) }
    }

    pub(crate) fn problem(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { verdict: WatchVerdict::Problem { remedy: remedy.into() }, ..Self::fine(what) }
    }

    pub(crate) fn with_sql(self, sql: String) -> Self {
        Self { sql, ..self }
    }
}
