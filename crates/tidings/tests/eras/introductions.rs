//! What clients are told about the servers: nothing that is not honoured.

use serde_json::{Value, json};
use tidings_testkit::{Gateway, LEGACY, Server, ServerBuilder, V2024_11_05, V2025_03_26, V2025_06_18};

use crate::every_revision;

fn full(name: &str) -> ServerBuilder {
    Server::builder(name)
        .echo("echo")
        .resource("file:///a", "a")
        .prompt("p", |call| async move { call.ok_message("hi") })
        .completion(|call| async move { call.ok(json!({"completion": {"values": ["v"]}})) })
        .instructions(&format!("how to use {name}"))
}

/// What every promise is worth: a capability is told if and only if its methods work.
async fn check_honoured(client: &tidings_testkit::Client, capabilities: &Value) {
    assert_eq!(capabilities["resources"]["subscribe"], true, "{capabilities}");
    // The gateway itself watches the lists; only 2025-03-26 is told nothing (S0.4).
    let announced = json!(client.revision() != V2025_03_26);
    for kind in ["tools", "prompts", "resources"] {
        if let Some(told) = capabilities.get(kind) {
            assert_eq!(told.get("listChanged").unwrap_or(&json!(false)), &announced, "{kind} {}", client.revision());
        }
    }
    for (capability, method, params) in [
        ("tools", "tools/list", json!({})),
        ("resources", "resources/list", json!({})),
        ("resources", "resources/templates/list", json!({})),
        ("prompts", "prompts/list", json!({})),
        ("completions", "completion/complete", completion()),
    ] {
        if capabilities.get(capability).is_some() {
            client.request(method, params).await.result();
        }
    }
    let uri = client.names("resources").await.swap_remove(0);
    for method in ["resources/subscribe", "resources/unsubscribe"] {
        let answer = client.request(method, json!({ "uri": uri })).await;
        match client.revision().as_str() {
            // Followed by subscriptions/listen.
            "2026-07-28" => assert_eq!(answer.error_code(), -32601, "{method}"),
            _ => assert_eq!(answer.result(), json!({}), "{method}"),
        }
    }
    assert_eq!(client.request("tasks/list", json!({})).await.error_code(), -32601);
}

fn completion() -> Value {
    json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "x", "value": ""}})
}

// bridging A3 (server capabilities), S2.7
#[tokio::test]
async fn a_server_alone_introduces_itself_as_far_as_it_is_honoured() {
    for server in [full("one").stdio().await, full("one").modern_only().http().await] {
        let gateway = Gateway::builder().server("one", &server).serve().await;
        for client in every_revision(&gateway).await {
            let hello = match client.revision().as_str() {
                "2026-07-28" => client.request("server/discover", json!({})).await.result(),
                _ => client.initialize_result(),
            };
            let capabilities = &hello["capabilities"];
            let told: Vec<_> = capabilities.as_object().map(|all| all.keys().cloned().collect()).unwrap_or_default();
            if client.revision() == V2024_11_05 {
                assert_eq!(told, ["logging", "prompts", "resources", "tools"], "no completions yet");
            } else {
                assert_eq!(told, ["completions", "logging", "prompts", "resources", "tools"], "{}", client.revision());
            }
            assert_eq!(hello["instructions"], "how to use one");
            check_honoured(&client, capabilities).await;
        }
    }
}

// bridging A3 (server capabilities, instructions)
#[tokio::test]
async fn several_servers_are_introduced_as_one() {
    let one = full("first").stdio().await;
    let two = Server::builder("second").echo("echo").instructions("how to use two").http().await;
    let gateway = Gateway::builder().server("one", &one).server("two", &two).serve().await;
    for revision in LEGACY {
        let client = gateway.client().revision(revision).connect().await;
        let hello = client.initialize_result();
        assert_eq!(hello["serverInfo"]["name"], "tidings");
        assert_eq!(hello["serverInfo"].get("title").is_some(), revision >= V2025_06_18, "{revision}");
        assert_eq!(hello["capabilities"].get("completions").is_some(), revision > V2024_11_05, "{revision}");
        let instructions = hello["instructions"].as_str().unwrap_or_default();
        let places = ["## one", "how to use first", "## two", "how to use two"].map(|part| instructions.find(part));
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{instructions}");
        check_honoured(&client, &hello["capabilities"]).await;
    }
}

// bridging A3 (server capabilities)
#[tokio::test]
async fn a_modern_client_is_told_what_there_is_now_and_only_one_version() {
    let server =
        Server::builder("one").capabilities(json!({"tools": {"listChanged": true}})).echo("echo").stdio().await;
    let gateway = Gateway::builder().server("one", &server).serve().await;
    let client = gateway.client().modern().connect().await;
    let hello = client.request("server/discover", json!({})).await.result();
    assert_eq!(hello["supportedVersions"], json!(["2026-07-28"]));
    let expected = json!({"tools": {"listChanged": true}});
    assert_eq!(hello["capabilities"], expected);
    assert_eq!((&hello["resultType"], &hello["cacheScope"]), (&json!("complete"), &json!("private")));
    assert_eq!(hello["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "one");
    // Listening is acknowledged with what is honoured: not yet the resources.
    let filter = json!({"notifications": {"toolsListChanged": true, "resourceSubscriptions": ["file:///a"]}});
    let mut listen = client.call("subscriptions/listen").id("\"l\"").params(filter).start();
    let acknowledged = listen.next_method("notifications/subscriptions/acknowledged").await;
    assert_eq!(acknowledged.params()["notifications"], json!({"toolsListChanged": true}));
    assert_eq!(acknowledged.params()["_meta"]["io.modelcontextprotocol/subscriptionId"], "l");
}

// bridging A3 (views), S2.7
#[tokio::test]
async fn the_identity_of_a_server_has_only_the_fields_of_the_clients_revision() {
    let info = json!({"name": "n", "version": "1", "title": "T", "icons": [], "description": "d", "websiteUrl": "u"});
    let server = Server::builder("one")
        .modern_only()
        .on_raw("server/discover", move |call| {
            let answer = json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {},
                "ttlMs": 0, "cacheScope": "private", "_meta": {"io.modelcontextprotocol/serverInfo": info}});
            async move { call.result_raw(answer.to_string()) }
        })
        .http()
        .await;
    let gateway = Gateway::builder().server("one", &server).serve().await;
    let shown = |revision: &'static str| {
        let builder = gateway.client().revision(revision);
        async move { builder.connect().await.initialize_result()["serverInfo"].clone() }
    };
    for revision in LEGACY {
        let info = shown(revision).await;
        let fields: Vec<_> = info.as_object().map(|all| all.keys().cloned().collect()).unwrap_or_default();
        let expected: &[&str] = match revision {
            "2024-11-05" | "2025-03-26" => &["name", "version"],
            "2025-06-18" => &["name", "title", "version"],
            _ => &["description", "icons", "name", "title", "version", "websiteUrl"],
        };
        assert_eq!(fields, expected, "{revision}");
    }
}
