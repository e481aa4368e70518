//! Who joins begins with the state that was kept last, and the log may have forgotten what is before that.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::{self, stream::Stream};
use tidings_engine::{DecisionBase, DecisionOutcome, FleetDecisions, LONGEST_DECISION, ReplicaState};
use tidings_testkit::{NatsServer, within};

use crate::{Heard, KIND, contents, decided, first, read, replica, shown, write};

/// More entries than are read by who joins.
const VALUES: u64 = 1_010;
/// Values that take a while to be fetched.
const LONG: usize = 7;

async fn log(nats: &NatsServer) -> Stream {
    let client = async_nats::connect(nats.url()).await.unwrap();
    jetstream::new(client).get_stream("tidings-tidings-log").await.unwrap()
}

/// Decides until the state is kept.
pub(crate) async fn decide_much(nats: &NatsServer, decisions: &FleetDecisions) {
    first(decisions, "x", "1").await;
    // Of many parts, so that it takes a while until a follower can be told of all.
    let long = "kept".repeat(LONGEST_DECISION / 4);
    for n in 0..LONG {
        let applied = write(decisions, &format!("long{n}"), DecisionBase::Exactly(0), &long).await;
        assert_eq!(applied, DecisionOutcome::Applied(1));
    }
    for n in 0..5 {
        assert_eq!(
            write(decisions, &format!("s{n}"), DecisionBase::Exactly(0), "kept").await,
            DecisionOutcome::Applied(1)
        );
    }
    assert_eq!(decisions.write(KIND, "s3", DecisionBase::Exactly(1), None).await, DecisionOutcome::Applied(2));
    for n in 2..=VALUES {
        let applied = write(decisions, "x", DecisionBase::Exactly(n - 1), &n.to_string()).await;
        assert_eq!(applied, DecisionOutcome::Applied(n));
    }
    let (_client, contents) = contents(nats).await;
    within("the state is kept", async {
        while contents.get_last_raw_message_by_subject("tidings.tidings.blob.state").await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

// cluster: who joins has everything although the log has forgotten its beginning, also when nobody else is there
#[tokio::test(flavor = "multi_thread")]
async fn who_joins_begins_with_the_state_where_the_log_has_forgotten_its_beginning() {
    let Some(nats) = NatsServer::start() else { return };
    let (one, here) = replica(&nats, "a");
    decide_much(&nats, &here).await;
    log(&nats).await.purge().sequence(1_000).await.unwrap();

    let (other, there) = replica(&nats, "b");
    let heard = Arc::new(Heard::default());
    there.follow(KIND, Arc::clone(&heard) as _).await;
    within("it knows the others", async {
        while !there.confirm().await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    // Told before anybody could read after the end of the log.
    let mut told: Vec<String> = (0..LONG).map(|n| format!("long{n} 1 keptkept")).collect();
    told.extend(["s0", "s1", "s2", "s4"].map(|subject| format!("{subject} 1 kept")));
    told.push(format!("x {VALUES} {VALUES}"));
    assert_eq!(heard.last(), told);
    assert_eq!(read(&there, "s3").await, None);
    shown(&other, ReplicaState::Connected).await;
    // Numbers go on where they were, on both sides.
    assert_eq!(write(&there, "x", DecisionBase::Exactly(VALUES), "next").await, DecisionOutcome::Applied(VALUES + 1));
    assert_eq!(read(&here, "x").await, Some(decided(VALUES + 1, "next")));
    let late = write(&here, "s3", DecisionBase::Exactly(1), "late").await;
    assert_eq!(late, DecisionOutcome::Overtaken(None));
    for gateway in [one, other] {
        gateway.shutdown().await;
    }

    let (alone, decisions) = replica(&nats, "c");
    assert_eq!(read(&decisions, "x").await, Some(decided(VALUES + 1, "next")));
    assert_eq!(read(&decisions, "s4").await, Some(decided(1, "kept")));
    shown(&alone, ReplicaState::Connected).await;
    assert_eq!(write(&decisions, "s4", DecisionBase::Exactly(1), "more").await, DecisionOutcome::Applied(2));
    assert_eq!(alone.fleet().unwrap().trouble, None);
    alone.shutdown().await;
}

// cluster: the state of a log that is not there any more is passed over
#[tokio::test(flavor = "multi_thread")]
async fn a_state_whose_log_was_lost_is_passed_over() {
    let Some(nats) = NatsServer::start() else { return };
    let (one, here) = replica(&nats, "a");
    decide_much(&nats, &here).await;
    one.shutdown().await;
    let client = async_nats::connect(nats.url()).await.unwrap();
    jetstream::new(client).delete_stream("tidings-tidings-log").await.unwrap();

    let (other, there) = replica(&nats, "b");
    first(&there, "y", "1").await;
    assert_eq!(read(&there, "x").await, None);
    assert_eq!(read(&there, "y").await, Some(decided(1, "1")));
    assert_eq!(other.fleet().unwrap().trouble, None);
    other.shutdown().await;
}
