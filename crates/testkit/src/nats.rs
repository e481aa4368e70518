//! Private NATS servers with JetStream, gone with their test.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::tempdir::TempDir;

/// When set, a test fails without NATS instead of being skipped.
const REQUIRED: &str = "TIDINGS_REQUIRE_NATS";
/// The program, before all others.
const PROGRAM: &str = "TIDINGS_NATS_SERVER";
/// How long a server may take to start.
const DEADLINE: Duration = Duration::from_secs(60);

/// How often other ports are tried.
const ATTEMPTS: usize = 5;

/// One server. Killed when dropped.
pub struct NatsServer {
    directory: TempDir,
    program: PathBuf,
    name: String,
    port: u16,
    /// Where the servers of a cluster hear each other, this one first.
    routes: Vec<u16>,
    /// What else stands in its configuration: who is let in.
    more: String,
    child: Option<Child>,
}

impl NatsServer {
    /// Starts one; `None`, said loudly, when it is not installed.
    pub fn start() -> Option<Self> {
        Self::start_with("")
    }

    /// Starts one with more in its configuration, such as who is let in; `None` as above.
    pub fn start_with(more: &str) -> Option<Self> {
        let program = installed()?;
        Some(on_free_ports(|| {
            let mut server = Self::new(program.clone(), "nats".to_owned(), Vec::new());
            more.clone_into(&mut server.more);
            server.spawn();
            server.wait()?;
            Ok(server)
        }))
    }

    /// Starts three that keep their streams together; `None` as above.
    pub fn start_three() -> Option<[Self; 3]> {
        let program = installed()?;
        Some(on_free_ports(|| {
            let ports = [free_port(), free_port(), free_port()];
            let mut servers = [0, 1, 2].map(|place| {
                let mut routes = ports.to_vec();
                routes.rotate_left(place);
                Self::new(program.clone(), format!("nats-{place}"), routes)
            });
            // None of them is ready before a majority is there.
            servers.iter_mut().for_each(Self::spawn);
            servers.iter_mut().try_for_each(Self::wait)?;
            Ok(servers)
        }))
    }

    fn new(program: PathBuf, name: String, routes: Vec<u16>) -> Self {
        Self { directory: TempDir::new(), program, name, port: free_port(), routes, more: String::new(), child: None }
    }

    /// What it calls itself.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Stops its process where it stands: for the others it is cut off.
    pub fn pause(&self) {
        self.signal(rustix::process::Signal::STOP);
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.signal(rustix::process::Signal::CONT);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        if let Some(child) = &self.child {
            rustix::process::kill_process(rustix::process::Pid::from_child(child), signal)
                .unwrap_or_else(|e| panic!("signal to nats-server: {e}"));
        }
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Where it listens on this machine.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address, with a login in it.
    pub fn url_with(&self, login: &str) -> String {
        format!("nats://{login}@127.0.0.1:{}", self.port)
    }

    /// Kills it, as a machine that loses power does.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts it again with what it kept, on the same port.
    pub fn run(&mut self) {
        self.kill();
        self.spawn();
        self.wait().unwrap_or_else(|log| panic!("nats-server does not start again: {log}"));
    }

    fn log(&self) -> PathBuf {
        self.directory.join("nats.log")
    }

    /// The bound of the store is named, since by default it follows from how full the disk of the machine is.
    fn settings(&self) -> String {
        let Self { name, port, .. } = self;
        let store = self.directory.join("store");
        let mut settings = format!(
            "server_name: {name}\nlisten: \"127.0.0.1:{port}\"\n\
             jetstream {{ store_dir: {store:?}, max_file_store: 32GB, max_memory_store: 64MB }}\n"
        );
        if let Some(own) = self.routes.first() {
            let routes = self.routes.iter().map(|port| format!("\"nats://127.0.0.1:{port}\"")).collect::<Vec<_>>();
            let routes = routes.join(", ");
            settings += &format!("cluster {{ name: nats, listen: \"127.0.0.1:{own}\", routes: [{routes}] }}\n");
        }
        settings + &self.more
    }

    fn spawn(&mut self) {
        let (log, settings) = (self.log(), self.directory.join("nats.conf"));
        // That of before said that it was ready.
        let _ = fs::remove_file(&log);
        fs::write(&settings, self.settings()).unwrap_or_else(|e| panic!("{}: {e}", settings.display()));
        let child = Command::new(&self.program)
            .arg("--config")
            .arg(&settings)
            .arg("--log")
            .arg(&log)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|e| panic!("starting {}: {e}", self.program.display()));
        self.child = Some(child);
    }

    /// Waits until it is ready; gives its log if it ended.
    fn wait(&mut self) -> Result<(), String> {
        let log = self.log();
        let said = || fs::read_to_string(&log).unwrap_or_default();
        let deadline = Instant::now() + DEADLINE;
        while !said().contains("Server is ready") || TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            if self.child.as_mut().is_some_and(|child| child.try_wait().is_ok_and(|ended| ended.is_some())) {
                return Err(said());
            }
            assert!(Instant::now() < deadline, "nats-server is not ready: {}", said());
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Everything that it keeps, as it lies on the disk.
    pub fn kept_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        collect(&self.directory.join("store"), &mut bytes);
        bytes
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        self.kill();
    }
}

fn collect(path: &Path, bytes: &mut Vec<u8>) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, bytes);
        } else {
            bytes.extend(fs::read(&path).unwrap_or_default());
        }
    }
}

/// A port that is free now may be another's when the server comes for it; then all is tried with others.
fn on_free_ports<T>(start: impl Fn() -> Result<T, String>) -> T {
    let mut log = String::new();
    for _ in 0..ATTEMPTS {
        match start() {
            Ok(started) => return started,
            Err(ended) => log = ended,
        }
        if !log.contains("address already in use") {
            break;
        }
    }
    panic!("nats-server does not start: {log}");
}

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap_or_else(|e| panic!("a port: {e}"));
    listener.local_addr().unwrap_or_else(|e| panic!("a port: {e}")).port()
}

/// The program, or a loud word that tests are skipped.
fn installed() -> Option<PathBuf> {
    let program = program();
    if program.is_none() {
        let remedy = "install it with: cargo xtask peers";
        assert!(std::env::var_os(REQUIRED).is_none(), "NATS is required by {REQUIRED} and not there; {remedy}");
        eprintln!("\n*** SKIPPED: this test needs nats-server, which is not there; {remedy} ***\n");
    }
    program
}

fn program() -> Option<PathBuf> {
    let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers/venv/bin/nats-server");
    let named = std::env::var_os(PROGRAM).map(PathBuf::from);
    let searched = std::env::var_os("PATH")
        .into_iter()
        .flat_map(|path| std::env::split_paths(&path).map(|folder| folder.join("nats-server")).collect::<Vec<_>>());
    named.into_iter().chain([peers]).chain(searched).find(|program| program.is_file())
}
