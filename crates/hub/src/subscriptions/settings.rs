//! The bounds of the table and every time it waits for: all of them are here, so that tests can choose their own.

use std::time::Duration;

use crate::RetryBackoff;

/// How changes of one resource are gathered into one notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoticePace {
    /// The notice comes when nothing changed for so long.
    pub quiet: Duration,
    /// A resource that never goes quiet is announced this long after the first change at the latest.
    pub max_wait: Duration,
}

impl Default for NoticePace {
    fn default() -> Self {
        Self { quiet: Duration::from_millis(500), max_wait: Duration::from_secs(2) }
    }
}

/// Which URI a follower is told when a child of what it subscribed to changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SubResources {
    /// The subscribed one: there are clients that end a stream on which another comes.
    #[default]
    Coarsen,
    /// Followers are told the URI of the child that changed.
    Verbatim,
}

/// The bounds of the table, and every time it waits for.
#[derive(Clone, Copy, Debug)]
pub struct SubscriptionSettings {
    /// Where a resource has no pace of its own.
    pub pace: NoticePace,
    /// What is told of sub-resources.
    pub sub_resources: SubResources,
    /// How long a resource that nobody follows any more stays subscribed upstream.
    pub linger: Duration,
    /// How long a `subscriptions/listen` waits for its servers. Then it is acknowledged without the silent ones.
    pub acknowledge_within: Duration,
    /// How long a `resources/subscribe` waits for its server.
    pub reply_within: Duration,
    /// How long a server may take to answer what is asked of it here.
    pub answer_within: Duration,
    /// How long a listen upstream may hold URIs that nobody wants any more.
    pub shrink_after: Duration,
    /// When to try again what was acknowledged, and then refused after a reset.
    pub retry: RetryBackoff,
    /// When to try again what failed because the server could not be reached, though its link stands.
    pub reach: RetryBackoff,
    /// When to open a listen again that was acknowledged and ended before [`SubscriptionSettings::steady`].
    pub reopen: RetryBackoff,
    /// A listen that was open for so long was a good one: when it ends, it is opened again at once. Proxies cut streams.
    pub steady: Duration,
    /// Reads in flight to one server that only learn what a resource says, so that an unchanged resource is no news after a
    /// reset. None: nothing is read for that.
    pub baseline_reads: usize,
    /// How long after an announced change the new content is learnt, unless a client read it first.
    pub learn_after: Duration,
    /// Requests of ours in flight to one server. The others wait; what waits is bounded by the resources.
    pub in_flight: usize,
    /// Resources that one follower may follow.
    pub per_follower: usize,
    /// Pairs of follower and resource altogether.
    pub total: usize,
    /// Content hashes that are kept of resources nobody follows yet.
    pub remembered: usize,
}

impl Default for SubscriptionSettings {
    fn default() -> Self {
        Self {
            pace: NoticePace::default(),
            sub_resources: SubResources::default(),
            linger: Duration::from_secs(2),
            acknowledge_within: Duration::from_secs(5),
            reply_within: Duration::from_secs(30),
            answer_within: Duration::from_secs(30),
            shrink_after: Duration::from_secs(10),
            retry: RetryBackoff { first: Duration::from_secs(1), longest: Duration::from_secs(60) },
            reach: RetryBackoff { first: Duration::from_millis(250), longest: Duration::from_secs(5) },
            reopen: RetryBackoff { first: Duration::from_millis(250), longest: Duration::from_secs(2) },
            steady: Duration::from_secs(1),
            baseline_reads: 4,
            learn_after: Duration::from_secs(5),
            in_flight: 64,
            per_follower: 16_384,
            total: 1 << 21,
            remembered: 4_096,
        }
    }
}
