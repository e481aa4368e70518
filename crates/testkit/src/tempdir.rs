//! A directory that goes away with its test.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Removed, with all that is in it, when dropped.
#[derive(Debug)]
pub struct TempDir {
    path: PathBuf,
}

impl TempDir {
    /// A fresh, empty directory. Its path is short: Unix sockets allow about 100 bytes.
    pub fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("tidings-{}-{number}", std::process::id()));
            // A directory that is there belongs to a dead process that had our pid.
            if std::fs::create_dir(&path).is_ok() {
                return Self { path };
            }
            assert!(number < 100_000, "can not make directories such as {}", path.display());
        }
    }

    /// The path of the directory, which exists as long as this value.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path inside it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a file and gives its path.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.join(name);
        std::fs::write(&path, content).unwrap_or_else(|e| panic!("writing {}: {e}", path.display()));
        path
    }
}

impl Default for TempDir {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // A leftover lies in the temporary folder of the system; a destructor must not hide a test's own failure.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
