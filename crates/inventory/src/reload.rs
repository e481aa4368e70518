//! Reading the configuration file again: only what differs is applied.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use tidings_config::Config;
use tidings_engine::{Operation, Start};

use crate::registry::ServerRegistry;
use crate::sources::ServerSources;
use crate::state::{ReloadOutcome, ReloadReport};

impl ServerRegistry {
    /// Reads the configuration file again and applies what differs from what runs. A file with a fault changes nothing.
    /// The outcome is logged, and stays in [`ServerRegistry::state`].
    pub async fn reload(&self) -> Result<ReloadOutcome, String> {
        let registry = self.clone();
        let gone = || Err("the gateway is not running".to_owned());
        self.finish(async move { registry.reload_and_report().await }).await.unwrap_or_else(gone)
    }

    async fn reload_and_report(&self) -> Result<ReloadOutcome, String> {
        let outcome = self.reload_now().await;
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

    async fn reload_now(&self) -> Result<ReloadOutcome, String> {
        let load = self.0.load.clone().ok_or("there is no configuration file")?;
        let gateway = self.gateway().map_err(|refusal| refusal.to_string())?;
        let mut desired = self.desired().await;
        // Read behind the lock: of two readings the later one is applied last.
        let begun = Instant::now();
        let config = tokio::task::spawn_blocking(move || load()).await.map_err(|error| error.to_string())??;
        let read = begun.elapsed();
        let sources = ServerSources { file: config.servers.clone(), ..desired.sources.clone() };
        let refused = |refusal: crate::RegistryRefusal| refusal.to_string();
        let mut todo = self.difference(&desired, &sources, &BTreeSet::new()).map_err(refused)?;
        let watches = config.watches != desired.config.watches;
        let mut committed = None;
        if watches {
            let made = self.0.planner.watches(&config)?;
            let put = |plan| Operation::Put { plan: Box::new(plan), start: Start::MayFail };
            todo.operations.extend(made.plan.map(put));
            committed = Some(made.committed);
        }
        let operations = std::mem::take(&mut todo.operations);
        let compared = begun.elapsed() - read;
        gateway.change(operations).await.map_err(|error| error.to_string())?;
        if let Some(committed) = committed {
            committed();
        }
        let changed = begun.elapsed() - read - compared;
        tracing::debug!(?read, ?compared, ?changed, "configuration applied");
        let needs_restart = needs_restart(&self.0.first, &config);
        let done = ReloadOutcome {
            added: todo.added.clone(),
            removed: todo.removed.clone(),
            changed: todo.changed.clone(),
            watches,
            needs_restart: needs_restart.clone(),
        };
        desired.config = config;
        let entries = desired.settle(sources, todo);
        self.0.state.send_modify(|state| {
            let state = Arc::make_mut(state);
            state.servers = entries;
            state.needs_restart = needs_restart;
        });
        Ok(done)
    }
}

/// The sections that differ and are only read at the start.
fn needs_restart(first: &Config, now: &Config) -> Vec<&'static str> {
    let sections = [
        ("[gateway]", first.gateway != now.gateway),
        ("[notifications]", first.notifications != now.notifications),
        ("[auth]", first.auth != now.auth),
        ("[cluster]", first.cluster != now.cluster),
    ];
    sections.into_iter().filter(|(_, differs)| *differs).map(|(section, _)| section).collect()
}
