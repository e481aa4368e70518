//! What was decided outlives the process, and other processes follow it.

use serde_json::json;
use tidings_testkit::{ListFollower, within};

use super::*;

// trust.md, the lock
#[tokio::test]
async fn what_changed_while_no_gateway_ran_is_held_and_compared_with_what_was_approved() {
    for (held, shown) in [("hide", vec![("sub", "Subtracts.")]), ("old", vec![("add", "Adds."), ("sub", "Subtracts.")])]
    {
        let server = full().http().await;
        let keys = format!("approve = \"changed\"\nheld = \"{held}\"");
        let gateway = quick().server_with("one", &server, &keys).serve().await;
        gateway.terminate().await;
        assert_eq!(lock_lines(&gateway).len(), 3, "two tools and a prompt, and no resource");
        server.put_tool(described("add", "Adds more."));
        let gateway = gateway.again().await;
        let client = gateway.client().modern().connect().await;
        assert_eq!(tools(&client).await, seen(&shown), "{held}");
        let waiting = approvals(&gateway).await;
        assert_eq!(waiting.len(), 1, "{waiting:?}");
        assert_eq!(waiting[0]["approved"]["description"], "Adds.", "the difference is known");
        assert_eq!(decide(&gateway, "add", "approve").await.0, 200);
        gateway.terminate().await;
        let gateway = gateway.again().await;
        let client = gateway.client().connect().await;
        assert_eq!(tools(&client).await, seen(&[("add", "Adds more."), ("sub", "Subtracts.")]), "it is kept");
        gateway.terminate().await;
    }
}

// trust.md, the lock
#[tokio::test]
async fn a_lock_that_another_process_writes_is_followed() {
    let server = full().http().await;
    let gateway = quick().server_with("one", &server, "approve = \"manual\"").serve().await;
    // A gateway of its own, on the same configuration.
    let mut other = ListFollower::begin(gateway.stdio().connect().await).await;
    assert_eq!(tools(&other.client).await, []);
    assert_eq!(decide(&gateway, "add", "approve").await.0, 200);
    other.expect(&["tools"]).await;
    assert_eq!(tools(&other.client).await, seen(&[("add", "Adds.")]));
    assert_eq!(other.client.call_tool("add", json!({})).await.text(), "Adds.");
    let mut deciding = ListFollower::begin(gateway.client().connect().await).await;
    // By hand, as a merge would: the line goes, and with it the tool.
    let lock = lock_file(&gateway);
    let text = std::fs::read_to_string(&lock).unwrap();
    let without: Vec<&str> = text.lines().filter(|line| !line.contains("\"add\"")).collect();
    std::fs::write(&lock, without.join("\n")).unwrap();
    other.expect(&["tools"]).await;
    assert_eq!(tools(&other.client).await, []);
    // Both have read it before the file is written again: whoever reads later finds only what it is then.
    deciding.expect(&["tools"]).await;
    // What is not understood changes nothing.
    std::fs::write(&lock, "version = 99\n").unwrap();
    let is_told = |line: &String| line.contains("tidings.lock") && line.contains("version 99");
    gateway.stderr().wait_for("a warning", is_told).await;
    assert_eq!(tools(&deciding.client).await, []);
}

// trust.md, the lock
#[tokio::test]
async fn where_the_lock_can_not_be_understood_nothing_is_shown() {
    let server = full().http().await;
    let gateway = quick().server_with("one", &server, "approve = \"changed\"").serve().await;
    gateway.terminate().await;
    std::fs::write(lock_file(&gateway), "approved = 3\n").unwrap();
    let gateway = gateway.again().await;
    let status = gateway.server_status("one").await;
    assert_eq!(status["state"], "failing", "{status}");
    assert!(status["error"].as_str().unwrap().contains("tidings.lock"), "{status}");
    assert_eq!(tools(&gateway.client().connect().await).await, []);
}

// trust.md, the lock
#[tokio::test]
async fn a_server_that_is_configured_anew_keeps_what_was_decided() {
    let server = full().http().await;
    let gateway = quick().server_with("one", &server, "approve = \"manual\"").serve().await;
    assert_eq!(decide(&gateway, "add", "approve").await.0, 200);
    let client = gateway.client().connect().await;
    assert_eq!(tools(&client).await, seen(&[("add", "Adds.")]));
    let text = std::fs::read_to_string(gateway.config()).unwrap();
    gateway.rewrite_config(&text.replace("approve = \"manual\"", "approve = \"changed\"\ntimeout = \"9s\""));
    let (status, body) = gateway.api("POST", "/reload", serde_json::Value::Null).await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(tools(&client).await, seen(&[("add", "Adds.")]), "it was seen before, so nothing is trusted by itself");
    let names: Vec<_> = approvals(&gateway).await.iter().map(|held| held["name"].clone()).collect();
    assert_eq!(names, ["sub", "p"]);
    // Those that are added at run time have their lock in the data directory.
    let mut keys = server.keys();
    keys["approve"] = json!("changed");
    keys["prefix"] = json!("later");
    let (status, body) = gateway.api("PUT", "/servers/later", keys).await;
    assert_eq!(status, 201, "{body}");
    let lock = gateway.data().join("tidings.lock");
    within("the lock", async {
        while !lock.exists() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(!std::fs::read_to_string(lock_file(&gateway)).unwrap().contains("later"));
}
