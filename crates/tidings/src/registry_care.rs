//! Keeps copies of registries current, and says what became of the releases that installed servers run.
//!
//! The network is never asked while the gateway starts: the first time comes after a while, or when somebody asks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde_json::value::{RawValue, to_raw_value};
use tidings_inventory::ServerRegistry;
use tidings_server_catalog::{
    EntryCatalogue as _, InstalledRelease, LocalCatalogue, PublishedRelease, ReleaseNews, release_news,
};
use tidings_store::{ChangeLog, ChangeRecord, ChangedItem, FieldChange, ItemRemark, RegistryTable};
use tokio_util::sync::CancellationToken;

/// The least and the most that the first reading waits where there is no copy yet.
const FIRST: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(60));
/// How long a registry that could not be read is left alone, at least.
const PAUSE: Duration = Duration::from_secs(60);

/// What the care needs.
pub(crate) struct RegistryCare {
    pub(crate) catalogue: Arc<LocalCatalogue>,
    pub(crate) registry: ServerRegistry,
    pub(crate) table: RegistryTable,
    pub(crate) changes: ChangeLog,
}

impl RegistryCare {
    /// Runs until `stop`. One task for all registries: they are read one after the other, and nobody waits for it.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let _ = stop.run_until_cancelled(self.keep_current()).await;
    }

    async fn keep_current(&self) {
        let mut due: BTreeMap<String, tokio::time::Instant> = BTreeMap::new();
        let mut refreshes = self.catalogue.refreshes();
        let now = tokio::time::Instant::now();
        for (name, refresh, refreshed) in self.catalogue.registries().await {
            let age = refreshed.and_then(|at| SystemTime::now().duration_since(at).ok());
            let wait = match age {
                // What is old already is not asked for at once: many gateways may start at the same moment.
                // So even what is overdue waits, but never longer than a whole refresh.
                Some(age) => refresh.saturating_sub(age).max(FIRST.0.min(refresh)),
                None => FIRST.1.min(refresh),
            };
            due.insert(name, now + jittered(wait));
        }
        if due.is_empty() {
            return;
        }
        // What is kept may be news to a server that was added meanwhile.
        self.say_news().await;
        loop {
            let Some((name, at)) = due.iter().min_by_key(|(_, at)| **at).map(|(name, at)| (name.clone(), *at)) else {
                return;
            };
            tokio::select! {
                () = tokio::time::sleep_until(at) => {
                    let report = self.catalogue.refresh(Some(name.clone())).await;
                    let failed = report.is_ok_and(|reports| reports.iter().any(|report| report.source.error.is_some()));
                    let registries = self.catalogue.registries().await;
                    let refresh = registries.iter().find(|(known, ..)| *known == name).map(|(_, refresh, _)| *refresh);
                    let refresh = refresh.unwrap_or(FIRST.1);
                    // Sooner than usual, so that it is current soon after the registry is back.
                    let wait = if failed { PAUSE.max(refresh / 4) } else { refresh };
                    due.insert(name, tokio::time::Instant::now() + jittered(wait));
                }
                // Somebody asked for it: what that brought is looked at as well.
                changed = refreshes.changed() => if changed.is_err() { return },
            }
            // The reading of this very round has rung it, too: without this it would be looked at twice.
            refreshes.mark_unchanged();
            self.say_news().await;
        }
    }

    /// Records what is new about the releases of installed servers.
    pub(crate) async fn say_news(&self) {
        let state = self.registry.state();
        let mut installed = Vec::new();
        let mut published: BTreeMap<String, PublishedRelease> = BTreeMap::new();
        for entry in &state.servers {
            let (Some(made_of), Some(release)) = (&entry.made_of, &entry.release) else { continue };
            let known = InstalledRelease {
                server: entry.name.clone(),
                entry: made_of.clone(),
                version: release.version.clone(),
                digest: release.digest.clone(),
            };
            // By server: two of one entry may run different versions, whose digests are compared apart.
            if let Some(now) = self.catalogue.published(&known, &release.kind).await {
                published.insert(known.server.clone(), now);
            }
            installed.push(known);
        }
        let (table, changes) = (self.table.clone(), self.changes.clone());
        let say = move || {
            let said = table.releases()?;
            let (news, keep) = release_news(&installed, &|server| published.get(server).cloned(), &said);
            // Kept first: what is said twice is worse than what a crash in between leaves unsaid.
            if !keep.is_empty() {
                table.keep_releases(&keep)?;
            }
            news.iter().for_each(|news| changes.append(record(news), None));
            Ok::<(), tidings_store::KeepError>(())
        };
        if let Ok(Err(error)) = tokio::task::spawn_blocking(say).await {
            tracing::error!(%error, "what is new about releases can not be kept");
        }
    }
}

/// Between nine and eleven tenths: gateways that started together do not ask together for ever.
fn jittered(wait: Duration) -> Duration {
    let mut byte = [0u8; 2];
    // Without randomness all ask at the same time, which is no fault of theirs.
    let _ = getrandom::fill(&mut byte);
    let part = f64::from(u16::from_le_bytes(byte)) / f64::from(u16::MAX);
    wait.mul_f64(0.9 + 0.2 * part)
}

/// A change of kind `release`.
fn record(news: &ReleaseNews) -> ChangeRecord {
    let ReleaseNews { server, entry, before, now } = news;
    let text = |value: Option<&str>| value.and_then(|value| to_raw_value(value).ok());
    let field = |field: &str, before: Option<&str>, after: Option<&str>| FieldChange {
        field: field.to_owned(),
        before: text(before),
        after: text(after) as Option<Box<RawValue>>,
        truncated: false,
    };
    let members = [
        field("digest", before.digest.as_deref(), now.digest.as_deref()),
        field("message", before.message.as_deref(), now.message.as_deref()),
        field("status", Some(&before.status), Some(&now.status)),
        field("version", Some(&before.version), Some(&now.version)),
    ];
    let value = |raw: &Option<Box<RawValue>>| raw.as_ref().map(|raw| raw.get().to_owned());
    let diff: Vec<FieldChange> =
        members.into_iter().filter(|field| value(&field.before) != value(&field.after)).collect();
    let is_same_version = before.version == now.version;
    let severity = match now.status.as_str() {
        "deleted" => "breaking",
        // What was published under one version is something else now.
        _ if is_same_version && before.digest != now.digest => "suspect",
        "deprecated" => "breaking",
        _ => "quiet",
    };
    let mut reasons = vec![match is_same_version {
        false => format!("{} is published; {} runs", now.version, before.version),
        true if before.status != now.status => format!("{} is {} now", now.version, now.status),
        true => format!("what {} runs was published anew", now.version),
    }];
    reasons.extend(now.message.clone());
    let severity = severity.to_owned();
    ChangeRecord {
        seq: 0,
        time: Timestamp::now(),
        commit: None,
        server: server.clone(),
        kind: "release".to_owned(),
        added: Vec::new(),
        removed: Vec::new(),
        changed: vec![ChangedItem {
            name: entry.clone(),
            fields: diff.iter().map(|field| field.field.clone()).collect(),
            diff,
        }],
        while_down: false,
        held: false,
        severity: Some(severity.clone()),
        remarks: vec![ItemRemark { name: entry.clone(), severity, reasons }],
        omitted: 0,
        lost: 0,
    }
}
