//! Sessions and streams belong to the token that opened them.

use serde_json::json;
use tidings_testkit::{Client, Gate, Server};

use crate::{full, guarded, with_token};

// bridging 44; issue 6.8
#[tokio::test]
async fn a_stream_is_resumed_only_with_the_token_that_opened_it() {
    let gate = Gate::new();
    let held = gate.clone();
    let red = full("red").tool("slow", move |call| {
        let gate = held.clone();
        async move {
            call.progress(json!(1));
            gate.wait().await;
            call.ok_text("for red alone")
        }
    });
    let red = red.stdio().await;
    let blue = full("blue").stdio().await;
    let gateway = guarded().server("red", &red).server("blue", &blue).serve().await;
    let mine = with_token(gateway.client(), "red").connect().await;
    let mut call = mine.call("tools/call").params(json!({"name": "red__slow"})).progress_token("1").start();
    call.next_method("notifications/progress").await;
    let last = call.last_event_id().unwrap().to_owned();
    drop(call);
    let session = mine.session_id().unwrap();

    for token in ["blue", "all", "boss"] {
        let other = Client::http(gateway.url()).raw();
        let other = with_token(other, token).connect().await;
        let stolen = [("mcp-session-id", session.as_str()), ("last-event-id", &last), ("accept", "text/event-stream")];
        let reply = other.send_http("GET", "", &stolen).await;
        assert_eq!(reply.status, 404, "{token}: {reply:?}");
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
        assert_eq!(other.post_raw(list, &stolen[..1]).await.status, 404, "{token}");
    }
    gate.open();
    let mut resumed = mine.resume(&last).await;
    let answer = loop {
        let next = resumed.next().await.unwrap();
        if next.is_response() {
            break next;
        }
    };
    assert!(answer.text().contains("for red alone"));
}

// issue 6.8; S3.1
#[tokio::test]
async fn no_connection_of_its_own_is_made_to_a_server_that_a_session_may_not_use() {
    let isolated = "isolation = \"session\"\npoll_interval = \"1h\"";
    let red = full("red").stdio().await;
    let blue = full("blue").stdio().await;
    let gateway = guarded().server_with("red", &red, isolated).server_with("blue", &blue, isolated).serve().await;
    let connections = |server: &Server| server.processes().len();
    let (reds, blues) = (connections(&red), connections(&blue));
    let client = with_token(gateway.client(), "red").connect().await;
    assert_eq!(client.names("tools").await, ["red__echo", "red__own-red"]);
    assert_eq!(client.call_tool("echo", json!({})).await.text(), "{}");
    for name in ["blue__echo", "own-blue"] {
        assert!(!client.call_tool(name, json!({})).await.error().is_null(), "{name}");
    }
    assert_eq!((connections(&red), connections(&blue)), (reds + 1, blues));
}
