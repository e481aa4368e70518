//! Podman with a store of its own, so that a test touches nothing else on the machine, and an image of a scripted server.

mod registry;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::client::ClientBuilder;
use crate::gateway::GatewayBuilder;
use crate::server::Server;
use crate::tempdir::TempDir;

pub use registry::ImageRegistry;

/// When set, a test fails without podman instead of being skipped.
const REQUIRED: &str = "TIDINGS_REQUIRE_PODMAN";
/// Seconds that one command may take.
const DEADLINE: &str = "60";
/// How long processes of a test may still use the store when it is over.
const LAST_USERS: Duration = Duration::from_secs(10);
const REMEDY: &str = "install it with: apt-get install podman runc docker-registry";

/// A private podman. What it runs is removed when dropped.
pub struct Podman {
    directory: TempDir,
}

impl Podman {
    /// The image whose command is a server that does what the test says.
    pub const IMAGE: &str = "localhost/testkit-relay:1";

    /// Makes one; `None`, said loudly, when containers can not be run here.
    pub fn ready() -> Option<Self> {
        let podman = Self { directory: TempDir::new() };
        match podman.prepare() {
            Ok(()) => Some(podman),
            Err(reason) => {
                missing(&reason);
                None
            }
        }
    }

    fn prepare(&self) -> Result<(), String> {
        let here = self.directory.path().display();
        // Locks of its own; limits that a sandbox allows; and the runtime that needs the least.
        let runtime = find("runc").map(|path| format!("runtime = {path:?}\n")).unwrap_or_default();
        let engine = "cgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\nlock_type = \"file\"\n";
        let limits = "[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=1000:1000\"]\n";
        let text = format!("[engine]\n{runtime}{engine}tmp_dir = \"{here}/tmp\"\n{limits}");
        self.directory.write("containers.conf", text);
        // `vfs` copies layers instead of mounting them, which a sandbox may forbid.
        let text = format!("[storage]\ndriver = \"vfs\"\ngraphroot = \"{here}/graph\"\nrunroot = \"{here}/run\"\n");
        self.directory.write("storage.conf", text);
        self.trust(&[]);
        let version = self.try_run(&["--version"]);
        if !version.status.success() {
            return Err("podman is not there".to_owned());
        }
        self.import()?;
        // It ends with a word about its use, if containers can be run at all.
        let run = ["run", "--rm", "--pull=never", "--network=none", "--memory=64m", "--pids-limit=64", Self::IMAGE];
        let tried = self.try_run(&run);
        let words = String::from_utf8_lossy(&tried.stderr).into_owned();
        if words.contains("usage: testkit-relay") {
            Ok(())
        } else {
            Err(format!("podman can not run containers: {words}"))
        }
    }

    /// The relay with the libraries it needs, and nothing else.
    fn import(&self) -> Result<(), String> {
        let root = self.directory.join("root");
        let copy = |from: &Path, to: PathBuf| {
            fs::create_dir_all(to.parent().unwrap_or(&root))
                .and_then(|()| fs::copy(from, &to))
                .map_err(|e| e.to_string())
        };
        copy(crate::relay(), root.join("relay"))?;
        for library in libraries(crate::relay()) {
            copy(&library, root.join(library.strip_prefix("/").unwrap_or(&library)))?;
        }
        let archive = self.directory.join("root.tar");
        let tar = Command::new("tar").arg("-C").arg(&root).arg("-cf").arg(&archive).arg(".").status();
        tar.map_err(|e| e.to_string())?;
        let archive = archive.to_string_lossy();
        let import = self.try_run(&["import", "--quiet", "--change", "ENTRYPOINT [\"/relay\"]", &archive, Self::IMAGE]);
        if import.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&import.stderr).into_owned()) }
    }

    /// Has it take images from these registries without TLS.
    fn trust(&self, hosts: &[&str]) {
        let mut text = "unqualified-search-registries = []\n".to_owned();
        for host in hosts {
            let _ = write!(text, "[[registry]]\nlocation = {host:?}\ninsecure = true\n");
        }
        self.directory.write("registries.conf", text);
    }

    /// The variables that make a program use this store.
    pub fn env(&self) -> [(&'static str, String); 3] {
        [
            ("CONTAINERS_CONF", "containers.conf"),
            ("CONTAINERS_STORAGE_CONF", "storage.conf"),
            ("CONTAINERS_REGISTRIES_CONF", "registries.conf"),
        ]
        .map(|(name, file)| (name, self.directory.join(file).to_string_lossy().into_owned()))
    }

    /// A gateway that uses this store.
    pub fn gateway(&self, builder: GatewayBuilder) -> GatewayBuilder {
        self.env().into_iter().fold(builder, |builder, (name, value)| builder.env(name, &value))
    }

    /// A gateway on stdio that uses this store.
    pub fn client(&self, builder: ClientBuilder) -> ClientBuilder {
        self.env().into_iter().fold(builder, |builder, (name, value)| builder.env(name, &value))
    }

    /// The keys that make a scripted stdio server one in a container, with more keys of its table.
    pub fn toml(&self, name: &str, server: &Server, keys: &str) -> String {
        let (_, args) = server.command();
        let socket = Path::new(&args[0]);
        let folder = socket.parent().unwrap_or(socket).display();
        let inside = format!("/kit/{}", socket.file_name().unwrap_or_default().to_string_lossy());
        let image = Self::IMAGE;
        format!(
            "[servers.{name:?}]\ncontainer = {image:?}\nruntime = \"podman\"\nargs = [{inside:?}]\n\
             volumes = [\"{folder}:/kit\"]\n{keys}\n"
        )
    }

    /// Runs a command, which must succeed, and gives what it prints.
    pub fn run(&self, args: &[&str]) -> String {
        let output = self.try_run(args);
        assert!(output.status.success(), "podman {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Runs a command.
    pub fn try_run(&self, args: &[&str]) -> Output {
        // A program of its own, since `output` knows no deadline.
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", DEADLINE, "podman"]).args(args).envs(self.env());
        command.output().unwrap_or_else(|e| panic!("starting timeout: {e}"))
    }

    /// The names of all containers, running or not.
    pub fn containers(&self) -> Vec<String> {
        self.run(&["ps", "--all", "--format", "{{.Names}}"]).lines().map(str::to_owned).collect()
    }

    /// All that is known of a container.
    pub fn inspect(&self, container: &str) -> Value {
        let text = self.run(&["container", "inspect", container]);
        let all: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
        all[0].clone()
    }
}

impl Podman {
    fn wait_unused(&self) {
        let since = Instant::now();
        while self.is_used() && since.elapsed() < LAST_USERS {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Whether a process that was given this store still runs, such as one that cleans up after a gateway.
    fn is_used(&self) -> bool {
        // Not another's whose name begins the same.
        let here = format!("{}/", self.directory.path().display());
        let names = |entry: &fs::DirEntry, file: &str| {
            let text = fs::read(entry.path().join(file)).unwrap_or_default();
            text.windows(here.len()).any(|part| part == here.as_bytes())
        };
        let uses = |entry: fs::DirEntry| names(&entry, "environ") || names(&entry, "cmdline");
        fs::read_dir("/proc").into_iter().flatten().flatten().any(uses)
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        self.wait_unused();
        self.try_run(&["rm", "--all", "--force", "--time=0"]);
        // What belongs to other users of a user namespace can only be removed inside it.
        if !rustix::process::geteuid().is_root() {
            let graph = self.directory.join("graph");
            self.try_run(&["unshare", "rm", "-rf", &graph.to_string_lossy()]);
        }
        // The end of a container is cleaned up by a process of its own.
        self.wait_unused();
    }
}

/// Skips the test, or fails it where it has to run.
fn missing(reason: &str) {
    assert!(std::env::var_os(REQUIRED).is_none(), "containers are required by {REQUIRED}: {reason}; {REMEDY}");
    eprintln!("\n*** SKIPPED: this test needs podman: {reason}; {REMEDY} ***\n");
}

/// Where a program is; also where ordinary users do not look.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/sbin", "/usr/local/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(more).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// The libraries that a program is linked with.
fn libraries(program: &Path) -> Vec<PathBuf> {
    let output = Command::new("ldd").arg(program).output().map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&output).into_owned();
    let path = |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(PathBuf::from);
    text.lines().filter_map(path).collect()
}
