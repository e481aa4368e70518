//! A listen that names tasks is told how far they are.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::{Value, json};
use tidings_testkit::Gateway;

use super::task_jobs::{Jobs, TASKS, core, extension, knows_tasks};

const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
const TASK: &str = "notifications/tasks";

// bridging B7, listens on ids of tasks
#[tokio::test]
async fn a_listen_is_told_how_far_the_tasks_are_that_it_names() {
    for kind in ["core", "extension"] {
        let jobs = Jobs::new();
        let server = if kind == "core" { core(&jobs).stdio().await } else { extension(&jobs).http().await };
        let gateway = Gateway::builder().server("alpha", &server).serve().await;
        for client in [gateway.client(), gateway.stdio()] {
            let client = client.modern().capabilities(knows_tasks()).connect().await;
            let mut own = Vec::new();
            let mut ids = Vec::new();
            for _ in 0..2 {
                let made = server.count("tools/call") + 1;
                own.push(format!("job-{made}"));
                ids.push(client.call_tool("must", json!({})).await.result()["taskId"].clone());
            }
            let named = json!([ids[0], "t1.AAAA", own[0], ids[0]]);
            let mut listen = client.start("subscriptions/listen", json!({"notifications": {"taskIds": named}}));
            let acknowledged = listen.next_method(ACKNOWLEDGED).await;
            assert_eq!(
                acknowledged.param(&["notifications"]),
                json!({"taskIds": [ids[0]]}),
                "{kind}: what is honoured"
            );

            jobs.set(&own[0], json!({"statusMessage": "half way"}));
            let status =
                json!({"taskId": own[0], "status": "working", "createdAt": "c", "lastUpdatedAt": "u", "ttl": null});
            if kind == "core" {
                server.notify("notifications/tasks/status", status);
            }
            let told = listen.next().await.unwrap();
            assert_eq!(told.method, TASK, "nothing else is told: {}", told.params_raw());
            assert_eq!((told.param(&["taskId"]), told.param(&["status"])), (ids[0].clone(), json!("working")));
            assert_eq!(told.param(&["statusMessage"]), "half way");
            let tag = told.param(&["_meta", "io.modelcontextprotocol/subscriptionId"]);
            assert_eq!(tag.to_string(), listen.id().to_string());
            assert!(told.param(&["resultType"]).is_null());

            // The other one is not named; this one is told of with what came of it, once.
            jobs.complete(&own[1], "unheard");
            jobs.complete(&own[0], "done");
            let told = listen.next().await.unwrap();
            assert_eq!((told.param(&["taskId"]), told.param(&["status"])), (ids[0].clone(), json!("completed")));
            assert_eq!(told.param(&["result"])["content"][0]["text"], "done");

            // Who begins to listen to what is over in the meantime is told so.
            let mut late = client.start("subscriptions/listen", json!({"notifications": {"taskIds": [ids[1]]}}));
            late.next_method(ACKNOWLEDGED).await;
            assert_eq!(late.next().await.unwrap().param(&["status"]), "completed");
        }
        let undeclared = gateway.client().modern().connect().await;
        let mut listen = undeclared.start("subscriptions/listen", json!({"notifications": {"taskIds": ["t1.x"]}}));
        assert_eq!(listen.next_method(ACKNOWLEDGED).await.param(&["notifications"]), json!({}));
        let wrong = undeclared.request("subscriptions/listen", json!({"notifications": {"taskIds": "t1.x"}})).await;
        assert_eq!(wrong.error()["code"], -32602);
        let hello = undeclared.request("server/discover", json!({})).await.result();
        assert_ne!(hello["capabilities"]["extensions"][TASKS], Value::Null, "{kind}");
    }
}
