//! The engine and everything that runs with it, from its start to its end in good order.

use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use tidings_admin::CallDesk;
use tidings_builtin::SearchService;
use tidings_engine::Gateway;
use tidings_inventory::ServerRegistry;
use tidings_login::Logins;
use tidings_outbound_hooks::OutboundHooks;
use tidings_server_catalog::LocalCatalogue;
use tidings_store::{AuditLog, ChangeLog, HookTable, OutboundTable, RegistryTable, ServerTable};
use tidings_telemetry::Telemetry;

use super::ground::ServingGround;
use crate::cli::Cli;
use crate::demo::Demo;
use crate::failure::CommandFailure;
use crate::registry_care::RegistryCare;
use crate::settings::LoadedConfig;
use crate::weight::ToolNames;
use crate::{feed, telemetry, wiring};

pub(super) struct ServedGateway {
    pub(super) gateway: Gateway,
    pub(super) registry: ServerRegistry,
    pub(super) search: Arc<SearchService>,
    pub(super) entries: Arc<LocalCatalogue>,
    pub(super) desk: CallDesk,
    pub(super) demo: Option<Demo>,
    /// The record of the trust in the configuration, which is followed.
    pub(super) consent: Option<PathBuf>,
    /// Where webhooks are delivered.
    pub(super) hooks: Router,
    pub(super) notify: OutboundHooks,
    pub(super) logins: Option<Logins>,
    pub(super) log: ChangeLog,
    pub(super) audit: Option<AuditLog>,
    pub(super) telemetry: Option<Telemetry>,
    copies: RegistryTable,
}

impl ServedGateway {
    pub(super) fn start(cli: &Cli, loaded: LoadedConfig, ground: &ServingGround) -> Result<Self, CommandFailure> {
        let store = &ground.store;
        let log = feed::log(store.clone());
        let notify = OutboundHooks::new(log.clone(), OutboundTable::new(store));
        let copies = RegistryTable::new(store);
        let mut inputs = loaded.into_inputs(ServerTable::new(store), |_| Vec::new());
        // Only now known where the port was 0.
        inputs.listeners = vec![ground.entrance.address];
        inputs.hooks = HookTable::new(store);
        inputs.copies = copies.clone();
        inputs.search = wiring::search_tables(store);
        inputs.logins = ground.logins.clone();
        inputs.access = Some(ground.access.clone());
        inputs.notify = Some(notify.clone());
        let mut prepared = wiring::prepare(cli, inputs, Some(&ground.data))?;
        prepared.join_cluster()?;
        let telemetry = telemetry::start(prepared.telemetry());
        prepared.trace(telemetry.as_ref());
        let (search, registry, demo) = (prepared.search(), prepared.registry(), prepared.demo());
        let (consent, entries) = (prepared.consent(), prepared.entries());
        let hooks = tidings_admin::hooks(prepared.hooks());
        let (audit, trail) = crate::audit::start(store, prepared.audit()).unzip();
        let names = ToolNames::default();
        let gateway = prepared.start(None, Some(feed::journal(&log, names.clone())), trail);
        // What changes before this is weighed without the names of other servers' tools.
        names.begin(&gateway);
        let (desk, logins) = (CallDesk::default(), ground.logins.clone());
        Ok(Self {
            gateway,
            registry,
            search,
            entries,
            desk,
            demo,
            consent,
            hooks,
            notify,
            logins,
            log,
            audit,
            telemetry,
            copies,
        })
    }

    /// What looks after registries of servers.
    pub(super) fn care(&self) -> RegistryCare {
        RegistryCare {
            catalogue: self.entries.clone(),
            registry: self.registry.clone(),
            table: self.copies.clone(),
            changes: self.log.clone(),
        }
    }

    /// In the order in which they still have something to say to each other.
    pub(super) async fn close(self) {
        self.gateway.shutdown().await;
        if let Some(logins) = self.logins {
            logins.close().await;
        }
        // After the gateway is: its last requests are told, too.
        if let Some(telemetry) = self.telemetry {
            telemetry.close().await;
        }
        // Before the log is: what it still gives is told by the next process.
        self.notify.close().await;
        // Before the store is: a change under way either is kept there, or never happened.
        self.registry.close().await;
        // Last: the end of a server is a change that belongs in the log.
        self.log.close().await;
        if let Some(audit) = self.audit {
            audit.close().await;
        }
    }
}
