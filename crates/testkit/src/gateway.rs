//! The real gateway: the `tidings` program with a configuration of the test's making.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output, Stdio as Pipe};
use std::sync::Arc;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::sync::Mutex;
use tokio::task::AbortHandle;

use crate::client::{Client, ClientBuilder};
use crate::record::{AwaitedRecord, eventually, within};
use crate::server::Server;
use crate::tempdir::TempDir;

/// A gateway in the making.
#[derive(Default)]
pub struct GatewayBuilder {
    config: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
    binary: Option<PathBuf>,
    wait_ready: bool,
    reading: OutputReading,
}

/// A running `tidings serve`. Killed when dropped; what it printed is shown when the test fails.
pub struct Gateway {
    child: Mutex<Child>,
    pid: u32,
    url: String,
    recipe: Arc<GatewayRecipe>,
    stderr: Arc<AwaitedRecord<String>>,
    reader: AbortHandle,
}

/// All that is needed to start a gateway, once or again.
struct GatewayRecipe {
    program: PathBuf,
    files: GatewayFiles,
    args: Vec<String>,
    env: Vec<(String, String)>,
    reading: OutputReading,
}

/// What becomes of what a gateway prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum OutputReading {
    /// Every line is read and kept.
    #[default]
    Always,
    /// Both pipes are closed at the other end before it starts.
    Closed,
    /// The pipe of standard error is open, but nobody takes anything out of it.
    Stalled,
}

/// The configuration and the data directory of one gateway.
struct GatewayFiles {
    directory: TempDir,
    config: PathBuf,
    data: PathBuf,
}

impl GatewayBuilder {
    /// Puts a scripted server behind it.
    pub fn server(self, name: &str, server: &Server) -> Self {
        self.server_with(name, server, "")
    }

    /// Puts a scripted server behind it, with more keys of its table.
    pub fn server_with(mut self, name: &str, server: &Server, keys: &str) -> Self {
        let _ = write!(self.config, "\n[servers.{name:?}]\n{}{keys}\n", server.toml());
        self
    }

    /// Adds to the configuration, in order.
    pub fn toml(mut self, text: &str) -> Self {
        let _ = write!(self.config, "\n{text}\n");
        self
    }

    /// Gathers signals for a short time only, so that a test need not wait. Opens `[notifications]`, which may be
    /// continued.
    pub fn quick(self) -> Self {
        self.toml("[notifications]\nlist_quiet = \"20ms\"\nlist_max_wait = \"200ms\"")
    }

    /// Adds an argument to the command line.
    pub fn arg(mut self, arg: &str) -> Self {
        self.args.push(arg.to_owned());
        self
    }

    /// Sets a variable.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts another program than the one next to the test.
    pub fn binary(mut self, path: impl Into<PathBuf>) -> Self {
        self.binary = Some(path.into());
        self
    }

    /// Does not wait for `/readyz`, only for the URL.
    pub fn without_waiting(mut self) -> Self {
        self.wait_ready = false;
        self
    }

    /// Nobody reads what it prints, from the start: writing to either pipe fails.
    pub fn unread(mut self) -> Self {
        self.reading = OutputReading::Closed;
        self
    }

    /// Standard error is a pipe that is open and never emptied.
    pub fn stalled(mut self) -> Self {
        self.reading = OutputReading::Stalled;
        self
    }

    fn files(&self) -> GatewayFiles {
        let directory = TempDir::new();
        let config = directory.write("tidings.toml", self.configuration());
        let data = directory.join("data");
        std::fs::create_dir(&data).unwrap_or_else(|e| panic!("making {}: {e}", data.display()));
        GatewayFiles { config, data, directory }
    }

    /// What the test wrote. On stdio the registry tools are there by themselves; a test that does not mention them does not
    /// want to see them.
    fn configuration(&self) -> String {
        const OFF: &str = "[gateway]\nregistry_tools = false\n";
        match self.config.find("[gateway]\n") {
            _ if self.config.contains("registry_tools") => self.config.clone(),
            Some(_) => self.config.replacen("[gateway]\n", OFF, 1),
            None => format!("{}\n{OFF}", self.config),
        }
    }

    fn program(&self) -> &Path {
        self.binary.as_deref().unwrap_or_else(|| crate::tidings())
    }

    /// Starts `tidings serve` and waits until it is ready.
    pub async fn serve(self) -> Gateway {
        let (program, files) = (self.program().to_owned(), self.files());
        let recipe = GatewayRecipe { program, files, args: self.args, env: self.env, reading: self.reading };
        let gateway = Gateway::start(Arc::new(recipe)).await;
        if self.wait_ready {
            gateway.wait_ready().await;
        }
        gateway
    }

    /// Describes a client on `tidings stdio`.
    pub fn stdio(self) -> ClientBuilder {
        let files = self.files();
        let mut args = vec!["stdio".to_owned()];
        args.extend(files.args());
        args.extend(self.args.iter().cloned());
        let mut client = Client::stdio(self.program().to_string_lossy(), args);
        for (name, value) in &self.env {
            client = client.env(name, value);
        }
        client.keep(files.directory)
    }
}

impl GatewayFiles {
    fn args(&self) -> Vec<String> {
        let path = |path: &Path| path.to_string_lossy().into_owned();
        vec!["--config".to_owned(), path(&self.config), "--data".to_owned(), path(&self.data)]
    }
}

async fn wait_url(files: &GatewayFiles, child: &mut Child, stderr: &AwaitedRecord<String>) -> String {
    let file = files.data.join("gateway.json");
    eventually("the gateway's URL", || {
        // Otherwise a gateway that can not start would cost the whole deadline, without a reason.
        if let Ok(Some(status)) = child.try_wait() {
            panic!("the gateway ended with {status}: {}", stderr.dump());
        }
        let state: Value = serde_json::from_slice(&std::fs::read(&file).ok()?).ok()?;
        state["url"].as_str().map(str::to_owned)
    })
    .await
}

impl Gateway {
    /// Begins to describe a gateway.
    pub fn builder() -> GatewayBuilder {
        GatewayBuilder { wait_ready: true, ..GatewayBuilder::default() }
    }

    async fn start(recipe: Arc<GatewayRecipe>) -> Self {
        let mut command = Command::new(&recipe.program);
        command.arg("serve").args(recipe.files.args()).args(&recipe.args);
        if !recipe.args.iter().any(|arg| arg == "--listen") {
            // A free port, so that tests run side by side.
            command.args(["--listen", "127.0.0.1:0"]);
        }
        command.envs(recipe.env.iter().map(|(k, v)| (k, v))).kill_on_drop(true);
        command.stdin(Pipe::null());
        match recipe.reading {
            OutputReading::Closed => command.stdout(unread_pipe()).stderr(unread_pipe()),
            OutputReading::Always | OutputReading::Stalled => command.stdout(Pipe::null()).stderr(Pipe::piped()),
        };
        let mut child = command.spawn().unwrap_or_else(|e| panic!("starting {}: {e}", recipe.program.display()));
        let stderr = Arc::new(AwaitedRecord::new());
        let (record, errors, reading) = (stderr.clone(), child.stderr.take(), recipe.reading);
        let reader = tokio::spawn(async move {
            let Some(errors) = errors else { return };
            let mut lines = BufReader::new(errors).lines();
            if reading == OutputReading::Stalled {
                // Keeps its end of the pipe open.
                std::future::pending::<()>().await;
            }
            while let Ok(Some(line)) = lines.next_line().await {
                record.push(line);
            }
        });
        let pid = child.id().unwrap_or_default();
        let url = wait_url(&recipe.files, &mut child, &stderr).await;
        Self { child: Mutex::new(child), pid, url, recipe, stderr, reader: reader.abort_handle() }
    }

    /// Starts it once more, with the same configuration and data, after it has ended.
    pub async fn again(&self) -> Self {
        // One that was killed could not remove it.
        let _ = std::fs::remove_file(self.recipe.files.data.join("gateway.json"));
        let gateway = Self::start(Arc::clone(&self.recipe)).await;
        gateway.wait_ready().await;
        gateway
    }

    /// The URL of its MCP endpoint.
    pub fn url(&self) -> String {
        format!("{}/mcp", self.base_url())
    }

    /// The URL without a path.
    pub fn base_url(&self) -> &str {
        self.url.trim_end_matches('/').trim_end_matches("/mcp")
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// What it printed on stderr so far.
    pub fn stderr(&self) -> &AwaitedRecord<String> {
        &self.stderr
    }

    /// Stops reading what it prints: its standard error is a broken pipe from now on.
    pub fn stop_reading(&self) {
        self.reader.abort();
    }

    /// Its data directory.
    pub fn data(&self) -> &Path {
        &self.recipe.files.data
    }

    /// Its configuration file.
    pub fn config(&self) -> &Path {
        &self.recipe.files.config
    }

    /// Puts another configuration into the file, in one step.
    pub fn rewrite_config(&self, text: &str) {
        let fresh = self.recipe.files.directory.write("tidings.toml.new", text);
        std::fs::rename(fresh, &self.recipe.files.config).expect("renaming within a directory");
    }

    /// Describes a client over HTTP.
    pub fn client(&self) -> ClientBuilder {
        Client::http(self.url())
    }

    /// Describes an old client, over HTTP+SSE.
    pub fn sse(&self) -> ClientBuilder {
        Client::sse(format!("{}/sse", self.base_url()))
    }

    /// Describes a client on `tidings stdio` with the same configuration.
    pub fn stdio(&self) -> ClientBuilder {
        let mut args = vec!["stdio".to_owned()];
        args.extend(self.recipe.files.args());
        Client::stdio(crate::tidings().to_string_lossy(), args)
    }

    /// The status and the body of a plain `GET`.
    pub async fn get(&self, path: &str) -> (u16, String) {
        self.send("GET", path, "", "").await
    }

    /// The same, with the token of the API.
    pub async fn get_as_admin(&self, path: &str) -> (u16, String) {
        self.send("GET", path, &self.admin_header(), "").await
    }

    /// One request to the API, by its path below `/api/v1`, with its token: the status and the answer.
    pub async fn api(&self, verb: &str, path: &str, body: Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (status, answer) = self.send(verb, &format!("/api/v1{path}"), &self.admin_header(), &body).await;
        (status, serde_json::from_str(&answer).unwrap_or_else(|e| panic!("{verb} {path}: {e}: {answer:?}")))
    }

    /// Runs a command of the command line against this gateway.
    pub async fn command(&self, args: &[&str]) -> Output {
        let mut command = Command::new(crate::tidings());
        command.arg("--data").arg(self.data()).args(args).env("TZ", "UTC");
        // The file lies in the folder that the command runs in, which alone would not make it count.
        command.env("TIDINGS_CONFIG", &self.recipe.files.config);
        command.current_dir(self.recipe.files.directory.path()).stdin(Pipe::null()).kill_on_drop(true);
        within(&format!("tidings {}", args.join(" ")), command.output()).await.expect("the command runs")
    }

    fn admin_header(&self) -> String {
        let token = std::fs::read_to_string(self.data().join("admin.token")).expect("serve wrote its token");
        format!("authorization: Bearer {}\r\n", token.trim())
    }

    async fn send(&self, verb: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
        let address = self.base_url().trim_start_matches("http://").to_owned();
        let ask = async {
            let mut stream = TcpStream::connect(&address).await?;
            let length = body.len();
            // `close`: the end of the connection is the end of the answer, so that nothing is parsed to find it.
            let head = format!(
                "{verb} {path} HTTP/1.1\r\nhost: {address}\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(body.as_bytes()).await?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await?;
            std::io::Result::Ok(String::from_utf8_lossy(&answer).into_owned())
        };
        // A gateway that does not listen, or has just ended, gives the status 0: whoever waits asks again.
        let answer = within(&format!("{verb} {path}"), ask).await.unwrap_or_default();
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
        (status, answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
    }

    /// One server as the API describes it.
    pub async fn server_status(&self, name: &str) -> Value {
        self.known_server(name).await.unwrap_or_else(|all| panic!("no {name}: {all}"))
    }

    /// The same; all servers, if it is none of them.
    async fn known_server(&self, name: &str) -> Result<Value, Value> {
        let (status, body) = self.get_as_admin("/api/v1/servers").await;
        assert_eq!(status, 200, "{body}");
        let all: Value = serde_json::from_str(&body).unwrap_or_else(|e| panic!("{e}: {body}"));
        let mut servers = all["servers"].as_array().into_iter().flatten();
        servers.find(|server| server["name"] == name).cloned().ok_or_else(|| all.clone())
    }

    /// Waits until the API describes a server in a way that fits. Null: it does not know it yet.
    pub async fn wait_server(&self, name: &str, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let mut status = Value::Null;
        let wait = async {
            loop {
                status = self.known_server(name).await.unwrap_or_default();
                if fits(&status) {
                    return;
                }
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        within(&format!("{name} to be {what}"), wait).await;
        status
    }

    /// A sample of `/metrics`, by its name and labels as they stand there; `None` when there is none.
    pub async fn metric(&self, series: &str) -> Option<f64> {
        let (status, body) = self.get("/metrics").await;
        assert_eq!(status, 200, "{body}");
        let value = |line: &str| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok();
        body.lines().find_map(value)
    }

    /// Waits until a sample of `/metrics` has a value that fits.
    pub async fn wait_metric(&self, series: &str, fits: impl Fn(f64) -> bool) {
        within(&format!("a fitting {series}"), async {
            while !self.metric(series).await.is_some_and(&fits) {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        })
        .await;
    }

    /// Waits until `/readyz` says yes.
    pub async fn wait_ready(&self) {
        within("the gateway to be ready", async {
            while self.get("/readyz").await.0 != 200 {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        })
        .await;
    }

    /// Sends SIGTERM and waits for the end.
    pub async fn terminate(&self) -> ExitStatus {
        self.signal(rustix::process::Signal::TERM);
        self.wait_exit().await
    }

    /// Sends SIGINT and waits for the end.
    pub async fn interrupt(&self) -> ExitStatus {
        self.signal(rustix::process::Signal::INT);
        self.wait_exit().await
    }

    /// Sends SIGKILL and waits for the end.
    pub async fn kill(&self) -> ExitStatus {
        self.signal(rustix::process::Signal::KILL);
        self.wait_exit().await
    }

    /// Sends SIGTERM and does not wait.
    pub fn begin_terminate(&self) {
        self.signal(rustix::process::Signal::TERM);
    }

    /// Waits for the end.
    pub async fn wait_exit(&self) -> ExitStatus {
        let mut child = self.child.lock().await;
        within("the gateway's end", child.wait()).await.expect("a child can be waited for")
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.pid).ok().and_then(rustix::process::Pid::from_raw);
        let _ = pid.map(|pid| rustix::process::kill_process(pid, signal));
    }
}

/// The end of a pipe whose other end is closed: what is written to it fails.
pub fn unread_pipe() -> Pipe {
    let (reader, writer) = std::io::pipe().unwrap_or_else(|error| panic!("no pipe: {error}"));
    drop(reader);
    writer.into()
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.reader.abort();
        if std::thread::panicking() {
            eprintln!("gateway printed {}", self.stderr.dump());
            return;
        }
        // A debug build looks at every message before it leaves. Whatever else a test is about, none may be malformed.
        let invalid = self.stderr.all().into_iter().find(|line| line.contains("an invalid message leaves the gateway"));
        assert!(invalid.is_none(), "{}", invalid.unwrap_or_default());
    }
}
