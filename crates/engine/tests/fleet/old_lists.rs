//! Lists whose place others took do not stay beside the log for ever.

use std::sync::Arc;
use std::time::Duration;

use tidings_cluster::{BusKeys, FleetBus as _, NatsBus, NatsSettings};
use tidings_engine::{CallTimes, Isolation, Origin, ReplicaState, ServerPlacement, ServerPlan, Source};
use tidings_hub::fleet::entry::FleetEntry;
use tidings_hub::fleet::{BlobHash, ReplicaId};
use tidings_testkit::{NatsServer, Server, Tool, within};
use tidings_upstream::{EraChoice, HttpSpec, NetworkReach, ServerSpec, TransportSpec};

use crate::kept_state::decide_much;
use crate::{contents, replica_with, shown};

fn plan(server: &Server) -> ServerPlan {
    let transport = TransportSpec::Http(HttpSpec {
        url: server.url(),
        headers: Vec::new(),
        reach: NetworkReach::Anywhere,
        credential: None,
    });
    ServerPlan {
        source: Source::Remote(ServerSpec { name: "tools".to_owned(), transport, era: EraChoice::Auto }),
        origin: Origin::File,
        name: "tools".into(),
        name_prefix: "tools".into(),
        uri_prefix: "tools".into(),
        transparent_uris: false,
        isolation: Isolation::Auto,
        call_times: CallTimes::default(),
        poll_interval: None,
        listed: true,
        permits: Arc::new(|_| true),
        trusts_annotations: false,
        approval: None,
        placement: ServerPlacement::default(),
        identity: None,
    }
}

fn tool(version: usize) -> Tool {
    let text = format!(r#"{{"name":"look","description":"version {version}","inputSchema":{{"type":"object"}}}}"#);
    Tool::raw(&text, |call| async move { call.ok_text("seen") })
}

/// Reads along, and writes nothing.
async fn bus(nats: &NatsServer) -> NatsBus {
    let settings = NatsSettings {
        servers: vec![nats.url()],
        access: Default::default(),
        name: "tidings".to_owned(),
        replica: ReplicaId { name: "reader".into(), incarnation: 1 },
        copies: 1,
        keys: BusKeys::derive(&[vec![7; 32]]).unwrap(),
    };
    NatsBus::connect(settings).await.unwrap().0
}

/// Where the first lists of the log are, once there are so many.
async fn lists(bus: &NatsBus, count: usize) -> Vec<BlobHash> {
    within(&format!("{count} lists are in the log"), async {
        let mut entries = bus.entries(1).await.unwrap();
        let mut found = Vec::new();
        while found.len() < count {
            if let FleetEntry::Offer { offer, .. } = entries.next().await.unwrap().entry {
                found.extend(offer.blobs);
            }
        }
        found
    })
    .await
}

async fn is_there(bus: &NatsBus, list: BlobHash) -> bool {
    bus.get(list).await.unwrap().is_some()
}

// cluster: what a server listed before goes when nobody can come upon it, what it lists stays, also if it was listed before; who joins does not
// miss the others, nor does one that reads the log from its beginning
#[tokio::test(flavor = "multi_thread")]
async fn lists_that_others_took_the_place_of_are_dropped_and_nobody_misses_them() {
    let Some(nats) = NatsServer::start() else { return };
    let server = Server::builder("tools").entry_tool(tool(1)).modern_only().http().await;
    let (one, decisions) = replica_with(&nats, "a", vec![plan(&server)]);
    let bus = bus(&nats).await;
    lists(&bus, 1).await;
    server.wait_listening(1).await;
    // The second version comes back at the end.
    for (count, version) in [(2, 2), (3, 3), (4, 4), (5, 2)] {
        server.put_tool(tool(version));
        server.list_changed("tools");
        lists(&bus, count).await;
    }
    let known = lists(&bus, 5).await;
    assert_eq!(known[1], known[4], "equal lists are one content");
    // Long enough ago, and nobody has kept the state.
    tokio::time::sleep(Duration::from_secs(3)).await;
    for list in &known {
        assert!(is_there(&bus, *list).await, "who joins reads the log from its beginning");
    }

    decide_much(&nats, &decisions).await;
    within("former lists are dropped", async {
        while is_there(&bus, known[0]).await || is_there(&bus, known[2]).await || is_there(&bus, known[3]).await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    assert!(is_there(&bus, known[4]).await, "it is listed now");

    let (other, _) = replica_with(&nats, "b", vec![plan(&server)]);
    shown(&other, ReplicaState::Connected).await;
    assert_eq!(other.fleet().unwrap().trouble, None);
    other.shutdown().await;

    let (_client, stream) = contents(&nats).await;
    stream.purge().filter("tidings.tidings.blob.state").await.unwrap();
    let (late, _) = replica_with(&nats, "c", vec![plan(&server)]);
    within("it reads past lists that are gone", async {
        while !late
            .fleet()
            .unwrap()
            .replicas
            .iter()
            .any(|replica| replica.is_this && replica.state == ReplicaState::Connected)
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    assert_eq!(late.fleet().unwrap().trouble, None);
    for gateway in [late, one] {
        gateway.shutdown().await;
    }
}

// cluster: a list that is gone and that nothing took the place of is trouble
#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_the_bus_lost_is_said() {
    let Some(nats) = NatsServer::start() else { return };
    let server = Server::builder("tools").entry_tool(tool(1)).modern_only().http().await;
    let (one, _) = replica_with(&nats, "a", vec![plan(&server)]);
    let bus = bus(&nats).await;
    let list = lists(&bus, 1).await[0];
    // Longer ago than none at all.
    assert!(bus.drop_old_content(list, Duration::ZERO).await.unwrap());

    let (other, there) = replica_with(&nats, "b", vec![plan(&server)]);
    within("the loss is said", async {
        while !other.fleet().unwrap().trouble.is_some_and(|why| why.contains("\"tools\"")) {
            assert!(!there.confirm().await, "nothing is confirmed by who can not show everything");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    for gateway in [other, one] {
        gateway.shutdown().await;
    }
}
