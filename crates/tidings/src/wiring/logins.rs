//! From the configuration's words about logins to those of the crate `login`, and where logins are kept.

use tidings_config::{LoginConfig, LoginGrant, LoginResource};
use tidings_login::{GrantKind, LoginSettings, Logins, ResourceChoice};
use tidings_store::{Store, VaultTable};

use crate::data::DataDir;

/// The logins of a gateway, sealed in its store with the key of its data directory.
pub(crate) fn open(store: &Store, data: Option<&DataDir>) -> Option<Logins> {
    let key = match data.map(DataDir::seal_key) {
        Some(Ok(key)) => key,
        // Nothing is kept without a key, so nothing is begun: it would be lost with the process.
        Some(Err(failure)) => {
            tracing::warn!("servers can not be logged in to: {failure}");
            return None;
        }
        None => return None,
    };
    Some(Logins::new(VaultTable::new(store, &key)))
}

/// The settings of one server.
pub(super) fn settings(config: &LoginConfig) -> LoginSettings {
    LoginSettings {
        grant: match config.grant {
            LoginGrant::Code => GrantKind::Code,
            LoginGrant::Device => GrantKind::Device,
            LoginGrant::ClientCredentials => GrantKind::ClientCredentials,
            LoginGrant::JwtBearer => GrantKind::JwtBearer,
        },
        client_id: config.client_id.clone(),
        client_secret: config.client_secret.clone(),
        client_key: config.client_key.clone(),
        client_metadata_url: config.client_metadata_url.clone(),
        scopes: config.scopes.clone(),
        issuer: config.issuer.clone(),
        resource: match &config.resource {
            LoginResource::Found => ResourceChoice::Found,
            LoginResource::Omitted => ResourceChoice::Omitted,
            LoginResource::Named(name) => ResourceChoice::Named(name.clone()),
        },
        pkce_assumed: config.pkce_assumed,
        legacy: config.legacy,
        assertion: config.assertion.clone(),
    }
}
