//! One resource of a server: who follows it, and how it stands with its server.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use tidings_wire::Digest;

use super::PlaceId;
use super::command::{RequestId, ResourceAddress, ServerTicket, Uri};
use super::settings::NoticePace;
use crate::IdMap;
use crate::ledger::FollowerId;

/// A resource that is in the table. Never used twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ResourceId(pub(super) u64);

/// How a resource stands with its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResourceState {
    /// The server is to be asked, or was: then under which ticket.
    Subscribing(Option<ServerTicket>),
    /// The server agreed, and somebody follows.
    Active,
    /// The server agreed, and nobody follows.
    Lingering,
    /// It is released, or the server is to be told: it was, if there is a ticket.
    Unsubscribing(Option<ServerTicket>),
    /// The server refused; what there is to begin with is being read.
    Baseline,
    /// The server refused, and the resource is read from time to time.
    Polled,
    /// The server refused what it once agreed to. It is asked again.
    Unheard,
}

/// Whether a follower may be told already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FollowerGate {
    /// The server has not agreed yet.
    Waiting,
    /// The answer is on its way to the transport.
    Answered,
    /// The transport has it.
    Open,
}

/// Which URIs changed: the subscribed one, or children of it.
#[derive(Clone, Debug, Default)]
pub(super) struct ChangedUris {
    pub(super) whole: bool,
    pub(super) children: BTreeSet<Uri>,
}

/// Children that are told one by one. With more of them the subscribed URI stands for all.
const MOST_CHILDREN: usize = 64;

impl ChangedUris {
    pub(super) fn add(&mut self, child: Option<&Uri>) {
        let Some(child) = child else {
            self.whole = true;
            return;
        };
        self.children.insert(Uri::clone(child));
        // The set is kept per follower, so without a bound a server could fill memory with URIs.
        if self.children.len() > MOST_CHILDREN {
            self.children.clear();
            self.whole = true;
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.whole |= other.whole;
        for child in &other.children {
            // One by one: the bound holds for both together.
            self.add(Some(child));
        }
    }
}

/// What a follower is to be told.
#[derive(Clone, Debug)]
pub(super) struct UntoldChanges {
    /// The first change it stands for.
    pub(super) since: Instant,
    pub(super) changed: ChangedUris,
}

/// One follower of a resource.
#[derive(Debug)]
pub(super) struct FollowerSeat {
    pub(super) gate: FollowerGate,
    pub(super) dirty: Option<UntoldChanges>,
}

/// Changes that are not announced yet.
#[derive(Debug)]
pub(super) struct GatheredChanges {
    pub(super) first: Instant,
    pub(super) changed: ChangedUris,
}

/// Time in which changes may have been missed.
#[derive(Clone, Copy, Debug)]
pub(super) struct ObservationGap {
    /// The content before, if it is known.
    pub(super) before: Option<Digest>,
}

#[derive(Debug)]
pub(super) struct ResourceRecord {
    pub(super) address: ResourceAddress,
    pub(super) pace: NoticePace,
    pub(super) state: ResourceState,
    pub(super) seats: IdMap<FollowerId, FollowerSeat>,
    /// The requests to be answered when the server has.
    pub(super) waiting: BTreeSet<(FollowerId, RequestId)>,
    pub(super) pending: Option<GatheredChanges>,
    /// The newest content that passed.
    pub(super) known: Option<Digest>,
    pub(super) gap: Option<ObservationGap>,
    /// The read whose content is compared.
    pub(super) reading: Option<ServerTicket>,
    /// Its children are announced too, so that its own content does not tell whether one of them changed.
    pub(super) has_children: bool,
    /// The server agreed when it was last asked.
    pub(super) is_agreed: bool,
    /// The server did not answer when it was last asked: it may have agreed.
    pub(super) is_unsure: bool,
    /// Refusals since the server last agreed.
    pub(super) tries: u32,
    /// Reads after the gap that did not reach the server.
    pub(super) unread: u32,
    /// The read that learns the content, and whether one is worth it: a server that refused one is not asked again.
    pub(super) learning: Option<ServerTicket>,
    pub(super) is_learnable: bool,
    /// Since when its server can not tell, though its followers were promised.
    pub(super) unheard_since: Option<Instant>,
    /// How often changes of it were put to its followers, and when last. Only for people to see.
    pub(super) announced: u32,
    pub(super) announced_at: Option<Instant>,
}

impl ResourceRecord {
    pub(super) fn new(address: ResourceAddress, pace: NoticePace, known: Option<Digest>) -> Self {
        Self {
            address,
            pace,
            state: ResourceState::Subscribing(None),
            seats: IdMap::default(),
            waiting: BTreeSet::new(),
            pending: None,
            known,
            gap: None,
            reading: None,
            has_children: false,
            is_agreed: false,
            is_unsure: false,
            tries: 0,
            unread: 0,
            learning: None,
            is_learnable: true,
            unheard_since: None,
            announced: 0,
            announced_at: None,
        }
    }

    /// Whether somebody was promised to be told.
    pub(super) fn is_promised(&self) -> bool {
        self.seats.values().any(|seat| seat.gate != FollowerGate::Waiting)
    }

    /// From now on changes may be missed. A gap within a gap is the same one.
    pub(super) fn begin_gap(&mut self) {
        if self.gap.is_none() && self.is_promised() {
            // The content of a parent does not tell whether a child changed: without it, followers are told in any
            // case.
            let before = if self.has_children { None } else { self.known };
            self.gap = Some(ObservationGap { before });
            self.unread = 0;
        }
    }

    /// From now on its server can not tell, and those who follow it can see that.
    pub(super) fn begin_silence(&mut self, now: Instant) {
        if self.is_promised() {
            self.unheard_since.get_or_insert(now);
        }
    }

    /// The requests of one follower that wait for this resource.
    pub(super) fn waiting_of(&self, follower: FollowerId) -> Vec<RequestId> {
        // Ordered by follower first, so one follower's requests are neighbours.
        let range = (follower, RequestId(0))..=(follower, RequestId(u64::MAX));
        self.waiting.range(range).map(|(_, request)| *request).collect()
    }
}

/// A listen that a server acknowledged.
#[derive(Debug)]
pub(super) struct OpenListen {
    pub(super) ticket: ServerTicket,
    pub(super) honoured: BTreeSet<Uri>,
    pub(super) since: Instant,
}

/// A listen that is not acknowledged yet.
#[derive(Debug)]
pub(super) struct OpeningListen {
    pub(super) asked: BTreeSet<Uri>,
}

/// A server whose resources are followed, or that is connected.
#[derive(Debug, Default)]
pub(super) struct ServerRecord {
    /// How it is subscribed to, while it is connected.
    pub(super) link: Option<super::command::SubscribeMethod>,
    /// Whether what it refuses is read from time to time.
    pub(super) poll: bool,
    pub(super) by_uri: HashMap<Uri, ResourceId>,
    /// Resources that the server is still to be asked to follow.
    pub(super) wanting: BTreeSet<ResourceId>,
    /// Resources whose content is to be read, when there is room for a read.
    pub(super) reads: BTreeSet<ResourceId>,
    /// Resources that the server is to be told of that nobody follows them.
    pub(super) releases: BTreeSet<ResourceId>,
    /// To be read only to know what they say, and how many of those reads are in flight.
    pub(super) learns: BTreeSet<ResourceId>,
    pub(super) learning: usize,
    /// Requests without an answer.
    pub(super) in_flight: usize,
    pub(super) open: Option<OpenListen>,
    pub(super) opening: Option<OpeningListen>,
    /// Listens that ended early, in a row.
    pub(super) tries: u32,
}

impl ServerRecord {
    /// Whether the listen that is open has a URI, and keeps it.
    pub(super) fn is_covered(&self, uri: &Uri) -> bool {
        let open = self.open.as_ref().is_some_and(|open| open.honoured.contains(uri));
        // A listen that is being opened without the URI is about to replace the one that has it.
        open && self.opening.as_ref().is_none_or(|opening| opening.asked.contains(uri))
    }
}

/// What a ticket stands for.
#[derive(Clone, Copy, Debug)]
pub(super) struct TicketRecord {
    pub(super) server: PlaceId,
    pub(super) errand: TicketErrand,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum TicketErrand {
    Subscribe(ResourceId),
    Unsubscribe(ResourceId),
    Read(ResourceId),
    Learn(ResourceId),
    Listen,
}
