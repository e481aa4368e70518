//! What does not reach the callers of tools, and not the log.

use serde_json::json;
use tidings_testkit::{Gateway, Server, within};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

// trust T10
#[tokio::test]
async fn callers_are_told_neither_the_standard_error_of_a_server_nor_bodies_that_it_sends() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url =
        format!("http://user:hush-user@{}/s/hush0123456789abcdef/mcp?key=hush-key", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut peer, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = [0; 4096];
                while peer.read(&mut head).await.is_ok_and(|read| read > 0) {
                    let answer = "HTTP/1.1 500 Oops\r\nContent-Length: 9\r\n\r\nhush-body";
                    let _ = peer.write_all(answer.as_bytes()).await;
                }
            });
        }
    });
    let works = Server::builder("works").echo("echo").stdio().await;
    let toml = format!(
        "[servers.web]\nurl = {url:?}\n[servers.dies]\ncommand = \"sh\"\nargs = [\"-c\", \"echo hush-stderr >&2; exit 3\"]\n"
    );
    let gateway = Gateway::builder().server("works", &works).toml(&toml).env("TIDINGS_LOG", "debug");
    let gateway = gateway.serve().await;
    for name in ["web", "dies"] {
        gateway.wait_server(name, "failing", |row| row["state"] == "failing" && row["error"].is_string()).await;
    }
    let client = gateway.client().connect().await;
    let web = client.request("resources/read", json!({"uri": "web+file:///x"})).await.error();
    let dies = client.request("resources/read", json!({"uri": "dies+file:///x"})).await.error();
    for told in [&web, &dies] {
        assert!(!told.to_string().contains("hush"), "{told}");
    }
    assert!(web.to_string().contains("HTTP status 500") && dies.to_string().contains("exit status: 3"), "{web} {dies}");
    // The operator reads what it said.
    assert!(gateway.server_status("dies").await["error"].to_string().contains("hush-stderr"));
    let keys = ["hush-key", "hush-user", "hush0123"];
    let lines = gateway.stderr().all();
    let leaked: Vec<&String> = lines.iter().filter(|line| keys.iter().any(|key| line.contains(key))).collect();
    assert!(leaked.is_empty(), "{leaked:?}");
    let shown = within("servers", gateway.command(&["servers", "web"])).await;
    assert!(!keys.iter().any(|key| crate::stdout(&shown).contains(key)), "{shown:?}");
}
