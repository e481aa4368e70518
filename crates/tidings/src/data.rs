//! The data directory: who serves, and the key to its API.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::failure::Failure;
use crate::secret;

/// The directory of one user's state.
#[derive(Clone, Debug)]
pub(crate) struct DataDir(PathBuf);

/// A gateway that is running.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(crate) url: String,
    pub(crate) token: String,
}

impl DataDir {
    pub(crate) fn find(explicit: Option<&Path>) -> Result<Self, Failure> {
        if let Some(dir) = explicit {
            return Ok(Self(dir.to_owned()));
        }
        let from = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        from("TIDINGS_DATA")
            .or_else(|| Some(from("XDG_DATA_HOME")?.join("tidings")))
            .or_else(|| Some(from("HOME")?.join(".local/share/tidings")))
            .map(Self)
            .ok_or_else(|| Failure::Usage("no data directory: set TIDINGS_DATA, or name one with --data DIR".into()))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn create(&self) -> Result<(), Failure> {
        std::fs::create_dir_all(&self.0).map_err(|e| {
            Failure::Failed(format!("{}: {e}; name another data directory with --data DIR", self.0.display()))
        })
    }

    fn gateway_file(&self) -> PathBuf {
        self.0.join("gateway.json")
    }

    /// The key to the API, made on first use, readable only by its owner.
    pub(crate) fn admin_token(&self) -> Result<String, Failure> {
        self.create()?;
        let path = self.0.join("admin.token");
        if let Ok(token) = std::fs::read_to_string(&path)
            && !token.trim().is_empty()
        {
            return Ok(token.trim().to_owned());
        }
        let token = secret::fresh()?;
        write_private(&path, token.as_bytes())?;
        Ok(token)
    }

    /// Says where this process serves, until the guard is dropped.
    pub(crate) fn announce(&self, url: &str) -> Result<Announcement, Failure> {
        self.create()?;
        let path = self.gateway_file();
        let pid = std::process::id();
        let text = json!({ "url": url, "pid": pid }).to_string();
        // Renamed into place, so that nobody reads half of it.
        let partial = self.0.join(format!("gateway.json.{pid}"));
        write_private(&partial, text.as_bytes())?;
        std::fs::rename(&partial, &path).map_err(|e| Failure::Failed(format!("{}: {e}", path.display())))?;
        Ok(Announcement { path, pid })
    }

    /// The gateway that serves from this directory, if its process is alive.
    pub(crate) fn running(&self) -> Option<Running> {
        let state: Value = serde_json::from_slice(&std::fs::read(self.gateway_file()).ok()?).ok()?;
        let pid = state["pid"].as_u64()?;
        // Where there is no /proc, the connection will tell.
        if Path::new("/proc/self").exists() && !Path::new(&format!("/proc/{pid}")).exists() {
            return None;
        }
        let token = std::fs::read_to_string(self.0.join("admin.token")).unwrap_or_default();
        Some(Running { url: state["url"].as_str()?.to_owned(), token: token.trim().to_owned() })
    }
}

impl DataDir {
    /// The running gateway, or what to do about its absence.
    pub(crate) fn running_now(&self) -> Result<Running, Failure> {
        self.running().ok_or_else(|| Failure::Failed("no gateway is running; start one: tidings serve".into()))
    }
}

fn write_private(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options
        .open(path)
        .and_then(|mut file| file.write_all(bytes))
        .map_err(|e| Failure::Failed(format!("{}: {e}", path.display())))
}

/// Removes `gateway.json` at the end, unless another process has written its own.
pub(crate) struct Announcement {
    path: PathBuf,
    pid: u32,
}

impl Drop for Announcement {
    fn drop(&mut self) {
        let mine = std::fs::read(&self.path)
            .ok()
            .and_then(|text| serde_json::from_slice::<Value>(&text).ok())
            .is_some_and(|state| state["pid"] == self.pid);
        if mine {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
