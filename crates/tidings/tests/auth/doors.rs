//! Who comes in at all: the API, listeners that others can reach, and tokens that the program makes.

use std::process::{Output, Stdio};

use serde_json::{Value, json};
use tidings_testkit::{Client, Gateway, TempDir, tidings, within};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use crate::{auth, full, guarded, quick};

async fn run(args: &[&str]) -> Output {
    let mut command = Command::new(tidings());
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    within("the command", command.output()).await.unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

async fn api(gateway: &Gateway, authorization: &str) -> (u16, String) {
    let client = Client::http(format!("{}/api/v1/servers", gateway.base_url())).raw().connect().await;
    let reply = client.send_http("GET", "", &[("authorization", authorization)]).await;
    (reply.status, format!("{reply:?}"))
}

// issue 6.8; interface (HTTP API)
#[tokio::test]
async fn the_api_is_for_admin_tokens_and_the_key_of_the_data_directory() {
    let red = full("red").stdio().await;
    let gateway = guarded().server("red", &red).serve().await;
    let key = std::fs::read_to_string(gateway.data().join("admin.token")).unwrap();
    for (token, status) in [("token-boss", 200), (key.trim(), 200), ("token-all", 403), ("token-red", 403), ("x", 401)]
    {
        let (found, reply) = api(&gateway, &format!("Bearer {token}")).await;
        assert_eq!(found, status, "{token}: {reply}");
    }
    assert_eq!(api(&gateway, "").await.0, 401);
    let open = Gateway::builder().server("red", &red).serve().await;
    assert_eq!(api(&open, "Bearer token-boss").await.0, 401, "without [auth] the key alone opens it");
    assert_eq!(open.get_as_admin("/api/v1/servers").await.0, 200);
}

// issue 6.8; interface ([auth])
#[tokio::test]
async fn a_listener_that_others_can_reach_needs_tokens() {
    let dir = TempDir::new();
    let data = dir.join("data");
    let data = data.to_str().unwrap();
    for (toml, problem) in [
        ("", "add [auth] tokens to the configuration"),
        ("[auth]\ntokens = []\n", "auth.tokens is empty"),
        ("[auth]\n", "auth.tokens is empty"),
    ] {
        let config = dir.write("tidings.toml", toml);
        let args = ["serve", "--config", config.to_str().unwrap(), "--data", data, "--listen", "0.0.0.0:0"];
        let output = run(&args).await;
        assert!(!output.status.success(), "{toml:?}");
        assert!(said(&output).contains(problem) && said(&output).contains("tidings token NAME"), "{}", said(&output));
        let checked = run(&["check", "--config", config.to_str().unwrap()]).await;
        assert_eq!(checked.status.success(), toml.is_empty(), "{checked:?}");
    }
    let config = dir.write("tidings.toml", auth(&[("a", &["*"], false)]));
    let mut command = Command::new(tidings());
    command.args(["serve", "--config", config.to_str().unwrap(), "--data", data, "--listen", "0.0.0.0:0"]);
    let mut serve = command.stdin(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(serve.stderr.take().unwrap()).lines();
    let port = within("its address", async {
        loop {
            let line = lines.next_line().await.unwrap().unwrap();
            if let Some((_, rest)) = line.split_once("http://127.0.0.1:") {
                break rest.split('/').next().unwrap().to_owned();
            }
        }
    });
    let url = format!("http://127.0.0.1:{}/mcp", port.await);
    let drained = tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    let nobody = Client::http(url.as_str()).raw().connect().await;
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    assert_eq!(nobody.post_raw(ping, &[]).await.status, 401);
    let known = crate::with_token(Client::http(url), "a").connect().await;
    assert!(!known.names("tools").await.is_empty(), "the demo");
    drop(known);
    serve.kill().await.unwrap();
    drained.await.unwrap();
}

// issue 6.8
#[tokio::test]
async fn a_token_that_the_program_makes_works_with_the_line_that_it_prints() {
    let output = run(&["token", "my laptop", "--servers", "red,x*"]).await;
    let text = String::from_utf8(output.stdout).unwrap();
    let token = text.lines().map(str::trim).find(|line| line.len() == 64).unwrap();
    let line = text.lines().map(str::trim).find(|line| line.starts_with('{')).unwrap();
    assert!(line.contains(r#"name = "my laptop""#) && line.contains(r#"servers = ["red", "x*"], admin = false"#));
    assert!(!line.contains(token), "the configuration holds only the hash");
    let red = full("red").stdio().await;
    let blue = full("blue").stdio().await;
    let gateway = quick(&format!("[auth]\ntokens = [\n{line}\n]")).server("red", &red).server("blue", &blue);
    let gateway = gateway.serve().await;
    let client = gateway.client().header("authorization", &format!("Bearer {token}")).connect().await;
    assert_eq!(client.names("prompts").await, ["red__greet"]);
    // A pattern that fits nothing is most likely a mistake.
    gateway.stderr().wait_for("a warning", |line| line.contains("x*") && line.contains("auth.tokens")).await;
    let checked = run(&["check", "--config", gateway.config().to_str().unwrap()]).await;
    assert!(checked.status.success(), "{checked:?}");
    assert!(String::from_utf8_lossy(&checked.stdout).contains("\"x*\" of the token \"my laptop\""), "{checked:?}");

    let first: Value = serde_json::from_slice(&run(&["token", "a", "--admin", "--json"]).await.stdout).unwrap();
    let second: Value = serde_json::from_slice(&run(&["token", "a", "--json"]).await.stdout).unwrap();
    assert_ne!(first["token"], second["token"]);
    assert_eq!((&first["servers"], &first["admin"], &second["admin"]), (&json!(["*"]), &json!(true), &json!(false)));
    assert_eq!(run(&["token", " "]).await.status.code(), Some(2));
}

// interface (command line)
#[tokio::test]
async fn the_command_line_reaches_its_own_gateway_through_the_tokens() {
    let red = full("red").stdio().await;
    let gateway = quick(&auth(&[("red", &["red"], false)])).server("red", &red).serve().await;
    let data = gateway.data().to_str().unwrap().to_owned();
    for args in [["call", "echo"], ["read", "file:///r"]] {
        let output = run(&[args[0], "--data", &data, args[1], "--json"]).await;
        assert!(output.status.success(), "{output:?}");
    }
}
