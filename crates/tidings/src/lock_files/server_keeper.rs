//! What is decided about one server, written: its lines of a lock file, and the definitions that these are about.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use tidings_config::{LockedItem, LockedServer};
use tidings_engine::{ApprovalDecision, ApprovalKeeper, ApprovalVerdict, Approvals, KeepFault, KeepOccasion, SCREENED};
use tidings_proto::{ListKind, LocalName};
use tidings_sync::Lock;

use super::{change, spelled};
use crate::data;

fn item(decision: &ApprovalDecision) -> LockedItem {
    LockedItem { kind: decision.kind.member().to_owned(), name: decision.name.to_string() }
}

/// Where the definitions of a server are kept.
pub(super) fn definitions_file(data: &Path, lock: &Path, server: &str) -> PathBuf {
    let name = json!([lock.display().to_string(), server]).to_string();
    // One folder holds the definitions of all locks and servers, so both are in the name.
    let name = blake3::hash(name.as_bytes()).to_hex();
    data.join("approved").join(format!("{}.json", &name[..32]))
}

/// Keeps what is decided about one server.
pub(super) struct ServerKeeper {
    pub(super) path: PathBuf,
    pub(super) server: String,
    /// What the server is now; another when it is configured anew.
    pub(super) identity: Lock<String>,
    pub(super) definitions: Option<PathBuf>,
    pub(super) keeps_first_sight: bool,
}

impl ServerKeeper {
    /// Definitions by list and name, as text.
    pub(super) fn known_definitions(&self) -> Option<Map<String, Value>> {
        let text = std::fs::read(self.definitions.as_ref()?).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// The lock alone decides; without these, differences are not shown and an old definition is hidden.
    fn keep_definitions(&self, decisions: &[ApprovalDecision]) {
        let Some(path) = &self.definitions else { return };
        let mut all = self.known_definitions().unwrap_or_default();
        let approved = decisions.iter().filter(|decision| decision.verdict == ApprovalVerdict::Approve);
        for (decision, raw) in approved.filter_map(|decision| Some((decision, decision.definition.as_ref()?))) {
            let list = all.entry(decision.kind.member()).or_insert_with(|| json!({}));
            list[decision.name.as_str()] = String::from_utf8_lossy(raw).into();
        }
        self.write_definitions(path, all);
    }

    fn write_definitions(&self, path: &Path, all: Map<String, Value>) {
        if let Err(error) = data::write_private_whole(path, Value::Object(all).to_string().as_bytes()) {
            tracing::warn!(server = %self.server, %error, "approved definitions could not be kept");
        }
    }
}

impl ApprovalKeeper for ServerKeeper {
    fn keep(&self, decisions: &[ApprovalDecision], occasion: KeepOccasion) -> Result<(), KeepFault> {
        // A command sees servers at one moment, and what it happens to see must not become what is trusted.
        if occasion != KeepOccasion::Decided && !self.keeps_first_sight {
            return Ok(());
        }
        if occasion != KeepOccasion::Learnt {
            change(&self.path, |lock| {
                // Read again behind the lock: another process may have seen the server first, and its word stays.
                if occasion == KeepOccasion::FirstSight && lock.servers.contains_key(&self.server) {
                    return;
                }
                let server = lock.servers.entry(self.server.clone()).or_default();
                server.identity = Some(self.identity.lock().clone());
                for decision in decisions {
                    let (item, hash) = (item(decision), spelled(decision.digest));
                    match decision.verdict {
                        ApprovalVerdict::Approve => {
                            server.rejected.remove(&item);
                            server.approved.insert(item, hash);
                        }
                        // What was approved before stays so: the rejection is of another definition.
                        ApprovalVerdict::Reject => drop(server.rejected.insert(item, hash)),
                    }
                }
            })
            .map_err(|fault| KeepFault(fault.to_string()))?;
        }
        self.keep_definitions(decisions);
        Ok(())
    }

    fn keep_agreed(&self, agreed: &Approvals) -> Result<(), KeepFault> {
        let item =
            |kind: ListKind, name: &LocalName| LockedItem { kind: kind.member().to_owned(), name: name.to_string() };
        let approved =
            || SCREENED.into_iter().flat_map(|kind| agreed.approved(kind).map(move |(name, is)| (kind, name, is)));
        change(&self.path, |lock| {
            let server = LockedServer {
                identity: Some(self.identity.lock().clone()),
                approved: approved().map(|(kind, name, is)| (item(kind, name), spelled(is.digest))).collect(),
                rejected: agreed.rejected().map(|((kind, name), hash)| (item(*kind, name), spelled(hash))).collect(),
            };
            lock.servers.insert(self.server.clone(), server);
        })
        .map_err(|fault| KeepFault(fault.to_string()))?;
        let Some(path) = &self.definitions else { return Ok(()) };
        let mut all = Map::new();
        for (kind, name, raw) in approved().filter_map(|(kind, name, is)| Some((kind, name, is.definition.as_ref()?))) {
            let list = all.entry(kind.member()).or_insert_with(|| json!({}));
            list[name.as_str()] = String::from_utf8_lossy(raw).into();
        }
        // Each start hears everything again.
        if self.known_definitions().as_ref() != Some(&all) {
            self.write_definitions(path, all);
        }
        Ok(())
    }
}
