//! Tasks that are known: a status that is terminal is never left, cancelled stays cancelled, and bounds hold whatever happens.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use proptest::prelude::*;
use tidings_hub::calls::CallId;
use tidings_hub::tasks::{TaskHome, TaskKey, TaskLimits, TaskOwner, TaskTable};
use tidings_hub::{ClientKey, ServerId};
use tidings_proto::task::{TaskFacts, TaskSpelling, TaskStatus};
use tidings_wire::RawId;

const LIMITS: TaskLimits =
    TaskLimits { per_principal: 4, total: 10, kept_bytes: 100, longest: Duration::from_secs(100) };

fn facts(status: TaskStatus, ttl: Option<u64>) -> TaskFacts {
    let (id, created): (Box<str>, Box<str>) = ("t".into(), "c".into());
    TaskFacts { id, status, message: None, updated: created.clone(), created, ttl, poll: None }
}

fn owner(principal: &str, call: u64) -> TaskOwner {
    let (principal, home) = (principal.into(), TaskHome::Server(TaskSpelling::Core));
    TaskOwner { principal, client: ClientKey(1), call: CallId(call), token: Some(RawId::from(call)), home }
}

fn key(id: &str) -> TaskKey {
    TaskKey::new(ServerId(1), id)
}

/// The ids of a principal's tasks.
fn listed(table: &mut TaskTable, principal: &str, now: Instant) -> Vec<String> {
    table.list(principal, None, 100, now).tasks.into_iter().map(|task| task.key.id.to_string()).collect()
}

// bridging B7
#[test]
fn a_cancelled_task_stays_cancelled_whatever_its_server_says() {
    let now = Instant::now();
    let mut table = TaskTable::new(LIMITS);
    table.created(key("a"), owner("p", 1), facts(TaskStatus::Working, None), now);
    assert_eq!(table.cancelled(&key("a"), now).unwrap().status, TaskStatus::Cancelled);
    assert!(table.is_latched(&key("a")));
    for said in TaskStatus::ALL {
        let observed = table.observed(&key("a"), facts(said, None), now).unwrap();
        assert_eq!(observed.facts.status, TaskStatus::Cancelled);
        assert_eq!((observed.changed, observed.overruled), (false, said != TaskStatus::Cancelled));
    }
    table.created(key("b"), owner("p", 2), facts(TaskStatus::Completed, None), now);
    assert_eq!(table.cancelled(&key("b"), now).unwrap().status, TaskStatus::Completed, "it was over before");
    assert!(!table.is_latched(&key("b")));
    assert_eq!(table.cancelled(&key("none"), now), None);
}

#[test]
fn a_task_is_known_until_its_time_is_over_and_never_longer_than_the_bound() {
    let now = Instant::now();
    let mut table = TaskTable::new(LIMITS);
    for (id, ttl) in [("short", Some(5_000)), ("endless", None), ("long", Some(u64::MAX / 2))] {
        table.created(key(id), owner("p", 1), facts(TaskStatus::Working, ttl), now);
    }
    let at = |seconds| now + Duration::from_secs(seconds);
    assert!(table.keep(&key("short"), Bytes::from_static(b"0123456789"), now));
    assert_eq!(listed(&mut table, "p", at(4)), ["short", "endless", "long"]);
    assert_eq!(table.kept(&key("short"), at(5)), None, "also before anybody looks");
    assert_eq!(listed(&mut table, "p", at(5)), ["endless", "long"]);
    assert_eq!(table.kept_bytes(), 0);
    assert_eq!(listed(&mut table, "p", at(99)), ["endless", "long"]);
    assert!(listed(&mut table, "p", at(100)).is_empty());
    assert!(table.is_empty());
}

#[test]
fn room_is_made_by_what_is_over_then_by_what_is_oldest_and_at_nobody_elses_cost() {
    let now = Instant::now();
    let mut table = TaskTable::new(LIMITS);
    table.created(key("theirs"), owner("q", 9), facts(TaskStatus::Completed, None), now);
    for (id, status) in [
        ("a", TaskStatus::Working),
        ("b", TaskStatus::Completed),
        ("c", TaskStatus::Working),
        ("d", TaskStatus::Working),
        ("e", TaskStatus::Working),
    ] {
        table.created(key(id), owner("p", 1), facts(status, None), now);
    }
    assert_eq!(listed(&mut table, "p", now), ["a", "c", "d", "e"]);
    table.created(key("f"), owner("p", 1), facts(TaskStatus::Working, None), now);
    assert_eq!(listed(&mut table, "p", now), ["c", "d", "e", "f"]);
    assert_eq!(listed(&mut table, "q", now), ["theirs"]);
    // An outcome that only the gateway may have goes after those that their servers have too.
    for id in ["f", "e"] {
        table.observed(&key(id), facts(TaskStatus::Completed, None), now);
    }
    assert!(table.keep(&key("e"), Bytes::from_static(b"kept"), now));
    table.created(key("g"), owner("p", 1), facts(TaskStatus::Working, None), now);
    assert_eq!(listed(&mut table, "p", now), ["c", "d", "e", "g"]);
}

#[test]
fn outcomes_are_kept_once_and_within_the_bytes() {
    let now = Instant::now();
    let mut table = TaskTable::new(LIMITS);
    for id in ["a", "b"] {
        table.created(key(id), owner("p", 1), facts(TaskStatus::Completed, None), now);
    }
    let sixty = Bytes::from(vec![b'x'; 60]);
    assert!(table.keep(&key("a"), sixty.clone(), now));
    assert!(!table.keep(&key("a"), Bytes::new(), now), "an outcome is never replaced");
    assert!(!table.keep(&key("b"), sixty.clone(), now));
    assert!(!table.keep(&key("none"), Bytes::new(), now));
    assert_eq!(table.kept(&key("a"), now), Some(&sixty));
    table.server_gone(ServerId(1));
    assert_eq!((table.kept_bytes(), table.len()), (0, 0));
}

#[test]
fn pages_follow_each_other_and_progress_ends_with_the_task() {
    let now = Instant::now();
    let mut table = TaskTable::new(LIMITS);
    for (call, id) in ["a", "b", "c"].into_iter().enumerate() {
        table.created(key(id), owner("p", call as u64), facts(TaskStatus::Working, None), now);
    }
    let first = table.list("p", None, 2, now);
    assert_eq!(first.tasks.len(), 2);
    let second = table.list("p", first.next, 2, now);
    assert_eq!((second.tasks[0].key.clone(), second.next), (key("c"), None));
    assert_eq!(table.list("p", None, 3, now).next, None, "a last page that is full is the last");
    assert_eq!(table.list("nobody", None, 3, now).tasks, []);
    assert_eq!(table.progress_of(CallId(1)).unwrap().0, &key("b"));
    table.observed(&key("b"), facts(TaskStatus::Failed, None), now);
    assert_eq!(table.progress_of(CallId(1)), None);
    table.awaited(&key("c"), CallId(7));
    assert_eq!(table.awaited_by(&key("c")), Some(CallId(7)));
}

#[derive(Clone, Debug)]
enum Happening {
    Created { id: u8, principal: u8, ttl: Option<u64> },
    Observed { id: u8, status: usize },
    Cancelled { id: u8 },
    Kept { id: u8, len: usize },
    Passed { seconds: u64 },
    ServerGone { server: u8 },
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let id = 0..12u8;
    let one = prop_oneof![
        4 => (id.clone(), 0..4u8, proptest::option::of(0..200_000u64))
            .prop_map(|(id, principal, ttl)| Happening::Created { id, principal, ttl }),
        6 => (id.clone(), 0..5usize).prop_map(|(id, status)| Happening::Observed { id, status }),
        2 => id.clone().prop_map(|id| Happening::Cancelled { id }),
        2 => (id, 0..80usize).prop_map(|(id, len)| Happening::Kept { id, len }),
        2 => (0..60u64).prop_map(|seconds| Happening::Passed { seconds }),
        1 => (0..2u8).prop_map(|server| Happening::ServerGone { server }),
    ];
    proptest::collection::vec(one, 0..80)
}

proptest! {
    /// Whatever happens in whatever order: bounds hold, what clients were told last is never taken back, and nobody sees the tasks
    /// of others.
    #[test]
    fn what_was_told_is_never_taken_back_and_bounds_hold(happenings in happenings()) {
        let mut now = Instant::now();
        let mut table = TaskTable::new(LIMITS);
        // The terminal status that was told of a task, and whose it is.
        let mut told: HashMap<u8, TaskStatus> = HashMap::new();
        let mut whose: HashMap<u8, (Arc<str>, Instant)> = HashMap::new();
        let of = |id: u8| TaskKey::new(ServerId(u32::from(id % 2)), &id.to_string());
        for (call, happening) in happenings.into_iter().enumerate() {
            match happening {
                Happening::Created { id, principal, ttl } => {
                    let owner = owner(&principal.to_string(), call as u64);
                    let until = now + ttl.map_or(LIMITS.longest, Duration::from_millis).min(LIMITS.longest);
                    whose.insert(id, (Arc::clone(&owner.principal), until));
                    told.remove(&id);
                    table.created(of(id), owner, facts(TaskStatus::Working, ttl), now);
                }
                Happening::Observed { id, status } => {
                    let said = TaskStatus::ALL[status];
                    if let Some(observed) = table.observed(&of(id), facts(said, None), now) {
                        let is = observed.facts.status;
                        prop_assert_eq!(is, told.get(&id).copied().unwrap_or(said));
                        if is.is_terminal() {
                            told.insert(id, is);
                        }
                    }
                }
                Happening::Cancelled { id } => {
                    if let Some(facts) = table.cancelled(&of(id), now) {
                        let before = told.entry(id).or_insert(TaskStatus::Cancelled);
                        prop_assert_eq!(facts.status, *before);
                    }
                }
                Happening::Kept { id, len } => {
                    table.keep(&of(id), vec![0; len].into(), now);
                }
                Happening::Passed { seconds } => now += Duration::from_secs(seconds),
                Happening::ServerGone { server } => table.server_gone(ServerId(u32::from(server))),
            }
            prop_assert!(table.len() <= LIMITS.total && table.kept_bytes() <= LIMITS.kept_bytes);
            for principal in 0..4u8 {
                let page = table.list(&principal.to_string(), None, 100, now);
                prop_assert!(page.tasks.len() <= LIMITS.per_principal);
                for task in page.tasks {
                    let (owner, until) = &whose[&task.key.id.parse::<u8>().unwrap()];
                    prop_assert_eq!(&**owner, &*principal.to_string());
                    prop_assert!(now < *until);
                }
            }
        }
        table.server_gone(ServerId(0));
        table.server_gone(ServerId(1));
        prop_assert!(table.is_empty() && table.kept_bytes() == 0);
    }
}
