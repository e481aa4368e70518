//! Calls of legacy clients that a modern server answers with questions, against a model: each key is answered once, the state
//! comes back exactly, and every call ends.

use std::time::{Duration, Instant};

use bytes::Bytes;
use proptest::prelude::*;
use tidings_hub::drive::{Drive, DriveFault, DriveLimits, DriveRequest, DriveStep};
use tidings_proto::question::{CANCEL, ELICIT, InputAnswer, ROOTS, SAMPLE, Unable};

const HOUR: Duration = Duration::from_secs(3_600);
const LACKING: Unable = Unable { capability: "sampling" };

fn request(key: &str, method: &str, able: bool) -> DriveRequest {
    DriveRequest { key: key.into(), method: method.into(), can: if able { Ok(()) } else { Err(LACKING) } }
}

/// What a client does with a question.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reaction {
    Answer,
    Cancel,
    Refuse,
}

#[derive(Clone, Debug)]
struct Question {
    key: u8,
    method: &'static str,
    able: bool,
    reaction: Reaction,
    turn: u16,
}

fn question() -> impl Strategy<Value = Question> {
    let method = prop_oneof![4 => Just(ELICIT), 1 => Just(SAMPLE), 1 => Just(ROOTS)];
    let reaction = prop_oneof![8 => Just(Reaction::Answer), 2 => Just(Reaction::Cancel), 1 => Just(Reaction::Refuse)];
    (0_u8..12, method, prop::bool::weighted(0.9), reaction, any::<u16>())
        .prop_map(|(key, method, able, reaction, turn)| Question { key, method, able, reaction, turn })
}

fn rounds() -> impl Strategy<Value = Vec<(Vec<Question>, Option<String>)>> {
    prop::collection::vec((prop::collection::vec(question(), 0..8), prop::option::of("[a-z\"]{0,5}")), 1..24)
}

fn ask(drive: &mut Drive, requests: Vec<DriveRequest>, state: Option<&str>, next: &mut u64, now: Instant) -> DriveStep {
    let mut mint = || {
        *next += 1;
        *next
    };
    drive.input_required(requests, state.map(Into::into), &mut mint, now)
}

proptest! {
    // bridging B6
    #[test]
    fn every_key_is_answered_once_and_the_state_comes_back(rounds in rounds()) {
        let limits = DriveLimits { rounds: 12, pauses: 3, questions: 64 };
        let began = Instant::now();
        let mut drive = Drive::new(limits, began + HOUR);
        let (mut next, mut asking, mut pauses) = (0, 0, 0);
        for (questions, state) in rounds {
            let requests: Vec<_> =
                questions.iter().map(|asked| request(&asked.key.to_string(), asked.method, asked.able)).collect();
            let mut expected: Vec<(Box<str>, Bytes)> = Vec::new();
            let mut step = ask(&mut drive, requests, state.as_deref(), &mut next, began);
            (asking, pauses) = if questions.is_empty() { (asking, pauses + 1) } else { (asking + 1, 0) };
            let hopeless = questions.iter().any(|asked| !asked.able && asked.method != ELICIT);
            // Nobody is asked in vain.
            if asking > 12 || pauses > 3 || hopeless || (questions.is_empty() && state.is_none()) {
                prop_assert!(matches!(step, DriveStep::End(_)), "{:?}", step);
                prop_assert_eq!(drive.open().count(), 0);
                return Ok(());
            }
            let mut firsts: Vec<&Question> = Vec::new();
            for asked in &questions {
                if !firsts.iter().any(|first| first.key == asked.key) {
                    firsts.push(asked);
                }
            }
            let mut put: Vec<(u64, &Question)> = Vec::new();
            if let DriveStep::Ask(asked) = &step {
                put = asked.iter().map(|(shown, index)| (*shown, &questions[*index])).collect();
                let able = firsts.iter().filter(|asked| asked.able).map(|asked| asked.key).collect::<Vec<_>>();
                prop_assert_eq!(put.iter().map(|(_, asked)| asked.key).collect::<Vec<_>>(), able, "all of them, at once");
            }
            // Answers come in any order, and one that nobody asked for changes nothing.
            put.sort_by_key(|(_, asked)| asked.turn);
            for (shown, asked) in put {
                prop_assert_eq!(drive.answered(9_999, InputAnswer::Cancelled), DriveStep::Wait);
                let answer = match asked.reaction {
                    Reaction::Answer => InputAnswer::Result(format!("{{\"n\":{shown}}}").into()),
                    Reaction::Cancel => InputAnswer::Cancelled,
                    Reaction::Refuse if asked.method == ELICIT => InputAnswer::Cancelled,
                    Reaction::Refuse => InputAnswer::Fatal("no".into()),
                };
                if let InputAnswer::Result(given) = &answer {
                    expected.push((asked.key.to_string().into(), given.clone()));
                }
                step = drive.answered(shown, answer.clone());
                if let InputAnswer::Fatal(reason) = answer {
                    let fault = DriveFault::Refused { method: asked.method.into(), reason };
                    prop_assert_eq!(step, DriveStep::End(fault));
                    return Ok(());
                }
            }
            let DriveStep::Retry { after, responses, state: returned } = step else { panic!("{step:?}") };
            prop_assert_eq!(returned.as_deref(), state.as_deref(), "exactly");
            prop_assert_eq!(after > Duration::ZERO, questions.is_empty());
            prop_assert!(after <= Duration::from_secs(5));
            let keys: Vec<String> = responses.iter().map(|(key, _)| key.to_string()).collect();
            prop_assert_eq!(keys, firsts.iter().map(|first| first.key.to_string()).collect::<Vec<_>>());
            for (key, response) in &responses {
                let given = expected.iter().find(|(of, _)| of == key).map_or(CANCEL, |(_, given)| given);
                prop_assert_eq!(&response[..], given);
            }
        }
    }
}

#[test]
fn pauses_grow_and_end() {
    let now = Instant::now();
    let mut drive = Drive::new(DriveLimits::default(), now + HOUR);
    let mut pauses = Vec::new();
    let end = loop {
        match ask(&mut drive, Vec::new(), Some("s"), &mut 0, now) {
            DriveStep::Retry { after, responses, state } => {
                assert_eq!((responses.len(), state.as_deref()), (0, Some("s")));
                pauses.push(after.as_millis());
            }
            other => break other,
        }
    };
    assert_eq!(end, DriveStep::End(DriveFault::TooManyRounds));
    assert_eq!(pauses[..7], [100, 200, 400, 800, 1_600, 3_200, 5_000]);
    assert_eq!(pauses.len(), 64);
}

#[test]
fn there_is_a_last_moment() {
    let now = Instant::now();
    let mut drive = Drive::new(DriveLimits::default(), now + Duration::from_millis(250));
    assert!(matches!(ask(&mut drive, Vec::new(), Some("s"), &mut 0, now), DriveStep::Retry { .. }));
    assert_eq!(
        ask(&mut drive, Vec::new(), Some("s"), &mut 0, now + Duration::from_millis(100)),
        DriveStep::End(DriveFault::Deadline)
    );
    let late = now + HOUR;
    assert_eq!(
        ask(&mut drive, vec![request("k", ELICIT, true)], None, &mut 0, late),
        DriveStep::End(DriveFault::Deadline)
    );
}

#[test]
fn too_many_questions_are_not_put() {
    let now = Instant::now();
    let mut drive = Drive::new(DriveLimits::default(), now + HOUR);
    let many = (0..65).map(|key| request(&key.to_string(), ROOTS, true)).collect();
    assert_eq!(ask(&mut drive, many, None, &mut 0, now), DriveStep::End(DriveFault::TooManyQuestions));
}
