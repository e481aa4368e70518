//! What one principal can not take from others.

use serde_json::json;
use tidings_testkit::{Client, Gate, Gateway, Server, within};

use crate::{auth, with_token};

fn two_tokens(quotas: &str) -> String {
    format!("{}[quotas]\n{quotas}", auth(&[("greedy", &["*"]), ("modest", &["*"])]))
}

async fn both(gateway: &Gateway, token: &str) -> [Client; 2] {
    [with_token(gateway.client(), token).connect().await, with_token(gateway.client().modern(), token).connect().await]
}

/// Waits until a series has this value.
async fn wait_metric(gateway: &Gateway, series: &str, value: u64) {
    let line = format!("{series} {value}\n");
    within(series, async { while !gateway.get_as_admin("/metrics").await.1.contains(&line) {} }).await;
}

// trust T8
#[tokio::test]
async fn one_token_that_fills_its_calls_and_listens_takes_none_of_anothers_and_is_told_which_limit() {
    let gate = Gate::new();
    let held = gate.clone();
    let server = Server::builder("s").echo("echo").tool("hold", move |call| {
        let held = held.clone();
        async move {
            held.wait().await;
            call.ok_text("done")
        }
    });
    let server = server.stdio().await;
    let toml = two_tokens("calls = 3\nlistens = 2\n");
    let gateway = Gateway::builder().toml(&toml).server("s", &server).serve().await;
    let (greedy, modest) = (both(&gateway, "greedy").await, both(&gateway, "modest").await);
    // Of all its clients together, of both eras.
    let waiting: Vec<_> = [&greedy[0], &greedy[1], &greedy[1]]
        .map(|client| client.start("tools/call", json!({"name": "hold", "arguments": {}})))
        .into_iter()
        .collect();
    gate.reached(3).await;
    for client in &greedy {
        let refused = client.call_tool("echo", json!({"text": "x"})).await.error();
        let told = refused["message"].as_str().unwrap();
        assert!(told.contains("`calls` of [quotas]") && told.contains("\"greedy\"") && told.contains('3'), "{told}");
    }
    assert_eq!(greedy[0].request("ping", json!({})).await.result(), json!({}), "it is not taken for dead");
    for client in &modest {
        assert_eq!(client.call_tool("echo", json!({"text": "x"})).await.text(), r#"{"text":"x"}"#);
    }
    // Who is at which limit.
    let refused = "tidings_quota_refused_total{principal=\"greedy\",quota=\"calls\"}";
    wait_metric(&gateway, refused, 2).await;
    let (_, status) = gateway.api("GET", "/status", json!(null)).await;
    let row = json!({"principal": "greedy", "quota": "calls", "used": 3, "limit": 3, "refused": 2});
    assert!(status["quotas"].as_array().unwrap().contains(&row), "{status}");
    let shown = crate::stdout(&within("status", gateway.command(&["status"])).await);
    assert!(shown.contains("greedy: 3 of 3 calls, refused 2 times"), "{shown}");
    gate.open();
    for call in waiting {
        assert_eq!(call.finish().await.text(), "done");
    }
    // What is over counts no more.
    within("room", async {
        while greedy[0].call_tool("echo", json!({"text": "x"})).await.response().error().is_object() {}
    })
    .await;
    let listen =
        |client: &Client| client.start("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    let _open = [listen(&greedy[1]), listen(&greedy[1])];
    wait_metric(&gateway, "tidings_quota_used{principal=\"greedy\",quota=\"listens\"}", 2).await;
    let third = listen(&greedy[1]).finish().await.error();
    assert!(third["message"].as_str().unwrap().contains("`listens` of [quotas]"), "{third}");
    let _other = listen(&modest[1]);
    wait_metric(&gateway, "tidings_quota_used{principal=\"modest\",quota=\"listens\"}", 1).await;
}

// trust T8
#[tokio::test]
async fn the_sessions_of_one_token_give_way_to_its_own_and_not_to_those_of_others() {
    let server = Server::builder("s").echo("echo").stdio().await;
    let gateway = Gateway::builder().toml(&two_tokens("sessions = 2\n")).server("s", &server).serve().await;
    let modest = with_token(gateway.client(), "modest").connect().await;
    let mut greedy = Vec::new();
    for _ in 0..4 {
        greedy.push(with_token(gateway.client(), "greedy").connect().await);
    }
    let lives = async |client: &Client| client.call_tool("echo", json!({"text": "x"})).await.status == 200;
    assert!(lives(&modest).await, "somebody else's stays");
    let mut living = Vec::new();
    for client in &greedy {
        living.push(lives(client).await);
    }
    assert_eq!(living, [false, false, true, true], "the oldest of its own give way");
}

// trust T8
#[tokio::test]
async fn one_token_that_follows_as_much_as_it_may_leaves_the_rest_to_others() {
    let server = Server::builder("s").resource("file:///a", "a").resource("file:///b", "b").stdio().await;
    let gateway = Gateway::builder().toml(&two_tokens("subscriptions = 1\n")).server("s", &server).serve().await;
    let (greedy, modest) = (both(&gateway, "greedy").await, both(&gateway, "modest").await);
    let subscribe =
        async |client: &Client, uri: &str| client.request("resources/subscribe", json!({ "uri": uri })).await;
    assert_eq!(subscribe(&greedy[0], "file:///a").await.result(), json!({}));
    let refused = subscribe(&greedy[0], "file:///b").await.error();
    assert!(refused["message"].as_str().unwrap().contains("`subscriptions` of [quotas]"), "{refused}");
    // Of all its clients together, of both eras: nothing is left for a listen.
    let filter = |uri: &str| json!({ "notifications": { "resourceSubscriptions": [uri] } });
    let mut listen = greedy[1].start("subscriptions/listen", filter("file:///b"));
    let told = listen.next_method("notifications/subscriptions/acknowledged").await;
    assert_eq!(told.params()["notifications"]["resourceSubscriptions"].as_array().map_or(0, Vec::len), 0, "{told:?}");
    assert_eq!(subscribe(&modest[0], "file:///b").await.result(), json!({}), "another's is not touched");
    let refused = "tidings_quota_refused_total{principal=\"greedy\",quota=\"subscriptions\"}";
    wait_metric(&gateway, refused, 2).await;
    // What it follows no longer counts no more.
    greedy[0].request("resources/unsubscribe", json!({ "uri": "file:///a" })).await.result();
    assert_eq!(subscribe(&greedy[0], "file:///b").await.result(), json!({}));
}
