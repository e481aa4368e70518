//! Links that one session, one person, or the modern clients of one principal that declare the same, have for themselves.
//!
//! Such a link is opened when it is first needed, by one attempt at a time; after a failure there is a pause, longer each
//! time; where a person has to log in first, nothing is tried until that changes. There are only so many per owner and in all, or, for
//! people, per server, and one that nobody has used for a while is closed. This table decides; whoever drives it connects,
//! closes and tells how that went.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::{ClientKey, LinkKey, RetryBackoff, ServerId};

/// The first pause after a failure, and the longest.
const PAUSES: RetryBackoff = RetryBackoff { first: Duration::from_millis(200), longest: Duration::from_secs(30) };
/// A link that held this long has not failed when it ends.
const STABLE: Duration = Duration::from_secs(10);
/// Of so many owners it is remembered what they have; of more, only of those who have a link.
const MOST_OWNERS: usize = 8_192;

/// Who has a link for itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LinkOwner {
    /// One legacy session: the link ends with it.
    Session(ClientKey),
    /// One person with all their clients, of both eras: the server knows them as one (`isolation = "principal"`).
    Person(Arc<str>),
    /// The modern clients of one principal that declare the same: a modern request tells of no other bond.
    Principal {
        /// The principal's name.
        name: Arc<str>,
        /// What its clients declare, as a legacy server is told once for all requests of a link.
        declares: Arc<str>,
    },
}

impl LinkOwner {
    /// Whether the links of both are counted together: what a client declares, it can change with every request.
    fn counts_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Principal { name, .. }, Self::Principal { name: of_other, .. }) => name == of_other,
            _ => self == other,
        }
    }
}

/// Bounds of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnLinkLimits {
    /// Links of one session or principal.
    pub per_owner: usize,
    /// How many links there may be for all clients together; those of people are counted apart.
    pub total: usize,
    /// Links of people to one server.
    pub people_per_server: usize,
    /// How long a link may be unused.
    pub idle: Duration,
}

impl Default for OwnLinkLimits {
    fn default() -> Self {
        Self { per_owner: 16, total: 256, people_per_server: 256, idle: Duration::from_secs(10 * 60) }
    }
}

/// One attempt to connect a link. Another may be made for the same owner and server before this one is over: then nobody wants what
/// comes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnLinkAttempt(u64);

/// What whoever needs a link has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkClaim {
    /// The link is there and takes requests.
    Up(LinkKey),
    /// Connect it, and tell how that went.
    Connect(OwnLinkAttempt),
    /// Somebody is connecting it.
    Wait,
    /// It failed, and is not tried before this time.
    Resting {
        /// The moment from which it may be tried again.
        until: Instant,
        /// Why the last attempt failed, for whoever asks meanwhile.
        error: Arc<str>,
    },
    /// The owner has as many as it may have.
    TooManyOfOwner(usize),
    /// All owners together have as many as there may be.
    TooMany(usize),
    /// People have as many to this server as there may be: one that is not in use has to give way, see [`OwnLinks::make_room`].
    Full(usize),
    /// The owner has to log in first. Nothing is tried until [`OwnLinks::login_changed`].
    NeedsLogin(Arc<str>),
}

#[derive(Debug)]
struct OwnLink {
    state: OwnLinkState,
    /// How often in a row it failed, or ended soon.
    failures: u32,
}

#[derive(Debug)]
enum OwnLinkState {
    Connecting {
        attempt: OwnLinkAttempt,
        /// The owner's roots changed meanwhile: the server may have asked for them already.
        roots_changed: bool,
    },
    Up {
        key: LinkKey,
        since: Instant,
        used: Instant,
    },
    Resting {
        until: Instant,
        error: Arc<str>,
    },
    /// No pause helps: the owner has to log in.
    NeedsLogin(Arc<str>),
}

impl OwnLink {
    /// What rests or waits for a login holds no process and no connection, so it does not count.
    fn is_counted(&self) -> bool {
        matches!(self.state, OwnLinkState::Connecting { .. } | OwnLinkState::Up { .. })
    }

    fn key(&self) -> Option<LinkKey> {
        match self.state {
            OwnLinkState::Up { key, .. } => Some(key),
            _ => None,
        }
    }

    fn rest(&mut self, error: &str, now: Instant) -> Instant {
        self.failures = self.failures.saturating_add(1);
        let until = now + PAUSES.after(self.failures);
        self.state = OwnLinkState::Resting { until, error: error.into() };
        until
    }
}

/// The links that are not shared: which there are, which are being made, and which give way when there are too many.
#[derive(Debug, Default)]
pub struct OwnLinks {
    limits: OwnLinkLimits,
    owners: HashMap<LinkOwner, BTreeMap<ServerId, OwnLink>>,
    by_key: HashMap<LinkKey, (LinkOwner, ServerId)>,
    counts: OwnLinkCounts,
    /// The number of the next attempt.
    attempts: u64,
}

/// Links that are up or being connected.
#[derive(Debug, Default)]
struct OwnLinkCounts {
    clients: usize,
    people: HashMap<ServerId, usize>,
}

impl OwnLinkCounts {
    fn add(&mut self, owner: &LinkOwner, server: ServerId) {
        match owner {
            LinkOwner::Person(_) => *self.people.entry(server).or_default() += 1,
            LinkOwner::Session(_) | LinkOwner::Principal { .. } => self.clients += 1,
        }
    }

    fn remove(&mut self, owner: &LinkOwner, server: ServerId) {
        match owner {
            LinkOwner::Person(_) => {
                // Kept also at zero: there are as many as servers, and their links come and go.
                if let Some(count) = self.people.get_mut(&server) {
                    *count -= 1;
                }
            }
            LinkOwner::Session(_) | LinkOwner::Principal { .. } => self.clients -= 1,
        }
    }

    fn people(&self, server: ServerId) -> usize {
        self.people.get(&server).copied().unwrap_or_default()
    }
}

impl OwnLinks {
    /// No links; the bounds are fixed for the life of the table.
    pub fn new(limits: OwnLinkLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Somebody needs a link now, to use it.
    pub fn claim(&mut self, owner: &LinkOwner, server: ServerId, now: Instant) -> LinkClaim {
        let claim = self.claim_to_look(owner, server, now);
        let known = self.owners.get_mut(owner).and_then(|links| links.get_mut(&server));
        if let Some(OwnLinkState::Up { used, .. }) = known.map(|link| &mut link.state) {
            *used = now;
        }
        claim
    }

    /// As [`Self::claim`], for a look of the gateway's own: that is no use which would keep a link from being idle.
    pub fn claim_to_look(&mut self, owner: &LinkOwner, server: ServerId, now: Instant) -> LinkClaim {
        // Looked up before the bounds: a link that is there is given even where no other may be made.
        let known = self.owners.get(owner).and_then(|links| links.get(&server));
        match known.map(|link| &link.state) {
            Some(OwnLinkState::Up { key, .. }) => return LinkClaim::Up(*key),
            Some(OwnLinkState::Connecting { .. }) => return LinkClaim::Wait,
            Some(OwnLinkState::NeedsLogin(words)) => return LinkClaim::NeedsLogin(Arc::clone(words)),
            Some(OwnLinkState::Resting { until, error }) if *until > now => {
                return LinkClaim::Resting { until: *until, error: Arc::clone(error) };
            }
            Some(OwnLinkState::Resting { .. }) | None => {}
        }
        if let Some(refusal) = self.over_limits(owner, server) {
            return refusal;
        }
        self.forget_absent();
        // The entry is made only now: a claim that is refused must not leave an empty one behind.
        let links = self.owners.entry(owner.clone()).or_default();
        let attempt = OwnLinkAttempt(self.attempts);
        self.attempts += 1;
        let connecting = || OwnLinkState::Connecting { attempt, roots_changed: false };
        let fresh = || OwnLink { state: connecting(), failures: 0 };
        // An entry that rested keeps its count of failures: the next pause is longer than the last.
        let link = links.entry(server).or_insert_with(fresh);
        link.state = connecting();
        self.counts.add(owner, server);
        LinkClaim::Connect(attempt)
    }

    fn over_limits(&self, owner: &LinkOwner, server: ServerId) -> Option<LinkClaim> {
        let OwnLinkLimits { per_owner, total, people_per_server, .. } = self.limits;
        if matches!(owner, LinkOwner::Person(_)) {
            return (self.counts.people(server) >= people_per_server).then_some(LinkClaim::Full(people_per_server));
        }
        if self.links_counted_with(owner).filter(|link| link.is_counted()).count() >= per_owner {
            return Some(LinkClaim::TooManyOfOwner(per_owner));
        }
        (self.counts.clients >= total).then_some(LinkClaim::TooMany(total))
    }

    /// People come without number and have no end that is told: what is remembered of those who have no link is given up when
    /// it is too much. It costs each of them one more attempt.
    fn forget_absent(&mut self) {
        if self.owners.len() >= MOST_OWNERS {
            self.owners.retain(|owner, links| {
                matches!(owner, LinkOwner::Session(_)) || links.values().any(OwnLink::is_counted)
            });
        }
    }

    /// A person's link to a server gives way: the one that was not used for the longest time, of those of which nothing is expected.
    /// It is given up, and to be closed.
    pub fn make_room(&mut self, server: ServerId, is_busy: impl Fn(LinkKey) -> bool) -> Option<(LinkOwner, LinkKey)> {
        let people = self.owners.iter().filter(|(owner, _)| matches!(owner, LinkOwner::Person(_)));
        let mut unused: Vec<(Instant, &LinkOwner, LinkKey)> = people
            .filter_map(|(owner, links)| match links.get(&server)?.state {
                OwnLinkState::Up { key, used, .. } => Some((used, owner, key)),
                _ => None,
            })
            .collect();
        unused.sort_by_key(|(used, ..)| *used);
        let (owner, key) =
            unused.into_iter().find(|(.., key)| !is_busy(*key)).map(|(_, owner, key)| (owner.clone(), key))?;
        self.give_up(&owner, server);
        Some((owner, key))
    }

    /// The owner of a link has to log in before it can be made. `false` when nobody wants it any more.
    pub fn needs_login(&mut self, owner: &LinkOwner, server: ServerId, made: OwnLinkAttempt, words: &str) -> bool {
        let Some(link) = self.owners.get_mut(owner).and_then(|links| links.get_mut(&server)) else { return false };
        if !matches!(link.state, OwnLinkState::Connecting { attempt, .. } if attempt == made) {
            return false;
        }
        // That the server was reached ends the row of failures.
        *link = OwnLink { state: OwnLinkState::NeedsLogin(words.into()), failures: 0 };
        self.counts.remove(owner, server);
        true
    }

    /// An owner has logged in to a server, or out of it: what was known of the link counts no more. Gives the link to close, if one
    /// was up; an attempt that is under way finds that nobody wants it.
    pub fn login_changed(&mut self, owner: &LinkOwner, server: ServerId) -> Option<LinkKey> {
        self.give_up(owner, server)
    }

    /// The servers that somebody has to log in to, as far as anybody has found out.
    pub fn missing_logins(&self, owner: &LinkOwner) -> Vec<ServerId> {
        let links = self.owners.get(owner).into_iter().flatten();
        let missing = links.filter(|(_, link)| matches!(link.state, OwnLinkState::NeedsLogin(_)));
        missing.map(|(server, _)| *server).collect()
    }

    /// Forgets a link, and gives its key if it was up: when it ends, that is nobody's news any more.
    fn give_up(&mut self, owner: &LinkOwner, server: ServerId) -> Option<LinkKey> {
        let link = self.owners.get_mut(owner)?.remove(&server)?;
        if link.is_counted() {
            self.counts.remove(owner, server);
        }
        self.tidy(owner);
        let key = link.key()?;
        self.by_key.remove(&key);
        Some(key)
    }

    /// A link was made. `None` when nobody wants it any more, so that it is to be closed; otherwise whether the server is
    /// to be told that the owner's roots changed.
    pub fn connected(
        &mut self,
        owner: &LinkOwner,
        server: ServerId,
        made: OwnLinkAttempt,
        key: LinkKey,
        now: Instant,
    ) -> Option<bool> {
        let link = self.owners.get_mut(owner)?.get_mut(&server)?;
        let OwnLinkState::Connecting { attempt, roots_changed } = link.state else { return None };
        // The owner left and came back meanwhile, or the server did: the attempt of the first time is nobody's.
        if attempt != made {
            return None;
        }
        link.state = OwnLinkState::Up { key, since: now, used: now };
        self.by_key.insert(key, (owner.clone(), server));
        Some(roots_changed)
    }

    /// A link could not be made. Tells when it may be tried again; `None` when nobody wants it any more.
    pub fn failed(
        &mut self,
        owner: &LinkOwner,
        server: ServerId,
        made: OwnLinkAttempt,
        error: &str,
        now: Instant,
    ) -> Option<Instant> {
        let link = self.owners.get_mut(owner)?.get_mut(&server)?;
        // As above: it is not the one that counts now.
        if !matches!(link.state, OwnLinkState::Connecting { attempt, .. } if attempt == made) {
            return None;
        }
        let until = link.rest(error, now);
        self.counts.remove(owner, server);
        Some(until)
    }

    /// A link ended by itself. Tells whose it was; `None` when it is a shared one, or was given up before.
    pub fn closed(&mut self, key: LinkKey, now: Instant) -> Option<(LinkOwner, ServerId)> {
        let (owner, server) = self.by_key.remove(&key)?;
        let links = self.owners.get_mut(&owner)?;
        let link = links.get_mut(&server)?;
        // Always so: only links that are up have a key in the index.
        let OwnLinkState::Up { since, .. } = link.state else { return None };
        self.counts.remove(&owner, server);
        // Forgotten, with its failures: the next one is made at once when it is needed.
        if now.duration_since(since) >= STABLE {
            links.remove(&server);
        } else {
            link.rest("it ended soon after it was made", now);
        }
        self.tidy(&owner);
        Some((owner, server))
    }

    /// The roots of an owner changed: the links to tell now. Those that are being connected are told when they are up.
    pub fn roots_changed(&mut self, owner: &LinkOwner) -> Vec<LinkKey> {
        let links = self.owners.get_mut(owner).into_iter().flat_map(|links| links.values_mut());
        links
            .filter_map(|link| match &mut link.state {
                OwnLinkState::Up { key, .. } => Some(*key),
                OwnLinkState::Connecting { roots_changed, .. } => {
                    *roots_changed = true;
                    None
                }
                OwnLinkState::Resting { .. } | OwnLinkState::NeedsLogin(_) => None,
            })
            .collect()
    }

    /// An owner is gone: the links to close. One that is still being connected finds that nobody wants it.
    pub fn owner_gone(&mut self, owner: &LinkOwner) -> Vec<LinkKey> {
        let links = self.owners.remove(owner).unwrap_or_default();
        for (server, _) in links.iter().filter(|(_, link)| link.is_counted()) {
            self.counts.remove(owner, *server);
        }
        let keys: Vec<LinkKey> = links.values().filter_map(OwnLink::key).collect();
        // Out of the index now: when they end, that is nobody's news any more.
        keys.iter().for_each(|key| _ = self.by_key.remove(key));
        keys
    }

    /// A server is gone, or another has taken its place, or it begins anew: what is known of its failures is of no use, and what is being
    /// connected finds that nobody wants it.
    pub fn server_gone(&mut self, server: ServerId) {
        for (owner, links) in &mut self.owners {
            // Links that are up are ended by whoever removes the server, and are counted until then.
            if let Some(link) = links.get(&server).filter(|link| link.key().is_none()) {
                if link.is_counted() {
                    self.counts.remove(owner, server);
                }
                links.remove(&server);
            }
        }
        self.owners.retain(|_, links| !links.is_empty());
    }

    /// Links that nobody has used for too long: they are given up, and to be closed. `is_busy` says of which something is
    /// still expected.
    pub fn idle(&mut self, now: Instant, is_busy: impl Fn(LinkKey) -> bool) -> Vec<(LinkOwner, ServerId, LinkKey)> {
        let mut idle = Vec::new();
        for (owner, links) in &mut self.owners {
            for (server, link) in links {
                let OwnLinkState::Up { key, used, .. } = &mut link.state else { continue };
                if now.duration_since(*used) < self.limits.idle {
                    continue;
                }
                if is_busy(*key) {
                    // A long call is use, though nothing was claimed since it began.
                    *used = now;
                } else {
                    idle.push((owner.clone(), *server, *key));
                }
            }
        }
        for (owner, server, _) in &idle {
            self.give_up(owner, *server);
        }
        idle
    }

    /// When the next link may be idle for too long.
    pub fn next_idle(&self) -> Option<Instant> {
        let links = self.owners.values().flat_map(|links| links.values());
        let used = links.filter_map(|link| match link.state {
            OwnLinkState::Up { used, .. } => Some(used),
            _ => None,
        });
        used.min().map(|used| used + self.limits.idle)
    }

    /// How many links are up or being connected.
    pub fn len(&self) -> usize {
        self.counts.clients + self.counts.people.values().sum::<usize>()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn links_counted_with<'a>(&'a self, owner: &'a LinkOwner) -> impl Iterator<Item = &'a OwnLink> {
        let owners = self.owners.iter().filter(move |(other, _)| owner.counts_with(other));
        owners.flat_map(|(_, links)| links.values())
    }

    fn tidy(&mut self, owner: &LinkOwner) {
        if self.owners.get(owner).is_some_and(BTreeMap::is_empty) {
            self.owners.remove(owner);
        }
    }
}
