//! Clients that know one kind of tasks and servers that know the other: handles of the client's own kind.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::{Value, json};
use tidings_testkit::{Client, ClientReply, Gate, Gateway, ReceivedMessage, Server};

use super::task_jobs::{Jobs, RELATED, TASKS, core, extension, knows_tasks};

async fn ask(client: &Client, method: &str, id: &Value) -> Value {
    client.request(method, json!({"taskId": id})).await.response().value()
}

fn last(server: &Server, method: &str) -> ReceivedMessage {
    server.received().into_iter().rfind(|got| got.method == method).unwrap()
}

fn form(message: &str) -> Value {
    json!({"message": message, "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}})
}

/// Asks until the task is as wanted.
async fn told(client: &Client, id: &Value, fits: impl Fn(&Value) -> bool) -> Value {
    loop {
        let told = ask(client, "tasks/get", id).await["result"].clone();
        assert!(told.is_object(), "the task is known");
        if fits(&told) {
            return told;
        }
    }
}

/// Gateways with this server alone, and with another beside it. No link of the client's own era is tried.
async fn gateways(server: &Server, other: &Server, era: &str) -> Vec<(&'static str, Gateway)> {
    let era = format!("era = \"{era}\"\n");
    let alone = Gateway::builder().server_with("alpha", server, &era).serve().await;
    let several = Gateway::builder().server_with("alpha", server, &era).server("beta", other).serve().await;
    vec![("", alone), ("alpha__", several)]
}

// bridging B7, declaring client and server of 2025-11-25
#[tokio::test]
async fn who_knows_the_extension_gets_its_handle_from_a_server_of_2025_11_25() {
    for is_http in [false, true] {
        let jobs = Jobs::new();
        let server = if is_http { core(&jobs).http().await } else { core(&jobs).stdio().await };
        let other = Server::builder("beta").modern_only().echo("echo").http().await;
        let mut made = 0;
        for (prefix, gateway) in gateways(&server, &other, "legacy").await {
            for client in [gateway.client(), gateway.stdio()] {
                let client = client.modern().capabilities(knows_tasks()).connect().await;
                let hello = client.request("server/discover", json!({})).await.result();
                assert_eq!(hello["capabilities"]["extensions"][TASKS], json!({}));
                let mut begin = async || {
                    made += 1;
                    let created = client.call_tool(&format!("{prefix}must"), json!({})).await.result();
                    (format!("job-{made}"), created)
                };

                let (own, created) = begin().await;
                let id = created["taskId"].clone();
                assert_eq!((&created["resultType"], &created["status"]), (&json!("task"), &json!("working")));
                assert_eq!((&created["ttlMs"], &created["pollIntervalMs"]), (&json!(600_000), &json!(60)));
                assert!(id.as_str().unwrap().starts_with("t1.") && created.get("task").is_none(), "{created}");
                assert_eq!(last(&server, "tools/call").param(&["task"]), json!({}), "the server is asked for a task");
                let got = ask(&client, "tasks/get", &id).await["result"].clone();
                assert_eq!(
                    (&got["taskId"], &got["status"], &got["resultType"]),
                    (&id, &json!("working"), &json!("complete"))
                );
                assert_eq!(last(&server, "tasks/get").param(&["taskId"]), own);

                // Questions stand inside, one at a time is answered, and the server hears each answer once.
                let asked = server.count("tasks/result");
                jobs.set(&own, json!({"status": "input_required", "asks": [form("first"), form("second")]}));
                let got =
                    told(&client, &id, |got| got["inputRequests"].as_object().is_some_and(|all| all.len() == 2)).await;
                assert_eq!(got["status"], "input_required");
                let says = if prefix.is_empty() { "first" } else { "[alpha] first" };
                let entries = got["inputRequests"].as_object().unwrap();
                let first = entries.iter().find(|(_, entry)| entry["params"]["message"] == says).unwrap().0.clone();
                let second = entries.keys().find(|key| **key != first).unwrap().clone();
                let update = async |key: &str, name: &str| {
                    let given = json!({key: {"action": "accept", "content": {"name": name}}, "unknown": {}});
                    let update = json!({"taskId": id, "inputResponses": given});
                    assert_eq!(
                        client.request("tasks/update", update).await.result(),
                        json!({"resultType": "complete"})
                    );
                };
                update(&first, "Ada").await;
                let got = ask(&client, "tasks/get", &id).await["result"].clone();
                assert_eq!(got["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), [&second]);
                update(&first, "Eve").await;
                update(&second, "Bob").await;
                let over = told(&client, &id, |got| got["status"] == "completed").await;
                let text = over["result"]["content"][0]["text"].as_str().unwrap();
                assert!(text.contains("Ada") && text.contains("Bob") && !text.contains("Eve"), "{text}");
                assert!(!over.to_string().contains(RELATED), "its words of another kind stay behind: {over}");
                assert_eq!(server.count("tasks/result"), asked + 1, "what was waited for is kept");

                let (own, created) = begin().await;
                let link = json!({"type": "resource_link", "name": "n", "uri": "file:///r"});
                jobs.set(&own, json!({"status": "failed", "result": {"content": [link], "isError": true}}));
                let over = ask(&client, "tasks/get", &created["taskId"]).await["result"].clone();
                assert_eq!(
                    (&over["status"], &over["result"]["isError"]),
                    (&json!("completed"), &json!(true)),
                    "{over}"
                );
                let uri = if prefix.is_empty() { "file:///r" } else { "alpha+file:///r" };
                assert_eq!(over["result"]["content"][0]["uri"], uri);
                assert_eq!(
                    ask(&client, "tasks/cancel", &created["taskId"]).await["result"],
                    json!({"resultType": "complete"})
                );

                let (own, created) = begin().await;
                jobs.set(&own, json!({"status": "failed", "error": {"code": -32050, "message": "broken"}}));
                let over = ask(&client, "tasks/get", &created["taskId"]).await["result"].clone();
                assert_eq!((&over["status"], &over["error"]["code"]), (&json!("failed"), &json!(-32050)), "{over}");

                let (own, created) = begin().await;
                let taken = ask(&client, "tasks/cancel", &created["taskId"]).await["result"].clone();
                assert_eq!(taken, json!({"resultType": "complete"}));
                assert_eq!(jobs.get(&own).unwrap()["status"], "cancelled");
                jobs.complete(&own, "after all");
                assert_eq!(ask(&client, "tasks/get", &created["taskId"]).await["result"]["status"], "cancelled");

                for (method, id) in
                    [("tasks/get", json!(own)), ("tasks/cancel", json!("t1.AAAA")), ("tasks/update", json!(""))]
                {
                    assert_eq!(ask(&client, method, &id).await["error"]["code"], -32602, "{method}");
                }
                let plain = client.call_tool(&format!("{prefix}may"), json!({})).await;
                assert_eq!(plain.text(), "at once", "a tool that need not be a task is called in the ordinary way");
            }
        }
        server.assert_clean();
    }
}

// bridging B7, declaring client and server of 2025-11-25
#[tokio::test]
async fn what_a_task_asks_that_its_client_does_not_declare_is_refused() {
    let jobs = Jobs::new();
    let server = core(&jobs).http().await;
    let gateway = Gateway::builder().server("alpha", &server).serve().await;
    let client = gateway.client().modern().capabilities(json!({"extensions": {TASKS: {}}})).connect().await;
    let id = client.call_tool("must", json!({})).await.result()["taskId"].clone();
    jobs.set("job-1", json!({"status": "input_required", "asks": form("who")}));
    let over = told(&client, &id, |got| got["status"] == "completed").await;
    assert!(over["result"]["content"][0]["text"].as_str().unwrap().contains("cancel"), "{over}");
}

// bridging B7, client of 2025-11-25 and extension
#[tokio::test]
async fn a_client_of_2025_11_25_gets_its_handle_from_a_server_with_the_extension() {
    for is_http in [false, true] {
        let jobs = Jobs::new();
        let server = if is_http { extension(&jobs).http().await } else { extension(&jobs).stdio().await };
        let other = Server::builder("beta").echo("echo").stdio().await;
        let mut made = 0;
        for (prefix, gateway) in gateways(&server, &other, "modern").await {
            for client in [gateway.client(), gateway.stdio()] {
                let client = client.capabilities(json!({"elicitation": {}})).connect().await;
                client.on_request(|_| ClientReply::Result(json!({"action": "accept", "content": {"name": "Ada"}})));
                let tasks = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
                assert_eq!(client.initialize_result()["capabilities"]["tasks"], tasks);
                for tool in client.list("tools").await {
                    let is_of_alpha = tool["name"].as_str().unwrap().starts_with(prefix);
                    let says = if is_of_alpha { json!({"taskSupport": "optional"}) } else { Value::Null };
                    assert_eq!(tool["execution"], says, "{tool}");
                }
                let make = async |tool: &str| {
                    let params =
                        json!({"name": format!("{prefix}{tool}"), "arguments": {"a": 1}, "task": {"ttl": 60_000}});
                    client.request("tools/call", params).await.result()["task"].clone()
                };
                let mut begin = async || {
                    made += 1;
                    (format!("job-{made}"), make("must").await)
                };

                let (own, task) = begin().await;
                let id = task["taskId"].clone();
                assert_eq!(
                    (&task["status"], &task["ttl"], &task["pollInterval"]),
                    (&json!("working"), &json!(600_000), &json!(60))
                );
                assert!(id.as_str().unwrap().starts_with("t1."), "{task}");
                assert!(last(&server, "tools/call").param(&["task"]).is_null(), "the extension knows no such wish");
                let got = ask(&client, "tasks/get", &id).await["result"].clone();
                assert_eq!((&got["taskId"], &got["status"]), (&id, &json!("working")), "{got}");
                assert!(got.get("resultType").is_none() && got.get("ttlMs").is_none(), "{got}");
                let waiting = client.start("tasks/result", json!({"taskId": id}));
                let asked = json!({"k": {"method": "elicitation/create", "params": form("who")}});
                jobs.set(&own, json!({"status": "input_required", "inputRequests": asked}));
                let outcome = waiting.finish().await;
                assert!(outcome.text().contains("Ada"), "{}", outcome.text());
                assert_eq!(outcome.result()["_meta"][RELATED]["taskId"], id);
                let question = client.wait_for_method("elicitation/create", 1).await;
                assert_eq!(question.param(&["_meta", RELATED, "taskId"]), id, "it says which task asks");
                let given = last(&server, "tasks/update").param(&["inputResponses", "k", "content", "name"]);
                assert_eq!(given, "Ada");
                assert_eq!(client.request("tasks/result", json!({"taskId": id})).await.text(), outcome.text(), "again");

                let (own, task) = begin().await;
                jobs.set(&own, json!({"status": "completed", "result": {"content": [], "isError": true}}));
                assert_eq!(ask(&client, "tasks/get", &task["taskId"]).await["result"]["status"], "failed");
                let outcome = ask(&client, "tasks/result", &task["taskId"]).await["result"].clone();
                assert_eq!(outcome["isError"], true, "{outcome}");
                let failed = task["taskId"].clone();

                let (own, task) = begin().await;
                jobs.set(&own, json!({"status": "failed", "error": {"code": -32050, "message": "broken"}}));
                assert_eq!(ask(&client, "tasks/get", &task["taskId"]).await["result"]["status"], "failed");
                assert_eq!(ask(&client, "tasks/result", &task["taskId"]).await["error"]["code"], -32050);

                let (own, task) = begin().await;
                let waiting = client.start("tasks/result", json!({"taskId": task["taskId"]}));
                assert_eq!(ask(&client, "tasks/cancel", &task["taskId"]).await["result"]["status"], "cancelled");
                assert!(waiting.finish().await.text().contains("cancelled"), "whoever waits is told");
                jobs.complete(&own, "after all");
                assert_eq!(ask(&client, "tasks/get", &task["taskId"]).await["result"]["status"], "cancelled");
                assert!(
                    client
                        .request("tasks/result", json!({"taskId": task["taskId"]}))
                        .await
                        .text()
                        .contains("cancelled")
                );
                assert_eq!(ask(&client, "tasks/cancel", &task["taskId"]).await["error"]["code"], -32602, "it is over");

                // A server that answers at once has not made a task; the client gets one all the same, which is over.
                let task = make("plain").await;
                assert_eq!((&task["status"], &task["ttl"]), (&json!("completed"), &json!(60_000)), "{task}");
                let asked = server.received().len();
                assert_eq!(ask(&client, "tasks/get", &task["taskId"]).await["result"]["status"], "completed");
                for _ in 0..2 {
                    let outcome = client.request("tasks/result", json!({"taskId": task["taskId"]})).await;
                    assert_eq!(outcome.text(), r#"{"a":1}"#);
                    assert_eq!(outcome.result()["_meta"][RELATED]["taskId"], task["taskId"]);
                }
                assert_eq!(ask(&client, "tasks/cancel", &task["taskId"]).await["error"]["code"], -32602);
                assert_eq!(server.received().len(), asked, "the server knows nothing of it");

                let all = client.request("tasks/list", json!({})).await.result();
                let status = |id: &Value| {
                    let all = all["tasks"].as_array().unwrap();
                    all.iter().find(|task| task["taskId"] == *id).map(|task| task["status"].clone()).unwrap()
                };
                assert_eq!((status(&id), status(&failed)), (json!("completed"), json!("failed")), "{all}");
                assert_eq!(status(&task["taskId"]), "completed");

                let plain = client.call_tool(&format!("{prefix}may"), json!({})).await;
                assert_eq!(plain.text(), "at once", "who asks for no task gets none");
            }
        }
        server.assert_clean();
    }
}

// bridging B7
#[tokio::test]
async fn handles_of_the_other_kind_are_good_after_a_restart_of_the_gateway() {
    for era in ["legacy", "modern"] {
        let jobs = Jobs::new();
        let server = if era == "legacy" { core(&jobs).http().await } else { extension(&jobs).http().await };
        let gateway = Gateway::builder().server_with("alpha", &server, &format!("era = \"{era}\"\n")).serve().await;
        let connect = async |gateway: &Gateway| match era {
            "legacy" => gateway.client().modern().capabilities(knows_tasks()).connect().await,
            _ => gateway.client().connect().await,
        };
        let client = connect(&gateway).await;
        let created = client.request("tools/call", json!({"name": "must", "arguments": {}, "task": {}})).await.result();
        let id = if era == "legacy" { created["taskId"].clone() } else { created["task"]["taskId"].clone() };
        gateway.kill().await;
        let gateway = gateway.again().await;
        let client = connect(&gateway).await;
        assert_eq!(ask(&client, "tasks/get", &id).await["result"]["status"], "working", "{era}");
        jobs.complete("job-1", "done");
        let over = ask(&client, "tasks/get", &id).await["result"].clone();
        assert_eq!(over["status"], "completed");
        match era {
            "legacy" => assert_eq!(over["result"]["content"][0]["text"], "done"),
            _ => assert_eq!(client.request("tasks/result", json!({"taskId": id})).await.text(), "done"),
        }
    }
}

// bridging B7: at the start, the first call may come before the list that says how its tool is to be run
#[tokio::test]
async fn a_call_before_the_list_waits_for_what_the_list_says_of_its_tool() {
    let (jobs, gate) = (Jobs::new(), Gate::new());
    let server = core(&jobs).hold("tools/list", &gate).stdio().await;
    gate.open();
    let gateway = Gateway::builder().server("alpha", &server).serve().await;
    gate.close();
    let listed = gate.arrived();
    // A process of its own, which begins with the first word of this client.
    let client = gateway.stdio().modern().capabilities(knows_tasks()).connect().await;
    let list = client.start("tools/list", json!({}));
    gate.reached(listed + 1).await;
    let call = client.start("tools/call", json!({"name": "must", "arguments": {}}));
    // What no list says anything of is passed on meanwhile: the gateway has looked at the call before it.
    client.request("prompts/get", json!({"name": "any"})).await;
    assert_eq!(server.count("tools/call"), 0, "how to send it is not known yet");
    gate.open();
    list.finish().await.result();
    assert!(call.finish().await.result()["taskId"].is_string());
}
