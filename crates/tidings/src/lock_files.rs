//! `tidings.lock`, read and written: beside the configuration for its servers, in the data directory for those that were added at run time.
//! The definitions themselves, of which the lock has only the hashes, are kept in the data directory: for differences, and for
//! `held = "old"`.
//!
//! Several processes may have one file. Each change reads it again behind a lock of the folder and writes it whole; each gateway hears of
//! that from its folder, and takes over what is new.
//!
//! Of a replica of a cluster the file is a copy: what the replicas agreed on is written into it. It says what counts before anything was decided
//! about a server; and when it is changed, what it approves or rejects of that which waits is decided for all.

mod server_keeper;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use rustix::fs::{FlockOperation, flock};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use server_keeper::{ServerKeeper, definitions_file};
use tidings_config::{
    ApprovalSetting, HeldSetting, LockFile, LockFileFault, LockedItem, LockedServer, ServerConfig, TransportConfig,
};
use tidings_engine::{
    ApprovalChoice, ApprovalDecision, ApprovalMode, ApprovalPlan, ApprovalPolicy, ApprovalRecord, ApprovalVerdict,
    Approvals, DecisionRefusal, Gateway, HeldView, Origin, SCREENED,
};
use tidings_folder_events::FileBell;
use tidings_proto::{ListKind, LocalName};
use tidings_sync::Lock;
use tidings_wire::{ByteSpan, Digest, digest, hex};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The name of the file.
pub(crate) const NAME: &str = "tidings.lock";
/// What stands before a hash.
const HASH: &str = "blake3:";
/// How often a gateway looks whether the file is another one, where its folder can not be watched.
const LOOK: Duration = Duration::from_secs(1);

/// The lock files of one gateway.
pub(crate) struct LockFiles {
    /// The folder of the configuration.
    beside: Option<PathBuf>,
    data: Option<PathBuf>,
    /// Whether what is trusted at first sight is written. A gateway for one command leaves that to one that stays.
    keeps_first_sight: bool,
    /// Whether replicas agree on what counts.
    shared: AtomicBool,
    /// By file and server. A server that is configured anew has the record that it had.
    records: Lock<ServerRecords>,
    /// Rings when there is something to follow: a gateway without approvals looks at no file.
    used: Notify,
}

/// By file and name: what was decided about a server, and who keeps it.
type ServerRecords = HashMap<(PathBuf, String), (Arc<ApprovalRecord>, Arc<ServerKeeper>)>;

/// Where the lock is of servers that stand in the configuration, and of those that were added at run time.
#[derive(Clone, Debug)]
pub(crate) struct LockPaths {
    pub(crate) file: Option<PathBuf>,
    pub(crate) runtime: Option<PathBuf>,
}

impl LockFiles {
    pub(crate) fn new(config: Option<&Path>, data: Option<&Path>, keeps_first_sight: bool) -> Self {
        let beside = config.and_then(|file| std::path::absolute(file).ok()?.parent().map(Path::to_owned));
        Self {
            beside,
            data: data.map(Path::to_owned),
            keeps_first_sight,
            shared: AtomicBool::new(false),
            records: Lock::default(),
            used: Notify::new(),
        }
    }

    /// The gateway is a replica; to be said before anything is planned.
    pub(crate) fn share(&self) {
        self.shared.store(true, Ordering::Relaxed);
    }

    fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Relaxed)
    }

    /// What a server is, in one line of the lock.
    pub(crate) fn identity(&self, server: &ServerConfig) -> String {
        identity(server, self.beside.as_deref())
    }

    pub(crate) fn paths(&self) -> LockPaths {
        LockPaths { file: self.path(Origin::File), runtime: self.path(Origin::Runtime) }
    }

    /// The file for servers of an origin.
    fn path(&self, origin: Origin) -> Option<PathBuf> {
        let folder = if origin == Origin::File { &self.beside } else { &self.data };
        folder.as_ref().map(|folder| folder.join(NAME))
    }

    /// How a server is screened, or why that can not be known.
    pub(crate) fn plan(&self, server: &ServerConfig, origin: Origin) -> Result<Option<ApprovalPlan>, LockFault> {
        let mode = match server.approve {
            ApprovalSetting::Auto => return Ok(None),
            ApprovalSetting::Changed => ApprovalMode::Changed,
            ApprovalSetting::Manual => ApprovalMode::Manual,
        };
        let held = match server.held {
            HeldSetting::Hide => HeldView::Hide,
            HeldSetting::Old => HeldView::Old,
        };
        let policy = ApprovalPolicy { mode, held };
        let path = self.path(origin).ok_or(LockFault::NoFolder)?;
        let mut records = self.records.lock();
        let key = (path.clone(), server.name.clone());
        if let Some((record, keeper)) = records.get(&key) {
            // The record is kept and only its name changes: what was decided is about the definitions, and not about
            // how they are reached.
            *keeper.identity.lock() = self.identity(server);
            return Ok(Some(ApprovalPlan { policy, record: Arc::clone(record) }));
        }
        // Under the lock of the records: of two plans of one server both must have the same record.
        let locked = read(&path)?.servers.remove(&server.name);
        let keeper = Arc::new(ServerKeeper {
            definitions: self.data.as_ref().map(|data| definitions_file(data, &path, &server.name)),
            path,
            server: server.name.clone(),
            identity: Lock::new(self.identity(server)),
            keeps_first_sight: self.keeps_first_sight,
        });
        let approvals = approvals(locked.as_ref(), keeper.known_definitions().as_ref());
        let make = if self.is_shared() { ApprovalRecord::shared } else { ApprovalRecord::new };
        let record = Arc::new(make(approvals, Arc::clone(&keeper) as _));
        records.insert(key, (Arc::clone(&record), keeper));
        self.used.notify_one();
        Ok(Some(ApprovalPlan { policy, record }))
    }

    /// Takes over what was decided elsewhere, for as long as the gateway runs.
    pub(crate) async fn follow(self: Arc<Self>, gateway: Gateway, stop: CancellationToken) {
        let mut known: HashMap<PathBuf, Option<(SystemTime, u64)>> = HashMap::new();
        let mut changed = ChangedLines::default();
        let mut bell = FileBell::new(LOOK);
        loop {
            let awake = async {
                tokio::select! {
                    () = bell.rung() => {}
                    // There may be a file more to follow.
                    () = self.used.notified() => {}
                    () = tokio::time::sleep(LOOK), if !changed.due.is_empty() => {}
                }
            };
            if stop.run_until_cancelled(awake).await.is_none() {
                return;
            }
            let files = self.files();
            // Before they are looked at: what is written after that is heard.
            bell.watch(&files);
            let mut is_new = false;
            for path in files {
                // Two files of one moment have two numbers: each is renamed into place.
                let stamp = std::fs::metadata(&path).and_then(|file| Ok((file.modified()?, file.ino()))).ok();
                let before = known.insert(path.clone(), stamp);
                // At the first look, too: it may have changed since the start.
                let is_changed = before != Some(stamp);
                if !self.is_shared() {
                    is_new |= is_changed && self.read_again(&path);
                } else if is_changed {
                    changed.look(&path);
                }
            }
            if stop.run_until_cancelled(self.adopt(&gateway, &mut changed.due)).await.is_none() {
                return;
            }
            if is_new {
                gateway.screen_again();
            }
        }
    }

    /// Decides for all replicas what changed lines approve or reject of that which waits. They take nothing back: what they say otherwise of what
    /// was decided may be older. What the replicas can not agree on yet stays.
    async fn adopt(&self, gateway: &Gateway, due: &mut DueLines) {
        // Of a server whose lines now stand in another file nothing is read here.
        due.retain(|key, _| self.records.lock().contains_key(key));
        let mut undecided = BTreeSet::new();
        let waiting = if due.is_empty() { Vec::new() } else { gateway.approvals() };
        for held in waiting.iter().filter(|held| !held.held.rejected) {
            let Some((key, locked)) = due.iter().find(|((_, server), _)| *server == held.server) else { continue };
            let path = &key.0;
            let said = approvals(Some(locked), None);
            let verdict = if said.approves(&held.held) {
                ApprovalVerdict::Approve
            } else if said.rejects(held.held.kind, &held.held.item.key, held.held.item.digest) {
                ApprovalVerdict::Reject
            } else {
                continue;
            };
            let choice = ApprovalChoice { id: held.id.clone(), digest: held.held.item.digest };
            match gateway.decide(&[choice], verdict).await {
                Ok(_) => {
                    tracing::info!(server = %held.server, name = %held.held.item.key, ?verdict, "decided by the lock file")
                }
                Err(refusal @ (DecisionRefusal::Isolated { .. } | DecisionRefusal::Unanswered { .. })) => {
                    tracing::warn!(%refusal, path = %path.display(), "what the lock file says is decided when the replicas can agree");
                    undecided.insert(key.clone());
                }
                // Another replica has the same file, and was faster.
                Err(refusal) => tracing::debug!(%refusal, "nothing is decided by the lock file"),
            }
        }
        due.retain(|key, _| undecided.contains(key));
    }

    /// The files that something was read of.
    fn files(&self) -> BTreeSet<PathBuf> {
        self.records.lock().keys().map(|(path, _)| path.clone()).collect()
    }

    fn read_again(&self, path: &Path) -> bool {
        let lock = match read(path) {
            Ok(lock) => lock,
            Err(reason) => {
                tracing::warn!("{reason}; what was approved before stays so");
                // An approval must not vanish because somebody is in the middle of an edit, and none may be guessed
                // from half a file.
                return false;
            }
        };
        let records = self.records.lock();
        for ((_, server), (record, _)) in records.iter().filter(|((of, _), _)| of == path) {
            // Where it does not know a server, what was seen of that may not have been written yet.
            if let Some(locked) = lock.servers.get(server) {
                record.follow(approvals(Some(locked), None));
            }
        }
        true
    }
}

/// Lines of servers, by file and server.
type DueLines = BTreeMap<(PathBuf, String), LockedServer>;

/// Which lines of the files of a replica somebody changed, and not this replica: what it writes itself is what was agreed on about one server, and
/// must not make the old lines of the others count.
#[derive(Default)]
struct ChangedLines {
    /// As they were seen last.
    seen: HashMap<PathBuf, LockFile>,
    /// What was not decided by yet.
    due: DueLines,
}

impl ChangedLines {
    /// A file is another one.
    fn look(&mut self, path: &Path) {
        let lock = match read(path) {
            Ok(lock) => lock,
            Err(reason) => {
                tracing::warn!("{reason}; nothing is decided by it");
                return;
            }
        };
        // A replica that starts decides nothing: its file may be older than what was agreed on.
        if let Some(seen) = self.seen.get(path) {
            let changed = lock.servers.iter().filter(|(name, locked)| seen.servers.get(*name) != Some(*locked));
            self.due.extend(changed.map(|(name, locked)| ((path.to_owned(), name.clone()), locked.clone())));
        }
        self.seen.insert(path.to_owned(), lock);
    }
}

/// Why a lock file is of no use.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LockFault {
    #[error("there is no folder for its tidings.lock; name one with --data DIR")]
    NoFolder,
    #[error("{}: {error}", .path.display())]
    Io { path: PathBuf, error: std::io::Error },
    #[error("{}: {fault}", .path.display())]
    Invalid { path: PathBuf, fault: LockFileFault },
}

/// Reads a lock file; one that is not there has nothing in it.
pub(crate) fn read(path: &Path) -> Result<LockFile, LockFault> {
    match std::fs::read_to_string(path) {
        Ok(text) => LockFile::parse(&text).map_err(|fault| LockFault::Invalid { path: path.to_owned(), fault }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(LockFile::default()),
        Err(error) => Err(LockFault::Io { path: path.to_owned(), error }),
    }
}

/// Changes a lock file: read, changed and written whole, with every other process kept out. It is for everybody to read: there is no
/// secret in it.
pub(crate) fn change<T>(path: &Path, change: impl FnOnce(&mut LockFile) -> T) -> Result<T, LockFault> {
    let fault = |error| LockFault::Io { path: path.to_owned(), error };
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(fault)?;
    // The folder and not the file, since each change puts another file in its place.
    let guard = std::fs::File::open(folder).map_err(fault)?;
    flock(&guard, FlockOperation::LockExclusive).map_err(|error| fault(error.into()))?;
    let mut lock = read(path)?;
    let before = lock.to_text();
    let done = change(&mut lock);
    let text = lock.to_text();
    if text != before || !path.exists() {
        // In the same folder: a rename between two disks is not one step. Its holder is alone, by the lock of the
        // folder.
        let partial = folder.join(format!(".{NAME}.{}", std::process::id()));
        let written = std::fs::write(&partial, &text).and_then(|()| std::fs::rename(&partial, path));
        if written.is_err() {
            let _ = std::fs::remove_file(&partial);
        }
        written.map_err(fault)?;
    }
    Ok(done)
}

/// A hash as the file has it.
pub(crate) fn spelled(digest: Digest) -> String {
    format!("{HASH}{}", hex(&digest.0))
}

/// A hash of the file. One that is of another kind approves nothing.
pub(crate) fn hash(text: &str) -> Option<Digest> {
    let digits = text.strip_prefix(HASH).filter(|digits| digits.len() == 64 && digits.is_ascii())?;
    let mut bytes = [0; 32];
    for (place, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * place..2 * place + 2], 16).ok()?;
    }
    Some(Digest(bytes))
}

fn kind(text: &str) -> Option<ListKind> {
    SCREENED.into_iter().find(|kind| kind.member() == text)
}

/// What the file says of a server, with the definitions that are known.
fn approvals(locked: Option<&LockedServer>, definitions: Option<&Map<String, Value>>) -> Approvals {
    let Some(locked) = locked else { return Approvals::default() };
    let read = |items: &std::collections::BTreeMap<LockedItem, String>, verdict| {
        let decision = |(item, text): (&LockedItem, &String)| {
            let (kind, digest) = (kind(&item.kind)?, hash(text)?);
            let known = definitions.and_then(|all| all.get(&item.kind)?.get(&item.name)?.as_str());
            let definition = known.map(|text| Bytes::copy_from_slice(text.as_bytes()));
            // Of another content it would be shown as what was approved: the hash alone says what that is.
            let definition = definition.filter(|raw| says(raw) == Some(digest));
            Some(ApprovalDecision { kind, name: LocalName::new(item.name.as_str()), digest, definition, verdict })
        };
        items.iter().filter_map(decision).collect::<Vec<_>>()
    };
    // An item may have been approved in one form and rejected in another.
    let all = [read(&locked.approved, ApprovalVerdict::Approve), read(&locked.rejected, ApprovalVerdict::Reject)];
    Approvals::known(true, all.concat())
}

/// The hash of a definition, if it is one.
fn says(raw: &[u8]) -> Option<Digest> {
    serde_json::from_slice::<&RawValue>(raw).ok().map(|_| digest(raw, ByteSpan::new(0, raw.len())))
}

/// What a server is, in one line of the lock: how it is reached, without anything that may be a secret. What lies beside the
/// configuration is named from there, so that the line is the same on every machine.
fn identity(server: &ServerConfig, beside: Option<&Path>) -> String {
    let from_there = |path: &Path| {
        let inner = beside.and_then(|folder| path.strip_prefix(folder).ok());
        inner.map_or_else(|| path.display().to_string(), |inner| format!("./{}", inner.display()))
    };
    match &server.transport {
        TransportConfig::Stdio { command, args, .. } => {
            // The arguments are only in the hash, because keys are often among them.
            let line = json!([from_there(Path::new(command)), args]).to_string();
            format!("command {HASH}{}", blake3::hash(line.as_bytes()).to_hex())
        }
        TransportConfig::Http { url, .. } | TransportConfig::Sse { url, .. } => {
            let bare = url.split(['?', '#']).next().unwrap_or_default();
            let (scheme, rest) = bare.split_once("://").unwrap_or(("", bare));
            let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
            // From the right: a password may hold an `@`.
            format!("url {scheme}://{}/{path}", host.rsplit('@').next().unwrap_or_default())
        }
        TransportConfig::Container(container) => format!("image {}", container.image),
        TransportConfig::Project { dir, .. } => format!("project {}", from_there(dir)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_the_same_on_every_machine_and_tells_no_secret() {
        let command = |folder: &str| TransportConfig::Stdio {
            command: format!("{folder}/bin/run"),
            args: vec!["--fast".into()],
            env: vec![("KEY".into(), "hunter2".into())],
            cwd: None,
        };
        let of = |transport: TransportConfig, folder: &str| {
            identity(&ServerConfig::new("s", transport), Some(Path::new(folder)))
        };
        assert_eq!(of(command("/a"), "/a"), of(command("/b/c"), "/b/c"));
        assert_ne!(of(command("/a"), "/a"), of(command("/a"), "/b"), "another program");
        let url = "https://me:hunter2@example.com/mcp?key=hunter2#x".to_owned();
        let http = TransportConfig::Http { url, headers: vec![("Authorization".into(), "hunter2".into())] };
        assert_eq!(of(http, "/a"), "url https://example.com/mcp");
    }

    // cluster: what this replica writes about one server does not make the lines of another count
    #[test]
    fn only_lines_that_changed_since_they_were_seen_decide() {
        let dir = tidings_testkit::TempDir::new();
        let path = dir.join(NAME);
        let approve = |server: &str, text: &str| {
            let item = LockedItem { kind: "tools".into(), name: "t".into() };
            let approved = BTreeMap::from([(item, spelled(Digest::of_bytes(text.as_bytes())))]);
            let locked = LockedServer { approved, ..LockedServer::default() };
            change(&path, |lock| lock.servers.insert(server.to_owned(), locked)).unwrap();
        };
        let due = |changed: &mut ChangedLines| {
            changed.look(&path);
            std::mem::take(&mut changed.due).into_keys().map(|(_, server)| server).collect::<Vec<_>>()
        };
        approve("one", "old");
        approve("other", "old");
        let mut changed = ChangedLines::default();
        assert_eq!(due(&mut changed), [""; 0], "a file that is there at the start");
        approve("one", "agreed");
        assert_eq!(due(&mut changed), ["one"]);
        assert_eq!(due(&mut changed), [""; 0], "it was seen");
        std::fs::write(&path, "no lock file").unwrap();
        assert_eq!(due(&mut changed), [""; 0], "half of an edit");
        std::fs::remove_file(&path).unwrap();
        approve("other", "new");
        approve("one", "agreed");
        assert_eq!(due(&mut changed), ["other"], "against what was read last");
    }

    #[test]
    fn hashes_read_as_they_are_spelled_and_others_approve_nothing() {
        let digest = Digest::of_bytes(b"x");
        assert_eq!(hash(&spelled(digest)), Some(digest));
        for wrong in ["", "blake3:", "sha256:00", "blake3:zz", &spelled(digest)[..70], &format!("{}0", spelled(digest))]
        {
            assert_eq!(hash(wrong), None, "{wrong}");
        }
    }
}
