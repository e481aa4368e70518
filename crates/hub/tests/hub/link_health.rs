//! The policy as stories, and as properties of any order of events.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use tidings_hub::link_health::*;

/// The machine beside what an owner of links knows, and what must hold after every event.
struct Bench {
    machine: LinkHealth,
    now: Instant,
    /// Whether there is a link, and whether it was told to end.
    link: Link,
    shown: LinkState,
    checking: bool,
    check_failed: bool,
    failed_calls: u32,
    failed_checks: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    None,
    Connecting,
    Up,
    Ending,
}

impl Bench {
    fn new(pace: ReconnectPace) -> Self {
        Self {
            machine: LinkHealth::new(pace),
            now: Instant::now(),
            link: Link::None,
            shown: LinkState::Connecting,
            checking: false,
            check_failed: false,
            failed_calls: 0,
            failed_checks: 0,
        }
    }

    fn connected(pace: ReconnectPace) -> Self {
        let mut bench = Self::new(pace);
        bench.on(LinkEvent::Connecting);
        bench.on(LinkEvent::Connected);
        assert!(bench.machine.listed());
        bench.shown = LinkState::Ready;
        bench
    }

    fn wait(&mut self, time: Duration) -> &mut Self {
        self.now += time;
        self
    }

    fn on(&mut self, event: LinkEvent) -> Vec<LinkCommand> {
        match event {
            LinkEvent::Connecting => self.link = Link::Connecting,
            LinkEvent::Connected => self.link = Link::Up,
            LinkEvent::ConnectFailed | LinkEvent::Ended | LinkEvent::RestartAsked => {
                self.link = Link::None;
                (self.checking, self.check_failed) = (false, false);
            }
            LinkEvent::CheckAnswered => (self.checking, self.check_failed) = (false, false),
            LinkEvent::CheckFailed(_) => {
                (self.checking, self.check_failed) = (false, true);
                self.failed_checks += 1;
            }
            LinkEvent::Failed(_) => self.failed_calls += 1,
            _ => {}
        }
        let commands = self.machine.on(event, self.now);
        for command in &commands {
            match command {
                LinkCommand::Check => {
                    assert_eq!(self.link, Link::Up, "a check needs a link");
                    assert!(!self.checking, "one check at a time");
                    self.checking = true;
                }
                LinkCommand::End(_) => {
                    assert_eq!(self.link, Link::Up, "a link ends once");
                    assert!(self.failed_checks > 0, "never without a check that failed");
                    self.link = Link::Ending;
                }
                LinkCommand::Connect => assert_eq!(self.link, Link::None),
                LinkCommand::Show(state) => self.shown = *state,
                LinkCommand::ForgetEra | LinkCommand::Look => {}
            }
        }
        if self.check_failed {
            assert_ne!(self.shown, LinkState::Ready, "never ready while checks fail");
        }
        commands
    }

    /// Whether an event can come now.
    fn can(&self, event: LinkEvent) -> bool {
        match event {
            LinkEvent::Connecting => self.link == Link::None,
            LinkEvent::Connected | LinkEvent::ConnectFailed => self.link == Link::Connecting,
            LinkEvent::Ended => matches!(self.link, Link::Up | Link::Ending),
            LinkEvent::CheckAnswered | LinkEvent::CheckFailed(_) => self.checking && self.link == Link::Up,
            LinkEvent::RestartAsked => self.link != Link::Connecting,
            _ => true,
        }
    }
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const BROKEN: LinkEvent = LinkEvent::Failed(RequestTrouble::Broken);

// edges A3
#[test]
fn a_failed_call_is_checked_and_costs_the_link_nothing() {
    let mut bench = Bench::connected(ReconnectPace::REMOTE);
    for _ in 0..50 {
        assert_eq!(bench.wait(ms(2_000)).on(BROKEN), [LinkCommand::Check]);
        assert_eq!(bench.machine.verdict(), FailureVerdict::Checking);
        assert_eq!(bench.on(BROKEN), [], "one check is for all that fail meanwhile");
        assert_eq!(bench.on(LinkEvent::CheckAnswered), [LinkCommand::Look]);
        assert_eq!((bench.machine.verdict(), bench.shown), (FailureVerdict::Trusted, LinkState::Ready));
    }
}

// edges A1
#[test]
fn a_refusal_that_a_check_meets_too_ends_the_link_once_and_the_next_one_is_made_at_once() {
    for (trouble, forgets) in [(RequestTrouble::SessionRefused, false), (RequestTrouble::WrongEra, true)] {
        let mut bench = Bench::connected(ReconnectPace::REMOTE);
        bench.on(LinkEvent::Exchanged);
        bench.wait(ms(5_000)).on(LinkEvent::Failed(trouble));
        let commands = bench.on(LinkEvent::CheckFailed(trouble));
        assert!(commands.ends_with(&[LinkCommand::End(EndReason::Refused)]), "{commands:?}");
        assert_eq!(commands.contains(&LinkCommand::ForgetEra), forgets);
        assert_eq!(bench.machine.verdict(), FailureVerdict::Over(Some(EndReason::Refused)));
        assert_eq!(bench.on(BROKEN), [], "what fails on a link that ends is no news");
        bench.on(LinkEvent::Ended);
        assert_eq!(bench.machine.next_deadline(), Some(bench.now), "at once");
        assert_eq!(bench.on(LinkEvent::Time), [LinkCommand::Connect]);
    }
}

// edges G12
#[test]
fn a_server_that_answers_no_check_is_failing_from_the_first_and_gone_with_the_third() {
    let mut bench = Bench::connected(ReconnectPace::REMOTE);
    bench.on(LinkEvent::Failed(RequestTrouble::NoAnswer));
    for round in 1..=3 {
        let commands = bench.on(LinkEvent::CheckFailed(RequestTrouble::NoAnswer));
        assert_eq!(bench.shown, LinkState::Failing);
        assert_eq!(commands.contains(&LinkCommand::End(EndReason::Unreachable)), round == 3);
        if round < 3 {
            let due = bench.machine.next_deadline().unwrap();
            assert!(due - bench.now <= ms(200));
            bench.now = due;
            assert_eq!(bench.on(LinkEvent::Time), [LinkCommand::Check]);
        }
    }
}

// edges G12
#[test]
fn a_server_that_answers_the_second_check_is_ready_again_over_the_same_link() {
    let mut bench = Bench::connected(ReconnectPace::REMOTE);
    bench.on(LinkEvent::Failed(RequestTrouble::Unsent));
    bench.on(LinkEvent::CheckFailed(RequestTrouble::Unsent));
    assert!(!bench.machine.listed(), "a listing that succeeds meanwhile does not hide it");
    bench.now = bench.machine.next_deadline().unwrap();
    bench.on(LinkEvent::Time);
    assert_eq!(bench.on(LinkEvent::CheckAnswered), [LinkCommand::Show(LinkState::Ready), LinkCommand::Look]);
}

// edges G2
#[test]
fn pauses_grow_while_nothing_is_answered_and_restart_with_the_first_answer() {
    let mut bench = Bench::new(ReconnectPace::PROCESS);
    let mut pauses = Vec::new();
    for _ in 0..10 {
        bench.on(LinkEvent::Connecting);
        bench.on(LinkEvent::ConnectFailed);
        let due = bench.machine.next_deadline().unwrap();
        pauses.push((due - bench.now).as_millis());
        bench.now = due;
    }
    assert_eq!(pauses, [200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000]);
    bench.on(LinkEvent::Connecting);
    bench.wait(ms(500)).on(LinkEvent::Connected);
    bench.on(LinkEvent::Exchanged);
    bench.on(LinkEvent::Ended);
    assert_eq!(bench.machine.next_deadline(), Some(bench.now));
}

// edges G2
#[test]
fn a_server_that_ends_after_its_introduction_each_time_is_not_started_over_and_over() {
    let mut bench = Bench::new(ReconnectPace::PROCESS);
    for pause in [200, 400, 800, 1_600] {
        bench.on(LinkEvent::Connecting);
        bench.wait(ms(50)).on(LinkEvent::Connected);
        bench.wait(ms(50)).on(LinkEvent::Ended);
        assert_eq!(bench.machine.next_deadline(), Some(bench.now + ms(pause)));
        bench.wait(ms(pause));
    }
    // Also one that dies of every call it answers.
    for _ in 0..4 {
        bench.on(LinkEvent::Connecting);
        bench.on(LinkEvent::Connected);
        bench.on(LinkEvent::Exchanged);
        bench.on(LinkEvent::Ended);
        assert_eq!(bench.machine.next_deadline(), Some(bench.now + ms(200)));
        bench.wait(ms(200));
    }
}

// edges A1
#[test]
fn a_call_that_finds_no_link_shortens_the_pause_of_a_remote_server_only() {
    for (pace, shortens) in [(ReconnectPace::REMOTE, true), (ReconnectPace::PROCESS, false)] {
        let mut bench = Bench::new(pace);
        for _ in 0..6 {
            bench.on(LinkEvent::Connecting);
            bench.on(LinkEvent::ConnectFailed);
        }
        assert_eq!(bench.on(LinkEvent::Wanted), [], "not more often than the first pause");
        assert_eq!(bench.machine.is_worth_waiting(bench.now), shortens);
        let wanted = bench.wait(ms(200)).on(LinkEvent::Wanted);
        assert_eq!(wanted.contains(&LinkCommand::Connect), shortens);
    }
}

// edges A3
#[test]
fn a_call_waits_for_the_first_attempt_and_not_for_a_login() {
    let mut bench = Bench::new(ReconnectPace::PROCESS);
    assert_eq!(bench.on(LinkEvent::Wanted), [], "whoever drives the machine begins by itself");
    assert!(bench.machine.is_worth_waiting(bench.now), "shown, and its task has not begun");
    bench.on(LinkEvent::Connecting);
    assert!(bench.machine.is_worth_waiting(bench.now));
    bench.on(LinkEvent::LoginNeeded);
    assert!(!bench.machine.is_worth_waiting(bench.now), "only a person can help");
}

fn trouble() -> impl Strategy<Value = RequestTrouble> {
    prop_oneof![
        Just(RequestTrouble::Unsent),
        Just(RequestTrouble::Broken),
        Just(RequestTrouble::NoAnswer),
        Just(RequestTrouble::SessionRefused),
        Just(RequestTrouble::WrongEra),
    ]
}

fn event() -> impl Strategy<Value = LinkEvent> {
    prop_oneof![
        1 => Just(LinkEvent::Connecting),
        2 => Just(LinkEvent::Connected),
        1 => Just(LinkEvent::ConnectFailed),
        1 => Just(LinkEvent::Exchanged),
        4 => trouble().prop_map(LinkEvent::Failed),
        1 => Just(LinkEvent::StreamOpened),
        1 => Just(LinkEvent::StreamClosed),
        2 => Just(LinkEvent::CheckAnswered),
        2 => trouble().prop_map(LinkEvent::CheckFailed),
        1 => Just(LinkEvent::Ended),
        1 => Just(LinkEvent::Wanted),
        1 => Just(LinkEvent::RestartAsked),
        3 => Just(LinkEvent::Time),
    ]
}

proptest! {
    // edges A1, A3, G2, G12: `Bench` asserts one check at a time, one end per link and only after a check that failed, never
    // `ready` while checks fail.
    #[test]
    fn whatever_happens_a_link_ends_only_by_its_checks_and_a_new_one_follows(
        events in prop::collection::vec((event(), 0_u64..3_000), 1..200),
        remote in any::<bool>(),
    ) {
        let pace = if remote { ReconnectPace::REMOTE } else { ReconnectPace::PROCESS };
        let mut bench = Bench::new(pace);
        let mut exchanged = false;
        for (event, pause) in events {
            bench.wait(ms(pause));
            if !bench.can(event) {
                continue;
            }
            bench.on(event);
            match event {
                LinkEvent::Connected => exchanged = false,
                LinkEvent::Exchanged | LinkEvent::CheckAnswered => exchanged = true,
                // The backoff restarts after any successful exchange.
                LinkEvent::Ended if exchanged => {
                    let due = bench.machine.next_deadline().expect("a new link follows");
                    prop_assert!(due <= bench.now + pace.first);
                }
                LinkEvent::Ended | LinkEvent::ConnectFailed => {
                    let due = bench.machine.next_deadline().expect("a new link follows");
                    prop_assert!(due <= bench.now + pace.longest);
                }
                _ => {}
            }
            if bench.link == Link::Up && bench.machine.verdict() != FailureVerdict::Trusted {
                prop_assert!(bench.checking || bench.machine.next_deadline().is_some(), "a doubt is always resolved");
            }
        }
    }

    // edges A3: however many calls fail, and however they do, the link stays as long as checks are answered.
    #[test]
    fn calls_alone_never_end_a_link(failures in prop::collection::vec((trouble(), 0_u64..500), 1..200)) {
        let mut bench = Bench::connected(ReconnectPace::REMOTE);
        for (trouble, pause) in failures {
            bench.wait(ms(pause)).on(LinkEvent::Failed(trouble));
            if bench.checking {
                bench.on(LinkEvent::CheckAnswered);
            }
            prop_assert_eq!((bench.link, bench.shown), (Link::Up, LinkState::Ready));
        }
    }
}
