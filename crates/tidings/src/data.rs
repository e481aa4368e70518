//! The data directory: who serves, and the key to its API.

use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde_json::{Value, json};
use tidings_upstream::HttpClient;

use crate::failure::CommandFailure;
use crate::secret;

/// The directory of one user's state.
#[derive(Clone, Debug)]
pub(crate) struct DataDir(PathBuf);

/// The socket in the data directory, which serves the user of the gateway.
pub(crate) const SOCKET: &str = "gateway.sock";

/// How to reach the gateway that runs for a data directory.
#[derive(Clone, Debug)]
pub(crate) struct RunningGateway {
    pub(crate) url: String,
    pub(crate) token: String,
    pub(crate) pid: u32,
    /// Its data directory.
    pub(crate) data: PathBuf,
}

impl RunningGateway {
    /// A client for its API: by its socket, where that is there.
    pub(crate) fn client(&self) -> Result<HttpClient, CommandFailure> {
        HttpClient::through(self.data.join(SOCKET)).map_err(CommandFailure::failed)
    }
}

impl DataDir {
    pub(crate) fn find(explicit: Option<&Path>) -> Result<Self, CommandFailure> {
        if let Some(dir) = explicit {
            return Ok(Self(dir.to_owned()));
        }
        let from = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        // A relative one would be of whatever folder somebody stands in, and records of trust are read there.
        if from("TIDINGS_DATA").is_some_and(|data| data.is_relative()) {
            return Err(CommandFailure::Usage("TIDINGS_DATA has to be an absolute path".into()));
        }
        from("TIDINGS_DATA")
            .or_else(|| Some(from("XDG_DATA_HOME").filter(|data| data.is_absolute())?.join("tidings")))
            .or_else(|| Some(from("HOME")?.join(".local/share/tidings")))
            .map(Self)
            .ok_or_else(|| {
                CommandFailure::Usage("no data directory: set TIDINGS_DATA, or name one with --data DIR".into())
            })
    }

    /// The path of the data directory, as it was named or found; it need not be there yet.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn create(&self) -> Result<(), CommandFailure> {
        std::fs::create_dir_all(&self.0).map_err(|e| {
            CommandFailure::Failed(format!("{}: {e}; name another data directory with --data DIR", self.0.display()))
        })
    }

    fn gateway_file(&self) -> PathBuf {
        self.0.join("gateway.json")
    }

    fn lock_file(&self) -> PathBuf {
        self.0.join("gateway.lock")
    }

    /// The file that has the key to the API.
    pub(crate) fn admin_token_file(&self) -> PathBuf {
        self.0.join("admin.token")
    }

    /// The key to the API, made on first use, readable only by its owner.
    pub(crate) fn admin_token(&self) -> Result<String, CommandFailure> {
        self.create()?;
        let path = self.admin_token_file();
        // The same over restarts: scripts and clients may have kept it.
        if let Ok(token) = std::fs::read_to_string(&path)
            // An empty file is what a full disk leaves behind.
            && !token.trim().is_empty()
        {
            return Ok(token.trim().to_owned());
        }
        let token = secret::fresh()?;
        write_private(&path, token.as_bytes())
            .map_err(|e| CommandFailure::Failed(format!("{}: {e}", path.display())))?;
        Ok(token)
    }

    /// What seals the states that clients carry. The same over restarts, so that one of before is recognised.
    pub(crate) fn seal_key(&self) -> Result<[u8; 32], CommandFailure> {
        let path = self.0.join("seal.key");
        if let Some(key) = std::fs::read_to_string(&path).ok().and_then(|text| key_of(&text)) {
            return Ok(key);
        }
        let fault = |e: io::Error| CommandFailure::Failed(format!("{}: {e}", path.display()));
        // Of two gateways that begin at once one writes it, and both use that one.
        write_private_once(&path, secret::fresh()?.as_bytes()).map_err(fault)?;
        if let Some(key) = key_of(&std::fs::read_to_string(&path).map_err(fault)?) {
            return Ok(key);
        }
        // What is there was never a key.
        write_private_whole(&path, secret::fresh()?.as_bytes()).map_err(fault)?;
        let written = std::fs::read_to_string(&path).map_err(fault)?;
        key_of(&written).ok_or_else(|| CommandFailure::Failed(format!("{}: is not a key", path.display())))
    }

    /// The host name of the page: nobody can guess it, and it is the same over restarts, so that a browser keeps its key.
    pub(crate) fn page_host(&self) -> Result<String, CommandFailure> {
        let path = self.0.join("page.host");
        let is_ours = |name: &String| name.len() == 8 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        let kept = std::fs::read_to_string(&path).ok().map(|name| name.trim().to_owned()).filter(is_ours);
        let name = match kept {
            Some(name) => name,
            None => {
                let mut name = secret::fresh()?;
                name.truncate(8);
                if let Err(error) = write_private_whole(&path, name.as_bytes()) {
                    tracing::warn!(%error, "the name of the page is not kept; browsers have to be let in again after a restart");
                }
                name
            }
        };
        Ok(format!("tidings-{name}.localhost"))
    }

    /// Says where this process serves, until the guard is dropped. The first gateway on a directory owns that word.
    pub(crate) fn announce(&self, url: &str) -> AnnouncedGateway {
        match self.try_announce(url) {
            Ok(Some(announcement)) => AnnouncedGateway::Here { _until_dropped: announcement },
            Ok(None) => AnnouncedGateway::Elsewhere(self.running()),
            Err(error) => AnnouncedGateway::Nowhere(format!("{}: {error}", self.0.display())),
        }
    }

    fn try_announce(&self, url: &str) -> io::Result<Option<GatewayAnnouncement>> {
        std::fs::create_dir_all(&self.0)?;
        let lock = private().read(true).write(true).create(true).truncate(false).open(self.lock_file())?;
        // The lock, not the file, says who serves: the system releases it however the process ends.
        if !take(&lock) {
            return Ok(None);
        }
        let path = self.gateway_file();
        // What is there was left by a gateway that could not remove it.
        let _ = std::fs::remove_file(&path);
        let pid = std::process::id();
        let text = json!({ "url": url, "pid": pid, "started": started(pid) }).to_string();
        // Renamed into place, so that nobody reads half of it.
        let partial = self.0.join(format!("gateway.json.{pid}"));
        let written = write_private(&partial, text.as_bytes()).and_then(|()| std::fs::rename(&partial, &path));
        if written.is_err() {
            let _ = std::fs::remove_file(&partial);
        }
        written?;
        Ok(Some(GatewayAnnouncement { path, _lock: lock }))
    }

    /// The gateway that serves from this directory. A file that was left behind names none, whoever has its process id
    /// by now.
    pub(crate) fn running(&self) -> Option<RunningGateway> {
        let state: Value = serde_json::from_slice(&std::fs::read(self.gateway_file()).ok()?).ok()?;
        let pid = u32::try_from(state["pid"].as_u64()?).ok()?;
        let lives = match std::fs::File::open(self.lock_file()) {
            // Whoever serves holds the lock for as long as it lives.
            Ok(lock) => flock(&lock, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK),
            // Where there is no lock, the process must be the one that wrote the file.
            // A system without `/proc` has written no time: then the file is believed.
            Err(_) => state["started"].is_null() || started(pid) == state["started"].as_u64(),
        };
        if !lives {
            return None;
        }
        let token = std::fs::read_to_string(self.0.join("admin.token")).unwrap_or_default();
        let (url, data) = (state["url"].as_str()?.to_owned(), self.0.clone());
        Some(RunningGateway { url, token: token.trim().to_owned(), pid, data })
    }
}

impl DataDir {
    /// The running gateway, or what to do about its absence.
    pub(crate) fn running_now(&self) -> Result<RunningGateway, CommandFailure> {
        self.running().ok_or_else(|| CommandFailure::Failed("no gateway is running; start one: tidings serve".into()))
    }
}

/// Takes a lock that another process may try for a moment, to see whether anybody has it.
fn take(lock: &std::fs::File) -> bool {
    // Whoever looks whether a gateway runs holds the lock for a moment.
    // 200 ms in all: longer than anybody looks, and short enough for a start.
    (0..20).any(|attempt| {
        if attempt > 0 {
            std::thread::sleep(Duration::from_millis(10));
        }
        flock(lock, FlockOperation::NonBlockingLockExclusive).is_ok()
    })
}

/// When a process began, in ticks since the start of the machine: with its id, this tells it from every other.
fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program stands in parentheses, and may hold anything.
    // Field 22 of proc(5); what follows the name begins with field 3.
    stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()
}

/// Thirty-two bytes, as they are written in hexadecimal digits.
pub(crate) fn key_of(text: &str) -> Option<[u8; 32]> {
    let text = text.trim();
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    let mut key = [0; 32];
    for (index, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(key)
}

/// For files that only their owner may read.
fn private() -> std::fs::OpenOptions {
    let mut options = std::fs::OpenOptions::new();
    options.mode(0o600);
    options
}

/// Writes a file that only its owner may read.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // The mode counts only where the file is made: one that is there keeps its own.
    private().write(true).create(true).truncate(true).open(path).and_then(|mut file| file.write_all(bytes))
}

/// The same, renamed into place with the folders above it, so that nobody reads half of it.
pub(crate) fn write_private_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    // With the process id in its name, two processes do not write into one file.
    let partial = path.with_extension(format!("{}.partial", std::process::id()));
    write_private(&partial, bytes).and_then(|()| std::fs::rename(&partial, path))
}

/// The same, unless the file is there already: then it stays as it is, whoever wrote it.
fn write_private_once(path: &Path, bytes: &[u8]) -> io::Result<()> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let partial = path.with_extension(format!("{}-{number}.partial", std::process::id()));
    write_private(&partial, bytes)?;
    // A link is made as a whole or not at all, and never in the place of another file.
    let linked = std::fs::hard_link(&partial, path);
    let _ = std::fs::remove_file(&partial);
    match linked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        // Some file systems have no links. There the first to create it writes it.
        Err(_) => match private().write(true).create_new(true).open(path) {
            Ok(mut file) => file.write_all(bytes),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        },
        Ok(()) => Ok(()),
    }
}

/// Where a gateway can be found by the commands of its user.
pub(crate) enum AnnouncedGateway {
    /// In its data directory.
    Here {
        /// Keeps the word there.
        _until_dropped: GatewayAnnouncement,
    },
    /// It can not: another gateway on the same directory is found there.
    Elsewhere(Option<RunningGateway>),
    /// It can not: the directory can not be written to.
    Nowhere(String),
}

/// Removes `gateway.json` at the end, while the lock is still held: nobody else has written it.
pub(crate) struct GatewayAnnouncement {
    path: PathBuf,
    _lock: std::fs::File,
}

impl Drop for GatewayAnnouncement {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use tidings_testkit::TempDir;

    use super::*;

    #[test]
    fn gateways_that_begin_at_once_have_one_key() {
        let directory = TempDir::new();
        let data = DataDir(directory.path().join("data"));
        let barrier = Barrier::new(8);
        let keys: Vec<[u8; 32]> = std::thread::scope(|scope| {
            let begin = || {
                barrier.wait();
                data.seal_key().ok()
            };
            let begun: Vec<_> = (0..8).map(|_| scope.spawn(begin)).collect();
            begun.into_iter().filter_map(|one| one.join().ok().flatten()).collect()
        });
        assert_eq!(keys.len(), 8);
        assert!(keys.iter().all(|key| *key == keys[0]), "each reads what the first one wrote");
        assert_eq!(data.seal_key().ok(), Some(keys[0]));
        let left: Vec<_> = std::fs::read_dir(directory.path().join("data")).into_iter().flatten().flatten().collect();
        assert_eq!(left.len(), 1, "nothing else is left: {left:?}");
    }
}
