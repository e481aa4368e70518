//! The keeper of one server's grant: [`tidings_hub::grant_keeper`] behind one lock, and the one task that carries out what it wants.
//!
//! Links ask it when they are refused, and are told the token that it has. Nobody else renews.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use http::HeaderValue;
use tidings_config::LoginConfig;
use tidings_hub::grant_keeper::{GrantCommand, GrantEvent, GrantKeeper, GrantState, LoginReason, RenewalFault};
use tidings_store::VaultTable;
use tidings_sync::Lock;
use tidings_upstream::{CredentialRefusal, CredentialRenewal, HeldCredential};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::authorization;
use crate::challenge::BearerChallenge;
use crate::discovery::{Discovered, DiscoveryFault};
use crate::grant_record::GrantRecord;
use crate::provider_http::{ProviderHttp, ProviderReach};
use crate::provider_session::{ProviderSession, SessionFault};
use crate::token_exchange::{TokenFault, Tokens};
use crate::web_address::WebAddress;

/// What the vault calls a grant.
const GRANT: &str = "grant";
/// How long somebody who was refused waits for what is under way.
const PATIENCE: Duration = Duration::from_secs(45);
/// How often a server may ask for more rights in one process before nothing is added any more.
const STEP_UPS: usize = 3;

/// What the keepers of one gateway share.
pub(crate) struct KeeperTools {
    pub(crate) http: ProviderHttp,
    pub(crate) vault: VaultTable,
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: CancellationToken,
}

/// The owner of one grant.
#[derive(Clone)]
pub(crate) struct Keeper(Arc<KeeperShared>);

struct KeeperShared {
    tools: Arc<KeeperTools>,
    /// The server, as it is configured.
    name: String,
    address: WebAddress,
    /// Whose grant it is; `None` for one that is for all.
    person: Option<String>,
    state: Lock<KeeperState>,
    /// Rings when there is something to do, or another deadline.
    bell: Notify,
    /// What the machine says, once what it wanted before is done.
    told: watch::Sender<GrantState>,
    held: watch::Sender<Option<HeldCredential>>,
    /// Whether the task runs: it begins when there is something to keep.
    runs: AtomicBool,
    /// Rings when the server is gone.
    over: CancellationToken,
}

struct KeeperState {
    machine: GrantKeeper,
    commands: VecDeque<GrantCommand>,
    settings: LoginConfig,
    is_configured: bool,
    record: Option<GrantRecord>,
    /// What the server said last of what it wants.
    challenge: Option<BearerChallenge>,
    /// Scopes that it asked for beyond those that were granted.
    more: BTreeSet<String>,
    step_ups: usize,
    /// What went wrong last, in words.
    fault: Option<String>,
}

impl Keeper {
    /// The keeper of a server. What an earlier process kept is read at once; blocks for that.
    pub(crate) fn new(
        tools: Arc<KeeperTools>,
        name: &str,
        address: WebAddress,
        person: Option<&str>,
        settings: LoginConfig,
        is_configured: bool,
    ) -> Self {
        let mut machine = GrantKeeper::default();
        let mut record: Option<GrantRecord> = None;
        let mut fault = None;
        let mut commands = VecDeque::new();
        match tools.vault.get(GRANT, &place(name, &address, person)) {
            Ok(None) => {}
            Ok(Some(text)) => match serde_json::from_slice::<GrantRecord>(&text) {
                // A grant of another provider than the configured one is of no use.
                Ok(kept) if settings.issuer.as_ref().is_some_and(|issuer| *issuer != kept.provider.issuer) => {}
                Ok(kept) => {
                    let now = Instant::now();
                    commands.extend(machine.on(GrantEvent::Restored(kept.life(now)), now));
                    record = Some(kept);
                }
                Err(_) => fault = Some("what was saved of it is of another version".to_owned()),
            },
            Err(error) => {
                commands.extend(machine.on(GrantEvent::Unreadable, Instant::now()));
                fault = Some(error.to_string());
            }
        }
        let busy = !commands.is_empty();
        let keeper = Self(Arc::new(KeeperShared {
            tools,
            name: name.to_owned(),
            address,
            person: person.map(str::to_owned),
            state: Lock::new(KeeperState {
                machine,
                commands,
                settings,
                is_configured,
                record,
                challenge: None,
                more: BTreeSet::new(),
                step_ups: 0,
                fault,
            }),
            bell: Notify::new(),
            told: watch::Sender::new(GrantState::Busy),
            held: watch::Sender::new(None),
            runs: AtomicBool::new(false),
            over: CancellationToken::new(),
        }));
        keeper.use_what_is_ready();
        if busy {
            keeper.ensure_runs();
        }
        keeper
    }

    /// A token that was restored is in use before the first request is made: no server is asked without it.
    fn use_what_is_ready(&self) {
        let mut state = self.0.state.lock();
        self.do_at_once(&mut state);
        self.say(&state);
    }

    /// What the machine wants and takes no time. Under the lock, so that whoever is told of a token finds it: between the two, those who are
    /// refused would take the old one for all that there is.
    fn do_at_once(&self, state: &mut KeeperState) {
        while let Some(command) = state.commands.front().copied() {
            match command {
                GrantCommand::Use(generation) => self.publish(state, generation),
                GrantCommand::Withdraw => drop(self.0.held.send_replace(None)),
                GrantCommand::Discover | GrantCommand::Renew(_) | GrantCommand::Save => return,
            }
            state.commands.pop_front();
        }
    }

    /// Tells those who wait how it stands. Nobody is woken for what was said before: a thousand calls may be refused with one token, and
    /// each of them comes by here.
    fn say(&self, state: &KeeperState) {
        let now = if state.commands.is_empty() { state.machine.state() } else { GrantState::Busy };
        self.0.told.send_if_modified(|told| std::mem::replace(told, now) != now);
    }

    pub(crate) fn name(&self) -> &str {
        &self.0.name
    }

    pub(crate) fn address(&self) -> &WebAddress {
        &self.0.address
    }

    /// Whose grant it is; `None` for one that is for all.
    pub(crate) fn person(&self) -> Option<&str> {
        self.0.person.as_deref()
    }

    /// What somebody who asked for it would find.
    pub(crate) fn state(&self) -> GrantState {
        *self.0.told.borrow()
    }

    /// Whether there is something that lets somebody in, or did until it has to be renewed.
    pub(crate) fn has_grant(&self) -> bool {
        self.0.state.lock().record.is_some()
    }

    fn place(&self) -> String {
        place(&self.0.name, &self.0.address, self.person())
    }

    pub(crate) fn settings(&self) -> LoginConfig {
        self.0.state.lock().settings.clone()
    }

    /// The configuration says something else now.
    pub(crate) fn configure(&self, settings: LoginConfig, is_configured: bool) {
        let mut state = self.0.state.lock();
        state.settings = settings;
        state.is_configured = is_configured;
    }

    /// What the server said last of what it wants, and the scopes that a login has to ask for.
    pub(crate) fn wishes(&self) -> (Option<BearerChallenge>, BTreeSet<String>) {
        let state = self.0.state.lock();
        let mut more = state.more.clone();
        if let Some(record) = state.record.as_ref().filter(|_| !more.is_empty()) {
            // The union: what was asked for before is asked for again.
            more.extend(record.scopes.iter().cloned());
        }
        (state.challenge.clone(), more)
    }

    /// Whether both are handles to one.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether nobody but the table of keepers, and its own task, has it.
    pub(crate) fn is_unused(&self) -> bool {
        Arc::strong_count(&self.0) <= 1 + usize::from(self.0.runs.load(Ordering::SeqCst))
    }

    /// Ends the keeper: the server is gone, or the gateway ends.
    pub(crate) fn end(&self) {
        self.0.over.cancel();
    }

    /// Somebody logged in. Returns when the token is in use.
    pub(crate) async fn logged_in(&self, record: GrantRecord) -> Result<(), String> {
        let life = record.life(Instant::now());
        self.tell_with(GrantEvent::LoggedIn(life), |state| {
            state.record = Some(record);
            state.more.clear();
            state.fault = None;
        });
        match self.settled().await {
            GrantState::Valid(_) => Ok(()),
            _ => Err("the login was overtaken by another".to_owned()),
        }
    }

    /// Somebody logged out: gives what is to be revoked.
    pub(crate) async fn logged_out(&self) -> Option<GrantRecord> {
        let mut record = None;
        self.tell_with(GrantEvent::LoggedOut, |state| {
            record = state.record.take();
            state.fault = None;
        });
        let (vault, place) = (self.0.tools.vault.clone(), self.place());
        let removed = tokio::task::spawn_blocking(move || vault.remove(GRANT, &place)).await;
        if !matches!(removed, Ok(Ok(()))) {
            tracing::warn!(server = %self.0.name, "the login could not be removed from the store");
        }
        self.settled().await;
        record
    }

    /// The user asks for everything to be tried anew.
    pub(crate) fn restart(&self) {
        self.tell_with(GrantEvent::Restart, |_| {});
    }

    /// Ends the grant at the provider.
    pub(crate) async fn revoke(&self, record: &GrantRecord) {
        let (settings, reach) = (self.settings(), self.reach().await);
        let KeeperTools { http, vault, .. } = &*self.0.tools;
        ProviderSession { http, vault, settings: &settings, reach }.revoke(record).await;
    }

    pub(crate) async fn reach(&self) -> ProviderReach {
        ProviderHttp::reach_of(&self.0.address).await
    }

    fn tell_with(&self, event: GrantEvent, change: impl FnOnce(&mut KeeperState)) {
        {
            let mut state = self.0.state.lock();
            change(&mut state);
            let commands = state.machine.on(event, Instant::now());
            state.commands.extend(commands);
            self.say(&state);
        }
        self.ensure_runs();
        self.0.bell.notify_one();
    }

    /// What the machine says, as soon as nothing is under way, or when the time is over.
    async fn settled(&self) -> GrantState {
        let mut told = self.0.told.subscribe();
        let _ = tokio::time::timeout(PATIENCE, told.wait_for(|state| *state != GrantState::Busy)).await;
        *told.borrow()
    }

    fn ensure_runs(&self) {
        if !self.0.runs.swap(true, Ordering::SeqCst) {
            let keeper = self.clone();
            self.0.tools.tasks.spawn(async move { keeper.run().await });
        }
    }

    /// The one task.
    async fn run(self) {
        loop {
            let (command, deadline) = {
                let mut state = self.0.state.lock();
                self.do_at_once(&mut state);
                let command = state.commands.pop_front();
                if command.is_none() {
                    self.say(&state);
                }
                (command, state.machine.next_deadline())
            };
            let work = async {
                match command {
                    Some(command) => self.carry_out(command).await,
                    None => tokio::select! {
                        () = self.0.bell.notified() => {}
                        () = at(deadline) => self.tell(GrantEvent::Time),
                    },
                }
            };
            tokio::select! {
                () = work => {}
                // Not in the middle of a renewal: the provider may have taken the old token back, and the new one must be saved.
                () = self.0.tools.stop.cancelled(), if command.is_none() => return,
                () = self.0.over.cancelled(), if command.is_none() => return,
            }
        }
    }

    fn tell(&self, event: GrantEvent) {
        let mut state = self.0.state.lock();
        let commands = state.machine.on(event, Instant::now());
        state.commands.extend(commands);
    }

    async fn carry_out(&self, command: GrantCommand) {
        match command {
            GrantCommand::Discover => {
                let event = self.discover().await;
                self.tell(event);
            }
            GrantCommand::Renew(attempt) => self.renew(attempt).await,
            GrantCommand::Save => {
                let event = if self.save().await { GrantEvent::Saved } else { GrantEvent::SaveFailed };
                self.tell(event);
            }
            // Done already, at once.
            GrantCommand::Use(_) | GrantCommand::Withdraw => {}
        }
    }

    fn publish(&self, state: &KeeperState, generation: u64) {
        let header = state.record.as_ref().and_then(|record| {
            let mut header = HeaderValue::try_from(format!("Bearer {}", record.access)).ok()?;
            // Keeps the token out of debug output.
            header.set_sensitive(true);
            Some(header)
        });
        self.0.held.send_replace(header.map(|header| HeldCredential { generation, header }));
    }

    async fn discover(&self) -> GrantEvent {
        let (settings, challenge) = {
            let state = self.0.state.lock();
            (state.settings.clone(), state.challenge.clone())
        };
        let reach = self.reach().await;
        let KeeperTools { http, vault, .. } = &*self.0.tools;
        let session = ProviderSession { http, vault, settings: &settings, reach };
        let found = session.discover(&self.0.address, challenge.as_ref()).await;
        let machine_grant = settings.grant.is_machine();
        match found {
            Ok(None) => GrantEvent::NothingThere,
            Ok(Some(found)) if machine_grant => match machine_record(&session, &settings, found, challenge.as_ref()) {
                Ok(record) => {
                    self.0.state.lock().record = Some(record);
                    GrantEvent::Discovered { by_machine: true }
                }
                Err(fault) => {
                    self.0.state.lock().fault = Some(fault.to_string());
                    GrantEvent::Discovered { by_machine: false }
                }
            },
            Ok(Some(_)) => {
                self.0.state.lock().fault = None;
                GrantEvent::Discovered { by_machine: false }
            }
            Err(fault) => self.undiscovered(&fault),
        }
    }

    fn undiscovered(&self, fault: &DiscoveryFault) -> GrantEvent {
        self.0.state.lock().fault = Some(fault.to_string());
        match fault.is_passing() {
            true => GrantEvent::DiscoveryFailed,
            // Something is there to log in to, and is not as it should be: `tidings login` says the same.
            false => GrantEvent::Discovered { by_machine: false },
        }
    }

    async fn renew(&self, attempt: u64) {
        let (record, settings) = {
            let state = self.0.state.lock();
            (state.record.clone(), state.settings.clone())
        };
        let Some(record) = record else {
            return self.tell(GrantEvent::RenewalFailed(attempt, RenewalFault::Rejected));
        };
        let reach = self.reach().await;
        let KeeperTools { http, vault, .. } = &*self.0.tools;
        let session = ProviderSession { http, vault, settings: &settings, reach };
        tracing::debug!(server = %self.0.name, issuer = %record.provider.issuer, "the token is renewed");
        let outcome = session.renew(&record).await;
        self.renewed(attempt, outcome);
    }

    fn renewed(&self, attempt: u64, outcome: Result<Tokens, SessionFault>) {
        let mut state = self.0.state.lock();
        let now = Instant::now();
        let event = match outcome {
            Ok(tokens) => match &mut state.record {
                Some(record) => {
                    record.take(tokens);
                    GrantEvent::Renewed(attempt, record.life(now))
                }
                // Somebody logged out meanwhile; the machine knows.
                None => GrantEvent::RenewalFailed(attempt, RenewalFault::Rejected),
            },
            Err(fault) => {
                tracing::warn!(server = %self.0.name, %fault, "the token could not be renewed");
                let event = match &fault {
                    SessionFault::Token(TokenFault::Unavailable { after, .. }) => RenewalFault::Unavailable(*after),
                    _ => RenewalFault::Rejected,
                };
                state.fault = Some(fault.to_string());
                GrantEvent::RenewalFailed(attempt, event)
            }
        };
        let commands = state.machine.on(event, now);
        state.commands.extend(commands);
    }

    async fn save(&self) -> bool {
        let text = match &self.0.state.lock().record {
            Some(record) => serde_json::to_vec(record).unwrap_or_default(),
            None => return true,
        };
        let (vault, place) = (self.0.tools.vault.clone(), self.place());
        let saved = tokio::task::spawn_blocking(move || vault.put(GRANT, &place, &text)).await;
        match saved {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                tracing::error!(server = %self.0.name, %error, "the login could not be saved; a restart would lose it");
                false
            }
            Err(_) => false,
        }
    }

    /// Why a person has to log in, and how.
    pub(crate) fn words(&self, reason: LoginReason) -> String {
        let (fault, grant, is_personal) = {
            let state = self.0.state.lock();
            (state.fault.clone(), state.settings.grant, state.settings.is_personal)
        };
        let name = &self.0.name;
        let because = match (reason, &fault) {
            (LoginReason::Never, None) => String::new(),
            (LoginReason::Never, Some(fault)) => format!(" ({fault})"),
            (LoginReason::Rejected, Some(fault)) => format!(", because its login has ended ({fault})"),
            (LoginReason::Rejected, None) => ", because its login has ended".to_owned(),
            (LoginReason::Ended, _) => {
                ", because its login has ended and its provider gave nothing to renew it with".to_owned()
            }
            (LoginReason::FreshRefused, _) => {
                ", because it refuses the token that its provider has just given".to_owned()
            }
            (LoginReason::Unreadable, fault) => {
                format!(", because {}", fault.as_deref().unwrap_or("what was saved of it can not be read"))
            }
        };
        match grant.is_machine() {
            true => format!("{because}; correct [servers.{name}.auth], then: tidings restart {name}"),
            // They have no command line of the gateway: the tool is there as long as they have to.
            false if self.0.person.is_some() => format!(" of yours{because}: the tool log_in shows where"),
            false if is_personal => format!(" of each person: tidings login {name}"),
            false => format!("{because}: tidings login {name}"),
        }
    }

    /// More rights are wanted than were granted: the next login asks for all of them. The token stays in use.
    fn more_wanted(&self, challenge: Option<&BearerChallenge>) -> CredentialRenewal {
        let is_about_scopes =
            challenge.is_some_and(|challenge| challenge.error.as_deref() == Some("insufficient_scope"));
        if !is_about_scopes || self.0.held.borrow().is_none() {
            return CredentialRenewal::Unknown;
        }
        let mut state = self.0.state.lock();
        let wanted = challenge.and_then(|challenge| challenge.scopes.clone()).unwrap_or_default();
        let is_new = wanted.iter().any(|scope| !state.more.contains(scope));
        if is_new && state.step_ups < STEP_UPS {
            state.step_ups += 1;
            state.more.extend(wanted.iter().cloned());
        }
        let name = &self.0.name;
        let wanted = wanted.join(" ");
        CredentialRenewal::NeedsMore(match self.0.person {
            Some(_) => format!(" of yours with more rights ({wanted})"),
            None => format!(" with more rights ({wanted}): tidings login {name}"),
        })
    }

    /// The server refused a request: what there is in place of the token that it carried.
    pub(crate) async fn refusal(self, refusal: CredentialRefusal) -> CredentialRenewal {
        let challenge = refusal.challenge.as_deref().and_then(BearerChallenge::parse);
        if refusal.status == 403 {
            return self.more_wanted(challenge.as_ref());
        }
        let newer = |held: &Option<HeldCredential>| {
            held.clone().filter(|held| held.generation > refusal.generation.unwrap_or(0))
        };
        if let Some(held) = newer(&self.0.held.borrow()) {
            return CredentialRenewal::Use(held);
        }
        self.tell_with(GrantEvent::Refused(refusal.generation), |state| {
            if let Some(challenge) = challenge {
                state.challenge = Some(challenge);
            }
        });
        match self.settled().await {
            GrantState::NeedsLogin(reason) => CredentialRenewal::NeedsLogin(self.words(reason)),
            GrantState::Alien | GrantState::Open => CredentialRenewal::Unknown,
            GrantState::Valid(_) => match newer(&self.0.held.borrow()) {
                Some(held) => CredentialRenewal::Use(held),
                None => CredentialRenewal::Unavailable("its token is refused".to_owned()),
            },
            GrantState::Busy | GrantState::Unavailable => {
                let fault = self.0.state.lock().fault.clone();
                CredentialRenewal::Unavailable(fault.unwrap_or_else(|| "its provider does not answer".to_owned()))
            }
        }
    }
}

/// What the gateway itself logs in with.
fn machine_record(
    session: &ProviderSession<'_>,
    settings: &LoginConfig,
    found: Discovered,
    challenge: Option<&BearerChallenge>,
) -> Result<GrantRecord, SessionFault> {
    let Discovered { provider, resource, scopes } = found;
    let client = session.configured_client(&provider);
    let client = client.ok_or_else(|| SessionFault::Key("`client_id` is not set".to_owned()))?;
    let challenged = challenge.and_then(|challenge| challenge.scopes.as_deref());
    let mut asked = authorization::scopes(settings.scopes.as_deref(), challenged, scopes.as_deref(), &provider);
    // There is nobody who could be away.
    asked.retain(|scope| scope != authorization::OFFLINE);
    Ok(GrantRecord {
        provider,
        client,
        resource,
        scopes: asked,
        granted: None,
        access: String::new(),
        refresh: None,
        expires: None,
        by_machine: true,
    })
}

impl Keeper {
    pub(crate) fn held(&self) -> watch::Receiver<Option<HeldCredential>> {
        self.0.held.subscribe()
    }

    pub(crate) fn is_configured(&self) -> bool {
        self.0.state.lock().is_configured
    }
}

/// A grant belongs to a server at an address, and to a person where each has their own: the same name elsewhere is somebody else.
fn place(name: &str, address: &WebAddress, person: Option<&str>) -> String {
    // Neither a name of a server nor an address has a space in it.
    let of_person = person.map(|person| format!(" {person}")).unwrap_or_default();
    format!("{name} {}{of_person}", address.canonical())
}

/// The people of whom a grant is kept. Blocks.
pub(crate) fn kept_people(vault: &VaultTable, name: &str, address: &WebAddress) -> Vec<String> {
    let prefix = place(name, address, Some(""));
    let names = vault.names(GRANT, &prefix).unwrap_or_else(|error| {
        tracing::warn!(server = name, %error, "the people who are logged in can not be counted");
        Vec::new()
    });
    names.iter().filter_map(|name| name.strip_prefix(&prefix).map(str::to_owned)).collect()
}

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}
