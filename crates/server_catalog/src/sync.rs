//! One reading of a registry, page by page, without I/O: which address to ask next, what to make of the answer, when to stop.
//!
//! The first reading takes all newest releases; later ones what was updated since, with an overlap, because the clocks of a registry's
//! machines differ. Nothing is applied before the last page is there: a reading that breaks off has changed nothing.

use std::collections::{BTreeMap, HashSet};

use jiff::{SignedDuration, Timestamp};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::value::RawValue;
use tidings_store::{CopyState, CopyStep, RegistryCopy};

use crate::published::{RegistryItem, ReleaseStatus};

/// How long one page may be. The official registry's are about 200 KB.
pub(crate) const PAGE_BYTES: usize = 8 << 20;
/// How long one item may be. Longer ones are left out.
const ITEM_BYTES: usize = 64 << 10;
/// How many pages one reading may have: one whose cursors never end must stop somewhere.
const PAGES: usize = 1_000;
/// How large all pages of a reading may be together.
const READING_BYTES: usize = 128 << 20;
/// How many items a copy may have.
const ITEMS: usize = 100_000;
/// How much is asked for again.
const OVERLAP: SignedDuration = SignedDuration::from_mins(5);

/// Why a reading broke off.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SyncFault {
    /// Nobody answers, or not in time, or too much.
    #[error("{0}")]
    Unreachable(String),
    /// It answers that it will not.
    #[error("it answers with HTTP status {0}")]
    Status(u16),
    /// The answer is no list of servers.
    #[error("its answer is no list of servers: {0}")]
    Malformed(String),
    /// A page names a cursor that was there before.
    #[error("its pages lead in a circle")]
    Circle,
    /// There is more than anybody could want.
    #[error("it has more than {ITEMS} servers, {PAGES} pages or {READING_BYTES} bytes")]
    TooMuch,
    /// What was read can not be kept.
    #[error("what it says can not be kept: {0}")]
    NotKept(String),
}

/// A reading under way.
#[derive(Debug)]
pub(crate) struct RegistrySync {
    base: String,
    since: Option<Timestamp>,
    cursor: Option<String>,
    seen: HashSet<String>,
    bytes: usize,
    newest: Option<Timestamp>,
    items: BTreeMap<String, String>,
    /// Items that nobody could read.
    skipped: usize,
}

#[derive(Deserialize)]
struct PageForm<'a> {
    #[serde(borrow, default)]
    servers: Option<Vec<&'a RawValue>>,
    #[serde(default)]
    metadata: Option<MetadataForm>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct MetadataForm {
    next_cursor: Option<String>,
}

impl RegistrySync {
    /// Begins a reading of the registry at `base`, for what is known of it.
    pub(crate) fn new(base: &str, known: &RegistryCopy) -> Self {
        // A copy of another place is no beginning.
        let state = known.state.as_ref().filter(|state| state.url == base);
        let newest = state.and_then(|state| state.newest).and_then(|at| Timestamp::from_millisecond(at).ok());
        let since = newest.and_then(|newest| newest.checked_sub(OVERLAP).ok());
        Self {
            base: base.to_owned(),
            since,
            cursor: None,
            seen: HashSet::new(),
            bytes: 0,
            newest,
            items: BTreeMap::new(),
            skipped: 0,
        }
    }

    /// The address of the next page.
    pub(crate) fn address(&self) -> String {
        let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let mut address = format!("{}/v0.1/servers?limit=100", self.base);
        match self.since {
            // Not only the newest ones: a release that is withdrawn may no longer be one.
            Some(since) => address.push_str(&format!("&updated_since={}", encode(&since.to_string()))),
            None => address.push_str("&version=latest"),
        }
        if let Some(cursor) = &self.cursor {
            address.push_str(&format!("&cursor={}", encode(cursor)));
        }
        address
    }

    /// Takes a page. True when it was the last.
    pub(crate) fn take(&mut self, page: &[u8], known: &RegistryCopy) -> Result<bool, SyncFault> {
        self.bytes += page.len();
        let malformed = |error: &dyn std::fmt::Display| SyncFault::Malformed(error.to_string());
        let text = std::str::from_utf8(page).map_err(|error| malformed(&error))?;
        let page: PageForm<'_> = serde_json::from_str(text).map_err(|error| malformed(&error))?;
        let servers = page.servers.ok_or_else(|| malformed(&"it has no `servers`"))?;
        for item in servers {
            self.take_item(item.get(), known);
        }
        let next = page.metadata.and_then(|metadata| metadata.next_cursor).filter(|cursor| !cursor.is_empty());
        let Some(next) = next else { return Ok(true) };
        if !self.seen.insert(next.clone()) {
            return Err(SyncFault::Circle);
        }
        // In a whole reading the copy is replaced, so what is known does not count.
        let known = if self.since.is_some() { known.items.len() } else { 0 };
        if self.seen.len() >= PAGES || self.bytes > READING_BYTES || self.items.len() + known > ITEMS {
            return Err(SyncFault::TooMuch);
        }
        self.cursor = Some(next);
        Ok(false)
    }

    fn take_item(&mut self, text: &str, known: &RegistryCopy) {
        let item = (text.len() <= ITEM_BYTES).then(|| RegistryItem::read(text)).flatten();
        let Some(item) = item else {
            // One bad item must not cost the others.
            self.skipped += 1;
            return;
        };
        // Also of items that are left out below: they were read, and need not be asked for again.
        self.newest = self.newest.max(item.state.updated);
        let name = &item.server.name;
        let before = self.items.get(name).or_else(|| known.items.get(name)).and_then(|text| RegistryItem::read(text));
        let is_same_release = before.as_ref().is_some_and(|before| before.server.version == item.server.version);
        // Of an older release only its end counts, and only where it is the one that is known.
        if item.state.is_latest || is_same_release || (before.is_none() && item.state.status != ReleaseStatus::Active) {
            self.items.insert(name.clone(), text.to_owned());
        }
    }

    /// What the reading brought, at this time in seconds since 1970; and how many items nobody could read.
    pub(crate) fn finish(self, now: u64) -> (CopyStep, usize) {
        // Not later than now: of an item from the future everything after it would count as known, for as long as that lasts.
        let now_at = i64::try_from(now).unwrap_or(i64::MAX).saturating_mul(1_000);
        let newest = self.newest.map(|newest| newest.as_millisecond().min(now_at));
        let state = CopyState { url: self.base, newest, refreshed: now };
        (CopyStep { state, is_whole: self.since.is_none(), items: self.items }, self.skipped)
    }
}

#[cfg(test)]
mod tests;
