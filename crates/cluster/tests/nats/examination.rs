//! What somebody who only looks finds of the bus, and that looking leaves nothing behind.

use async_nats::jetstream;
use tidings_cluster::{BusError, FleetBus as _, NatsBus, examine_bus};
use tidings_hub::fleet::BlobHash;
use tidings_hub::fleet::state_keeping::KeptState;
use tidings_testkit::NatsServer;

use crate::{SECRET, id, join, plan, settings};

/// The streams of JetStream there.
async fn streams(server: &NatsServer) -> usize {
    let client = async_nats::connect(server.url()).await.unwrap();
    jetstream::new(client).query_account().await.unwrap().streams
}

// cluster: a bus that nobody used yet stays as it is.
#[tokio::test]
async fn who_looks_makes_nothing() {
    let Some(server) = NatsServer::start() else { return };
    let found = examine_bus(settings(&server, "one", SECRET, 1)).await.unwrap();
    assert_eq!(found.log, None);
    assert!(found.largest_message >= 1 << 20 && found.version.starts_with("2."), "{found:?}");
    assert_eq!(streams(&server).await, 0, "nothing was made");
}

// cluster
#[tokio::test]
async fn the_log_of_a_cluster_is_found_and_opened_with_its_secret_alone() {
    let Some(server) = NatsServer::start() else { return };
    let (bus, _arrivals) = join(&server, "one").await;
    bus.append(&id(1), &plan(), None).await.unwrap();
    bus.append(&id(2), &plan(), None).await.unwrap();
    let log = examine_bus(settings(&server, "other", SECRET, 1)).await.unwrap().log.unwrap();
    assert_eq!((log.first, log.entries, log.copies, log.kept), (1, 2, 1, None));
    assert!(log.can_be_joined(), "{log:?}");
    assert!(log.has_leader && log.opens && log.bytes > 0 && log.bytes < log.most_bytes, "{log:?}");
    let foreign = examine_bus(settings(&server, "other", [9; 32], 1)).await.unwrap().log.unwrap();
    assert!(!foreign.opens, "another secret: {foreign:?}");
    assert_eq!(bus.head().await.unwrap().position, 2, "nothing was written");
}

// cluster: a log that lost its beginning can not be joined, also when nothing of it is left, unless a state is kept.
#[tokio::test]
async fn a_log_without_its_beginning_is_seen() {
    let Some(server) = NatsServer::start() else { return };
    let (bus, _arrivals) = join(&server, "one").await;
    for number in 1..=3 {
        bus.append(&id(number), &plan(), None).await.unwrap();
    }
    let client = async_nats::connect(server.url()).await.unwrap();
    let stream = jetstream::new(client).get_stream("tidings-test-log").await.unwrap();
    stream.purge().sequence(3).await.unwrap();
    let log = examine_bus(settings(&server, "other", SECRET, 1)).await.unwrap().log.unwrap();
    assert_eq!((log.first, log.entries, log.can_be_joined()), (3, 1, false));
    stream.purge().await.unwrap();
    let log = examine_bus(settings(&server, "other", SECRET, 1)).await.unwrap().log.unwrap();
    assert_eq!((log.first, log.entries, log.can_be_joined()), (4, 0, false));
    let content = bus.put("state".into()).await.unwrap();
    for (position, is_enough) in [(2, false), (3, true), (4, false)] {
        let kept = KeptState { format: 1, position, entry: BlobHash::default(), content };
        bus.keep_state(&kept).await.unwrap();
        assert_eq!(bus.kept_state().await.unwrap(), is_enough.then_some(kept));
        let log = examine_bus(settings(&server, "other", SECRET, 1)).await.unwrap().log.unwrap();
        assert_eq!((log.kept, log.can_be_joined()), (is_enough.then_some(3), is_enough), "at {position}");
    }
}

// cluster: what NATS says of a login that may not use JetStream names no remedy.
#[tokio::test]
async fn without_jetstream_it_is_said_what_to_switch_on() {
    let accounts = "accounts { A { users: [{ user: a, password: b }] } }\n";
    let Some(server) = NatsServer::start_with(accounts) else { return };
    let mut settings = settings(&server, "one", SECRET, 1);
    settings.servers = vec![server.url_with("a:b")];
    for refused in [examine_bus(settings.clone()).await.map(drop), NatsBus::connect(settings).await.map(drop)] {
        let error = refused.unwrap_err();
        assert!(matches!(error, BusError::NoJetStream), "{error:?}");
        assert!(error.to_string().contains("`-js`"), "{error}");
    }
}

// cluster: a state is none of a log that has another entry in its place.
#[tokio::test]
async fn a_state_of_another_history_is_not_begun_with() {
    let Some(server) = NatsServer::start() else { return };
    let (bus, _arrivals) = join(&server, "one").await;
    for number in 1..=3 {
        bus.append(&id(number), &plan(), None).await.unwrap();
    }
    assert_eq!(bus.kept_state().await.unwrap(), None);
    let logged = bus.entries(3).await.unwrap().next().await.unwrap();
    let content = bus.put("state".into()).await.unwrap();
    let kept = KeptState { format: 1, position: 3, entry: logged.bytes, content };
    bus.keep_state(&kept).await.unwrap();
    assert_eq!(bus.kept_state().await.unwrap(), Some(kept));
    // Also from the middle, and the one that was kept last.
    let earlier = KeptState { position: 2, ..kept };
    bus.keep_state(&earlier).await.unwrap();
    assert_eq!(bus.kept_state().await.unwrap(), Some(earlier), "equal entries");
    let other = KeptState { entry: BlobHash::of(b"another entry"), ..kept };
    bus.keep_state(&other).await.unwrap();
    assert_eq!(bus.kept_state().await.unwrap(), None);
}
