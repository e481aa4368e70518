//! Clients behind a plain balancer that changes the replica with every request.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidings_testkit::{Client, ListFollower, RoundRobin, Server, Tool, V2025_06_18};

use crate::{Fleet, counting};

async fn balanced(fleet: &Fleet) -> RoundRobin {
    let urls: Vec<&str> = fleet.replicas.iter().map(|replica| replica.base_url()).collect();
    RoundRobin::start(&urls).await
}

// cluster: sessions
#[tokio::test]
async fn clients_of_both_eras_are_served_behind_a_balancer() {
    let (one, two) = (counting("one").stdio().await, counting("two").stdio().await);
    let Some(fleet) = Fleet::begin(3, &[("one", &one), ("two", &two)]).await else { return };
    let balancer = balanced(&fleet).await;
    let mut followers = Vec::new();
    for _ in 0..3 {
        followers.push(ListFollower::begin(Client::http(balancer.url()).revision(V2025_06_18).connect().await).await);
        followers.push(ListFollower::begin(Client::http(balancer.url()).modern().connect().await).await);
    }
    for round in 0..5 {
        for follower in &followers {
            for name in ["one__echo", "two__echo"] {
                assert!(follower.client.call_tool(name, json!({"text": "x"})).await.text().contains('x'));
            }
        }
        let name = format!("t{round}");
        one.put_tool(Tool::text_tool(&name, "new"));
        assert!(one.list_changed("tools") > 0);
        for follower in &mut followers {
            follower.expect(&["tools"]).await;
            let names = follower.client.names("tools").await;
            assert!(names.contains(&format!("one__{name}")), "{names:?}");
        }
    }
    assert_eq!((one.count("tools/call"), two.count("tools/call")), (30, 30), "no call twice");
}

// cluster: sessions
#[tokio::test]
async fn a_session_whose_replica_was_killed_is_not_found_at_once() {
    let one = counting("one").stdio().await;
    let Some(fleet) = Fleet::begin(3, &[("one", &one)]).await else { return };
    let homes = fleet.replicas[0].client().revision(V2025_06_18).connect().await;
    let session = homes.session_id().unwrap();
    let elsewhere = fleet.replicas[1].client().revision(V2025_06_18).connect().await;
    let list = r#"{"jsonrpc":"2.0","id":9,"method":"tools/list","params":{}}"#;
    let there = elsewhere.send_http("POST", list, &[("Mcp-Session-Id", &session)]).await;
    assert_eq!(there.status, 200, "{there:?}");
    fleet.replicas[0].kill().await;
    let begun = Instant::now();
    let gone = elsewhere.send_http("POST", list, &[("Mcp-Session-Id", &session)]).await;
    // A request at the very moment of a kill may vanish, and is missed a second later.
    assert!(gone.status == 404 || gone.error_code() == -32603, "{gone:?}");
    let gone = elsewhere.send_http("POST", list, &[("Mcp-Session-Id", &session)]).await;
    assert_eq!(gone.status, 404, "{gone:?}");
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
}

// cluster: parks
#[tokio::test]
async fn questions_of_a_legacy_server_are_answered_by_way_of_any_replica() {
    let asking = || {
        Server::builder("one").tool("ask", |call| async move {
            let asked = json!({"message": "sure?", "requestedSchema": {"type": "object", "properties": {}}});
            let answer = call.elicit(asked).await.unwrap_or_default();
            call.ok_text(&answer.to_string())
        })
    };
    let (one, two) = (asking().stdio().await, counting("two").stdio().await);
    let Some(fleet) = Fleet::begin(3, &[("one", &one), ("two", &two)]).await else { return };
    let balancer = balanced(&fleet).await;
    let client =
        Client::http(balancer.url()).modern().capabilities(json!({"elicitation": {"form": {}}})).connect().await;
    let accept = |_: &Value| json!({"action": "accept", "content": {}});
    for round in 1..=12 {
        let (reply, asked) = client.rounds("tools/call", &json!({"name": "one__ask"}), accept).await;
        assert!(reply.text().contains("accept"), "{reply:?}");
        assert_eq!(asked.len(), 1);
        assert_eq!(one.count("tools/call"), round, "each call ran once");
    }
}
