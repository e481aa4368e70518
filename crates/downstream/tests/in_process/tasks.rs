//! Tasks of the gateway: when it has ended, none is left.

use std::time::Instant;

use serde_json::{Value, json};
use tidings_testkit::{Client, Gate};

use super::*;

/// Aborted tasks are gone when the runtime has looked at them once more.
const MOMENT: Duration = Duration::from_secs(2);

async fn server(name: &str, gate: &Gate, modern: bool, http: bool) -> Server {
    let gate = gate.clone();
    let builder = Server::builder(name)
        .capabilities(json!({"tools": {"listChanged": true}, "resources": {"subscribe": true}}))
        .resource("memo:///note", "text")
        .tool("quick", |call| async move { call.ok_text("done") })
        .tool("slow", move |call| {
            let gate = gate.clone();
            async move {
                gate.wait().await;
                call.ok_text("late")
            }
        });
    let builder = if modern { builder.modern_only() } else { builder };
    if http { builder.http().await } else { builder.stdio().await }
}

/// What a client may do: call, follow, leave in the middle of a call, cancel one.
async fn visit(client: &Client, modern: bool, gate: &Gate) {
    for name in ["pipe", "newpipe", "web", "newweb"] {
        let tool = |tool: &str| -> Value { json!({"name": format!("{name}__{tool}"), "arguments": {}}) };
        client.request("tools/call", tool("quick")).await.result();
        let uri = format!("{name}+memo:///note");
        if modern {
            let wanted = json!({"toolsListChanged": true, "resourceSubscriptions": [uri]});
            let mut listen = client.start("subscriptions/listen", json!({ "notifications": wanted }));
            listen.next_method("notifications/subscriptions/acknowledged").await;
        } else {
            client.request("resources/subscribe", json!({ "uri": uri })).await.result();
        }
        let before = gate.arrived();
        let running = client.start("tools/call", tool("slow"));
        gate.reached(before + 1).await;
        if !modern {
            client.cancel(&running).await;
        }
        drop(running);
    }
}

// edges D5, invariant 10
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_has_ended_has_no_task_left() {
    let gate = Gate::new();
    let (pipe, newpipe) = (server("pipe", &gate, false, false).await, server("newpipe", &gate, true, false).await);
    let (web, newweb) = (server("web", &gate, false, true).await, server("newweb", &gate, true, true).await);
    // A runtime of its own, so that nothing but its tasks is counted.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let servers = vec![
        plan("pipe", as_process(&pipe)),
        plan("newpipe", as_process(&newpipe)),
        plan("web", at_url(&web)),
        plan("newweb", at_url(&newweb)),
    ];
    let gateway = runtime.spawn(Serving::start(servers, EndpointOptions::default())).await.unwrap();
    let legacy = Client::http(&gateway.url).connect().await;
    let stream = legacy.open_get().await;
    let modern = Client::http(&gateway.url).modern().connect().await;
    visit(&legacy, false, &gate).await;
    visit(&modern, true, &gate).await;
    web.close_get_streams();
    newweb.end_listens();
    pipe.kill().await;
    pipe.revive().await;
    assert!(runtime.metrics().num_alive_tasks() > 0, "nothing is counted");
    runtime.spawn(gateway.end()).await.unwrap();
    let end = Instant::now();
    while runtime.metrics().num_alive_tasks() > 0 {
        assert!(end.elapsed() < MOMENT, "{} tasks are left", runtime.metrics().num_alive_tasks());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    drop(stream);
    runtime.shutdown_background();
}
