//! Random lives of the world.

use proptest::prelude::*;

use super::world::{SERVERS, URIS, World};
use super::*;

const FOLLOWERS: u64 = 5;

#[derive(Clone, Debug)]
enum Step {
    Subscribe(u64, ResourceAddress),
    Listen(Vec<ResourceAddress>),
    /// A session, or one that did not ask for it.
    Unsubscribe(Result<usize, (u64, ResourceAddress)>),
    Ack(usize),
    Cancel(usize),
    Gone(u64),
    Answer {
        pick: usize,
        agree: bool,
    },
    EndListen(PlaceId),
    Write(ResourceAddress, u32),
    Update(ResourceAddress),
    UpdateChild(ResourceAddress),
    Read(Result<usize, ResourceAddress>),
    Poll,
    Take(u64),
    Connect {
        server: PlaceId,
        upstream: SubscribeMethod,
        poll: bool,
    },
    Lose(PlaceId),
    Remove(PlaceId),
    Pass(u64),
}

fn server() -> impl Strategy<Value = PlaceId> {
    (0..SERVERS.len()).prop_map(|at| SERVERS[at])
}

fn address() -> impl Strategy<Value = ResourceAddress> {
    (server(), 0..URIS.len()).prop_map(|(server, at)| ResourceAddress { place: server, uri: URIS[at].into() })
}

fn step() -> impl Strategy<Value = Step> {
    let who = 0..FOLLOWERS;
    let upstream =
        prop_oneof![Just(SubscribeMethod::PerUri), Just(SubscribeMethod::Union), Just(SubscribeMethod::Unable)];
    prop_oneof![
        8 => (who.clone(), address()).prop_map(|(who, at)| Step::Subscribe(who, at)),
        4 => proptest::collection::btree_set(address(), 0..5).prop_map(|all| Step::Listen(all.into_iter().collect())),
        4 => (0..40usize).prop_map(|pick| Step::Unsubscribe(Ok(pick))),
        1 => (who, address()).prop_map(|(who, at)| Step::Unsubscribe(Err((who, at)))),
        10 => (0..20usize).prop_map(Step::Ack),
        1 => (0..20usize).prop_map(Step::Cancel),
        3 => (0..FOLLOWERS * 2).prop_map(Step::Gone),
        12 => (0..20usize, proptest::bool::weighted(0.8)).prop_map(|(pick, agree)| Step::Answer { pick, agree }),
        1 => server().prop_map(Step::EndListen),
        8 => (address(), 0..3u32).prop_map(|(at, text)| Step::Write(at, text)),
        3 => address().prop_map(Step::Update),
        1 => address().prop_map(Step::UpdateChild),
        8 => (0..40usize).prop_map(|pick| Step::Read(Ok(pick))),
        2 => address().prop_map(|at| Step::Read(Err(at))),
        2 => Just(Step::Poll),
        6 => (0..FOLLOWERS * 2).prop_map(Step::Take),
        2 => (server(), upstream, any::<bool>())
            .prop_map(|(server, upstream, poll)| Step::Connect { server, upstream, poll }),
        1 => server().prop_map(Step::Lose),
        1 => server().prop_map(Step::Remove),
        8 => prop_oneof![0..1_000u64, 1_000..8_000u64, 20_000..40_000u64].prop_map(Step::Pass),
    ]
}

/// The followers of one run: sessions have the first numbers, listens get one each.
struct Cast {
    listens: Vec<FollowerId>,
    next: u64,
}

impl Cast {
    fn new() -> Self {
        Self { listens: Vec::new(), next: 1_000 }
    }

    fn someone(&self, number: u64) -> FollowerId {
        match number.checked_sub(FOLLOWERS) {
            None => FollowerId(number),
            Some(_) if self.listens.is_empty() => FollowerId(0),
            Some(at) => self.listens[at as usize % self.listens.len()],
        }
    }

    fn all(&self) -> Vec<FollowerId> {
        (0..FOLLOWERS).map(FollowerId).chain(self.listens.iter().copied()).collect()
    }
}

fn act(world: &mut World, cast: &mut Cast, step: Step) {
    match step {
        Step::Subscribe(who, at) => world.ask(FollowerId(who), vec![at], false),
        Step::Listen(all) => {
            cast.next += 1;
            cast.listens.push(FollowerId(cast.next));
            world.ask(FollowerId(cast.next), all, true);
        }
        Step::Unsubscribe(Err((who, at))) => world.unsubscribe(FollowerId(who), &at),
        Step::Unsubscribe(Ok(pick)) => {
            if let Some((who, at)) = world.pick(pick, FOLLOWERS) {
                world.unsubscribe(who, &at);
            }
        }
        Step::Ack(pick) => world.ack(pick),
        Step::Cancel(pick) => world.cancel(pick),
        Step::Gone(who) => {
            let who = cast.someone(who);
            cast.listens.retain(|listen| *listen != who);
            world.gone(who);
        }
        Step::Answer { pick, agree } => world.answer(pick, agree),
        Step::EndListen(server) => world.end_listen(server),
        Step::Write(at, text) => world.write(&at, text),
        Step::Update(at) => world.update(&at),
        Step::UpdateChild(at) => world.update_child(&at),
        Step::Read(Err(at)) => world.read(FollowerId(u64::MAX), &at),
        Step::Read(Ok(pick)) => {
            if let Some((who, at)) = world.pick(pick, u64::MAX) {
                world.read(who, &at);
            }
        }
        Step::Poll => world.poll(),
        Step::Take(who) => world.take(cast.someone(who)),
        Step::Connect { server, upstream, poll } => world.connect(server, upstream, poll),
        Step::Lose(server) => world.lose(server),
        Step::Remove(server) => world.remove(server),
        Step::Pass(time) => world.pass(ms(time)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(384))]

    // S1.1, S1.2, S1.3, S1.5, S1.8; bridging 17, 18, 20-23, 27
    #[test]
    fn every_life_of_the_world_is_truthful(
        first in proptest::array::uniform2(proptest::option::weighted(0.9, any::<(bool, bool)>())),
        steps in proptest::collection::vec(step(), 1..150),
        unheard in proptest::option::of(proptest::collection::vec((address(), 0..3u32), 0..8)),
    ) {
        let mut world = World::new();
        let mut cast = Cast::new();
        for (server, link) in SERVERS.into_iter().zip(first) {
            if let Some((modern, poll)) = link {
                let upstream = if modern { SubscribeMethod::Union } else { SubscribeMethod::PerUri };
                world.connect(server, upstream, poll);
            }
        }
        for step in steps {
            act(&mut world, &mut cast, step);
        }
        // Whatever the state, a last gap with changes in it; or none, and everything goes on as it is.
        for server in SERVERS.into_iter().filter(|_| unheard.is_some()) {
            world.lose(server);
        }
        for (address, text) in unheard.into_iter().flatten() {
            world.write(&address, text);
        }
        // Servers that can not be followed are replaced by some that can, so that everything can come to rest.
        for server in SERVERS {
            if !world.is_able(server) {
                world.connect(server, if server == SERVERS[0] { SubscribeMethod::Union } else { SubscribeMethod::PerUri }, false);
            }
        }
        world.settle();
        world.check_at_rest(cast.all().into_iter());
        let (stay, go): (Vec<FollowerId>, Vec<FollowerId>) = cast.all().into_iter().partition(|who| who.0 % 2 == 0);
        for follower in go {
            world.gone(follower);
        }
        world.settle();
        world.check_at_rest(stay.iter().copied());
        for follower in stay {
            world.gone(follower);
        }
        world.settle();
        world.check_at_rest(std::iter::empty());
        prop_assert!(world.table.is_empty(), "{:?}", world.table);
    }
}
