//! Secrets that the gateway was given for servers, such as the tokens of a login. Sealed: whoever reads the file without the key of
//! the data directory learns which servers there are, and nothing else.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use redb::{Database, ReadableDatabase as _, TableDefinition, TableError};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};
use tidings_sync::Lock;

use crate::slot::DatabaseSlot;
use crate::store::Store;

/// What it is and whose it is, to the nonce and the sealed bytes.
const VAULT: TableDefinition<'_, (&str, &str), &[u8]> = TableDefinition::new("vault");
/// What the key is derived for: the key of the directory seals other things, too.
const PURPOSE: &str = "tidings 2026-11 vault of logins";

/// Why something is not in the vault, or can not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VaultError {
    /// It was sealed with another key, or is damaged.
    #[error("what was saved can not be opened with the key of this data directory (seal.key)")]
    Sealed,
    /// The store failed.
    #[error("the store can not be used: {0}")]
    Store(String),
}

/// The table. Clones are handles to the same one. All of it blocks.
#[derive(Clone)]
pub struct VaultTable {
    place: VaultPlace,
    key: Arc<LessSafeKey>,
}

#[derive(Clone)]
enum VaultPlace {
    File(Arc<DatabaseSlot>),
    /// Of a process that owns no store. Sealed as well, so that there is one way to read.
    Memory(Arc<Lock<SealedRows>>),
}

type SealedRows = BTreeMap<(String, String), Vec<u8>>;

impl VaultTable {
    /// The vault of a store, opened with the key of its data directory.
    pub fn new(store: &Store, directory_key: &[u8; 32]) -> Self {
        let place = match store.slot() {
            Some(slot) => VaultPlace::File(Arc::clone(slot)),
            None => VaultPlace::Memory(Arc::default()),
        };
        let key = blake3::derive_key(PURPOSE, directory_key);
        // A key of this algorithm has just this length.
        let key = UnboundKey::new(&CHACHA20_POLY1305, &key).expect("32 bytes are a key");
        Self { place, key: Arc::new(LessSafeKey::new(key)) }
    }

    /// Whether what is put in outlives the process.
    pub fn is_kept(&self) -> bool {
        matches!(self.place, VaultPlace::File(_))
    }

    /// What is kept under a name.
    pub fn get(&self, kind: &str, name: &str) -> Result<Option<Vec<u8>>, VaultError> {
        let sealed = match &self.place {
            VaultPlace::File(slot) => {
                slot.run(|database| read(database, kind, name)).map_err(|error| VaultError::Store(error.to_string()))?
            }
            VaultPlace::Memory(all) => all.lock().get(&(kind.to_owned(), name.to_owned())).cloned(),
        };
        sealed.map(|sealed| self.open(kind, name, sealed)).transpose()
    }

    /// The names under which something of this kind is kept that begin so. They are no secret.
    pub fn names(&self, kind: &str, prefix: &str) -> Result<Vec<String>, VaultError> {
        match &self.place {
            VaultPlace::File(slot) => {
                slot.run(|database| names(database, kind, prefix)).map_err(|error| VaultError::Store(error.to_string()))
            }
            VaultPlace::Memory(all) => {
                let rows = all.lock();
                let fitting = rows.keys().filter(|(of, name)| of == kind && name.starts_with(prefix));
                Ok(fitting.map(|(_, name)| name.clone()).collect())
            }
        }
    }

    /// Keeps something. On disk when this returns.
    pub fn put(&self, kind: &str, name: &str, secret: &[u8]) -> Result<(), VaultError> {
        let sealed = self.seal(kind, name, secret)?;
        self.write(kind, name, Some(sealed))
    }

    /// Forgets something.
    pub fn remove(&self, kind: &str, name: &str) -> Result<(), VaultError> {
        self.write(kind, name, None)
    }

    fn write(&self, kind: &str, name: &str, sealed: Option<Vec<u8>>) -> Result<(), VaultError> {
        match &self.place {
            VaultPlace::File(slot) => slot
                .run(|database| write(database, kind, name, sealed.as_deref()))
                .map_err(|error| VaultError::Store(error.to_string())),
            VaultPlace::Memory(all) => {
                let key = (kind.to_owned(), name.to_owned());
                match sealed {
                    Some(sealed) => all.lock().insert(key, sealed),
                    None => all.lock().remove(&key),
                };
                Ok(())
            }
        }
    }

    fn seal(&self, kind: &str, name: &str, secret: &[u8]) -> Result<Vec<u8>, VaultError> {
        let no_random = |_| VaultError::Store("the system has no random numbers".into());
        let mut nonce = [0; NONCE_LEN];
        // At random: a vault is written so rarely that none comes twice under its key.
        SystemRandom::new().fill(&mut nonce).map_err(no_random)?;
        let mut sealed = secret.to_vec();
        let unique = Nonce::assume_unique_for_key(nonce);
        // Bound to its place: a row that is copied to another name can not be opened there.
        self.key.seal_in_place_append_tag(unique, Aad::from(place(kind, name)), &mut sealed).map_err(no_random)?;
        Ok([&nonce[..], &sealed].concat())
    }

    fn open(&self, kind: &str, name: &str, mut sealed: Vec<u8>) -> Result<Vec<u8>, VaultError> {
        let (nonce, secret) = sealed.split_at_mut_checked(NONCE_LEN).ok_or(VaultError::Sealed)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| VaultError::Sealed)?;
        let opened = self.key.open_in_place(nonce, Aad::from(place(kind, name)), secret);
        opened.map(|secret| secret.to_vec()).map_err(|_| VaultError::Sealed)
    }
}

impl fmt::Debug for VaultTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VaultTable(..)")
    }
}

fn place(kind: &str, name: &str) -> Vec<u8> {
    // The zero keeps `a` with `bc` from being the place of `ab` with `c`.
    [kind.as_bytes(), &[0], name.as_bytes()].concat()
}

fn read(database: &Database, kind: &str, name: &str) -> Result<Option<Vec<u8>>, redb::Error> {
    let read = database.begin_read()?;
    let table = match read.open_table(VAULT) {
        Ok(table) => table,
        Err(TableError::TableDoesNotExist(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    Ok(table.get((kind, name))?.map(|row| row.value().to_vec()))
}

fn names(database: &Database, kind: &str, prefix: &str) -> Result<Vec<String>, redb::Error> {
    let read = database.begin_read()?;
    let table = match read.open_table(VAULT) {
        Ok(table) => table,
        Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut names = Vec::new();
    // Sorted by kind and name, so those that begin with the prefix stand together.
    for row in table.range((kind, prefix)..)? {
        let (key, _) = row?;
        let (of, name) = key.value();
        if of != kind || !name.starts_with(prefix) {
            break;
        }
        names.push(name.to_owned());
    }
    Ok(names)
}

fn write(database: &Database, kind: &str, name: &str, sealed: Option<&[u8]>) -> Result<(), redb::Error> {
    let write = database.begin_write()?;
    {
        let mut table = write.open_table(VAULT)?;
        match sealed {
            Some(sealed) => drop(table.insert((kind, name), sealed)?),
            None => drop(table.remove((kind, name))?),
        }
    }
    write.commit()?;
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::time::Duration;

    use tidings_testkit::TempDir;

    use super::*;

    const SECRET: &[u8] = b"a-refresh-token-that-nobody-may-read";

    // identity 8.7
    #[test]
    fn what_is_kept_is_read_again_and_stands_nowhere_in_clear() {
        let directory = TempDir::new();
        let vault = || VaultTable::new(&Store::open(directory.path(), Duration::ZERO), &[7; 32]);
        vault().put("grant", "crm", SECRET).unwrap();
        assert_eq!(vault().get("grant", "crm").unwrap().as_deref(), Some(SECRET));
        for file in std::fs::read_dir(directory.path()).unwrap().flatten() {
            let bytes = std::fs::read(file.path()).unwrap();
            assert!(!bytes.windows(SECRET.len()).any(|part| part == SECRET), "{}", file.path().display());
        }
        vault().remove("grant", "crm").unwrap();
        assert_eq!(vault().get("grant", "crm").unwrap(), None);
    }

    #[test]
    fn another_key_opens_nothing_and_overwrites_nothing() {
        let directory = TempDir::new();
        let vault = |key| VaultTable::new(&Store::open(directory.path(), Duration::ZERO), &[key; 32]);
        vault(7).put("grant", "crm", SECRET).unwrap();
        assert_eq!(vault(8).get("grant", "crm"), Err(VaultError::Sealed));
        assert_eq!(vault(7).get("grant", "crm").unwrap().as_deref(), Some(SECRET));
    }

    // identity 1
    #[test]
    fn names_are_found_by_how_they_begin_in_a_file_as_in_memory() {
        let directory = TempDir::new();
        for store in [Store::open(directory.path(), Duration::ZERO), Store::in_memory()] {
            let vault = VaultTable::new(&store, &[7; 32]);
            assert_eq!(vault.names("grant", "").unwrap(), [""; 0]);
            for name in ["crm https://a/ ada", "crm https://a/ dan", "crm https://a/b ada", "crm https://a/"] {
                vault.put("grant", name, SECRET).unwrap();
            }
            vault.put("other", "crm https://a/ eve", SECRET).unwrap();
            assert_eq!(vault.names("grant", "crm https://a/ ").unwrap(), ["crm https://a/ ada", "crm https://a/ dan"]);
        }
    }

    #[test]
    fn a_row_can_not_be_used_in_another_place() {
        let vault = VaultTable::new(&Store::in_memory(), &[7; 32]);
        let sealed = vault.seal("grant", "crm", SECRET).unwrap();
        assert_eq!(vault.open("grant", "other", sealed), Err(VaultError::Sealed));
    }
}
