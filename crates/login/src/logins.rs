//! The logins of one gateway: a keeper for each server that may want one, and the way of a person through a login (`beginning`, `tickets`,
//! `ending`).

mod beginning;
mod ending;
mod own_client;
mod proofs;
#[cfg(test)]
mod replica_tests;
mod replicas;
#[cfg(test)]
mod tests;
mod tickets;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tidings_config::LoginConfig;
use tidings_store::VaultTable;
use tidings_sync::Lock;
use tidings_upstream::{PeopleLogins, SharedCredential};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use self::ending::{CompletedLogin, LoginBearer};
pub(crate) use self::proofs::ProofFault;
pub(crate) use self::tickets::OpenedTicket;
use crate::browser_proof::BrowserProofs;
use crate::keeper::{Keeper, KeeperTools, kept_people};
use crate::pending::PendingLogins;
use crate::provider_http::{ProviderHttp, TOKENS_WITHIN};
use crate::server_keepers::{KeeperOf, ServerKeepers};
use crate::server_login::ServerLogin;
use crate::shared_grants::SharedGrants;
use crate::web_address::WebAddress;

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
    proofs: Lock<BrowserProofs>,
    reconnect: OnceLock<ServerReconnect>,
    person_moved: OnceLock<PersonMoved>,
    /// What the gateway is called by browsers: without a path, without a slash at its end.
    base: OnceLock<String>,
}

impl Logins {
    /// Keeps what it is given in `vault`.
    pub fn new(vault: VaultTable) -> Self {
        Self::with(vault, None)
    }

    /// Those of a replica: grants stand in the log that is [attached](Self::attach_log), and `vault` has what is this process's own.
    pub fn of_replica(vault: VaultTable) -> Self {
        Self::with(vault, Some(Arc::new(SharedGrants::new())))
    }

    fn with(vault: VaultTable, shared: Option<Arc<SharedGrants>>) -> Self {
        let tools = KeeperTools {
            http: ProviderHttp::default(),
            vault,
            shared,
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        };
        Self(Arc::new(LoginsShared {
            tools: Arc::new(tools),
            keepers: Lock::default(),
            making: tokio::sync::Mutex::default(),
            pages: Lock::default(),
            pending: Lock::default(),
            proofs: Lock::default(),
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
        // Held over the reading below: of two who ask at once each would make a keeper, and both would renew.
        let mut keepers = self.0.keepers.lock();
        let is_same = |known: &&ServerKeepers| {
            // A grant for all and those of people are kept apart: where it is the other now, both are looked for anew.
            let before = known.shared.settings();
            *known.shared.address() == address
                && before.is_personal == settings.is_personal
                // Of a cluster, those of machines are kept apart as well.
                && before.grant.is_machine() == settings.grant.is_machine()
        };
        if let Some(known) = keepers.get(name).filter(is_same) {
            known.configure(&settings, is_configured);
            return Some(self.owner(known.shared.clone()));
        }
        let kept = match settings.is_personal && self.0.tools.shared.is_none() {
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
        let mut keepers = self.0.keepers.lock();
        let Some(of_server) = keepers.get_mut(server) else { return PeopleLogins::default() };
        self.look_for_people(of_server);
        of_server.count()
    }

    /// People may have logged in at other replicas.
    fn look_for_people(&self, of_server: &mut ServerKeepers) {
        if let Some(shared) = self.0.tools.shared.as_ref().filter(|_| of_server.shared.settings().is_personal) {
            let address = of_server.shared.address().canonical();
            of_server.heard(shared.people(of_server.shared.name(), &address));
        }
    }

    pub(crate) fn owner(&self, keeper: Keeper) -> SharedCredential {
        SharedCredential(Arc::new(ServerLogin { keeper, logins: Arc::downgrade(&self.0) }))
    }

    pub(crate) fn of(shared: Arc<LoginsShared>) -> Self {
        Self(shared)
    }

    /// The keeper of a grant, that of a person made when it is first asked for.
    pub(crate) async fn keeper(&self, server: &str, person: Option<&str>) -> Result<Keeper, LoginFault> {
        let unknown = || LoginFault::Unknown(server.to_owned());
        let (_, found) = self.known_keeper(server, person)?;
        let (KeeperOf::Unread, Some(person)) = (&found, person) else {
            return match found {
                KeeperOf::Known(keeper) => Ok(keeper),
                // Can not happen: the shared keeper of a known server is there always, and only a person's may be
                // unread.
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
        // The same keeper, and not the same name: a server that was replaced meanwhile has another address or other
        // people.
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

    /// A server is gone: its logins go with it.
    pub async fn forget(&self, server: &str) {
        let unread = match self.0.keepers.lock().get_mut(server) {
            Some(of_server) => {
                self.look_for_people(of_server);
                of_server.unread()
            }
            None => Vec::new(),
        };
        for person in unread {
            // What is kept of them has to be read to be ended at the provider.
            let _ = self.keeper(server, Some(&person)).await;
        }
        // Removed before they are ended: whoever asks from here on is told that there is no such server, and makes
        // none.
        let Some(keepers) = self.0.keepers.lock().remove(server) else { return };
        let keepers: Vec<Keeper> = keepers.all().cloned().collect();
        for keeper in keepers {
            // Before `end`: a logout is carried out by the task, which `end` stops.
            let record = match keeper.is_shared() {
                true => keeper.forget_shared(false).await,
                false => keeper.logged_out().await.ok().flatten(),
            };
            if let Some(record) = record {
                keeper.revoke(&record).await;
            }
            keeper.end();
        }
    }

    /// The user asks for everything of a server to be tried anew.
    pub async fn restart(&self, server: &str) {
        let keepers: Vec<Keeper> =
            self.0.keepers.lock().get(server).map(|keepers| keepers.all().cloned().collect()).unwrap_or_default();
        for keeper in keepers {
            keeper.restart().await;
        }
    }
}
