//! The keeper of one server's grant: [`tidings_hub::grant_keeper`] behind one lock, and the one task that carries out what it wants (`work`).
//!
//! Links ask it when they are refused (`refusals`), and are told the token that it has. Nobody else renews.

mod claims;
mod place;
mod refusals;
mod work;

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tidings_config::LoginConfig;
use tidings_hub::grant_keeper::{GrantCommand, GrantEvent, GrantKeeper, GrantState};
use tidings_store::VaultTable;
use tidings_sync::Lock;
use tidings_upstream::HeldCredential;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::claims::SharedPart;
pub(crate) use self::place::kept_people;
use self::place::{GRANT, place};
use crate::challenge::BearerChallenge;
use crate::grant_record::GrantRecord;
use crate::provider_http::{ProviderHttp, ProviderReach};
use crate::provider_session::ProviderSession;
use crate::shared_grants::{SharedGrants, subject};
use crate::web_address::WebAddress;

/// How long somebody who was refused waits for what is under way.
const PATIENCE: Duration = Duration::from_secs(45);

/// What the keepers of one gateway share.
pub(crate) struct KeeperTools {
    pub(crate) http: ProviderHttp,
    pub(crate) vault: VaultTable,
    /// What the replicas of a cluster share; `None` where there is one process.
    pub(crate) shared: Option<Arc<SharedGrants>>,
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: CancellationToken,
}

/// The owner of one grant.
#[derive(Clone)]
pub(crate) struct Keeper(Arc<KeeperShared>);

pub(crate) struct KeeperShared {
    tools: Arc<KeeperTools>,
    /// Where the grant stands that all replicas have; `None` for one that this process keeps for itself.
    shared: Option<Arc<SharedGrants>>,
    /// Its key there.
    subject: String,
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
    /// Why a person has to log in, in words for whoever can; `None` while nobody has to.
    need: watch::Sender<Option<String>>,
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
    /// What is known of the grant in the log of a cluster.
    shared: SharedPart,
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
        // A machine can log in at each replica for itself: nothing of it has to be kept from the others.
        let shared = tools.shared.clone().filter(|_| !settings.grant.is_machine());
        let place = place(name, &address, person);
        let subject = subject(&place);
        let mut machine = match &shared {
            Some(shared) => GrantKeeper::shared(shared.stagger(&subject)),
            None => GrantKeeper::default(),
        };
        let mut record: Option<GrantRecord> = None;
        let mut fault = None;
        let mut commands = VecDeque::new();
        let kept = if shared.is_some() { Ok(None) } else { tools.vault.get(GRANT, &place) };
        match kept {
            Ok(None) => {}
            Ok(Some(text)) => match serde_json::from_slice::<GrantRecord>(&text) {
                // A grant of another provider than the configured one is of no use.
                Ok(kept) if settings.issuer.as_ref().is_some_and(|issuer| *issuer != kept.provider.issuer) => {}
                Ok(kept) => {
                    let now = Instant::now();
                    commands.extend(machine.on(GrantEvent::Restored(kept.life(now)), now));
                    record = Some(kept);
                }
                // The machine stays open: the server is asked what it wants, and whoever is refused is led to a login.
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
            shared,
            subject,
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
                shared: SharedPart::default(),
            }),
            bell: Notify::new(),
            told: watch::Sender::new(GrantState::Busy),
            need: watch::Sender::new(None),
            held: watch::Sender::new(None),
            runs: AtomicBool::new(false),
            over: CancellationToken::new(),
        }));
        // Before the task: whoever has the keeper asks it for a token at once.
        keeper.use_what_is_ready();
        if let Some(shared) = &keeper.0.shared {
            shared.join(&keeper);
        }
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
                // What takes time blocks what stands behind it: a token is used only after it was saved.
                GrantCommand::Discover
                | GrantCommand::Claim(_)
                | GrantCommand::Renew(_)
                | GrantCommand::Save
                | GrantCommand::Tell(_) => return,
            }
            state.commands.pop_front();
        }
    }

    /// Tells those who wait how it stands. Nobody is woken for what was said before: a thousand calls may be refused with one token, and
    /// each of them comes by here.
    fn say(&self, state: &KeeperState) {
        // Commands that wait are work that is under way: without this a state would be said that is about to change.
        let now = if state.commands.is_empty() { state.machine.state() } else { GrantState::Busy };
        let is_news = self.0.told.send_if_modified(|told| std::mem::replace(told, now) != now);
        if is_news && now != GrantState::Busy {
            let need = match now {
                GrantState::NeedsLogin(reason) => Some(self.words_of(state, reason)),
                _ => None,
            };
            self.0.need.send_if_modified(|said| {
                *said != need && {
                    *said = need;
                    true
                }
            });
        }
    }

    /// Whether a restart would lose what was renewed.
    pub(crate) fn is_unsaved(&self) -> bool {
        self.0.state.lock().machine.is_unsaved()
    }

    /// Whether all replicas have it.
    pub(crate) fn is_shared(&self) -> bool {
        self.0.shared.is_some()
    }

    /// The key of the grant in the log of a cluster.
    pub(crate) fn subject(&self) -> &str {
        &self.0.subject
    }

    pub(crate) fn downgrade(&self) -> Weak<KeeperShared> {
        Arc::downgrade(&self.0)
    }

    /// Why a person has to log in, and when that is otherwise.
    pub(crate) fn need(&self) -> watch::Receiver<Option<String>> {
        self.0.need.subscribe()
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
        // The record stays: what was granted under other settings is used until it is refused, or until somebody logs
        // in.
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
        // The table has one and the task has one. It is asked under the lock of the table, so nobody can be handed
        // another meanwhile.
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
            if self.is_shared() {
                state.wants_login_written(&record);
            }
            state.record = Some(record.clone());
            state.more.clear();
            state.fault = None;
        });
        match self.settled().await {
            GrantState::Valid(_) if self.is_shared() && self.0.state.lock().is_unwritten() => {
                Err("the other replicas could not be told of it yet; that is tried again for as long as this one runs"
                    .to_owned())
            }
            GrantState::Valid(_) if !self.is_shared() || self.0.state.lock().has(&record) => Ok(()),
            // Another login or a logout came between the two, or the store has not answered for as long as anybody
            // waits.
            _ => Err("the login was overtaken by another".to_owned()),
        }
    }

    /// Somebody logged out: gives what is to be revoked.
    pub(crate) async fn logged_out(&self) -> Result<Option<GrantRecord>, String> {
        if let Some(shared) = &self.0.shared {
            return self.log_out_shared(shared).await;
        }
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
        // Until the token is withdrawn: whoever revokes it next must not have it in use.
        self.settled().await;
        Ok(record)
    }

    /// The user asks for everything to be tried anew.
    pub(crate) async fn restart(&self) {
        // It is asked at all replicas whether a login is needed.
        self.forget_shared(true).await;
        self.tell_with(GrantEvent::Restart, |_| {});
        self.try_what_is_shared();
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

    pub(crate) fn held(&self) -> watch::Receiver<Option<HeldCredential>> {
        self.0.held.subscribe()
    }

    pub(crate) fn is_configured(&self) -> bool {
        self.0.state.lock().is_configured
    }

    fn tell_with(&self, event: GrantEvent, change: impl FnOnce(&mut KeeperState)) {
        {
            let mut state = self.0.state.lock();
            change(&mut state);
            let commands = state.machine.on(event, Instant::now());
            state.commands.extend(commands);
            // Before the bell: whoever waits in `settled` next must not read the state from before this event.
            self.say(&state);
        }
        self.ensure_runs();
        self.0.bell.notify_one();
    }

    /// What the machine says, as soon as nothing is under way, or when the time is over.
    async fn settled(&self) -> GrantState {
        let mut told = self.0.told.subscribe();
        // A time that is over is no fault here: the state is `Busy` then, and its callers have words for that.
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
        // Only the task calls this, and it looks at the commands next: no bell has to ring, and nothing is said before
        // that.
        let mut state = self.0.state.lock();
        let commands = state.machine.on(event, Instant::now());
        state.commands.extend(commands);
    }
}

impl From<Arc<KeeperShared>> for Keeper {
    fn from(shared: Arc<KeeperShared>) -> Self {
        Self(shared)
    }
}

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}
