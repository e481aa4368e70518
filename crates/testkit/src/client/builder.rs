//! Describing a client.

use std::process::Stdio;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Client, ClientShared, ClientTransport, http, sse, stdio};
use crate::gateway::unread_pipe;
use crate::record::AwaitedRecord;
use crate::revision::{LATEST_LEGACY, MODERN, V2024_11_05, is_modern};
use crate::server::Server;
use crate::tempdir::TempDir;

enum ClientTarget {
    Http {
        url: String,
        headers: Vec<(String, String)>,
    },
    Sse {
        url: String,
        headers: Vec<(String, String)>,
    },
    Stdio {
        program: String,
        args: Vec<String>,
        env: Vec<(String, String)>,
        cwd: Option<std::path::PathBuf>,
        unread: bool,
    },
}

/// A client in the making.
pub struct ClientBuilder {
    target: ClientTarget,
    revision: String,
    capabilities: Value,
    log_level: Option<String>,
    name: String,
    raw: bool,
    keep: Option<TempDir>,
}

impl ClientBuilder {
    fn new(target: ClientTarget) -> Self {
        Self {
            target,
            revision: LATEST_LEGACY.to_owned(),
            capabilities: json!({}),
            log_level: None,
            name: "testkit".to_owned(),
            raw: false,
            keep: None,
        }
    }

    pub(crate) fn http(url: String) -> Self {
        Self::new(ClientTarget::Http { url, headers: Vec::new() })
    }

    pub(crate) fn sse(url: String) -> Self {
        Self::new(ClientTarget::Sse { url, headers: Vec::new() }).revision(V2024_11_05)
    }

    pub(crate) fn stdio(program: String, args: Vec<String>) -> Self {
        Self::new(ClientTarget::Stdio { program, args, env: Vec::new(), cwd: None, unread: false })
    }

    pub(crate) fn of(server: &Server) -> Self {
        if server.is_http() {
            Self::http(server.url())
        } else {
            let (program, args) = server.command();
            Self::stdio(program, args)
        }
    }

    /// Its revision; the modern one means no handshake.
    pub fn revision(mut self, revision: &str) -> Self {
        self.revision = revision.to_owned();
        self
    }

    /// The modern revision.
    pub fn modern(self) -> Self {
        self.revision(MODERN)
    }

    /// What it declares that it can do.
    pub fn capabilities(mut self, capabilities: Value) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// What it calls itself.
    pub fn name(mut self, name: &str) -> Self {
        self.name = name.to_owned();
        self
    }

    /// Modern: the log level of every request.
    pub fn log_level(mut self, level: &str) -> Self {
        self.log_level = Some(level.to_owned());
        self
    }

    /// HTTP: a header of every request.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        match &mut self.target {
            ClientTarget::Http { headers, .. } | ClientTarget::Sse { headers, .. } => {
                headers.push((name.to_owned(), value.to_owned()))
            }
            ClientTarget::Stdio { .. } => panic!("headers are for HTTP"),
        }
        self
    }

    /// stdio: a variable of the process.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        match &mut self.target {
            ClientTarget::Stdio { env, .. } => env.push((name.to_owned(), value.to_owned())),
            ClientTarget::Http { .. } | ClientTarget::Sse { .. } => panic!("variables are for stdio"),
        }
        self
    }

    /// stdio: the directory of the process.
    pub fn directory(mut self, path: impl Into<std::path::PathBuf>) -> Self {
        match &mut self.target {
            ClientTarget::Stdio { cwd, .. } => *cwd = Some(path.into()),
            ClientTarget::Http { .. } | ClientTarget::Sse { .. } => panic!("a directory is for stdio"),
        }
        self
    }

    /// stdio: nobody reads the standard error of the process; writing to it fails.
    pub fn unread_stderr(mut self) -> Self {
        match &mut self.target {
            ClientTarget::Stdio { unread, .. } => *unread = true,
            ClientTarget::Http { .. } | ClientTarget::Sse { .. } => panic!("standard error is for stdio"),
        }
        self
    }

    /// Does no handshake by itself and adds nothing to requests.
    pub fn raw(mut self) -> Self {
        self.raw = true;
        self
    }

    /// Keeps a directory as long as the client lives.
    pub fn keep(mut self, directory: TempDir) -> Self {
        self.keep = Some(directory);
        self
    }

    /// Connects; a legacy client does its handshake.
    pub async fn connect(self) -> Client {
        let shared = Arc::new(ClientShared {
            revision: Mutex::new(self.revision.clone()),
            capabilities: self.capabilities,
            log_level: self.log_level,
            name: self.name,
            received: AwaitedRecord::new(),
            on_request: Mutex::default(),
            ids: AtomicU64::new(1),
            initialize: Mutex::default(),
            life: CancellationToken::new(),
            tasks: TaskTracker::new(),
            followers: Mutex::default(),
            paused: watch::Sender::new(false),
        });
        let transport = match self.target {
            ClientTarget::Http { url, headers } => {
                ClientTransport::Http(http::HttpTransport::new(&url, headers, self.raw))
            }
            ClientTarget::Sse { url, headers } => {
                ClientTransport::Sse(sse::SseTransport::open(&shared, &url, headers, self.raw).await)
            }
            ClientTarget::Stdio { program, args, env, cwd, unread } => {
                let mut command = tokio::process::Command::new(&program);
                command.args(&args).envs(env).stderr(if unread { unread_pipe() } else { Stdio::piped() });
                if let Some(cwd) = cwd {
                    command.current_dir(cwd);
                }
                ClientTransport::Stdio(stdio::StdioTransport::spawn(&shared, command, self.raw))
            }
        };
        let client = Client { shared, transport, _keep: self.keep };
        // The modern era has no handshake; each request stands for itself.
        if !self.raw && !is_modern(&self.revision) {
            client.handshake(&self.revision).await;
        }
        client
    }
}
