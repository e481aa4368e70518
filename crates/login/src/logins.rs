//! The logins of one gateway: a keeper for each server that may want one, and the way of a person through a login.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tidings_config::{LoginConfig, LoginGrant};
use tidings_store::VaultTable;
use tidings_sync::Lock;
use tidings_upstream::{PeopleLogins, SharedCredential};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::authorization::{AuthorizationRequest, Callback, fresh_secret, read_callback, scopes, state_of};
use crate::challenge::BearerChallenge;
use crate::client_registration::OAuthClient;
use crate::discovery::Discovered;
use crate::grant_record::GrantRecord;
use crate::keeper::{Keeper, KeeperTools, kept_people};
use crate::pending::{LIFE, LoginOutcome, PendingLogin, PendingLogins};
use crate::provider_http::{ProviderHttp, TOKENS_WITHIN};
use crate::provider_session::{ProviderSession, SessionFault};
use crate::server_keepers::{KeeperOf, ServerKeepers};
use crate::server_login::ServerLogin;
use crate::token_exchange::{DeviceCodes, TokenFault, TokenProof, Tokens, clean};
use crate::web_address::WebAddress;

/// How long the server may take to be there after a login.
const CONNECTED: Duration = Duration::from_secs(60);
/// The pause between two questions whether somebody has typed a code in, where the provider names none.
const DEVICE_PAUSE: u64 = 5;

/// How many tickets are remembered for calls.
const MOST_PAGES: usize = 256;

/// Why a login is not begun or not ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoginFault {
    /// There is no such server, or it wants no login.
    #[error("there is no server \"{0}\" that one can log in to")]
    Unknown(String),
    /// It is one that the gateway logs in to by itself.
    #[error("the gateway logs in to \"{0}\" by itself ([servers.{0}.auth] has grant)")]
    ByMachine(String),
    /// What is between it and its provider.
    #[error("{0}")]
    Refused(String),
    /// It was not begun here, is over, or has taken too long.
    #[error("this login is not known here, or is over; begin again: tidings login SERVER")]
    Stale,
}

/// A login that was begun.
#[derive(Clone, Debug)]
pub struct BegunLogin {
    /// By which its outcome is asked for, and by which a browser comes in.
    pub ticket: String,
    /// Where the provider asks the person, for a browser that comes back to another machine. `None` for a device.
    pub authorize: Option<String>,
    /// What is typed in, and where, for a device.
    pub device: Option<DeviceLogin>,
    /// The provider.
    pub issuer: String,
    /// How long it counts, in seconds.
    pub expires_in: u64,
}

/// What a person does on another device.
#[derive(Clone, Debug)]
pub struct DeviceLogin {
    /// The page to open.
    pub url: String,
    /// The code to type in there.
    pub code: String,
    /// The page with the code in it, where there is one.
    pub url_with_code: Option<String>,
}

/// Is told that a server can be connected anew, and gives how that went.
pub type ServerReconnect = Arc<dyn Fn(String) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// Is told that a person has logged in to a server (`true`) or out of it, and gives how connecting it for them went.
pub type PersonMoved = Arc<dyn Fn(String, String, bool) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// All of them. Clones are handles to the same.
#[derive(Clone)]
pub struct Logins(Arc<LoginsShared>);

pub(crate) struct LoginsShared {
    tools: Arc<KeeperTools>,
    keepers: Lock<HashMap<String, ServerKeepers>>,
    /// Held while the keeper of a person is made.
    making: tokio::sync::Mutex<()>,
    /// The tickets that calls were answered with, by server and person: one that calls again and again is given the same.
    pages: Lock<HashMap<(String, String), String>>,
    pending: Lock<PendingLogins>,
    reconnect: OnceLock<ServerReconnect>,
    person_moved: OnceLock<PersonMoved>,
    /// What the gateway is called by browsers: without a path, without a slash at its end.
    base: OnceLock<String>,
}

impl Logins {
    /// Keeps what it is given in `vault`.
    pub fn new(vault: VaultTable) -> Self {
        let tools = KeeperTools {
            http: ProviderHttp::default(),
            vault,
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        };
        Self(Arc::new(LoginsShared {
            tools: Arc::new(tools),
            keepers: Lock::default(),
            making: tokio::sync::Mutex::default(),
            pages: Lock::default(),
            pending: Lock::default(),
            reconnect: OnceLock::new(),
            person_moved: OnceLock::new(),
            base: OnceLock::new(),
        }))
    }

    /// Where browsers find the gateway. Without one nobody can log in with a browser.
    pub fn reached_at(&self, base: &str) {
        let _ = self.0.base.set(base.trim_end_matches('/').to_owned());
    }

    /// Who connects a server anew after a login: for all, and for one person.
    pub fn attach(&self, reconnect: ServerReconnect, person_moved: PersonMoved) {
        let _ = self.0.reconnect.set(reconnect);
        let _ = self.0.person_moved.set(person_moved);
    }

    /// Ends all keepers; a renewal that is under way is saved first.
    pub async fn close(&self) {
        self.0.tools.stop.cancel();
        self.0.tools.tasks.close();
        // A moment more than a renewal may take.
        let _ = tokio::time::timeout(TOKENS_WITHIN + Duration::from_secs(2), self.0.tools.tasks.wait()).await;
    }

    /// Who owns the credentials of a server. Blocks for what was kept. `settings`: `None` where the configuration says nothing.
    pub fn credential(&self, name: &str, url: &str, settings: Option<LoginConfig>) -> Option<SharedCredential> {
        let address = WebAddress::parse(url)?;
        let is_configured = settings.is_some();
        let settings = settings.unwrap_or_default();
        let mut keepers = self.0.keepers.lock();
        let is_same = |known: &&ServerKeepers| {
            // A grant for all and those of people are kept apart: where it is the other now, both are looked for anew.
            *known.shared.address() == address && known.shared.settings().is_personal == settings.is_personal
        };
        if let Some(known) = keepers.get(name).filter(is_same) {
            known.configure(&settings, is_configured);
            return Some(self.owner(known.shared.clone()));
        }
        let kept = match settings.is_personal {
            true => kept_people(&self.0.tools.vault, name, &address),
            false => Vec::new(),
        };
        let shared = Keeper::new(Arc::clone(&self.0.tools), name, address, None, settings, is_configured);
        if let Some(before) = keepers.insert(name.to_owned(), ServerKeepers::new(shared.clone(), kept)) {
            // The server of that name is elsewhere now; what it was given there is of no use here.
            before.all().for_each(Keeper::end);
        }
        Some(self.owner(shared))
    }

    /// How many people are logged in to a server, where each logs in for themselves.
    pub(crate) fn people(&self, server: &str) -> PeopleLogins {
        self.0.keepers.lock().get(server).map(ServerKeepers::count).unwrap_or_default()
    }

    pub(crate) fn owner(&self, keeper: Keeper) -> SharedCredential {
        SharedCredential(Arc::new(ServerLogin { keeper, logins: Arc::downgrade(&self.0) }))
    }

    pub(crate) fn of(shared: Arc<LoginsShared>) -> Self {
        Self(shared)
    }

    /// A page where somebody can log in to a server.
    pub(crate) async fn page_for(&self, server: &str, asker: &str) -> Option<String> {
        self.0.base.get()?;
        let key = (server.to_owned(), asker.to_owned());
        let known = self.0.pages.lock().get(&key).cloned();
        if let Some(ticket) = known.filter(|ticket| self.0.pending.lock().is_unopened(ticket, Instant::now())) {
            return self.connect_url(&ticket);
        }
        let begun = self.begin(server, asker, false).await.ok()?;
        // A device shows its code on a terminal, and not on a page.
        begun.authorize.as_ref()?;
        let mut pages = self.0.pages.lock();
        // As many as there may be logins: each is for one of them.
        if pages.len() > MOST_PAGES {
            pages.clear();
        }
        pages.insert(key, begun.ticket.clone());
        self.connect_url(&begun.ticket)
    }

    /// The keeper of a grant, that of a person made when it is first asked for.
    pub(crate) async fn keeper(&self, server: &str, person: Option<&str>) -> Result<Keeper, LoginFault> {
        let unknown = || LoginFault::Unknown(server.to_owned());
        let (_, found) = self.known_keeper(server, person)?;
        let (KeeperOf::Unread, Some(person)) = (&found, person) else {
            return match found {
                KeeperOf::Known(keeper) => Ok(keeper),
                KeeperOf::Unread => Err(unknown()),
            };
        };
        let (logins, server, person) = (self.clone(), server.to_owned(), person.to_owned());
        // A task of its own: whoever asks may go away, and a keeper that was made would be nobody's.
        let made = self.0.tools.tasks.spawn(async move { logins.make_keeper(&server, &person).await });
        made.await.unwrap_or_else(|_| Err(unknown()))
    }

    fn known_keeper(&self, server: &str, person: Option<&str>) -> Result<(Keeper, KeeperOf), LoginFault> {
        let keepers = self.0.keepers.lock();
        let of_server = keepers.get(server).ok_or_else(|| LoginFault::Unknown(server.to_owned()))?;
        Ok((of_server.shared.clone(), of_server.of(person)))
    }

    /// Makes the keeper of a person.
    async fn make_keeper(&self, server: &str, person: &str) -> Result<Keeper, LoginFault> {
        let unknown = || LoginFault::Unknown(server.to_owned());
        // One at a time: of two keepers of one grant each would renew it, and providers take back what is renewed twice.
        let _making = self.0.making.lock().await;
        let (shared, found) = self.known_keeper(server, Some(person))?;
        if let KeeperOf::Known(keeper) = found {
            return Ok(keeper);
        }
        let (tools, settings, name) = (Arc::clone(&self.0.tools), shared.settings(), server.to_owned());
        let (of_person, address, is_configured) = (person.to_owned(), shared.address().clone(), shared.is_configured());
        // Reads what is kept, which blocks.
        let made = tokio::task::spawn_blocking(move || {
            Keeper::new(tools, &name, address, Some(&of_person), settings, is_configured)
        });
        let made = made.await.map_err(|_| unknown())?;
        let mut keepers = self.0.keepers.lock();
        match keepers.get_mut(server).filter(|now| now.shared.is(&shared)) {
            Some(of_server) => Ok(of_server.put(person, made)),
            None => {
                // The server left meanwhile, or is elsewhere now: what it was given there is for nobody else.
                made.end();
                Err(unknown())
            }
        }
    }

    /// The keeper of the grant that somebody who asks logs in to or out of: their own where each person has one.
    async fn keeper_for(&self, server: &str, asker: &str) -> Result<Keeper, LoginFault> {
        let shared = self.keeper(server, None).await?;
        match shared.settings().is_personal {
            true => self.keeper(server, Some(asker)).await,
            false => Ok(shared),
        }
    }

    /// Begins a login of somebody.
    pub async fn begin(&self, server: &str, asker: &str, by_device: bool) -> Result<BegunLogin, LoginFault> {
        let keeper = self.keeper_for(server, asker).await?;
        let settings = keeper.settings();
        if settings.grant.is_machine() {
            return Err(LoginFault::ByMachine(server.to_owned()));
        }
        let by_device = by_device || settings.grant == LoginGrant::Device;
        let refused = |fault: SessionFault| LoginFault::Refused(fault.to_string().replace("NAME", server));
        let session = self.session(&keeper, &settings).await;
        let (challenge, more) = keeper.wishes();
        let found = session.discover(keeper.address(), challenge.as_ref()).await;
        let found = found.map_err(SessionFault::Discovery).and_then(|found| found.ok_or(SessionFault::Nothing));
        let found = found.map_err(refused)?;
        let redirect = self.redirect();
        let document = self.client_document();
        let client = session.client(&found.provider, &redirect, document.as_deref()).await.map_err(refused)?;
        let scopes = wanted_scopes(&settings, challenge.as_ref(), &found, more.into_iter().collect());
        if by_device {
            let codes = session.device_codes(&found, &client, &scopes).await.map_err(refused)?;
            return Ok(self.begin_device(keeper, found, client, scopes, codes, asker));
        }
        let provider = &found.provider;
        if !provider.checks_pkce() && !settings.pkce_assumed {
            return Err(refused(SessionFault::NoPkce(provider.issuer.clone())));
        }
        let lacks = || SessionFault::Lacks(provider.issuer.clone(), "authorization endpoint");
        let endpoint = provider.authorization_endpoint.clone().ok_or_else(lacks).map_err(refused)?;
        let (state, verifier) = (fresh_secret(), fresh_secret());
        let request = AuthorizationRequest {
            client_id: &client.id,
            redirect: &redirect,
            state: &state,
            verifier: &verifier,
            scopes: &scopes,
            resource: found.resource.as_deref(),
        };
        let (url, issuer) = (request.url(&endpoint), provider.issuer.clone());
        let login = PendingLogin {
            keeper,
            found,
            client,
            scopes,
            redirect,
            verifier,
            state,
            url: url.clone(),
            asker: asker.to_owned(),
            cookie: None,
            since: Instant::now(),
            outcome: watch::Sender::new(LoginOutcome::Waiting),
        };
        let ticket = self.keep_pending(login);
        Ok(BegunLogin { ticket, authorize: Some(url), device: None, issuer, expires_in: LIFE.as_secs() })
    }

    fn keep_pending(&self, login: PendingLogin) -> String {
        let ticket = fresh_secret();
        self.0.pending.lock().insert(ticket.clone(), login, Instant::now());
        ticket
    }

    async fn session<'s>(&'s self, keeper: &Keeper, settings: &'s LoginConfig) -> ProviderSession<'s> {
        let KeeperTools { http, vault, .. } = &*self.0.tools;
        ProviderSession { http, vault, settings, reach: keeper.reach().await }
    }

    fn begin_device(
        &self,
        keeper: Keeper,
        found: Discovered,
        client: OAuthClient,
        scopes: Vec<String>,
        codes: DeviceCodes,
        asker: &str,
    ) -> BegunLogin {
        let login = PendingLogin {
            keeper,
            found,
            client,
            scopes,
            redirect: String::new(),
            verifier: String::new(),
            state: String::new(),
            url: String::new(),
            asker: asker.to_owned(),
            cookie: None,
            since: Instant::now(),
            outcome: watch::Sender::new(LoginOutcome::Waiting),
        };
        let device = DeviceLogin {
            url: codes.verification_uri.clone(),
            code: codes.user_code.clone(),
            url_with_code: codes.verification_uri_complete.clone(),
        };
        let (issuer, expires_in) = (login.found.provider.issuer.clone(), codes.expires_in.unwrap_or(LIFE.as_secs()));
        let ticket = self.keep_pending(login.clone());
        let (logins, stop) = (self.clone(), self.0.tools.stop.clone());
        self.0.tools.tasks.spawn(async move {
            tokio::select! {
                () = logins.follow_device(login, codes) => {}
                () = stop.cancelled() => {}
            }
        });
        BegunLogin { ticket, authorize: None, device: Some(device), issuer, expires_in }
    }

    /// Asks the provider until somebody has typed the code in, or it is too late.
    async fn follow_device(&self, login: PendingLogin, codes: DeviceCodes) {
        let settings = login.keeper.settings();
        let session = self.session(&login.keeper, &settings).await;
        let mut pause = Duration::from_secs(codes.interval.unwrap_or(DEVICE_PAUSE).clamp(1, 60));
        let life = Duration::from_secs(codes.expires_in.unwrap_or(LIFE.as_secs()).min(3_600));
        let end = login.since + life;
        while Instant::now() < end {
            tokio::time::sleep(pause).await;
            let resource = login.found.resource.as_deref();
            let proof = TokenProof::Device(&codes.device_code);
            match session.tokens(&login.found.provider, &login.client, proof, &login.scopes, resource).await {
                Ok(tokens) => return self.finish(&login, tokens).await,
                Err(SessionFault::Token(TokenFault::Rejected { error, .. })) if error == "authorization_pending" => {}
                Err(SessionFault::Token(TokenFault::Rejected { error, .. })) if error == "slow_down" => {
                    pause += Duration::from_secs(5);
                }
                Err(SessionFault::Token(TokenFault::Unavailable { .. })) => {
                    pause = (pause * 2).min(Duration::from_secs(60))
                }
                Err(fault) => return fail(&login, fault.to_string()),
            }
        }
        fail(&login, "nobody typed the code in".to_owned());
    }

    /// Where the browser comes back to.
    fn redirect(&self) -> String {
        format!("{}/oauth/callback", self.0.base.get().map_or("http://127.0.0.1", String::as_str))
    }

    /// Where the document stands that describes this gateway as a client: only where providers can read it.
    pub fn client_document(&self) -> Option<String> {
        self.0.base.get().filter(|base| base.starts_with("https://")).map(|base| format!("{base}/oauth/client.json"))
    }

    /// What stands there.
    pub fn client_description(&self) -> Option<serde_json::Value> {
        let document = self.client_document()?;
        Some(serde_json::json!({
            "client_id": document,
            "client_name": "Tidings",
            "redirect_uris": [self.redirect()],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        }))
    }

    /// The page that a browser opens to log in.
    pub fn connect_url(&self, ticket: &str) -> Option<String> {
        self.0.base.get().map(|base| format!("{base}/connect/{ticket}"))
    }

    /// How a login went; `None` when nobody knows it.
    pub fn outcome(&self, ticket: &str) -> Option<watch::Receiver<LoginOutcome>> {
        self.0.pending.lock().outcome(ticket, Instant::now())
    }

    /// A browser opens a ticket: which server it is about, who asked, and whether it is open for this one.
    pub(crate) fn open_ticket(&self, ticket: &str, cookie: Option<&str>) -> Option<OpenedTicket> {
        let mut pending = self.0.pending.lock();
        let login = pending.get(ticket, Instant::now()).filter(|login| !login.state.is_empty())?;
        // Single use: only the browser that opened it may load it again.
        if login.cookie.is_some() && login.cookie.as_deref() != cookie {
            return None;
        }
        Some(OpenedTicket {
            server: login.keeper.name().to_owned(),
            issuer: login.found.provider.issuer.clone(),
            asker: login.asker.clone(),
            is_personal: login.keeper.person().is_some(),
            is_known_browser: login.cookie.is_some(),
        })
    }

    /// The browser is known to be the asker's: where it goes, and what it is known by when it comes back.
    pub(crate) fn use_ticket(&self, ticket: &str, cookie: Option<&str>) -> Option<(String, String)> {
        let mut pending = self.0.pending.lock();
        let login = pending.get(ticket, Instant::now()).filter(|login| !login.state.is_empty())?;
        if login.cookie.is_some() && login.cookie.as_deref() != cookie {
            return None;
        }
        let cookie = login.cookie.get_or_insert_with(fresh_secret).clone();
        Some((login.url.clone(), cookie))
    }

    /// A browser came back, or somebody pastes what it came back with.
    pub async fn complete(&self, query: &str, by: LoginBearer<'_>) -> Result<CompletedLogin, LoginFault> {
        let state = state_of(query).ok_or(LoginFault::Stale)?;
        let may_end = |login: &PendingLogin| match by {
            LoginBearer::Asker(name) => login.asker == name,
            LoginBearer::Browser(cookies) => login.cookie.as_ref().is_some_and(|cookie| cookies.contains(cookie)),
        };
        let taken = self.0.pending.lock().take_state(&state, Instant::now(), may_end);
        let login = taken.ok_or(LoginFault::Stale)?;
        let settings = login.keeper.settings();
        let outcome = self.exchange(&login, &settings, query).await;
        match outcome {
            Ok(tokens) => self.finish(&login, tokens).await,
            Err(reason) => fail(&login, reason),
        }
        match login.outcome.borrow().clone() {
            LoginOutcome::Failed(reason) => Err(LoginFault::Refused(reason)),
            LoginOutcome::Done | LoginOutcome::Waiting => {
                let (server, is_personal) = (login.keeper.name().to_owned(), login.keeper.person().is_some());
                Ok(CompletedLogin { server, is_personal })
            }
        }
    }

    async fn exchange(&self, login: &PendingLogin, settings: &LoginConfig, query: &str) -> Result<Tokens, String> {
        let provider = &login.found.provider;
        let code = match read_callback(query, provider).map_err(|fault| fault.to_string())? {
            Callback::Code(code) => code,
            Callback::Denied { error, description } => {
                let words = description.map(|words| format!(": {words}")).unwrap_or_default();
                return Err(clean(&format!("the provider says {error}{words}"), &[]));
            }
        };
        let session = self.session(&login.keeper, settings).await;
        let proof = TokenProof::Code { code: &code, verifier: &login.verifier, redirect: &login.redirect };
        let resource = login.found.resource.as_deref();
        let tokens = session.tokens(provider, &login.client, proof, &login.scopes, resource).await;
        if let Err(SessionFault::Token(TokenFault::Rejected { error, .. })) = &tokens
            && error == "invalid_client"
        {
            // The next login registers anew.
            session.forget_client(provider, &login.redirect).await;
        }
        tokens.map_err(|fault| fault.to_string())
    }

    /// Keeps what was given, and has the server connected.
    async fn finish(&self, login: &PendingLogin, tokens: Tokens) {
        let mut record = GrantRecord {
            provider: login.found.provider.clone(),
            client: login.client.clone(),
            resource: login.found.resource.clone(),
            scopes: login.scopes.clone(),
            granted: None,
            access: String::new(),
            refresh: None,
            expires: None,
            by_machine: false,
        };
        record.take(tokens);
        let outcome = match login.keeper.logged_in(record).await {
            Ok(()) => match self.reconnect(&login.keeper, true).await {
                Ok(()) => LoginOutcome::Done,
                Err(reason) => LoginOutcome::Failed(format!("logged in, but {reason}")),
            },
            Err(reason) => LoginOutcome::Failed(reason),
        };
        tracing::info!(server = %login.keeper.name(), issuer = %login.found.provider.issuer, ok = outcome == LoginOutcome::Done, "login");
        login.outcome.send_replace(outcome);
    }

    /// `is_in`: whether somebody has logged in, and not out.
    async fn reconnect(&self, keeper: &Keeper, is_in: bool) -> Result<(), String> {
        let server = keeper.name().to_owned();
        let connecting = match keeper.person() {
            Some(person) => self.0.person_moved.get().map(|moved| moved(server, person.to_owned(), is_in)),
            None => self.0.reconnect.get().map(|reconnect| reconnect(server)),
        };
        let Some(connecting) = connecting else { return Ok(()) };
        let late = Err("the server was not there in time".to_owned());
        tokio::time::timeout(CONNECTED, connecting).await.unwrap_or(late)
    }

    /// Forgets the login of a server, that of who asks where each person has one, and ends it at the provider.
    pub async fn log_out(&self, server: &str, asker: &str) -> Result<bool, LoginFault> {
        let keeper = self.keeper_for(server, asker).await?;
        let record = keeper.logged_out().await;
        if let Some(record) = &record {
            keeper.revoke(record).await;
            // It is not let in any more, and says so.
            let _ = self.reconnect(&keeper, false).await;
        }
        Ok(record.is_some())
    }

    /// A server is gone: its logins go with it.
    pub async fn forget(&self, server: &str) {
        let unread = self.0.keepers.lock().get(server).map(ServerKeepers::unread).unwrap_or_default();
        for person in unread {
            // What is kept of them has to be read to be ended at the provider.
            let _ = self.keeper(server, Some(&person)).await;
        }
        let Some(keepers) = self.0.keepers.lock().remove(server) else { return };
        let keepers: Vec<Keeper> = keepers.all().cloned().collect();
        for keeper in keepers {
            if let Some(record) = keeper.logged_out().await {
                keeper.revoke(&record).await;
            }
            keeper.end();
        }
    }

    /// The user asks for everything of a server to be tried anew.
    pub fn restart(&self, server: &str) {
        if let Some(keepers) = self.0.keepers.lock().get(server) {
            keepers.all().for_each(Keeper::restart);
        }
    }
}

/// Who comes with the end of a login.
#[derive(Clone, Copy, Debug)]
pub enum LoginBearer<'a> {
    /// A browser with these cookies.
    Browser(&'a [String]),
    /// Somebody who pastes where the browser came to: has to be who began.
    Asker(&'a str),
}

/// A login that came to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletedLogin {
    /// The server.
    pub server: String,
    /// Whether it is for one person alone.
    pub is_personal: bool,
}

/// What a browser that opens a ticket is told.
pub(crate) struct OpenedTicket {
    pub(crate) server: String,
    pub(crate) issuer: String,
    pub(crate) asker: String,
    /// Whether it is for that person alone.
    pub(crate) is_personal: bool,
    /// Whether it is the browser that opened it before, whose person has shown who they are. A cookie that nobody gave it says nothing.
    pub(crate) is_known_browser: bool,
}

fn fail(login: &PendingLogin, reason: String) {
    tracing::info!(server = %login.keeper.name(), %reason, "a login failed");
    login.outcome.send_replace(LoginOutcome::Failed(reason));
}

/// What is asked for: the union where the server wanted more than it was given.
fn wanted_scopes(
    settings: &LoginConfig,
    challenge: Option<&BearerChallenge>,
    found: &Discovered,
    more: Vec<String>,
) -> Vec<String> {
    let challenged = challenge.and_then(|challenge| challenge.scopes.as_deref());
    let configured = settings.scopes.as_deref();
    let mut all = scopes(configured, challenged, found.scopes.as_deref(), &found.provider);
    for scope in more {
        if !all.contains(&scope) {
            all.push(scope);
        }
    }
    all
}

#[cfg(test)]
mod tests;
