//! Links that one session, or the modern clients of one principal that declare the same, have for themselves.
//!
//! Such a link is opened when it is first needed, by one attempt at a time; after a failure there is a pause, longer each
//! time. There are only so many per owner and in all, and one that nobody has used for a while is closed. This table
//! decides; whoever drives it connects, closes and tells how that went.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::{ClientKey, LinkKey, RetryBackoff, ServerId};

/// The first pause after a failure, and the longest.
const PAUSES: RetryBackoff = RetryBackoff { first: Duration::from_millis(200), longest: Duration::from_secs(30) };
/// A link that held this long has not failed when it ends.
const STABLE: Duration = Duration::from_secs(10);

/// Who has a link for itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LinkOwner {
    /// One legacy session: the link ends with it.
    Session(ClientKey),
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
    /// How many links there may be for all clients together.
    pub total: usize,
    /// How long a link may be unused.
    pub idle: Duration,
}

impl Default for OwnLinkLimits {
    fn default() -> Self {
        Self { per_owner: 16, total: 256, idle: Duration::from_secs(10 * 60) }
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
}

impl OwnLink {
    fn is_counted(&self) -> bool {
        !matches!(self.state, OwnLinkState::Resting { .. })
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
    /// Links that are up or being connected.
    counted: usize,
    /// The number of the next attempt.
    attempts: u64,
}

impl OwnLinks {
    /// No links; the bounds are fixed for the life of the table.
    pub fn new(limits: OwnLinkLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Somebody needs a link now.
    pub fn claim(&mut self, owner: &LinkOwner, server: ServerId, now: Instant) -> LinkClaim {
        // Looked up before the bounds: a link that is there is given even where no other may be made.
        let known = self.owners.get_mut(owner).and_then(|links| links.get_mut(&server));
        match known.map(|link| &mut link.state) {
            Some(OwnLinkState::Up { key, used, .. }) => {
                *used = now;
                return LinkClaim::Up(*key);
            }
            Some(OwnLinkState::Connecting { .. }) => return LinkClaim::Wait,
            Some(OwnLinkState::Resting { until, error }) if *until > now => {
                return LinkClaim::Resting { until: *until, error: Arc::clone(error) };
            }
            Some(OwnLinkState::Resting { .. }) | None => {}
        }
        // What rests holds no process and no connection, so it does not count.
        if self.links_counted_with(owner).filter(|link| link.is_counted()).count() >= self.limits.per_owner {
            return LinkClaim::TooManyOfOwner(self.limits.per_owner);
        }
        if self.counted >= self.limits.total {
            return LinkClaim::TooMany(self.limits.total);
        }
        // The entry is made only now: a claim that is refused must not leave an empty one behind.
        let links = self.owners.entry(owner.clone()).or_default();
        let attempt = OwnLinkAttempt(self.attempts);
        self.attempts += 1;
        let connecting = || OwnLinkState::Connecting { attempt, roots_changed: false };
        let fresh = || OwnLink { state: connecting(), failures: 0 };
        // An entry that rested keeps its count of failures: the next pause is longer than the last.
        let link = links.entry(server).or_insert_with(fresh);
        link.state = connecting();
        self.counted += 1;
        LinkClaim::Connect(attempt)
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
        self.counted -= 1;
        Some(link.rest(error, now))
    }

    /// A link ended by itself. Tells whose it was; `None` when it is a shared one, or was given up before.
    pub fn closed(&mut self, key: LinkKey, now: Instant) -> Option<(LinkOwner, ServerId)> {
        let (owner, server) = self.by_key.remove(&key)?;
        let links = self.owners.get_mut(&owner)?;
        let link = links.get_mut(&server)?;
        // Always so: only links that are up have a key in the index.
        let OwnLinkState::Up { since, .. } = link.state else { return None };
        self.counted -= 1;
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
                OwnLinkState::Resting { .. } => None,
            })
            .collect()
    }

    /// An owner is gone: the links to close. One that is still being connected finds that nobody wants it.
    pub fn owner_gone(&mut self, owner: &LinkOwner) -> Vec<LinkKey> {
        let links = self.owners.remove(owner).unwrap_or_default();
        self.counted -= links.values().filter(|link| link.is_counted()).count();
        let keys: Vec<LinkKey> = links.values().filter_map(OwnLink::key).collect();
        // Out of the index now: when they end, that is nobody's news any more.
        keys.iter().for_each(|key| _ = self.by_key.remove(key));
        keys
    }

    /// A server is gone, or another has taken its place, or it begins anew: what is known of its failures is of no use, and what is being
    /// connected finds that nobody wants it.
    pub fn server_gone(&mut self, server: ServerId) {
        let mut given_up = 0;
        for links in self.owners.values_mut() {
            // Links that are up are ended by whoever removes the server, and are counted until then.
            if let Some(link) = links.get(&server).filter(|link| link.key().is_none()) {
                given_up += usize::from(link.is_counted());
                links.remove(&server);
            }
        }
        self.counted -= given_up;
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
        for (owner, server, key) in &idle {
            self.by_key.remove(key);
            self.counted -= 1;
            if let Some(links) = self.owners.get_mut(owner) {
                links.remove(server);
            }
            self.tidy(owner);
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
        self.counted
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.counted == 0
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
