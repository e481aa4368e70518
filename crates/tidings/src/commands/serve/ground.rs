//! What a gateway stands on before anything of it runs: its directory and store, where it listens, and who may come in.

use std::time::Duration;

use tidings_config::{Config, ListenAddress};
use tidings_login::Logins;
use tidings_store::Store;

use super::entrance::{self, GatewayEntrance};
use crate::access::{self, AccessControl};
use crate::cli::Cli;
use crate::data::DataDir;
use crate::failure::CommandFailure;
use crate::{feed, secret, wiring};

/// How long a process that is about to leave may hold the store.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) struct ServingGround {
    pub(super) data: DataDir,
    pub(super) store: Store,
    pub(super) entrance: GatewayEntrance,
    pub(super) access: AccessControl,
    pub(super) logins: Option<Logins>,
    /// What can not be written into the directory, for people.
    pub(super) not_kept: Vec<String>,
    pub(super) has_page: bool,
    pub(super) has_auth: bool,
    /// Whether everybody needs a token, be it of `[auth]` or the gateway's own.
    pub(super) has_tokens: bool,
}

impl ServingGround {
    /// Fails where nothing was started or written yet, if the gateway can not be.
    pub(super) async fn open(cli: &Cli, config: &Config, listen: &ListenAddress) -> Result<Self, CommandFailure> {
        // Before the socket is opened: for a moment anybody could come in.
        entrance::refuse_strangers(config, listen)?;
        let data = DataDir::find(cli.data.as_deref())?;
        let mut not_kept = Vec::new();
        let token = data.admin_token().or_else(|failure| {
            not_kept.push(format!("the key of the API, so that no command finds this gateway ({failure})"));
            // The gateway serves all the same; only its own commands have no key to it.
            secret::fresh()
        })?;
        if let Some(fault) = access::fault(config) {
            return Err(CommandFailure::Failed(fault));
        }
        // Before anything is started or opened: the most common mistake costs nothing.
        let entrance = GatewayEntrance::open(config, listen, &data).await?;
        let store = feed::open(Some(data.clone()), PATIENCE).await;
        if !store.is_kept() {
            not_kept.push("changes, and servers that are added at run time".to_owned());
        }
        let public_url = config.gateway.public_url.as_deref().unwrap_or(&entrance.url);
        let access = AccessControl::new(config, &token, public_url);
        let logins = wiring::open_logins(&store, Some(&data), config.vault.as_deref(), config.cluster.is_some());
        if let Some(logins) = &logins {
            logins.reached_at(public_url);
        }
        let has_auth = config.auth.is_some();
        Ok(Self {
            data,
            store,
            entrance,
            access,
            logins,
            not_kept,
            has_page: config.page.enabled,
            has_auth,
            has_tokens: has_auth || config.gateway.asks_everybody,
        })
    }
}
