//! `/mcp/s/NAME`: one of several servers, as if it were the only one.

use serde_json::{Value, json};
use tidings_testkit::*;

use crate::{ListFollower, add, quick};

const VENDOR: &str = "com.example/x";

/// A server that names itself, with unusual words: what of them survives is seen.
fn own(name: &str) -> ServerBuilder {
    Server::builder(name)
        .instructions("mine alone")
        .capabilities(json!({"tools": {"listChanged": true}, "prompts": {"listChanged": true},
            "resources": {"listChanged": true, "subscribe": true}, "completions": {}, "extensions": {VENDOR: {"a": 1.50}}}))
        .tool("call_tool", |call| async move {
            call.ok(json!({"content": [{"type": "resource_link", "uri": "file:///r", "name": "r"}], "odd": {"b": 1, "a": 2}}))
        })
        .prompt("p", |call| async move { call.ok_message("hi") })
        .resource("file:///r", "r")
        .resource("watch://r", "not the gateway's")
        .on_raw("acme/search", |call| async move { call.ok(json!({"params": call.params()})) })
}

fn url(gateway: &Gateway, server: &str) -> String {
    format!("{}/s/{server}", gateway.url())
}

async fn hello(client: &Client) -> Value {
    match client.revision().as_str() {
        V2026_07_28 => {
            let mut hello = client.request("server/discover", json!({})).await.result();
            hello["serverInfo"] = hello["_meta"]["io.modelcontextprotocol/serverInfo"].take();
            hello
        }
        _ => client.initialize_result(),
    }
}

async fn clients(url: &str) -> Vec<Client> {
    let mut clients = Vec::new();
    for revision in [V2025_03_26, V2025_11_25, V2026_07_28] {
        clients.push(Client::http(url).revision(revision).connect().await);
    }
    clients
}

// reach 4
#[tokio::test]
async fn one_server_alone_has_its_own_names_uris_and_words() {
    for mine in Server::of_every_sort(|| own("mine")).await {
        let other = own("other").stdio().await;
        let gateway = quick().toml("[gateway]\nexpose = \"search\"").server("mine", &mine).server("other", &other);
        let gateway = gateway.serve().await;
        for client in clients(&url(&gateway, "mine")).await {
            let hello = hello(&client).await;
            assert_eq!((&hello["serverInfo"]["name"], &hello["instructions"]), (&json!("mine"), &json!("mine alone")));
            assert_eq!(client.names("tools").await, ["call_tool"], "not the one that is built in, and listed");
            assert_eq!(client.names("prompts").await, ["p"]);
            assert_eq!(client.names("resources").await, ["file:///r", "watch://r"]);
            let called = client.call_tool("call_tool", json!({})).await;
            if client.revision() != V2025_03_26 {
                assert_eq!(called.result()["content"][0]["uri"], "file:///r");
            }
            assert_eq!(called.result()["odd"], json!({"b": 1, "a": 2}), "what nobody knows passes");
            for (uri, text) in [("file:///r", "r"), ("watch://r", "not the gateway's")] {
                assert_eq!(client.request("resources/read", json!({"uri": uri})).await.text(), text);
            }
            let search = client.request("acme/search", json!({"q": 1})).await;
            assert_eq!(search.result()["params"]["q"], 1, "a method of its own");
            let unlisted = client.call_tool("unlisted", json!({})).await;
            assert!(
                mine.received().iter().any(|r| r.method == "tools/call" && r.params()["name"] == "unlisted"),
                "{unlisted:?}"
            );
        }
        assert_eq!((other.count("tools/call"), other.count("acme/search"), other.count("resources/read")), (0, 0, 0));
        let together = gateway.client().connect().await;
        assert_eq!(together.initialize_result()["serverInfo"]["name"], "tidings");
        assert_eq!(together.names("prompts").await, ["mine__p", "other__p"], "all together are as they were");
    }
}

// reach 4
#[tokio::test]
async fn its_extensions_pass_as_they_are() {
    let (mine, other) = (own("mine").modern_only().http().await, own("other").stdio().await);
    let gateway = quick().server("mine", &mine).server("other", &other).serve().await;
    let client = Client::http(url(&gateway, "mine")).modern().connect().await;
    let declared = client.request("server/discover", json!({})).await.result_raw();
    assert!(declared.contains(VENDOR) && declared.contains("1.5"), "{declared}");
    let together = gateway.client().modern().connect().await;
    let declared = together.request("server/discover", json!({})).await.result_raw();
    assert!(!declared.contains(VENDOR), "among several it is not carried: {declared}");
}

// reach 4
#[tokio::test]
async fn a_client_is_told_of_the_changes_of_its_server_alone_and_once() {
    let (mine, other) = (own("mine").http().await, own("other").http().await);
    let gateway = quick().server("mine", &mine).server("other", &other).serve().await;
    let mut followers = Vec::new();
    for client in [Client::http(url(&gateway, "mine")), Client::http(url(&gateway, "mine")).modern()] {
        followers.push(ListFollower::begin(client.connect().await).await);
    }
    let mut both = ListFollower::begin(gateway.client().connect().await).await;
    for round in 0..2 {
        add(&other, "tools", &format!("theirs{round}"));
        both.expect(&["tools"]).await;
        add(&mine, "prompts", &format!("q{round}"));
        both.expect(&["prompts"]).await;
        for follower in &mut followers {
            // Nothing of tools came before it.
            follower.expect(&["prompts"]).await;
            assert!(follower.client.names("prompts").await.contains(&format!("q{round}")));
        }
    }
}

// reach 4
#[tokio::test]
async fn a_resource_is_followed_by_its_own_uri() {
    let (mine, other) = (own("mine").http().await, own("other").http().await);
    let gateway = quick().server("mine", &mine).server("other", &other).serve().await;
    let legacy = Client::http(url(&gateway, "mine")).connect().await;
    let _stream = legacy.open_get().await;
    legacy.request("resources/subscribe", json!({"uri": "file:///r"})).await.result();
    let modern = Client::http(url(&gateway, "mine")).modern().connect().await;
    let wanted = json!({"notifications": {"resourceSubscriptions": ["file:///r"]}});
    let mut listen = modern.start("subscriptions/listen", wanted.clone());
    let acknowledged = listen.next_method("notifications/subscriptions/acknowledged").await;
    assert_eq!(acknowledged.params()["notifications"], wanted["notifications"]);
    // Of what lies below it a client is told by the name that it follows.
    for (round, uri) in ["file:///r", "file:///r/part"].into_iter().enumerate() {
        let updated = json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}});
        mine.notify_raw(updated.to_string());
        for client in [&legacy, &modern] {
            let told = client.wait_for_method("notifications/resources/updated", round + 1).await;
            assert_eq!(told.params()["uri"], "file:///r");
        }
    }
    legacy.request("resources/unsubscribe", json!({"uri": "file:///r"})).await.result();
}

// reach 4
#[tokio::test]
async fn what_asks_for_a_server_that_is_not_there_is_told_which_are() {
    let (mine, other) = (own("mine").stdio().await, own("other").stdio().await);
    // token-x, and only for one of them.
    let auth = r#"[auth]
tokens = [{ name = "x", sha256 = "d4ae844c189c5f38ddd7e60eecdbb09112a913c99f2ff8d6dc16f4205942ed90", servers = ["mine"] }]"#;
    let gateway = quick().toml(auth).server("mine", &mine).server("other", &other).serve().await;
    let raw = |path: &str| Client::http(url(&gateway, path)).raw().header("authorization", "Bearer token-x");
    let begin = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": V2025_11_25,
        "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}});
    let mut words = Vec::new();
    for path in ["other", "nobody", "", "mine/", "watches", "%FF"] {
        let refused = raw(path).connect().await.post_raw(begin.to_string(), &[]).await;
        assert_eq!(refused.status, 404, "{path}");
        words.push(refused.error()["message"].as_str().unwrap().to_owned());
    }
    words.dedup();
    assert_eq!(words.len(), 1, "what is not theirs is as if it were not there: {words:?}");
    assert!(words[0].contains("those you may use are mine;") && words[0].contains("/mcp"), "{words:?}");
    assert_eq!(raw("mine").connect().await.post_raw(begin.to_string(), &[]).await.status, 200);
    let stranger = Client::http(url(&gateway, "mine")).raw().connect().await;
    assert_eq!(stranger.post_raw(begin.to_string(), &[]).await.status, 401, "the same doors as everywhere");
    let page = [("origin", "https://evil.example"), ("authorization", "Bearer token-x")];
    assert_eq!(stranger.post_raw(begin.to_string(), &page).await.status, 403);
}

// reach 4
#[tokio::test]
async fn a_session_is_of_one_server_and_ends_with_it() {
    let (mine, other) = (own("mine").stdio().await, own("other").stdio().await);
    let gateway = quick().server("mine", &mine).serve().await;
    let (status, put) = gateway.api("PUT", "/servers/other", other.keys()).await;
    assert_eq!(status, 201, "{put}");
    let legacy = Client::http(url(&gateway, "other")).connect().await;
    let stream = legacy.open_get().await;
    let session = legacy.session_id().unwrap();
    let elsewhere = Client::http(gateway.url()).raw().connect().await;
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    let named = [("mcp-session-id", session.as_str())];
    assert_eq!(elsewhere.post_raw(ping.clone(), &named).await.status, 404, "it is a session of another endpoint");
    let modern = Client::http(url(&gateway, "other")).modern().connect().await;
    let mut listen = modern.start("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    listen.next_method("notifications/subscriptions/acknowledged").await;

    assert_eq!(gateway.api("DELETE", "/servers/other", Value::Null).await.0, 200);
    stream.finish().await;
    assert_eq!(listen.finish().await.result()["resultType"], "complete");
    let there = Client::http(url(&gateway, "other")).raw().connect().await;
    assert_eq!(there.post_raw(ping, &named).await.status, 404);
    assert_eq!(gateway.metric("tidings_sessions").await, Some(0.0));
}

// reach 4
#[tokio::test]
async fn a_session_of_one_server_outlives_the_gateway() {
    let (mine, other) = (own("mine").http().await, own("other").http().await);
    let gateway = quick().server("mine", &mine).server("other", &other).serve().await;
    let client = Client::http(url(&gateway, "mine")).connect().await;
    assert_eq!(client.names("prompts").await, ["p"]);
    let session = client.session_id().unwrap();
    gateway.terminate().await;
    let gateway = gateway.again().await;
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "prompts/list"}).to_string();
    let named = [("mcp-session-id", session.as_str())];
    let elsewhere = Client::http(gateway.url()).raw().connect().await;
    assert_eq!(elsewhere.post_raw(list.clone(), &named).await.status, 404);
    let back = Client::http(url(&gateway, "mine")).raw().connect().await;
    assert_eq!(back.post_raw(list, &named).await.result()["prompts"][0]["name"], "p");
}
