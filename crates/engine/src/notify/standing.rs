//! How clients stand to what changed, for people to see: what each was told and whether it listed again.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidings_hub::ClientKey;
use tidings_hub::deliveries::{ClientStanding, CommitDeliveries, DeliveryRecord};
use tidings_hub::departures::DepartedTool;
use tidings_hub::ledger::{FollowerId, Topic};
use tidings_proto::{Era, ListKind, meta};
use tidings_wire::Frame;

use crate::client::session::Caller;
use crate::notify::ListNotifier;
use crate::notify::askers::AskingClient;
use crate::notify::listeners::{Connected, MOST_LISTENS, spoken_name};

/// A client that stays, and how it stands.
#[derive(Clone, Debug)]
pub struct StandingClient {
    /// Who it is.
    pub client: Connected,
    /// How it stands.
    pub standing: ClientStanding,
    /// The same of each list.
    pub lists: [ClientStanding; 3],
    /// How often it used what each list names since it was told of it; not counted beyond three.
    pub calls: [u8; 3],
    /// The newest commit that it was told of, by topic.
    pub commits: [Option<u64>; 3],
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
    /// When they were looked at: what `ago` of each counts from.
    pub looked: Instant,
    /// The newest events.
    pub events: Vec<ClientEvent>,
    /// Whether there are older ones that are not shown, or were forgotten.
    pub older: bool,
}

impl ListNotifier {
    /// What is known of a tool of this name that is not there any more, and its whole name where it is called by a short one: `budget` is
    /// what the client's profile cuts names at. Whether somebody may be told is not decided here.
    pub(crate) fn departed_tool(&self, name: &str, budget: Option<usize>) -> Option<(DepartedTool, Option<Arc<str>>)> {
        let departures = self.departures.lock();
        if let Some(tool) = departures.of(name) {
            return Some((tool.clone(), None));
        }
        let (full, tool) = departures.of_short(name, budget?)?;
        Some((tool.clone(), Some(Arc::clone(full))))
    }

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
        let name = |id: u64| {
            let client = self.connected_as(FollowerId(id), &|_| 0)?;
            Some(client.name.unwrap_or_else(|| "a client without a name".to_owned()))
        };
        let told = trace.of_commit(index, topic).take(most).map(|event| ToldClient {
            id: event.client,
            name: name(event.client),
            ago: now.saturating_duration_since(event.at),
            span: event.span,
        });
        told.collect()
    }

    pub(crate) fn client_events(&self, id: u64, most: usize) -> ClientEvents {
        let trace = self.announcements().deliveries.trace();
        let looked = Instant::now();
        let mut all = trace.of_client(FollowerId(id)).map(|event| ClientEvent {
            ago: looked.saturating_duration_since(event.at),
            told: event.told,
            topics: event.topics.iter().collect(),
            commits: event.commits,
        });
        let events = all.by_ref().take(most).collect();
        ClientEvents { looked, events, older: trace.forgotten > 0 || all.next().is_some() }
    }

    pub(crate) fn deliveries_version(&self) -> u64 {
        self.announcements().deliveries.version()
    }
}

impl ListNotifier {
    /// A client asks for a list: what it was told of it counts as heard. Not on the path of a call.
    pub(crate) fn note_listing(&self, caller: &Caller, frame: &Frame, kind: ListKind) {
        let topic = Topic::of(kind);
        match caller {
            Caller::Legacy(session) => {
                // Whoever is gone, or was never ready, leaves nothing behind.
                let newest = self.listed_now(FollowerId::from(session.key), topic);
                session.hearing.listed(topic, newest);
            }
            Caller::Modern(_) if self.listens.len() > MOST_LISTENS => {}
            // `tidings tools --as CLIENT` and doctor: whoever has that name has not listed by that.
            Caller::Modern(_) if frame.param(&["_meta", meta::LOOK]).is_some() => {}
            Caller::Modern(_) => {
                let name = spoken_name(frame);
                let principal = &caller.principal().name;
                // The listen of the client, where exactly one has its name and principal.
                let Some(follower) = self.listens.only(name.as_deref(), principal) else {
                    if !self.listens.has(name.as_deref(), principal) {
                        self.note_asker(caller, name.as_deref(), topic);
                    }
                    return;
                };
                let newest = self.listed_now(follower, topic);
                if let Some(hearing) = self.listens.hearing(follower) {
                    hearing.listed(topic, newest);
                    self.listens.watch();
                }
            }
        }
    }

    fn listed_now(&self, follower: FollowerId, topic: Topic) -> u64 {
        let mut announcements = self.announcements();
        announcements.deliveries.listed(follower, topic, Instant::now());
        announcements.deliveries.newest_number()
    }

    /// Every client that stays, and how it stands.
    pub(crate) fn standing(&self, connected: Vec<Connected>) -> Vec<StandingClient> {
        let ids: Vec<(FollowerId, Era)> =
            connected.iter().map(|client| (FollowerId(client.id), client.revision.era())).collect();
        let now = Instant::now();
        let judged = self.judge(&ids, now);
        let mut all: Vec<StandingClient> =
            judged.into_iter().zip(connected).map(|(judged, client)| judged.of(client, now)).collect();
        all.extend(self.asking().into_iter().map(|asking| JudgedClient::of_asking(&asking).of(asking.client, now)));
        all
    }

    /// How many clients stand how.
    pub(crate) fn standing_counts(&self) -> Vec<(ClientStanding, usize)> {
        let judged = self.judge(&self.connected_ids(), Instant::now());
        let count = |standing: ClientStanding| {
            let asking = if standing == AskingClient::STANDING { self.asking_count() } else { 0 };
            judged.iter().filter(|client| client.standing == standing).count() + asking
        };
        ClientStanding::ALL.into_iter().map(|standing| (standing, count(standing))).collect()
    }

    /// Some of the clients that fit, in the order of `rank` and then of their numbers, and how many fit. Of thousands only those that
    /// are given are described; the others are judged by their numbers.
    pub(crate) fn standing_part(
        &self,
        fits: impl Fn(ClientStanding) -> bool,
        rank: impl Fn(ClientStanding) -> u8,
        part: Range<usize>,
        requests: impl Fn(ClientKey) -> usize,
    ) -> (Vec<StandingClient>, usize) {
        let now = Instant::now();
        let mut judged = self.judge(&self.connected_ids(), now);
        let asking = self.asking();
        judged.extend(asking.iter().map(JudgedClient::of_asking));
        judged.retain(|client| fits(client.standing));
        let total = judged.len();
        let shown = ordered_part(&judged, |client| (rank(client.standing), client.id.0), part);
        (self.describe(shown, &asking, now, &requests), total)
    }

    /// Those of these clients that are connected.
    pub(crate) fn standing_of(
        &self,
        ids: impl IntoIterator<Item = u64>,
        requests: impl Fn(ClientKey) -> usize,
    ) -> Vec<StandingClient> {
        let now = Instant::now();
        let era = |id: u64| if self.sessions.contains(ClientKey(id)) { Era::Legacy } else { Era::Modern };
        let asking = self.asking();
        let (asked, ids): (Vec<u64>, Vec<u64>) =
            ids.into_iter().partition(|id| asking.iter().any(|asking| asking.id().0 == *id));
        let ids: Vec<(FollowerId, Era)> = ids.into_iter().map(|id| (FollowerId(id), era(id))).collect();
        let mut judged = self.judge(&ids, now);
        let asked = asking.iter().filter(|asking| asked.contains(&asking.id().0));
        judged.extend(asked.map(JudgedClient::of_asking));
        self.describe(judged, &asking, now, &requests)
    }

    fn describe(
        &self,
        judged: Vec<JudgedClient>,
        asking: &[AskingClient],
        now: Instant,
        requests: &impl Fn(ClientKey) -> usize,
    ) -> Vec<StandingClient> {
        let connected = |id: FollowerId| {
            let asking = || asking.iter().find(|asking| asking.id() == id).map(|asking| asking.client.clone());
            self.connected_as(id, requests).or_else(asking)
        };
        judged.into_iter().filter_map(|client| Some(client.of(connected(client.id)?, now))).collect()
    }

    fn judge(&self, clients: &[(FollowerId, Era)], now: Instant) -> Vec<JudgedClient> {
        let shared = self.listens.ambiguous(MOST_LISTENS);
        let mut judged = Vec::with_capacity(clients.len());
        for some in clients.chunks(JUDGED_AT_ONCE) {
            let announcements = self.announcements();
            judged.extend(some.iter().map(|&(id, era)| {
                let (record, ledger) = (announcements.deliveries.of(id), &announcements.ledger);
                let owed = announcements.owed_lists(id);
                // Only of those that are behind: it is looked up.
                let calls = if record.outdated.is_empty() { [0; 3] } else { self.calls_of(id, era) };
                let (is_silent, is_shared) = (ledger.is_silent(id), era == Era::Modern && shared.contains(id));
                let known = |standing: ClientStanding| match standing {
                    _ if is_silent => ClientStanding::Silent,
                    // That a notice can not be handed over, or is not wanted, is known all the same.
                    ClientStanding::Unreached | ClientStanding::Owed | ClientStanding::NotAsking => standing,
                    _ if is_shared => ClientStanding::Unknown,
                    standing => standing,
                };
                let standing = known(record.standing(owed, calls, now));
                let lists = Topic::ALL.map(|topic| known(record.of_list(topic, owed, calls, now)));
                JudgedClient { id, standing, lists, record, calls, owed: owed.map(|owed| owed.since) }
            }));
        }
        judged
    }

    fn calls_of(&self, id: FollowerId, era: Era) -> [u8; 3] {
        let calls = match era {
            Era::Legacy => self.sessions.get(ClientKey(id.0)).map(|session| session.hearing.calls()),
            Era::Modern => self.listens.hearing(id).map(|hearing| hearing.calls()),
        };
        calls.unwrap_or_default()
    }
}

/// How many clients are judged before whoever has something to announce gets its turn.
const JUDGED_AT_ONCE: usize = 512;

/// A client of which is known how it stands; who it is has not been asked yet.
#[derive(Clone, Copy)]
struct JudgedClient {
    id: FollowerId,
    standing: ClientStanding,
    lists: [ClientStanding; 3],
    record: DeliveryRecord,
    calls: [u8; 3],
    owed: Option<Instant>,
}

impl JudgedClient {
    fn of_asking(asking: &AskingClient) -> Self {
        let (id, standing, calls) = (asking.id(), AskingClient::STANDING, [0; 3]);
        Self { id, standing, lists: [standing; 3], record: asking.record, calls, owed: None }
    }

    fn of(self, client: Connected, now: Instant) -> StandingClient {
        let ago = |at: Instant| now.saturating_duration_since(at);
        StandingClient {
            client,
            standing: self.standing,
            lists: self.lists,
            calls: self.calls,
            commits: self.record.commit,
            owed: self.owed.map(ago),
            outdated: self.record.outdated().map(|(topic, told)| (topic, ago(told))).collect(),
            told: self.record.told.map(|at| at.map(ago)),
            listed: self.record.listed.map(|at| at.map(ago)),
            notices: self.record.notices,
        }
    }
}

/// A part of what there is, in an order. Only what comes before its end is brought into order.
fn ordered_part<T: Copy, K: Ord>(all: &[T], key: impl Fn(&T) -> K, part: Range<usize>) -> Vec<T> {
    // Small things are moved about, not what they stand for.
    let mut order: Vec<(K, usize)> = all.iter().map(key).zip(0..).collect();
    let end = part.end.min(order.len());
    if end < order.len() {
        order.select_nth_unstable(end);
        order.truncate(end);
    }
    order.sort_unstable();
    order.into_iter().skip(part.start).map(|(_, place)| all[place]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_what_it_would_be_of_all_in_order() {
        // Equal ranks are as common as they are among clients; 7919 is prime, so that every number comes once.
        let all: Vec<(u8, u64)> = (0..5_000_u64).map(|n| n * 7_919 % 5_000).map(|n| ((n % 7) as u8, n)).collect();
        let mut sorted = all.clone();
        sorted.sort_unstable();
        for part in [0..50, 50..100, 4_980..5_030, 5_000..5_050, 6_000..6_050, 0..0, 0..5_000] {
            let wanted: Vec<_> = sorted.iter().skip(part.start).take(part.len()).copied().collect();
            assert_eq!(ordered_part(&all, |one| *one, part.clone()), wanted, "{part:?}");
        }
        assert!(ordered_part(&[], |one: &(u8, u64)| *one, 0..50).is_empty());
    }
}
