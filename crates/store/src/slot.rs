//! The open database, which is opened again after an error of the file system: the library refuses everything from then on.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redb::{Database, Error};
use tidings_sync::Lock;

use crate::database_file::{RETRY, StoreError, open};

/// How long others may take to let go of the one that failed.
const PATIENCE: Duration = Duration::from_secs(2);

/// All tables of a store share one.
#[derive(Debug)]
pub(crate) struct DatabaseSlot {
    path: PathBuf,
    /// `None` while it can not be opened.
    current: Lock<Option<Arc<Database>>>,
}

impl DatabaseSlot {
    pub(crate) fn new(path: PathBuf, database: Database) -> Self {
        Self { path, current: Lock::new(Some(Arc::new(database))) }
    }

    /// Works on the database. Work that fails because of the file system is done once more after the file was opened again,
    /// so it must not matter if it was done already.
    pub(crate) fn run<T>(&self, mut work: impl FnMut(&Database) -> Result<T, Error>) -> Result<T, Error> {
        let database = self.get()?;
        match work(&database) {
            // redb refuses everything after an error of the file system, also when the disk is well again.
            Err(error) if is_io(&error) => {
                tracing::warn!(%error, path = %self.path.display(), "the store failed; it is opened again");
                // Only if it is still the one in use: another thread may have opened the next already.
                self.give_up(&database);
                // Or its lock would keep the next one from being opened.
                drop(database);
                // Once more and not again: a disk that fails twice is the caller's to report.
                work(&*self.get()?)
            }
            done => done,
        }
    }

    fn get(&self) -> Result<Arc<Database>, Error> {
        let mut current = self.current.lock();
        if let Some(database) = &*current {
            return Ok(Arc::clone(database));
        }
        // The lock is held over the wait: everybody else needs the same file, and the lock on it would refuse a second open of ours.
        let until = Instant::now() + PATIENCE;
        loop {
            match open(&self.path, true) {
                Ok(database) => return Ok(Arc::clone(current.insert(Arc::new(database)))),
                // Whoever still reads from the one that failed holds its lock.
                Err(StoreError::InUse(_)) if Instant::now() < until => std::thread::sleep(RETRY),
                Err(error) => return Err(Error::Io(io::Error::other(error.to_string()))),
            }
        }
    }

    /// Lets go of the one that failed, unless somebody did already.
    fn give_up(&self, failed: &Arc<Database>) {
        let mut current = self.current.lock();
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, failed)) {
            *current = None;
        }
    }
}

fn is_io(error: &Error) -> bool {
    matches!(error, Error::Io(_) | Error::PreviousIo)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use redb::backends::InMemoryBackend;
    use redb::{Builder, StorageBackend};
    use tidings_testkit::TempDir;

    use crate::{ChangeLog, ChangeQuery, ChangeRecord, LogLimits, QueryStart, Store};

    use super::*;

    /// A disk that breaks when it is told to.
    #[derive(Debug)]
    struct BreakableDisk {
        content: InMemoryBackend,
        broken: Arc<AtomicBool>,
    }

    impl BreakableDisk {
        fn works(&self) -> io::Result<()> {
            if self.broken.load(Ordering::SeqCst) { Err(io::Error::other("the disk is broken")) } else { Ok(()) }
        }
    }

    impl StorageBackend for BreakableDisk {
        fn len(&self) -> io::Result<u64> {
            self.works().and_then(|()| self.content.len())
        }
        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.works().and_then(|()| self.content.read(offset, out))
        }
        fn set_len(&self, len: u64) -> io::Result<()> {
            self.works().and_then(|()| self.content.set_len(len))
        }
        fn sync_data(&self) -> io::Result<()> {
            self.works().and_then(|()| self.content.sync_data())
        }
        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            self.works().and_then(|()| self.content.write(offset, data))
        }
    }

    fn added(name: &str) -> ChangeRecord {
        ChangeRecord {
            seq: 0,
            time: jiff::Timestamp::now(),
            commit: None,
            server: "one".into(),
            kind: "tools".into(),
            added: vec![name.into()],
            removed: Vec::new(),
            changed: Vec::new(),
            while_down: false,
            held: false,
            severity: None,
            remarks: Vec::new(),
            omitted: 0,
            lost: 0,
        }
    }

    #[tokio::test]
    async fn the_log_goes_on_after_an_error_of_the_disk() {
        let directory = TempDir::new();
        let broken = Arc::new(AtomicBool::new(false));
        let disk = BreakableDisk { content: InMemoryBackend::new(), broken: Arc::clone(&broken) };
        let database = Builder::new().create_with_backend(disk).unwrap();
        // What is opened again is a file, which is empty: a disk that was exchanged.
        let store = Store::of(DatabaseSlot::new(directory.join("tidings.redb"), database));
        let log = ChangeLog::start(move || store, LogLimits::default());
        let mut tail = log.follow(None).await.unwrap();
        log.append(added("first"), None);
        assert_eq!(tail.next().await.unwrap().len(), 1);
        broken.store(true, Ordering::SeqCst);
        log.append(added("second"), None);
        let rows = tail.next().await.unwrap();
        assert_eq!(rows.iter().map(|row| row.seq).collect::<Vec<_>>(), [2], "not lost, and with the next number");
        log.append(added("third"), None);
        assert_eq!(tail.next().await.unwrap()[0].seq, 3);
        let all = ChangeQuery { from: QueryStart::After(0), limit: usize::MAX, max_bytes: usize::MAX };
        assert_eq!(log.read(all).await.unwrap().rows.len(), 2, "what the broken disk had is gone with it");
    }
}
