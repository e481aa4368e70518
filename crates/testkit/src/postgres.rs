//! A private PostgreSQL server on a socket, run by an ordinary user and gone with its test.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::tempdir::TempDir;

/// When set, a test fails without PostgreSQL instead of being skipped.
const REQUIRED: &str = "TIDINGS_REQUIRE_POSTGRES";
/// A folder with `initdb` and `postgres`, before all others.
const PROGRAMS: &str = "TIDINGS_POSTGRES_BIN";

/// How long a cluster may take to be made, to start or to stop.
const DEADLINE: Duration = Duration::from_secs(60);

/// The server. Killed when dropped.
pub struct PostgresServer {
    directory: TempDir,
    programs: PathBuf,
    owner: Option<(u32, u32)>,
    settings: Vec<String>,
    port: String,
    child: Option<Child>,
}

impl PostgresServer {
    /// Starts one; `None`, said loudly, when PostgreSQL is not installed.
    pub fn start() -> Option<Self> {
        Self::start_with(&[], |_| {})
    }

    /// The same with settings such as `ssl=on`, after files were put into its data directory.
    pub fn start_with(settings: &[&str], prepare: impl FnOnce(&Path)) -> Option<Self> {
        let Some(programs) = programs() else {
            let remedy = "install it with: apt-get install postgresql";
            assert!(
                std::env::var_os(REQUIRED).is_none(),
                "PostgreSQL is required by {REQUIRED} and not there; {remedy}"
            );
            eprintln!("\n*** SKIPPED: this test needs PostgreSQL, which is not there; {remedy} ***\n");
            return None;
        };
        let directory = TempDir::new();
        let owner = ordinary_user();
        let port = settings.iter().find_map(|setting| setting.strip_prefix("port=")).unwrap_or("5432").to_owned();
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let mut server = Self { directory, programs, owner, settings, port, child: None };
        server.give(server.directory.path());
        let data = server.data();
        let mut initdb = server.command("initdb");
        initdb
            .args(["--auth=trust", "--username=tidings", "--encoding=UTF8", "--no-locale", "--no-sync", "-D"])
            .arg(&data);
        let output = initdb.output().unwrap_or_else(|e| panic!("starting initdb: {e}"));
        assert!(output.status.success(), "initdb: {}", String::from_utf8_lossy(&output.stderr));
        prepare(&data);
        for entry in fs::read_dir(&data).into_iter().flatten().flatten() {
            // Files that `prepare` wrote belong to root, and PostgreSQL refuses keys of others.
            if entry.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.uid() == 0) {
                server.give(&entry.path());
            }
        }
        server.run();
        Some(server)
    }

    fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// PostgreSQL refuses to be run by root, and to read what others could read.
    fn give(&self, path: &Path) {
        let mode = if path.is_dir() { 0o700 } else { 0o600 };
        fs::set_permissions(path, fs::Permissions::from_mode(mode))
            .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        if let Some((user, group)) = self.owner {
            chown(path, Some(user), Some(group)).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        }
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        // The user that it runs as may not be allowed into the folder of the tests.
        command.current_dir("/").stdin(Stdio::null()).env("LC_ALL", "C").env("PGPORT", &self.port);
        if let Some((user, group)) = self.owner {
            command.uid(user).gid(group);
        }
        command
    }

    fn run(&mut self) {
        let log = fs::File::create(self.directory.join("log")).unwrap_or_else(|e| panic!("the log: {e}"));
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.data()).arg("-k").arg(self.directory.path());
        // A socket only, so that no port can collide; the data need not survive a crash of the machine.
        command.args(["-c", "listen_addresses=", "-c", "fsync=off"]);
        for setting in &self.settings {
            command.args(["-c", setting]);
        }
        let child = command.stdout(Stdio::null()).stderr(log).spawn();
        self.child = Some(child.unwrap_or_else(|e| panic!("starting postgres: {e}")));
        let since = Instant::now();
        while !self.answers() {
            assert!(since.elapsed() < DEADLINE, "PostgreSQL does not start: {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn answers(&self) -> bool {
        let ready = self.command("pg_isready").arg("-q").arg("-h").arg(self.directory.path()).status();
        ready.is_ok_and(|status| status.success())
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }

    /// The URL of its database, for its superuser.
    pub fn url(&self) -> String {
        self.url_of("tidings")
    }

    /// The URL of its database, for another role.
    pub fn url_of(&self, role: &str) -> String {
        format!("postgresql://{role}@/postgres?host={}&port={}", self.directory.path().display(), self.port)
    }

    /// Runs SQL by its own program, and gives what it prints.
    pub fn sql(&self, sql: &str) -> String {
        let mut psql = self.command("psql");
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "tidings", "-d", "postgres", "-h"]);
        let output = psql.arg(self.directory.path()).args(["-c", sql]).output();
        let output = output.unwrap_or_else(|e| panic!("starting psql: {e}"));
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Runs SQL while it is stopped, so that nobody can hear of it. One statement per line.
    pub fn sql_offline(&self, sql: &str) {
        assert!(self.child.is_none(), "the server is running");
        let mut single = self.command("postgres");
        single.arg("--single").arg("-D").arg(self.data()).args(["-c", "exit_on_error=true", "postgres"]);
        let mut child = single
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|e| panic!("starting postgres: {e}"));
        let written = child.stdin.take().map(|mut input| input.write_all(format!("{sql}\n").as_bytes()));
        assert!(matches!(written, Some(Ok(()))), "{sql}: {written:?}");
        let status = child.wait().unwrap_or_else(|e| panic!("waiting for postgres: {e}"));
        assert!(status.success(), "{sql}: {status}");
    }

    /// Stops it in good order.
    pub fn stop(&mut self) {
        // PostgreSQL's fast shutdown: SIGTERM would wait for all clients to leave.
        self.end(rustix::process::Signal::INT);
    }

    /// Starts it again after [`Self::stop`], with the same data.
    pub fn start_again(&mut self) {
        self.run();
    }

    fn end(&mut self, signal: rustix::process::Signal) {
        let Some(mut child) = self.child.take() else { return };
        if let Some(pid) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, signal);
        }
        let since = Instant::now();
        while !matches!(child.try_wait(), Ok(Some(_))) {
            if since.elapsed() > DEADLINE {
                let _ = child.kill();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        // PostgreSQL's immediate shutdown: nothing is kept, so nothing has to be written.
        self.end(rustix::process::Signal::QUIT);
    }
}

/// The newest PostgreSQL of this machine.
fn programs() -> Option<PathBuf> {
    let named = std::env::var_os(PROGRAMS).map(PathBuf::from);
    let debian =
        fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|entry| entry.path().join("bin"));
    let mut debian: Vec<PathBuf> = debian.collect();
    debian.sort_by_key(|path| {
        let version = path.parent().and_then(|path| path.file_name()?.to_str()?.parse::<u32>().ok());
        std::cmp::Reverse(version)
    });
    let path = std::env::var_os("PATH").unwrap_or_default();
    let elsewhere: Vec<PathBuf> = std::env::split_paths(&path).collect();
    named.into_iter().chain(debian).chain(elsewhere).find(|folder| {
        ["initdb", "postgres", "pg_isready", "psql"].iter().all(|program| folder.join(program).is_file())
    })
}

/// Somebody else when we are root: PostgreSQL's own user, else nobody.
fn ordinary_user() -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let ids = |name: &str| {
        let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    ids("postgres").or_else(|| ids("nobody")).or(Some((65_534, 65_534)))
}
