//! Adding what the catalogue knows.

use serde_json::json;
use tidings_testkit::{Gateway, Server, TempDir};

use crate::{ListFollower, call, clock, followers, listed, refusal, with_tools};

/// A catalogue with a server that runs, in several ways.
fn catalogue(folder: &TempDir, server: &Server) -> String {
    let (command, args) = server.command();
    let entry = |id: &str, more: &str| {
        format!(
            "[[servers]]\nid = \"acme/{id}\"\ndescription = \"d\"\ncommand = {command:?}\nargs = {args:?}\n{more}\n"
        )
    };
    let key = "variables = [{ name = \"CLOCK_KEY\", description = \"the key\", required = true }]";
    let zones = "arguments = { description = \"the zones\", required = true }";
    let text = [entry("wall-clock", ""), entry("keyed", key), entry("zoned", zones)].concat();
    folder.write("servers.toml", &text).to_string_lossy().into_owned()
}

async fn gateway(folder: &TempDir, server: &Server) -> Gateway {
    with_tools(&format!("catalogue = {:?}", catalogue(folder, server))).serve().await
}

// S4.1, S4.5
#[tokio::test]
async fn an_entry_becomes_a_server_for_everybody() {
    let (folder, server) = (TempDir::new(), clock().stdio().await);
    let gateway = gateway(&folder, &server).await;
    let followers = followers(&gateway).await;
    let before: Vec<_> = followers.iter().map(ListFollower::counts).collect();
    let added = call(&followers[0].client, "add", json!({"entry_id": "acme/wall-clock"})).await;
    let shown = &added["server"];
    assert_eq!((&shown["entry_id"], &shown["prefix"]), (&json!("acme/wall-clock"), &json!("wall_clock")));
    assert_eq!((&shown["resources"], &shown["prompts"]), (&json!(1), &json!(1)));
    for (follower, before) in followers.iter().zip(before) {
        follower.heard_all(before).await;
        assert!(listed(&follower.client, "tools").await.contains(&"wall_clock__now".to_owned()));
    }
    let problem = refusal(&followers[1].client, "add", json!({"entry_id": "acme/wall-clock"})).await;
    assert!(problem.starts_with("there is a server \"wall_clock\" already"), "{problem}");

    call(&followers[1].client, "add", json!({"entry_id": "acme/wall-clock", "prefix": "second"})).await;
    let problem = refusal(&followers[2].client, "remove", json!({"entry_id": "acme/wall-clock"})).await;
    assert_eq!(problem, "\"acme/wall-clock\" runs as second and wall_clock; name one of them");
    call(&followers[2].client, "remove", json!({"entry_id": "second"})).await;
    call(&followers[3].client, "remove", json!({"entry_id": "acme/wall-clock"})).await;
    assert_eq!(call(&followers[0].client, "active", json!({})).await, json!({"servers": []}));
    server.wait_all_exited().await;
}

// S4.2, S4.5
#[tokio::test]
async fn what_an_entry_needs_is_asked_for_before_it_is_started() {
    let (folder, server) = (TempDir::new(), clock().stdio().await);
    let gateway = gateway(&folder, &server).await;
    let client = gateway.client().connect().await;
    let problem = refusal(&client, "add", json!({"entry_id": "acme/keyed"})).await;
    let expected = "acme/keyed needs CLOCK_KEY (the key); give it in `environment`, or set it where the gateway runs";
    assert_eq!(problem, expected);
    let problem = refusal(&client, "add", json!({"entry_id": "acme/zoned"})).await;
    assert_eq!(problem, "acme/zoned needs `args`: the zones");
    let odd = json!({"entry_id": "acme/keyed", "environment": {"CLOCK_KEY": "k", "LD_PRELOAD": "x"}});
    let problem = refusal(&client, "add", odd).await;
    assert!(problem.starts_with("LD_PRELOAD can not be set here") && problem.ends_with("and CLOCK_KEY"), "{problem}");
    assert!(server.processes().is_empty());

    call(&client, "add", json!({"entry_id": "acme/keyed", "environment": {"CLOCK_KEY": "k"}})).await;
    call(&client, "add", json!({"entry_id": "acme/zoned", "args": ["UTC", "CET"]})).await;
    let processes = server.processes();
    assert_eq!(processes[0].env["CLOCK_KEY"], "k");
    assert_eq!(processes[1].args, ["UTC", "CET"]);
    let problem = refusal(&client, "add", json!({"entry_id": "acme/wall-clok"})).await;
    assert!(problem.contains("did you mean acme/wall-clock"), "{problem}");
}

// S4.5
#[tokio::test]
async fn a_variable_of_the_gateway_is_passed_on_and_its_value_is_kept_nowhere() {
    let (folder, server) = (TempDir::new(), clock().stdio().await);
    let config = format!("catalogue = {:?}", catalogue(&folder, &server));
    let gateway = with_tools(&config).env("CLOCK_KEY", "very-secret-value").serve().await;
    let client = gateway.client().connect().await;
    call(&client, "add", json!({"entry_id": "acme/keyed"})).await;
    assert_eq!(server.processes()[0].env["CLOCK_KEY"], "very-secret-value");
    gateway.terminate().await;
    for file in std::fs::read_dir(gateway.data()).unwrap() {
        let content = std::fs::read(file.unwrap().path()).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&content).contains("very-secret-value"));
    }
}
