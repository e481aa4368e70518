//! What one replica decides is read and heard at all.

use crate::*;

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
    shown(&other, ReplicaState::Connected).await;
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
