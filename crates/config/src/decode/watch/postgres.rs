//! `postgres`: the rows of a query.

use super::WatchKind;
use crate::error::ConfigFault;
use crate::plan::watch::WatchSource;
use crate::read::TableSection;

pub(super) const KIND: WatchKind = WatchKind { key: "postgres", keys: &["query", "channel"], read };

fn read(section: &mut TableSection<'_, '_>) -> Option<WatchSource> {
    section.remember("postgres");
    let url = postgres_url(section);
    let query = section.required_text("query");
    let channel = section.required_text("channel");
    Some(WatchSource::Postgres { url: url?, query: query?, channel: channel? })
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
