//! Changes of the set of servers, between whoever asks for one, the log, and what every replica makes of it.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tidings_hub::fleet::entry::{IsolationRule, PlacedServer, RegistryStep};
use tidings_hub::fleet::{BlobHash, OwnerEpoch};
use tokio::sync::oneshot;

use super::offer_form::{self, OfferContent};

/// How long a replica may take to apply a change that is in the log. Nothing is started for it, so this is only ever reached by a fault.
pub(crate) const APPLY_WITHIN: Duration = Duration::from_secs(10);

/// A step of what is configured beside the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeptStep {
    /// A server is kept, or described otherwise than before.
    Keep {
        /// Its name.
        name: String,
        /// Its keys, as JSON.
        definition: Bytes,
        /// Whether it runs unless it is switched.
        on: bool,
    },
    /// A server is not kept any more.
    Forget {
        /// Its name.
        name: String,
    },
    /// Whether a server is on, decided by hand; `None`: its configuration decides.
    Switch {
        /// Its name.
        name: String,
        /// On or off.
        on: Option<bool>,
    },
}

/// A change of the set that another replica made, or a former process of this one.
pub struct LoggedChange {
    /// What is configured otherwise.
    pub kept: Vec<KeptStep>,
    pub(crate) offers: BTreeMap<String, OfferContent>,
    /// The epoch of what comes with it.
    pub(crate) since: OwnerEpoch,
}

/// Applies what is in the log to what is configured. Called in the order of the log, one at a time.
pub trait SetFollower: Send + Sync {
    /// Applies a change; what is read after it has it.
    fn follow(&self, change: LoggedChange) -> BoxFuture<'static, ()>;
}

/// Open until a change is applied here: until then the log is not read on.
pub(crate) struct SetGate {
    done: oneshot::Sender<()>,
    /// The epoch of what comes with it.
    pub(crate) since: OwnerEpoch,
}

impl SetGate {
    pub(super) fn new(since: OwnerEpoch) -> (Self, oneshot::Receiver<()>) {
        let (done, heard) = oneshot::channel();
        (Self { done, since }, heard)
    }

    /// It is applied. Dropped without this, it could not be.
    pub(crate) fn applied(self) {
        let _ = self.done.send(());
    }
}

/// What came of a change that was to be written.
pub(crate) enum SetOutcome {
    /// It holds: apply it, and say so.
    Committed(SetGate),
    /// The set is not the one that was looked at; nothing was changed.
    Overtaken,
    /// It was not written, since the replicas can not agree at the moment, and why not.
    Refused(String),
    /// It can not be written at all, and why not.
    Declined(String),
    /// It may be in the log, or come to be.
    Unknown,
}

/// A change that is to be written.
pub(crate) struct WrittenChange {
    /// The version of the set that was looked at.
    pub(crate) version: u64,
    pub(crate) steps: Vec<RegistryStep>,
    pub(crate) contents: Vec<Bytes>,
}

/// The steps of what is kept, as they are written; contents come with them. `placed`: where a server runs that comes with the change.
pub(crate) fn write_kept(
    kept: &[KeptStep],
    placed: impl Fn(&str) -> Option<PlacedServer>,
    contents: &mut Vec<Bytes>,
) -> Vec<RegistryStep> {
    let write = |step: &KeptStep| match step {
        KeptStep::Keep { name, definition, on } => {
            contents.push(definition.clone());
            let nowhere = || PlacedServer {
                name: name.as_str().into(),
                definition: BlobHash::default(),
                placement: Vec::new(),
                on_isolation: IsolationRule::Keep,
            };
            let definition = BlobHash::of(definition);
            let server = PlacedServer { definition, ..placed(name).unwrap_or_else(nowhere) };
            RegistryStep::Keep { server, on: *on }
        }
        KeptStep::Forget { name } => RegistryStep::Forget { server: name.as_str().into() },
        KeptStep::Switch { name, on } => RegistryStep::Switch { server: name.as_str().into(), on: *on },
    };
    kept.iter().map(write).collect()
}

/// The contents that steps name.
pub(super) fn contents_of(steps: &[RegistryStep]) -> Vec<BlobHash> {
    let named = |step: &RegistryStep| match step {
        RegistryStep::Keep { server, .. } => vec![server.definition],
        RegistryStep::Put { offer: Some(offer), .. } => offer.blobs.clone(),
        _ => Vec::new(),
    };
    steps.iter().flat_map(named).collect()
}

/// What was written. `None`: a definition is missing, or a newer version wrote it.
pub(super) fn read(
    steps: &[RegistryStep],
    contents: &BTreeMap<BlobHash, Bytes>,
    since: OwnerEpoch,
) -> Option<LoggedChange> {
    let mut change = LoggedChange { kept: Vec::new(), offers: BTreeMap::new(), since };
    let name = |server: &tidings_hub::fleet::FleetServerName| server.to_string();
    for step in steps {
        match step {
            RegistryStep::Keep { server, on } => {
                let definition = contents.get(&server.definition)?.clone();
                change.kept.push(KeptStep::Keep { name: name(&server.name), definition, on: *on });
            }
            RegistryStep::Forget { server } => change.kept.push(KeptStep::Forget { name: name(server) }),
            RegistryStep::Switch { server, on } => {
                change.kept.push(KeptStep::Switch { name: name(server), on: *on });
            }
            RegistryStep::Put { server, offer: Some(offer), .. } => {
                // What it listed then may be gone: something took its place since.
                if let Some(content) = contents.get(offer.blobs.first()?) {
                    change.offers.insert(name(&server.name), offer_form::read(content)?);
                }
            }
            RegistryStep::Put { offer: None, .. } | RegistryStep::Remove { .. } => {}
        }
    }
    Some(change)
}
