//! Clients.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, OnceLock};
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use serde_json::Value;
use tidings_hub::ClientKey;
use tidings_hub::channel::ChannelQueue;
use tidings_hub::client_profile::{ClientProfile, ViewShape};
use tidings_hub::deliveries::HearingTally;
use tidings_hub::ledger::ViewDigests;
use tidings_hub::scope::AccessScope;
use tidings_hub::session_view::SessionView;
use tidings_proto::question::{self, Abilities};
use tidings_proto::{Era, LogLevel, Revision, channel};
use tidings_sync::Lock;
use tidings_wire::{ByteSpan, Frame};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::client::kept_session::KeptFollow;
use crate::client::principal::{Principal, ViewKey};

/// What a session gets that never said which log messages it wants, where a server was asked for more by others.
const UNASKED: LogLevel = LogLevel::Info;

/// Where messages go that belong to no request of the client. Must not block.
pub trait ClientSink: Send + Sync + 'static {
    /// Delivers, or drops by the transport's own rule.
    fn push(&self, message: Bytes);

    /// Something is owed to the client: it is taken with [`crate::Gateway::pass_owed`] when the transport can.
    fn wake(&self);

    /// The client no longer follows a resource, and is answered so after this: what the transport keeps of it for a client that
    /// comes back is dropped.
    fn forget_resource(&self, uri: &str);
}

/// A legacy client between `initialize` and its end.
pub struct Session {
    pub(crate) key: ClientKey,
    pub(crate) revision: Revision,
    pub(crate) principal: Principal,
    pub(crate) since: SystemTime,
    pub(crate) client: SessionClient,
    pub(crate) level: Lock<Option<LogLevel>>,
    pub(crate) sink: Arc<dyn ClientSink>,
    pub(crate) progress: SessionProgress,
    pub(crate) delivery: SessionDelivery,
    /// What is counted on the path of its calls.
    pub(crate) hearing: HearingTally,
    /// What it is sent on the channel, where it asked for that.
    pub(crate) channel: Option<Box<SessionChannel>>,
    pub(crate) own_view: OwnView,
    /// Rings when the session is over.
    pub(crate) over: CancellationToken,
    /// Resources that it followed before the gateway was restarted and does not follow again yet.
    pub(crate) resuming: Lock<Vec<KeptFollow>>,
}

/// What the client of a session said of itself when it began, and what is known of it by that.
pub(crate) struct SessionClient {
    /// What it calls itself, as raw JSON.
    pub(crate) info: Option<Bytes>,
    /// What is known of clients of that name.
    pub(crate) profile: Option<Arc<ClientProfile>>,
    pub(crate) capabilities: Value,
    /// The same in the words of the modern era, from when they are needed.
    modern_capabilities: OnceLock<Bytes>,
}

/// How far a session has come.
#[derive(Default)]
pub(crate) struct SessionProgress {
    /// Whether the client has said that it is ready for notifications.
    pub(crate) initialized: AtomicBool,
    /// Whether it was shown a list before it followed any: what changes in between is owed to it.
    pub(crate) listed_early: AtomicBool,
    /// Its input has ended, so it can answer nothing any more. Written and read under the lock of the open questions.
    pub(crate) silent: AtomicBool,
}

/// What a session is told, on its way to the transport.
#[derive(Default)]
pub(crate) struct SessionDelivery {
    /// Held while what it is owed is taken and handed to its transport.
    pub(crate) delivering: Lock<()>,
    /// When it was last told that a resource changed.
    pub(crate) last_update: Lock<Option<Instant>>,
}

/// What a session is sent on the channel.
#[derive(Default)]
pub(crate) struct SessionChannel {
    /// A leaf: nothing else is taken under it.
    pub(crate) queue: Lock<ChannelQueue>,
    /// Somebody waits to wake its transport when the next message is due.
    pub(crate) is_awaited: AtomicBool,
}

/// What a session, or a person, sees that has links of its own.
#[derive(Default)]
pub(crate) struct OwnView {
    /// Taken before the lock of the announcements; that of a session before that of its person.
    view: Lock<SessionView>,
    /// Changes whenever a look over a link of its own is over.
    pub(crate) looked: watch::Sender<()>,
    /// Lets looks that only gather signals begin at once.
    pub(crate) hurry: Notify,
    /// The hash of a session's own view, from when there is one. Written and read under the lock of the announcements.
    pub(crate) digests: Lock<Option<ViewDigests>>,
}

impl OwnView {
    pub(crate) fn lock(&self) -> MutexGuard<'_, SessionView> {
        self.view.lock()
    }
}

/// What a client tells of itself when it begins.
pub(crate) struct NewSession {
    pub(crate) key: ClientKey,
    pub(crate) revision: Revision,
    pub(crate) principal: Principal,
    pub(crate) info: Option<Bytes>,
    pub(crate) profile: Option<Arc<ClientProfile>>,
    pub(crate) capabilities: Value,
    pub(crate) sink: Arc<dyn ClientSink>,
}

impl Session {
    pub(crate) fn begin(new: NewSession) -> Arc<Self> {
        let NewSession { key, revision, principal, info, profile, capabilities, sink } = new;
        let channel = channel::asked(&capabilities).then(Box::default);
        Arc::new(Self {
            key,
            revision,
            principal,
            since: SystemTime::now(),
            client: SessionClient { info, profile, capabilities, modern_capabilities: OnceLock::new() },
            level: Lock::default(),
            sink,
            progress: SessionProgress::default(),
            delivery: SessionDelivery::default(),
            hearing: HearingTally::default(),
            channel,
            own_view: OwnView::default(),
            over: CancellationToken::new(),
            resuming: Lock::default(),
        })
    }

    /// What it can be asked.
    pub(crate) fn abilities(&self) -> Abilities {
        Abilities::read(&self.client.capabilities, self.revision)
    }

    /// What a modern server is told of its capabilities with each request.
    pub(crate) fn modern_capabilities(&self) -> &Bytes {
        let SessionClient { capabilities, modern_capabilities, .. } = &self.client;
        modern_capabilities.get_or_init(|| question::declared_to_modern(capabilities, self.revision).into())
    }

    pub(crate) fn view(&self) -> MutexGuard<'_, SessionView> {
        self.own_view.lock()
    }

    pub(crate) fn view_key(&self) -> ViewKey {
        ViewKey { revision: self.revision, scope: self.principal.scope.clone(), shape: self.shape().cloned() }
    }

    /// What the profile of its client makes of what it sees.
    pub(crate) fn shape(&self) -> Option<&Arc<ViewShape>> {
        self.client.profile.as_ref()?.shape.as_ref()
    }

    pub(crate) fn resuming(&self) -> MutexGuard<'_, Vec<KeptFollow>> {
        self.resuming.lock()
    }

    /// Takes a resource out of those that are to be followed again; tells whether it was one.
    pub(crate) fn stop_resuming(&self, uri: &str) -> bool {
        let mut resuming = self.resuming();
        let before = resuming.len();
        resuming.retain(|follow| follow.uri != uri);
        resuming.len() < before
    }

    pub(crate) fn is_resuming(&self, uri: &str) -> bool {
        self.resuming().iter().any(|follow| follow.uri == uri)
    }

    /// The revision that was agreed on.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Whose session it is.
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// What its client calls itself.
    pub(crate) fn name(&self) -> Option<String> {
        // Parsed each time: it is asked for by people and once per list, never on the path of a call.
        let info: Value = serde_json::from_slice(self.client.info.as_ref()?).ok()?;
        info.get("name")?.as_str().map(str::to_owned)
    }

    pub(crate) fn is_initialized(&self) -> bool {
        self.progress.initialized.load(Ordering::Relaxed)
    }

    pub(crate) fn level(&self) -> Option<LogLevel> {
        *self.level.lock()
    }

    /// Whether a log message of this level is wanted. `asked`: what the server was asked for because of others, if it was.
    pub(crate) fn wants(&self, level: Option<LogLevel>, asked: Option<LogLevel>) -> bool {
        match (self.level(), level) {
            (Some(least), Some(level)) => level >= least,
            // It has not said what it wants, and would not have got what only others asked for.
            (None, Some(level)) if asked.is_some() => level >= UNASKED,
            // A message without a level can not be filtered, and a session that asked for nothing gets everything.
            _ => true,
        }
    }
}

/// A modern client, as far as one request tells.
pub struct ModernCaller {
    /// The connection, on stdio; over HTTP unique to this exchange: ids of different exchanges never meet.
    pub key: ClientKey,
    /// Whether it may name this request by its id later on. Over HTTP it can only close the stream.
    pub names_its_calls: bool,
    /// The revision that the request names in its `_meta`.
    pub revision: Revision,
    /// Who is asking, as the transport found out.
    pub principal: Principal,
    /// Log messages it wants for this request.
    pub log_level: Option<LogLevel>,
    /// Where its capabilities stand in the request.
    pub capabilities: ByteSpan,
    /// What is known of the client that it says it is.
    pub profile: Option<Arc<ClientProfile>>,
}

/// Through whose eyes the catalogue is seen.
#[derive(Clone, Copy)]
pub(crate) struct Viewer<'a> {
    pub(crate) principal: &'a Principal,
    /// The session, which may have connections of its own.
    pub(crate) session: Option<&'a Arc<Session>>,
    /// What the profile of the client makes of it.
    pub(crate) shape: Option<&'a Arc<ViewShape>>,
}

impl<'a> Viewer<'a> {
    /// Somebody for whom names and schemas of tools are no matter.
    pub(crate) fn of_resources(principal: &'a Principal, session: Option<&'a Arc<Session>>) -> Self {
        Self { principal, session, shape: None }
    }

    /// A session, or whoever has none.
    pub(crate) fn of_caller(principal: &'a Principal, session: Option<&'a Arc<Session>>) -> Self {
        Self { principal, session, shape: session.and_then(|session| session.shape()) }
    }
}

/// A legacy client, and what the token of one of its requests has.
#[derive(Clone)]
pub struct SessionCaller {
    session: Arc<Session>,
    /// What the token of this request has, where it is another than the one that the session began with. What the client sees stays
    /// that of the session, which is told of its changes; scopes that it came back with count for this request.
    widened: Option<AccessScope>,
}

impl SessionCaller {
    /// A request of this session that came with a token of the same person ([`Principal::is_widened_by`]).
    pub fn with_token(session: &Arc<Session>, principal: &Principal) -> Self {
        let widened = (principal.scope != session.principal.scope).then(|| principal.scope.clone());
        Self { session: Arc::clone(session), widened }
    }
}

impl From<Arc<Session>> for SessionCaller {
    fn from(session: Arc<Session>) -> Self {
        Self { session, widened: None }
    }
}

impl Deref for SessionCaller {
    type Target = Arc<Session>;

    fn deref(&self) -> &Arc<Session> {
        &self.session
    }
}

/// Who sent a request.
#[derive(Clone)]
pub enum Caller {
    /// A legacy client, in its session.
    Legacy(SessionCaller),
    /// A modern client: the request stands for itself.
    Modern(Arc<ModernCaller>),
}

impl Caller {
    pub(crate) fn viewer(&self) -> Viewer<'_> {
        Viewer { principal: self.principal(), session: self.session(), shape: self.shape() }
    }

    pub(crate) fn view_key(&self) -> ViewKey {
        ViewKey { revision: self.revision(), scope: self.principal().scope.clone(), shape: self.shape().cloned() }
    }

    /// What is known of the client.
    #[inline]
    pub(crate) fn profile(&self) -> Option<&Arc<ClientProfile>> {
        match self {
            Self::Legacy(session) => session.client.profile.as_ref(),
            Self::Modern(caller) => caller.profile.as_ref(),
        }
    }

    /// What its profile makes of what it sees.
    #[inline]
    pub(crate) fn shape(&self) -> Option<&Arc<ViewShape>> {
        self.profile()?.shape.as_ref()
    }

    pub(crate) fn key(&self) -> ClientKey {
        match self {
            Self::Legacy(session) => session.key,
            Self::Modern(caller) => caller.key,
        }
    }

    /// Whether the client may name a request by its id after it was sent, to cancel it.
    pub(crate) fn names_its_calls(&self) -> bool {
        match self {
            Self::Legacy(_) => true,
            Self::Modern(caller) => caller.names_its_calls,
        }
    }

    /// The session, where there is one.
    pub(crate) fn session(&self) -> Option<&Arc<Session>> {
        match self {
            Self::Legacy(session) => Some(session),
            Self::Modern(_) => None,
        }
    }

    pub(crate) fn revision(&self) -> Revision {
        match self {
            Self::Legacy(session) => session.revision,
            Self::Modern(caller) => caller.revision,
        }
    }

    pub(crate) fn era(&self) -> Era {
        self.revision().era()
    }

    pub(crate) fn principal(&self) -> &Principal {
        match self {
            Self::Legacy(session) => &session.principal,
            Self::Modern(caller) => &caller.principal,
        }
    }

    /// The scopes of the token that came with the request.
    pub(crate) fn token_scopes(&self) -> &BTreeSet<String> {
        let scope = match self {
            Self::Legacy(SessionCaller { widened: Some(widened), .. }) => widened,
            _ => &self.principal().scope,
        };
        &scope.facts().scopes
    }

    /// What it declares that it can do: a modern one in each request.
    pub(crate) fn capabilities(&self, request: &Frame) -> Value {
        match self {
            Self::Legacy(session) => session.client.capabilities.clone(),
            // Admission has checked that it is there; what is no JSON declares nothing.
            Self::Modern(caller) => serde_json::from_slice(request.raw(caller.capabilities)).unwrap_or_default(),
        }
    }

    /// Whether a log message of this level may be sent. A modern request that asked for none gets none.
    pub(crate) fn wants(&self, level: Option<LogLevel>, asked: Option<LogLevel>) -> bool {
        match self {
            Self::Legacy(session) => session.wants(level, asked),
            Self::Modern(caller) => match (caller.log_level, level) {
                (Some(least), Some(level)) => level >= least,
                (Some(_), None) => true,
                // Modern requests opt in: without a level in the request no log message may be sent.
                (None, _) => false,
            },
        }
    }
}
