//! From `[watch.X]` to sources, and from one set of them to the next: only what differs is made anew.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tidings_config::{Config, WatchConfig};
use tidings_engine::{FleetDecisions, FleetWatches, Patience, SeatedWatch};
use tidings_store::HookTable;
use tidings_sync::Lock;
use tidings_watch::{
    DeliveryKeeper, MadeSource, ReceivedDelivery, SeatedWatches, SharedHooks, SourceFault, SourceInputs, WatchServer,
    WebhookSet, make_source,
};

use crate::failure::CommandFailure;

/// The server of all watches, the way in for webhooks, and what they are made of.
pub(super) struct WatchWiring {
    pub(super) server: WatchServer,
    pub(super) hooks: WebhookSet,
    made: Lock<Vec<MadeWatch>>,
    kept: HookTable,
    /// What webhooks share with those of other replicas, where there may be some.
    replicas: Option<Arc<SharedHooks>>,
    /// The watches that one replica looks at for all, as the first configuration has them; `None` without a cluster.
    seated: Option<SeatedSet>,
}

/// What has a seat at one replica. The same for as long as the process lives.
struct SeatedSet {
    configs: Vec<WatchConfig>,
    watches: Arc<SeatedWatches>,
}

/// A watch that was made of its configuration, with what made it: an equal configuration keeps it.
#[derive(Clone)]
struct MadeWatch {
    config: WatchConfig,
    made: MadeSource,
}

/// A set of watches that can be made, to be applied when everything else can.
pub(super) struct NextWatches(Vec<MadeWatch>);

impl WatchWiring {
    /// Watches nothing. What webhooks receive is kept in this table.
    pub(super) fn new(kept: HookTable, config: &Config) -> Self {
        let replicas = config.cluster.as_ref().map(|_| Arc::default());
        let seated = config.cluster.as_ref().map(|_| SeatedSet { configs: looked_at(config), watches: Arc::default() });
        Self {
            server: WatchServer::new(Vec::new()),
            hooks: WebhookSet::default(),
            made: Lock::default(),
            kept,
            replicas,
            seated,
        }
    }

    /// What one replica looks at for all, as the others are told of it.
    pub(super) fn seats(&self) -> Vec<SeatedWatch> {
        let seat = |watch: &WatchConfig| SeatedWatch {
            id: watch.id.clone(),
            // Without what is secret in it, and without what may differ.
            definition: format!("{:?}", WatchConfig { placement: Vec::new(), ..watch.clone() }),
            placement: watch.placement.clone(),
        };
        self.seated.iter().flat_map(|seated| &seated.configs).map(seat).collect()
    }

    /// From now on it is known which replica looks at what; `None` where this process is none.
    pub(super) fn attach(&self, fleet: Option<FleetWatches>) {
        if let Some(seated) = &self.seated {
            seated.watches.attach(fleet);
        }
    }

    /// Whether a configuration has other watches that one replica looks at for all than the one that was begun with.
    pub(super) fn are_seats_other(&self, config: &Config) -> bool {
        self.seated.as_ref().is_some_and(|seated| seated.configs != looked_at(config))
    }

    /// From now on what webhooks receive is the content at all replicas.
    pub(super) async fn join(&self, decisions: FleetDecisions) {
        if let Some(replicas) = &self.replicas {
            replicas.attach(decisions).await;
        }
    }

    /// Whether anything is watched.
    pub(super) fn is_empty(&self) -> bool {
        self.made.lock().is_empty()
    }

    /// Makes the sources of a configuration that are not there yet. Nothing is watched yet.
    pub(super) fn prepare(&self, config: &Config) -> Result<NextWatches, CommandFailure> {
        let before = self.made.lock().clone();
        let one = |watch: &WatchConfig| {
            let known = before.iter().find(|made| made.config.id == watch.id);
            match known.filter(|made| is_same(&made.config, watch)) {
                // The source goes on, with what it knows; only its pace is the new one.
                Some(made) => Ok(MadeWatch { config: watch.clone(), ..made.clone() }),
                None => self.make(config, watch, known),
            }
        };
        config.watches.iter().map(one).collect::<Result<_, _>>().map(NextWatches)
    }

    /// From now on there are these.
    pub(super) fn apply(&self, next: NextWatches) {
        self.show(&next);
        self.open(next);
    }

    /// From now on the server of the watches has these. Webhooks are not taken yet.
    pub(super) fn show(&self, next: &NextWatches) {
        let sources = next.0.iter().map(|made| {
            let patience = Patience { quiet: made.config.quiet, max_wait: made.config.max_wait };
            (Arc::clone(&made.made.source), patience)
        });
        self.server.replace(sources.collect());
    }

    /// From now on these are what the configuration in force says, and their webhooks are taken.
    pub(super) fn open(&self, next: NextWatches) {
        let made = next.0;
        // After the server knows its sources: a delivery that comes now finds one.
        self.hooks.replace(&WebhookSet::new(made.iter().filter_map(|made| made.made.hook.clone())));
        // Only here, after the commit: what `prepare` compares with is what runs.
        let before = std::mem::replace(&mut *self.made.lock(), made.clone());
        let stays = |id: &str| made.iter().any(|made| made.made.hook.is_some() && made.config.id == id);
        for gone in before.iter().filter(|before| before.made.hook.is_some() && !stays(&before.config.id)) {
            if let Err(error) = self.kept.forget(&gone.config.id) {
                tracing::warn!(watch = %gone.config.id, %error, "what a webhook received is still kept");
            }
        }
    }

    fn make(
        &self,
        config: &Config,
        watch: &WatchConfig,
        before: Option<&MadeWatch>,
    ) -> Result<MadeWatch, CommandFailure> {
        let keeper = || Arc::new(StoredDeliveries(self.kept.clone())) as Arc<dyn DeliveryKeeper>;
        let inputs = SourceInputs {
            keeper: self.kept.is_kept().then(keeper),
            replicas: self.replicas.clone(),
            before: before.map(|before| &before.made),
        };
        let mut made = make_source(watch, &inputs).map_err(|fault| refused(config, watch, &fault))?;
        if let Some(seated) = self.seated.as_ref().filter(|seated| seated.configs.contains(&paced_as_all(watch))) {
            made.source = seated.watches.seat(&watch.id, made.source);
        }
        Ok(MadeWatch { config: watch.clone(), made })
    }
}

/// Whether two watches differ in nothing but how long their changes are gathered.
fn is_same(one: &WatchConfig, other: &WatchConfig) -> bool {
    paced_as_all(one) == paced_as_all(other)
}

/// A watch without how long its changes are gathered.
fn paced_as_all(watch: &WatchConfig) -> WatchConfig {
    WatchConfig { quiet: None, max_wait: None, ..watch.clone() }
}

/// The watches that one replica of a cluster looks at for all.
fn looked_at(config: &Config) -> Vec<WatchConfig> {
    config.watches.iter().filter(|watch| watch.is_looked_at()).map(paced_as_all).collect()
}

/// What webhooks receive, in the store of the data directory.
struct StoredDeliveries(HookTable);

impl DeliveryKeeper for StoredDeliveries {
    fn read(&self, watch: &str) -> Vec<ReceivedDelivery> {
        let kept = self.0.read(watch).unwrap_or_else(|error| {
            tracing::error!(watch, %error, "what a webhook received before can not be read");
            Vec::new()
        });
        let one = |kept: tidings_store::KeptDelivery| ReceivedDelivery {
            uri: kept.uri,
            at: SystemTime::UNIX_EPOCH + Duration::from_millis(kept.time),
            number: kept.number,
            mime_type: Some(kept.mime_type).filter(|mime_type| !mime_type.is_empty()),
            body: kept.body.into(),
        };
        kept.into_iter().map(one).collect()
    }

    fn keep(&self, watch: &str, put: &[ReceivedDelivery], remove: &[String]) {
        let one = |delivery: &ReceivedDelivery| {
            let since = delivery.at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            tidings_store::KeptDelivery {
                uri: delivery.uri.clone(),
                time: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
                number: delivery.number,
                mime_type: delivery.mime_type.clone().unwrap_or_default(),
                body: delivery.body.to_vec(),
            }
        };
        let put: Vec<tidings_store::KeptDelivery> = put.iter().map(one).collect();
        if let Err(error) = self.0.keep(watch, &put, remove) {
            tracing::error!(watch, %error, "what a webhook received is not kept");
        }
    }
}

/// A fault that only the source itself can find, with its place.
fn refused(config: &Config, watch: &WatchConfig, fault: &SourceFault) -> CommandFailure {
    let key = format!("watch.{}.{}", watch.id, fault.key);
    match config.place_of(&key) {
        Some(place) => CommandFailure::Failed(format!("{place}: {key}: {fault}")),
        None => CommandFailure::Failed(format!("{key}: {fault}")),
    }
}
