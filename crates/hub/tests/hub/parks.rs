//! Calls that wait for their clients: single rules, then random histories.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use proptest::prelude::*;
use tidings_hub::LinkKey;
use tidings_hub::calls::CallId;
use tidings_hub::parks::{
    AskedInput, CallEnd, NewPark, ParkCommand, ParkId, ParkLimits, ParkRefused, ParkTable, ParkedAnswer, RetryFault,
    SeatId, SeatOutcome,
};
use tidings_wire::RawId;

const LINK: LinkKey = LinkKey(7);
const LIMITS: ParkLimits = ParkLimits {
    per_principal: 3,
    total: 5,
    ttl: Duration::from_secs(10),
    done_ttl: Duration::from_secs(4),
    kept_bytes: 440,
    rounds: 6,
    questions: 4,
    seats: 3,
};

fn asked(id: u64) -> AskedInput {
    let request = Bytes::from(format!(r#"{{"method":"elicitation/create","params":{{"message":"{id}"}}}}"#));
    AskedInput { id: RawId::from(id), method: "elicitation/create".into(), request }
}

fn new_park(principal: &str, call: u64, now: Instant) -> NewPark {
    NewPark {
        principal: principal.into(),
        call: CallId(call),
        link: LINK,
        until: now + Duration::from_secs(60),
        request: 0,
    }
}

fn answer(text: &str) -> ParkedAnswer {
    ParkedAnswer { response: Bytes::from(text.to_owned()), error: None }
}

fn given(keys: &[&str]) -> Vec<(Box<str>, Bytes)> {
    keys.iter().map(|key| ((*key).into(), Bytes::from(format!("answer to {key}")))).collect()
}

fn opened(table: &mut ParkTable, questions: &[u64], now: Instant) -> (ParkId, Vec<Box<str>>) {
    let asked = questions.iter().map(|id| asked(*id)).collect();
    let (park, outcome, commands) = table.open(new_park("ada", 1, now), asked, now).unwrap();
    assert_eq!(commands, [ParkCommand::Hold(CallId(1))]);
    let SeatOutcome::Input { round: 1, requests, .. } = outcome else { panic!("{outcome:?}") };
    (park, requests.into_iter().map(|(key, _)| key).collect())
}

fn told(commands: &[ParkCommand]) -> Vec<(u64, SeatOutcome)> {
    let tell = |command: &ParkCommand| match command {
        ParkCommand::Tell { seat, outcome } => Some((seat.0, outcome.clone())),
        _ => None,
    };
    commands.iter().filter_map(tell).collect()
}

fn answers(commands: &[ParkCommand]) -> Vec<u64> {
    let answer = |command: &ParkCommand| match command {
        ParkCommand::Answer { id, .. } => id.as_u64(),
        _ => None,
    };
    commands.iter().filter_map(answer).collect()
}

fn cancels(commands: &[ParkCommand]) -> bool {
    commands.iter().any(|command| matches!(command, ParkCommand::CancelUpstream { .. }))
}

// bridging 35
#[test]
fn answers_go_to_the_server_and_its_answer_to_whoever_brought_them() {
    let (mut table, now) = (ParkTable::new(LIMITS), Instant::now());
    let (park, keys) = opened(&mut table, &[1, 2], now);
    assert_eq!(keys.len(), 2);
    let keys: Vec<&str> = keys.iter().map(|key| &**key).collect();
    let commands = table.retry(park, "ada", 1, &given(&keys), SeatId(1), now);
    assert_eq!(commands[0], ParkCommand::Resume(CallId(1)), "the clock runs before the server can ask more");
    assert_eq!((answers(&commands), told(&commands)), (vec![1, 2], vec![]));
    let commands = table.finished(park, answer("r"), CallEnd::Answered, now);
    assert_eq!(told(&commands), [(1, SeatOutcome::Answer(Arc::new(answer("r"))))]);
}

#[test]
fn the_request_counts_while_its_call_is_open() {
    let (mut table, now) = (ParkTable::new(LIMITS), Instant::now());
    let long = |request| NewPark { request, ..new_park("ada", 1, now) };
    assert_eq!(table.open(long(200), vec![asked(1)], now).map(|_| ()), Err(ParkRefused::TooMuch));
    let (park, ..) = table.open(long(150), vec![asked(1)], now).unwrap();
    assert_eq!(table.kept_bytes(), 150 + asked(1).request.len());
    let _ = table.finished(park, answer("r"), CallEnd::Answered, now);
    assert_eq!(table.kept_bytes(), 1, "of a call that is over its answer is kept");
}

// bridging 37
#[test]
fn a_retry_that_comes_twice_is_answered_twice_and_taken_once() {
    let (mut table, now) = (ParkTable::new(LIMITS), Instant::now());
    let (park, _) = opened(&mut table, &[1], now);
    assert_eq!(answers(&table.retry(park, "ada", 1, &given(&["q1"]), SeatId(1), now)), [1]);
    assert_eq!(table.retry(park, "ada", 1, &given(&["q1"]), SeatId(2), now), []);
    let both = told(&table.finished(park, answer("r"), CallEnd::Answered, now));
    assert_eq!(both.iter().map(|(seat, _)| *seat).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(both[0].1, both[1].1);
    // Also after it is over, until the answer is not kept any more.
    let late = table.retry(park, "ada", 1, &given(&["q1"]), SeatId(3), now);
    assert_eq!(told(&late), [(3, both[0].1.clone())]);
    assert_eq!(table.expire(park, now + LIMITS.done_ttl), []);
    let gone = table.retry(park, "ada", 1, &given(&["q1"]), SeatId(4), now + LIMITS.done_ttl);
    assert_eq!(told(&gone), [(4, SeatOutcome::Refused(RetryFault::Lost))]);
    assert!(table.is_empty() && table.kept_bytes() == 0);
}

#[test]
fn what_is_missing_is_asked_again_under_its_key_and_what_is_unknown_is_ignored() {
    let (mut table, now) = (ParkTable::new(LIMITS), Instant::now());
    let (park, _) = opened(&mut table, &[1, 2], now);
    let commands = table.retry(park, "ada", 1, &given(&["q1", "other"]), SeatId(1), now);
    assert_eq!(answers(&commands), [1]);
    let second = told(&commands);
    let SeatOutcome::Input { round: 2, requests, .. } = &second[0].1 else { panic!("{second:?}") };
    assert_eq!(requests.iter().map(|(key, _)| &**key).collect::<Vec<_>>(), ["q2"]);
    // The first retry again: the same round, and nothing is answered twice.
    let again = table.retry(park, "ada", 1, &given(&["q1", "q2"]), SeatId(2), now);
    assert_eq!((told(&again)[0].1.clone(), answers(&again)), (second[0].1.clone(), vec![]));
    assert_eq!(answers(&table.retry(park, "ada", 2, &given(&["q2"]), SeatId(3), now)), [2]);
    let older = table.retry(park, "ada", 1, &given(&["q1"]), SeatId(4), now);
    assert_eq!(told(&older), [(4, SeatOutcome::Refused(RetryFault::OlderRound))]);
}

#[test]
fn a_server_that_asks_again_gets_the_next_round_and_is_stopped_when_there_were_too_many() {
    let (mut table, now) = (ParkTable::new(LIMITS), Instant::now());
    let (park, mut keys) = opened(&mut table, &[1], now);
    for round in 1..=LIMITS.rounds {
        let bring: Vec<&str> = keys.iter().map(|key| &**key).collect();
        let seat = SeatId(round.into());
        assert_eq!(answers(&table.retry(park, "ada", round, &given(&bring), seat, now)), [u64::from(round)]);
        let commands = table.asked(park, LINK, vec![asked(u64::from(round) + 1)], now);
        let outcome = told(&commands).remove(0).1;
        if round == LIMITS.rounds {
            assert_eq!(outcome, SeatOutcome::Refused(RetryFault::TooManyRounds));
            assert!(cancels(&commands) && table.is_empty());
            return;
        }
        assert!(commands.contains(&ParkCommand::Hold(CallId(1))));
        let SeatOutcome::Input { round: next, requests, .. } = outcome else { panic!("{outcome:?}") };
        assert_eq!(next, round + 1);
        keys = requests.into_iter().map(|(key, _)| key).collect();
    }
    panic!("rounds have no end");
}

// bridging 38
#[test]
fn a_park_that_nobody_comes_back_to_is_refused_cancelled_and_forgotten() {
    let (mut table, now) = (ParkTable::new(LIMITS), Instant::now());
    let (park, _) = opened(&mut table, &[1, 2], now);
    let due = table.due(park).unwrap();
    assert_eq!(due, now + LIMITS.ttl);
    assert_eq!(table.expire(park, due - Duration::from_millis(1)), []);
    let commands = table.expire(park, due);
    let refused = commands.iter().filter(|command| matches!(command, ParkCommand::Refuse { .. })).count();
    assert_eq!((refused, cancels(&commands), commands.len()), (2, true, 3));
    assert!(table.is_empty() && table.kept_bytes() == 0);
}

#[test]
fn closing_the_last_retry_cancels_and_closing_one_of_two_or_one_that_was_told_does_not() {
    let (mut table, now) = (ParkTable::new(LIMITS), Instant::now());
    let (park, _) = opened(&mut table, &[1], now);
    table.retry(park, "ada", 1, &given(&["q1"]), SeatId(1), now);
    table.retry(park, "ada", 1, &given(&["q1"]), SeatId(2), now);
    assert_eq!(table.seat_gone(park, SeatId(1)), []);
    assert!(cancels(&table.seat_gone(park, SeatId(2))));
    assert_eq!(table.seat_gone(park, SeatId(2)), []);
    assert_eq!(table.finished(park, answer("late"), CallEnd::Answered, now), []);
    assert!(table.is_empty());
    let (park, _) = opened(&mut table, &[1], now);
    table.retry(park, "ada", 1, &given(&["q1"]), SeatId(3), now);
    table.finished(park, answer("r"), CallEnd::Answered, now);
    assert_eq!(table.seat_gone(park, SeatId(3)), []);
}

#[test]
fn an_answer_that_came_meanwhile_waits_for_the_retry() {
    let (mut table, now) = (ParkTable::new(LIMITS), Instant::now());
    let (park, _) = opened(&mut table, &[1], now);
    assert_eq!(table.finished(park, answer("r"), CallEnd::Answered, now), []);
    let commands = table.retry(park, "ada", 1, &given(&["q1"]), SeatId(1), now + LIMITS.done_ttl);
    assert_eq!(commands, [ParkCommand::Tell { seat: SeatId(1), outcome: SeatOutcome::Answer(answer("r").into()) }]);
}

#[test]
fn only_the_newest_progress_is_kept_while_nobody_is_there() {
    let (mut table, now) = (ParkTable::new(LIMITS), Instant::now());
    let (park, _) = opened(&mut table, &[1], now);
    for text in ["one", "two"] {
        assert_eq!(table.message(park, Bytes::from(text), true), []);
    }
    assert_eq!(table.message(park, Bytes::from("a log message"), false), []);
    assert_eq!(table.dropped(), 2, "the first progress and the log message");
    let commands = table.retry(park, "ada", 1, &given(&["q1"]), SeatId(1), now);
    assert!(commands.contains(&ParkCommand::Show { seat: SeatId(1), message: Bytes::from("two") }));
    let live = table.message(park, Bytes::from("a log message"), false);
    assert_eq!(live, [ParkCommand::Show { seat: SeatId(1), message: Bytes::from("a log message") }]);
    assert_eq!(table.dropped(), 2);
}

#[test]
fn a_withdrawn_question_is_not_asked_for_again() {
    let (mut table, now) = (ParkTable::new(LIMITS), Instant::now());
    let (park, _) = opened(&mut table, &[1, 2], now);
    table.withdrawn(LinkKey(8), &RawId::from(1));
    table.withdrawn(LINK, &RawId::from(1));
    assert_eq!(answers(&table.retry(park, "ada", 1, &given(&["q1", "q2"]), SeatId(1), now)), [2]);
}

#[test]
fn bounds_are_kept_and_answers_that_were_given_make_room() {
    let (mut table, now) = (ParkTable::new(LIMITS), Instant::now());
    let open = |table: &mut ParkTable, who: &str, call| {
        table.open(new_park(who, call, now), vec![asked(call)], now).map(|(park, ..)| park)
    };
    let parks: Vec<ParkId> = (1..=3).map(|call| open(&mut table, "ada", call).unwrap()).collect();
    assert_eq!(open(&mut table, "ada", 4), Err(ParkRefused::TooMany { limit: 3 }));
    for call in 5..=6 {
        open(&mut table, "bob", call).unwrap();
    }
    assert_eq!(open(&mut table, "eve", 7), Err(ParkRefused::TooMany { limit: 5 }));
    table.vanished(parks[2]);
    let long = vec![AskedInput { request: Bytes::from(vec![b'x'; 220]), ..asked(8) }];
    assert!(matches!(table.open(new_park("eve", 8, now), long.clone(), now), Err(ParkRefused::TooMuch)));
    // An answer that its client has got goes for it; one that nobody has fetched does not.
    table.retry(parks[0], "ada", 1, &given(&["q1"]), SeatId(1), now);
    table.finished(parks[0], answer(&"y".repeat(60)), CallEnd::Answered, now);
    table.finished(parks[1], answer("kept"), CallEnd::Answered, now);
    table.vanished(ParkId(4));
    table.vanished(ParkId(5));
    assert!(table.open(new_park("eve", 9, now), long, now).is_ok());
    assert!(!table.has(parks[0]) || table.kept_bytes() <= LIMITS.kept_bytes);
    assert!(table.has(parks[1]));
}

#[test]
fn one_principal_takes_no_more_than_half_of_the_room_and_others_lose_nothing() {
    let (mut table, now) = (ParkTable::new(LIMITS), Instant::now());
    let open = |table: &mut ParkTable, who: &str, call, len: usize| {
        let asked = vec![AskedInput { request: Bytes::from(vec![b'x'; len]), ..asked(call) }];
        table.open(new_park(who, call, now), asked, now).map(|(park, ..)| park)
    };
    open(&mut table, "eve", 1, 120).unwrap();
    let unfetched = open(&mut table, "eve", 2, 60).unwrap();
    assert_eq!(open(&mut table, "eve", 3, 60), Err(ParkRefused::TooMuch));
    table.finished(unfetched, answer(&"y".repeat(400)), CallEnd::Answered, now);
    assert!(!table.has(unfetched), "her long answer takes no more than her share either");
    let ada = open(&mut table, "ada", 4, 100).unwrap();
    table.retry(ada, "ada", 1, &given(&["q1"]), SeatId(1), now);
    table.finished(ada, answer(&"y".repeat(200)), CallEnd::Answered, now);
    assert!(table.has(ada), "an answer is kept for whoever asks again");
    let eve = open(&mut table, "eve", 5, 80).unwrap();
    assert_eq!(table.message(eve, Bytes::from(vec![b'l'; 200]), false), []);
    assert!(table.has(ada), "nothing is forgotten for a log line that is not kept");
}

#[test]
fn what_a_call_asked_that_was_given_up_is_refused() {
    let (mut table, now) = (ParkTable::new(LIMITS), Instant::now());
    let refusal =
        |id: u64| ParkCommand::Refuse { link: LINK, id: RawId::from(id), method: "elicitation/create".into() };
    let (park, _) = opened(&mut table, &[1, 2], now);
    assert_eq!(table.finished(park, answer("lost"), CallEnd::GivenUp, now), [refusal(1), refusal(2)]);
    let (park, _) = opened(&mut table, &[3], now);
    assert_eq!(table.finished(park, answer("r"), CallEnd::Answered, now), [], "its server has gone on without");
}

#[test]
fn an_answer_that_was_given_takes_no_place_of_a_call_that_waits() {
    let (mut table, now) = (ParkTable::new(LIMITS), Instant::now());
    for call in 1..=20 {
        let opened = table.open(new_park("ada", call, now), vec![asked(call)], now);
        let (park, ..) = opened.unwrap_or_else(|refused| panic!("call {call}: {refused:?}"));
        table.retry(park, "ada", 1, &given(&["q1"]), SeatId(call), now);
        table.finished(park, answer("done"), CallEnd::Answered, now);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Open { who: usize, questions: usize },
    Ask(usize),
    Withdraw(usize),
    Retry { park: usize, who: usize, back: u32, keys: u8 },
    Leave(usize),
    Progress(usize),
    Finish(usize),
    Vanish(usize),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let park = 0..6usize;
    prop_oneof![
        3 => (0..3usize, 1..4usize).prop_map(|(who, questions)| Step::Open { who, questions }),
        3 => park.clone().prop_map(Step::Ask),
        1 => (0..30usize).prop_map(Step::Withdraw),
        8 => (park.clone(), 0..8usize, 0..3u32, any::<u8>()).prop_map(|(park, who, back, keys)| {
            Step::Retry { park, who: usize::from(who == 0), back, keys }
        }),
        3 => (0..20usize).prop_map(Step::Leave),
        1 => park.clone().prop_map(Step::Progress),
        2 => park.clone().prop_map(Step::Finish),
        1 => park.prop_map(Step::Vanish),
        2 => (1..6u64).prop_map(Step::Pass),
    ]
}

const NAMES: [&str; 3] = ["ada", "bob", "eve"];

#[derive(Default)]
struct World {
    parks: Vec<Known>,
    /// Every question that was ever taken in, and how often it was settled.
    questions: BTreeMap<u64, (ParkId, usize)>,
    seats: BTreeMap<u64, (ParkId, u32)>,
    next: u64,
    outcomes: BTreeMap<(ParkId, u32), SeatOutcome>,
    withdrawn: BTreeSet<ParkId>,
    cancelled: BTreeSet<u64>,
    finished: BTreeSet<u64>,
}

struct Known {
    id: ParkId,
    who: usize,
    call: u64,
    round: u32,
}

impl World {
    fn obey(&mut self, table: &ParkTable, commands: Vec<ParkCommand>) -> Result<(), TestCaseError> {
        for command in commands {
            match command {
                ParkCommand::Answer { id, .. } | ParkCommand::Refuse { id, .. } => {
                    let question = self.questions.get_mut(&id.as_u64().unwrap()).unwrap();
                    question.1 += 1;
                    prop_assert_eq!(question.1, 1, "each question is settled once");
                }
                ParkCommand::CancelUpstream { call, .. } => {
                    prop_assert!(self.cancelled.insert(call.0), "cancelled once");
                    prop_assert!(!self.finished.contains(&call.0), "what is over is not cancelled");
                }
                ParkCommand::Tell { seat, outcome } => {
                    let Some((park, round)) = self.seats.remove(&seat.0) else {
                        return Err(TestCaseError::fail("told twice, or after it left"));
                    };
                    if let SeatOutcome::Input { round, .. } = &outcome {
                        let known = self.parks.iter_mut().find(|known| known.id == park).unwrap();
                        known.round = known.round.max(*round);
                    }
                    if matches!(outcome, SeatOutcome::Refused(_)) {
                        continue;
                    }
                    let first = self.outcomes.entry((park, round)).or_insert_with(|| outcome.clone());
                    let later = matches!(outcome, SeatOutcome::Answer(_)) && matches!(first, SeatOutcome::Input { .. });
                    let fewer = self.withdrawn.contains(&park) && matches!(outcome, SeatOutcome::Input { .. });
                    prop_assert!(*first == outcome || later || fewer, "{first:?} became {outcome:?}");
                }
                ParkCommand::Show { seat, .. } => prop_assert!(self.seats.contains_key(&seat.0)),
                ParkCommand::Hold(_) | ParkCommand::Resume(_) => {}
            }
        }
        prop_assert!(table.len() <= LIMITS.total && table.kept_bytes() <= LIMITS.kept_bytes);
        Ok(())
    }

    fn ask(&mut self, park: ParkId) -> AskedInput {
        self.next += 1;
        self.questions.insert(self.next, (park, 0));
        asked(self.next)
    }
}

proptest! {
    // bridging 36-38
    #[test]
    fn each_question_is_settled_once_and_nothing_runs_twice(steps in proptest::collection::vec(step(), 1..80)) {
        let (mut table, mut world) = (ParkTable::new(LIMITS), World::default());
        let mut now = Instant::now();
        for step in steps {
            let nth = |world: &World, back: usize| world.parks.iter().rev().nth(back).map(|known| known.id);
            match step {
                Step::Open { who, questions } => {
                    let call = world.parks.len() as u64 + 1;
                    let asked: Vec<_> = (0..questions).map(|_| world.ask(ParkId(0))).collect();
                    let ids: Vec<u64> = asked.iter().filter_map(|asked| asked.id.as_u64()).collect();
                    match table.open(new_park(NAMES[who], call, now), asked, now) {
                        Ok((id, outcome, commands)) => {
                            let is_first = matches!(outcome, SeatOutcome::Input { round: 1, .. });
                            prop_assert!(is_first);
                            ids.iter().for_each(|question| world.questions.get_mut(question).unwrap().0 = id);
                            world.parks.push(Known { id, who, call, round: 1 });
                            // Those whose answer was given have made room.
                            let theirs = world.parks.iter().filter(|known| known.who == who && table.has(known.id)).count();
                            prop_assert!(theirs <= LIMITS.per_principal);
                            world.obey(&table, commands)?;
                        }
                        Err(_) => ids.iter().for_each(|question| { world.questions.remove(question); }),
                    }
                }
                Step::Ask(back) => if let Some(id) = nth(&world, back) {
                    let asked = world.ask(id);
                    let commands = table.asked(id, LINK, vec![asked], now);
                    world.obey(&table, commands)?;
                },
                Step::Withdraw(back) => {
                    let Some((&question, &(id, settled))) = world.questions.iter().rev().nth(back) else { continue };
                    table.withdrawn(LINK, &RawId::from(question));
                    world.withdrawn.insert(id);
                    if settled == 0 {
                        world.questions.remove(&question);
                    }
                }
                Step::Retry { park, who, back, keys } => {
                    let Some(known) = world.parks.iter().rev().nth(park) else { continue };
                    let (id, other) = (known.id, who > 0);
                    let name = NAMES[(known.who + who) % NAMES.len()];
                    let round = known.round.saturating_sub(back).max(1);
                    let bring: Vec<String> = (0..8).filter(|bit| keys & (1 << bit) != 0).map(|bit| format!("q{}", bit + 1)).collect();
                    let bring: Vec<&str> = bring.iter().map(String::as_str).collect();
                    world.next += 1;
                    let seat = world.next;
                    world.seats.insert(seat, (id, round));
                    let commands = table.retry(id, name, round, &given(&bring), SeatId(seat), now);
                    if other {
                        let refused = SeatOutcome::Refused(RetryFault::Lost);
                        prop_assert_eq!(&commands, &[ParkCommand::Tell { seat: SeatId(seat), outcome: refused }]);
                    }
                    world.obey(&table, commands)?;
                }
                Step::Leave(nth) => if let Some((seat, (id, _))) = world.seats.iter().nth(nth).map(|(seat, of)| (*seat, *of)) {
                    world.seats.remove(&seat);
                    let commands = table.seat_gone(id, SeatId(seat));
                    world.obey(&table, commands)?;
                },
                Step::Progress(back) => if let Some(id) = nth(&world, back) {
                    let commands = table.message(id, Bytes::from("progress"), true);
                    world.obey(&table, commands)?;
                },
                Step::Finish(back) => if let Some((id, call)) = world.parks.iter().rev().nth(back).map(|known| (known.id, known.call)) {
                    // A call ends once.
                    if world.finished.contains(&call) || !table.has(id) { continue }
                    let end = if call % 2 == 0 { CallEnd::Answered } else { CallEnd::GivenUp };
                    let commands = table.finished(id, answer(&format!("answer of {call}")), end, now);
                    if end == CallEnd::Answered {
                        // What its server still wanted to know is moot.
                        world.questions.retain(|_, (of, settled)| *of != id || *settled > 0);
                    }
                    world.obey(&table, commands)?;
                    world.finished.insert(call);
                },
                Step::Vanish(back) => if let Some(id) = nth(&world, back) {
                    let commands = table.vanished(id);
                    world.obey(&table, commands)?;
                },
                Step::Pass(seconds) => {
                    now += Duration::from_secs(seconds);
                    for id in world.parks.iter().map(|known| known.id).collect::<Vec<_>>() {
                        let commands = table.expire(id, now);
                        prop_assert!(table.due(id).is_none_or(|due| due > now));
                        world.obey(&table, commands)?;
                    }
                }
            }
        }
        // Clients leave, then the time of everything else is over.
        for (seat, (id, _)) in world.seats.clone() {
            world.seats.remove(&seat);
            let commands = table.seat_gone(id, SeatId(seat));
            world.obey(&table, commands)?;
        }
        now += Duration::from_secs(120);
        for known in world.parks.iter().map(|known| known.id).collect::<Vec<_>>() {
            let commands = table.expire(known, now);
            world.obey(&table, commands)?;
            // Its server was told of the cancellation, and whoever follows the call says so.
            let commands = table.vanished(known);
            world.obey(&table, commands)?;
        }
        prop_assert!(table.is_empty() && table.kept_bytes() == 0);
        prop_assert!(world.questions.values().all(|(_, settled)| *settled == 1), "{:?}", world.questions);
        prop_assert!(world.seats.is_empty());
    }
}
