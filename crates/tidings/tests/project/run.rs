//! What is listed can be used, and followed.

use serde_json::json;
use tidings_testkit::list_changed;

use crate::Project;

// S0.9
#[tokio::test]
async fn a_tool_that_was_just_saved_runs_and_one_that_is_not_allowed_does_not() {
    let project = Project::new();
    let gateway = project.serve().await;
    let clients = [
        project.stdio().connect().await,
        project.stdio().modern().connect().await,
        gateway.client().connect().await,
        gateway.client().modern().connect().await,
    ];
    project.tool("hello").write("tools/hello/tool.sh", "#!/bin/sh\necho \"hello from $MCPBASH_PROJECT_ROOT\"\n");
    for client in &clients {
        tidings_testkit::within("the tool", async {
            while client.names("tools").await != ["hello"] {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        })
        .await;
        let reply = client.call_tool("hello", json!({})).await;
        assert!(reply.text().contains("hello from /"), "{reply:?}");
    }
    let closed = project.stdio().env("MCPBASH_TOOL_ALLOWLIST", "").connect().await;
    assert_eq!(closed.names("tools").await, ["hello"], "it can be seen");
    let refused = closed.call_tool("hello", json!({})).await.error();
    assert_eq!(refused["code"], -32602);
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("MCPBASH_TOOL_ALLOWLIST"), "{message}");
}

// S0.9
#[tokio::test]
async fn a_followed_resource_is_told_of_when_its_content_changes_and_not_when_it_is_touched() {
    let project = Project::new();
    project
        .write("resources/note.txt", "one")
        .write("resources/note.meta.json", r#"{"name": "note", "uri": "file://./resources/note.txt"}"#);
    let client = project.stdio().connect().await;
    let uri = json!({"uri": "file://./resources/note.txt"});
    let read = client.request("resources/read", uri.clone()).await.result();
    assert_eq!(read["contents"][0]["text"], "one");
    assert_eq!(client.request("resources/subscribe", uri.clone()).await.result(), json!({}));
    let told = "notifications/resources/updated";
    project.write("resources/note.txt", "one");
    project.write("resources/note.txt", "two");
    client.wait_for_method(told, 1).await;
    let read = client.request("resources/read", uri.clone()).await.result();
    assert_eq!(read["contents"][0]["text"], "two");
    assert_eq!(client.request("resources/unsubscribe", uri).await.result(), json!({}));
    project.write("resources/note.txt", "three").write("prompts/p.txt", "later");
    client.wait_for_method(&list_changed("prompts"), 2).await;
    assert_eq!(client.count(told), 1);
}
