//! Clients that know no tasks get what a tool that has to be one says, as the answer to their call.

use serde_json::{Value, json};
use tidings_testkit::{
    Client, ClientReply, Gateway, PendingExchange, Server, V2024_11_05, V2025_06_18, V2025_11_25, answer_all, retry_of,
};

use super::task_jobs::{Jobs, RELATED, TASKS, core, extension};

fn call(client: &Client) -> PendingExchange {
    client.call("tools/call").params(json!({"name": "must", "arguments": {}})).progress_token("\"p\"").start()
}

fn form() -> Value {
    json!({"message": "who", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}})
}

/// Servers of both kinds on both transports.
async fn servers() -> Vec<(&'static str, Jobs, Server)> {
    let mut servers = Vec::new();
    for is_http in [false, true] {
        let jobs = Jobs::new();
        let server = if is_http { core(&jobs).http().await } else { core(&jobs).stdio().await };
        servers.push(("core", jobs, server));
        let jobs = Jobs::new();
        let server = if is_http { extension(&jobs).http().await } else { extension(&jobs).stdio().await };
        servers.push(("extension", jobs, server));
    }
    servers
}

/// No link of the client's own era is tried where the server has none.
async fn gateway(kind: &str, server: &Server) -> Gateway {
    let era = if kind == "core" { "" } else { "era = \"modern\"\n" };
    Gateway::builder().server_with("alpha", server, era).serve().await
}

async fn begun(server: &Server, nth: usize) -> String {
    server.wait_for_method("tasks/get", 1).await;
    let made = |got: &tidings_testkit::ReceivedMessage| {
        got.method == "tasks/get" && got.param(&["taskId"]) == format!("job-{nth}")
    };
    server.wait_for(made).await;
    format!("job-{nth}")
}

/// Clients that know no tasks, as far as the server's kind leaves it to the gateway.
async fn strangers(kind: &str, gateway: &Gateway) -> Vec<Client> {
    let able = json!({"elicitation": {}});
    let mut clients = Vec::new();
    for revision in [V2024_11_05, V2025_06_18, V2025_11_25] {
        clients.push(gateway.client().revision(revision).capabilities(able.clone()).connect().await);
    }
    clients.push(gateway.stdio().capabilities(able).connect().await);
    if kind == "core" {
        let able = json!({"elicitation": {"form": {}}});
        clients.push(gateway.client().modern().capabilities(able.clone()).connect().await);
        clients.push(gateway.stdio().modern().capabilities(able).connect().await);
    }
    clients
}

// bridging B7, no tasks
#[tokio::test]
async fn who_knows_no_tasks_gets_the_outcome_with_progress() {
    for (kind, jobs, server) in servers().await {
        let gateway = gateway(kind, &server).await;
        let mut made = 0;
        for client in strangers(kind, &gateway).await {
            let calling = call(&client);
            made += 1;
            let id = begun(&server, made).await;
            jobs.set(&id, json!({"statusMessage": "half way"}));
            let told = client.wait_for_method("notifications/progress", 1).await;
            assert_eq!(told.param(&["progressToken"]), "p", "{kind}");
            let words = client.revision() != V2024_11_05;
            assert_eq!(told.param(&["message"]), if words { json!("half way") } else { Value::Null });
            jobs.complete(&id, "done");
            let answer = calling.finish().await;
            assert_eq!(answer.text(), "done", "{kind}");
            assert!(answer.result().get("_meta").is_none_or(|meta| !meta.to_string().contains("job-")), "{kind}");
        }
        assert_eq!(server.count("tasks/cancel"), 0, "what is over needs not be cancelled");
        server.assert_clean();
    }
}

// bridging B7, no tasks
#[tokio::test]
async fn a_call_that_nobody_wants_any_more_cancels_its_task() {
    for (kind, jobs, server) in servers().await {
        let gateway = gateway(kind, &server).await;
        let mut made = 0;
        for client in strangers(kind, &gateway).await {
            let calling = call(&client);
            made += 1;
            let id = begun(&server, made).await;
            client.cancel(&calling).await;
            drop(calling);
            jobs.wait(&id, |job| job["status"] == "cancelled").await;
        }
        // Never by a notification: that would be about a request.
        assert_eq!(server.count("tasks/cancel"), made, "{kind}");
    }
}

// bridging B7, no tasks
#[tokio::test]
async fn a_task_asks_a_client_that_knows_none() {
    for (kind, jobs, server) in servers().await {
        let gateway = gateway(kind, &server).await;
        let client = gateway.client().capabilities(json!({"elicitation": {}})).connect().await;
        client.on_request(|_| ClientReply::Result(json!({"action": "accept", "content": {"name": "Ada"}})));
        let calling = call(&client);
        let id = begun(&server, 1).await;
        let asked = json!({"k": {"method": "elicitation/create", "params": form()}});
        jobs.set(&id, json!({"status": "input_required", "asks": form(), "inputRequests": asked}));
        let answer = calling.finish().await.text();
        assert!(answer.contains("Ada"), "{kind}: {answer}");
        let asked: Vec<_> = client.received().into_iter().filter(|got| got.method == "elicitation/create").collect();
        assert_eq!(asked.len(), 1, "{kind}");
        assert!(!asked[0].params_raw().contains(RELATED), "it knows no tasks: {}", asked[0].params_raw());
        if kind == "core" {
            let modern = gateway.client().modern().capabilities(json!({"elicitation": {"form": {}}})).connect().await;
            let params = json!({"name": "must", "arguments": {}});
            let calling = modern.start("tools/call", params.clone());
            let id = begun(&server, 2).await;
            jobs.set(&id, json!({"status": "input_required", "asks": form()}));
            let round = calling.finish().await.result();
            let given =
                answer_all(&round["inputRequests"], |_| json!({"action": "accept", "content": {"name": "Bob"}}));
            let answer = modern.request("tools/call", retry_of(&params, &round, given)).await.text();
            assert!(answer.contains("Bob"), "{answer}");
        } else {
            let declared = server.received().into_iter().filter(|got| got.method == "tools/call");
            let declared: Vec<bool> = declared
                .map(|got| {
                    got.param(&["_meta", "io.modelcontextprotocol/clientCapabilities", "extensions", TASKS]).is_object()
                })
                .collect();
            assert_eq!(declared, [false, true], "first refused, and then sent by one who knows tasks");
        }
        server.assert_clean();
    }
}

// bridging B7, status
#[tokio::test]
async fn a_task_that_comes_to_nothing_is_said_to() {
    for (kind, jobs, server) in servers().await {
        let gateway = gateway(kind, &server).await;
        let client = gateway.client().connect().await;
        let calling = call(&client);
        let id = begun(&server, 1).await;
        jobs.set(&id, json!({"status": "failed", "error": {"code": -32050, "message": "broken"}}));
        let answer = calling.finish().await.error();
        assert_eq!((&answer["code"], &answer["message"]), (&json!(-32050), &json!("broken")), "{kind}");
        let calling = call(&client);
        let id = begun(&server, 2).await;
        jobs.set(&id, json!({"status": "cancelled", "statusMessage": "no time"}));
        let answer = calling.finish().await;
        assert_eq!(answer.result()["isError"], true, "{kind}");
        assert!(answer.text().contains("no time"), "{kind}: {}", answer.text());
        assert_eq!(server.count("tasks/cancel"), 0, "{kind}");
    }
}
