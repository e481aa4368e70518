//! Decisions of several replicas on a real NATS server.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::{self, stream::Stream};
use bytes::Bytes;
use futures_util::StreamExt as _;
use tidings_engine::{
    Decided, DecisionBase, DecisionFollower, DecisionKind, DecisionOutcome, FleetDecisions, FleetSettings, Gateway,
    GatewayStart, LONGEST_DECISION, LONGEST_SUBJECT, ListAnnouncements, ListPages, Names, NoticePace, RefreshPace,
    ReplicaState, Settings, WaitLimits,
};
use tidings_proto::FieldView;
use tidings_sync::Lock;
use tidings_testkit::NatsServer;
use tidings_upstream::{LinkConnector, ProcessLauncher};

/// One that a gateway does not follow itself.
const KIND: DecisionKind = DecisionKind::Grant;

fn replica(nats: &NatsServer, name: &str) -> (Gateway, FleetDecisions) {
    let second = Duration::from_secs(1);
    let settings = Settings {
        waits: WaitLimits { start: second, added: second, silence: second, call: second },
        pages: ListPages { size: 10, longest_bound: None },
        view: FieldView::default(),
        names: Names::Auto,
        list_pace: RefreshPace { quiet: Duration::ZERO, max_wait: Duration::ZERO },
        resource_pace: NoticePace::default(),
        poll_interval: Duration::ZERO,
        clients: Default::default(),
        announcements: ListAnnouncements { initially: false, silent: Vec::new(), hints: false },
        own_links: Default::default(),
        limits: Default::default(),
        parks: Default::default(),
        seal_key: Default::default(),
        version: "0",
        path: Default::default(),
    };
    let fleet = FleetSettings {
        nats: vec![nats.url()],
        access: Default::default(),
        name: "tidings".to_owned(),
        secrets: vec![vec![7; 32]],
        replica: name.to_owned(),
        copies: 1,
        labels: Vec::new(),
    };
    let connector = LinkConnector::new(ProcessLauncher::new(None)).unwrap();
    let start = GatewayStart { fleet: Some(fleet), ..GatewayStart::new(settings, Vec::new(), connector) };
    let gateway = Gateway::start(start);
    let decisions = gateway.decisions().unwrap();
    (gateway, decisions)
}

/// What a follower was told: each subject with the number and the value that it had.
#[derive(Default)]
struct Heard(Lock<Vec<(String, Option<Decided>)>>);

impl DecisionFollower for Heard {
    fn decided(&self, subject: &str, decided: Option<&Decided>) {
        self.0.lock().push((subject.to_owned(), decided.cloned()));
    }
}

impl Heard {
    /// As text: subject, number and the beginning of the value.
    fn all(&self) -> Vec<String> {
        let one = |(subject, decided): &(String, Option<Decided>)| match decided {
            Some(Decided { n, value }) => {
                format!("{subject} {n} {}", String::from_utf8_lossy(&value[..value.len().min(8)]))
            }
            None => format!("{subject} gone"),
        };
        self.0.lock().iter().map(one).collect()
    }

    /// The last of each subject, in the order in which they came.
    fn last(&self) -> Vec<String> {
        let all = self.all();
        let subject = |text: &str| text.split(' ').next().unwrap_or_default().to_owned();
        let is_last = |at: usize| !all[at + 1..].iter().any(|later| subject(later) == subject(&all[at]));
        (0..all.len()).filter(|&at| is_last(at)).map(|at| all[at].clone()).collect()
    }

    async fn wait_for_last(&self, wanted: &[&str]) {
        tidings_testkit::within(&format!("{wanted:?} is heard"), async {
            while self.last() != wanted {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }
}

async fn write(decisions: &FleetDecisions, subject: &str, base: DecisionBase, value: &str) -> DecisionOutcome {
    decisions.write(KIND, subject, base, Some(Bytes::copy_from_slice(value.as_bytes()))).await
}

/// Writes as soon as the replica knows the others.
async fn first(decisions: &FleetDecisions, subject: &str, value: &str) {
    tidings_testkit::within("the first decision", async {
        while let DecisionOutcome::Refused(_) = write(decisions, subject, DecisionBase::Exactly(0), value).await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
}

/// What was decided anywhere. A replica that has just begun does not know the others yet.
async fn read(decisions: &FleetDecisions, subject: &str) -> Option<Decided> {
    tidings_testkit::within("it knows the others", async {
        while !decisions.confirm().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    decisions.read(KIND, subject).await.unwrap()
}

async fn shown(gateway: &Gateway, state: ReplicaState) {
    tidings_testkit::within(&format!("it is shown as {state:?}"), async {
        while gateway.fleet().unwrap().replicas[0].state != state {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

fn decided(n: u64, value: &str) -> Decided {
    Decided { n, value: Bytes::copy_from_slice(value.as_bytes()) }
}

// cluster: decisions
#[tokio::test(flavor = "multi_thread")]
async fn what_one_replica_decides_is_read_and_heard_at_all() {
    let Some(nats) = NatsServer::start() else { return };
    let (one, here) = replica(&nats, "a");
    let (other, there) = replica(&nats, "b");
    let heard = Arc::new(Heard::default());
    there.follow(KIND, Arc::clone(&heard) as _).await;
    first(&here, "x", "1").await;
    assert_eq!(read(&there, "x").await, Some(decided(1, "1")));
    // Told before anybody could read it.
    assert_eq!(heard.all(), ["x 1 1"]);

    // After what was looked at, and after whatever there is.
    assert_eq!(write(&there, "x", DecisionBase::Exactly(1), "2").await, DecisionOutcome::Applied(2));
    let overtaken = DecisionOutcome::Overtaken(Some(decided(2, "2")));
    assert_eq!(write(&here, "x", DecisionBase::Exactly(1), "3").await, overtaken);
    assert_eq!(write(&here, "x", DecisionBase::Any, "3").await, DecisionOutcome::Applied(3));
    assert_eq!(read(&there, "x").await, Some(decided(3, "3")));

    // Taken away, and there again: numbers only rise.
    assert_eq!(there.write(KIND, "x", DecisionBase::Exactly(3), None).await, DecisionOutcome::Applied(4));
    assert_eq!(read(&here, "x").await, None);
    assert_eq!(write(&here, "x", DecisionBase::Exactly(3), "late").await, DecisionOutcome::Overtaken(None));
    assert_eq!(write(&here, "x", DecisionBase::Exactly(0), "5").await, DecisionOutcome::Applied(5));
    assert_eq!(write(&here, "y", DecisionBase::Any, "large").await, DecisionOutcome::Applied(5));
    assert_eq!(read(&there, "y").await, Some(decided(5, "large")));
    assert_eq!(heard.all(), ["x 1 1", "x 2 2", "x 3 3", "x gone", "x 5 5", "y 5 large"]);

    // Who comes later hears the last of each, in the order in which they were decided; as does who follows later. A replica
    // that still reads the log may hear of what was decided before.
    let (third, late) = replica(&nats, "c");
    for decisions in [late, here.clone()] {
        let heard = Arc::new(Heard::default());
        decisions.follow(KIND, Arc::clone(&heard) as _).await;
        heard.wait_for_last(&["x 5 5", "y 5 large"]).await;
    }
    assert_eq!(there.subjects(KIND).await, [("x".to_owned(), 5), ("y".to_owned(), 5)]);
    assert_eq!(there.subjects(DecisionKind::Token).await, []);

    // There is nothing to take away: that is said at once, and not when something else is decided.
    assert_eq!(there.write(KIND, "never", DecisionBase::Any, None).await, DecisionOutcome::Applied(0));

    let long = "s".repeat(LONGEST_SUBJECT + 1);
    assert!(matches!(write(&here, &long, DecisionBase::Any, "").await, DecisionOutcome::TooLarge(_)));
    let most = "v".repeat(LONGEST_DECISION);
    assert!(matches!(write(&here, "z", DecisionBase::Any, &format!("{most}v")).await, DecisionOutcome::TooLarge(_)));
    assert!(matches!(write(&here, "z", DecisionBase::Any, &most).await, DecisionOutcome::Applied(_)));
    assert_eq!(read(&there, "z").await.unwrap().value.len(), LONGEST_DECISION);
    for gateway in [one, other, third] {
        gateway.shutdown().await;
    }
}

// cluster: decisions
#[tokio::test(flavor = "multi_thread")]
async fn of_all_that_replicas_decide_after_one_value_one_holds() {
    let Some(nats) = NatsServer::start() else { return };
    let (one, here) = replica(&nats, "a");
    let (other, there) = replica(&nats, "b");
    first(&here, "x", "0").await;
    first(&there, "ready", "").await;
    for n in 1..20 {
        assert_eq!(read(&here, "x").await.unwrap().n, n);
        assert_eq!(read(&there, "x").await.unwrap().n, n);
        // The same value: who wrote it must be told apart all the same.
        let outcomes = futures_util::future::join_all(
            [&here, &there, &here, &there].map(|decisions| write(decisions, "x", DecisionBase::Exactly(n), "same")),
        )
        .await;
        let applied = outcomes.iter().filter(|outcome| **outcome == DecisionOutcome::Applied(n + 1)).count();
        let overtaken =
            outcomes.iter().filter(|outcome| matches!(outcome, DecisionOutcome::Overtaken(Some(_)))).count();
        assert_eq!((applied, overtaken), (1, 3), "{outcomes:?}");
    }
    for gateway in [one, other] {
        gateway.shutdown().await;
    }
}

/// The contents of the cluster, beside its replicas.
async fn contents(nats: &NatsServer) -> (async_nats::Client, Stream) {
    let client = async_nats::connect(nats.url()).await.unwrap();
    let stream = jetstream::new(client.clone()).get_stream("tidings-tidings-blobs").await.unwrap();
    (client, stream)
}

// cluster: decisions; a key that was decided about many times costs a replica that joins a few fetches, although all contents but the last are gone.
#[tokio::test(flavor = "multi_thread")]
async fn who_joins_fetches_what_is_there_and_not_what_was() {
    const VALUES: u64 = 300;
    let Some(nats) = NatsServer::start() else { return };
    let (one, here) = replica(&nats, "a");
    first(&here, "x", "1").await;
    for n in 2..=VALUES {
        let applied = write(&here, "x", DecisionBase::Any, &n.to_string()).await;
        assert_eq!(applied, DecisionOutcome::Applied(n));
    }
    let (client, stream) = contents(&nats).await;
    stream.purge().keep(1).await.unwrap();
    let mut asked = client.subscribe("$JS.API.DIRECT.GET.tidings-tidings-blobs.>").await.unwrap();
    client.flush().await.unwrap();
    let began = std::time::Instant::now();
    let (other, there) = replica(&nats, "b");
    let heard = Arc::new(Heard::default());
    there.follow(KIND, Arc::clone(&heard) as _).await;
    heard.wait_for_last(&[&format!("x {VALUES} {VALUES}")]).await;
    let took = began.elapsed();
    client.flush().await.unwrap();
    let mut fetches = 0;
    while let Some(Some(_)) = futures_util::FutureExt::now_or_never(asked.next()) {
        fetches += 1;
    }
    // Eight at a time, each of which holds its place for 100 ms where nothing was found.
    let most = 8 * (took.as_millis() / 100 + 2);
    assert!(fetches > 0 && fetches <= most, "{fetches} fetches in {took:?}");
    assert_eq!(heard.all().len(), 1, "values that had a next one were passed over: {:?}", heard.all());
    for gateway in [one, other] {
        gateway.shutdown().await;
    }
}

// cluster: decisions; what stands behind one that can not be read is answered, and the replica still ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_decision_behind_one_whose_content_is_gone_is_answered() {
    let Some(nats) = NatsServer::start() else { return };
    let (one, here) = replica(&nats, "a");
    first(&here, "x", "1").await;
    let (_client, stream) = contents(&nats).await;
    stream.purge().await.unwrap();
    let (other, there) = replica(&nats, "b");
    there.follow(KIND, Arc::new(Heard::default())).await;
    let refused = tidings_testkit::within("it is answered", async {
        loop {
            match write(&there, "y", DecisionBase::Any, "2").await {
                // It does not know the others yet, or knows already that it can not follow them.
                DecisionOutcome::Refused(why) if why.contains("can not be read from the bus") => return why,
                DecisionOutcome::Refused(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                DecisionOutcome::Unknown => return "unknown".to_owned(),
                outcome => panic!("{outcome:?}"),
            }
        }
    });
    refused.await;
    assert!(matches!(write(&here, "z", DecisionBase::Any, "3").await, DecisionOutcome::Applied(_)), "others go on");
    for gateway in [one, other] {
        tidings_testkit::within("it ends", gateway.shutdown()).await;
    }
}

// cluster: decisions
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_is_cut_off_decides_nothing() {
    let Some(nats) = NatsServer::start() else { return };
    let (one, here) = replica(&nats, "a");
    first(&here, "x", "1").await;
    // What is shown follows with the next beat; until then it is shown as it was before the first.
    shown(&one, ReplicaState::Connected).await;
    nats.pause();
    shown(&one, ReplicaState::Isolated).await;
    assert!(matches!(write(&here, "x", DecisionBase::Any, "2").await, DecisionOutcome::Refused(_)));
    assert_eq!(here.read(KIND, "x").await, Ok(Some(decided(1, "1"))), "what it knows is still read");
    nats.resume();
    tidings_testkit::within("it is back", async {
        while write(&here, "x", DecisionBase::Exactly(1), "3").await != DecisionOutcome::Applied(2) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    one.shutdown().await;
}
