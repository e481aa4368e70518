//! Whose word about the end of the log counts, on three servers that keep it together.
//!
//! Who leads is asked for, never found by stopping servers one after the other: a connection to a server that stood still is made anew to any
//! of the others, and a server that stood still may have begun an election.

use std::time::{Duration, Instant};

use async_nats::jetstream;
use tidings_cluster::{FleetBus as _, LogHead, NatsBus};
use tidings_testkit::NatsServer;
use tokio::time::{sleep, timeout};

use super::{DEADLINE, SECRET, id, plan, settings};

/// The machines trust a leader that heard a majority within this.
const TRUSTED: Duration = Duration::from_secs(2);
/// What was on its way when a server was stopped is heard a little later, on a busy machine.
const ON_ITS_WAY: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(20);

// cluster: an answer of a leader that is cut from its peers shows that it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_without_a_majority_is_recognised() {
    let Some(servers) = start_three() else { return };
    write_plan(&servers[0]).await;
    let cut_leader = async {
        loop {
            let leader = leader(&servers).await;
            // Made now, so that it is connected to this one: it was never cut.
            let bus = joined(&servers[leader], "at the leader").await;
            let cut = cut_off(&servers, leader);
            let head = doubtful_head(&bus, cut).await;
            servers.iter().for_each(NatsServer::resume);
            // None if another was elected just before the cut.
            if let Some(head) = head {
                return (bus, head);
            }
        }
    };
    let (bus, head) = timeout(DEADLINE, cut_leader).await.expect("a leader answers when it is cut off");
    assert_eq!(head.position, 1);
    timeout(DEADLINE, trusted_head(&bus)).await.expect("it hears its peers again");
}

// cluster: a server that knows of no leader says where its own copy ends; that is not the end of the log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_knows_no_leader_is_not_believed() {
    let Some(servers) = start_three() else { return };
    write_plan(&servers[0]).await;
    let follower = (leader(&servers).await + 1) % 3;
    let bus = joined(&servers[follower], "at a follower").await;
    let log = log_of(&servers[follower]).await;
    let cut = cut_off(&servers, follower);
    let answered = async {
        loop {
            let (asked, head) = (Instant::now(), bus.head().await);
            let believed = head.as_ref().is_ok_and(|head| head.majority_heard <= TRUSTED);
            assert!(!believed || asked < cut + TRUSTED + ON_ITS_WAY, "cut off for {:?}: {head:?}", asked - cut);
            let info = log.get_info().await;
            if info.is_ok_and(|info| info.cluster.is_some_and(|cluster| cluster.leader.is_none())) {
                return bus.head().await;
            }
            sleep(PAUSE).await;
        }
    };
    let head = timeout(DEADLINE, answered).await.expect("a server without a leader answers");
    assert!(head.is_err(), "{head:?}");
}

fn start_three() -> Option<[NatsServer; 3]> {
    tokio::task::block_in_place(NatsServer::start_three)
}

/// Stops the two others, and says when.
fn cut_off(servers: &[NatsServer; 3], left: usize) -> Instant {
    servers.iter().enumerate().filter(|(place, _)| *place != left).for_each(|(_, server)| server.pause());
    Instant::now()
}

async fn write_plan(server: &NatsServer) {
    let bus = joined(server, "writer").await;
    let written = async {
        // While the log has no leader yet, nobody takes an entry.
        while bus.append(&id(1), &plan(), None).await.is_err() {
            sleep(PAUSE).await;
        }
        assert_eq!(trusted_head(&bus).await.position, 1);
    };
    timeout(DEADLINE, written).await.expect("an entry is taken");
}

/// The place of the server that leads the log.
async fn leader(servers: &[NatsServer; 3]) -> usize {
    let log = log_of(&servers[0]).await;
    let named = async {
        loop {
            let name = log.get_info().await.ok().and_then(|info| info.cluster?.leader);
            if let Some(place) = name.and_then(|name| servers.iter().position(|server| server.name() == name)) {
                return place;
            }
            sleep(PAUSE).await;
        }
    };
    timeout(DEADLINE, named).await.expect("the log has a leader")
}

/// The log as the library shows it.
async fn log_of(server: &NatsServer) -> jetstream::stream::Stream<()> {
    let client = async_nats::connect(server.url()).await.unwrap();
    let mut context = jetstream::new(client);
    context.set_timeout(Duration::from_secs(1));
    context.get_stream_no_info("tidings-test-log").await.unwrap()
}

/// The first to come makes the streams, which waits for a leader of all of NATS.
async fn joined(server: &NatsServer, name: &str) -> NatsBus {
    let joined = async {
        loop {
            match NatsBus::connect(settings(server, name, SECRET, 3)).await {
                Ok((bus, _arrivals)) => return bus,
                Err(_) => sleep(PAUSE).await,
            }
        }
    };
    timeout(DEADLINE, joined).await.expect("NATS has a leader")
}

/// The first answer that is not trusted, if there are answers; none may be trusted when the majority was gone for longer than that.
async fn doubtful_head(bus: &NatsBus, cut: Instant) -> Option<LogHead> {
    loop {
        let asked = Instant::now();
        let head = bus.head().await.ok()?;
        if head.majority_heard > TRUSTED {
            return Some(head);
        }
        assert!(asked < cut + TRUSTED + ON_ITS_WAY, "cut off for {:?}: {head:?}", asked - cut);
        sleep(PAUSE).await;
    }
}

async fn trusted_head(bus: &NatsBus) -> LogHead {
    loop {
        match bus.head().await {
            Ok(head) if head.majority_heard <= TRUSTED => return head,
            _ => sleep(PAUSE).await,
        }
    }
}
