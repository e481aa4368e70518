use std::time::Duration;

use serde_json::json;
use tidings_testkit::*;

#[tokio::test]
async fn a_killed_server_comes_back() {
    for server in crate::both(|| Server::builder("alpha").echo("echo").silent_on("prompts/list")).await {
        let client = Client::of(&server).connect().await;
        let pending = client.start("prompts/list", json!({}));
        server.wait_for_method("prompts/list", 1).await;
        server.kill().await;
        let lost = pending.finish().await;
        assert!(lost.response.is_none() && lost.failure.is_some(), "{lost:?}");
        server.revive().await;
        let client = Client::of(&server).connect().await;
        client.call_tool("echo", json!({})).await.result();
        assert_eq!(server.initializes(), 2);
    }
}

#[tokio::test]
async fn a_process_exits_with_its_code_and_prints() {
    let server = Server::builder("alpha").exit_on("server/discover", 3).echo("echo").stdio().await;
    let probe = Client::of(&server).modern().connect().await;
    server.wait_spawned(1).await;
    server.print_stderr("goodbye");
    probe.stderr().wait_for("a line", |line| line == "goodbye").await;
    let reply = probe.request("server/discover", json!({})).await;
    assert!(reply.failure.is_some());
    assert_eq!(probe.wait_exit().await.code(), Some(3));
    server.wait_all_exited().await;
    let client = Client::of(&server).env("COLOUR", "red").connect().await;
    assert_eq!(server.processes().len(), 2);
    assert_eq!(server.processes()[1].env["COLOUR"], "red");
    assert_eq!(server.processes()[1].pid, client.pid());
    client.close_stdin();
    assert_eq!(client.wait_exit().await.code(), Some(0));
    server.wait_all_exited().await;
}

#[tokio::test]
async fn a_process_may_ignore_the_end_of_its_input() {
    let server = Server::builder("alpha").ignore_eof().echo("echo").stdio().await;
    let client = Client::of(&server).connect().await;
    client.close_stdin();
    server.print_stdout("still here\n");
    client.wait_for(|m| m.text() == "still here").await;
    server.exit(9);
    assert_eq!(client.wait_exit().await.code(), Some(9));
}

#[tokio::test]
async fn an_http_server_dies_of_a_method() {
    let server = Server::builder("alpha").exit_on("tools/list", 1).http().await;
    let client = Client::of(&server).connect().await;
    assert!(client.request("tools/list", json!({})).await.failure.is_some());
}

#[tokio::test]
async fn a_frozen_server_answers_when_it_thaws() {
    for server in crate::both(|| Server::builder("alpha").echo("echo")).await {
        let client = Client::of(&server).connect().await;
        server.freeze();
        let mut pending = client.start("tools/call", json!({"name": "echo", "arguments": {}}));
        let early = tokio::time::timeout(Duration::from_millis(30), pending.next()).await;
        assert!(early.is_err(), "{early:?}");
        server.thaw();
        assert_eq!(pending.finish().await.text(), "{}");
    }
}

#[tokio::test]
async fn delays_and_silence_are_per_method() {
    let delay = Duration::from_millis(50);
    for server in crate::both(|| Server::builder("alpha").delay("tools/list", delay).silent_on("x/y")).await {
        let client = Client::of(&server).connect().await;
        let silent = client.start("x/y", json!({}));
        let start = std::time::Instant::now();
        client.request("tools/list", json!({})).await.result();
        assert!(start.elapsed() >= delay);
        assert!(silent.so_far().response.is_none());
    }
}

#[tokio::test]
async fn hanging_up_gives_no_response() {
    let server = Server::builder("alpha")
        .tool("now", |_| async { ScriptedAnswer::HangUp })
        .tool("later", |call| async move {
            call.progress(1);
            ScriptedAnswer::HangUp
        })
        .modern()
        .http()
        .await;
    for revision in [V2025_06_18, MODERN] {
        let client = Client::of(&server).revision(revision).connect().await;
        assert!(client.call_tool("now", json!({})).await.failure.is_some());
        let params = json!({"name": "later"});
        let reply = client.call("tools/call").params(params).progress_token("1").send().await;
        assert!(reply.response.is_none() && reply.before.len() == 1, "{reply:?}");
    }
}
