//! Log messages of a call.

use serde_json::json;
use tidings_testkit::{Gateway, Server, ServerBuilder};

const MESSAGE: &str = "notifications/message";

fn talkative(name: &str) -> ServerBuilder {
    Server::builder(name).tool("talk", |call| async move {
        // Not by `log`, which would respect the level.
        call.notify(MESSAGE, json!({"level": "warning", "data": "hear me"}));
        call.ok_text("done")
    })
}

// bridging 40
#[tokio::test]
async fn a_modern_request_gets_the_log_messages_it_asked_for_and_no_others() {
    let old = talkative("old").stdio().await;
    let remote = talkative("remote").http().await;
    let new = talkative("new").modern_only().http().await;
    let gateway = Gateway::builder().server("old", &old).server("remote", &remote).server("new", &new).serve().await;
    for (level, heard) in [(None, 0), (Some("info"), 1), (Some("warning"), 1), (Some("error"), 0)] {
        let mut client = gateway.client().modern();
        if let Some(level) = level {
            client = client.log_level(level);
        }
        let client = client.connect().await;
        for tool in ["old__talk", "remote__talk", "new__talk"] {
            let reply = client.call_tool(tool, json!({})).await;
            assert_eq!(reply.text(), "done");
            assert_eq!(reply.before_with(MESSAGE).len(), heard, "{tool} at {level:?}: {reply:?}");
        }
        assert_eq!(client.count(MESSAGE), heard * 3, "nothing beside the calls");
    }
}

// bridging 40
#[tokio::test]
async fn a_modern_client_on_stdio_gets_no_log_messages_it_did_not_ask_for() {
    let server = talkative("one").stdio().await;
    let client = Gateway::builder().server("one", &server).stdio().modern().connect().await;
    let reply = client.call_tool("talk", json!({})).await;
    assert_eq!((reply.text().as_str(), client.count(MESSAGE)), ("done", 0));
}

// bridging B5
#[tokio::test]
async fn a_legacy_session_gets_log_messages_from_its_own_level_on() {
    let old = talkative("old").stdio().await;
    let new = talkative("new").modern_only().http().await;
    let gateway = Gateway::builder().server("old", &old).server("new", &new).serve().await;
    let (quiet, open) = (gateway.client().connect().await, gateway.client().connect().await);
    quiet.request("logging/setLevel", json!({"level": "error"})).await.result();
    open.request("logging/setLevel", json!({"level": "info"})).await.result();
    for tool in ["old__talk", "new__talk"] {
        assert!(quiet.call_tool(tool, json!({})).await.before_with(MESSAGE).is_empty(), "{tool}");
        assert_eq!(open.call_tool(tool, json!({})).await.before_with(MESSAGE).len(), 1, "{tool}");
    }
    let told = new.wait_for_method("tools/call", 2).await;
    assert_eq!(told.param(&["_meta", "io.modelcontextprotocol/logLevel"]), "info", "the session's level rides along");
    let wrong = open.request("logging/setLevel", json!({"level": "loud"})).await;
    assert_eq!(wrong.error_code(), -32602);
}
