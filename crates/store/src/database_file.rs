//! Opening the file of the store, and telling a broken one from one that can not be had now.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use redb::{Builder, Database, DatabaseError, StorageError};

/// The default would be a gigabyte.
const CACHE: usize = 4 << 20;
/// How often a file that is in use is tried again.
pub(crate) const RETRY: Duration = Duration::from_millis(50);

/// Why a store can not be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has it open.
    #[error("{0} is in use by another process")]
    InUse(PathBuf),
    /// It is not what it should be.
    #[error("{path} can not be read: {reason}")]
    Broken {
        /// The file of the store in the data directory.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The file system refuses.
    #[error("{path}: {reason}")]
    Unavailable {
        /// The file of the store in the data directory.
        path: PathBuf,
        /// What the system or the database says.
        reason: String,
    },
}

/// Opens the file, or makes it.
pub(crate) fn open(path: &Path, create: bool) -> Result<Database, StoreError> {
    let broken = |reason: String| StoreError::Broken { path: path.to_owned(), reason };
    let unavailable = |error: io::Error| StoreError::Unavailable { path: path.to_owned(), reason: error.to_string() };
    let file = OpenOptions::new().read(true).write(true).create(create).truncate(false).mode(0o600).open(path);
    let file = file.map_err(unavailable)?;
    // A file that is damaged in the right place makes the library panic.
    let opened = catch_unwind(AssertUnwindSafe(|| Builder::new().set_cache_size(CACHE).create_file(file)));
    match opened {
        Ok(Ok(database)) => Ok(database),
        Ok(Err(DatabaseError::DatabaseAlreadyOpen)) => Err(StoreError::InUse(path.to_owned())),
        // A disk that is full or read-only is no broken file, and must not be moved aside.
        Ok(Err(DatabaseError::Storage(StorageError::Io(error)))) if !is_damage(&error) => Err(unavailable(error)),
        Ok(Err(error)) => Err(broken(error.to_string())),
        Err(_) => Err(broken("it is damaged".into())),
    }
}

fn is_damage(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidInput)
}
