//! `postgres`: the rows of a query.

use std::fmt;

use schemars::JsonSchema;

use super::{PLACEMENT, WatchKind, WatchSource};
use crate::error::ConfigFault;
use crate::read::TableSection;
use crate::redact::without_secrets;

pub(super) const KIND: WatchKind = WatchKind {
    key: "postgres",
    required: &["query", "channel"],
    optional: &[PLACEMENT],
    read,
    schema: PostgresKeys::json_schema,
};

/// The rows of a query.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresWatch {
    /// The URL of the database, as libpq writes it. It may hold a password, so it is never shown.
    pub url: String,
    /// The query whose rows are the content; it is run in a read-only transaction.
    pub query: String,
    /// The channel to LISTEN on, exactly as `pg_notify` has it.
    pub channel: String,
}

#[derive(JsonSchema)]
#[allow(dead_code, reason = "only its shape is used")]
struct PostgresKeys {
    /// The URL of a PostgreSQL database.
    postgres: Option<String>,
    /// The query whose rows are the content.
    query: Option<String>,
    /// The channel to LISTEN on.
    channel: Option<String>,
    /// In a cluster: labels of which a replica must have all to look at it for all of them.
    #[schemars(extend("default" = []))]
    placement: Option<Vec<String>>,
}

fn read(section: &mut TableSection<'_, '_>) -> Option<WatchSource> {
    section.remember("postgres");
    let url = postgres_url(section);
    let query = section.required_text("query");
    let channel = section.required_text("channel");
    Some(WatchSource::Postgres(PostgresWatch { url: url?, query: query?, channel: channel? }))
}

/// A socket needs no host.
fn postgres_url(section: &mut TableSection<'_, '_>) -> Option<String> {
    const SCHEMES: &[&str] = &["postgresql://", "postgres://"];
    let url = section.text("postgres")?;
    let is_clean = !url.contains(|c: char| c.is_whitespace() || c.is_control());
    if is_clean && SCHEMES.iter().any(|scheme| url.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty())) {
        return Some(url);
    }
    section.fault("postgres", ConfigFault::BadUrl { schemes: SCHEMES });
    None
}

impl fmt::Debug for PostgresWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresWatch")
            .field("url", &without_secrets(&self.url))
            .field("query", &self.query)
            .field("channel", &self.channel)
            .finish()
    }
}
