//! All URLs that are told of changes, and how one set of them becomes the next while the gateway runs.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::Uri;
use tidings_config::NotifySettings;
use tidings_store::{ChangeLog, OutboundTable};
use tidings_sync::Lock;
use tidings_upstream::{HttpClient, LinkError};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::delivery::HookDelivery;
use crate::message::MessageSender;
use crate::signature::MessageSigner;
use crate::status::HookStatus;

/// How long the end waits for tries that are under way, and for their places to be kept.
const CLOSE: Duration = Duration::from_secs(5);

/// Why a URL can not be told anything.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HookFault {
    /// It does not parse, or names no host.
    #[error("[[notify]] {shown}: not a URL that can be posted to")]
    Url {
        /// What may be shown of it.
        shown: String,
    },
    /// It leads back to this gateway: what it receives would be a change again.
    #[error("[[notify]] {shown}: leads to this gateway itself; name another receiver")]
    Itself {
        /// What may be shown of it.
        shown: String,
    },
    /// The system's certificates can not be had.
    #[error("[[notify]]: {0}")]
    Client(LinkError),
}

/// The URLs. Clones are handles to the same ones.
#[derive(Clone)]
pub struct OutboundHooks(Arc<HooksShared>);

struct HooksShared {
    log: ChangeLog,
    table: OutboundTable,
    sender: MessageSender,
    /// Loading the system's certificates is costly, so there is one of each, and none where nobody is told.
    anywhere: OnceLock<HttpClient>,
    public: OnceLock<HttpClient>,
    running: Lock<HookSet>,
    /// Held while places are dropped: whoever begins meanwhile waits, so that its place is not dropped behind it.
    forgetting: tokio::sync::Mutex<()>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

#[derive(Default)]
struct HookSet {
    /// In the order of the configuration.
    told: Vec<RunningHook>,
    /// Those that were taken out of it and have not ended yet, by identity: a try that is under way may still finish.
    leaving: Vec<(String, CancellationToken)>,
}

struct RunningHook {
    settings: NotifySettings,
    status: Arc<Lock<HookStatus>>,
    stop: CancellationToken,
    /// Set when its task has ended, so that the next one of the same place does not write beside it.
    ended: CancellationToken,
}

/// A set of URLs that can be told, to be applied when everything else can.
pub struct NextHooks(Vec<(NotifySettings, Uri, HttpClient)>);

impl OutboundHooks {
    /// Tells nobody yet. Blocks while it reads who sends.
    pub fn new(log: ChangeLog, table: OutboundTable) -> Self {
        // Without random numbers nothing else would work either.
        let fresh = MessageSender::fresh().unwrap_or_else(|| MessageSender::kept("0".repeat(32)));
        let sender = table.sender(fresh.as_str()).map(MessageSender::kept).unwrap_or_else(|error| {
            tracing::warn!(%error, "receivers will take this gateway for another one after a restart");
            fresh
        });
        Self(Arc::new(HooksShared {
            log,
            table,
            sender,
            anywhere: OnceLock::new(),
            public: OnceLock::new(),
            running: Lock::default(),
            forgetting: tokio::sync::Mutex::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        }))
    }

    /// Whether these can be told. Nothing is changed yet. `is_own`: whether a URL leads to this gateway.
    pub fn prepare(&self, settings: &[NotifySettings], is_own: &dyn Fn(&str) -> bool) -> Result<NextHooks, HookFault> {
        let one = |settings: &NotifySettings| {
            let shown = settings.shown();
            let url: Uri = settings.url.parse().map_err(|_| HookFault::Url { shown: shown.clone() })?;
            if url.host().is_none_or(str::is_empty) {
                return Err(HookFault::Url { shown });
            }
            if is_own(&settings.url) {
                return Err(HookFault::Itself { shown });
            }
            let client = self.0.client(settings, &url).map_err(HookFault::Client)?;
            Ok((settings.clone(), url, client))
        };
        settings.iter().map(one).collect::<Result<_, _>>().map(NextHooks)
    }

    /// From now on these are told. Those that are configured as before go on undisturbed.
    pub fn apply(&self, next: NextHooks) {
        let shared = &self.0;
        let mut running = shared.running.lock();
        let HookSet { told, leaving } = &mut *running;
        leaving.retain(|(_, ended)| !ended.is_cancelled());
        let mut before = std::mem::take(told);
        for (settings, url, client) in next.0 {
            let known = before.iter().position(|hook| hook.settings.identity() == settings.identity());
            let known = known.map(|place| before.swap_remove(place));
            match known {
                Some(known) if known.settings == settings => told.push(known),
                known => {
                    let is_same = |(identity, _): &&(String, CancellationToken)| identity == settings.identity();
                    let mut earlier: Vec<_> = leaving.iter().filter(is_same).map(|(_, ended)| ended.clone()).collect();
                    if let Some(known) = known {
                        // Ended before the new one begins, which waits for it in its own task: nobody holds the lock
                        // over that.
                        known.stop.cancel();
                        earlier.push(known.ended);
                    }
                    told.push(shared.start(settings, url, client, earlier));
                }
            }
        }
        let mut gone = Vec::new();
        for hook in before {
            hook.stop.cancel();
            leaving.push((hook.settings.identity().to_owned(), hook.ended.clone()));
            gone.push(hook.ended);
        }
        // Also where none is gone: an earlier process may have left places of URLs that are not configured any more.
        shared.tasks.spawn(Arc::clone(shared).forget_others(gone));
    }

    /// How each stands, in the order of the configuration.
    pub fn statuses(&self) -> Vec<HookStatus> {
        self.0.running.lock().told.iter().map(|hook| hook.status.lock().clone()).collect()
    }

    /// Ends: what is under way may finish, and where each is is kept.
    pub async fn close(&self) {
        self.0.stop.cancel();
        self.0.tasks.close();
        if tokio::time::timeout(CLOSE, self.0.tasks.wait()).await.is_err() {
            tracing::warn!("a receiver of changes takes long to end");
        }
    }
}

impl HooksShared {
    fn client(&self, settings: &NotifySettings, url: &Uri) -> Result<HttpClient, LinkError> {
        // An address in the URL is the user's word; a name may be made to lead into the private network by whoever owns it.
        let (kept, make): (_, fn() -> _) = match settings.private || is_declared(url.host().unwrap_or_default()) {
            true => (&self.anywhere, HttpClient::new),
            false => (&self.public, HttpClient::public_only),
        };
        match kept.get() {
            Some(client) => Ok(client.clone()),
            // Made outside of the cell: a failure is not kept, and of two who make one at once the first stays.
            None => make().map(|client| kept.get_or_init(|| client).clone()),
        }
    }

    /// `earlier`: the ends of those that had this place before. Only then is it known what they have sent.
    fn start(
        self: &Arc<Self>,
        settings: NotifySettings,
        url: Uri,
        client: HttpClient,
        earlier: Vec<CancellationToken>,
    ) -> RunningHook {
        let status = HookStatus { shown: settings.shown(), ..HookStatus::default() };
        let status = Arc::new(Lock::new(status));
        let (stop, ended) = (self.stop.child_token(), CancellationToken::new());
        let delivery = HookDelivery {
            url,
            client,
            signer: MessageSigner::new(&settings.secrets),
            sender: self.sender.clone(),
            log: self.log.clone(),
            table: self.table.clone(),
            key: key(&settings),
            fingerprint: fingerprint(&settings),
            status: Arc::clone(&status),
            settings: settings.clone(),
        };
        let (mine, at_end) = (stop.clone(), ended.clone().drop_guard());
        let shared = Arc::clone(self);
        self.tasks.spawn(async move {
            // A guard: the end is told also where the task panics, or the next one of this place would wait for ever.
            let _at_end = at_end;
            for ended in earlier {
                ended.cancelled().await;
            }
            // Taken and let go at once: it only waits until nobody drops places any more.
            drop(shared.forgetting.lock().await);
            delivery.run(mine).await;
        });
        RunningHook { settings, status, stop, ended }
    }

    /// Drops the places of URLs that are not told any more, once nobody writes them.
    async fn forget_others(self: Arc<Self>, gone: Vec<CancellationToken>) {
        for ended in gone {
            ended.cancelled().await;
        }
        let _alone = self.forgetting.lock().await;
        // Asked now: one of them may be told again by this time.
        let keys: Vec<String> = self.running.lock().told.iter().map(|hook| key(&hook.settings)).collect();
        let table = self.table.clone();
        let forgotten = tokio::task::spawn_blocking(move || table.retain(&keys)).await;
        if let Ok(Err(error)) = forgotten {
            tracing::warn!(%error, "places of URLs that are not told of changes any more could not be dropped");
        }
    }
}

/// A host that is written as loopback or as an address is meant as it is written.
pub(crate) fn is_declared(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.parse::<std::net::IpAddr>().is_ok() || bare.eq_ignore_ascii_case("localhost")
}

/// A hash: the URL may be a secret, and the store is not sealed.
fn key(settings: &NotifySettings) -> String {
    blake3::hash(settings.identity().as_bytes()).to_hex().to_string()
}

fn fingerprint(settings: &NotifySettings) -> String {
    let mut hasher = blake3::Hasher::new();
    // Not the name and not the filters: another one of those is no other receiver.
    for part in [&settings.url, &format!("{:?}", settings.format)].into_iter().chain(&settings.secrets) {
        hasher.update(part.as_bytes());
        hasher.update(b"\n");
    }
    hasher.finalize().to_hex().to_string()
}
