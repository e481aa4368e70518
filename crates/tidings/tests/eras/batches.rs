//! Batches: only 2025-03-26 has them.

use serde_json::{Value, json};
use tidings_testkit::{Client, Gateway, LEGACY, Server, V2025_03_26};

fn call(id: u32, text: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "echo", "arguments": {"t": text}}})
}

fn batch() -> Value {
    let notice = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}});
    json!([call(7, "a"), notice, call(8, "b")])
}

#[track_caller]
fn check_answers(text: &str) {
    let mut answers: Vec<Value> = serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"));
    answers.sort_by_key(|answer| answer["id"].as_u64());
    let texts: Vec<_> = answers.iter().map(|a| (&a["id"], &a["result"]["content"][0]["text"])).collect();
    assert_eq!(texts, [(&json!(7), &json!(r#"{"t":"a"}"#)), (&json!(8), &json!(r#"{"t":"b"}"#))]);
}

// bridging 47
#[tokio::test]
async fn a_batch_is_answered_by_one_array_in_its_revision_and_refused_in_the_others() {
    let server = Server::builder("one").echo("echo").stdio().await;
    let gateway = Gateway::builder().server("one", &server).serve().await;
    for revision in LEGACY {
        let client = gateway.client().revision(revision).connect().await;
        let reply = client.post_raw(batch().to_string(), &[]).await;
        if revision == V2025_03_26 {
            assert_eq!(reply.status, 200, "{reply:?}");
            check_answers(&reply.body);
        } else {
            assert_eq!((reply.status, reply.error_code()), (400, -32600), "{revision}: {reply:?}");
        }
    }
    assert_eq!(server.count("tools/call"), 2, "refused batches were not run");
    let lone = Client::http(gateway.url()).raw().connect().await.post_raw(batch().to_string(), &[]).await;
    assert_eq!(lone.status, 400, "without a session: {lone:?}");
}

// bridging 47
#[tokio::test]
async fn a_batch_answers_what_it_can_and_refuses_the_rest() {
    let server = Server::builder("one").echo("echo").stdio().await;
    let gateway = Gateway::builder().server("one", &server).serve().await;
    let client = gateway.client().revision(V2025_03_26).connect().await;
    let parts = json!([
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": V2025_03_26, "capabilities": {}}},
        {"jsonrpc": "2.0", "id": 2, "method": "no/such"},
        7,
        {"jsonrpc": "2.0", "id": 3, "method": "ping"},
    ]);
    let reply = client.post_raw(parts.to_string(), &[]).await;
    let answers: Vec<Value> = serde_json::from_str(&reply.body).unwrap_or_else(|e| panic!("{e}: {reply:?}"));
    let of = |id: Value| answers.iter().find(|a| a["id"] == id).cloned().unwrap_or_default();
    assert_eq!(of(json!(1))["error"]["code"], -32600);
    assert_eq!(of(json!(2))["error"]["code"], -32601);
    assert_eq!(of(json!(3))["result"], json!({}));
    assert_eq!((answers.len(), &of(Value::Null)["error"]["code"]), (4, &json!(-32600)), "{answers:?}");
    let notices = json!([{"jsonrpc": "2.0", "method": "notifications/odd"}]).to_string();
    assert_eq!(client.post_raw(notices, &[]).await.status, 202, "nothing to answer");
    assert_eq!(client.post_raw("[]", &[]).await.status, 400, "an empty batch is no batch");
}

// bridging 47
#[tokio::test]
async fn a_batch_on_stdio_is_answered_by_one_line() {
    let server = Server::builder("one").echo("echo").stdio().await;
    let client = Gateway::builder().server("one", &server).stdio().revision(V2025_03_26).connect().await;
    client.write_line(batch().to_string());
    let line = client.wait_for(|received| received.text().starts_with('[')).await;
    check_answers(line.text());
}
