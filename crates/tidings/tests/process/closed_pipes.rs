//! Whoever reads standard output or standard error goes away, or never reads.

use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::json;
use tidings_testkit::*;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// A server that prints, so that every part of the gateway that logs has something to say.
async fn talkative() -> Server {
    let server = Server::builder("alpha").echo("echo").stdio().await;
    server.print_stderr("I am here");
    server
}

/// A server that crashes is started again, and can be called.
async fn crash_and_recover(gateway: &Gateway, server: &Server) {
    let connects = gateway.server_status("alpha").await["connects"].as_u64().unwrap();
    server.exit(1);
    let again = |status: &serde_json::Value| {
        status["state"] == "ready" && status["connects"].as_u64().is_some_and(|count| count > connects)
    };
    gateway.wait_server("alpha", "started again", again).await;
    let answer = gateway.client().connect().await.call_tool("echo", json!({"text": "still here"})).await;
    assert_eq!(answer.result()["content"][0]["text"], json!({"text": "still here"}).to_string());
}

// edges F1
#[tokio::test]
async fn a_gateway_whose_output_nobody_reads_restarts_servers_and_ends_on_sigterm() {
    let server = talkative().await;
    let gateway = Gateway::builder().server("alpha", &server).unread().serve().await;
    crash_and_recover(&gateway, &server).await;
    assert!(gateway.terminate().await.success());
}

// edges F1
#[tokio::test]
async fn a_gateway_whose_output_nobody_reads_ends_on_sigint() {
    let server = talkative().await;
    let gateway = Gateway::builder().server("alpha", &server).unread().serve().await;
    assert!(gateway.interrupt().await.success());
}

// edges F1
#[tokio::test]
async fn a_gateway_outlives_the_reader_of_its_standard_error() {
    let server = talkative().await;
    let gateway = Gateway::builder().server("alpha", &server).serve().await;
    gateway.stop_reading();
    crash_and_recover(&gateway, &server).await;
    // The second crash comes when a line was refused for certain.
    crash_and_recover(&gateway, &server).await;
    assert!(gateway.terminate().await.success());
}

// edges F1: a client that pipes the standard error of what it starts, and never reads it, is common.
#[tokio::test]
async fn a_full_pipe_on_standard_error_stops_nothing() {
    let server = talkative().await;
    let gateway = Gateway::builder().server("alpha", &server).env("TIDINGS_LOG", "trace").stalled().serve().await;
    for _ in 0..2_000 {
        server.print_stderr(&"a long line ".repeat(20));
    }
    crash_and_recover(&gateway, &server).await;
    assert!(gateway.terminate().await.success());
}

// edges F1
#[tokio::test]
async fn a_stdio_gateway_serves_a_client_that_closed_its_standard_error() {
    let server = talkative().await;
    let client = Gateway::builder().server("alpha", &server).stdio().unread_stderr().connect().await;
    assert_eq!(client.names("tools").await, ["echo"]);
    server.exit(1);
    server.wait_spawned(2).await;
    let called = within("a call after the crash", async {
        loop {
            let answer = client.call_tool("echo", json!({})).await;
            if answer.response().value().get("result").is_some() {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    assert_eq!(called.await.result()["content"][0]["text"], "{}");
    let pid = rustix::process::Pid::from_raw(i32::try_from(client.pid()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(client.wait_exit().await.success());
}

// edges F1
#[tokio::test]
async fn a_stdio_gateway_ends_when_its_standard_output_is_closed() {
    let folder = TempDir::new();
    let mut command = Command::new(tidings());
    command.args(["stdio", "--data"]).arg(folder.path()).current_dir(folder.path()).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(unread_pipe()).stderr(unread_pipe());
    let mut child = command.spawn().unwrap();
    let params =
        json!({"protocolVersion": V2025_11_25, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let first = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    // Kept open: it is the closed output that ends it, not the end of the input.
    let mut input = child.stdin.take().unwrap();
    input.write_all(format!("{first}\n").as_bytes()).await.unwrap();
    assert!(within("the end of tidings stdio", child.wait()).await.unwrap().success());
}

/// Runs a command to its end. `Command::output` would put a pipe of its own in the place of standard output.
async fn ended(mut command: Command) -> Output {
    let child = command.stdin(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    within(&format!("{command:?}"), child.wait_with_output()).await.unwrap()
}

/// Runs a command whose standard output nobody reads.
async fn unread(gateway: &Gateway, args: &[&str]) -> Output {
    let mut command = Command::new(tidings());
    command.arg("--data").arg(gateway.data()).args(args).current_dir(gateway.data());
    command.stdout(unread_pipe());
    ended(command).await
}

// edges F6
#[tokio::test]
async fn commands_end_quietly_when_nobody_reads_their_list() {
    let server = Server::builder("alpha").echo("echo").resource("file:///a", "a").stdio().await;
    let gateway = Gateway::builder().server("alpha", &server).quick().serve().await;
    server.put_tool(Tool::text_tool("new", "text"));
    server.list_changed("tools");
    gateway.wait_server("alpha", "of two tools", |status| status["tools"] == 2).await;
    let commands: &[&[&str]] = &[
        &[],
        &["tools"],
        &["tools", "echo"],
        &["tools", "--json"],
        &["servers"],
        &["resources"],
        &["prompts"],
        &["status"],
        &["sessions"],
        &["subscriptions"],
        &["changes"],
        &["changes", "--json"],
        // What follows ends at the first line that nobody reads.
        &["changes", "--follow", "--since", "1h"],
        &["call", "echo", "{}"],
        &["read", "file:///a"],
        &["token", "me"],
        &["schema"],
        &["--help"],
    ];
    for args in commands {
        let ended = unread(&gateway, args).await;
        let errors = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "tidings {args:?}: {} {errors}", ended.status);
        assert!(!errors.contains("panicked"), "tidings {args:?}: {errors}");
    }
}

// edges F6: a full disk is no closed pipe.
#[tokio::test]
async fn a_list_that_can_not_be_written_is_a_failure() {
    let gateway = Gateway::builder().toml("").serve().await;
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(tidings());
    command.arg("--data").arg(gateway.data()).arg("schema").stdout(full);
    let ended = ended(command).await;
    assert!(!ended.status.success());
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert!(errors.starts_with("tidings: standard output:"), "{errors}");
}
