use std::os::unix::process::ExitStatusExt;

use serde_json::json;
use tidings_testkit::*;

/// The harness with a script in the place of the gateway, which says that a scripted server is where it listens.
#[tokio::test]
async fn the_harness_starts_finds_and_ends_a_program() {
    let ready = Gate::new();
    let gate = ready.clone();
    let alpha = Server::builder("alpha")
        .echo("echo")
        .on_http(move |r| {
            let status = if gate.arrived() > 0 { 200 } else { 503 };
            (r.path == "/readyz").then(|| ScriptedAnswer::http(status, "ready?"))
        })
        .http()
        .await;
    let beta = Server::builder("beta").stdio().await;
    let gateway = Gateway::builder()
        .server("alpha", &alpha)
        .server_with("beta", &beta, "isolation = \"session\"")
        .toml("[notifications]\ninitial = \"never\"")
        .binary(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stand-in-gateway.sh"))
        .env("STAND_IN_URL", &alpha.url().replace("/mcp", ""))
        .without_waiting()
        .serve()
        .await;
    assert_eq!(gateway.get("/readyz").await, (503, "ready?".to_owned()));
    ready.open();
    ready.wait().await;
    gateway.wait_ready().await;
    gateway.stderr().wait_for("a greeting", |line| line == "stand-in with 2 servers").await;
    let client = gateway.client().revision(V2025_06_18).connect().await;
    assert_eq!(client.call_tool("echo", json!({})).await.text(), "{}");
    gateway.rewrite_config("");
    assert_eq!(std::fs::read_to_string(gateway.config()).ok().as_deref(), Some(""));
    assert_eq!(gateway.terminate().await.signal(), Some(15));
}
