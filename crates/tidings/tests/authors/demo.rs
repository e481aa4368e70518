//! The demo that a newcomer meets, and the words that lead there.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;
use tidings_testkit::*;

// interface.md: `tidings serve` without a configuration
#[tokio::test]
async fn a_newcomer_edits_the_demo_and_sees_it_change() {
    let gateway = Gateway::builder().quick().serve().await;
    let greeting: Vec<String> = gateway.stderr().all();
    let greeting = greeting.join("\n");
    assert!(
        greeting.contains("claude mcp add") && greeting.contains("tidings watch watch://notes/todo.md"),
        "{greeting}"
    );
    let client = gateway.client().connect().await;
    let _stream = client.open_get().await;
    assert_eq!(client.names("tools").await, ["clock", "echo"]);
    assert_eq!(client.call_tool("echo", json!({ "text": "hello" })).await.text(), "hello");
    assert!(client.call_tool("clock", json!({})).await.text().trim().parse::<u64>().is_ok());
    assert!(client.names("resources").await.contains(&"watch://notes/todo.md".to_owned()));
    assert_eq!(client.names("prompts").await, ["haiku"]);
    client.wait_for_method("notifications/tools/list_changed", 1).await;

    // As the greeting says: a copy of a script is a new tool.
    let tools = gateway.data().join("demo/project/tools");
    std::fs::copy(tools.join("clock.sh"), tools.join("mine.sh")).unwrap();
    client.wait_for_method("notifications/tools/list_changed", 2).await;
    assert_eq!(client.names("tools").await, ["clock", "echo", "mine"]);

    client.request("resources/subscribe", json!({ "uri": "watch://notes/todo.md" })).await.result();
    std::fs::write(gateway.data().join("demo/notes/todo.md"), "- [x] all of it\n").unwrap();
    client.wait_for_method("notifications/resources/updated", 1).await;
    let read = client.request("resources/read", json!({ "uri": "watch://notes/todo.md" })).await.result();
    assert_eq!(read["contents"][0]["text"], "- [x] all of it\n");
}

#[tokio::test]
async fn what_a_newcomer_made_of_the_demo_stays() {
    let gateway = Gateway::builder().quick().serve().await;
    let script = gateway.data().join("demo/project/tools/clock.sh");
    assert_eq!(std::fs::metadata(&script).unwrap().permissions().mode() & 0o777, 0o755);
    std::fs::write(&script, "#!/bin/sh\n# @describe Mine now.\necho mine\n").unwrap();
    gateway.terminate().await;
    let again = gateway.again().await;
    let client = again.client().connect().await;
    assert_eq!(client.call_tool("clock", json!({})).await.text(), "mine\n");
    assert_eq!(client.list("tools").await[0]["description"], "Mine now.");
}

#[tokio::test]
async fn the_demo_runs_on_a_machine_without_jq_and_bash() {
    let tools = TempDir::new();
    for name in ["sh", "date", "cat"] {
        let found = ["/bin", "/usr/bin"].map(|folder| std::path::Path::new(folder).join(name));
        let found = found.iter().find(|path| path.exists()).unwrap();
        std::os::unix::fs::symlink(found, tools.join(name)).unwrap();
    }
    let gateway = Gateway::builder().quick().env("PATH", tools.path().to_str().unwrap()).serve().await;
    let client = gateway.client().modern().connect().await;
    assert_eq!(client.call_tool("echo", json!({ "text": "a \"bare\" machine" })).await.text(), "a \"bare\" machine");
    assert!(client.call_tool("clock", json!({})).await.text().trim().parse::<u64>().is_ok());
}
