//! Replicas on a real NATS server, as those who decide something together see them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod decisions;
mod kept_state;
mod old_lists;

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::{self, stream::Stream};
use bytes::Bytes;
use futures_util::StreamExt as _;
use tidings_engine::{
    Decided, DecisionBase, DecisionFollower, DecisionKind, DecisionOutcome, FleetDecisions, FleetSettings, Gateway,
    GatewayStart, LONGEST_DECISION, LONGEST_SUBJECT, ListAnnouncements, ListPages, Names, NoticePace, RefreshPace,
    ReplicaState, ServerPlan, Settings, WaitLimits,
};
use tidings_proto::FieldView;
use tidings_sync::Lock;
use tidings_testkit::NatsServer;
use tidings_upstream::{LinkConnector, ProcessLauncher};

/// One that a gateway does not follow itself.
const KIND: DecisionKind = DecisionKind::Grant;

fn replica(nats: &NatsServer, name: &str) -> (Gateway, FleetDecisions) {
    replica_with(nats, name, Vec::new())
}

fn replica_with(nats: &NatsServer, name: &str, plans: Vec<ServerPlan>) -> (Gateway, FleetDecisions) {
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
        lists_kept: Duration::from_secs(2),
        watches: Vec::new(),
    };
    let connector = LinkConnector::new(ProcessLauncher::new(None)).unwrap();
    let start = GatewayStart { fleet: Some(fleet), ..GatewayStart::new(settings, plans, connector) };
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

/// The contents of the cluster, beside its replicas.
async fn contents(nats: &NatsServer) -> (async_nats::Client, Stream) {
    let client = async_nats::connect(nats.url()).await.unwrap();
    let stream = jetstream::new(client.clone()).get_stream("tidings-tidings-blobs").await.unwrap();
    (client, stream)
}
