//! `tidings lock` writes what the servers offer now into tidings.lock; `tidings check --locked` says where they differ from it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde_json::{Value, json};
use tidings_config::{LockFile, LockedItem, LockedServer};

use super::terminal::{CAME, OTHER, TerminalPaint, WENT, harmless, plural};
use crate::backend::Backend;
use crate::cli::Cli;
use crate::failure::CommandFailure;
use crate::lock_files;

/// Writes the present state: every definition that clients see. What is held stays as it was decided before.
pub(super) async fn write(cli: &Cli) -> Result<(), CommandFailure> {
    let state = State::read(cli).await?;
    let mut missing = 0;
    for (path, servers) in &state.files {
        let known = &state.configured;
        let (items, held) =
            lock_files::change(path, |lock| update(lock, servers, known)).map_err(CommandFailure::failed)?;
        let servers_here = plural(servers.len() as u64, "server");
        println!("{}: {servers_here}, {}.", path.display(), plural(items, "definition"));
        if held > 0 {
            println!(
                "Not in it, because approval is waited for: {}. See tidings approvals",
                plural(held, "definition")
            );
        }
        for server in servers.iter().filter(|server| server.error.is_some()) {
            missing += 1;
            let error = harmless(server.error.as_deref().unwrap_or_default());
            eprintln!("{} could not be listed, so its lines stay as they are: {error}", harmless(&server.name));
        }
    }
    if missing > 0 {
        return Err(CommandFailure::Failed(format!("{} could not be listed", plural(missing, "server"))));
    }
    Ok(())
}

/// Fails when what the servers offer differs from the lock, and says how.
pub(super) async fn check(cli: &Cli, as_json: bool) -> Result<(), CommandFailure> {
    let state = State::read(cli).await?;
    let mut differences = Vec::new();
    for (path, servers) in &state.files {
        let lock = lock_files::read(path).map_err(CommandFailure::failed)?;
        differences.extend(compare(&lock, servers, &state.configured));
    }
    let failed = || {
        let text = format!("{} from tidings.lock", plural(differences.len() as u64, "difference"));
        CommandFailure::Failed(format!("{text}; to accept what the servers offer: tidings lock"))
    };
    if as_json {
        let all: Vec<Value> = differences.iter().map(LockDifference::json).collect();
        println!("{:#}", json!({ "ok": differences.is_empty(), "differences": all }));
    } else {
        let paint = TerminalPaint::for_stdout();
        differences.iter().for_each(|difference| println!("{}", difference.line(paint)));
        if differences.is_empty() {
            println!("Everything is as tidings.lock says.");
        }
    }
    if differences.is_empty() { Ok(()) } else { Err(failed()) }
}

/// What one server offers.
struct Offered {
    name: String,
    identity: Option<String>,
    error: Option<String>,
    items: BTreeMap<LockedItem, (String, bool)>,
}

/// What all servers offer, by the file in which they are locked.
struct State {
    files: BTreeMap<PathBuf, Vec<Offered>>,
    /// Every server that is configured, also those that are off.
    configured: BTreeSet<String>,
}

impl State {
    async fn read(cli: &Cli) -> Result<Self, CommandFailure> {
        let backend = Backend::open(cli)?;
        let found = async { Ok((backend.servers().await?, backend.offered().await?, backend.lock_paths().await?)) };
        let found: Result<_, CommandFailure> = found.await;
        backend.close().await;
        let (servers, offered, paths) = found?;
        let names = servers["servers"].as_array().into_iter().flatten().filter_map(|server| server["name"].as_str());
        let mut files: BTreeMap<PathBuf, Vec<Offered>> = BTreeMap::new();
        for server in offered["servers"].as_array().into_iter().flatten() {
            let path = if server["source"] == "file" { &paths.file } else { &paths.runtime };
            let Some(path) = path else { continue };
            files.entry(path.clone()).or_default().push(Offered::read(server));
        }
        Ok(Self { configured: names.map(str::to_owned).collect(), files })
    }
}

impl Offered {
    fn read(server: &Value) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let items = server["items"].as_array().into_iter().flatten().filter_map(|item| {
            let (kind, name) = (text(&item["kind"])?, text(&item["name"])?);
            Some((LockedItem { kind, name }, (text(&item["hash"])?, item["held"] == true)))
        });
        Self {
            name: text(&server["name"]).unwrap_or_default(),
            identity: text(&server["identity"]),
            error: text(&server["error"]),
            items: items.collect(),
        }
    }
}

/// Writes what is seen into a lock. Gives how many definitions it has then, and how many are held.
fn update(lock: &mut LockFile, servers: &[Offered], configured: &BTreeSet<String>) -> (u64, u64) {
    lock.servers.retain(|name, _| configured.contains(name));
    let (mut items, mut held) = (0, 0);
    for server in servers.iter().filter(|server| server.error.is_none()) {
        let before = lock.servers.remove(&server.name).unwrap_or_default();
        let mut locked =
            LockedServer { identity: server.identity.clone(), rejected: before.rejected, ..Default::default() };
        for (item, (hash, is_held)) in &server.items {
            // What waits for approval is not approved by writing down what is there.
            let hash = if *is_held { before.approved.get(item) } else { Some(hash) };
            held += u64::from(*is_held);
            if let Some(hash) = hash {
                locked.approved.insert(item.clone(), hash.clone());
            }
        }
        items += locked.approved.len() as u64;
        lock.servers.insert(server.name.clone(), locked);
    }
    (items, held)
}

/// One difference between the lock and what is there.
#[derive(Debug, PartialEq, Eq)]
struct LockDifference {
    server: String,
    item: Option<LockedItem>,
    kind: DifferenceKind,
}

#[derive(Debug, PartialEq, Eq)]
enum DifferenceKind {
    Added,
    Removed,
    Changed,
    /// It is reached otherwise: as it was locked, and now.
    Identity(String, String),
    /// What it offers can not be known.
    Unknown(String),
}

impl LockDifference {
    fn line(&self, paint: TerminalPaint) -> String {
        let item = self.item.as_ref().map(|item| format!("/{} ({})", harmless(&item.name), harmless(&item.kind)));
        let of = format!("{}{}", harmless(&self.server), item.unwrap_or_default());
        match &self.kind {
            DifferenceKind::Added => paint.styled(CAME, &format!("+ {of} is not in the lock")),
            DifferenceKind::Removed => paint.styled(WENT, &format!("- {of} is in the lock, and not offered")),
            DifferenceKind::Changed => paint.styled(OTHER, &format!("~ {of} has another definition")),
            DifferenceKind::Identity(before, now) => {
                let (before, now) = (harmless(before), harmless(now));
                paint.styled(OTHER, &format!("~ {of} was locked as {before}, and is {now}"))
            }
            DifferenceKind::Unknown(error) => paint.styled(WENT, &format!("! {of}: {}", harmless(error))),
        }
    }

    fn json(&self) -> Value {
        let (kind, before, now) = match &self.kind {
            DifferenceKind::Added => ("added", None, None),
            DifferenceKind::Removed => ("removed", None, None),
            DifferenceKind::Changed => ("changed", None, None),
            DifferenceKind::Identity(before, now) => ("identity", Some(before), Some(now)),
            DifferenceKind::Unknown(error) => ("unknown", None, Some(error)),
        };
        let item = self.item.as_ref();
        json!({
            "difference": kind,
            "server": self.server,
            "kind": item.map(|item| &item.kind),
            "name": item.map(|item| &item.name),
            "locked": before,
            "now": now,
        })
    }
}

fn compare(lock: &LockFile, servers: &[Offered], configured: &BTreeSet<String>) -> Vec<LockDifference> {
    let mut all = Vec::new();
    for server in servers {
        let mut differs = |item: Option<&LockedItem>, kind| {
            all.push(LockDifference { server: server.name.clone(), item: item.cloned(), kind });
        };
        if let Some(error) = &server.error {
            differs(None, DifferenceKind::Unknown(format!("could not be listed: {error}")));
            continue;
        }
        let none = LockedServer::default();
        let locked = lock.servers.get(&server.name).unwrap_or(&none);
        if let (Some(before), Some(now)) = (&locked.identity, &server.identity)
            && before != now
        {
            differs(None, DifferenceKind::Identity(before.clone(), now.clone()));
        }
        for (item, (hash, _)) in &server.items {
            match locked.approved.get(item) {
                None => differs(Some(item), DifferenceKind::Added),
                Some(known) if known != hash => differs(Some(item), DifferenceKind::Changed),
                Some(_) => {}
            }
        }
        for item in locked.approved.keys().filter(|item| !server.items.contains_key(*item)) {
            differs(Some(item), DifferenceKind::Removed);
        }
    }
    for name in lock.servers.keys().filter(|name| !configured.contains(*name)) {
        let kind = DifferenceKind::Unknown("is in the lock, and not configured".into());
        all.push(LockDifference { server: name.clone(), item: None, kind });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(name: &str) -> LockedItem {
        LockedItem { kind: "tools".into(), name: name.into() }
    }

    fn offered(items: &[(&str, &str, bool)]) -> Offered {
        let items = items.iter().map(|(name, hash, held)| (item(name), ((*hash).to_owned(), *held))).collect();
        Offered { name: "a".into(), identity: Some("url u".into()), error: None, items }
    }

    #[test]
    fn a_lock_that_was_just_written_differs_only_in_what_is_held() {
        let configured = BTreeSet::from(["a".to_owned()]);
        let mut lock = LockFile::default();
        lock.servers.insert("gone".into(), LockedServer::default());
        let first = [offered(&[("x", "1", false), ("y", "1", false)])];
        assert_eq!(update(&mut lock, &first, &configured), (2, 0));
        assert_eq!(compare(&lock, &first, &configured), []);
        assert!(!lock.servers.contains_key("gone"), "it is not configured any more");
        let second = [offered(&[("x", "2", true), ("z", "1", true)])];
        assert_eq!(update(&mut lock, &second, &configured), (1, 2));
        assert_eq!(
            lock.servers["a"].approved,
            BTreeMap::from([(item("x"), "1".to_owned())]),
            "y is gone, the rest waits"
        );
        let kinds: Vec<DifferenceKind> = compare(&lock, &second, &configured).into_iter().map(|d| d.kind).collect();
        assert_eq!(kinds, [DifferenceKind::Changed, DifferenceKind::Added]);
    }

    #[test]
    fn what_can_not_be_listed_keeps_its_lines_and_is_a_difference() {
        let configured = BTreeSet::from(["a".to_owned()]);
        let mut lock = LockFile::default();
        update(&mut lock, &[offered(&[("x", "1", false)])], &configured);
        let before = lock.clone();
        let down = [Offered { error: Some("refused".into()), ..offered(&[]) }];
        update(&mut lock, &down, &configured);
        assert_eq!(lock, before);
        assert!(matches!(compare(&lock, &down, &configured)[0].kind, DifferenceKind::Unknown(_)));
        let moved = [Offered { identity: Some("url other".into()), ..offered(&[("x", "1", false)]) }];
        assert!(matches!(compare(&lock, &moved, &configured)[0].kind, DifferenceKind::Identity(..)));
    }
}
