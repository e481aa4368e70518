//! The one way to change the set of servers.
//!
//! A change holds the names that it is about (`name_locks.rs`) from its beginning to its end, which may take as long as a server
//! takes to start. The sources and what runs because of them (`desired`) are locked only to be read, and when the engine is about
//! to commit. Order of locks: names, then the engine's, then `desired`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::Value;
use tidings_config::{Config, WatchConfig};
use tidings_engine::{ChangeError, Gateway, OfferReview, Operation, Origin, ServerPlan, Source, Start, UnreadyReason};
use tidings_store::{KeepStep, KeptServers, ServerTable};
use tokio::sync::{Mutex, MutexGuard, SetOnce, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::change::{ChangeBatch, DescribedChange, PlannedServer, RegistryChange, check_name};
use crate::name_locks::{NameGuard, NameLocks};
use crate::planner::{ConfigLoader, RegistrySetup, ServerPlanner};
use crate::refusal::RegistryRefusal;
use crate::shared::{SharedChange, SharedRegistry};
use crate::sources::{ResolvedServers, ServerSources, WantedServer};
use crate::state::{RegistryEntry, RegistryState};

/// How long the end waits for changes under way. They hear of it at once, and have to end their processes.
const CLOSE: Duration = Duration::from_secs(10);

/// Sees what a changed server offers beside what it offered before; its words are why the change is not made.
pub type ChangeReview = Box<dyn FnOnce(Vec<OfferReview>) -> BoxFuture<'static, Result<(), String>> + Send>;

/// The registry. Clones are handles to the same one.
#[derive(Clone)]
pub struct ServerRegistry(pub(crate) Arc<RegistryShared>);

pub(crate) struct RegistryShared {
    pub(crate) planner: Arc<dyn ServerPlanner>,
    pub(crate) load: Option<ConfigLoader>,
    /// What stood in the file at the start.
    pub(crate) text: Option<Vec<u8>>,
    pub(crate) base: PathBuf,
    table: ServerTable,
    gateway: SetOnce<Gateway>,
    /// One change of a name at a time.
    names: NameLocks,
    /// One reading of the file at a time: of two the later one is applied last.
    pub(crate) reloading: Mutex<()>,
    pub(crate) desired: Mutex<DesiredServers>,
    pub(crate) state: watch::Sender<Arc<RegistryState>>,
    /// What the gateway started with.
    pub(crate) first: Config,
    /// Changes under way: each is finished, or undone when whoever asked has left.
    tasks: TaskTracker,
}

/// What was last asked for, and what runs because of it.
pub(crate) struct DesiredServers {
    /// The watches that are in force.
    pub(crate) watches: Vec<WatchConfig>,
    pub(crate) sources: ServerSources,
    running: BTreeMap<String, WantedServer>,
    /// Rises with every change: whoever compared with an earlier state compares again.
    pub(crate) generation: u64,
}

/// What has to be done to get from what runs to what is wanted.
pub(crate) struct RegistrySteps {
    pub(crate) operations: Vec<Operation>,
    pub(crate) added: Vec<String>,
    pub(crate) removed: Vec<String>,
    pub(crate) changed: Vec<String>,
    running: BTreeMap<String, WantedServer>,
}

impl RegistrySteps {
    /// The servers that are touched.
    pub(crate) fn names(&self) -> BTreeSet<String> {
        self.added.iter().chain(&self.removed).chain(&self.changed).cloned().collect()
    }
}

impl ServerRegistry {
    /// A registry with everything that is kept. Blocks while it reads the store.
    pub fn new(setup: RegistrySetup) -> Self {
        // A store that can not be read must not keep the servers of the file from starting.
        let kept = setup.table.read().unwrap_or_else(|error| {
            tracing::error!(%error, "servers that were added at run time are not started");
            KeptServers::default()
        });
        if !setup.table.is_kept() {
            tracing::info!("servers that are added at run time will not outlive this process");
        }
        let sources = ServerSources::new(&setup.config, &kept, &setup.base);
        let resolved = sources.resolve();
        for entry in resolved.entries.iter().filter(|entry| entry.enabled) {
            if let Some(problem) = &entry.problem {
                tracing::warn!(server = %entry.name, "not started: {problem}");
            }
        }
        let running = by_name(&resolved);
        let state = RegistryState {
            file: setup.file,
            kept: setup.table.is_kept(),
            servers: resolved.entries,
            reload: None,
            needs_restart: Vec::new(),
        };
        Self(Arc::new(RegistryShared {
            planner: setup.planner,
            load: setup.load,
            text: setup.text,
            base: setup.base,
            table: setup.table,
            gateway: SetOnce::new(),
            names: NameLocks::default(),
            reloading: Mutex::default(),
            desired: Mutex::new(DesiredServers {
                watches: setup.config.watches.clone(),
                sources,
                running,
                generation: 0,
            }),
            state: watch::Sender::new(Arc::new(state)),
            first: setup.config,
            tasks: TaskTracker::new(),
        }))
    }

    /// What the gateway is to start with: the servers of the file, then those that were kept.
    pub fn plans(&self) -> Vec<ServerPlan> {
        // Called before anything else can hold it; this function is not asynchronous.
        let Ok(desired) = self.0.desired.try_lock() else { return Vec::new() };
        let resolved = desired.sources.resolve();
        resolved.wanted.iter().map(|wanted| self.0.planner.plan(&wanted.config, wanted.origin)).collect()
    }

    /// The gateway has been started with [`Self::plans`]; from now on it can be changed.
    pub fn attach(&self, gateway: Gateway) {
        gateway.follow_set(Arc::new(SharedRegistry(Arc::downgrade(&self.0))));
        // Set once: the process has one gateway, and a second call would be a mistake of the wiring.
        let _ = self.0.gateway.set(gateway);
    }

    /// The gateway has ended: waits until every change that was under way has heard that, so that nothing is kept after this.
    pub async fn close(&self) {
        self.0.tasks.close();
        if tokio::time::timeout(CLOSE, self.0.tasks.wait()).await.is_err() {
            tracing::warn!("a change of the servers takes long to end");
        }
    }

    /// Everything that is configured at this moment; a snapshot, so it may be kept.
    pub fn state(&self) -> Arc<RegistryState> {
        Arc::clone(&self.0.state.borrow())
    }

    /// What [`Self::state`] gives, and when it is another.
    pub fn states(&self) -> watch::Receiver<Arc<RegistryState>> {
        self.0.state.subscribe()
    }

    /// The keys of a server that was added at run time, as they were given.
    pub async fn kept(&self, name: &str) -> Option<Value> {
        self.0.desired.lock().await.sources.kept.get(name).map(|kept| kept.server.clone())
    }

    /// Carries out a batch: all of it or nothing. When it returns, it is kept, it can be read, and every client is owed
    /// its notice. Dropping this cancels: unless it is just being kept, nothing of it stays. A batch waits for an earlier one that
    /// is about one of its servers, and for no other.
    pub async fn apply(&self, changes: Vec<RegistryChange>) -> Result<(), RegistryRefusal> {
        let registry = self.clone();
        self.finish_or_undo(async move |cancelled| registry.apply_now(changes, None, &cancelled).await).await
    }

    /// The same for one change, which `review` may refuse when the new server is started and listed beside the old one. Until then the
    /// old one serves. Others may change other servers meanwhile.
    pub async fn apply_reviewed(&self, change: RegistryChange, review: ChangeReview) -> Result<(), RegistryRefusal> {
        let registry = self.clone();
        self.finish_or_undo(async move |cancelled| registry.apply_now(vec![change], Some(review), &cancelled).await)
            .await
    }

    async fn apply_now(
        &self,
        changes: Vec<RegistryChange>,
        review: Option<ChangeReview>,
        cancelled: &CancellationToken,
    ) -> Result<(), RegistryRefusal> {
        let mut named = BTreeSet::new();
        for change in &changes {
            if !named.insert(change.name().to_owned()) {
                return Err(RegistryRefusal::Twice { name: change.name().to_owned() });
            }
        }
        // Names first: everything below compares with what is there, and that must stay so.
        let mut mine = unless(cancelled, self.0.names.lock(named.clone())).await?;
        // What another replica has answered to be done counts here, too.
        unless(cancelled, self.gateway()?.confirm_set()).await??;
        let described = self.describe(changes).await?;
        // Such as the image of a container, which may have to be pulled.
        if described.iter().any(|(_, server)| server.as_ref().is_some_and(needs_much)) {
            // This may take minutes, for which nobody else is to wait; the limit of the transaction is for starting a server.
            drop(mine);
            unless(cancelled, self.prepare(&described)).await??;
            mine = unless(cancelled, self.0.names.lock(named)).await?;
        }
        self.transact(mine, |sources| ChangeBatch::of(&described, sources), review, cancelled).await
    }

    /// Reads and plans what a batch describes, once: whatever follows uses that.
    async fn describe(&self, changes: Vec<RegistryChange>) -> Result<Vec<DescribedChange>, RegistryRefusal> {
        // A copy: reading and planning below must not hold `desired`.
        let sources = self.0.desired.lock().await.sources.clone();
        let described = changes.into_iter().map(|change| {
            check_name(&sources, &change)?;
            let server = self.make(&change)?;
            Ok((change, server))
        });
        let described = described.collect::<Result<Vec<_>, RegistryRefusal>>()?;
        // Nothing is got for what would be refused.
        ChangeBatch::of(&described, &sources)?;
        Ok(described)
    }

    /// Gets what new servers need.
    async fn prepare(&self, described: &[DescribedChange]) -> Result<(), RegistryRefusal> {
        for server in described.iter().filter_map(|(_, server)| server.as_ref()).filter(|server| needs_much(server)) {
            self.gateway()?.prepare(&server.plan).await?;
        }
        Ok(())
    }

    /// Ends a server and starts it again; returns when it is ready, or with the reason why it is not.
    pub async fn restart(&self, name: &str) -> Result<(), RegistryRefusal> {
        let gateway = self.gateway()?;
        let state = self.state();
        match state.server(name) {
            None => return Err(RegistryRefusal::Unknown { name: name.to_owned() }),
            // It does not run, so there is nothing to restart.
            Some(entry) if !entry.enabled || entry.problem.is_some() => {
                return Err(RegistryRefusal::Disabled { name: name.to_owned() });
            }
            Some(_) => {}
        }
        Ok(gateway.restart(name).await?)
    }

    /// Switches a server on or off, wherever it comes from. This outlives the process. Dropping this cancels, as for
    /// [`Self::apply`].
    pub async fn set_enabled(&self, name: &str, enabled: bool) -> Result<(), RegistryRefusal> {
        let (registry, name) = (self.clone(), name.to_owned());
        self.finish_or_undo(async move |cancelled| registry.switch(&name, enabled, &cancelled).await).await
    }

    async fn switch(&self, name: &str, enabled: bool, cancelled: &CancellationToken) -> Result<(), RegistryRefusal> {
        let mine = unless(cancelled, self.0.names.lock(BTreeSet::from([name.to_owned()]))).await?;
        unless(cancelled, self.gateway()?.confirm_set()).await??;
        self.transact(mine, |sources| ChangeBatch::switch(name, enabled, sources), None, cancelled).await
    }

    /// Carries something out to its end, whether or not whoever asked still waits. `None` when it panicked.
    pub(crate) async fn finish<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Option<T> {
        // A task of its own: a caller that is dropped must not leave a change half-way.
        self.0.tasks.spawn(work).await.ok()
    }

    /// Carries out a change in a task of its own, which hears it when this is dropped: what it has started must end in any case.
    async fn finish_or_undo<W, F>(&self, work: W) -> Result<(), RegistryRefusal>
    where
        W: FnOnce(CancellationToken) -> F,
        F: Future<Output = Result<(), RegistryRefusal>> + Send + 'static,
    {
        let cancelled = CancellationToken::new();
        // Rings when this future is dropped, which is how the task hears that nobody waits any more.
        let _gone = cancelled.clone().drop_guard();
        self.finish(work(cancelled)).await.unwrap_or(Err(RegistryRefusal::NotRunning))
    }

    /// Reads and plans the server that a change describes, if it describes one.
    fn make(&self, change: &RegistryChange) -> Result<Option<PlannedServer>, RegistryRefusal> {
        let (name, Some(server)) = (change.name(), change.server()) else { return Ok(None) };
        let read = crate::sources::read_server(name, server, &self.0.base).map_err(RegistryRefusal::Invalid)?;
        let mut plan = self.0.planner.plan(&read, Origin::Runtime);
        // A server that is added must be usable now; only one of the file may be there as failing until it is.
        if let Source::Unready(unready) = &plan.source {
            let refused = |reason: UnreadyReason| RegistryRefusal::Unsupported {
                name: name.to_owned(),
                reason: reason.to_string(),
            };
            plan.source = Source::Local(unready.try_again().map_err(refused)?);
        }
        Ok(Some(PlannedServer { read, plan }))
    }

    /// Carries out a change of which the names are held. `again`: what it means for the sources, asked anew whenever the names were let
    /// go.
    async fn transact(
        &self,
        mut mine: NameGuard<'_>,
        again: impl Fn(&ServerSources) -> Result<ChangeBatch, RegistryRefusal> + Send + Sync,
        review: Option<ChangeReview>,
        cancelled: &CancellationToken,
    ) -> Result<(), RegistryRefusal> {
        let (batch, mut todo) = loop {
            let (batch, todo) = {
                let desired = self.0.desired.lock().await;
                let batch = again(&desired.sources)?;
                let sources = desired.sources.after(&batch.steps);
                let todo = self.difference(&desired, &sources, &batch.must_start, &batch.planned);
                (batch, todo)
            };
            let names = todo.names();
            if mine.holds(&names) {
                break (batch, todo);
            }
            // A server that was in the way of others is switched: those are touched too.
            drop(mine);
            let all = names.into_iter().chain(batch.steps.iter().map(|step| step.name().to_owned())).collect();
            mine = unless(cancelled, self.0.names.lock(all)).await?;
        };
        let operations = std::mem::take(&mut todo.operations);
        if self.gateway()?.is_replica() {
            let change = SharedChange { registry: self, batch, todo, again: &again };
            return self.transact_in_fleet(operations, change, review, cancelled).await;
        }
        // Called when nothing else can fail, inside the engine's transaction: what is kept and what runs never
        // differ.
        let keep = async || {
            let mut desired = self.0.desired.lock().await;
            let sources = desired.sources.after(&batch.steps);
            desired.check_still(&sources, &todo)?;
            let table = self.0.table.clone();
            let kept: Vec<KeepStep> = batch.steps.iter().map(KeepStep::from).collect();
            // Writing the store waits for the disk.
            let kept = tokio::task::spawn_blocking(move || table.keep(&kept).map_err(|error| error.to_string()));
            kept.await.unwrap_or_else(|error| Err(error.to_string())).map_err(ChangeError::Withheld)?;
            // Only after the store has it: what can not be kept has not happened.
            desired.sources = sources;
            let entries = desired.settle(&todo);
            self.0.state.send_modify(|state| Arc::make_mut(state).servers = entries);
            Ok(())
        };
        let reviewed = async |offers| match review {
            Some(review) => review(offers).await.map_err(ChangeError::Declined),
            None => Ok(()),
        };
        Ok(self.gateway()?.change_reviewed(operations, cancelled, reviewed, keep).await?)
    }

    /// Waits until nobody else changes these servers.
    pub(crate) async fn hold(&self, names: BTreeSet<String>) -> NameGuard<'_> {
        self.0.names.lock(names).await
    }

    /// What has to be done for the sources to have their way. `planned`: what was planned already, by name.
    pub(crate) fn difference(
        &self,
        desired: &DesiredServers,
        sources: &ServerSources,
        must_start: &BTreeSet<String>,
        planned: &BTreeMap<String, ServerPlan>,
    ) -> RegistrySteps {
        let resolved = sources.resolve();
        let mut steps = RegistrySteps {
            operations: Vec::new(),
            added: Vec::new(),
            removed: Vec::new(),
            changed: Vec::new(),
            running: by_name(&resolved),
        };
        for name in desired.running.keys().filter(|name| !steps.running.contains_key(*name)) {
            steps.operations.push(Operation::Remove { name: name.clone() });
            steps.removed.push(name.clone());
        }
        for wanted in &resolved.wanted {
            let name = &wanted.config.name;
            match desired.running.get(name) {
                // Compared as configuration, so a file that was saved without a change restarts nothing.
                Some(running) if running == wanted => continue,
                Some(_) => steps.changed.push(name.clone()),
                None => steps.added.push(name.clone()),
            }
            // Whoever adds a server is told that it does not start; a server of the file is there as failing instead.
            let start = if must_start.contains(name) { Start::MustSucceed } else { Start::MayFail };
            let plan = match planned.get(name) {
                Some(plan) => plan.clone(),
                None => self.0.planner.plan(&wanted.config, wanted.origin),
            };
            steps.operations.push(Operation::Put { plan: Box::new(plan), start });
        }
        steps
    }

    pub(crate) fn gateway(&self) -> Result<&Gateway, RegistryRefusal> {
        self.0.gateway.get().ok_or(RegistryRefusal::NotRunning)
    }

    /// Waits until the gateway runs.
    pub(crate) async fn attached(&self) {
        self.0.gateway.wait().await;
    }

    /// The configuration file, if there is one.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        self.0.state.borrow().file.clone()
    }

    pub(crate) async fn desired(&self) -> MutexGuard<'_, DesiredServers> {
        self.0.desired.lock().await
    }
}

impl DesiredServers {
    /// Fails if these sources no longer mean what was done for them. Whoever changes a source holds the names that it is about, so this
    /// does not happen; it keeps a mistake there from running what nobody configured.
    pub(crate) fn check_still(&self, sources: &ServerSources, done: &RegistrySteps) -> Result<(), ChangeError> {
        let wanted = by_name(&sources.resolve());
        let touched = done.names();
        let untouched = self.running.iter().filter(|(name, _)| !touched.contains(*name));
        let done_for: BTreeMap<_, _> =
            untouched.chain(touched.iter().filter_map(|name| done.running.get_key_value(name))).collect();
        // Both are in the order of names: one walk, since the notices of a long file wait for it.
        if wanted.iter().eq(done_for.iter().map(|(name, server)| (*name, *server))) {
            return Ok(());
        }
        let mut names = wanted.keys().chain(done_for.keys().copied());
        let other = names.find(|name| wanted.get(*name) != done_for.get(*name).copied());
        other.map_or(Ok(()), |name| Err(ChangeError::Overtaken { name: name.clone() }))
    }

    /// The sources have had their way with these servers: all that are configured then.
    pub(crate) fn settle(&mut self, done: &RegistrySteps) -> Vec<RegistryEntry> {
        self.generation += 1;
        for name in done.names() {
            match done.running.get(&name) {
                Some(wanted) => self.running.insert(name, wanted.clone()),
                None => self.running.remove(&name),
            };
        }
        self.sources.resolve().entries
    }
}

/// Does something unless whoever asked has gone.
async fn unless<T>(cancelled: &CancellationToken, work: impl Future<Output = T>) -> Result<T, RegistryRefusal> {
    tokio::select! {
        // Whoever has gone counts more than work that is ready just now.
        biased;
        () = cancelled.cancelled() => Err(RegistryRefusal::Cancelled),
        done = work => Ok(done),
    }
}

/// Whether a server needs something that takes long to get, before it can be started.
fn needs_much(server: &PlannedServer) -> bool {
    server.read.enabled && server.plan.source.needs_preparing()
}

fn by_name(resolved: &ResolvedServers) -> BTreeMap<String, WantedServer> {
    resolved.wanted.iter().map(|wanted| (wanted.config.name.clone(), wanted.clone())).collect()
}
