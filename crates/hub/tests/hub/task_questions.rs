//! Questions inside tasks: each is replied to at most once, none is forgotten, keys are never used twice, and bounds hold.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use proptest::prelude::*;
use tidings_hub::parks::AskedInput;
use tidings_hub::task_questions::{TaskQuestionLimits, TaskQuestions, TooManyDesks};
use tidings_hub::tasks::TaskKey;
use tidings_hub::{LinkKey, ServerId};
use tidings_wire::RawId;

const LIMITS: TaskQuestionLimits = TaskQuestionLimits { per_principal: 2, total: 3, questions: 3, bytes: 100 };
const LINK: LinkKey = LinkKey(7);

fn key(id: &str) -> TaskKey {
    TaskKey::new(ServerId(1), id)
}

fn principal(name: &str) -> Arc<str> {
    name.into()
}

fn asked(id: u64, len: usize) -> AskedInput {
    AskedInput { id: RawId::from(id), method: "elicitation/create".into(), request: vec![b'x'; len].into() }
}

// bridging B7, declaring client and server of 2025-11-25
#[test]
fn a_question_waits_for_its_answer_and_is_answered_once() {
    let now = Instant::now();
    let mut all = TaskQuestions::new(LIMITS);
    assert!(all.asked(&key("a"), LINK, asked(1, 1)).is_some_and(|reply| reply.answer.is_none()), "nobody waits");
    assert_eq!(all.open(&key("a"), &principal("p"), now), Ok(true));
    assert_eq!(all.open(&key("a"), &principal("p"), now), Ok(false));
    assert_eq!(all.asked(&key("a"), LINK, asked(1, 10)), None);
    assert_eq!(all.asked(&key("a"), LINK, asked(2, 10)), None);
    let shown = all.shown(&key("a"), now);
    let keys: Vec<&str> = shown.iter().map(|(key, _)| &**key).collect();
    assert_eq!(keys, ["q1", "q2"]);
    let given = |key: &str| (Box::from(key), Bytes::from_static(b"{}"));
    // The first of two answers to one question counts, and keys that were never shown are passed over.
    let replies = all.answered(&key("a"), &[given("q1"), given("q1"), given("q01"), given("q9"), given("x")], now);
    assert_eq!(replies.len(), 1);
    assert_eq!((&replies[0].id, replies[0].link), (&RawId::from(1), LINK));
    assert!(replies[0].answer.is_some());
    assert_eq!(all.shown(&key("a"), now).len(), 1, "the other one still waits");
    assert!(!all.withdrawn(LINK, &RawId::from(1)));
    assert!(!all.withdrawn(LinkKey(8), &RawId::from(2)), "another link's");
    assert!(all.withdrawn(LINK, &RawId::from(2)));
    assert!(!all.is_asking(&key("a")) && all.bytes() == 0);
    assert_eq!(all.asked(&key("a"), LINK, asked(3, 10)), None);
    let refused = all.close(&key("a"));
    assert_eq!((refused.len(), &refused[0].id, &refused[0].answer), (1, &RawId::from(3), &None));
    assert!(all.is_empty() && all.close(&key("a")).is_empty());
}

#[test]
fn one_principal_can_not_take_the_room_of_others() {
    let now = Instant::now();
    let mut all = TaskQuestions::new(LIMITS);
    for id in ["a", "b"] {
        assert_eq!(all.open(&key(id), &principal("p"), now), Ok(true));
    }
    assert_eq!(all.open(&key("c"), &principal("p"), now), Err(TooManyDesks { limit: 2 }));
    assert_eq!(all.open(&key("d"), &principal("q"), now), Ok(true));
    assert_eq!(all.open(&key("e"), &principal("r"), now), Err(TooManyDesks { limit: 2 }));
    assert_eq!(all.asked(&key("a"), LINK, asked(1, 30)), None);
    assert!(all.asked(&key("b"), LINK, asked(2, 30)).is_some(), "half of the bytes are for the others");
    assert_eq!(all.asked(&key("d"), LINK, asked(3, 50)), None);
}

#[derive(Clone, Debug)]
enum Happening {
    Opened { task: u8 },
    Asked { task: u8, len: usize },
    Answered { task: u8, nth: usize },
    Withdrawn { nth: usize },
    Closed { task: u8 },
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let task = 0..4u8;
    let one = prop_oneof![
        2 => task.clone().prop_map(|task| Happening::Opened { task }),
        5 => (task.clone(), 0..60usize).prop_map(|(task, len)| Happening::Asked { task, len }),
        4 => (task.clone(), 0..4usize).prop_map(|(task, nth)| Happening::Answered { task, nth }),
        1 => (0..8usize).prop_map(|nth| Happening::Withdrawn { nth }),
        1 => task.prop_map(|task| Happening::Closed { task }),
    ];
    proptest::collection::vec(one, 0..80)
}

proptest! {
    /// Whatever happens: a question is open, or was replied to once, or was taken back.
    #[test]
    fn every_question_is_replied_to_once_or_waits(happenings in happenings()) {
        let now = Instant::now();
        let of = |task: u8| key(&task.to_string());
        let whose = |task: u8| principal(&(task % 2).to_string());
        let mut all = TaskQuestions::new(LIMITS);
        let (mut open, mut done): (HashMap<RawId, u8>, HashSet<RawId>) = Default::default();
        let mut keys: HashMap<Box<str>, (u8, Bytes)> = HashMap::new();
        for (nth, happening) in happenings.into_iter().enumerate() {
            let mut replied = Vec::new();
            match happening {
                Happening::Opened { task } => _ = all.open(&of(task), &whose(task), now),
                Happening::Asked { task, len } => {
                    let question = asked(nth as u64, len);
                    open.insert(question.id.clone(), task);
                    replied.extend(all.asked(&of(task), LINK, question));
                }
                Happening::Answered { task, nth } => {
                    let shown = all.shown(&of(task), now + Duration::from_secs(1));
                    if let Some((key, _)) = shown.get(nth) {
                        replied = all.answered(&of(task), &[(key.clone(), Bytes::from_static(b"{}"))], now);
                        prop_assert!(replied.len() == 1 && replied[0].answer.is_some());
                    }
                }
                Happening::Withdrawn { nth } => {
                    if let Some(id) = open.keys().nth(nth).cloned() {
                        prop_assert!(all.withdrawn(LINK, &id));
                        open.remove(&id);
                        done.insert(id);
                    }
                }
                Happening::Closed { task } => {
                    replied = all.close(&of(task));
                    prop_assert!(replied.iter().all(|reply| reply.answer.is_none()));
                    prop_assert!(all.shown(&of(task), now).is_empty());
                }
            }
            for reply in replied {
                prop_assert!(open.remove(&reply.id).is_some(), "replied to twice, or never asked");
                prop_assert!(done.insert(reply.id));
            }
            let shown: Vec<(u8, Box<str>, Bytes)> = (0..4u8)
                .flat_map(|task| all.shown(&of(task), now).into_iter().map(move |(key, request)| (task, key, request)))
                .collect();
            prop_assert_eq!(shown.len(), open.len(), "nothing is forgotten");
            prop_assert_eq!(shown.iter().map(|(.., request)| request.len()).sum::<usize>(), all.bytes());
            prop_assert!(all.bytes() <= LIMITS.bytes && all.len() <= LIMITS.total);
            for (task, key, request) in shown {
                let before = keys.entry(key).or_insert((task, request.clone()));
                prop_assert_eq!(&*before, &(task, request), "a key means one question for ever");
            }
        }
        for task in 0..4u8 {
            all.close(&of(task));
        }
        prop_assert!(all.is_empty() && all.bytes() == 0);
    }
}
