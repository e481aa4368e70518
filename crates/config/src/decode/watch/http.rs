//! `http`: the body of a URL.

use std::time::Duration;

use super::WatchKind;
use crate::decode::server::{header_objection, http_url};
use crate::plan::watch::WatchSource;
use crate::read::TableSection;

pub(super) const KIND: WatchKind = WatchKind { key: "http", keys: &["every", "headers", "private"], read };

const DEFAULT_EVERY: Duration = Duration::from_secs(30);

fn read(section: &mut TableSection<'_, '_>) -> Option<WatchSource> {
    section.remember("http");
    let url = http_url(section, "http");
    let every = section.positive_duration("every").unwrap_or(DEFAULT_EVERY);
    let headers = section.pairs("headers", header_objection);
    let private = section.boolean("private").unwrap_or(false);
    Some(WatchSource::Http { url: url?, every, headers, private })
}
