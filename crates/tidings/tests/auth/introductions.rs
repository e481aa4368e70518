//! What the gateway says of itself.

use serde_json::{Value, json};
use tidings_testkit::{Client, is_modern};

use crate::{both_eras, full, guarded, red_and_blue};

/// What a client is told first, in either era.
async fn introduction(client: &Client) -> Value {
    match is_modern(&client.revision()) {
        true => client.request("server/discover", json!({})).await.result(),
        false => client.initialize_result(),
    }
}

// issue 6.8
#[tokio::test]
async fn instructions_are_those_of_the_servers_that_a_token_may_use() {
    let (_red, _blue, gateway) = red_and_blue().await;
    // The first lists wait until the servers have said who they are.
    both_eras(&gateway, "all").await[1].names("tools").await;
    for (token, reds, blues) in [("all", true, true), ("red", true, false), ("blue", false, true)] {
        for client in both_eras(&gateway, token).await {
            let said = introduction(&client).await.to_string();
            let holds = |server: &str| said.contains(&format!("How to use {server}."));
            assert_eq!((holds("red"), holds("blue")), (reds, blues), "{token}: {said}");
            assert!(reds || !said.contains("red"), "{said}");
            assert!(blues || !said.contains("blue"), "{said}");
        }
    }
}

// reach 4
#[tokio::test]
async fn apps_are_told_to_whoever_may_use_a_server_that_has_some() {
    const APPS: &str = "io.modelcontextprotocol/ui";
    let declared = json!({"tools": {}, "prompts": {}, "resources": {}, "extensions": {APPS: {"mimeTypes": ["a"]}}});
    let red = full("red").capabilities(declared).stdio().await;
    let blue = full("blue").modern_only().http().await;
    let gateway = guarded().server("red", &red).server("blue", &blue).serve().await;
    both_eras(&gateway, "all").await[1].names("tools").await;
    for (token, told) in
        [("all", json!({"mimeTypes": ["a"]})), ("red", json!({"mimeTypes": ["a"]})), ("blue", Value::Null)]
    {
        for client in both_eras(&gateway, token).await {
            assert_eq!(introduction(&client).await["capabilities"]["extensions"][APPS], told, "{token}");
        }
    }
}

// issue 6.8
#[tokio::test]
async fn a_server_that_is_alone_speaks_only_for_those_who_may_use_it() {
    let red = || full("red").on_raw("red/own", |call| async move { call.ok(json!({})) });
    for red in [red().stdio().await, red().modern_only().http().await] {
        let gateway = guarded().server("red", &red).serve().await;
        for client in both_eras(&gateway, "red").await {
            assert!(introduction(&client).await.to_string().contains("How to use red."));
            assert_eq!(client.names("prompts").await, ["greet"]);
        }
        let calls = red.count("tools/call");
        for client in both_eras(&gateway, "blue").await {
            let said = introduction(&client).await.to_string();
            assert!(!said.contains("red") && said.contains("tidings"), "{said}");
            for kind in ["tools", "prompts", "resources", "templates"] {
                assert_eq!(client.names(kind).await, [""; 0], "{kind}");
            }
            // Nobody else could have it, and still it does not get there.
            for name in ["echo", "unlisted", "red__echo"] {
                assert!(!client.call_tool(name, json!({})).await.error().is_null(), "{name}");
            }
            assert!(!client.request("resources/read", json!({"uri": "file:///r"})).await.error().is_null());
            // Nor by a method that only that server knows.
            assert!(!client.request("red/own", json!({})).await.error().is_null());
        }
        assert_eq!((red.count("tools/call"), red.count("red/own")), (calls, 0));
    }
}
