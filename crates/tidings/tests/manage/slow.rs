//! A server that never starts: others are not held up, and whoever stops waiting for it has cancelled.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidings_testkit::{Gateway, eventually, tidings, within};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::{quick, server};

/// The processes of this test that sleep for so many seconds.
fn sleeping(seconds: &str) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let is_it = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line == format!("sleep\0{seconds}\0").as_bytes()
    };
    processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_it).collect()
}

/// Types a command that waits; it is there when its server is.
async fn add_hanging(gateway: &Gateway, seconds: &str) -> Child {
    let mut command = Command::new(tidings());
    command.arg("--data").arg(gateway.data()).args(["add", "hang", "--", "sleep", seconds]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let child = command.spawn().unwrap();
    eventually("the server that never starts", || sleeping(seconds).first().copied()).await;
    child
}

async fn servers(gateway: &Gateway) -> Vec<Value> {
    let (_, body) = gateway.api("GET", "/servers", Value::Null).await;
    body["servers"].as_array().unwrap().iter().map(|server| server["name"].clone()).collect()
}

/// Nothing of it is there: no process, no entry, no row in the store.
async fn is_undone(gateway: &Gateway, seconds: &str) {
    eventually("the end of its process", || sleeping(seconds).is_empty().then_some(())).await;
    assert!(!servers(gateway).await.contains(&json!("hang")));
    let listed = gateway.command(&["servers"]).await;
    assert!(!String::from_utf8_lossy(&listed.stdout).contains("hang"), "{listed:?}");
}

// edges F4
#[tokio::test]
async fn a_server_that_never_starts_holds_up_nobody_and_goes_with_the_command() {
    let (one, two) = (server("one").await, server("two").await);
    let gateway = quick().server("one", &one).serve().await;
    for (seconds, signal) in [("1000.101", "INT"), ("1000.102", "KILL")] {
        let mut adding = add_hanging(&gateway, seconds).await;
        let begun = Instant::now();
        let (program, args) = two.command();
        let added = gateway.command(&["add", "two", "--", &program, &args[0]]).await;
        assert!(added.status.success(), "{added:?}");
        let (_, text) = gateway.api("POST", "/reload", Value::Null).await;
        assert_eq!(text["added"], json!([]), "{text}");
        let removed = gateway.command(&["remove", "two"]).await;
        assert!(removed.status.success(), "{removed:?}");
        assert!(begun.elapsed() < Duration::from_secs(20), "far less than a server may take to start");
        // It says what it waits for.
        let mut lines = BufReader::new(adding.stderr.take().unwrap()).lines();
        let line = within("a line about what is waited for", lines.next_line()).await.unwrap().unwrap();
        assert!(line.contains("Waiting for hang to start"), "{line}");
        assert!(adding.try_wait().unwrap().is_none(), "it waits on");
        let pid = adding.id().unwrap().to_string();
        assert!(Command::new("kill").args([&format!("-{signal}"), &pid]).status().await.unwrap().success());
        within("the end of the command", adding.wait()).await.unwrap();
        is_undone(&gateway, seconds).await;
    }
    // Also after a restart.
    assert!(gateway.terminate().await.success());
    let gateway = gateway.again().await;
    assert_eq!(servers(&gateway).await, [json!("one")]);
}

// edges F4
#[tokio::test]
async fn a_request_whose_connection_is_closed_is_cancelled() {
    let one = server("one").await;
    let gateway = quick().server("one", &one).serve().await;
    let token = std::fs::read_to_string(gateway.data().join("admin.token")).unwrap();
    let body = json!({"command": "sleep", "args": ["1000.103"]}).to_string();
    let address = gateway.base_url().trim_start_matches("http://").to_owned();
    let head = format!(
        "PUT /api/v1/servers/hang HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\ncontent-length: {}\r\n\r\n{body}",
        token.trim(),
        body.len()
    );
    let mut stream = tokio::net::TcpStream::connect(&address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    eventually("the server that never starts", || sleeping("1000.103").first().copied()).await;
    drop(stream);
    is_undone(&gateway, "1000.103").await;
}
