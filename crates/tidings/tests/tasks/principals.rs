//! A task belongs to the principal whose call made it: for everybody else there is none of that id.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::{Value, json};
use tidings_testkit::{Client, Gateway};

use super::task_jobs::{Jobs, core, extension, knows_tasks};

/// `token-x` and `token-y`.
const AUTH: &str = r#"[auth]
tokens = [
    { name = "x", sha256 = "d4ae844c189c5f38ddd7e60eecdbb09112a913c99f2ff8d6dc16f4205942ed90" },
    { name = "y", sha256 = "bc4b684625de6202b40c04caf3ebee22890eaf93955ecb95dfb1fdf420017732" },
]"#;

async fn code(client: &Client, method: &str, id: &Value) -> Value {
    client.request(method, json!({"taskId": id, "inputResponses": {}})).await.response().value()["error"]["code"]
        .clone()
}

// bridging B7
#[tokio::test]
async fn the_task_of_another_principal_is_unknown() {
    for kind in ["core", "extension"] {
        let jobs = Jobs::new();
        let server = if kind == "core" { core(&jobs).http().await } else { extension(&jobs).http().await };
        let gateway = Gateway::builder().toml(AUTH).server("alpha", &server).serve().await;
        let legacy = async |token: &str| gateway.client().header("authorization", token).connect().await;
        let modern = async |token: &str| {
            let client = gateway.client().header("authorization", token).modern();
            client.capabilities(knows_tasks()).connect().await
        };
        let (mine, theirs) = (legacy("Bearer token-x").await, legacy("Bearer token-y").await);
        let (mine_modern, theirs_modern) = (modern("Bearer token-x").await, modern("Bearer token-y").await);
        let params = json!({"name": "must", "arguments": {}, "task": {}});
        let first = mine.request("tools/call", params).await.result()["task"]["taskId"].clone();
        let second = mine_modern.call_tool("must", json!({})).await.result()["taskId"].clone();
        let asked = server.received().len();
        for id in [&first, &second] {
            for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
                assert_eq!(code(&theirs, method, id).await, -32602, "{kind}: {method}");
            }
            for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
                assert_eq!(code(&theirs_modern, method, id).await, -32602, "{kind}: {method}");
            }
        }
        let listen = json!({"notifications": {"taskIds": [first, second]}});
        let mut listen = theirs_modern.start("subscriptions/listen", listen);
        let acknowledged = listen.next_method("notifications/subscriptions/acknowledged").await;
        assert_eq!(acknowledged.param(&["notifications"]), json!({}), "{kind}");
        assert_eq!(theirs.request("tasks/list", json!({})).await.result()["tasks"], json!([]), "{kind}");
        assert_eq!(server.received().len(), asked, "{kind}: its server hears nothing of that");

        // The owner has them, in either era.
        for id in [&first, &second] {
            for client in [&mine, &mine_modern] {
                let got = client.request("tasks/get", json!({"taskId": id})).await.result();
                assert_eq!((&got["taskId"], &got["status"]), (id, &json!("working")), "{kind}");
            }
        }
        let all = mine.request("tasks/list", json!({})).await.result();
        assert_eq!(all["tasks"].as_array().unwrap().len(), 2, "{kind}: {all}");
    }
}
