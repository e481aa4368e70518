//! Who heard of what changed, who may still, and who is deaf: the words against a model that keeps everything.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use tidings_hub::deliveries::{ClientStanding, DEAF_AFTER, DEAF_CALLS, Deliveries, HearingTally, OwedLists};
use tidings_hub::ledger::{FollowerId, LedgerCommit, Topic, Topics};

const ID: FollowerId = FollowerId(7);
const TOOLS: Topic = Topic::Tools;

fn only(topic: Topic) -> Topics {
    let mut topics = Topics::default();
    topics.insert(topic);
    topics
}

/// One client, with what is counted of it.
struct Watched {
    begun: Instant,
    deliveries: Deliveries,
    tally: HearingTally,
}

impl Watched {
    fn new(follows: Topics, on_channel: bool) -> Self {
        let begun = Instant::now();
        let mut deliveries = Deliveries::new(begun);
        deliveries.came(ID, 0, follows, on_channel);
        Self { begun, deliveries, tally: HearingTally::default() }
    }

    fn at(&self, seconds: u64) -> Instant {
        self.begun + Duration::from_secs(seconds)
    }

    fn tell(&mut self, topic: Topic, seconds: u64) {
        let at = self.at(seconds);
        self.tally.told(self.deliveries.told(ID, only(topic), only(topic), at));
    }

    fn list(&mut self, topic: Topic, seconds: u64) {
        let at = self.at(seconds);
        self.deliveries.listed(ID, topic, at);
        self.tally.listed(topic, self.deliveries.newest_number());
    }

    fn standing(&self, owed: Option<u64>, seconds: u64) -> ClientStanding {
        let owed = owed.map(|since| OwedLists { topics: only(TOOLS), since: self.at(since) });
        self.deliveries.of(ID).standing(owed, self.tally.calls(), self.at(seconds))
    }
}

// reach 8.3
#[test]
fn who_was_told_is_waiting_and_deaf_after_three_calls() {
    let mut client = Watched::new(Topics::ALL, false);
    assert_eq!(client.standing(None, 0), ClientStanding::Heard);
    client.list(TOOLS, 1);
    client.tell(TOOLS, 2);
    for _ in 0..DEAF_CALLS {
        assert_eq!(client.standing(None, 3), ClientStanding::Waiting);
        client.tally.called(Topic::Prompts);
        client.tally.called(TOOLS);
    }
    assert_eq!(client.standing(None, 3), ClientStanding::Deaf);
    assert_eq!(client.standing(Some(3), 4), ClientStanding::Deaf, "a fresh notice excuses nothing");
    client.list(Topic::Prompts, 5);
    assert_eq!(client.standing(None, 5), ClientStanding::Deaf, "it asked for something else");
    client.list(TOOLS, 6);
    assert_eq!(client.standing(None, 1_000_000), ClientStanding::Heard);
    assert_eq!(client.tally.calls(), [0; 3]);
}

// reach 8.3
#[test]
fn who_was_told_is_deaf_after_ten_minutes_without_any_call() {
    let mut client = Watched::new(Topics::ALL, false);
    client.tell(TOOLS, 1);
    assert_eq!(client.standing(None, 5_000), ClientStanding::Unknown, "it never asked here");
    client.list(TOOLS, 2);
    client.tell(TOOLS, 10);
    client.tell(TOOLS, 500);
    assert_eq!(client.standing(None, 609), ClientStanding::Waiting);
    assert_eq!(client.standing(None, 610), ClientStanding::Deaf, "the first that it did not follow counts");
    client.list(TOOLS, 611);
    assert_eq!(client.standing(None, 5_000), ClientStanding::Heard);
}

// reach 8.3
#[test]
fn a_notice_that_nobody_takes_is_owed_and_then_unreached() {
    let mut client = Watched::new(Topics::ALL, false);
    client.list(TOOLS, 0);
    assert_eq!(client.standing(Some(10), 15), ClientStanding::Owed);
    assert_eq!(client.standing(Some(10), 16), ClientStanding::Unreached);
    (0..9).for_each(|_| _ = client.tally.called(TOOLS));
    assert_eq!(client.standing(Some(10), 15), ClientStanding::Owed, "who was not told is not deaf");
}

// reach 8.3
#[test]
fn who_does_not_ask_to_be_told_is_never_deaf() {
    let mut client = Watched::new(Topics::default(), false);
    client.list(TOOLS, 0);
    client.tell(TOOLS, 1);
    (0..9).for_each(|_| _ = client.tally.called(TOOLS));
    assert_eq!(client.standing(None, 5_000), ClientStanding::NotAsking);
    let mut some = Watched::new(only(Topic::Prompts), false);
    some.list(TOOLS, 0);
    let of = |client: &Watched, topic| client.deliveries.of(ID).of_list(topic, None, [0; 3], client.at(1));
    assert_eq!(
        [TOOLS, Topic::Prompts].map(|topic| of(&some, topic)),
        [ClientStanding::NotAsking, ClientStanding::Heard]
    );
}

// reach 8.3
#[test]
fn a_client_on_the_channel_was_sent_and_never_heard() {
    let mut client = Watched::new(Topics::ALL, true);
    assert_eq!(client.standing(None, 0), ClientStanding::Sent);
    client.list(TOOLS, 0);
    client.tell(TOOLS, 1);
    (0..9).for_each(|_| _ = client.tally.called(TOOLS));
    assert_eq!(client.standing(None, 5_000), ClientStanding::Sent);
    client.list(TOOLS, 5_001);
    assert_eq!(client.standing(None, 5_002), ClientStanding::Sent);
    assert_eq!(client.standing(Some(5_002), 5_010), ClientStanding::Unreached, "what nobody took was not sent");
}

// reach 8.3
#[test]
fn a_change_after_a_list_was_given_is_not_settled_by_it() {
    let hearing = HearingTally::default();
    // Given as of commit 5; commit 6 comes before that is noted.
    hearing.changed(6);
    hearing.listed(Topic::Tools, 5);
    assert_eq!(hearing.hint(), Some(6));
    hearing.listed(Topic::Tools, 6);
    assert_eq!(hearing.hint(), None);
}

// reach 8.3
#[test]
fn a_hint_is_due_once_for_each_change_that_it_has_not_seen() {
    let mut client = Watched::new(Topics::ALL, false);
    let commit = |client: &mut Watched, changed: [u64; 3]| {
        let at = client.begun;
        client.deliveries.committed(at, 5, &LedgerCommit::default(), changed)
    };
    commit(&mut client, [1, 0, 0]);
    assert_eq!(client.deliveries.newest_owed(ID, TOOLS), None, "it never asked for them");
    client.list(TOOLS, 1);
    let first = commit(&mut client, [1, 0, 0]);
    commit(&mut client, [0, 1, 0]);
    assert_eq!(client.deliveries.newest_owed(ID, TOOLS), Some(first), "the other was about prompts");
    assert_eq!(client.deliveries.owed_since(ID, TOOLS), Some(client.begun));
    assert_eq!(client.deliveries.owed_since(ID, Topic::Resources), None);
    client.tally.changed(first);
    assert_eq!(client.tally.hint(), Some(first));
    assert!(client.tally.take_hint(first) && !client.tally.take_hint(first));
    client.tally.changed(first);
    assert_eq!(client.tally.hint(), None, "once");
    let second = commit(&mut client, [1, 0, 0]);
    client.tally.changed(second);
    assert_eq!(client.tally.hint(), Some(second));
    client.list(TOOLS, 2);
    assert_eq!(client.tally.hint(), None);
    client.tally.changed(second);
    assert_eq!(client.tally.hint(), None, "it asked since");
    client.tell(TOOLS, 3);
    assert_eq!(client.deliveries.newest_owed(ID, TOOLS), None);
    assert_eq!(client.deliveries.owed_since(ID, TOOLS), None);
    assert_eq!(client.deliveries.of(ID).commit[0], Some(second));
}

#[derive(Clone, Debug)]
enum Step {
    Tell(usize),
    List(usize),
    Call(usize),
    Wait(u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..3usize).prop_map(Step::Tell),
        1 => (0..3usize).prop_map(Step::List),
        5 => (0..3usize).prop_map(Step::Call),
        2 => (0..500u16).prop_map(Step::Wait),
    ]
}

/// What a model remembers of one list.
#[derive(Clone, Copy, Default)]
struct Remembered {
    listed: bool,
    told: bool,
    /// When it was told first of what it has not asked for since, and how often it called since.
    behind: Option<(u64, u32)>,
}

proptest! {
    // reach 8.3
    #[test]
    fn the_words_are_those_of_a_model(steps in proptest::collection::vec(step(), 1..200)) {
        let mut client = Watched::new(Topics::ALL, false);
        let mut model = [Remembered::default(); 3];
        let mut now = 0;
        for step in steps {
            match step {
                Step::Wait(seconds) => now += u64::from(seconds),
                Step::Tell(topic) => {
                    client.tell(Topic::ALL[topic], now);
                    model[topic].told = true;
                    if model[topic].listed {
                        model[topic].behind = model[topic].behind.or(Some((now, 0)));
                    }
                }
                Step::List(topic) => {
                    client.list(Topic::ALL[topic], now);
                    model[topic] = Remembered { listed: true, behind: None, ..model[topic] };
                }
                Step::Call(topic) => {
                    let is_last = client.tally.called(Topic::ALL[topic]);
                    let count = model[topic].behind.as_mut().map(|(_, calls)| { *calls += 1; *calls });
                    prop_assert_eq!(is_last, count == Some(u32::from(DEAF_CALLS)));
                }
            }
            let words = model.map(|list| match list.behind {
                Some((told, calls)) if calls >= 3 || now - told >= DEAF_AFTER.as_secs() => ClientStanding::Deaf,
                Some(_) => ClientStanding::Waiting,
                None if list.told && !list.listed => ClientStanding::Unknown,
                None => ClientStanding::Heard,
            });
            let record = client.deliveries.of(ID);
            for topic in Topic::ALL {
                let word = record.of_list(topic, None, client.tally.calls(), client.at(now));
                prop_assert_eq!(word, words[topic as usize], "{:?}", topic);
            }
            let of_client = [ClientStanding::Deaf, ClientStanding::Waiting].into_iter().find(|word| words.contains(word));
            let is_unknown = model.iter().all(|list| !list.listed) && model.iter().any(|list| list.told);
            let rest = if is_unknown { ClientStanding::Unknown } else { ClientStanding::Heard };
            prop_assert_eq!(client.standing(None, now), of_client.unwrap_or(rest));
        }
    }
}
