//! Servers that fail, hang or die, and lists that do not mind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidings_testkit::{Gateway, ScriptedAnswer, Server};

// bridging A1 (lists)
#[tokio::test]
async fn servers_that_fail_are_left_out_of_lists() {
    let good = Server::builder("good").echo("echo").resource("file:///a", "a").stdio().await;
    let refusing = Server::builder("refusing")
        .on_raw("initialize", |_| async { ScriptedAnswer::error(-32603, "not today") })
        .stdio()
        .await;
    let dead = Server::builder("dead").echo("echo").http().await;
    dead.kill().await;
    let broken = Server::builder("broken")
        .on_raw("tools/list", |_| async { ScriptedAnswer::error(-32603, "no list") })
        .prompt("p", |call| async move { call.ok_message("hi") })
        .stdio()
        .await;
    let gateway = Gateway::builder()
        .server("refusing", &refusing)
        .server("dead", &dead)
        .toml("[servers.missing]\ncommand = \"/no/such/program\"")
        .server("broken", &broken)
        .server("good", &good)
        .serve()
        .await;
    for client in [gateway.client().connect().await, gateway.client().modern().connect().await] {
        assert_eq!(client.names("tools").await, ["good__echo"]);
        assert_eq!(client.names("resources").await, ["good+file:///a"]);
        assert_eq!(client.names("prompts").await, ["broken__p"], "one list that fails costs only itself");
        assert!(client.names("templates").await.is_empty());
        assert_eq!(client.call_tool("good__echo", json!({})).await.text(), "{}");
    }
    for (name, word) in [("refusing", "not today"), ("missing", "/no/such/program"), ("dead", "refused")] {
        let status = gateway.server_status(name).await;
        assert_ne!(status["state"], "ready", "{status}");
        assert!(status["error"].as_str().is_some_and(|error| error.contains(word)), "{status}");
    }
}

// interface (start_wait)
#[tokio::test]
async fn a_server_that_hangs_delays_the_first_list_by_start_wait_at_most() {
    // Long enough for the good server to start on a busy machine.
    const WAIT: Duration = Duration::from_secs(3);
    let good = Server::builder("good").echo("echo").stdio().await;
    let hanging = Server::builder("hanging").silent_on("server/discover").silent_on("initialize").stdio().await;
    let begun = Instant::now();
    let gateway = Gateway::builder()
        .toml("[gateway]\nstart_wait = \"3s\"")
        .server("good", &good)
        .server("hanging", &hanging)
        .without_waiting()
        .serve()
        .await;
    let client = gateway.client().connect().await;
    let called = client.call_tool("good__echo", json!({})).await;
    assert_eq!(called.text(), "{}", "no call waits for another server");
    assert_eq!(client.names("tools").await, ["good__echo"]);
    let took = begun.elapsed();
    assert!(took >= WAIT, "it did wait for the other: {took:?}");
    assert!(took < WAIT * 3, "{took:?}");
    let again = Instant::now();
    assert_eq!(client.names("tools").await, ["good__echo"]);
    assert!(again.elapsed() < WAIT, "only the first one waits: {:?}", again.elapsed());
    assert_eq!(gateway.server_status("hanging").await["state"], "connecting");
}

// interface (start and end)
#[tokio::test]
async fn the_first_list_waits_for_a_slow_server() {
    let slow = Server::builder("slow").delay("initialize", Duration::from_millis(300)).echo("echo").stdio().await;
    let quick = Server::builder("quick").echo("echo").stdio().await;
    let gateway = Gateway::builder().server("slow", &slow).server("quick", &quick).without_waiting().serve().await;
    let client = gateway.client().connect().await;
    assert_eq!(client.names("tools").await, ["slow__echo", "quick__echo"]);
    assert_eq!(gateway.get("/readyz").await.0, 200);
}

// bridging A1 (lists), S3.4
#[tokio::test]
async fn a_dead_server_is_shown_with_its_error_and_comes_back_by_itself() {
    let on_pipe = Server::builder("pipe").echo("echo").stdio().await;
    let on_port = Server::builder("port").echo("echo").http().await;
    let gateway = Gateway::builder().server("pipe", &on_pipe).server("port", &on_port).serve().await;
    let client = gateway.client().connect().await;
    for (name, server) in [("pipe", &on_pipe), ("port", &on_port)] {
        let tool = format!("{name}__echo");
        let before = gateway.server_status(name).await;
        assert_eq!(
            (&before["state"], &before["error"], &before["connects"]),
            (&json!("ready"), &json!(null), &json!(1))
        );
        server.kill().await;
        // A server on HTTP is found dead by whoever needs it.
        let reply = client.call_tool(&tool, json!({})).await;
        assert_eq!(reply.error_code(), -32603);
        let failing = gateway.wait_server(name, "failing", |now| now["state"] == "failing").await;
        assert!(failing["error"].as_str().is_some_and(|error| !error.is_empty()), "{failing}");
        assert_eq!(client.names("tools").await, ["pipe__echo", "port__echo"], "its last list is served on");
        server.revive().await;
        let ready = gateway.wait_server(name, "ready", |now| now["state"] == "ready").await;
        assert_eq!((&ready["error"], &ready["connects"], &ready["tools"]), (&json!(null), &json!(2), &json!(1)));
        assert_eq!(client.call_tool(&tool, json!({"a": 1})).await.text(), r#"{"a":1}"#, "in the same session");
    }
}

// edges G6
#[tokio::test]
async fn a_list_that_is_none_leaves_the_one_that_was_known_and_is_said() {
    for broken in ["{}", r#"{"tools":"x"}"#, "null"] {
        let fails = Arc::new(AtomicBool::new(false));
        let is_broken = Arc::clone(&fails);
        let server = Server::builder("alpha")
            .echo("echo")
            .on_raw("tools/list", move |call| {
                let is_broken = is_broken.load(Ordering::SeqCst);
                async move {
                    match is_broken {
                        true => call.result_raw(broken),
                        false => call.ok(json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})),
                    }
                }
            })
            .stdio()
            .await;
        let gateway = Gateway::builder().server("alpha", &server).quick().serve().await;
        let client = gateway.client().connect().await;
        assert_eq!(client.names("tools").await, ["echo"]);
        fails.store(true, Ordering::SeqCst);
        server.list_changed("tools");
        let is_said =
            |status: &Value| status["failed_lists"][0]["error"].as_str().is_some_and(|e| e.contains("tools/list"));
        let status = gateway.wait_server("alpha", "known to fail its list", is_said).await;
        assert_eq!((&status["state"], &status["tools"]), (&json!("ready"), &json!(1)), "{status}");
        assert_eq!(client.names("tools").await, ["echo"], "{broken}");
        assert_eq!(client.call_tool("echo", json!({})).await.text(), "{}");
        // It mends itself.
        fails.store(false, Ordering::SeqCst);
        server.list_changed("tools");
        gateway.wait_server("alpha", "whole again", |status| status["failed_lists"] == json!([])).await;
    }
}
