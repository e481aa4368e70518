//! `mcp_registry_exec` is the client's own request to the tool.

use serde_json::json;
use tidings_testkit::{Client, Exchange, Gate, RequestBuilder, Server};

use crate::{clock, launch, refusal, with_tools};

fn exec<'a>(client: &'a Client, tool: &str) -> RequestBuilder<'a> {
    let arguments = json!({"tool_name": tool, "arguments": {}});
    client.call("tools/call").params(json!({"name": "mcp_registry_exec", "arguments": arguments}))
}

async fn text(client: &Client, tool: &str) -> String {
    let answer: Exchange = exec(client, tool).send().await;
    answer.text()
}

// S4.5; S2.3, S2.1
#[tokio::test]
async fn prefixes_with_underscores_progress_and_cancellation_work() {
    let gate = Gate::new();
    let held = gate.clone();
    let server = clock()
        .tool("wait_a_bit", move |call| {
            let gate = held.clone();
            async move {
                call.progress(json!({"progress": 1, "total": 2}));
                tokio::select! {
                    () = gate.wait() => call.ok_text("done"),
                    () = call.cancelled() => call.ok_text("too late"),
                }
            }
        })
        .stdio()
        .await;
    let gateway = with_tools("").serve().await;
    launch(&gateway.client().connect().await, "my_old_clock", &server).await;
    for client in [gateway.client().connect().await, gateway.client().modern().connect().await] {
        assert_eq!(text(&client, "mcp_my_old_clock_now").await, "noon");
        assert_eq!(text(&client, "my_old_clock__now").await, "noon");
        let mut running = exec(&client, "mcp_my_old_clock_wait_a_bit").progress_token("\"t\"").start();
        let progress = running.next_method("notifications/progress").await.params();
        assert_eq!(progress, json!({"progressToken": "t", "progress": 1, "total": 2}));
        let before = server.count("notifications/cancelled");
        client.cancel(&running).await;
        drop(running);
        server.wait_for_method("notifications/cancelled", before + 1).await;
    }
}

// S4.5: all of a result survives
#[tokio::test]
async fn the_result_is_the_tools_own() {
    let result = json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        "structuredContent": {"n": 5.5}, "isError": false});
    let own = result.clone();
    let server = Server::builder("s")
        .tool("t", move |call| {
            let answer = call.ok(own.clone());
            async move { answer }
        })
        .stdio()
        .await;
    let gateway = with_tools("").server("a", &server).server("b", &server).serve().await;
    let client = gateway.client().connect().await;
    let answer = exec(&client, "mcp_a_t").send().await.result();
    for key in ["content", "structuredContent", "isError"] {
        assert_eq!(answer[key], result[key]);
    }
}

// S4.5
#[tokio::test]
async fn names_that_mean_nothing_or_two_things_are_explained() {
    let one = Server::builder("one").echo("b_c").stdio().await;
    let two = Server::builder("two").echo("c").stdio().await;
    let gateway = with_tools("").server("a", &one).server("a_b", &two).serve().await;
    let client = gateway.client().connect().await;
    let problem = refusal(&client, "exec", json!({"tool_name": "mcp_a_b_c"})).await;
    assert_eq!(problem, "\"mcp_a_b_c\" can mean a__b_c or a_b__c; use that name");
    let problem = refusal(&client, "exec", json!({"tool_name": "mcp_x_y"})).await;
    assert_eq!(problem, "there is no tool \"mcp_x_y\"; mcp_registry_active shows the tools of every server");
    let problem = refusal(&client, "exec", json!({"tool_name": "mcp_registry_exec"})).await;
    assert_eq!(problem, "mcp_registry_exec is called by its own name");
    let problem = refusal(&client, "exec", json!({"tool_name": "a__b_c", "arguments": "{}"})).await;
    assert_eq!(problem, "`arguments` must be an object that fits the tool's inputSchema");
    let problem = refusal(&client, "exec", json!({})).await;
    assert!(problem.starts_with("`tool_name` must be the name of a tool"), "{problem}");
}
