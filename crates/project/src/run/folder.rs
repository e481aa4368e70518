//! The private folder of one call: what a script is given, and where it leaves what it has to say.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{MutexGuard, OnceLock};

use tidings_sync::Lock;

use super::progress_pipe::ProgressPipe;

const STEM: &str = "tidings-run-";
/// A file system in memory. On ext4 a new file costs the more the more were deleted in the last seconds, up to
/// milliseconds for a few hundred calls.
const IN_MEMORY: &str = "/dev/shm";

/// Where they are when `TMPDIR` does not say.
pub(crate) fn usual_place() -> PathBuf {
    let memory = Path::new(IN_MEMORY);
    // For a folder, EXEC is the right to enter it.
    let writable = rustix::fs::access(memory, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).is_ok();
    // In memory where that is possible: a call makes and removes several files.
    if writable { memory.into() } else { "/tmp".into() }
}

/// Where the folders of calls are made: one private folder per project, made with the first call.
pub(crate) struct CallFolders {
    parent: PathBuf,
    own: OnceLock<PathBuf>,
    next: AtomicU64,
    /// Made before it is needed: a short script is not made to wait for it.
    spare: Lock<Option<ToolFolder>>,
}

/// A folder with what every tool finds in it.
pub(crate) struct ToolFolder {
    pub(crate) folder: CallFolder,
    pub(crate) progress_pipe: ProgressPipe,
}

/// What a tool says while it runs.
pub(crate) const STREAM: &str = "stream";
/// What it says of its failure.
pub(crate) const ERROR: &str = "error";
/// The files that it wants in its result.
pub(crate) const RESOURCES: &str = "resources";

impl CallFolders {
    pub(crate) fn new(parent: PathBuf) -> Self {
        Self { parent, own: OnceLock::new(), next: AtomicU64::new(1), spare: Lock::default() }
    }

    /// The folder in which the folders of calls are made.
    pub(crate) fn parent(&self) -> PathBuf {
        self.parent.clone()
    }

    /// A private folder for one call of a tool: the one that was made ahead, else a new one.
    pub(crate) fn tool_folder(&self) -> io::Result<ToolFolder> {
        match self.spare().take() {
            Some(tool_folder) => Ok(tool_folder),
            None => self.make_tool_folder(),
        }
    }

    /// Makes the next folder for a tool.
    pub(crate) fn prepare(&self) {
        if self.spare().is_none() {
            // What fails now fails again when it is needed, and is told then.
            let made = self.make_tool_folder().ok();
            // Somebody else may have made one meanwhile; one of the two is not needed.
            let unused = std::mem::replace(&mut *self.spare(), made);
            // Removed without the lock, which a call may be waiting for.
            drop(unused);
        }
    }

    fn make_tool_folder(&self) -> io::Result<ToolFolder> {
        let folder = self.make()?;
        let progress_pipe = ProgressPipe::open(&folder.pipe(STREAM)?)?;
        folder.write(ERROR, b"")?;
        folder.write(RESOURCES, b"")?;
        Ok(ToolFolder { folder, progress_pipe })
    }

    fn spare(&self) -> MutexGuard<'_, Option<ToolFolder>> {
        self.spare.lock()
    }

    /// A new folder that only this user can enter.
    pub(crate) fn make(&self) -> io::Result<CallFolder> {
        let own = match self.own.get() {
            Some(own) => own,
            None => {
                let own = make_own(&self.parent)?;
                // Two first calls at once: one of the folders is not needed.
                if let Err(spare) = self.own.set(own) {
                    let _ = std::fs::remove_dir(spare);
                }
                self.own.get().ok_or_else(|| io::Error::other("no folder for calls"))?
            }
        };
        let path = own.join(self.next.fetch_add(1, Ordering::Relaxed).to_string());
        private().create(&path)?;
        Ok(CallFolder { path })
    }
}

impl Drop for CallFolders {
    fn drop(&mut self) {
        // Before the parent is removed, in which it lies.
        drop(self.spare().take());
        if let Some(own) = self.own.get() {
            let _ = std::fs::remove_dir_all(own);
        }
    }
}

#[cfg(not(target_vendor = "apple"))]
fn make_pipe(path: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, Mode, mkfifoat};
    Ok(mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR)?)
}

/// There is no safe call for it there.
#[cfg(target_vendor = "apple")]
fn make_pipe(path: &Path) -> io::Result<()> {
    let made = std::process::Command::new("/usr/bin/mkfifo").arg("-m").arg("600").arg(path).status()?;
    if made.success() { Ok(()) } else { Err(io::Error::other("mkfifo failed")) }
}

fn private() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

fn make_own(parent: &Path) -> io::Result<PathBuf> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    remove_abandoned(parent);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let own = parent.join(format!("{STEM}{}-{:x}-{number}", std::process::id(), now.as_nanos()));
    // Fails if somebody was faster, and never follows what was put there.
    private().create(&own).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", own.display())))?;
    Ok(own)
}

/// Folders of processes that were killed before they could clean up.
fn remove_abandoned(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.strip_prefix(STEM)?.split('-').next()?.parse().ok()) else {
            continue;
        };
        // Only if no process of that number lives, whoever it is.
        let dead = rustix::process::Pid::from_raw(pid)
            // Any other answer, as for a process of another user, means that it lives.
            .is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH));
        if dead {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// A folder of one call, removed with all that is in it when dropped.
pub(crate) struct CallFolder {
    path: PathBuf,
}

impl CallFolder {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where a file of this name is.
    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// A file with this content.
    pub(crate) fn write(&self, name: &str, content: &[u8]) -> io::Result<PathBuf> {
        let path = self.join(name);
        self.create(&path)?.write_all(content)?;
        Ok(path)
    }

    /// A file that appears with its whole content at once.
    pub(crate) fn put(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let unfinished = self.join(&format!("{name}.new"));
        // One that an earlier call left unfinished; `create_new` would refuse it.
        let _ = std::fs::remove_file(&unfinished);
        self.create(&unfinished)?.write_all(content)?;
        // Whole or not at all: the script may be looking for it right now.
        std::fs::rename(unfinished, self.join(name))
    }

    /// Makes a named pipe in the folder, and gives its path.
    pub(crate) fn pipe(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.join(name);
        make_pipe(&path)?;
        Ok(path)
    }

    fn create(&self, path: &Path) -> io::Result<File> {
        // A link that the script has put there is not followed.
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
    }
}

impl Drop for CallFolder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            tracing::warn!(folder = %self.path.display(), %error, "the folder of a call is left behind");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use tidings_testkit::TempDir;

    use super::*;

    #[test]
    fn a_call_has_a_private_folder_that_goes_with_it() {
        let dir = TempDir::new();
        let folders = CallFolders::new(dir.path().into());
        let folder = folders.make().unwrap();
        let file = folder.write("args", b"{}").unwrap();
        for path in [folder.path(), folder.path().parent().unwrap()] {
            assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o700);
        }
        assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
        let path = folder.path().to_owned();
        drop(folder);
        assert!(!path.exists());
        drop(folders);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_a_killed_gateway_left_is_removed() {
        let dir = TempDir::new();
        let abandoned = dir.join(&format!("{STEM}{}-abc-0", i32::MAX));
        std::fs::create_dir(&abandoned).unwrap();
        let folders = CallFolders::new(dir.path().into());
        let _folder = folders.make().unwrap();
        assert!(!abandoned.exists());
    }
}
