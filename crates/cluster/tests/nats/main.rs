//! The bus on a real NATS server.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod access;
mod examination;
mod majority;

use std::time::Duration;

use bytes::Bytes;
use tidings_cluster::{AppendId, BusArrival, BusArrivals, BusError, BusKeys, FleetBus, NatsBus, NatsSettings};
use tidings_hub::fleet::entry::{FleetEntry, PlacedServer};
use tidings_hub::fleet::fold::FleetFold;
use tidings_hub::fleet::frames::{ExchangeId, FleetFrame, NumberedItem};
use tidings_hub::fleet::members::ReplicaBeat;
use tidings_hub::fleet::{BlobHash, LogSequence, OwnerEpoch, ReplicaId};
use tidings_testkit::NatsServer;
use tokio::time::timeout;

const DEADLINE: Duration = Duration::from_secs(30);
const SECRET: [u8; 32] = [7; 32];

fn replica(name: &str) -> ReplicaId {
    ReplicaId { name: name.into(), incarnation: 1 }
}

async fn join(server: &NatsServer, name: &str) -> (NatsBus, BusArrivals) {
    join_with(server, name, SECRET).await
}

async fn join_with(server: &NatsServer, name: &str, secret: [u8; 32]) -> (NatsBus, BusArrivals) {
    NatsBus::connect(settings(server, name, secret, 1)).await.unwrap()
}

fn settings(server: &NatsServer, name: &str, secret: [u8; 32], copies: usize) -> NatsSettings {
    NatsSettings {
        servers: vec![server.url()],
        access: Default::default(),
        name: "test".to_owned(),
        replica: replica(name),
        copies,
        keys: BusKeys::derive(&[secret]).unwrap(),
    }
}

async fn next(arrivals: &mut BusArrivals) -> BusArrival {
    timeout(DEADLINE, arrivals.next()).await.expect("something arrives in time").expect("the bus is open")
}

fn id(number: u64) -> AppendId {
    AppendId(format!("a-{number}"))
}

fn plan() -> FleetEntry {
    let planned = PlacedServer {
        name: "files".into(),
        definition: BlobHash::of(b"a definition"),
        placement: Vec::new(),
        on_isolation: Default::default(),
    };
    FleetEntry::Plan { version: 1, config: BlobHash::of(b"a file"), servers: vec![planned] }
}

fn own(epoch: u64, owner: &str) -> FleetEntry {
    FleetEntry::Own { server: "files".into(), epoch: OwnerEpoch(epoch), replica: Some(replica(owner)) }
}

async fn fold(bus: &NatsBus, entries: u64) -> FleetFold {
    let mut fold = FleetFold::default();
    let mut reader = bus.entries(fold.next_position()).await.unwrap();
    for _ in 0..entries {
        let read = timeout(DEADLINE, reader.next()).await.expect("an entry in time").unwrap();
        fold.apply(read.position, &read.entry, read.bytes);
    }
    fold
}

// cluster: what two replicas claim at once, both judge alike; a second attempt is taken once.
#[tokio::test]
async fn replicas_that_read_the_log_agree() {
    let Some(server) = NatsServer::start() else { return };
    let (one, _arrivals) = join(&server, "one").await;
    let (other, _others) = join(&server, "other").await;
    assert_eq!(one.append(&id(1), &plan(), None).await.unwrap(), 1);
    let (first, second) = (own(1, "one"), own(1, "other"));
    let (two, three) = (id(2), id(3));
    let (mine, theirs) = tokio::join!(one.append(&two, &first, None), other.append(&three, &second, None));
    assert_eq!(one.append(&id(2), &first, None).await.unwrap(), mine.unwrap(), "a second attempt");
    theirs.unwrap();
    assert!(matches!(one.append(&id(4), &plan(), Some(2)).await, Err(BusError::MovedOn)));
    let head = one.head().await.unwrap();
    assert_eq!((head.position, head.majority_heard), (3, Duration::ZERO));
    let (one, other) = (fold(&one, 3).await, fold(&other, 3).await);
    assert_eq!(one.state(), other.state());
    assert_eq!(one.state().sequence(), LogSequence(3));
    assert!(one.state().servers().values().next().unwrap().owner.is_some());
}

// cluster
#[tokio::test]
async fn contents_of_any_length_are_kept_under_their_hash() {
    let Some(server) = NatsServer::start() else { return };
    let (one, _arrivals) = join(&server, "one").await;
    let (other, _others) = join(&server, "other").await;
    for length in [0, 1, 512 << 10, (512 << 10) + 1, 3_000_000] {
        let content: Bytes = (0..length).map(|place: u32| (place % 251) as u8).collect();
        let hash = one.put(content.clone()).await.unwrap();
        assert_eq!(hash, BlobHash::of(&content));
        assert_eq!(other.get(hash).await.unwrap(), Some(content), "{length} bytes");
    }
    assert_eq!(other.get(BlobHash::of(b"never kept")).await.unwrap(), None);
}

// cluster: what was written again just now is not dropped with what was written before
#[tokio::test]
async fn content_is_dropped_only_if_it_is_old() {
    let Some(server) = NatsServer::start() else { return };
    let (bus, _arrivals) = join(&server, "one").await;
    let content: Bytes = vec![7; (512 << 10) + 1].into();
    let (hash, other) = (bus.put(content.clone()).await.unwrap(), bus.put(Bytes::from_static(b"other")).await.unwrap());
    bus.put(content.clone()).await.unwrap();
    let hour = Duration::from_secs(60 * 60);
    assert!(!bus.drop_old_content(hash, hour).await.unwrap(), "it was written again just now");
    assert_eq!(bus.get(hash).await.unwrap(), Some(content));
    assert!(bus.drop_old_content(hash, Duration::ZERO).await.unwrap());
    assert_eq!(bus.get(hash).await.unwrap(), None);
    assert!(bus.get(other).await.unwrap().is_some(), "another content stays");
    assert!(!bus.drop_old_content(hash, Duration::ZERO).await.unwrap(), "it is gone already");
}

// cluster
#[tokio::test]
async fn a_beat_is_heard_by_all_and_by_its_sender() {
    let Some(server) = NatsServer::start() else { return };
    let (one, mut arrivals) = join(&server, "one").await;
    let (_other, mut others) = join(&server, "other").await;
    let beat = ReplicaBeat {
        replica: replica("one"),
        number: 1,
        applied: LogSequence(9),
        generation: 0,
        digest: BlobHash::default(),
        config: BlobHash::default(),
        labels: vec!["gpu".to_owned()],
        format: 1,
        leaving: false,
        unfit: Vec::new(),
    };
    one.beat(&beat).await.unwrap();
    assert_eq!(next(&mut arrivals).await, BusArrival::Beat(beat.clone()));
    assert_eq!(next(&mut others).await, BusArrival::Beat(beat));
}

// cluster: frames arrive in order; where nobody is, the sender is told at once.
#[tokio::test]
async fn frames_arrive_in_order_or_their_sender_knows_that_nobody_is_there() {
    let Some(server) = NatsServer::start() else { return };
    let (one, mut arrivals) = join(&server, "one").await;
    let (_other, mut others) = join(&server, "other").await;
    let exchange = |number| ExchangeId { caller: replica("one"), number };
    for n in 1..=2000 {
        let item = NumberedItem::Reply { bytes: vec![1; 300] };
        one.send(&replica("other"), &exchange(1), FleetFrame::Numbered { n, item }).await.unwrap();
    }
    for expected in 1..=2000 {
        let BusArrival::Frame { frame: FleetFrame::Numbered { n, .. }, from, .. } = next(&mut others).await else {
            panic!("only frames were sent");
        };
        assert_eq!((n, from), (expected, replica("one")));
    }
    // Another process of the same name is not this one.
    let gone = ReplicaId { name: "other".into(), incarnation: 2 };
    one.send(&gone, &exchange(2), FleetFrame::Again { n: 1 }).await.unwrap();
    assert_eq!(next(&mut arrivals).await, BusArrival::NoResponders { exchange: exchange(2), opening: false });
    let item = NumberedItem::Part { bytes: vec![0; 2 << 20] };
    let too_large = one.send(&gone, &exchange(3), FleetFrame::Numbered { n: 1, item }).await;
    assert!(matches!(too_large, Err(BusError::TooLarge { .. })), "{too_large:?}");
}

// cluster: all is sealed.
#[tokio::test]
async fn the_bus_reads_nothing_and_a_replica_with_another_secret_says_so() {
    let Some(mut server) = NatsServer::start() else { return };
    let (one, _arrivals) = join(&server, "one").await;
    one.append(&id(1), &own(0, "a-name-that-is-a-secret"), None).await.unwrap();
    one.put(Bytes::from_static(b"content that is a secret")).await.unwrap();
    let (stranger, _others) = join_with(&server, "one", [8; 32]).await;
    let mut reader = stranger.entries(1).await.unwrap();
    let refused = timeout(DEADLINE, reader.next()).await.unwrap();
    assert!(matches!(refused, Err(BusError::Foreign { .. })), "{refused:?}");
    server.kill();
    let kept = server.kept_bytes();
    let has = |word: &[u8]| kept.windows(word.len()).any(|window| window == word);
    assert!(has(b"tidings.test.log"), "the entry is on the disk");
    assert!(!has(b"is-a-secret") && !has(b"is a secret") && !has(b"\"own\""));
}

// cluster: a restart of NATS is over when it is back, and nothing that was said meanwhile arrives late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_go_on_when_the_bus_restarts() {
    let Some(mut server) = NatsServer::start() else { return };
    let (one, mut arrivals) = join(&server, "one").await;
    one.append(&id(1), &plan(), None).await.unwrap();
    let mut reader = one.entries(1).await.unwrap();
    assert_eq!(timeout(DEADLINE, reader.next()).await.unwrap().unwrap().position, 1);
    server.kill();
    let exchange = ExchangeId { caller: replica("other"), number: 1 };
    let gone = async {
        while one.is_connected() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(DEADLINE, gone).await.expect("the cut is noticed");
    let said = one.send(&replica("one"), &exchange, FleetFrame::Cancel).await;
    assert!(matches!(said, Err(BusError::NotConnected)), "{said:?}");
    assert!(matches!(one.append(&id(2), &own(1, "one"), None).await, Err(BusError::NotConnected)));
    tokio::task::block_in_place(|| server.run());
    let written = async {
        loop {
            if let Ok(position) = one.append(&id(2), &own(1, "one"), None).await {
                return position;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert_eq!(timeout(DEADLINE, written).await.expect("it is back"), 2);
    // Whoever reads begins anew where it stood.
    let mut reader = one.entries(2).await.unwrap();
    assert_eq!(timeout(DEADLINE, reader.next()).await.unwrap().unwrap().entry, own(1, "one"));
    one.send(&replica("one"), &exchange, FleetFrame::Taken).await.unwrap();
    let BusArrival::Frame { frame, .. } = next(&mut arrivals).await else { panic!("a frame was sent") };
    assert_eq!(frame, FleetFrame::Taken, "what was said while the bus was gone is not delivered");
}
