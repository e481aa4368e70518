//! The table of calls against a model that is a plain list.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use tidings_hub::calls::{BeginError, CallId, CallLimits, CallTable, LinkCallers, NewCall, TrackedCall};
use tidings_hub::{ClientKey, LinkKey};
use tidings_wire::RawId;

/// Texts that differ only in type or spelling: all of them are different requests.
const IDS: [&str; 6] = ["0", "1", "\"1\"", "\"0\"", "1.0", "-1"];
const LIMITS: CallLimits = CallLimits { per_client: 4, total: 9, ghosts_per_link: 3 };
const FIRST: u64 = 100;

fn raw(text: &str) -> RawId {
    RawId::from_raw(text.as_bytes()).unwrap()
}

#[derive(Clone, Debug)]
enum Step {
    Begin {
        client: u64,
        id: usize,
        link: u64,
        heard_beside: bool,
        token: Option<usize>,
        timeout: u64,
        max: u64,
    },
    Finish(usize),
    /// Nobody waits for it any more, and its server was not told in time.
    GiveUp(usize),
    /// The server answers, whether anybody waits or not.
    Answer(usize),
    LinkOpened(u64),
    LinkGone(u64),
    Cancel {
        client: u64,
        id: usize,
    },
    ClientGone(u64),
    /// Of the call that was begun so many before the newest.
    Progress {
        back: usize,
        value: i32,
    },
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let ids = 0..IDS.len();
    prop_oneof![
        5 => (0..3u64, ids.clone(), (0..3u64, 0..4u8), proptest::option::of(0..IDS.len()), 1..8u64, 1..20u64)
            .prop_map(|(client, id, (link, beside), token, timeout, max)| {
                Step::Begin { client, id, link, heard_beside: beside > 0, token, timeout, max }
            }),
        2 => (0..40usize).prop_map(Step::Finish),
        2 => (0..40usize).prop_map(Step::GiveUp),
        2 => (0..40usize).prop_map(Step::Answer),
        1 => (0..3u64).prop_map(Step::LinkOpened),
        1 => (0..3u64).prop_map(Step::LinkGone),
        2 => (0..3u64, ids).prop_map(|(client, id)| Step::Cancel { client, id }),
        1 => (0..3u64).prop_map(Step::ClientGone),
        5 => (0..6usize, -1..4i32).prop_map(|(back, value)| Step::Progress { back, value }),
        2 => (0..5u64).prop_map(Step::Pass),
    ]
}

/// One call, as it should be.
#[derive(Clone, Debug)]
struct Expected {
    client: u64,
    id: usize,
    link: u64,
    heard_beside: bool,
    token: Option<usize>,
    begun: Instant,
    heard: Instant,
    timeout: Duration,
    max: Duration,
    progress: Option<i32>,
}

impl Expected {
    fn deadline(&self) -> Instant {
        (self.heard + self.timeout).min(self.begun + self.max)
    }
}

/// One link, as it should be.
#[derive(Clone, Debug, Default)]
struct ExpectedLink {
    open: bool,
    ghosts: BTreeMap<CallId, u64>,
    overflowed: bool,
    /// Whose calls were begun on it since it was last without any.
    callers: BTreeSet<u64>,
}

struct Run {
    table: CallTable,
    model: BTreeMap<CallId, Expected>,
    links: [ExpectedLink; 3],
    /// How often each call has ended.
    ends: BTreeMap<CallId, usize>,
    now: Instant,
}

impl Run {
    fn new() -> Self {
        Self {
            table: CallTable::new(LIMITS, FIRST),
            model: BTreeMap::new(),
            links: Default::default(),
            ends: BTreeMap::new(),
            now: Instant::now(),
        }
    }

    fn nth(&self, index: usize) -> CallId {
        CallId(FIRST + index as u64)
    }

    fn of(&self, client: u64, id: usize) -> Option<CallId> {
        self.model.iter().find(|(_, call)| call.client == client && call.id == id).map(|(key, _)| *key)
    }

    fn ended(&mut self, id: CallId) {
        *self.ends.entry(id).or_default() += 1;
        let call = self.model.remove(&id).unwrap();
        self.tidy(call.link);
    }

    /// A link that is not open is known only while calls run on it.
    fn tidy(&mut self, link: u64) {
        let is_used = self.model.values().any(|call| call.link == link);
        let known = &mut self.links[link as usize];
        if !known.open && !is_used {
            *known = ExpectedLink::default();
        }
    }

    /// A call that was taken out and whose server may still work on it.
    fn leave_ghost(&mut self, id: CallId, call: &TrackedCall, expected: &Expected) {
        let got = self.table.leave_ghost(id, call);
        let link = &mut self.links[expected.link as usize];
        if !link.open || !expected.heard_beside {
            assert_eq!(got, None);
        } else if link.ghosts.len() >= LIMITS.ghosts_per_link {
            assert_eq!(got, None);
            link.overflowed = true;
        } else {
            link.ghosts.insert(id, expected.client);
            assert_eq!(got, Some(link.ghosts.len()));
        }
    }

    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Begin { client, id, link, heard_beside, token, timeout, max } => {
                let (timeout, max) = (Duration::from_secs(timeout), Duration::from_secs(max));
                let new = NewCall {
                    client: ClientKey(client),
                    id: Some(raw(IDS[id])),
                    principal: principal(client),
                    link: LinkKey(link),
                    heard_beside,
                    token: token.map(|token| raw(IDS[token])),
                    timeout,
                    max_timeout: max,
                    after: None,
                };
                let got = self.table.begin(new, self.now);
                let mine = self.model.values().filter(|call| call.client == client).count();
                if self.of(client, id).is_some() {
                    assert_eq!(got, Err(BeginError::DuplicateId));
                } else if mine >= LIMITS.per_client {
                    assert_eq!(got, Err(BeginError::TooMany { limit: LIMITS.per_client }));
                } else if self.model.len() >= LIMITS.total {
                    assert_eq!(got, Err(BeginError::TooMany { limit: LIMITS.total }));
                } else {
                    let key = got.unwrap();
                    assert!(self.ends.keys().chain(self.model.keys()).all(|used| *used < key), "an id came twice");
                    let (begun, heard) = (self.now, self.now);
                    let call =
                        Expected { client, id, link, heard_beside, token, begun, heard, timeout, max, progress: None };
                    self.model.insert(key, call);
                    self.links[link as usize].callers.insert(client / 2);
                }
            }
            Step::Finish(index) => {
                let key = self.nth(index);
                let got = self.table.finish(key);
                assert_eq!(got.is_some(), self.model.contains_key(&key));
                if got.is_some() {
                    self.ended(key);
                }
            }
            Step::GiveUp(index) => {
                let key = self.nth(index);
                let expected = self.model.get(&key).cloned();
                let got = self.table.finish(key);
                assert_eq!(got.is_some(), expected.is_some());
                if let (Some(call), Some(expected)) = (got, expected) {
                    self.leave_ghost(key, &call, &expected);
                    self.ended(key);
                }
            }
            Step::Answer(index) => {
                let key = self.nth(index);
                for link in 0..3 {
                    let was = self.links[link as usize].ghosts.remove(&key).is_some();
                    assert_eq!(self.table.ghost_answered(LinkKey(link), key), was);
                }
            }
            Step::LinkOpened(link) => {
                self.table.link_opened(LinkKey(link));
                self.links[link as usize].open = true;
            }
            Step::LinkGone(link) => {
                self.table.link_gone(LinkKey(link));
                let known = &mut self.links[link as usize];
                *known = ExpectedLink { callers: std::mem::take(&mut known.callers), ..ExpectedLink::default() };
                self.tidy(link);
            }
            Step::Cancel { client, id } => {
                let got = self.table.cancel(ClientKey(client), &raw(IDS[id]));
                let expected = self.of(client, id);
                assert_eq!(got.as_ref().map(|(key, _)| *key), expected);
                if let Some((key, call)) = got {
                    assert_eq!((call.client, &call.id), (ClientKey(client), &Some(raw(IDS[id]))));
                    let expected = self.model[&key].clone();
                    self.leave_ghost(key, &call, &expected);
                    self.ended(key);
                }
            }
            Step::ClientGone(client) => {
                let mut got: Vec<CallId> =
                    self.table.client_gone(ClientKey(client)).into_iter().map(|(key, _)| key).collect();
                got.sort();
                let expected: Vec<CallId> =
                    self.model.iter().filter(|(_, call)| call.client == client).map(|(key, _)| *key).collect();
                assert_eq!(got, expected);
                got.into_iter().for_each(|key| self.ended(key));
            }
            Step::Progress { back, value } => {
                let begun = self.model.len() + self.ends.len();
                self.progress(self.nth(begun.saturating_sub(back + 1)), value);
            }
            Step::Pass(seconds) => self.pass(Duration::from_secs(seconds)),
        }
        self.check();
    }

    fn progress(&mut self, key: CallId, value: i32) {
        let got = self.table.progress(key, f64::from(value), self.now);
        let now = self.now;
        let expected = self.model.get_mut(&key).and_then(|call| {
            call.heard = now;
            if call.progress.is_some_and(|last| value <= last) {
                return None;
            }
            call.progress = Some(value);
            call.token.map(|token| raw(IDS[token]))
        });
        assert_eq!(got, expected, "progress {value} of {key:?}");
    }

    /// Time passes; whoever waits for a call gives it up at its deadline, not before.
    fn pass(&mut self, time: Duration) {
        self.now += time;
        let due: Vec<CallId> =
            self.model.iter().filter(|(_, call)| call.deadline() <= self.now).map(|(key, _)| *key).collect();
        for key in due {
            assert!(self.table.get(key).unwrap().deadline <= self.now);
            self.table.finish(key).unwrap();
            self.ended(key);
        }
    }

    fn check(&self) {
        assert_eq!(self.table.len(), self.model.len());
        assert_eq!(self.table.is_empty(), self.model.is_empty());
        for client in 0..3 {
            for (id, text) in IDS.iter().enumerate() {
                assert_eq!(self.table.find(ClientKey(client), &raw(text)), self.of(client, id));
            }
        }
        for (key, expected) in &self.model {
            let call = self.table.get(*key).unwrap();
            assert_eq!(call.deadline, expected.deadline(), "deadline of {key:?}");
            assert_eq!((call.client, call.link), (ClientKey(expected.client), LinkKey(expected.link)));
            assert_eq!((&call.id, &call.token), (&Some(raw(IDS[expected.id])), &expected.token.map(|t| raw(IDS[t]))));
        }
        for link in 0..3 {
            let mut on_link = self.model.iter().filter(|(_, call)| call.link == link).map(|(key, _)| *key);
            let sole = on_link.next().filter(|_| on_link.next().is_none());
            let known = &self.links[link as usize];
            // Whoever's work may still be behind a message, nobody else is taken for its owner.
            let only_theirs = |key: &CallId| {
                known.ghosts.values().all(|client| *client == self.model[key].client) && !known.overflowed
            };
            assert_eq!(self.table.sole_on(LinkKey(link)), sole.filter(only_theirs));
            assert_eq!(self.table.ghosts_on(LinkKey(link)), known.ghosts.len());
            assert!(known.ghosts.keys().all(|key| self.table.has_ghost(LinkKey(link), *key)));
            let callers = match known.callers.len() {
                0 => LinkCallers::Nobody,
                1 => LinkCallers::One(principal(2 * *known.callers.first().unwrap())),
                _ => LinkCallers::Several,
            };
            assert_eq!(self.table.callers_on(LinkKey(link)), callers);
        }
    }
}

/// Clients 0 and 1 are the same principal's.
fn principal(client: u64) -> Arc<str> {
    (client / 2).to_string().into()
}

/// The indexes are not visible otherwise, and a leak in them is one.
fn assert_holds_nothing(table: &CallTable) {
    let text = format!("{table:?}");
    let (_, maps) = text.split_once(" calls: ").unwrap();
    assert!(!maps.replace("{}", "").contains('{'), "{text}");
}

proptest! {
    // S2.1, S2.3, S2.5, bridging 28, 29, 30, 31, 39; edges B1
    #[test]
    fn every_call_ends_once_and_nobody_meets_another(steps in proptest::collection::vec(step(), 1..120)) {
        let mut run = Run::new();
        for step in &steps {
            run.apply(step);
        }
        run.pass(Duration::from_secs(20));
        run.check();
        for link in 0..3 {
            run.apply(&Step::LinkGone(link));
        }
        prop_assert!(run.ends.values().all(|times| *times == 1));
        assert_holds_nothing(&run.table);
    }
}

fn call(client: u64, id: &str, timeout: u64, max: u64) -> NewCall {
    let (timeout, max_timeout) = (Duration::from_secs(timeout), Duration::from_secs(max));
    NewCall {
        client: ClientKey(client),
        id: Some(raw(id)),
        principal: principal(client),
        link: LinkKey(1),
        heard_beside: true,
        token: Some(raw("\"t\"")),
        timeout,
        max_timeout,
        after: None,
    }
}

// bridging B4
#[test]
fn silence_progress_and_the_hard_maximum_set_the_deadline() {
    let mut table = CallTable::new(CallLimits::default(), 1);
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let id = table.begin(call(1, "1", 10, 25), start).unwrap();
    assert_eq!(table.get(id).unwrap().deadline, at(10), "silence");
    assert_eq!(table.progress(id, 1.0, at(8)), Some(raw("\"t\"")));
    assert_eq!(table.get(id).unwrap().deadline, at(18), "progress moves it");
    assert_eq!(table.progress(id, 1.0, at(16)), None, "the same value is not delivered");
    assert_eq!(table.get(id).unwrap().deadline, at(25), "but it shows life, up to the maximum");
    assert_eq!(table.progress(id, 2.0, at(24)), Some(raw("\"t\"")));
    assert_eq!(table.get(id).unwrap().deadline, at(25), "the maximum stands");
    let short = table.begin(call(1, "2", 10, 3), start).unwrap();
    assert_eq!(table.get(short).unwrap().deadline, at(3), "also before any progress");
}

// S2.1
#[test]
fn ids_that_look_alike_are_different_requests() {
    let mut table = CallTable::new(CallLimits::default(), 1);
    let now = Instant::now();
    let mut begun = Vec::new();
    for client in [1, 2] {
        for id in ["0", "1", "\"1\""] {
            begun.push((client, id, table.begin(call(client, id, 1, 1), now).unwrap()));
        }
    }
    assert_eq!(table.begin(call(1, "0", 1, 1), now), Err(BeginError::DuplicateId));
    let (cancelled, _) = table.cancel(ClientKey(1), &raw("\"1\"")).unwrap();
    for (client, id, key) in begun {
        assert_eq!(table.find(ClientKey(client), &raw(id)), Some(key).filter(|key| *key != cancelled));
    }
}

// S2.5
#[test]
fn a_hundred_thousand_abandoned_requests_stay_bounded_and_go() {
    let limits = CallLimits::default();
    let mut table = CallTable::new(limits, 1);
    let start = Instant::now();
    let (mut accepted, mut refused) = (Vec::new(), 0);
    for number in 0..100_000u64 {
        match table.begin(call(number % 80, &number.to_string(), 60, 60), start) {
            Ok(id) => accepted.push(id),
            Err(BeginError::TooMany { .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
        assert!(table.len() <= limits.total);
    }
    assert_eq!((table.len(), accepted.len(), refused), (limits.total, limits.total, 100_000 - limits.total));
    for number in 0..100_000u64 {
        let one_client = table.begin(call(1_000, &number.to_string(), 60, 60), start);
        assert!(matches!(one_client, Err(BeginError::TooMany { .. })));
    }
    let later = start + Duration::from_secs(60);
    for id in accepted {
        assert!(table.get(id).unwrap().deadline <= later);
        table.finish(id).unwrap();
    }
    assert_holds_nothing(&table);
    for number in 0..100_000u64 {
        let _ = table.begin(call(7, &number.to_string(), 60, 60), later);
        assert!(table.len() <= limits.per_client);
    }
    assert_eq!(table.client_gone(ClientKey(7)).len(), limits.per_client);
    assert_holds_nothing(&table);
}

// edges B1
#[test]
fn an_abandoned_call_keeps_others_from_being_taken_for_the_owner_until_it_is_answered() {
    let mut table = CallTable::new(CallLimits::default(), 1);
    let now = Instant::now();
    let link = LinkKey(1);
    table.link_opened(link);
    let theirs = table.begin(call(1, "1", 60, 60), now).unwrap();
    let (_, taken) = table.cancel(ClientKey(1), &raw("1")).unwrap();
    assert_eq!(table.leave_ghost(theirs, &taken), Some(1));
    let mine = table.begin(call(2, "1", 60, 60), now).unwrap();
    assert_eq!(table.sole_on(link), None, "it may be about the call of the other");
    table.finish(mine);
    let own = table.begin(call(1, "2", 60, 60), now).unwrap();
    assert_eq!(table.sole_on(link), Some(own), "either way it is this client's");
    table.finish(own);
    let mine = table.begin(call(2, "1", 60, 60), now).unwrap();
    assert!(table.ghost_answered(link, theirs));
    assert_eq!(table.sole_on(link), Some(mine));
}

// edges B1; S2.5
#[test]
fn a_hundred_thousand_abandoned_calls_of_one_link_are_bounded_and_leave_it_without_an_owner() {
    let limits = CallLimits::default();
    let mut table = CallTable::new(limits, 1);
    let now = Instant::now();
    let link = LinkKey(1);
    table.link_opened(link);
    let mut abandoned = Vec::new();
    for number in 0..100_000u64 {
        let id = table.begin(call(number % 80, "1", 60, 60), now).unwrap();
        let taken = table.finish(id).unwrap();
        table.leave_ghost(id, &taken);
        abandoned.push(id);
        assert!(table.ghosts_on(link) <= limits.ghosts_per_link);
    }
    let mine = table.begin(call(1, "1", 60, 60), now).unwrap();
    assert_eq!(table.sole_on(link), None);
    for id in abandoned {
        table.ghost_answered(link, id);
    }
    assert_eq!((table.ghosts_on(link), table.sole_on(link)), (0, None), "which were not remembered is not known");
    table.finish(mine);
    table.link_gone(link);
    assert_holds_nothing(&table);
}

// bridging B4
#[test]
fn a_later_round_goes_on_where_the_one_before_ended() {
    let mut table = CallTable::new(LIMITS, 1);
    let now = Instant::now();
    let first = table.begin(call(1, "1", 10, 30), now).unwrap();
    assert!(table.progress(first, 5.0, now).is_some());
    let history = table.finish(first).unwrap().history();
    let later = now + Duration::from_secs(25);
    let second = table.begin(NewCall { after: Some(history), ..call(1, "1", 10, 30) }, later).unwrap();
    assert_eq!(table.get(second).unwrap().deadline, now + Duration::from_secs(30), "one request has one last moment");
    assert!(table.progress(second, 5.0, later).is_none(), "progress grows from round to round");
    assert!(table.progress(second, 6.0, later).is_some());
}

// bridging B6
#[test]
fn a_call_whose_server_waits_for_the_client_is_held_and_has_its_usual_time_afterwards() {
    let (mut table, now) = (CallTable::new(LIMITS, FIRST), Instant::now());
    let (client, link, id) = (ClientKey(1), LinkKey(1), raw("1"));
    let new = NewCall {
        client,
        id: Some(id.clone()),
        principal: "p".into(),
        link,
        heard_beside: true,
        token: None,
        timeout: Duration::from_secs(5),
        max_timeout: Duration::from_secs(60),
        after: None,
    };
    let call = table.begin(new.clone(), now).unwrap();
    assert_eq!(table.hold(call), Some(now + Duration::from_secs(60)));
    assert_eq!(table.get(call).map(|call| call.deadline), Some(now + Duration::from_secs(60)));
    table.progress(call, 1.0, now);
    assert_eq!(
        table.get(call).map(|call| call.deadline),
        Some(now + Duration::from_secs(60)),
        "its client has its time"
    );
    table.release_id(call);
    assert!(table.cancel(client, &id).is_none(), "a late cancellation of the first request means nothing");
    let second = table.begin(new, now).expect("the id is free");
    assert_eq!(table.count_of(client), 2);
    let later = now + Duration::from_secs(30);
    table.resume(call, later);
    assert_eq!(table.get(call).map(|call| call.deadline), Some(later + Duration::from_secs(5)));
    assert!(table.finish(call).is_some());
    assert_eq!(table.find(client, &id), Some(second), "its end takes no name from another");
}
