//! A scripted MCP server: the handle that a test holds.

mod answer;
mod builder;
mod call;
mod catalogue;
mod conn;
mod core;
mod event_stream;
mod http;
mod lists;
mod process;
mod script;
mod sse;
mod stdio;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

pub use answer::{RpcError, ScriptedAnswer};
pub use builder::ServerBuilder;
pub use call::ScriptedCall;
pub use catalogue::{Prompt, Resource, ScriptedEntry, Template, Tool};
pub use process::ScriptedProcess;

use self::core::ServerCore;
use crate::received::ReceivedMessage;
use crate::record::{AwaitedRecord, within};
use crate::tempdir::TempDir;

/// A scripted server. Dies when dropped.
pub struct Server {
    core: Arc<ServerCore>,
    address: ServerAddress,
}

enum ServerAddress {
    Http(SocketAddr),
    Stdio { socket: PathBuf, _directory: TempDir },
}

impl Server {
    /// Begins the script of a server; the name is that of its `serverInfo`.
    pub fn builder(name: &str) -> ServerBuilder {
        ServerBuilder::new(name)
    }

    /// The same script in both eras on both transports.
    pub async fn of_every_sort(script: impl Fn() -> ServerBuilder) -> Vec<Self> {
        vec![
            script().stdio().await,
            script().http().await,
            script().modern_only().stdio().await,
            script().modern_only().http().await,
        ]
    }

    async fn start_http(core: ServerCore) -> Self {
        let core = Arc::new(core);
        let address = http::listen(&core, None).await;
        Self { core, address: ServerAddress::Http(address) }
    }

    fn start_stdio(core: ServerCore) -> Self {
        let core = Arc::new(core);
        let directory = TempDir::new();
        let socket = directory.join("server");
        stdio::listen(&core, &socket);
        Self { core, address: ServerAddress::Stdio { socket, _directory: directory } }
    }

    /// Whether it is reached by a URL.
    pub fn is_http(&self) -> bool {
        matches!(self.address, ServerAddress::Http(_))
    }

    /// The URL of its MCP endpoint, for servers on HTTP.
    pub fn url(&self) -> String {
        match &self.address {
            ServerAddress::Http(address) if self.core.script.sse => format!("http://{address}/sse"),
            ServerAddress::Http(address) => format!("http://{address}/mcp"),
            ServerAddress::Stdio { .. } => panic!("a stdio server has no URL"),
        }
    }

    /// The program that reaches it and its arguments, for servers on stdio.
    pub fn command(&self) -> (String, Vec<String>) {
        match &self.address {
            ServerAddress::Http(_) => panic!("an HTTP server has no command"),
            ServerAddress::Stdio { socket, .. } => {
                (crate::relay().to_string_lossy().into_owned(), vec![socket.to_string_lossy().into_owned()])
            }
        }
    }

    /// The keys that make it a server of the gateway's configuration.
    pub fn toml(&self) -> String {
        match &self.address {
            ServerAddress::Http(_) if self.core.script.sse => format!("url = {:?}\ntype = \"sse\"\n", self.url()),
            ServerAddress::Http(_) => format!("url = {:?}\n", self.url()),
            ServerAddress::Stdio { .. } => {
                let (program, args) = self.command();
                format!("command = {program:?}\nargs = {args:?}\n")
            }
        }
    }

    /// The same keys as JSON, as the API wants them.
    pub fn keys(&self) -> Value {
        match &self.address {
            ServerAddress::Http(_) if self.core.script.sse => json!({ "url": self.url(), "type": "sse" }),
            ServerAddress::Http(_) => json!({ "url": self.url() }),
            ServerAddress::Stdio { .. } => {
                let (program, args) = self.command();
                json!({ "command": program, "args": args })
            }
        }
    }

    /// Everything received so far: messages, other HTTP requests, lost clients.
    pub fn received(&self) -> Vec<ReceivedMessage> {
        self.core.received.all()
    }

    /// The record behind [`Server::received`], for places in it and counted waits.
    pub fn record(&self) -> &AwaitedRecord<ReceivedMessage> {
        &self.core.received
    }

    /// How many messages with that method were received.
    pub fn count(&self, method: &str) -> usize {
        self.received().iter().filter(|r| r.method == method).count()
    }

    /// The first received message, past or future, that fits.
    pub async fn wait_for(&self, fits: impl Fn(&ReceivedMessage) -> bool) -> ReceivedMessage {
        self.core.received.wait_for(&format!("a message at server {}", self.core.name), fits).await
    }

    /// The `nth` message (from 1) with that method.
    pub async fn wait_for_method(&self, method: &str, nth: usize) -> ReceivedMessage {
        let what = format!("{method} at server {}", self.core.name);
        self.core.received.wait_for_nth(&what, nth, |r| r.method == method).await
    }

    /// What the peer did that the protocol forbids.
    pub fn faults(&self) -> Vec<String> {
        self.core.faults.all()
    }

    /// Fails unless the peer kept to the protocol.
    pub fn assert_clean(&self) {
        let faults = self.faults();
        assert!(faults.is_empty(), "server {} saw {faults:#?}\nin {}", self.core.name, self.core.received.dump());
    }

    /// Sends a notification outside of any call: to every legacy connection (on HTTP its GET stream, now or when it is
    /// opened) and to every modern subscription that asked for it. Tells how many that were.
    pub fn notify(&self, method: &str, params: impl Into<Value>) -> usize {
        self.core.notify(method, &params.into())
    }

    /// Sends exact bytes the same way, to everyone.
    pub fn notify_raw(&self, message: impl Into<Bytes>) -> usize {
        self.core.notify_raw(&message.into())
    }

    /// Says that a list changed: `tools`, `prompts` or `resources`.
    pub fn list_changed(&self, kind: &str) -> usize {
        self.notify(&format!("notifications/{kind}/list_changed"), json!({}))
    }

    /// Says that a resource changed, to those who subscribed to it.
    pub fn resource_updated(&self, uri: &str) -> usize {
        self.notify("notifications/resources/updated", json!({ "uri": uri }))
    }

    /// Sends a request outside of any call to every legacy connection; the responses show up in [`Server::received`].
    pub fn ask_raw(&self, message: impl Into<Bytes>) -> usize {
        self.core.notify_legacy(&message.into(), |_| true)
    }

    /// Waits until `count` modern subscriptions are open.
    pub async fn wait_listening(&self, count: usize) {
        let mut listens = self.core.listens.subscribe();
        within(&format!("{count} subscriptions at server {}", self.core.name), async {
            let _ = listens.wait_for(|all| all.len() >= count).await;
        })
        .await;
    }

    /// Ends every modern subscription gracefully, with its result.
    pub fn end_listens(&self) {
        self.core.end_listens();
    }

    /// Puts other tools in the place of all.
    pub fn set_tools(&self, tools: Vec<Tool>) {
        self.core.edit(|catalogue| catalogue.tools = tools);
    }

    /// Puts other entries in the place of a whole list: `tools`, `prompts`, `resources` or `resourceTemplates`.
    pub fn set_list(&self, kind: &str, entries: Vec<ScriptedEntry>) {
        self.core.edit(|catalogue| *catalogue.list_mut(kind) = entries);
    }

    /// Makes the next requests of a method fail.
    pub fn fail_next(&self, method: &str, times: usize) {
        self.core.change_mood(method, |mood| mood.failures = times);
    }

    /// From now on holds back every answer to a method, after it was made, for this long.
    pub fn hold_back(&self, method: &str, time: Duration) {
        self.core.change_mood(method, |mood| mood.held_back = Some(time));
    }

    /// Ends what [`Server::fail_next`] and [`Server::hold_back`] began.
    pub fn behave(&self) {
        self.core.forget_moods();
    }

    /// Adds a tool, or replaces the one with its name.
    pub fn put_tool(&self, tool: Tool) {
        self.core.edit(|catalogue| catalogue::put(&mut catalogue.tools, tool));
    }

    /// Takes a tool away.
    pub fn remove_tool(&self, name: &str) {
        self.core.edit(|catalogue| catalogue.tools.retain(|tool| tool.key != name));
    }

    /// Adds a resource, or replaces the one with its URI.
    pub fn put_resource(&self, resource: Resource) {
        self.core.edit(|catalogue| catalogue::put(&mut catalogue.resources, resource));
    }

    /// Takes a resource away.
    pub fn remove_resource(&self, uri: &str) {
        self.core.edit(|catalogue| catalogue.resources.retain(|resource| resource.key != uri));
    }

    /// Adds a resource template, or replaces the same one.
    pub fn put_template(&self, template: Template) {
        self.core.edit(|catalogue| catalogue::put(&mut catalogue.templates, template));
    }

    /// Adds a prompt, or replaces the one with its name.
    pub fn put_prompt(&self, prompt: Prompt) {
        self.core.edit(|catalogue| catalogue::put(&mut catalogue.prompts, prompt));
    }

    /// Takes a prompt away.
    pub fn remove_prompt(&self, name: &str) {
        self.core.edit(|catalogue| catalogue.prompts.retain(|prompt| prompt.key != name));
    }

    /// How often `initialize` was answered.
    pub fn initializes(&self) -> usize {
        self.core.initializes()
    }

    /// The processes that were started to reach a stdio server, dead ones included.
    pub fn processes(&self) -> Vec<ScriptedProcess> {
        self.core.processes.borrow().clone()
    }

    /// Waits until `count` processes were started.
    pub async fn wait_spawned(&self, count: usize) {
        self.wait_processes(&format!("{count} processes"), |all| all.len() >= count).await;
    }

    /// Waits until no process is alive.
    pub async fn wait_all_exited(&self) {
        self.wait_processes("the end of all processes", |all| all.iter().all(|p| !p.alive)).await;
    }

    async fn wait_processes(&self, what: &str, fits: impl Fn(&[ScriptedProcess]) -> bool) {
        let mut processes = self.core.processes.subscribe();
        within(&format!("{what} of server {}", self.core.name), async {
            let _ = processes.wait_for(|all| fits(all)).await;
        })
        .await;
    }

    /// Makes every living process of a stdio server print a line on stderr.
    pub fn print_stderr(&self, line: &str) {
        self.core.print_stderr(line);
    }

    /// Makes every living process of a stdio server print bytes on stdout as they are.
    pub fn print_stdout(&self, bytes: impl Into<Bytes>) {
        self.core.print_stdout(&bytes.into());
    }

    /// Makes every living process of a stdio server exit with a code; a new one can be started at once.
    pub fn exit(&self, code: u8) {
        self.core.exit_processes(code);
    }

    /// Dies: processes exit, or connections and port close. What was going on is lost, sessions included.
    pub async fn kill(&self) {
        self.core.kill().await;
    }

    /// Comes back after [`Server::kill`], at the same address.
    pub async fn revive(&self) {
        // First: whatever is spawned into the life that ended is cancelled at once.
        self.core.renew();
        match &self.address {
            ServerAddress::Http(address) => {
                http::listen(&self.core, Some(*address)).await;
            }
            ServerAddress::Stdio { socket, .. } => stdio::listen(&self.core, socket),
        }
    }

    /// Ends every HTTP session, as a restart behind a load balancer does: the next request gets 404.
    pub fn forget_sessions(&self) {
        self.core.forget_connections();
    }

    /// Closes the GET streams of all sessions; over HTTP+SSE that ends the sessions.
    pub fn close_get_streams(&self) {
        self.core.close_get_streams();
    }

    /// Stops reading and answering.
    pub fn freeze(&self) {
        self.core.frozen.send_replace(true);
    }

    /// Goes on after [`Server::freeze`].
    pub fn thaw(&self) {
        self.core.frozen.send_replace(false);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.core.end_life();
        if std::thread::panicking() {
            eprintln!("server {} received {}", self.core.name, self.core.received.dump());
        }
    }
}
