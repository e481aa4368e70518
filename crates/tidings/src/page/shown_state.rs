//! What numbers and states a page that is open shows, and which of them are others by now. Nothing is told of what it does not show.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tidings_engine::{Catalogue, Gateway, ServerState};
use tidings_inventory::RegistryState;
use tidings_page::{client_state, few, follow_changes, follow_key, follow_state, server_state};
use tokio::time::{Duration, Instant};

use super::{PageServer, views};

/// How often numbers and states are looked at; of how many commits, and of how many rows of a screen.
const TICK: Duration = Duration::from_millis(250);
const COMMITS: usize = 64;
const SHOWN: usize = 64;

pub(super) struct ShownState {
    page: PageServer,
    due: Instant,
    version: u64,
    told: HashMap<String, String>,
    header: HeaderState,
    clients: Option<ClientStates>,
    follows: Option<FollowStates>,
    servers: Option<ServerStates>,
}

impl ShownState {
    /// What the page shows is in its query: `want` names the kinds, and each kind its rows.
    pub(super) fn new(page: PageServer, query: &[(String, String)]) -> Self {
        let wants =
            |kind: &str| query.iter().any(|(key, value)| key == "want" && value.split(',').any(|one| one == kind));
        let all =
            |kind: &'static str| query.iter().filter(move |(key, _)| key == kind).map(|(_, value)| value.as_str());
        let clients = wants("clients").then(|| ClientStates {
            shown: all("clients").flat_map(|ids| ids.split(',')).filter_map(|id| id.parse().ok()).take(SHOWN).collect(),
            ..ClientStates::default()
        });
        let key = |text: &str| u64::from_str_radix(text, 16).ok();
        let follows = wants("follows").then(|| FollowStates {
            shown: all("follows").flat_map(|keys| keys.split(',')).filter_map(key).take(SHOWN).collect(),
            ..FollowStates::default()
        });
        let servers = wants("servers").then(|| ServerStates {
            shown: all("servers").map(str::to_owned).take(SHOWN).collect(),
            ..ServerStates::default()
        });
        let (due, told, header) = (Instant::now() + TICK, HashMap::new(), HeaderState::default());
        Self { page, due, version: 0, told, header, clients, follows, servers }
    }

    /// When it is to be looked at again.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// What differs from what was last sent.
    pub(super) fn news(&mut self) -> Option<Value> {
        self.due = Instant::now() + TICK;
        let gateway = &self.page.0.gateway;
        let mut news = Map::new();
        let version = gateway.deliveries_version();
        if version != self.version {
            self.version = version;
            let newest = gateway.newest_notices(COMMITS).into_iter().map(|(commit, topic, known)| {
                let counts = views::notice_counts(commit, &known);
                (counts.key(topic.as_str()), counts.words())
            });
            let now: HashMap<String, String> = newest.collect();
            let told = now.iter().filter(|(key, words)| self.told.get(*key) != Some(words));
            put(&mut news, "told", told.map(|(key, words)| (key.clone(), json!(words))).collect());
            self.told = now;
        }
        let catalogue = gateway.catalogue().borrow().clone();
        self.header.add_news(gateway, &catalogue, &mut news);
        if let Some(servers) = &mut self.servers {
            servers.add_news(&self.page, catalogue, &mut news);
        }
        // How long ago something was makes another state of it, so these are asked each time.
        if let Some(clients) = &mut self.clients {
            clients.add_news(gateway, &mut news);
        }
        if let Some(follows) = &mut self.follows {
            follows.add_news(gateway, &mut news);
        }
        (!news.is_empty()).then_some(news.into())
    }
}

fn put(news: &mut Map<String, Value>, what: &str, some: Map<String, Value>) {
    if !some.is_empty() {
        news.insert(what.to_owned(), some.into());
    }
}

/// The numbers beside the names of screens: servers in trouble, and definitions that wait.
#[derive(Default)]
struct HeaderState {
    failing: usize,
    waiting: usize,
    is_sent: bool,
}

impl HeaderState {
    fn add_news(&mut self, gateway: &Gateway, catalogue: &Catalogue, news: &mut Map<String, Value>) {
        let (failing, waiting) = (failing(catalogue), gateway.all_waiting_approvals());
        if !self.is_sent || (failing, waiting) != (self.failing, self.waiting) {
            let words =
                |sign: &str, count: usize| if count == 0 { String::new() } else { format!(" {sign}{}", few(count)) };
            news.insert("failing".to_owned(), words("▲", failing).into());
            news.insert("waiting".to_owned(), words("", waiting).into());
            *self = Self { failing, waiting, is_sent: true };
        }
    }
}

/// How many servers are in trouble.
pub(super) fn failing(catalogue: &Catalogue) -> usize {
    let in_trouble = |state: ServerState| matches!(state, ServerState::Failing | ServerState::NeedsLogin);
    catalogue.servers.iter().filter(|server| in_trouble(server.state)).count()
}

/// The clients that stand on the page, how each stood, and how many there were in all.
#[derive(Default)]
struct ClientStates {
    shown: HashSet<u64>,
    states: HashMap<u64, &'static str>,
    total: usize,
}

impl ClientStates {
    fn add_news(&mut self, gateway: &Gateway, news: &mut Map<String, Value>) {
        let total = gateway.shown_count();
        let mut changed = Map::new();
        for standing in gateway.standing_of(self.shown.iter().copied()) {
            let (id, state) = (standing.client.id, standing.standing.as_str());
            if self.states.insert(id, state) != Some(state) {
                let (shape, class) = client_state(state);
                let reason = tidings_admin::client_reason(&standing);
                changed.insert(id.to_string(), json!([class, format!("{shape} {state}"), reason]));
            }
        }
        if !changed.is_empty() || total != self.total {
            news.insert("clients".to_owned(), changed.into());
            news.insert("total".to_owned(), total.into());
        }
        self.total = total;
    }
}

/// The resources that stand on the page, each with its state and how often it changed, and how many are followed in all.
#[derive(Default)]
struct FollowStates {
    shown: HashSet<u64>,
    states: HashMap<u64, (&'static str, u32)>,
    total: usize,
}

impl FollowStates {
    fn add_news(&mut self, gateway: &Gateway, news: &mut Map<String, Value>) {
        let (found, total) = gateway.followed_where(|server, local| self.shown.contains(&follow_key(server, local)));
        let mut changed = Map::new();
        for resource in found {
            let (key, state) = (follow_key(&resource.server, &resource.local), resource.phase.as_str());
            let now = (state, resource.announced);
            let before = self.states.insert(key, now);
            if before == Some(now) {
                continue;
            }
            let (shape, class) = follow_state(state);
            let last = resource.announced_ago.and_then(views::past).map(|last| last.to_string());
            // What is sent first says what there is; only what comes after it is a change that happens now.
            let is_new = before.is_some_and(|(_, announced)| announced != resource.announced);
            let words = (format!("{shape} {state}"), follow_changes(resource.announced));
            changed.insert(format!("{key:016x}"), json!([class, words.0, words.1, last, is_new]));
        }
        if !changed.is_empty() || total != self.total {
            news.insert("follows".to_owned(), changed.into());
            news.insert("followed".to_owned(), total.into());
        }
        self.total = total;
    }
}

/// The servers that stand on the page, and the state of each.
#[derive(Default)]
struct ServerStates {
    shown: HashSet<String>,
    states: HashMap<String, &'static str>,
    /// What they were read from: as long as both are the same, nothing is read again.
    seen: Option<(Arc<Catalogue>, Arc<RegistryState>)>,
}

impl ServerStates {
    fn add_news(&mut self, page: &PageServer, catalogue: Arc<Catalogue>, news: &mut Map<String, Value>) {
        let kept = page.0.registry.state();
        let is_seen = |(seen, known): &(Arc<Catalogue>, Arc<RegistryState>)| {
            Arc::ptr_eq(seen, &catalogue) && Arc::ptr_eq(known, &kept)
        };
        if self.seen.as_ref().is_some_and(is_seen) {
            return;
        }
        let mut changed = Map::new();
        for (name, state) in tidings_admin::server_states(&page.0.gateway, &kept) {
            if self.shown.contains(&name) && self.states.insert(name.clone(), state) != Some(state) {
                let (shape, class) = server_state(state);
                changed.insert(name, json!([class, format!("{shape} {state}")]));
            }
        }
        put(news, "servers", changed);
        self.seen = Some((catalogue, kept));
    }
}
