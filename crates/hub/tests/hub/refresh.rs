//! When lists are looked at again, against a world that changes.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use tidings_hub::refresh::{BegunLook, ListRefresh, ListWait, RefreshPace, RefreshReason, RefreshStep};
use tidings_proto::ListKind;

const PACE: RefreshPace = RefreshPace { quiet: Duration::from_millis(250), max_wait: Duration::from_secs(1) };
const TOOLS: &[ListKind] = &[ListKind::Tools];

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Looks once, in no time.
fn look(refresh: &mut ListRefresh, now: Instant) -> BegunLook {
    assert_eq!(refresh.next(now), RefreshStep::Look);
    let look = refresh.begin(0, now);
    refresh.looked();
    look
}

// edges C6; S3.2
#[test]
fn whoever_asks_inside_the_window_makes_the_look_happen_now_and_its_notices_wait_for_the_end() {
    let (mut refresh, now) = (ListRefresh::new(PACE), Instant::now());
    assert!(refresh.signal(TOOLS, now));
    assert_eq!(refresh.next(now), RefreshStep::Sleep(Some(now + PACE.quiet)), "nobody asks: signals are gathered");
    assert_eq!(refresh.ask(ListKind::Prompts, None, now), None, "of this list nothing was said");
    let wait = refresh.ask(ListKind::Tools, None, now + ms(10));
    assert_eq!(wait, Some(ListWait { look: 1, until: now + ms(1_010) }));
    assert!(look(&mut refresh, now + ms(10)).held);
    assert_eq!(refresh.ask(ListKind::Tools, None, now + ms(20)), None, "it is current");
    assert_eq!(refresh.next(now + ms(20)), RefreshStep::Sleep(Some(now + PACE.quiet)));
    assert_eq!(refresh.next(now + PACE.quiet), RefreshStep::Release);
    refresh.released();
    assert_eq!(refresh.next(now + PACE.quiet), RefreshStep::Sleep(None));
}

// edges C6; S3.2
#[test]
fn signals_without_end_are_announced_once_per_longest_wait_however_often_somebody_asks() {
    let (mut refresh, begun) = (ListRefresh::new(PACE), Instant::now());
    let (mut notices, mut looks) = (0, 0);
    for step in 0..1_000 {
        let now = begun + ms(10 * step);
        refresh.signal(TOOLS, now);
        assert!(refresh.ask(ListKind::Tools, None, now).is_some());
        looks += 1;
        notices += u64::from(!look(&mut refresh, now).held);
        if refresh.next(now) == RefreshStep::Release {
            refresh.released();
            notices += 1;
        }
    }
    assert_eq!(looks, 1_000);
    assert!((9..=10).contains(&notices), "{notices} in ten seconds");
}

// edges C6
#[test]
fn a_look_that_is_under_way_is_waited_for_and_a_signal_during_it_needs_another() {
    let (mut refresh, now) = (ListRefresh::new(PACE), Instant::now());
    refresh.signal(TOOLS, now);
    assert_eq!(refresh.next(now + PACE.quiet), RefreshStep::Look);
    assert!(!refresh.begin(0, now + PACE.quiet).held);
    assert_eq!(refresh.ask(ListKind::Tools, None, now + ms(300)).map(|wait| wait.look), Some(1));
    refresh.signal(TOOLS, now + ms(310));
    assert_eq!(refresh.ask(ListKind::Tools, None, now + ms(320)).map(|wait| wait.look), Some(2));
    refresh.looked();
    assert_eq!(look(&mut refresh, now + ms(330)).number, 2, "at once, because somebody waits");
}

// edges C6
#[test]
fn an_answered_call_makes_a_list_uncertain_once_and_a_server_that_hangs_is_waited_for_once() {
    let (mut refresh, now) = (ListRefresh::new(PACE), Instant::now());
    assert_eq!(refresh.ask(ListKind::Tools, Some(0), now), None);
    assert_eq!(refresh.ask(ListKind::Tools, Some(1), now).map(|wait| wait.look), Some(1));
    assert_eq!(refresh.next(now), RefreshStep::Look);
    let look = refresh.begin(1, now);
    assert_eq!(
        (look.held, look.marks.get(ListKind::Tools).map(|mark| mark.reason)),
        (false, Some(RefreshReason::Call))
    );
    let during = refresh.ask(ListKind::Tools, Some(1), now + ms(1)).map(|wait| wait.look);
    assert_eq!(during, Some(1), "the same look");
    let later = refresh.ask(ListKind::Tools, Some(7), now + ms(5_000));
    assert_eq!(later, Some(ListWait { look: 2, until: now + PACE.max_wait }), "it was waited for long enough");
    refresh.looked();
    assert_eq!(refresh.begin(7, now + ms(6_000)).number, 2);
    refresh.looked();
    assert_eq!(refresh.ask(ListKind::Tools, Some(7), now + ms(6_001)), None);
}

// edges G12
#[test]
fn unknown_names_make_a_server_be_looked_at_at_once_and_no_more_than_once_a_second() {
    let (mut refresh, now) = (ListRefresh::new(PACE), Instant::now());
    assert_eq!(refresh.missed(ListKind::Tools, now).map(|wait| wait.look), Some(1));
    assert_eq!(refresh.next(now), RefreshStep::Look, "at once");
    refresh.begin(0, now);
    assert_eq!(refresh.missed(ListKind::Tools, now + ms(1)).map(|wait| wait.look), Some(1), "the same look");
    refresh.looked();
    for later in [2, 500, 999] {
        assert_eq!(refresh.missed(ListKind::Tools, now + ms(later)), None);
    }
    assert_eq!(refresh.missed(ListKind::Tools, now + ms(1_000)).map(|wait| wait.look), Some(2));
}

#[derive(Clone, Debug)]
enum Step {
    /// The list of a kind changes, and the server says so.
    Change(usize),
    /// Only time passes.
    Pass(u64),
    /// Somebody asks for a list.
    Ask(usize),
    /// Whatever is to be done is begun.
    Drive,
    /// The look that is under way ends.
    Finish,
    /// A call is answered that changed a list without a word.
    Silent(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..4_usize).prop_map(Step::Change),
        3 => (1..400_u64).prop_map(Step::Pass),
        3 => (0..4_usize).prop_map(Step::Ask),
        4 => Just(Step::Drive),
        3 => Just(Step::Finish),
        1 => (0..4_usize).prop_map(Step::Silent),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_048))]

    // edges C6
    #[test]
    fn a_list_is_never_older_than_a_signal_that_came_before_it_was_asked_for(
        steps in proptest::collection::vec(step(), 1..80)
    ) {
        let (mut refresh, mut now) = (ListRefresh::new(PACE), Instant::now());
        // What the server has, and what can be read.
        let (mut world, mut known, mut answered) = ([0_u64; 4], [0_u64; 4], 0_u64);
        // The look under way, with what it will find: the server answers as it is when it is asked.
        let mut under_way: Option<(BegunLook, [u64; 4])> = None;
        // Who waits: for which list, for which look, and what must be readable then.
        let mut waiting: Vec<(usize, u64, u64)> = Vec::new();
        let mut last_done = 0;
        for step in steps {
            match step {
                Step::Change(kind) => {
                    world[kind] += 1;
                    refresh.signal(&[ListKind::ALL[kind]], now);
                }
                Step::Silent(kind) => {
                    world[kind] += 1;
                    answered += 1;
                }
                Step::Pass(millis) => now += ms(millis),
                Step::Ask(kind) => match refresh.ask(ListKind::ALL[kind], Some(answered), now) {
                    None => prop_assert_eq!(known[kind], world[kind], "answered at once, so it must be current"),
                    Some(wait) => {
                        prop_assert!(wait.look > last_done && wait.until <= now + PACE.max_wait);
                        waiting.push((kind, wait.look, world[kind]));
                        if under_way.is_none() {
                            prop_assert_eq!(refresh.next(now), RefreshStep::Look, "now, not after the window");
                        }
                    }
                },
                Step::Drive if under_way.is_none() => match refresh.next(now) {
                    RefreshStep::Look => under_way = Some((refresh.begin(answered, now), world)),
                    RefreshStep::Release => refresh.released(),
                    RefreshStep::Sleep(until) => prop_assert!(until.is_none_or(|until| until > now)),
                },
                Step::Drive => {}
                Step::Finish => if let Some((look, found)) = under_way.take() {
                    for (kind, _) in look.marks.iter() {
                        known[kind as usize] = found[kind as usize];
                    }
                    refresh.looked();
                    last_done = look.number;
                    for (kind, _, needed) in waiting.extract_if(.., |(_, number, _)| *number <= last_done) {
                        prop_assert!(known[kind] >= needed, "kind {kind}: {} is older than {needed}", known[kind]);
                    }
                },
            }
        }
    }
}
