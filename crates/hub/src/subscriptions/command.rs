//! The words of the table: what it is told, and what it says is to be done.

use std::sync::Arc;

use bytes::Bytes;
use tidings_wire::Digest;

use super::settings::NoticePace;
use crate::ServerId;
use crate::ledger::FollowerId;

/// A URI as its server knows it.
pub type Uri = Arc<str>;

/// The link over which resources of a server are followed: what everybody follows over one link is one subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PlaceId {
    /// The link to a server that everybody shares.
    Shared(ServerId),
    /// A link that one session has for itself, by a number that is never given again.
    Own(u32),
}

impl From<ServerId> for PlaceId {
    fn from(server: ServerId) -> Self {
        Self::Shared(server)
    }
}

/// A resource of a server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceAddress {
    /// The link over which the resource is followed.
    pub place: PlaceId,
    /// Its URI as the server knows it, not as clients see it.
    pub uri: Uri,
}

/// A resource that somebody wants to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowTarget {
    /// The server and the URI there.
    pub address: ResourceAddress,
    /// Its pace, if it has one of its own. The newest subscriber's counts.
    pub pace: Option<NoticePace>,
}

/// One `resources/subscribe` or `subscriptions/listen` of a client. Chosen by the caller, never twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Something that was asked of a server. Tickets rise, and an answer under an old one changes nothing; for a listen
/// this is its generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerTicket(pub u64);

/// How a server is subscribed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscribeMethod {
    /// By `resources/subscribe` for each URI.
    PerUri,
    /// By one `subscriptions/listen` for all of them.
    Union,
    /// The server offers no subscriptions.
    Unable,
}

/// Why a resource is not followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FollowRefusal {
    /// The server says no: its error object.
    #[error("the server refuses the subscription")]
    ByServer(Bytes),
    /// The server acknowledged a listen without it.
    #[error("the server does not honour the subscription")]
    NotHonoured,
    /// The server has no subscriptions.
    #[error("the server does not offer subscriptions")]
    NotOffered,
    /// The server did not answer in time, or is away.
    #[error("the server did not answer in time")]
    TimedOut,
    /// The request or its answer was lost on the way: whether the server took it is unknown.
    #[error("the server could not be reached")]
    Unreachable,
    /// The server is no longer configured.
    #[error("the server is gone")]
    Removed,
    /// The client unsubscribed before its subscription was answered.
    #[error("unsubscribed before the server answered")]
    Withdrawn,
    /// The principal of the client follows as much as it may.
    #[error("too many subscriptions of one principal ({limit}, the limit `subscriptions` of [quotas])")]
    OverQuota {
        /// The bound that was reached.
        limit: usize,
    },
    /// A bound is reached.
    #[error("too many subscriptions ({limit})")]
    TooMany {
        /// The bound that was reached.
        limit: usize,
    },
}

/// How something asked of a server ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TicketAnswer {
    /// The server did what was asked.
    Done,
    /// It did not, or can not be asked.
    Failed(FollowRefusal),
    /// What it has to read, hashed the same way as what [`super::SubscriptionTable::seen`] is told.
    Content(Digest),
}

/// What is to be done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubscriptionCommand {
    /// Send `resources/subscribe`; its end is told to [`super::SubscriptionTable::answered`].
    Subscribe {
        /// The ticket under which the answer is to be reported.
        ticket: ServerTicket,
        /// The resource that is meant.
        address: ResourceAddress,
    },
    /// Send `resources/unsubscribe`; its end is told to [`super::SubscriptionTable::answered`].
    Unsubscribe {
        /// The ticket under which the answer is to be reported.
        ticket: ServerTicket,
        /// The resource that is meant.
        address: ResourceAddress,
    },
    /// Read and hash a resource; the end is told to [`super::SubscriptionTable::answered`].
    Read {
        /// The ticket under which the answer is to be reported.
        ticket: ServerTicket,
        /// The resource that is meant.
        address: ResourceAddress,
        /// Nobody waits for it: it only saves a needless notice later. A resource that is known to be large is not read for
        /// that, and fails.
        is_baseline: bool,
    },
    /// Open a listen for exactly these; its acknowledgement is told to [`super::SubscriptionTable::listening`], its end to
    /// [`super::SubscriptionTable::listen_ended`]. A listen that is open stays open.
    Listen {
        /// The generation of the listen: what belongs to an older one is ignored.
        ticket: ServerTicket,
        /// The link that gets it.
        place: PlaceId,
        /// All URIs that are followed there.
        uris: Vec<Uri>,
    },
    /// End a listen, whether it was acknowledged or not. Its end is not told.
    Close {
        /// The generation of the listen: what belongs to an older one is ignored.
        ticket: ServerTicket,
        /// The link that gets it.
        place: PlaceId,
    },
    /// Begin to read a resource from time to time, and tell [`super::SubscriptionTable::seen`].
    Poll(ResourceAddress),
    /// Nobody follows the resource any more: no more reads of it.
    StopPolling(ResourceAddress),
    /// Answer a `resources/subscribe`, then say [`super::SubscriptionTable::acked`].
    Reply(RequestId),
    /// Answer a `resources/subscribe` with an error.
    Refuse {
        /// The request of the client that is answered.
        request: RequestId,
        /// What the client is told.
        refusal: FollowRefusal,
    },
    /// Acknowledge a `subscriptions/listen`, then say [`super::SubscriptionTable::acked`].
    Acknowledge {
        /// The request of the client that is answered.
        request: RequestId,
        /// The resources that will be followed; others of the request are left out.
        honoured: Vec<ResourceAddress>,
        /// What is not, and why.
        left_out: Vec<(ResourceAddress, FollowRefusal)>,
    },
    /// A follower that had nothing to take has something now.
    Wake(FollowerId),
}

/// What is to be done, in this order.
pub type SubscriptionCommands = Vec<SubscriptionCommand>;
