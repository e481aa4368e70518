//! What the gateway answers by itself: introductions, lists, levels.

use std::sync::Arc;
use std::time::Instant;

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Value, json};
use tidings_hub::ServerId;
use tidings_hub::catalogue::{CatalogueSnapshot, LIST_END};
use tidings_hub::client_profile::ClientProfile;
use tidings_hub::ledger::Topic;
use tidings_proto::capabilities::{CapabilityReader, OfferedCapabilities, OnlyServer};
use tidings_proto::outcome::ClientAnswer;
use tidings_proto::refusal::RequestRefusal;
use tidings_proto::{Era, ListKind, LogLevel, Revision, capabilities, channel, extensions, identity, meta, task};
use tidings_wire::{Frame, Payload, RawId, encode_string};

use crate::call::RequestRouter;
use crate::client::principal::Principal;
use crate::client::session::NewSession;
use crate::client::session::{Caller, ClientSink, ModernCaller, Session};
use crate::notify::summary;
use crate::observe::status::{Catalogue, Origin, ServerStatus};
use crate::servers::gateway_loop::list_meta;

impl RequestRouter {
    /// Answers `initialize`: opens a session of the revision that the client asks for, or of the latest.
    pub(crate) async fn initialize(
        &self,
        frame: &Frame,
        id: &RawId,
        principal: &Principal,
        sink: Arc<dyn ClientSink>,
    ) -> Result<(Arc<Session>, ClientAnswer), RequestRefusal> {
        let gateways = self.pool.asking_gateways(frame)?;
        let revision = match frame.param(&["protocolVersion"]) {
            // Scripts that speak to a server by hand leave it out.
            None => Revision::LATEST_LEGACY,
            Some(_) => Revision::negotiate(
                &frame
                    .param_str(&["protocolVersion"])
                    .ok_or_else(|| RequestRefusal::InvalidParams("params.protocolVersion must be a string".into()))?,
            ),
        };
        // A client that leaves them out can do nothing; it is let in all the same.
        let declared = frame.param(&["capabilities"]).map(|at| frame.raw(at)).unwrap_or(b"{}");
        let info = frame.param(&["clientInfo"]).map(|at| Bytes::copy_from_slice(frame.raw(at)));
        let session = Session::begin(NewSession {
            key: self.sessions.new_client(),
            revision,
            principal: principal.clone(),
            profile: info.as_deref().and_then(|info| self.runtime.profile_of(info)),
            info,
            // Capabilities that are no JSON object count as none: what a client can not express it is not asked for.
            capabilities: serde_json::from_slice(declared).unwrap_or_else(|_| json!({})),
            sink,
        });
        // A server that is alone speaks for itself, so it must have spoken.
        if self.pool.has_passthrough(principal) {
            self.wait_started(principal).await;
        }
        let mut result = self.introduction_for(&session);
        if let Some(gateways) = gateways {
            result["_meta"] = json!({ meta::GATEWAYS: gateways });
        }
        // Where the client is told of nothing, nothing would come.
        let told = self.runtime.settings.announcements.told_to(revision, session.client.profile.as_deref());
        if session.channel.is_some() && !told.is_empty() {
            channel::declare(&mut result);
        }
        // Last: whoever is refused, or went away while the server was waited for, leaves no session behind.
        self.sessions.insert(&session);
        Ok((session, ClientAnswer::result(id, result.to_string().as_bytes())))
    }
}

impl RequestRouter {
    /// Waits, but not for long, until the servers of the start have said what they have: as far as somebody asks for them.
    async fn wait_started(&self, principal: &Principal) {
        let only = principal.scope.alone().and_then(|_| self.pool.passthrough_for(principal));
        match only {
            // Whoever asks for one server waits for no other.
            Some(only) => self.wait_spoken(only).await,
            None => self.catalogue.wait_settled().await,
        }
    }

    /// Waits, but not for long, until one server of the start has said what it has.
    pub(super) async fn wait_spoken(&self, server: ServerId) {
        let mut catalogue = self.catalogue.subscribe();
        let spoken = catalogue.wait_for(|known| known.server(server).is_none_or(|server| server.settled));
        // Late or not, what is known then is the answer.
        let _ = tokio::time::timeout_at(self.catalogue.start_deadline().into(), spoken).await;
    }

    /// The server that speaks for itself, where there is one and the client may know of it.
    fn alone<'c>(&self, catalogue: &'c Catalogue, principal: &Principal) -> Option<&'c ServerStatus> {
        let alone = self.pool.passthrough_for(principal).filter(|id| self.is_seen_by(principal, *id));
        alone.and_then(|id| catalogue.server(id)).filter(|server| server.hello.is_some())
    }

    fn is_seen_by(&self, principal: &Principal, server: ServerId) -> bool {
        self.pool.server(server).is_some_and(|server| self.pool.shows(principal, &server))
    }

    /// The capabilities of a client that is told ours.
    fn told(&self, revision: Revision, profile: Option<&ClientProfile>, declared: &Value) -> CapabilityReader {
        let topics = self.runtime.settings.announcements.told_to(revision, profile);
        let announced = Topic::ALL.map(|topic| topics.contains(topic));
        CapabilityReader { revision, announced, asks_changes: summary::asked(declared) }
    }

    /// The extensions of a server that is alone are passed through. Others may have come since it was.
    fn speaks_for_itself<'c>(&self, catalogue: &'c Catalogue, principal: &Principal) -> Option<OnlyServer<'c>> {
        let is_external = |server: &&ServerStatus| server.origin != Origin::BuiltIn;
        // Passing extensions through is right only while every one of them can mean that one server.
        let several = principal.scope.alone().is_none() && catalogue.servers.iter().filter(is_external).count() > 1;
        let hello = self.alone(catalogue, principal).filter(|_| !several)?.hello.as_ref()?;
        Some(OnlyServer { capabilities: &hello.capabilities, era: hello.revision.era() })
    }

    fn introduction_for(&self, session: &Session) -> Value {
        let (principal, revision, client) = (&session.principal, session.revision, &session.client.capabilities);
        let catalogue = self.catalogue.current();
        let told = self.told(revision, session.client.profile.as_deref(), client);
        let seen = catalogue.servers.iter().filter(|server| self.is_seen_by(principal, server.id));
        let offered = seen.filter_map(|server| self.offered(server));
        let declared = match self.alone(&catalogue, principal).and_then(|server| server.hello.as_ref()) {
            // It was alone at the start; others may have come since.
            Some(_) => capabilities::for_client(offered, self.speaks_for_itself(&catalogue, principal), told),
            // Legacy capabilities are told once and hold for the session, so they name everything that servers may
            // offer later.
            None => {
                let mut carried = extensions::carried(offered.map(|server| server.capabilities), revision.era());
                if self.catalogue.starting() {
                    // Who is not there yet may have what the client asks for: it could not be told later.
                    let asked = extensions::carried_of(client, revision.era());
                    for (id, settings) in extensions::promised(&asked) {
                        carried.entry(id).or_insert(settings);
                    }
                }
                capabilities::frozen(told, carried)
            }
        };
        let mut declared = declared;
        if revision.has_execution() && self.promises_tasks(&catalogue, principal) {
            declared["tasks"] = json!({ "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } });
        }
        let mut result = json!({
            "protocolVersion": revision.as_str(),
            "capabilities": declared,
            "serverInfo": self.server_info(&catalogue, principal, revision),
        });
        if let Some(text) = self.instructions(&catalogue, principal) {
            result["instructions"] = text.into();
        }
        result
    }

    /// Whether some server runs calls as tasks, of either kind, or may when it is there.
    fn promises_tasks(&self, catalogue: &Catalogue, principal: &Principal) -> bool {
        let seen = catalogue.servers.iter().filter(|server| self.is_seen_by(principal, server.id));
        let has = seen.filter_map(|server| server.hello.as_ref()).any(|hello| task::declares_any(&hello.capabilities));
        has || self.catalogue.starting()
    }

    fn offered<'c>(&self, server: &'c ServerStatus) -> Option<OfferedCapabilities<'c>> {
        if server.is_for_people && !self.pool.has_personal() {
            // It has nothing to list where nobody logs in for themselves, so it must not declare that it had.
            return None;
        }
        let polled = self.pool.server(server.id).is_some_and(|server| server.polls_resources().is_some());
        Some(OfferedCapabilities { capabilities: &server.hello.as_ref()?.capabilities, polled })
    }

    /// Answers `server/discover`: what a modern client is told instead of a handshake. Waits for servers that are
    /// starting.
    pub(crate) async fn discover(
        &self,
        caller: &ModernCaller,
        client: &Value,
        frame: &Frame,
        id: &RawId,
    ) -> Result<ClientAnswer, RequestRefusal> {
        let (principal, revision) = (&caller.principal, caller.revision);
        // Refused before anything is waited for: a gateway that asks itself would wait for its own answer.
        let gateways = self.pool.asking_gateways(frame)?;
        self.wait_started(principal).await;
        if let Some(fleet) = &self.runtime.fleet {
            fleet.read().await;
        }
        let catalogue = self.catalogue.current();
        let alone = self.speaks_for_itself(&catalogue, principal);
        let seen = catalogue.servers.iter().filter(|server| self.is_seen_by(principal, server.id));
        let offered = seen.filter_map(|server| self.offered(server));
        let mut result = json!({
            "resultType": "complete",
            "supportedVersions": Revision::of_era(Era::Modern).map(Revision::as_str).collect::<Vec<_>>(),
            "capabilities": capabilities::for_client(offered, alone, self.told(revision, caller.profile.as_deref(), client)),
            // The answer changes with every server that comes or goes.
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": { meta::SERVER_INFO: self.server_info(&catalogue, principal, revision) },
        });
        if let Some(text) = self.instructions(&catalogue, principal) {
            result["instructions"] = text.into();
        }
        if let Some(gateways) = gateways {
            result["_meta"][meta::GATEWAYS] = json!(gateways);
        }
        Ok(ClientAnswer::result(id, result.to_string().as_bytes()))
    }

    pub(crate) fn server_info(&self, catalogue: &Catalogue, principal: &Principal, revision: Revision) -> Value {
        match self.alone(catalogue, principal).and_then(|server| server.hello.as_ref()) {
            Some(hello) if hello.info.get("name").is_some() => identity::server_info(&hello.info, revision),
            _ => identity::gateway_info(self.runtime.settings.version, revision),
        }
    }

    fn instructions(&self, catalogue: &Catalogue, principal: &Principal) -> Option<String> {
        if let Some(server) = self.alone(catalogue, principal) {
            return server.hello.as_ref().and_then(|hello| hello.instructions.clone());
        }
        let servers = self.pool.servers();
        let parts: Vec<(&str, &str, &str)> = catalogue
            .servers
            .iter()
            .filter_map(|status| {
                let text = status.hello.as_ref()?.instructions.as_deref()?;
                let server = servers.get(status.id).filter(|server| self.pool.shows(principal, server))?;
                Some((&*server.plan.name, &*server.plan.name_prefix, text))
            })
            .collect();
        identity::merge_instructions(parts)
    }

    /// Answers a list, from the catalogue.
    pub(crate) async fn list(
        &self,
        caller: &Caller,
        frame: &Frame,
        kind: ListKind,
        id: &RawId,
    ) -> Result<ClientAnswer, RequestRefusal> {
        // A client that lists right after the start would otherwise get a short list, and a notice a moment later.
        if self.catalogue.starting() {
            self.wait_started(caller.principal()).await;
        }
        // In a cluster: nothing older than what the client may have been told by another replica.
        let confirmed = match &self.runtime.fleet {
            None => true,
            Some(fleet) => fleet.read().await,
        };
        if let Caller::Legacy(session) = caller {
            // Before the list is read: a change between the two must be owed.
            self.notifier.follow_before_listing(session);
        }
        let revision = caller.revision();
        // The cursor is opened before anything is waited for: a broken one is refused at once.
        let after = match frame.param(&["cursor"]) {
            None => None,
            Some(at) => Some(
                tidings_wire::string_at(frame.bytes(), at)
                    .and_then(|cursor| self.sealer.open_cursor(kind, revision, &cursor))
                    .ok_or(RequestRefusal::InvalidCursor)?,
            ),
        };
        // Read your writes (invariant 13): a list that is marked is looked at now.
        self.discovery.refresh_list(caller.viewer(), kind).await;
        if after.is_none() {
            self.notifier.note_listing(caller, frame, kind);
        }
        let snapshot = self.discovery.shown_view_of(caller.viewer()).await;
        let listing = snapshot.listing(kind, revision);
        let after = self.place(after, listing)?;
        let page = listing.page(after.as_ref(), self.page_size(caller, frame));
        let mut out = BytesMut::with_capacity(128);
        out.put_slice(br#"{"jsonrpc":"2.0","id":"#);
        out.put_slice(id.as_str().as_bytes());
        // The items come last: what follows them is then the same in all answers, and is shared as they are.
        out.put_slice(br#","result":{"#);
        if let Some(next) = &page.next {
            out.put_slice(br#""nextCursor":"#);
            out.put_slice(
                encode_string(&self.sealer.seal_cursor(kind, revision, &self.bound(next, listing))).as_bytes(),
            );
            out.put_u8(b',');
        }
        if let Some(total) = self.total(listing) {
            out.put_slice(total.as_bytes());
        }
        if revision.era() == Era::Modern {
            // What some may see and others not is kept for nobody else.
            let scope = if listing.public && caller.principal().is_anybody() { "public" } else { "private" };
            let ttl_ms = if confirmed { self.still_fresh(&snapshot, kind, listing.ttl_ms) } else { 0 };
            let hints = format!(r#""resultType":"complete","ttlMs":{ttl_ms},"cacheScope":"{scope}","#);
            out.put_slice(hints.as_bytes());
        }
        if let Some(gateways) = self.pool.asking_gateways(frame)? {
            out.put_slice(list_meta(&gateways).as_bytes());
        }
        out.put_u8(b'"');
        out.put_slice(kind.member().as_bytes());
        out.put_slice(br#"":["#);
        // The items are those of every client with this view: they are shared, not copied.
        let (items, end) = match page.closed {
            Some(closed) => (closed, Bytes::new()),
            None => (page.items, Bytes::from_static(LIST_END)),
        };
        Ok(ClientAnswer { payload: Payload::around(out.freeze(), items, end), error: None })
    }

    /// How long a list is still fresh: what its servers say of it, less the time since they said it.
    fn still_fresh(&self, snapshot: &CatalogueSnapshot, kind: ListKind, ttl_ms: u64) -> u64 {
        if ttl_ms == 0 {
            return 0;
        }
        let now = Instant::now();
        // A built-in server that shows nothing says nothing about how long the list is fresh.
        let shown = snapshot.offers().iter().filter(|offer| offer.shows(kind));
        let servers = shown.filter_map(|offer| self.pool.server(offer.server));
        let left = servers.map(|server| server.fresh_for(kind, now)).min().unwrap_or_default();
        u64::try_from(left.as_millis()).unwrap_or(u64::MAX).min(ttl_ms)
    }

    /// Answers `logging/setLevel`: remembers the level for the session, and asks legacy servers for what anybody wants.
    pub(crate) fn set_level(
        &self,
        session: &Session,
        frame: &Frame,
        id: &RawId,
    ) -> Result<ClientAnswer, RequestRefusal> {
        let level = frame
            .param_str(&["level"])
            .and_then(|level| LogLevel::parse(&level))
            .ok_or_else(|| RequestRefusal::InvalidParams("params.level must be a log level such as \"info\"".into()))?;
        *session.level.lock() = Some(level);
        self.links.session_level_changed(session);
        Ok(ClientAnswer::result(id, b"{}"))
    }
}
