//! The registry of a replica: what was added at run time stands in the log of the cluster, and not in the store of one process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tidings_engine::{AgreedChange, ChangeError, KeptStep, LoggedChange, Operation, SetFollower};
use tokio_util::sync::CancellationToken;

use crate::change::ChangeBatch;
use crate::refusal::RegistryRefusal;
use crate::registry::{ChangeReview, RegistryShared, RegistrySteps, ServerRegistry};
use crate::sources::{ServerSources, SourceStep};

/// Weak: the gateway, which the registry has, has this.
pub(crate) struct SharedRegistry(pub(crate) Weak<RegistryShared>);

impl SetFollower for SharedRegistry {
    fn follow(&self, change: LoggedChange) -> BoxFuture<'static, ()> {
        let registry = self.0.upgrade().map(ServerRegistry);
        Box::pin(async move {
            if let Some(registry) = registry {
                registry.follow_log(change).await;
            }
        })
    }
}

/// What a change means for the sources as they are when it is asked.
pub(crate) type BatchAgain<'b> = &'b (dyn Fn(&ServerSources) -> Result<ChangeBatch, RegistryRefusal> + Send + Sync);

/// A change on its way into the log.
pub(crate) struct SharedChange<'b> {
    pub(crate) registry: &'b ServerRegistry,
    pub(crate) batch: ChangeBatch,
    pub(crate) todo: RegistrySteps,
    pub(crate) again: BatchAgain<'b>,
}

impl AgreedChange for SharedChange<'_> {
    fn check(&self) -> BoxFuture<'_, Result<(), ChangeError>> {
        Box::pin(async {
            let desired = self.registry.desired().await;
            // Another replica may have taken the name, or removed what is to be removed.
            (self.again)(&desired.sources).map_err(|refusal| ChangeError::Declined(refusal.to_string()))?;
            desired.check_still(&desired.sources.after(&self.batch.steps), &self.todo)
        })
    }

    fn settle(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let mut desired = self.registry.desired().await;
            desired.sources = desired.sources.after(&self.batch.steps);
            let entries = desired.settle(&self.todo);
            self.registry.0.state.send_modify(|state| Arc::make_mut(state).servers = entries);
        })
    }
}

impl From<&SourceStep> for KeptStep {
    fn from(step: &SourceStep) -> Self {
        match step {
            SourceStep::Put { name, server, read } => {
                Self::Keep { name: name.clone(), definition: Bytes::from(server.to_string()), on: read.enabled }
            }
            SourceStep::Remove(name) => Self::Forget { name: name.clone() },
            SourceStep::Switch(name, on) => Self::Switch { name: name.clone(), on: *on },
        }
    }
}

impl ServerRegistry {
    /// Carries out a change at all replicas.
    pub(crate) async fn transact_in_fleet(
        &self,
        operations: Vec<Operation>,
        change: SharedChange<'_>,
        review: Option<ChangeReview>,
        cancelled: &CancellationToken,
    ) -> Result<(), RegistryRefusal> {
        if let Some(name) = self.switched_on_against_file(&change.batch).await {
            let reason = "it is off in the configuration files of the cluster; change it there".to_owned();
            return Err(RegistryRefusal::Unsupported { name, reason });
        }
        let kept: Vec<KeptStep> = change.batch.steps.iter().map(KeptStep::from).collect();
        let reviewed = async |offers| match review {
            Some(review) => review(offers).await.map_err(ChangeError::Declined),
            None => Ok(()),
        };
        Ok(self.gateway()?.change_in_fleet(operations, kept, cancelled, reviewed, &change).await?)
    }

    /// The plan of the files has only servers that are on, so one that is off there can not be run beside it.
    async fn switched_on_against_file(&self, batch: &ChangeBatch) -> Option<String> {
        let desired = self.desired().await;
        batch.steps.iter().find_map(|step| match step {
            SourceStep::Switch(name, Some(true)) if desired.sources.in_file(name) => Some(name.clone()),
            _ => None,
        })
    }

    /// A change that another replica made, or a former process of this one.
    async fn follow_log(&self, change: LoggedChange) {
        let Ok(gateway) = self.gateway() else { return };
        let (sources, mut todo) = {
            let desired = self.desired().await;
            let mut sources = desired.sources.clone();
            change.kept.iter().for_each(|step| sources.follow(step, &self.0.base));
            let todo = self.difference(&desired, &sources, &BTreeSet::new(), &BTreeMap::new());
            (sources, todo)
        };
        let operations = std::mem::take(&mut todo.operations);
        let settle = Box::pin(async {
            let mut desired = self.desired().await;
            desired.sources = sources;
            let entries = desired.settle(&todo);
            self.0.state.send_modify(|state| Arc::make_mut(state).servers = entries);
        });
        gateway.apply_logged(operations, change, settle).await;
    }
}
