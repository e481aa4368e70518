//! Links of single owners against a model that is a plain list.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use tidings_hub::own_links::{LinkClaim, LinkOwner, OwnLinkAttempt, OwnLinkLimits, OwnLinks};
use tidings_hub::{ClientKey, LinkKey, ServerId};

const LIMITS: OwnLinkLimits =
    OwnLinkLimits { per_owner: 2, total: 4, people_per_server: 2, idle: Duration::from_secs(60) };
/// Three sessions, one principal that declares two things, and three people.
const OWNERS: u64 = 8;

#[derive(Clone, Debug)]
enum Step {
    Claim {
        owner: u64,
        server: u32,
    },
    /// `late`: it comes of the first attempt, and not of the last.
    Connected {
        owner: u64,
        server: u32,
        late: bool,
    },
    Failed {
        owner: u64,
        server: u32,
        late: bool,
    },
    Closed {
        owner: u64,
        server: u32,
    },
    NeedsLogin {
        owner: u64,
        server: u32,
        late: bool,
    },
    LoginChanged {
        owner: u64,
        server: u32,
    },
    MakeRoom {
        server: u32,
        busy: bool,
    },
    OwnerGone(u64),
    ServerGone(u32),
    RootsChanged(u64),
    Idle {
        busy: bool,
    },
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let place = || (0..OWNERS, 0..3u32);
    prop_oneof![
        6 => place().prop_map(|(owner, server)| Step::Claim { owner, server }),
        4 => (place(), any::<bool>()).prop_map(|((owner, server), late)| Step::Connected { owner, server, late }),
        2 => (place(), any::<bool>()).prop_map(|((owner, server), late)| Step::Failed { owner, server, late }),
        2 => place().prop_map(|(owner, server)| Step::Closed { owner, server }),
        1 => (place(), any::<bool>()).prop_map(|((owner, server), late)| Step::NeedsLogin { owner, server, late }),
        1 => place().prop_map(|(owner, server)| Step::LoginChanged { owner, server }),
        2 => (0..3u32, any::<bool>()).prop_map(|(server, busy)| Step::MakeRoom { server, busy }),
        1 => (0..OWNERS).prop_map(Step::OwnerGone),
        1 => (0..3u32).prop_map(Step::ServerGone),
        1 => (0..OWNERS).prop_map(Step::RootsChanged),
        1 => any::<bool>().prop_map(|busy| Step::Idle { busy }),
        3 => (0..90u64).prop_map(Step::Pass),
    ]
}

/// One link, as it should be.
#[derive(Clone, Debug, PartialEq)]
enum Expected {
    Connecting {
        roots: bool,
    },
    Up {
        key: LinkKey,
        since: Instant,
        used: Instant,
    },
    /// How long exactly is not the model's business, only that it ends.
    Resting,
    /// Does not end by itself.
    NeedsLogin,
}

fn is_counted(link: &Expected) -> bool {
    matches!(link, Expected::Connecting { .. } | Expected::Up { .. })
}

struct Run {
    table: OwnLinks,
    model: BTreeMap<(u64, u32), Expected>,
    now: Instant,
    next_key: u64,
    /// All attempts, the earliest first.
    attempts: BTreeMap<(u64, u32), Vec<OwnLinkAttempt>>,
}

fn owner(number: u64) -> LinkOwner {
    match number {
        0..=2 => LinkOwner::Session(ClientKey(number)),
        3..=4 => LinkOwner::Principal { name: "p".into(), declares: number.to_string().into() },
        _ => LinkOwner::Person(number.to_string().into()),
    }
}

fn is_person(number: u64) -> bool {
    number > 4
}

/// Owners whose links are counted together: two of them are one principal.
fn counted_together(one: u64, other: u64) -> bool {
    one == other || [one, other].iter().all(|number| (3..=4).contains(number))
}

impl Run {
    fn counted(&self, of: impl Fn(u64) -> bool) -> usize {
        self.model.iter().filter(|((owner, _), link)| of(*owner) && is_counted(link)).count()
    }

    fn people_at(&self, server: u32) -> usize {
        let at =
            |((owner, of), link): &(&(u64, u32), &Expected)| is_person(*owner) && *of == server && is_counted(link);
        self.model.iter().filter(at).count()
    }

    fn claim(&mut self, number: u64, server: u32) {
        let got = self.table.claim(&owner(number), ServerId(server), self.now);
        let (mine, all) =
            (self.counted(|owner| counted_together(owner, number)), self.counted(|owner| !is_person(owner)));
        let people = self.people_at(server);
        let now = self.now;
        match self.model.get_mut(&(number, server)) {
            Some(Expected::Up { key, used, .. }) => {
                assert_eq!(got, LinkClaim::Up(*key));
                *used = now;
            }
            Some(Expected::Connecting { .. }) => assert_eq!(got, LinkClaim::Wait),
            Some(Expected::Resting) if matches!(got, LinkClaim::Resting { .. }) => {
                let LinkClaim::Resting { until, .. } = got else { return };
                assert!(until > now && until <= now + Duration::from_secs(30));
            }
            Some(Expected::NeedsLogin) => assert_eq!(got, LinkClaim::NeedsLogin("log in".into())),
            _ if is_person(number) && people >= LIMITS.people_per_server => {
                assert_eq!(got, LinkClaim::Full(LIMITS.people_per_server));
            }
            _ if !is_person(number) && mine >= LIMITS.per_owner => {
                assert_eq!(got, LinkClaim::TooManyOfOwner(LIMITS.per_owner))
            }
            _ if !is_person(number) && all >= LIMITS.total => assert_eq!(got, LinkClaim::TooMany(LIMITS.total)),
            _ => {
                let LinkClaim::Connect(attempt) = got else { panic!("{got:?}") };
                self.attempts.entry((number, server)).or_default().push(attempt);
                self.model.insert((number, server), Expected::Connecting { roots: false });
            }
        }
    }

    /// An attempt, and whether it is the last one.
    fn attempt(&self, number: u64, server: u32, late: bool) -> Option<(OwnLinkAttempt, bool)> {
        let all = self.attempts.get(&(number, server))?;
        let attempt = if late { all.first() } else { all.last() };
        Some((*attempt?, !late || all.len() == 1))
    }

    fn apply(&mut self, step: &Step) {
        let now = self.now;
        match *step {
            Step::Claim { owner, server } => self.claim(owner, server),
            Step::Connected { owner: number, server, late } => {
                let Some((attempt, is_last)) = self.attempt(number, server, late) else { return };
                let key = LinkKey(self.next_key);
                self.next_key += 1;
                let got = self.table.connected(&owner(number), ServerId(server), attempt, key, now);
                match self.model.get_mut(&(number, server)) {
                    Some(Expected::Connecting { roots }) if is_last => {
                        assert_eq!(got, Some(*roots), "nothing the client said is lost");
                        self.model.insert((number, server), Expected::Up { key, since: now, used: now });
                    }
                    _ => assert_eq!(got, None),
                }
            }
            Step::Failed { owner: number, server, late } => {
                let Some((attempt, is_last)) = self.attempt(number, server, late) else { return };
                let got = self.table.failed(&owner(number), ServerId(server), attempt, "no", now);
                let is_connecting = matches!(self.model.get(&(number, server)), Some(Expected::Connecting { .. }));
                assert_eq!(got.is_some(), is_connecting && is_last);
                if got.is_some() {
                    self.model.insert((number, server), Expected::Resting);
                }
            }
            Step::Closed { owner: number, server } => {
                let Some(Expected::Up { key, since, .. }) = self.model.get(&(number, server)).cloned() else { return };
                assert_eq!(self.table.closed(key, now), Some((owner(number), ServerId(server))));
                assert_eq!(self.table.closed(key, now), None, "it ends once");
                self.model.remove(&(number, server));
                if now - since < Duration::from_secs(10) {
                    self.model.insert((number, server), Expected::Resting);
                }
            }
            Step::NeedsLogin { owner: number, server, late } => {
                let Some((attempt, is_last)) = self.attempt(number, server, late) else { return };
                let got = self.table.needs_login(&owner(number), ServerId(server), attempt, "log in");
                let is_connecting = matches!(self.model.get(&(number, server)), Some(Expected::Connecting { .. }));
                assert_eq!(got, is_connecting && is_last);
                if got {
                    self.model.insert((number, server), Expected::NeedsLogin);
                }
            }
            Step::LoginChanged { owner: number, server } => {
                let expected = match self.model.remove(&(number, server)) {
                    Some(Expected::Up { key, .. }) => Some(key),
                    _ => None,
                };
                assert_eq!(self.table.login_changed(&owner(number), ServerId(server)), expected);
            }
            Step::MakeRoom { server, busy } => {
                let got = self.table.make_room(ServerId(server), |_| busy);
                let up = |((of, at), link): (&(u64, u32), &Expected)| match link {
                    Expected::Up { key, used, .. } if is_person(*of) && *at == server => Some((*used, *of, *key)),
                    _ => None,
                };
                let up: Vec<(Instant, u64, LinkKey)> = self.model.iter().filter_map(up).collect();
                let oldest = up.iter().map(|(used, ..)| *used).min().filter(|_| !busy);
                let Some(oldest) = oldest else { return assert_eq!(got, None) };
                let (_, key) = got.unwrap();
                let (used, of, _) = up.iter().find(|(.., known)| *known == key).copied().unwrap();
                assert_eq!(used, oldest, "who has not used it for the longest time goes first");
                self.model.remove(&(of, server));
            }
            Step::OwnerGone(number) => {
                let mut got = self.table.owner_gone(&owner(number));
                got.sort();
                let up = |((of, _), link): (&(u64, u32), &Expected)| match link {
                    Expected::Up { key, .. } if *of == number => Some(*key),
                    _ => None,
                };
                let mut expected: Vec<LinkKey> = self.model.iter().filter_map(up).collect();
                expected.sort();
                assert_eq!(got, expected);
                self.model.retain(|(of, _), _| *of != number);
            }
            Step::ServerGone(server) => {
                self.table.server_gone(ServerId(server));
                self.model.retain(|(_, of), link| *of != server || matches!(link, Expected::Up { .. }));
            }
            Step::RootsChanged(number) => {
                let mut got = self.table.roots_changed(&owner(number));
                got.sort();
                let mut expected = Vec::new();
                for ((of, _), link) in &mut self.model {
                    match link {
                        Expected::Up { key, .. } if *of == number => expected.push(*key),
                        Expected::Connecting { roots } if *of == number => *roots = true,
                        _ => {}
                    }
                }
                expected.sort();
                assert_eq!(got, expected);
            }
            Step::Idle { busy } => {
                let mut got: Vec<LinkKey> = self.table.idle(now, |_| busy).into_iter().map(|(_, _, key)| key).collect();
                got.sort();
                let mut expected = Vec::new();
                self.model.retain(|_, link| match link {
                    Expected::Up { key, used, .. } if now - *used >= LIMITS.idle => {
                        if busy {
                            *used = now;
                        } else {
                            expected.push(*key);
                        }
                        busy
                    }
                    _ => true,
                });
                expected.sort();
                assert_eq!(got, expected);
            }
            Step::Pass(seconds) => self.now += Duration::from_secs(seconds),
        }
        assert_eq!(self.table.len(), self.counted(|_| true));
        assert!(self.counted(|owner| !is_person(owner)) <= LIMITS.total);
        assert!((0..3).all(|server| self.people_at(server) <= LIMITS.people_per_server));
        for number in 0..OWNERS {
            let missing = |((of, server), link): (&(u64, u32), &Expected)| {
                (*of == number && *link == Expected::NeedsLogin).then_some(ServerId(*server))
            };
            let missing: Vec<ServerId> = self.model.iter().filter_map(missing).collect();
            assert_eq!(self.table.missing_logins(&owner(number)), missing);
        }
        let used = self.model.values().filter_map(|link| match link {
            Expected::Up { used, .. } => Some(*used + LIMITS.idle),
            _ => None,
        });
        assert_eq!(self.table.next_idle(), used.min());
    }
}

proptest! {
    // edges B2, B3; identity 5
    #[test]
    fn links_are_made_one_at_a_time_within_their_bounds_and_leave_nothing(
        steps in proptest::collection::vec(step(), 1..150)
    ) {
        let mut run =
            Run {
                table: OwnLinks::new(LIMITS),
                model: BTreeMap::new(),
                now: Instant::now(),
                next_key: 1,
                attempts: BTreeMap::new(),
            };
        for step in &steps {
            run.apply(step);
        }
        for number in 0..OWNERS {
            run.apply(&Step::OwnerGone(number));
        }
        prop_assert!(run.table.is_empty());
        let text = format!("{:?}", run.table);
        prop_assert!(text.contains("owners: {}, by_key: {}, counts: OwnLinkCounts { clients: 0"), "{}", text);
    }
}

fn connects(table: &mut OwnLinks, who: &LinkOwner, server: ServerId, now: Instant) -> OwnLinkAttempt {
    match table.claim(who, server, now) {
        LinkClaim::Connect(attempt) => attempt,
        other => panic!("{other:?} instead of an attempt"),
    }
}

// edges B2
#[test]
fn pauses_grow_until_a_link_has_held() {
    let mut table = OwnLinks::new(OwnLinkLimits::default());
    let (who, server) = (LinkOwner::Session(ClientKey(1)), ServerId(1));
    let mut now = Instant::now();
    let mut pauses = Vec::new();
    for _ in 0..12 {
        let attempt = connects(&mut table, &who, server, now);
        let until = table.failed(&who, server, attempt, "no", now).unwrap();
        pauses.push(until - now);
        assert!(matches!(table.claim(&who, server, until - Duration::from_millis(1)), LinkClaim::Resting { .. }));
        now = until;
    }
    assert!(pauses.windows(2).all(|pair| pair[0] <= pair[1]) && pauses[0] < pauses[5], "{pauses:?}");
    assert_eq!(pauses.last(), Some(&Duration::from_secs(30)));
    // A link that ends soon has failed, too.
    let attempt = connects(&mut table, &who, server, now);
    table.connected(&who, server, attempt, LinkKey(1), now);
    table.closed(LinkKey(1), now + Duration::from_secs(1));
    assert!(matches!(table.claim(&who, server, now + Duration::from_secs(2)), LinkClaim::Resting { .. }));
    now += Duration::from_secs(60);
    let attempt = connects(&mut table, &who, server, now);
    table.connected(&who, server, attempt, LinkKey(2), now);
    now += Duration::from_secs(11);
    table.closed(LinkKey(2), now);
    // One that held is made again at once.
    connects(&mut table, &who, server, now);
}

// identity 5
#[test]
fn a_look_keeps_no_link_of_a_person_from_being_idle() {
    let mut table = OwnLinks::new(LIMITS);
    let (who, server, start) = (LinkOwner::Person("ada".into()), ServerId(1), Instant::now());
    let attempt = connects(&mut table, &who, server, start);
    table.connected(&who, server, attempt, LinkKey(1), start);
    let later = start + LIMITS.idle / 2;
    assert_eq!(table.claim_to_look(&who, server, later), LinkClaim::Up(LinkKey(1)));
    assert_eq!(table.next_idle(), Some(start + LIMITS.idle));
    assert_eq!(table.claim(&who, server, later), LinkClaim::Up(LinkKey(1)));
    assert_eq!(table.next_idle(), Some(later + LIMITS.idle));
}
