//! Where logins are kept, and what they are sealed with.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tidings_config::VaultKey;
use tidings_engine::{
    Decided, DecisionFollower, DecisionKind, DecisionOutcome, FleetDecisions, FleetShown, ReplicaState,
};
use tidings_login::{DecisionBase, GrantLog, GrantWritten, Logins};
use tidings_store::{Store, VaultTable};

use crate::data::{DataDir, key_of};
use crate::failure::CommandFailure;

/// What systemd hands over by `LoadCredential=tidings-vault-key:FILE`.
const CREDENTIAL: &str = "tidings-vault-key";

/// The logins of a gateway, sealed in its store; of a replica, in the log of its cluster.
pub(crate) fn open(
    store: &Store,
    data: Option<&DataDir>,
    configured: Option<&VaultKey>,
    is_replica: bool,
) -> Option<Logins> {
    let credentials = std::env::var_os("CREDENTIALS_DIRECTORY");
    match vault_key(data?, configured, credentials.as_deref().map(Path::new)) {
        Ok(key) if is_replica => Some(Logins::of_replica(VaultTable::new(store, &key))),
        Ok(key) => Some(Logins::new(VaultTable::new(store, &key))),
        // Nothing is kept without a key, so nothing is begun: it would be lost with the process.
        Err(failure) => {
            tracing::warn!("servers can not be logged in to: {failure}");
            None
        }
    }
}

/// The first that is there. One that is there and is no key is an error: another one would leave the logins unreadable.
fn vault_key(
    data: &DataDir,
    configured: Option<&VaultKey>,
    credentials: Option<&Path>,
) -> Result<[u8; 32], CommandFailure> {
    if let Some(VaultKey(key)) = configured {
        return Ok(*key);
    }
    if let Some(path) = credentials.map(|folder| folder.join(CREDENTIAL)).filter(|path| path.exists()) {
        let text = std::fs::read_to_string(&path).ok();
        let wrong = || CommandFailure::Failed(format!("{}: is not 64 hexadecimal digits", path.display()));
        return text.as_deref().and_then(key_of).ok_or_else(wrong);
    }
    data.seal_key()
}

/// The log of a cluster, as logins know it.
pub(super) struct FleetGrants {
    pub(super) decisions: FleetDecisions,
    pub(super) process: u64,
    /// How the replicas are.
    pub(super) shown: Box<dyn Fn() -> Option<FleetShown> + Send + Sync>,
}

impl FleetGrants {
    /// From now on grants stand in the log.
    pub(super) async fn join(self, logins: Logins) {
        // First: whoever asks whether all was told must not be answered before anything can be.
        self.decisions.follow(DecisionKind::Grant, Arc::new(ToldLogins(logins.clone()))).await;
        logins.attach_log(Arc::new(self));
    }
}

impl GrantLog for FleetGrants {
    fn process(&self) -> u64 {
        self.process
    }

    fn write<'l>(&'l self, subject: &'l str, base: DecisionBase, value: Option<Bytes>) -> BoxFuture<'l, GrantWritten> {
        Box::pin(async move {
            match self.decisions.write(DecisionKind::Grant, subject, base, value).await {
                DecisionOutcome::Applied(_) => GrantWritten::Applied,
                DecisionOutcome::Overtaken(_) => GrantWritten::Overtaken,
                DecisionOutcome::Refused(why) | DecisionOutcome::TooLarge(why) => GrantWritten::Refused(why),
                DecisionOutcome::Unknown => GrantWritten::Unknown,
            }
        })
    }

    fn confirm(&self) -> BoxFuture<'_, bool> {
        Box::pin(self.decisions.confirm())
    }

    fn is_gone(&self, process: u64) -> bool {
        let Some(shown) = (self.shown)() else { return false };
        let is_connected = shown.replicas.iter().any(|one| one.is_this && one.state == ReplicaState::Connected);
        let is_there = |state| !matches!(state, ReplicaState::Gone | ReplicaState::Leaving);
        // Whoever is cut off hears nobody.
        is_connected && !shown.replicas.iter().any(|one| one.incarnation == process && is_there(one.state))
    }
}

/// Who is told of what stands in the log.
struct ToldLogins(Logins);

impl DecisionFollower for ToldLogins {
    fn decided(&self, subject: &str, decided: Option<&Decided>) {
        self.0.told(subject, decided.map(|decided| (decided.n, &*decided.value)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // identity 1
    #[test]
    fn the_key_of_the_vault_is_the_first_that_is_there_and_a_wrong_one_is_no_other() {
        let folder = tidings_testkit::TempDir::new();
        let data = DataDir::find(Some(folder.path())).unwrap_or_else(|failure| panic!("{failure}"));
        let own = data.seal_key().ok();
        let key = |configured: Option<&VaultKey>, credentials| vault_key(&data, configured, credentials).ok();
        assert_eq!(key(None, None), own);
        assert_eq!(key(None, Some(folder.path())), own, "there is no such credential");
        folder.write(CREDENTIAL, "11".repeat(32));
        assert_eq!(key(None, Some(folder.path())), Some([0x11; 32]));
        assert_eq!(key(Some(&VaultKey([7; 32])), Some(folder.path())), Some([7; 32]));
        folder.write(CREDENTIAL, "too short");
        assert_eq!(key(None, Some(folder.path())), None);
    }
}
