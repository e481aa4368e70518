//! What is asked of the registry, and what that means for the sources.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tidings_config::ServerConfig;
use tidings_engine::{Prefix, ServerPlan};

use crate::refusal::RegistryRefusal;
use crate::sources::{ServerSources, SourceStep};

/// One wish of a batch.
#[derive(Clone, Debug, PartialEq)]
pub enum RegistryChange {
    /// A server that is to be there as described. One of the same name that was added at run time is replaced.
    Put {
        /// The name of the server, as configured.
        name: String,
        /// The keys of `[servers.X]`; kept as they are, so references to variables and files stay references.
        server: Value,
    },
    /// As `Put`, but the name must be free.
    Add {
        /// The name of the server, as configured.
        name: String,
        /// The keys of `[servers.X]`.
        server: Value,
    },
    /// As `Put`, of a server that was added at run time, and only if it is still described as whoever asks has read it.
    Replace {
        /// The name of the server, as configured.
        name: String,
        /// The keys that were read.
        read: Value,
        /// The keys of `[servers.X]`.
        server: Value,
    },
    /// A server that was added at run time and is to go.
    Delete {
        /// The name of the server, as configured.
        name: String,
    },
}

impl RegistryChange {
    /// Which server it is about.
    pub fn name(&self) -> &str {
        match self {
            Self::Put { name, .. } | Self::Add { name, .. } | Self::Replace { name, .. } | Self::Delete { name } => {
                name
            }
        }
    }

    /// The server that it describes, if it describes one.
    pub(crate) fn server(&self) -> Option<&Value> {
        match self {
            Self::Put { server, .. } | Self::Add { server, .. } | Self::Replace { server, .. } => Some(server),
            Self::Delete { .. } => None,
        }
    }
}

/// A server that a change describes, read and planned.
#[derive(Clone)]
pub(crate) struct PlannedServer {
    pub(crate) read: ServerConfig,
    pub(crate) plan: ServerPlan,
}

/// One wish, with the server that it describes, if it describes one.
pub(crate) type DescribedChange = (RegistryChange, Option<PlannedServer>);

/// What one transaction is to do.
#[derive(Default)]
pub(crate) struct ChangeBatch {
    pub(crate) steps: Vec<SourceStep>,
    /// Plans of servers that the steps bring.
    pub(crate) planned: BTreeMap<String, ServerPlan>,
    pub(crate) must_start: BTreeSet<String>,
}

impl ChangeBatch {
    /// What changes mean for the sources as they are now, or why they must not be made.
    pub(crate) fn of(changes: &[DescribedChange], sources: &ServerSources) -> Result<Self, RegistryRefusal> {
        let mut batch = Self::default();
        // Checked again though `describe` did: the names may have been let go since.
        for (change, described) in changes {
            check_name(sources, change)?;
            if let Some(described) = described {
                check_prefix(sources, &described.read)?;
            }
            batch.take(change, described.as_ref());
        }
        Ok(batch)
    }

    fn take(&mut self, change: &RegistryChange, described: Option<&PlannedServer>) {
        let name = change.name().to_owned();
        match (change.server(), described) {
            (Some(server), Some(PlannedServer { read, plan })) => {
                self.planned.insert(name.clone(), plan.clone());
                let (server, read) = (server.clone(), Box::new(read.clone()));
                self.steps.push(SourceStep::Put { name: name.clone(), server, read });
            }
            _ => self.steps.push(SourceStep::Remove(name.clone())),
        }
        // A server that was put there says itself whether it is on; one that is gone leaves no word about that.
        self.steps.push(SourceStep::Switch(name.clone(), None));
        self.must_start.insert(name);
    }

    /// What switching a server on or off means for the sources as they are now.
    pub(crate) fn switch(name: &str, enabled: bool, sources: &ServerSources) -> Result<Self, RegistryRefusal> {
        let configured = sources.file.iter().find(|server| server.name == name).map(|server| server.enabled);
        let configured = match (configured, sources.kept.get(name)) {
            (Some(configured), _) => configured,
            (None, Some(kept)) => {
                let read = kept.read.as_ref().map_err(|errors| RegistryRefusal::Invalid(errors.clone()))?;
                if enabled {
                    check_prefix(sources, read)?;
                }
                read.enabled
            }
            (None, None) => return Err(RegistryRefusal::Unknown { name: name.to_owned() }),
        };
        // Back to what the configuration says is no switch at all: later changes of the configuration count again.
        let switch = (configured != enabled).then_some(enabled);
        // Whoever switches a server of the file on wants it to be there, also if it fails.
        let must_start = if sources.in_file(name) { BTreeSet::new() } else { BTreeSet::from([name.to_owned()]) };
        let steps = vec![SourceStep::Switch(name.to_owned(), switch)];
        Ok(Self { steps, must_start, planned: BTreeMap::new() })
    }
}

/// Refuses a change of a server that is not there, or that is not the registry's to change.
pub(crate) fn check_name(sources: &ServerSources, change: &RegistryChange) -> Result<(), RegistryRefusal> {
    let name = change.name().to_owned();
    if sources.in_file(&name) {
        return Err(match change {
            // For whoever adds, it does not matter where the other one comes from.
            RegistryChange::Add { .. } => RegistryRefusal::NameTaken { name },
            RegistryChange::Put { .. } | RegistryChange::Replace { .. } | RegistryChange::Delete { .. } => {
                RegistryRefusal::FromFile { name }
            }
        });
    }
    match (change, sources.kept.get(&name)) {
        (RegistryChange::Add { .. }, Some(_)) => Err(RegistryRefusal::NameTaken { name }),
        (RegistryChange::Delete { .. } | RegistryChange::Replace { .. }, None) => {
            Err(RegistryRefusal::Unknown { name })
        }
        (RegistryChange::Replace { read, .. }, Some(kept)) if kept.server != *read => {
            Err(RegistryRefusal::Overtaken { name })
        }
        _ => Ok(()),
    }
}

/// Refuses a server whose names could not be told from those of one of the file.
fn check_prefix(sources: &ServerSources, server: &ServerConfig) -> Result<(), RegistryRefusal> {
    let Some((other, kind)) = sources.clash(server) else { return Ok(()) };
    let prefix = match kind {
        Prefix::Name => server.name_prefix(),
        Prefix::Uri => server.uri_prefix(),
    };
    Err(RegistryRefusal::PrefixClash { name: server.name.clone(), other: other.name.clone(), prefix, kind })
}
