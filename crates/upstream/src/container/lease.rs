//! The proof that a process lives, and what it would leave behind.
//!
//! A process that starts containers holds a lock on a file of its own, which the kernel gives back when it dies, however it
//! dies. The file's name is the label of its containers, and the file says which runtimes it used. So whoever can take the
//! lock knows that those containers belong to nobody, and where to look for them; no process id can be mistaken.

use std::collections::hash_map::RandomState;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{BuildHasher as _, Hasher as _};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::tool::RuntimeTool;
use tidings_container_spec::ContainerRuntime;
use tidings_sync::Lock;

pub(super) const HELD: &str = "lock";
/// Until it is locked; nobody looks at such a file.
const UNHELD: &str = "new";

/// The lease of this process, while it has containers.
pub(super) struct ContainerLeases {
    home: PathBuf,
    current: Lock<Option<(Arc<LeaseFile>, usize)>>,
}

impl ContainerLeases {
    pub(super) fn new(home: PathBuf) -> Arc<Self> {
        Arc::new(Self { home, current: Lock::default() })
    }

    pub(super) fn home(&self) -> &Path {
        &self.home
    }

    /// Takes part in the lease for one container.
    pub(super) fn hold(self: &Arc<Self>) -> io::Result<LeaseHold> {
        let mut current = self.current.lock();
        let (lease, count) = match current.take() {
            Some(held) => held,
            // If this fails, nothing was held before, so the `take` above has lost nothing.
            None => (Arc::new(LeaseFile::take(&self.home)?), 0),
        };
        *current = Some((Arc::clone(&lease), count + 1));
        Ok(LeaseHold {
            leases: Arc::clone(self),
            lease,
            pending: AtomicBool::new(true),
            started: AtomicBool::new(false),
        })
    }

    /// With the last container the lease ends, and leaves nothing for anybody to look after.
    fn release(&self) {
        let mut current = self.current.lock();
        match current.take() {
            Some((lease, count)) if count > 1 => *current = Some((lease, count - 1)),
            Some((lease, _)) => lease.end(),
            None => {}
        }
    }
}

/// One container's part in the lease. Once it was started, only its removal ends it: else the next process has to look.
pub(super) struct LeaseHold {
    leases: Arc<ContainerLeases>,
    lease: Arc<LeaseFile>,
    pending: AtomicBool,
    started: AtomicBool,
}

impl LeaseHold {
    pub(super) fn lease(&self) -> &LeaseFile {
        &self.lease
    }

    pub(super) fn started(&self) {
        self.started.store(true, Ordering::Relaxed);
    }

    pub(super) fn removed(&self) {
        // Once: it may be removed by the epilogue and dropped later.
        if self.pending.swap(false, Ordering::Relaxed) {
            self.leases.release();
        }
    }
}

impl Drop for LeaseHold {
    fn drop(&mut self) {
        // Once started, only its removal releases the lease: a crash in between must leave the file for the next
        // process.
        if !self.started.load(Ordering::Relaxed) {
            self.removed();
        }
    }
}

/// Held as long as the process lives.
pub(super) struct LeaseFile {
    id: String,
    home: PathBuf,
    file: Lock<(File, Vec<RuntimeTool>)>,
    numbers: AtomicU64,
}

impl LeaseFile {
    fn take(home: &Path) -> io::Result<Self> {
        make_private(home)?;
        let id = unique();
        let fresh = home.join(format!("{id}.{UNHELD}"));
        let file = private().open(&fresh)?;
        file.lock()?;
        // Locked before it has the name that others look for: a lease that can be found is always held, or abandoned.
        fs::rename(&fresh, home.join(format!("{id}.{HELD}")))?;
        Ok(Self { id, home: home.to_owned(), file: Lock::new((file, Vec::new())), numbers: AtomicU64::new(1) })
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Says, before it is used, that containers may be found with this tool.
    pub(super) fn note(&self, tool: &RuntimeTool) -> io::Result<()> {
        let mut file = self.file.lock();
        if file.1.contains(tool) {
            return Ok(());
        }
        // Before the container is started, so that whoever cleans up knows where to look, whenever we die.
        let line = serde_json::json!({ "runtime": tool.program(), "args": tool.args });
        // Appended line by line: a process that dies while it writes leaves the lines before it.
        writeln!(file.0, "{line}")?;
        file.1.push(tool.clone());
        Ok(())
    }

    /// A file of variables that only this user can read; gone with the guard.
    pub(super) fn env_file(&self, number: u64, env: &[(String, String)]) -> io::Result<Option<EnvFile>> {
        if env.is_empty() {
            return Ok(None);
        }
        let file = EnvFile(self.home.join(format!("{}-{number}.env", self.id)));
        let mut lines = String::new();
        for (name, value) in env {
            // One line each: more would be other variables.
            if name.contains(['\n', '\r']) || value.contains(['\n', '\r']) {
                let text = format!("the variable {name} has a line break in it");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
            lines.push_str(&format!("{name}={value}\n"));
        }
        private().open(&file.0)?.write_all(lines.as_bytes())?;
        Ok(Some(file))
    }

    fn end(&self) {
        // If the file stays, the next process finds nothing of ours and removes it.
        let _ = fs::remove_file(self.home.join(format!("{}.{HELD}", self.id)));
    }
}

/// A file with the variables of one container, readable only by its user; removed when dropped.
pub(super) struct EnvFile(PathBuf);

impl EnvFile {
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for EnvFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// What a dead process left, locked so that nobody else cleans it up at the same time.
pub(super) struct AbandonedLease {
    pub(super) id: String,
    home: PathBuf,
    _lock: File,
    pub(super) tools: Vec<RuntimeTool>,
}

impl AbandonedLease {
    /// All of them. Those of the living, and of those that another process cleans up after, are left alone.
    pub(super) fn all(home: &Path) -> Vec<Self> {
        let entries = fs::read_dir(home).into_iter().flatten().flatten();
        entries.filter_map(|entry| Self::of(home, &entry.path())).collect()
    }

    fn of(home: &Path, path: &Path) -> Option<Self> {
        if path.extension()? != HELD {
            return None;
        }
        let lock = File::open(path).ok()?;
        // Taken: its process lives. Also our own, since such a lock belongs to the open file and not to the process.
        lock.try_lock().ok()?;
        let id = path.file_stem()?.to_str()?.to_owned();
        // After the lock was taken: nobody writes to it any more.
        let text = fs::read_to_string(path).ok()?;
        Some(Self { id, home: home.to_owned(), _lock: lock, tools: text.lines().filter_map(tool).collect() })
    }

    /// Nothing of it is left any more.
    pub(super) fn forget(self) {
        let prefix = format!("{}-", self.id);
        for entry in fs::read_dir(&self.home).into_iter().flatten().flatten() {
            if entry.file_name().to_str().is_some_and(|name| name.starts_with(&prefix) && name.ends_with(".env")) {
                let _ = fs::remove_file(entry.path());
            }
        }
        // The lease itself last: as long as it is there, the next start looks after the rest.
        let _ = fs::remove_file(self.home.join(format!("{}.{HELD}", self.id)));
    }
}

/// Only runtimes that we know: a file must not decide what is run.
fn tool(line: &str) -> Option<RuntimeTool> {
    let value: serde_json::Value = serde_json::from_str(line).ok()?;
    let runtime = [ContainerRuntime::Podman, ContainerRuntime::Docker]
        .into_iter()
        .find(|known| value["runtime"] == known.program())?;
    let args = value["args"].as_array()?.iter().filter_map(|arg| arg.as_str().map(str::to_owned)).collect();
    Some(RuntimeTool { runtime, args })
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    // `create_new` follows no link that somebody else may have put there.
    options.write(true).create_new(true).mode(0o600);
    options
}

/// A folder that is ours alone.
fn make_private(home: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(home)?;
    let found = fs::symlink_metadata(home)?;
    // The folder for temporary files belongs to everybody: somebody may have put a link, or a folder of theirs, there
    // first.
    if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to somebody else"));
    }
    if found.permissions().mode() & 0o077 != 0 {
        fs::set_permissions(home, fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Not a secret, only unlike all others: keys that the system made, mixed with this process and the time.
fn unique() -> String {
    let half = || {
        // Each `RandomState` has keys of its own, so the two halves differ.
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u32(std::process::id());
        hasher.write_u128(std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos());
        hasher.finish()
    };
    format!("{:016x}{:016x}", half(), half())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Home(PathBuf);

    impl Home {
        fn new() -> Self {
            Self(std::env::temp_dir().join(format!("tidings-lease-{}", unique())))
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
        }
    }

    impl Drop for Home {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn podman() -> RuntimeTool {
        RuntimeTool { runtime: ContainerRuntime::Podman, args: vec!["--runtime".into(), "runc".into()] }
    }

    // S4.2
    #[test]
    fn only_the_leases_of_the_dead_are_found() {
        let home = Home::new();
        let leases = ContainerLeases::new(home.0.clone());
        let living = leases.hold().unwrap();
        living.lease().note(&podman()).unwrap();
        living.started();
        assert!(AbandonedLease::all(&home.0).is_empty(), "the holder lives");
        let id = living.lease().id().to_owned();
        let file = living.lease().env_file(7, &[("A".into(), "b".into())]).unwrap().unwrap();
        // As a kill does it: nothing is cleaned up, but the lock is gone.
        std::mem::forget(file);
        drop((living, leases));
        let found = AbandonedLease::all(&home.0);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].id.as_str(), &found[0].tools[..]), (id.as_str(), &[podman()][..]));
        assert!(AbandonedLease::all(&home.0).is_empty(), "one cleans up at a time");
        found.into_iter().for_each(AbandonedLease::forget);
        assert_eq!(home.names(), [""; 0]);
    }

    #[test]
    fn a_lease_ends_with_the_last_container() {
        let home = Home::new();
        let leases = ContainerLeases::new(home.0.clone());
        let (first, second) = (leases.hold().unwrap(), leases.hold().unwrap());
        assert_eq!(first.lease().id(), second.lease().id());
        first.started();
        first.removed();
        first.removed();
        assert_eq!(home.names().len(), 1, "the other is still there");
        // Never started: nothing has to be removed.
        drop(second);
        assert_eq!(home.names(), [""; 0]);
        let third = leases.hold().unwrap();
        assert_ne!(third.lease().id(), first.lease().id());
        third.started();
        drop(third);
        assert_eq!(home.names().len(), 1, "started and not removed: somebody has to look");
    }

    #[test]
    fn variables_are_readable_by_their_owner_only_and_go_with_their_guard() {
        let home = Home::new();
        let hold = ContainerLeases::new(home.0.clone()).hold().unwrap();
        let lease = hold.lease();
        let env = [("KEY".to_owned(), "a b=\"c\" #d".to_owned()), ("EMPTY".to_owned(), String::new())];
        let file = lease.env_file(1, &env).unwrap().unwrap();
        let path = file.path().to_owned();
        assert_eq!(fs::read_to_string(&path).unwrap(), "KEY=a b=\"c\" #d\nEMPTY=\n");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(&home.0).unwrap().permissions().mode() & 0o777, 0o700);
        drop(file);
        assert!(!path.exists());
        assert!(lease.env_file(2, &[]).unwrap().is_none());
        assert!(lease.env_file(3, &[("A".into(), "1\nB=2".into())]).is_err());
    }

    #[test]
    fn a_lease_names_no_program_but_the_runtimes() {
        assert_eq!(tool(r#"{"runtime":"podman","args":["--runtime","runc"]}"#), Some(podman()));
        for line in [r#"{"runtime":"sh","args":["-c","true"]}"#, "{}", "garbage", ""] {
            assert_eq!(tool(line), None, "{line}");
        }
    }
}
