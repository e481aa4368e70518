//! Where things are: the repository, the build output, the gateway's binary.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::failure::Failure;
use crate::invocation::Invocation;

// A cold build of everything on a small machine.
const CARGO_DEADLINE: Duration = Duration::from_secs(3600);

/// The paths of this checkout.
pub(crate) struct Workspace {
    root: PathBuf,
    target: PathBuf,
}

impl Workspace {
    pub(crate) fn find() -> Result<Self, Failure> {
        let lost = |reason| Failure::Workspace { reason };
        // Asked and not guessed: configuration and variables can put the build output elsewhere.
        let asked = Command::new(cargo_program())
            .args(["metadata", "--format-version", "1", "--no-deps"])
            .output()
            .map_err(|source| Failure::Start { command: "cargo metadata".to_owned(), source })?;
        let metadata: Value =
            serde_json::from_slice(&asked.stdout).map_err(|_| lost("`cargo metadata` gave no JSON"))?;
        let path = |key: &str| metadata.get(key).and_then(Value::as_str).map(PathBuf::from);
        let root = path("workspace_root").ok_or(lost("`cargo metadata` names no workspace_root"))?;
        let target = path("target_directory").ok_or(lost("`cargo metadata` names no target_directory"))?;
        Ok(Self { root, target })
    }

    /// Scripts and lists of the conformance run.
    pub(crate) fn conformance_file(&self, name: &str) -> PathBuf {
        self.root.join("conformance").join(name)
    }

    /// A page of the documentation.
    pub(crate) fn document(&self, name: &str) -> PathBuf {
        self.root.join("docs").join(name)
    }

    pub(crate) fn crates(&self) -> PathBuf {
        self.root.join("crates")
    }

    pub(crate) fn peers(&self) -> PathBuf {
        self.target.join("peers")
    }

    /// What the browser's tests need, beside the browser.
    pub(crate) fn browser(&self) -> PathBuf {
        self.target.join("browser")
    }

    pub(crate) fn clients(&self) -> PathBuf {
        self.target.join("clients")
    }

    /// Scripts and lists of what is packed.
    pub(crate) fn packaging_file(&self, name: &str) -> PathBuf {
        self.root.join("packaging").join(name)
    }

    /// Where packages are put.
    pub(crate) fn packages(&self) -> PathBuf {
        self.target.join("packages")
    }

    /// The build output.
    pub(crate) fn output(&self) -> PathBuf {
        self.target.clone()
    }

    /// What packaging installs for itself: a C compiler, mdBook, fresh machines.
    pub(crate) fn packaging_tools(&self) -> PathBuf {
        self.target.join("tools")
    }

    /// Where the documentation is as a site.
    pub(crate) fn site(&self) -> PathBuf {
        self.target.join("site")
    }

    /// The gateway as `packaging/release_build.py` leaves it.
    pub(crate) fn released_gateway(&self, target: &str) -> PathBuf {
        self.target.join(target).join("release").join("tidings")
    }

    /// Published servers and a model, for questions over their tools.
    pub(crate) fn search_servers(&self) -> PathBuf {
        self.target.join("search-servers")
    }

    /// The gateway as `cargo build` leaves it.
    pub(crate) fn built_gateway(&self) -> PathBuf {
        self.target.join("debug").join("tidings")
    }

    /// The gateway as `cargo build --release` leaves it.
    pub(crate) fn optimised_gateway(&self) -> PathBuf {
        self.target.join("release").join("tidings")
    }

    /// An example as `cargo build` leaves it.
    pub(crate) fn built_example(&self, name: &str) -> PathBuf {
        self.target.join("debug").join("examples").join(name)
    }

    /// An empty directory for the traces of one run.
    pub(crate) fn fresh_run_directory(&self, parts: &[&str]) -> Result<PathBuf, Failure> {
        let mut directory = self.target.join("conformance");
        directory.extend(parts);
        if directory.exists() {
            fs::remove_dir_all(&directory).map_err(Failure::file(&directory))?;
        }
        fs::create_dir_all(&directory).map_err(Failure::file(&directory))?;
        Ok(directory)
    }

    /// Builds every program and example. All at once: for some packages alone cargo chooses other features of the libraries, and builds
    /// those anew.
    pub(crate) fn build(&self) -> Invocation {
        self.cargo(["build", "--workspace", "--bins", "--examples"])
    }

    /// Cargo itself, in the root, with time for a cold build.
    pub(crate) fn cargo<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Invocation {
        Invocation::new("cargo").args(arguments).directory(&self.root).deadline(CARGO_DEADLINE)
    }
}

fn cargo_program() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}
