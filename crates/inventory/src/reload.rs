//! Reading the configuration file again: only what differs is applied.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use tidings_config::Config;
use tidings_engine::{ChangeError, Operation, Start};
use tokio_util::sync::CancellationToken;

use crate::name_locks::NameGuard;
use crate::refusal::ReloadFault;
use crate::registry::{RegistrySteps, ServerRegistry};
use crate::sources::{ServerFile, server_file};
use crate::state::{ReloadOutcome, ReloadReport};

impl ServerRegistry {
    /// Reads the configuration file again and applies what differs from what runs. A file with a fault changes nothing.
    /// The outcome is logged, and stays in [`ServerRegistry::state`].
    pub async fn reload(&self) -> Result<ReloadOutcome, ReloadFault> {
        let registry = self.clone();
        let gone = || Err(ReloadFault::Ended);
        self.finish(async move { registry.reload_and_report().await }).await.unwrap_or_else(gone)
    }

    async fn reload_and_report(&self) -> Result<ReloadOutcome, ReloadFault> {
        // On the heap: it is rare, and whoever waits for files to change has room for the future of this one.
        let outcome = Box::pin(self.reload_now()).await;
        match &outcome {
            Ok(done) => tracing::info!(
                added = ?done.added, removed = ?done.removed, changed = ?done.changed, watches = done.watches,
                "configuration read again"
            ),
            Err(error) => tracing::error!("the configuration was changed, but not applied: {error}"),
        }
        if let Ok(ReloadOutcome { needs_restart, .. }) = &outcome
            && !needs_restart.is_empty()
        {
            tracing::warn!(sections = ?needs_restart, "changed, and need a restart of the gateway to apply");
        }
        let report = ReloadReport { at: SystemTime::now(), outcome: outcome.clone() };
        self.0.state.send_modify(|state| Arc::make_mut(state).reload = Some(report));
        outcome
    }

    async fn reload_now(&self) -> Result<ReloadOutcome, ReloadFault> {
        let load = self.0.load.clone().ok_or(ReloadFault::NoFile)?;
        let gateway = self.gateway().map_err(ReloadFault::Refused)?;
        // Read behind the lock: of two readings the later one is applied last.
        let _reading = self.0.reloading.lock().await;
        let begun = Instant::now();
        let config = tokio::task::spawn_blocking(move || load()).await;
        let config = config.map_err(|error| ReloadFault::Reading(error.to_string()))??;
        let read = begun.elapsed();
        let file = server_file(&config, &self.desired().await.sources.file);
        // Before anything is changed: a file that is wrong in this changes nothing.
        let mut access = Some(self.0.planner.access(&config)?);
        let (policy, before) = (self.0.planner.policy(&config)?, gateway.policy());
        // Before the servers: one that comes together with the rule that denies it must not be seen in between.
        gateway.set_policy(policy);
        loop {
            let (mine, mut todo, generation, watches) = self.hold_what_differs(&config, &file).await;
            let mut committed = None;
            if watches {
                let made = self.0.planner.watches(&config).inspect_err(|_| gateway.set_policy(before.clone()))?;
                let put = |plan| Operation::Put { plan: Box::new(plan), start: Start::MayFail };
                todo.operations.extend(made.plan.map(put));
                committed = Some(made.committed);
            }
            let operations = std::mem::take(&mut todo.operations);
            let compared = begun.elapsed() - read;
            // Compared with what the gateway started with, and not with the last reading: a section that was changed back needs nothing.
            let needs_restart = needs_restart(&self.0.first, &config);
            // A reading of the file is nobody's: nobody goes away.
            let never = CancellationToken::new();
            // Nothing is kept: the file is its own store.
            let applied = gateway.change_if(operations, &never, async || {
                let mut desired = self.desired().await;
                let sources = desired.sources.with_file(&file);
                desired.check_still(&sources, &todo)?;
                desired.watches.clone_from(&config.watches);
                desired.sources = sources;
                let entries = desired.settle(&todo);
                self.0.state.send_modify(|state| {
                    let state = Arc::make_mut(state);
                    state.servers = entries;
                    state.needs_restart.clone_from(&needs_restart);
                });
                Ok(())
            });
            if let Err(error) = applied.await {
                let is_stale = self.desired().await.generation != generation;
                // A server that was added meanwhile is in the way of one of the file, which wins once it is compared with that.
                if is_stale && matches!(error, ChangeError::Clash { .. } | ChangeError::Overtaken { .. }) {
                    continue;
                }
                gateway.set_policy(before);
                return Err(ReloadFault::Change(error));
            }
            drop(mine);
            if let Some(committed) = committed {
                // After the commit: the watches of the new configuration take over only when everything else has.
                // `reloading` is still held, so no other reading of the file comes in between.
                committed();
            }
            if let Some(access) = access.take() {
                access();
            }
            let changed = begun.elapsed() - read - compared;
            tracing::debug!(?read, ?compared, ?changed, "configuration applied");
            let RegistrySteps { added, removed, changed, .. } = todo;
            return Ok(ReloadOutcome { added, removed, changed, watches, needs_restart });
        }
    }

    /// What the file wants otherwise than it is, with the names of all that differs held; the generation that it was compared with; and whether
    /// the watches differ.
    async fn hold_what_differs(&self, config: &Config, file: &ServerFile) -> (NameGuard<'_>, RegistrySteps, u64, bool) {
        // No names yet: which ones differ is only known after the first comparison.
        let mut mine = self.hold(BTreeSet::new()).await;
        loop {
            let (todo, names, generation, watches) = {
                let desired = self.desired().await;
                let sources = desired.sources.with_file(file);
                let todo = self.difference(&desired, &sources, &BTreeSet::new(), &BTreeMap::new());
                // Also servers that are off: somebody may be about to switch one on as the file had it, or to add one of its name.
                let mut names = desired.sources.differing(file);
                names.extend(todo.names());
                (todo, names, desired.generation, config.watches != desired.watches)
            };
            if mine.holds(&names) {
                return (mine, todo, generation, watches);
            }
            // Given up before more are asked for, or two changes could wait for each other.
            drop(mine);
            mine = self.hold(names).await;
            // While they were waited for nothing was changed, so there is nothing to compare anew.
            if self.desired().await.generation == generation {
                return (mine, todo, generation, watches);
            }
        }
    }
}

/// The sections that differ and are only read at the start.
fn needs_restart(first: &Config, now: &Config) -> Vec<&'static str> {
    let sections = [
        ("[gateway]", first.gateway != now.gateway),
        ("[notifications]", first.notifications != now.notifications),
        ("[search]", first.search != now.search),
        ("[audit]", first.audit != now.audit),
        ("[telemetry]", first.telemetry != now.telemetry),
        ("[page]", first.page != now.page),
        ("[quotas]", first.quotas != now.quotas),
        // What is in it applies at once.
        ("[limits]", first.limits.is_none() && now.limits.is_some()),
        ("[vault]", first.vault != now.vault),
        // What is in it applies at once; that it comes or goes does not.
        ("[auth]", first.auth.is_some() != now.auth.is_some()),
        ("[clients]", first.clients != now.clients),
        ("[[registry]]", first.registries != now.registries),
        ("[cluster]", first.cluster != now.cluster),
    ];
    sections.into_iter().filter(|(_, differs)| *differs).map(|(section, _)| section).collect()
}
