//! Clients and servers that know the same kind of tasks: ids lead back to the server, and to nobody else's task.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::{Value, json};
use tidings_testkit::{Client, ClientReply, Gateway, ReceivedMessage, Server, V2025_06_18};

use super::task_jobs::{Jobs, RELATED, TASKS, core, extension, knows_tasks};

async fn make(client: &Client, tool: &str) -> Value {
    let params = json!({"name": tool, "arguments": {}, "task": {"ttl": 60_000}});
    client.request("tools/call", params).await.result()
}

async fn ask(client: &Client, method: &str, id: &Value) -> Value {
    client.request(method, json!({"taskId": id})).await.response().value()
}

fn last(server: &Server, method: &str) -> ReceivedMessage {
    server.received().into_iter().rfind(|got| got.method == method).unwrap()
}

/// Gateways with this server alone, and with others beside it.
async fn gateways(server: &Server, other: &Server) -> Vec<(&'static str, Gateway)> {
    vec![
        ("", Gateway::builder().server("alpha", server).serve().await),
        ("alpha__", Gateway::builder().server("alpha", server).server("beta", other).serve().await),
    ]
}

// bridging B7, 2025-11-25 both sides
#[tokio::test]
async fn tasks_of_the_core_are_asked_for_listed_and_cancelled_under_ids_of_the_gateway() {
    for is_http in [false, true] {
        let jobs = Jobs::new();
        let server = if is_http { core(&jobs).http().await } else { core(&jobs).stdio().await };
        let other = Server::builder("beta").echo("echo").stdio().await;
        let mut made = 0;
        for (prefix, gateway) in gateways(&server, &other).await {
            for client in [gateway.client().connect().await, gateway.stdio().connect().await] {
                let told = client.initialize_result();
                let tasks = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
                assert_eq!(told["capabilities"]["tasks"], tasks);
                let listed = client.list("tools").await;
                let may = listed.iter().find(|tool| tool["name"] == format!("{prefix}may")).unwrap();
                assert_eq!(may["execution"]["taskSupport"], "optional");

                let created = make(&client, &format!("{prefix}may")).await;
                made += 1;
                let (own, id) = (format!("job-{made}"), created["task"]["taskId"].clone());
                assert!(id.as_str().unwrap().starts_with("t1.") && created["task"]["status"] == "working", "{created}");
                assert_eq!(last(&server, "tools/call").param(&["task"]), json!({"ttl": 60_000}));
                let told = ask(&client, "tasks/get", &id).await;
                assert_eq!((&told["result"]["taskId"], &told["result"]["status"]), (&id, &json!("working")), "{told}");
                assert_eq!(last(&server, "tasks/get").param(&["taskId"]), own);

                // The outcome is waited for.
                let waiting = client.start("tasks/result", json!({"taskId": id}));
                server.wait_for(|got| got.method == "tasks/result" && got.param(&["taskId"]) == own).await;
                jobs.complete(&own, "done");
                let outcome = waiting.finish().await;
                assert_eq!(outcome.text(), "done");
                assert_eq!(outcome.result()["_meta"][RELATED]["taskId"], id);
                // It was last heard to be working; what the list says is asked for.
                let all = client.request("tasks/list", json!({})).await.result();
                let entry = all["tasks"].as_array().unwrap().iter().find(|task| task["taskId"] == id).unwrap();
                assert_eq!(entry["status"], "completed", "{all}");

                let second = make(&client, &format!("{prefix}must")).await["task"]["taskId"].clone();
                made += 1;
                assert_eq!(ask(&client, "tasks/cancel", &second).await["result"]["status"], "cancelled");
                // A server that changes its mind is not believed.
                jobs.complete(&format!("job-{made}"), "after all");
                assert_eq!(ask(&client, "tasks/get", &second).await["result"]["status"], "cancelled");

                for (method, id) in
                    [("tasks/get", json!(own)), ("tasks/cancel", json!("t1.AAAA")), ("tasks/result", json!(""))]
                {
                    assert_eq!(ask(&client, method, &id).await["error"]["code"], -32602, "{method}");
                }
                let plain = client.request("tools/call", json!({"name": format!("{prefix}may"), "arguments": {}}));
                assert_eq!(plain.await.text(), "at once", "who asks for no task gets none");
            }
            let old = gateway.client().revision(V2025_06_18).connect().await;
            assert_eq!(old.initialize_result()["capabilities"]["tasks"], Value::Null);
            assert_eq!(ask(&old, "tasks/get", &json!("x")).await["error"]["code"], -32601);
        }
        server.assert_clean();
    }
}

// bridging B7, extension both sides
#[tokio::test]
async fn tasks_of_the_extension_are_asked_for_answered_and_cancelled_under_ids_of_the_gateway() {
    for is_http in [false, true] {
        let jobs = Jobs::new();
        let server = if is_http { extension(&jobs).http().await } else { extension(&jobs).stdio().await };
        let other = Server::builder("beta").modern_only().echo("echo").http().await;
        let mut made = 0;
        for (prefix, gateway) in gateways(&server, &other).await {
            for client in [gateway.client(), gateway.stdio()] {
                let client = client.modern().capabilities(knows_tasks()).connect().await;
                let hello = client.request("server/discover", json!({})).await.result();
                assert_eq!(hello["capabilities"]["extensions"][TASKS], json!({}));
                let begin = async || {
                    let call = json!({"name": format!("{prefix}must"), "arguments": {}});
                    client.request("tools/call", call).await.result()
                };
                let created = begin().await;
                made += 1;
                let (own, id) = (format!("job-{made}"), created["taskId"].clone());
                assert_eq!((&created["resultType"], &created["status"]), (&json!("task"), &json!("working")));
                assert!(id.as_str().unwrap().starts_with("t1."), "{created}");
                let told = ask(&client, "tasks/get", &id).await;
                assert_eq!((&told["result"]["taskId"], &told["result"]["status"]), (&id, &json!("working")), "{told}");
                let got = last(&server, "tasks/get");
                assert_eq!(got.param(&["taskId"]), own);
                if is_http {
                    assert_eq!(got.header("mcp-name"), Some(&*own), "the server's own id");
                }
                let question = json!({"message": "who", "requestedSchema": {"type": "object", "properties": {}}});
                let asked = json!({"k": {"method": "elicitation/create", "params": question}});
                jobs.set(&own, json!({"status": "input_required", "inputRequests": asked}));
                let told = ask(&client, "tasks/get", &id).await["result"].clone();
                let says = if prefix.is_empty() { "who" } else { "[alpha] who" };
                assert_eq!(told["inputRequests"]["k"]["params"]["message"], says, "{told}");
                let given = json!({"k": {"action": "decline"}});
                let update = json!({"taskId": id, "inputResponses": given});
                assert_eq!(client.request("tasks/update", update).await.result()["resultType"], "complete");
                let link = json!({"type": "resource_link", "name": "n", "uri": "file:///r"});
                jobs.set(&own, json!({"result": {"content": [link], "heard": given}}));
                let over = ask(&client, "tasks/get", &id).await["result"].clone();
                assert_eq!((&over["status"], &over["result"]["heard"]), (&json!("completed"), &given));
                let uri = if prefix.is_empty() { "file:///r" } else { "alpha+file:///r" };
                assert_eq!(over["result"]["content"][0]["uri"], uri, "what is inside is the client's too: {over}");

                let second = begin().await["taskId"].clone();
                made += 1;
                assert_eq!(ask(&client, "tasks/cancel", &second).await["result"]["resultType"], "complete");
                assert_eq!(ask(&client, "tasks/get", &second).await["result"]["status"], "cancelled");
                assert_eq!(ask(&client, "tasks/get", &json!(own)).await["error"]["code"], -32602);
                for method in ["tasks/list", "tasks/result"] {
                    assert_eq!(ask(&client, method, &id).await["error"]["code"], -32601, "{method}");
                }
            }
            let undeclared = gateway.client().modern().connect().await;
            let refused = ask(&undeclared, "tasks/get", &json!("t1.x")).await["error"].clone();
            assert_eq!(refused["code"], -32021);
            assert_eq!(refused["data"]["requiredCapabilities"]["extensions"], json!({TASKS: {}}));
            let call = json!({"name": format!("{prefix}must"), "arguments": {}});
            assert_eq!(undeclared.request("tools/call", call).await.error()["code"], -32021, "it really lacks it");
        }
        server.assert_clean();
    }
}

// bridging B7
#[tokio::test]
async fn what_a_server_says_about_a_task_reaches_its_owner_alone() {
    for is_http in [false, true] {
        let jobs = Jobs::new();
        let server = if is_http { core(&jobs).http().await } else { core(&jobs).stdio().await };
        let gateway = Gateway::builder().server("alpha", &server).serve().await;
        let able = json!({"elicitation": {}});
        let client = gateway.client().capabilities(able.clone()).connect().await;
        let other = gateway.client().capabilities(able).connect().await;
        let _streams = (client.open_get().await, other.open_get().await);
        for session in [&client, &other] {
            session.on_request(|_| ClientReply::Result(json!({"action": "decline"})));
        }
        let params = json!({"name": "may", "arguments": {}, "task": {}});
        let created = client.call("tools/call").params(params).progress_token("\"mine\"").send().await.result();
        let id = created["task"]["taskId"].clone();
        let token = server.wait_for_method("tools/call", 1).await.param(&["_meta", "progressToken"]);
        let theirs = make(&other, "may").await["task"]["taskId"].clone();
        assert_ne!(id, theirs);

        let status = json!({"taskId": "job-1", "status": "working", "statusMessage": "half", "createdAt": "c",
            "lastUpdatedAt": "u", "ttl": null});
        server.notify("notifications/tasks/status", status);
        let told = client.wait_for_method("notifications/tasks/status", 1).await;
        assert_eq!((told.param(&["taskId"]), told.param(&["statusMessage"])), (id.clone(), json!("half")));
        let related = json!({RELATED: {"taskId": "job-1"}});
        server.notify("notifications/progress", json!({"progressToken": token, "progress": 0.5, "_meta": related}));
        let told = client.wait_for_method("notifications/progress", 1).await;
        assert_eq!((told.param(&["progressToken"]), told.param(&["progress"])), (json!("mine"), json!(0.5)));
        assert_eq!(told.param(&["_meta", RELATED, "taskId"]), id);

        // Two requests wait on the one link, and the question says which of them it is for.
        let (mine, others) = (
            client.start("tasks/result", json!({"taskId": id})),
            other.start("tasks/result", json!({"taskId": theirs})),
        );
        server.wait_for_method("tasks/result", 2).await;
        let form =
            json!({"message": "which", "requestedSchema": {"type": "object", "properties": {}}, "_meta": related});
        let question = json!({"jsonrpc": "2.0", "id": "q1", "method": "elicitation/create", "params": form});
        server.ask_raw(question.to_string());
        let asked = client.wait_for_method("elicitation/create", 1).await;
        assert_eq!(asked.param(&["_meta", RELATED, "taskId"]), id);
        server.wait_for(|got| got.is_response() && got.result()["action"] == "decline").await;
        jobs.complete("job-1", "one");
        jobs.complete("job-2", "two");
        assert_eq!((mine.finish().await.text(), others.finish().await.text()), ("one".into(), "two".into()));
        for method in ["notifications/tasks/status", "notifications/progress", "elicitation/create"] {
            assert!(other.received().iter().all(|got| got.method != method), "{method}");
        }
    }
}

// bridging B7
#[tokio::test]
async fn a_task_is_found_again_after_a_restart_of_the_gateway() {
    let jobs = Jobs::new();
    let server = core(&jobs).http().await;
    let gateway = Gateway::builder().server("alpha", &server).serve().await;
    let id = make(&gateway.client().connect().await, "may").await["task"]["taskId"].clone();
    gateway.kill().await;
    let gateway = gateway.again().await;
    let client = gateway.client().connect().await;
    assert_eq!(ask(&client, "tasks/get", &id).await["result"]["taskId"], id);
    jobs.complete("job-1", "done");
    assert_eq!(client.request("tasks/result", json!({"taskId": id})).await.text(), "done");
}
