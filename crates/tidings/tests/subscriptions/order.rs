//! Acknowledged first, then told; and nothing after the end.

use serde_json::json;
use tidings_testkit::*;

use crate::*;

/// An update for whoever is connected, subscribed or not.
fn early(server: &Server) {
    let params = json!({"uri": "file:///a"}).to_string();
    server.notify_raw(tidings_wire::notification(UPDATED, Some(params.as_bytes())));
}

// S1.2, S1.7, bridging 17
#[tokio::test]
async fn a_change_before_the_servers_answer_is_told_after_ours() {
    for on_http in [false, true] {
        let gate = Gate::new();
        let server = three().hold(SUBSCRIBE, &gate);
        let server = if on_http { server.http().await } else { server.stdio().await };
        for nth in 0..4 {
            gate.close();
            // Each with a gateway of its own, so that each asks the server.
            let gateway = quick().server("one", &server).serve().await;
            let follower = Follower::new(all_clients(&gateway).remove(nth)).await;
            let held = gate.arrived() + 1;
            let mut asked = follower.ask(&["one+file:///a"]);
            gate.reached(held).await;
            early(&server);
            // Longer than the quiet window, so that it is ready to be told.
            tokio::time::sleep(std::time::Duration::from_millis(60)).await;
            assert_eq!(follower.told(), Vec::<String>::new());
            gate.open();
            let first = match follower.is_modern() {
                true => asked.next().await.unwrap().method,
                false => format!("{:?}", asked.finish().await.result()),
            };
            assert!(first == ACKNOWLEDGED || first == "Object {}", "{first}");
            assert_eq!(follower.wait("one+file:///a").await, ["one+file:///a"]);
            let all = follower.client.received();
            let told = all.iter().position(|r| r.is_notification(UPDATED)).unwrap();
            let answered = all.iter().rposition(|r| r.is_response() || r.is_notification(ACKNOWLEDGED)).unwrap();
            assert!(answered < told, "{all:?}");
        }
        server.assert_clean();
    }
}

// S1.2, S1.7, bridging 17
#[tokio::test]
async fn a_listen_that_still_waits_for_one_server_is_told_nothing_of_another() {
    for server in in_all_ways(three).await {
        let gate = Gate::new();
        let slow = Server::builder("two").resource("file:///z", "z").hold(SUBSCRIBE, &gate).http().await;
        let gateway = quick().server("one", &server).server("two", &slow).serve().await;
        let witness = Follower::of(gateway.client(), &["one+file:///a"]).await;
        for client in [gateway.client().modern(), gateway.stdio().modern()] {
            gate.close();
            let held = gate.arrived() + 1;
            let client = Follower::new(client).await;
            let mut listen = client.ask(&["one+file:///a", "two+file:///z", "one+file:///nobody+has"]);
            gate.reached(held).await;
            let before = witness.told().len();
            // The server may hear of this client a little later than the slow one.
            for _ in 0..20 {
                update(&server, "file:///a");
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            witness.wait_nth(before + 1).await;
            gate.open();
            let acknowledged = listen.next().await.unwrap();
            assert_eq!(acknowledged.method, ACKNOWLEDGED);
            let honoured = acknowledged.params()["notifications"]["resourceSubscriptions"].clone();
            assert_eq!(honoured[0], "one+file:///a");
            assert_eq!(honoured[1], "two+file:///z");
            let told = listen.next_method(UPDATED).await;
            assert_eq!(uri_of(&told), "one+file:///a");
            assert_eq!(
                told.param_raw(&["_meta", "io.modelcontextprotocol/subscriptionId"]),
                listen.id().as_str(),
                "tagged with the listen's id"
            );
        }
    }
}

// S1.3, S1.7, bridging 18
#[tokio::test]
async fn nothing_comes_after_the_end_of_a_subscription() {
    for server in in_all_ways(three).await {
        let config = QUICK.replace("20ms", "150ms").replace("200ms", "2s");
        let gateway = Gateway::builder().toml(&config).server("one", &server).serve().await;
        for client in all_clients(&gateway) {
            let mut follower = Follower::of(client, &["one+file:///a", "one+file:///b"]).await;
            update(&server, "file:///a");
            follower.leave("one+file:///a", 0).await;
            update(&server, "file:///b");
            assert_eq!(follower.wait("one+file:///b").await, ["one+file:///b"]);
        }
    }
}

// S1.2: a change in a storm of them, at every moment around the subscription.
#[tokio::test]
async fn in_a_storm_of_changes_each_subscription_is_answered_first_and_ends_when_it_ends() {
    for server in in_all_ways(three).await {
        let config = QUICK.replace("20ms", "0ms").replace("200ms", "0ms");
        let gateway = Gateway::builder().toml(&config).server("one", &server).serve().await;
        let steady = Follower::of(gateway.client(), &["one+file:///a"]).await;
        for client in [gateway.client(), gateway.stdio()] {
            let follower = Follower::new(client).await;
            let storm = async {
                loop {
                    server.resource_updated("file:///a");
                    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                }
            };
            let visits = async {
                for _ in 0..15 {
                    let uri = json!({"uri": "one+file:///a"});
                    let told = follower.told().len();
                    let from = follower.client.received().len();
                    follower.client.request(SUBSCRIBE, uri.clone()).await.result();
                    let answered = follower.client.received();
                    let place = answered.iter().skip(from).position(ReceivedMessage::is_response).unwrap();
                    assert!(!answered[from..from + place].iter().any(|r| r.is_notification(UPDATED)));
                    follower.client.wait_for_method(UPDATED, told + 1).await;
                    follower.client.request(UNSUBSCRIBE, uri).await.result();
                    let after = follower.told().len();
                    steady.client.wait_for_method(UPDATED, steady.told().len() + 3).await;
                    assert_eq!(follower.told().len(), after, "told after the end");
                }
            };
            tokio::select! {
                () = storm => {}
                () = visits => {}
            }
        }
    }
}

// S0.4, bridging A3: a revision that is told of no list is told of what it follows.
#[tokio::test]
async fn every_legacy_revision_can_follow() {
    for server in in_all_ways(three).await {
        let gateway = quick().server("one", &server).serve().await;
        for revision in [V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25] {
            for client in [gateway.client(), gateway.stdio()] {
                let follower = Follower::of(client.revision(revision), &["one+file:///a"]).await;
                update(&server, "file:///a");
                assert_eq!(follower.wait_nth(1).await, ["one+file:///a"], "{revision}");
            }
        }
    }
}

// S1.2
#[tokio::test]
async fn a_batch_is_answered_before_what_it_follows_is_told() {
    let (first, second) = (Gate::new(), Gate::new());
    let one = three().hold(SUBSCRIBE, &first).stdio().await;
    let two = three().hold(SUBSCRIBE, &second).stdio().await;
    for on_http in [false, true] {
        first.close();
        second.close();
        let held = (first.arrived() + 1, second.arrived() + 1);
        let gateway = quick().server("one", &one).server("two", &two).serve().await;
        let client = if on_http { gateway.client() } else { gateway.stdio() };
        let follower = Follower::new(client.revision(V2025_03_26)).await;
        let part = |id: usize, server: &str| json!({"jsonrpc": "2.0", "id": id, "method": SUBSCRIBE, "params": {"uri": format!("{server}+file:///a")}});
        let batch = json!([part(71, "one"), part(72, "two")]).to_string();
        let release = async {
            first.reached(held.0).await;
            second.reached(held.1).await;
            first.open();
            // One of them is agreed to and changes, while the batch waits for the other.
            eventually("a subscription", || (one.resource_updated("file:///a") > 0).then_some(())).await;
            tokio::time::sleep(std::time::Duration::from_millis(60)).await;
            assert_eq!(follower.told(), Vec::<String>::new());
            second.open();
        };
        if on_http {
            let (answer, ()) = tokio::join!(follower.client.post_raw(batch, &[]), release);
            assert_eq!(answer.status, 200, "{answer:?}");
        } else {
            follower.client.write_line(batch);
            release.await;
        }
        assert_eq!(follower.wait_nth(1).await, ["one+file:///a"]);
        if !on_http {
            let all = follower.client.received();
            let answered = all.iter().position(|r| r.text().contains("72")).unwrap();
            let told = all.iter().position(|r| r.is_notification(UPDATED)).unwrap();
            assert!(answered < told, "{all:?}");
        }
    }
}
