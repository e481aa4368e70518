//! What can be seen of the engine from outside.

use std::sync::Arc;
use std::time::SystemTime;

use tidings_hub::ServerId;
use tidings_hub::catalogue::CatalogueSnapshot;
pub use tidings_hub::refresh::FailedList;
use tidings_proto::{Era, ListKind, Revision};
use tidings_upstream::{LinkError, ServerHello};

/// Where a server's configuration comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The configuration file.
    File,
    /// Added while the gateway runs, and kept in the store.
    Runtime,
    /// Part of the program; does not count as external.
    BuiltIn,
}

impl Origin {
    /// The word in output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Runtime => "runtime",
            Self::BuiltIn => "built-in",
        }
    }
}

/// How a server is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerState {
    /// A first connection is on its way; nothing is known of the server yet.
    Connecting,
    /// There is a link that answers, and its lists were read.
    Ready,
    /// Not connected; tried again by itself.
    Failing,
    /// Not connected, and not tried again before a person has logged in.
    NeedsLogin,
}

impl ServerState {
    /// The word in output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Ready => "ready",
            Self::Failing => "failing",
            Self::NeedsLogin => "needs login",
        }
    }

    /// The state of a server without a link, by the reason why there is none.
    pub(crate) fn after(error: Option<&LinkError>) -> Self {
        if error.is_some_and(LinkError::needs_login) { Self::NeedsLogin } else { Self::Failing }
    }
}

/// One server at one moment.
#[derive(Clone, Debug)]
pub struct ServerStatus {
    /// Its id, which stays the same for its name as long as the process lives.
    pub id: ServerId,
    /// Its configured name.
    pub name: Arc<str>,
    /// Where its configuration comes from.
    pub origin: Origin,
    /// How it is reached: stdio, http, container, project or built-in.
    pub transport: &'static str,
    /// How it is doing, as users are shown it.
    pub state: ServerState,
    /// When it came into this state.
    pub since: SystemTime,
    /// The last error, kept until it is ready again.
    pub error: Option<String>,
    /// The same, as callers are told: without the server's standard error and what the operator should do.
    pub error_for_clients: Option<String>,
    /// The lists that it failed to give when it was last asked, though it is connected.
    pub failed_lists: Vec<FailedList>,
    /// What it said of itself when it was last connected.
    pub hello: Option<Arc<ServerHello>>,
    /// How often it was connected: a higher number means a reset in between.
    pub connects: u64,
    /// Whether it has listed or failed at least once.
    pub settled: bool,
    /// Whether it is one of the gateway's own that says something to single people only.
    pub is_for_people: bool,
}

impl ServerStatus {
    /// The era it speaks.
    pub fn era(&self) -> Option<Era> {
        self.revision().map(Revision::era)
    }

    /// The revision it speaks.
    pub fn revision(&self) -> Option<Revision> {
        self.hello.as_ref().map(|hello| hello.revision)
    }
}

/// Everything that is known about the servers at one moment.
#[derive(Clone, Debug)]
pub struct Catalogue {
    /// What they offer, merged.
    pub snapshot: Arc<CatalogueSnapshot>,
    /// How they are, in the order of the configuration.
    pub servers: Vec<ServerStatus>,
}

impl Catalogue {
    /// Whether every server has listed or failed.
    pub fn settled(&self) -> bool {
        self.servers.iter().all(|server| server.settled)
    }

    /// Whether there is a server of this name that is not part of the program.
    pub fn has_external(&self, name: &str) -> bool {
        self.servers.iter().any(|server| *server.name == *name && server.origin != Origin::BuiltIn)
    }

    /// Whether every server that is part of the program has listed or failed.
    pub(crate) fn built_ins_settled(&self) -> bool {
        self.servers.iter().filter(|server| server.origin == Origin::BuiltIn).all(|server| server.settled)
    }

    /// The status of one server; `None` when it is not, or no longer, in the set.
    pub fn server(&self, id: ServerId) -> Option<&ServerStatus> {
        self.servers.iter().find(|server| server.id == id)
    }
}

impl ServerStatus {
    /// The lists that it declares and fails to give.
    pub(crate) fn failed_kinds(&self) -> Vec<ListKind> {
        self.failed_lists.iter().map(|list| list.kind).collect()
    }

    /// A server of which nothing is known yet.
    pub(crate) fn first(id: ServerId, name: &str, origin: Origin, transport: &'static str) -> Self {
        Self {
            id,
            name: name.into(),
            origin,
            transport,
            state: ServerState::Connecting,
            since: SystemTime::now(),
            error: None,
            error_for_clients: None,
            failed_lists: Vec::new(),
            hello: None,
            connects: 0,
            settled: false,
            is_for_people: false,
        }
    }

    /// It is in another state.
    pub(crate) fn now_is(&mut self, state: ServerState, error: Option<&LinkError>) {
        self.settled |= state != ServerState::Connecting;
        self.state = state;
        self.since = SystemTime::now();
        // The last error stays visible while the server is connecting again, and goes when it is ready.
        if let Some(error) = error {
            (self.error, self.error_for_clients) = (Some(error.to_string()), Some(error.for_clients()));
        }
        if state == ServerState::Ready {
            (self.error, self.error_for_clients) = (None, None);
        }
        // A link that answers again, or does not, is still the one over which they failed.
        if state == ServerState::Connecting {
            self.failed_lists.clear();
        }
    }

    /// It has connected and listed.
    pub(crate) fn ready(&mut self, hello: Arc<ServerHello>) {
        self.connected(hello, true);
    }

    /// It has listed over a link; whether it is ready depends on how it answers since.
    pub(crate) fn connected(&mut self, hello: Arc<ServerHello>, is_ready: bool) {
        // Every connection has a hello of its own, so a new pointer is a new connection.
        if self.hello.as_ref().is_none_or(|known| !Arc::ptr_eq(known, &hello)) {
            self.connects += 1;
        }
        self.hello = Some(hello);
        self.settled = true;
        if is_ready {
            // A look over the same link must not reset the time since when it is ready.
            if self.state != ServerState::Ready {
                self.since = SystemTime::now();
            }
            self.state = ServerState::Ready;
            (self.error, self.error_for_clients) = (None, None);
        }
    }
}
