//! What the engine is told to run.

pub(crate) mod approval;
pub(crate) mod limit_desk;
pub(crate) mod seal_key;
pub(crate) mod surroundings;

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidings_hub::ServerId;
use tidings_hub::calls::CallLimits;
use tidings_hub::catalogue::OfferExposure;
use tidings_hub::client_profile::{ClientProfile, ClientProfiles};
use tidings_hub::ledger::Topics;
use tidings_hub::own_links::OwnLinkLimits;
use tidings_hub::parks::ParkLimits;
use tidings_hub::refresh::RefreshPace;
use tidings_hub::scope::ServerAudience;
use tidings_hub::subscriptions::NoticePace;
use tidings_proto::gateway_path::GatewayPath;
use tidings_proto::{FieldView, LocalName, Revision};
use tidings_upstream::{ConnectedLink, MessageSink, PeopleLogins, ServerSpec, SharedCredential, TransportSpec};
use tokio::sync::watch;

use crate::observe::journal::JournalServer;
use crate::observe::status::{Origin, ServerStatus};
use crate::plan::approval::ApprovalPlan;
use crate::plan::seal_key::SealKey;
use crate::plan::surroundings::Surroundings;

/// Settings of the whole gateway.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long anything is waited for.
    pub waits: WaitLimits,
    /// How lists are cut into pages.
    pub pages: ListPages,
    /// What older clients are shown.
    pub view: FieldView,
    /// How names are made.
    pub names: Names,
    /// How signals of one server's lists are gathered.
    pub list_pace: RefreshPace,
    /// How changes of one resource are gathered.
    pub resource_pace: NoticePace,
    /// How often servers that do not announce changes are listed again.
    pub poll_interval: Duration,
    /// Who is told of changes of lists.
    pub announcements: ListAnnouncements,
    /// What is known of clients by what they call themselves.
    pub clients: ClientProfiles,
    /// Bounds on links that one session or principal has for itself.
    pub own_links: OwnLinkLimits,
    /// Bounds on calls in flight.
    pub limits: CallLimits,
    /// Bounds on calls that wait for their clients.
    pub parks: ParkLimits,
    /// Seals what clients carry for the gateway.
    pub seal_key: SealKey,
    /// The version of the gateway, as servers and clients are told it.
    pub version: &'static str,
    /// The id of this gateway and of those ahead of it, by which loops are noticed.
    pub path: GatewayPath,
}

/// How long the gateway waits for servers.
#[derive(Clone, Copy, Debug)]
pub struct WaitLimits {
    /// How long first lists wait for servers to settle.
    pub start: Duration,
    /// How long a server that is added may take to start and to list what it has.
    pub added: Duration,
    /// How long a call may be silent.
    pub silence: Duration,
    /// How long a call may run.
    pub call: Duration,
}

/// How the gateway cuts the lists of clients into pages.
#[derive(Clone, Copy, Debug)]
pub struct ListPages {
    /// Items per page.
    pub size: usize,
    /// Where a cursor belongs to one state of its list: how many items a client may ask for at once.
    pub longest_bound: Option<usize>,
}

/// Which clients are told of changes of lists.
#[derive(Clone, Debug, Default)]
pub struct ListAnnouncements {
    /// Whether a fresh legacy session is told of every list once.
    pub initially: bool,
    /// Revisions that are told of no change.
    pub silent: Vec<Revision>,
    /// Whether the result of a call says once that its client's list of tools is old, where the client's profile does not say.
    pub hints: bool,
}

impl ListAnnouncements {
    /// Whether the results of a client's calls say that its list of tools is old.
    pub(crate) fn hints_to(&self, profile: Option<&ClientProfile>) -> bool {
        profile.and_then(|profile| profile.hint).unwrap_or(self.hints)
    }

    /// The lists of whose changes a client is told. A revision that is told of none may have clients that are known to listen.
    pub(crate) fn told_to(&self, revision: Revision, profile: Option<&ClientProfile>) -> Topics {
        match self.silent.contains(&revision) {
            false => Topics::ALL,
            true => profile.map(|profile| profile.hears.lists).unwrap_or_default(),
        }
    }
}

/// Where a server can speak about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallChannel {
    /// On a stream that is the call's alone.
    OwnStream,
    /// On such a stream, and on another one that names no call (legacy Streamable HTTP).
    OwnStreamAndPush,
    /// On one pipe or stream with everything else (stdio, HTTP+SSE).
    SharedPipe,
}

impl ServerPlan {
    /// Who may use the server.
    pub(crate) fn audience(&self) -> ServerAudience {
        match &self.source {
            Source::Local(local) => local.audience(),
            Source::Remote(_) | Source::Unready(_) => ServerAudience::ByName,
        }
    }

    /// What becomes of its tools where a client chooses which ones are listed.
    pub(crate) fn exposure(&self) -> OfferExposure {
        match &self.source {
            Source::Local(local) => local.exposure(),
            Source::Remote(_) | Source::Unready(_) => OfferExposure::Ordinary,
        }
    }

    /// Whether it is part of the program.
    pub(crate) fn is_built_in(&self) -> bool {
        self.origin == Origin::BuiltIn
    }

    /// The server as the record of changes names it.
    pub(crate) fn in_journal(&self) -> JournalServer {
        JournalServer { name: self.name.as_str().into(), built_in: self.is_built_in() }
    }

    /// Whether it is one of the gateway's own that says something to single people only.
    pub(crate) fn is_for_people(&self) -> bool {
        self.is_built_in() && self.isolation == Isolation::Principal
    }

    /// What is shown of the server while nothing is known of it yet.
    pub(crate) fn first_status(&self, id: ServerId) -> ServerStatus {
        ServerStatus {
            is_for_people: self.is_for_people(),
            ..ServerStatus::first(id, &self.name, self.origin, self.source.transport())
        }
    }
}

/// How public names are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// A server that is alone at the start keeps its names; several are prefixed.
    Auto,
    /// Every name has its server's prefix, also with one server.
    Prefix,
    /// Never, except where two collide.
    None,
}

/// One server to run.
#[derive(Clone)]
pub struct ServerPlan {
    /// How to reach it.
    pub source: Source,
    /// Where it was configured.
    pub origin: Origin,
    /// Its configured name.
    pub name: String,
    /// What stands before its tool and prompt names.
    pub name_prefix: String,
    /// What stands before the schemes of its URIs.
    pub uri_prefix: String,
    /// Whether its URIs are shown as they are.
    pub transparent_uris: bool,
    /// Who shares a connection.
    pub isolation: Isolation,
    /// How long its calls may take.
    pub call_times: CallTimes,
    /// How often it is listed again, if it differs; then resources that it does not tell of are read as often.
    pub poll_interval: Option<Duration>,
    /// Whether its tools are listed; they can be called either way.
    pub listed: bool,
    /// Which of its tools are there at all.
    pub permits: Arc<dyn Fn(&LocalName) -> bool + Send + Sync>,
    /// Whether rules believe what its tools say they do.
    pub trusts_annotations: bool,
    /// Which of its definitions somebody has to approve, if any.
    pub approval: Option<ApprovalPlan>,
    /// What it is, in one line of the lock file: how it is reached, without secrets.
    pub identity: Option<String>,
    /// Which replica of a cluster runs it.
    pub placement: ServerPlacement,
}

/// How long calls of one server may take, where that differs from all others.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallTimes {
    /// How long a call may be silent.
    pub silence: Option<Duration>,
    /// How long a call may run.
    pub call: Option<Duration>,
}

/// Where a server runs when there are several replicas.
#[derive(Clone, Debug, Default)]
pub struct ServerPlacement {
    /// Labels that a replica must have to run it.
    pub labels: Vec<String>,
    /// Whether a replica that is cut off from the others ends it, so that there is never a second one.
    pub stops_alone: bool,
}

/// How a server is reached.
#[derive(Clone)]
pub enum Source {
    /// Outside this process: a child process, a container or a URL.
    Remote(ServerSpec),
    /// Inside this process: a built-in server, the watches, or a script project.
    Local(Arc<dyn LocalServer>),
    /// Not to be had for now: what it needs is missing, or it must not be used. Every attempt to connect asks again.
    Unready(Arc<dyn Unready>),
}

impl Source {
    /// Whether its list of resources tells of their content.
    pub(crate) fn lists_details(&self) -> bool {
        matches!(self, Self::Local(server) if server.lists_details())
    }

    /// Whether something must be got before it can be started, which may take minutes ([`crate::Gateway::prepare`]).
    pub fn needs_preparing(&self) -> bool {
        matches!(self, Self::Remote(ServerSpec { transport: TransportSpec::Container(_), .. }))
    }

    /// Who logs in to it, if anybody does.
    pub(crate) fn credential(&self) -> Option<&SharedCredential> {
        match self {
            Self::Remote(ServerSpec { transport: TransportSpec::Http(http) | TransportSpec::Sse(http), .. }) => {
                http.credential.as_ref()
            }
            _ => None,
        }
    }

    /// How many people are logged in to it, where each logs in for themselves.
    pub(crate) fn people(&self) -> Option<PeopleLogins> {
        self.credential().filter(|credential| credential.0.is_personal()).map(|credential| credential.0.people())
    }

    /// Why a person has to log in to it, as far as is known, and when that is otherwise. `None` where each replica has tokens of its own.
    pub(crate) fn login_need(&self) -> Option<watch::Receiver<Option<String>>> {
        self.credential().and_then(|credential| credential.0.need())
    }

    /// What whoever runs the gateway should know of it, or of the login to it, though it works.
    pub(crate) fn warning(&self) -> Option<String> {
        match self {
            Self::Local(server) => server.warning(),
            _ => self.credential().and_then(|credential| credential.0.warning()).map(str::to_owned),
        }
    }

    /// How it is reached, in a word.
    pub fn transport(&self) -> &'static str {
        match self {
            Self::Local(server) => server.kind(),
            Self::Unready(unready) => unready.transport(),
            Self::Remote(spec) => match spec.transport {
                TransportSpec::Stdio(_) => "stdio",
                TransportSpec::Http(_) => "http",
                TransportSpec::Sse(_) => "sse",
                TransportSpec::Container(_) => "container",
            },
        }
    }
}

/// Why a server can not be run as it is configured: a fact of whoever plans servers, which alone knows the configuration.
pub type UnreadyReason = Box<dyn Error + Send + Sync>;

/// A server that can not be run as it is configured.
pub trait Unready: Send + Sync + 'static {
    /// What it is by now, or why it can not be used.
    fn try_again(&self) -> Result<Arc<dyn LocalServer>, UnreadyReason>;

    /// How it would be reached, in a word.
    fn transport(&self) -> &'static str;
}

/// A server inside the process: it makes links like any other.
pub trait LocalServer: Send + Sync + 'static {
    /// Makes a new link that delivers to `sink`. Must not block; each call makes a link of its own.
    fn connect(&self, sink: Arc<dyn MessageSink>, surroundings: Surroundings) -> ConnectedLink;

    /// What it is, in a word.
    fn kind(&self) -> &'static str {
        "built-in"
    }

    /// Who may use it. Whoever may not does not know that it is there.
    fn audience(&self) -> ServerAudience {
        ServerAudience::ByName
    }

    /// What becomes of its tools where a client chooses which ones are listed.
    fn exposure(&self) -> OfferExposure {
        OfferExposure::Ordinary
    }

    /// Whether its list of resources tells of their content (`size`, `lastModified`): then the list is made anew for whoever asks,
    /// and what such a detail says is no change of the list.
    fn lists_details(&self) -> bool {
        false
    }

    /// What whoever runs the gateway should know of it, though it works.
    fn warning(&self) -> Option<String> {
        None
    }

    /// How long changes of one of its resources are gathered.
    fn patience(&self, _uri: &str) -> Patience {
        Patience::default()
    }
}

/// How long changes of a resource are gathered, where it differs from the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Patience {
    /// How long it has to be quiet.
    pub quiet: Option<Duration>,
    /// How long an announcement may be put off.
    pub max_wait: Option<Duration>,
}

/// Who shares a connection to a legacy server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Everybody shares one connection.
    #[default]
    Auto,
    /// Nobody: one connection per session.
    Session,
    /// The clients of one person, whatever they speak: one connection per principal.
    Principal,
}

impl Isolation {
    /// Whether everybody's calls go over one connection.
    pub(crate) fn is_shared(self) -> bool {
        self == Self::Auto
    }
}

impl fmt::Debug for ServerPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerPlan").field("name", &self.name).finish_non_exhaustive()
    }
}
