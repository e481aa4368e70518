//! `mcp_registry_active` and `mcp_registry_status` say what is.

use serde_json::{Value, json};
use tidings_testkit::{Server, within};

use crate::{call, clock, launch, with_tools};

// S4.5
#[tokio::test]
async fn every_server_is_shown_as_it_is() {
    let (file, other) = (clock().modern_only().http().await, Server::builder("other").echo("echo").stdio().await);
    let gateway = with_tools("")
        .server("file", &file)
        .server_with("off", &other, "enabled = false")
        .toml("[servers.broken]\ncommand = \"no-such-command-anywhere\"")
        .serve()
        .await;
    let client = gateway.client().connect().await;
    launch(&client, "more", &other).await;
    let active = call(&client, "active", json!({})).await;
    let servers = active["servers"].as_array().unwrap();
    let one = |name: &str| -> Value { servers.iter().find(|server| server["name"] == name).unwrap().clone() };
    assert_eq!(servers.len(), 4, "{active}");
    let shown = one("file");
    assert_eq!((&shown["source"], &shown["state"], &shown["era"]), (&json!("file"), &json!("ready"), &json!("modern")));
    assert_eq!((&shown["tools"], &shown["resources"]), (&json!(["file__now"]), &json!(1)));
    assert_eq!((&one("more")["source"], &one("more")["entry_id"]), (&json!("runtime"), &json!("stdio-more")));
    assert_eq!((&one("off")["state"], &one("off")["tools"]), (&json!("disabled"), &json!([])));
    assert_eq!(one("broken")["state"], "failing");
    assert!(one("broken")["error"].as_str().unwrap().contains("no-such-command-anywhere"));

    let status = call(&client, "status", json!({})).await;
    let expected = json!({"running": 3, "ready": 2, "connecting": 0, "failing": 1, "needs_login": 0, "not_running": 1});
    assert_eq!(status["servers"], expected);
    assert_eq!((&status["survives_restart"], &status["sources"][0]["name"]), (&json!(true), &json!("built-in")));
    assert_eq!(status["configuration"]["file"], gateway.config().to_string_lossy().as_ref());

    // A server that dies is not shown as ready.
    file.kill().await;
    within("the failure to be shown", async {
        loop {
            let active = call(&client, "active", json!({})).await;
            let dead = |server: &Value| server["name"] == "file" && server["state"] != "ready";
            if active["servers"].as_array().unwrap().iter().any(dead) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
}
