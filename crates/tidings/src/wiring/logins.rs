//! Where logins are kept, and what they are sealed with.

use std::path::Path;

use tidings_config::VaultKey;
use tidings_login::Logins;
use tidings_store::{Store, VaultTable};

use crate::data::{DataDir, key_of};
use crate::failure::CommandFailure;

/// What systemd hands over by `LoadCredential=tidings-vault-key:FILE`.
const CREDENTIAL: &str = "tidings-vault-key";

/// The logins of a gateway, sealed in its store.
pub(crate) fn open(store: &Store, data: Option<&DataDir>, configured: Option<&VaultKey>) -> Option<Logins> {
    let credentials = std::env::var_os("CREDENTIALS_DIRECTORY");
    match vault_key(data?, configured, credentials.as_deref().map(Path::new)) {
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
