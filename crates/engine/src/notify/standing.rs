//! How clients stand to what changed, for people to see: what each was told and whether it listed again.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tidings_hub::deliveries::{ClientStanding, CommitDeliveries, DeliveryRecord};
use tidings_hub::ledger::{FollowerId, Topic};
use tidings_proto::{Era, ListKind, meta};
use tidings_wire::Frame;

use crate::client::session::Caller;
use crate::notify::ListNotifier;
use crate::notify::listeners::Connected;

/// Among more open listens than this it is not looked whose a list is.
const MOST_LISTENS: usize = 256;

/// A client that stays, and how it stands.
#[derive(Clone, Debug)]
pub struct StandingClient {
    /// Who it is.
    pub client: Connected,
    /// How it stands.
    pub standing: ClientStanding,
    /// For how long it is owed a notice, if it is.
    pub owed: Option<Duration>,
    /// For how long it has been told of lists that it did not ask for since.
    pub outdated: Vec<(Topic, Duration)>,
    /// How long ago it was told, and asked, by topic.
    pub told: [Option<Duration>; 3],
    /// How long ago it asked for each list.
    pub listed: [Option<Duration>; 3],
    /// How many notices it was given.
    pub notices: u32,
}

/// What became of the notices of one commit and list.
#[derive(Clone, Debug)]
pub struct CommitNotices {
    /// Clients whose view it changed.
    pub owed: u32,
    /// Those of them that were told.
    pub told: u32,
    /// Those of them that left before.
    pub left: u32,
    /// Clients whose own view it did not change.
    pub spared: u32,
    /// Clients whose revision is told of nothing.
    pub silent: u32,
    /// Within how many milliseconds half of them were told.
    pub median: Option<u64>,
    /// How many were told in less than 1, 2, 4 … ms, and later; of all lists of the commit.
    pub within: Vec<u32>,
}

impl CommitNotices {
    fn of(commit: &CommitDeliveries, topic: Topic) -> Self {
        let of = |counts: [u32; 3]| counts[topic as usize];
        Self {
            owed: of(commit.owed),
            told: of(commit.told),
            left: of(commit.left),
            spared: of(commit.spared),
            silent: commit.silent,
            median: commit.median(),
            within: commit.within.to_vec(),
        }
    }
}

/// A client that was told of a commit.
#[derive(Clone, Debug)]
pub struct ToldClient {
    /// Who.
    pub id: u64,
    /// Its name; `None` if it left since.
    pub name: Option<String>,
    /// How long ago.
    pub ago: Duration,
    /// For how many commits one notice stood, at most.
    pub span: u32,
}

/// Something that happened to a client.
#[derive(Clone, Debug)]
pub struct ClientEvent {
    /// How long ago.
    pub ago: Duration,
    /// Whether it was told; otherwise it listed.
    pub told: bool,
    /// The lists that it is about.
    pub topics: Vec<Topic>,
    /// The first and the last commit that a notice stands for; of a list: the newest commit. `None` if forgotten.
    pub commits: Option<(u64, u64)>,
}

/// What happened to a client, the newest first.
#[derive(Clone, Debug)]
pub struct ClientEvents {
    /// The newest events.
    pub events: Vec<ClientEvent>,
    /// Whether there are older ones that are not shown, or were forgotten.
    pub older: bool,
}

impl ListNotifier {
    pub(crate) fn notices_of(&self, commit: u64, topic: Topic) -> Option<CommitNotices> {
        let (_, commit) = self.announcements().deliveries.commit(commit)?;
        Some(CommitNotices::of(&commit, topic))
    }

    pub(crate) fn newest_notices(&self, most: usize) -> Vec<(u64, Topic, CommitNotices)> {
        let newest: Vec<CommitDeliveries> = self.announcements().deliveries.newest().take(most).copied().collect();
        let each = |commit: &CommitDeliveries| {
            Topic::ALL.map(|topic| (commit.number, topic, CommitNotices::of(commit, topic)))
        };
        newest.iter().flat_map(each).collect()
    }

    pub(crate) fn told_of(&self, commit: u64, topic: Topic, most: usize) -> Vec<ToldClient> {
        let (index, trace) = {
            let announcements = self.announcements();
            let Some((index, _)) = announcements.deliveries.commit(commit) else { return Vec::new() };
            (index, announcements.deliveries.trace())
        };
        // The row may have half a million events: it is read without the lock.
        let now = Instant::now();
        let names: HashMap<u64, String> = self
            .connected(|_| 0)
            .into_iter()
            .map(|client| (client.id, client.name.unwrap_or_else(|| "a client without a name".to_owned())))
            .collect();
        let told = trace.of_commit(index, topic).take(most).map(|event| ToldClient {
            id: event.client,
            name: names.get(&event.client).cloned(),
            ago: now.saturating_duration_since(event.at),
            span: event.span,
        });
        told.collect()
    }

    pub(crate) fn client_events(&self, id: u64, most: usize) -> ClientEvents {
        let trace = self.announcements().deliveries.trace();
        let now = Instant::now();
        let mut all = trace.of_client(FollowerId(id)).map(|event| ClientEvent {
            ago: now.saturating_duration_since(event.at),
            told: event.told,
            topics: event.topics.iter().collect(),
            commits: event.commits,
        });
        let events = all.by_ref().take(most).collect();
        ClientEvents { events, older: trace.forgotten > 0 || all.next().is_some() }
    }

    pub(crate) fn deliveries_version(&self) -> u64 {
        self.announcements().deliveries.version()
    }
}

impl ListNotifier {
    /// A client asks for a list: what it was told of it counts as heard. Not on the path of a call.
    pub(crate) fn note_listing(&self, caller: &Caller, frame: &Frame, kind: ListKind) {
        let follower = match caller {
            Caller::Legacy(session) => Some(FollowerId::from(session.key)),
            Caller::Modern(_) => self.only_listen_of(caller, frame),
        };
        let Some(follower) = follower else { return };
        // Whoever is gone, or was never ready, leaves nothing behind.
        self.announcements().deliveries.listed(follower, Topic::of(kind), Instant::now());
    }

    /// The listen of a modern client, where exactly one has its name and principal.
    fn only_listen_of(&self, caller: &Caller, frame: &Frame) -> Option<FollowerId> {
        if self.listens.len() > MOST_LISTENS {
            return None;
        }
        let name = frame.param_str(&["_meta", meta::CLIENT_INFO, "name"]);
        self.listens.only(name.as_deref(), &caller.principal().name)
    }

    /// Every client that stays, and how it stands.
    pub(crate) fn standing(&self, connected: Vec<Connected>) -> Vec<StandingClient> {
        let shared = self.listens.ambiguous(MOST_LISTENS);
        // One lock for all: they are copied, and judged without it.
        let known: Vec<(Connected, DeliveryRecord, Option<Instant>, bool)> = {
            let announcements = self.announcements();
            let of = |client: Connected| {
                let id = FollowerId(client.id);
                let ledger = &announcements.ledger;
                (client, announcements.deliveries.of(id), ledger.owed_since(id), ledger.is_silent(id))
            };
            connected.into_iter().map(of).collect()
        };
        let now = Instant::now();
        let ago = |at: Instant| now.saturating_duration_since(at);
        let judged = known.into_iter().map(|(client, record, owed, is_silent)| {
            let is_modern = client.revision.era() == Era::Modern;
            let standing = match record.standing(owed, now) {
                _ if is_silent => ClientStanding::Silent,
                // That a notice can not be handed over is known all the same.
                standing @ (ClientStanding::Deaf | ClientStanding::Owed) => standing,
                _ if is_modern && shared.contains(&FollowerId(client.id)) => ClientStanding::Unknown,
                standing => standing,
            };
            StandingClient {
                standing,
                owed: owed.map(ago),
                outdated: record.outdated().map(|(topic, told)| (topic, ago(told))).collect(),
                told: record.told.map(|at| at.map(ago)),
                listed: record.listed.map(|at| at.map(ago)),
                notices: record.notices,
                client,
            }
        });
        judged.collect()
    }
}
