//! One subscription upstream for however many clients, and each is told only of its own.

use tidings_testkit::*;

use crate::*;

// S1.1, S1.5, bridging 20
#[tokio::test]
async fn the_server_is_asked_once_for_all_and_everybody_is_told_of_its_own() {
    for server in in_all_ways(three).await {
        let gateway = quick().server("one", &server).serve().await;
        let mut followers = Vec::new();
        for client in [gateway.client(), gateway.client(), gateway.client().modern(), gateway.client().modern()] {
            followers.push(Follower::of(client, &["one+file:///a"]).await);
        }
        let other = Follower::of(gateway.client(), &["one+file:///b"]).await;
        let other_modern = Follower::of(gateway.client().modern(), &["one+file:///b"]).await;
        update(&server, "file:///a");
        for follower in &followers {
            assert_eq!(follower.wait_nth(1).await, ["one+file:///a"]);
        }
        update(&server, "file:///b");
        for follower in [&other, &other_modern] {
            assert_eq!(follower.wait_nth(1).await, ["one+file:///b"]);
        }
        let asked = server.count(SUBSCRIBE) + listened(&server).len();
        assert_eq!(asked, 2, "once for each resource: {:?}", server.received());
        for follower in &followers {
            assert_eq!(follower.told(), ["one+file:///a"]);
        }
        server.assert_clean();
    }
}

// S1.1, bridging 21
#[tokio::test]
async fn who_comes_while_the_last_one_leaves_is_answered_when_the_server_tells_again() {
    let gate = Gate::new();
    for server in [three().hold(UNSUBSCRIBE, &gate).stdio().await, three().hold(UNSUBSCRIBE, &gate).http().await] {
        let gateway = quick().server("one", &server).serve().await;
        for client in [gateway.client(), gateway.client().modern()] {
            gate.close();
            let (left, asked) = (gate.arrived() + 1, server.count(SUBSCRIBE));
            drop(leaving(Follower::of(gateway.client(), &["one+file:///a"]).await).await);
            gate.reached(left).await;
            let mut follower = Follower::new(client).await;
            let mut pending = follower.ask(&["one+file:///a"]);
            // The server still has the old one in hand.
            assert_eq!(server.count(SUBSCRIBE), asked + 1);
            gate.open();
            server.wait_for_method(SUBSCRIBE, asked + 2).await;
            if follower.is_modern() {
                pending.next_method(ACKNOWLEDGED).await;
                follower.listens.push(pending);
            } else {
                pending.finish().await.result();
            }
            update(&server, "file:///a");
            assert_eq!(follower.wait_nth(1).await, ["one+file:///a"]);
            let next = server.count(UNSUBSCRIBE) + 1;
            drop(leaving(follower).await);
            server.wait_for_method(UNSUBSCRIBE, next).await;
        }
        server.assert_clean();
    }
}

async fn leaving(mut follower: Follower) -> Follower {
    follower.leave("one+file:///a", 0).await;
    follower
}

// bridging 22
#[tokio::test]
async fn a_modern_servers_stream_is_replaced_without_a_gap() {
    for on_http in [false, true] {
        let gate = Gate::new();
        gate.open();
        let server = three().modern_only().hold(LISTEN, &gate);
        let server = if on_http { server.http().await } else { server.stdio().await };
        let gateway = quick().server("one", &server).serve().await;
        let first = Follower::of(gateway.client(), &["one+file:///a"]).await;
        gate.close();
        let held = gate.arrived() + 1;
        let second = Follower::new(gateway.client().modern()).await;
        let mut asked = second.ask(&["one+file:///b"]);
        gate.reached(held).await;
        update(&server, "file:///a");
        assert_eq!(first.wait_nth(1).await, ["one+file:///a"], "while the new stream is being opened");
        gate.open();
        asked.next_method(ACKNOWLEDGED).await;
        assert_eq!(listened(&server), [json!(["file:///a"]), json!(["file:///a", "file:///b"])]);
        update(&server, "file:///a");
        update(&server, "file:///b");
        assert_eq!(second.wait_nth(1).await, ["one+file:///b"]);
        assert_eq!(first.wait_nth(2).await, ["one+file:///a", "one+file:///a"]);
        server.assert_clean();
    }
}

// bridging 22: two connections have no order among them.
#[tokio::test]
async fn what_comes_late_on_the_old_stream_is_heard_when_the_new_one_is_acknowledged() {
    for on_http in [false, true] {
        let streams: Arc<Mutex<Vec<ScriptedCall>>> = Arc::default();
        let kept = Arc::clone(&streams);
        let server = three().modern_only().on_raw(LISTEN, move |call| {
            let kept = Arc::clone(&kept);
            async move {
                let filter = call.params()["notifications"].clone();
                if filter.get("resourceSubscriptions").is_some() {
                    kept.lock().unwrap().push(call.clone());
                }
                tell(&call, ACKNOWLEDGED, json!({ "notifications": filter }));
                call.cancelled().await;
                ScriptedAnswer::Silent
            }
        });
        let server = if on_http { server.http().await } else { server.stdio().await };
        let gateway = quick().server("one", &server).serve().await;
        let first = Follower::of(gateway.client(), &["one+file:///a"]).await;
        let _second = Follower::of(gateway.client(), &["one+file:///b"]).await;
        let old = streams.lock().unwrap()[0].clone();
        // It is late by this much.
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        tell(&old, UPDATED, json!({"uri": "file:///a"}));
        assert_eq!(first.wait_nth(1).await, ["one+file:///a"]);
        within("the end of the old stream", old.cancelled()).await;
    }
}

fn tell(stream: &ScriptedCall, method: &str, mut params: Value) {
    params["_meta"] = json!({"io.modelcontextprotocol/subscriptionId": stream.id().as_u64()});
    stream.notify(method, params);
}
