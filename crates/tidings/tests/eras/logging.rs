//! Log messages of a call.

use serde_json::json;
use tidings_testkit::{Client, Gateway, ReceivedMessage, Server, ServerBuilder};

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

/// A server that says something at every level, whatever it was asked for.
fn chatty(name: &str) -> ServerBuilder {
    Server::builder(name).capabilities(json!({"tools": {}, "logging": {}})).tool("talk", |call| async move {
        for level in ["debug", "info", "error"] {
            call.notify(MESSAGE, json!({"level": level, "data": level}));
        }
        call.ok_text("done")
    })
}

/// What a call of `talk` brings.
async fn heard(client: &Client, tool: &str) -> Vec<String> {
    let reply = client.call_tool(tool, json!({})).await;
    assert_eq!(reply.text(), "done");
    let level = |r: &&ReceivedMessage| r.param(&["level"]).as_str().unwrap_or_default().to_owned();
    reply.before_with(MESSAGE).iter().map(level).collect()
}

/// The levels that a server was told, with the connection.
fn told(server: &Server) -> Vec<(usize, String)> {
    let received = server.received();
    let levels = received.iter().filter(|r| r.method == "logging/setLevel");
    levels.map(|r| (r.connection, r.param(&["level"]).as_str().unwrap_or_default().to_owned())).collect()
}

async fn set_level(client: &Client, level: &str) {
    client.request("logging/setLevel", json!({ "level": level })).await.result();
}

// bridging B5; edges A8
#[tokio::test]
async fn the_least_level_of_all_sessions_reaches_a_legacy_server_and_each_gets_its_own() {
    for server in [chatty("one").stdio().await, chatty("one").http().await] {
        let gateway = Gateway::builder().server("one", &server).serve().await;
        let (quiet, loud) = (gateway.client().connect().await, gateway.client().connect().await);
        let silent = gateway.client().connect().await;
        assert_eq!(heard(&silent, "talk").await, ["debug", "info", "error"], "as the server likes");
        set_level(&quiet, "error").await;
        assert_eq!(server.wait_for_method("logging/setLevel", 1).await.param(&["level"]), "error");
        set_level(&loud, "debug").await;
        assert_eq!(server.wait_for_method("logging/setLevel", 2).await.param(&["level"]), "debug");
        assert_eq!(heard(&quiet, "talk").await, ["error"]);
        assert_eq!(heard(&loud, "talk").await, ["debug", "info", "error"]);
        assert_eq!(heard(&silent, "talk").await, ["info", "error"], "what only others asked for is not for it");
        // Who leaves takes its level along.
        assert_eq!(loud.delete().await, 204);
        assert_eq!(server.wait_for_method("logging/setLevel", 3).await.param(&["level"]), "error");
        // A new connection is told at once.
        let before = told(&server).len();
        if server.is_http() {
            server.forget_sessions();
            let _ = quiet.call_tool("talk", json!({})).await;
        } else {
            server.exit(1);
        }
        assert_eq!(server.wait_for_method("logging/setLevel", before + 1).await.param(&["level"]), "error");
        server.assert_clean();
    }
}

// edges A8
#[tokio::test]
async fn a_level_reaches_the_legacy_link_of_a_server_that_speaks_both_eras() {
    for server in [chatty("one").modern().stdio().await, chatty("one").modern().http().await] {
        let gateway = Gateway::builder().server("one", &server).serve().await;
        let client = gateway.client().connect().await;
        set_level(&client, "debug").await;
        assert_eq!(heard(&client, "talk").await, ["debug", "info", "error"]);
        let call = server.wait_for_method("tools/call", 1).await;
        server.wait_for(|r| r.method == "logging/setLevel" && r.connection == call.connection).await;
        // And when it is there already.
        set_level(&client, "error").await;
        let fits = |r: &ReceivedMessage| r.method == "logging/setLevel" && r.param(&["level"]) == "error";
        assert_eq!(server.wait_for(fits).await.connection, call.connection);
        server.assert_clean();
    }
}

// edges A8
#[tokio::test]
async fn a_level_reaches_the_links_of_its_own_session_and_no_others() {
    let isolated = "isolation = \"session\"\npoll_interval = \"1h\"";
    for server in [chatty("one").stdio().await, chatty("one").http().await] {
        let gateway = Gateway::builder().server_with("one", &server, isolated).serve().await;
        let (loud, silent) = (gateway.client().connect().await, gateway.client().connect().await);
        // Both before and after the link is there.
        set_level(&loud, "debug").await;
        for client in [&loud, &silent] {
            assert_eq!(heard(client, "talk").await, ["debug", "info", "error"], "as its own server likes");
        }
        let received = server.received();
        let calls: Vec<usize> = received.iter().filter(|r| r.method == "tools/call").map(|r| r.connection).collect();
        server.wait_for(|r| r.method == "logging/setLevel" && r.connection == calls[0]).await;
        set_level(&loud, "error").await;
        let fits = |r: &ReceivedMessage| r.connection == calls[0] && r.param(&["level"]) == "error";
        server.wait_for(fits).await;
        assert_eq!(heard(&loud, "talk").await, ["error"]);
        assert!(told(&server).iter().all(|(connection, _)| *connection != calls[1]), "{:?}", told(&server));
        server.assert_clean();
    }
}
