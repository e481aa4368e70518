//! What older clients see of newer servers: strictly the fields of their revision, unless `view = "pass"`.

use serde_json::{Value, json};
use tidings_testkit::{Client, Gateway, ScriptedCall, ScriptedEntry, Server};

use crate::every_revision;

const R1: &str = "2024-11-05";
const R2: &str = "2025-03-26";
const R3: &str = "2025-06-18";
const R4: &str = "2025-11-25";
const R5: &str = "2026-07-28";

fn tool() -> Value {
    json!({"name": "t", "title": "T", "description": "d", "inputSchema": {"type": "object"},
        "outputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}, "icons": [{"src": "i"}],
        "execution": {"taskSupport": "optional"}})
}

fn list_tool() -> Value {
    json!({"name": "list", "inputSchema": {"type": "object"}, "outputSchema": {"type": "array"}})
}

fn resource() -> Value {
    json!({"uri": "file:///r", "name": "r", "title": "R", "icons": [],
        "annotations": {"priority": 1, "lastModified": "2025-01-01T00:00:00Z"}})
}

fn template() -> Value {
    json!({"uriTemplate": "file:///{x}", "name": "x", "title": "X", "icons": [],
        "annotations": {"priority": 1, "lastModified": "2025-01-01T00:00:00Z"}})
}

fn prompt() -> Value {
    json!({"name": "p", "title": "P", "icons": [], "arguments": [{"name": "a", "title": "A", "required": true}]})
}

fn link() -> Value {
    json!({"type": "resource_link", "uri": "file:///l", "name": "linked", "title": "L", "icons": []})
}

fn dated() -> Value {
    json!({"type": "text", "text": "x", "annotations": {"priority": 1, "lastModified": "2025-01-01T00:00:00Z"}})
}

fn audio() -> Value {
    json!({"type": "audio", "data": "QUJD", "mimeType": "audio/wav"})
}

async fn newest() -> Server {
    let blocks = |call: ScriptedCall| async move {
        call.progress(json!({"progress": 1, "message": "half way"}));
        call.ok(json!({"content": [audio(), link(), dated()], "structuredContent": {"a": 1}}))
    };
    let bare = |call: ScriptedCall| async move { call.ok(json!({"content": [], "structuredContent": {"a": 1}})) };
    let list = |call: ScriptedCall| async move { call.ok(json!({"content": [link()], "structuredContent": [1, 2]})) };
    let read = |call: ScriptedCall| async move { call.ok_contents("r") };
    let get = |call: ScriptedCall| async move {
        let messages: Vec<_> = [audio(), link(), dated()].map(|c| json!({"role": "user", "content": c})).into();
        call.ok(json!({ "messages": messages }))
    };
    Server::builder("one")
        .modern_only()
        .tool_def(tool(), blocks)
        .tool_def(json!({"name": "bare", "inputSchema": {"type": "object"}}), bare)
        .tool_def(list_tool(), list)
        .entry("resources", ScriptedEntry::raw(&resource().to_string(), read))
        .entry("resourceTemplates", ScriptedEntry::raw(&template().to_string(), read))
        .entry("prompts", ScriptedEntry::raw(&prompt().to_string(), get))
        .http()
        .await
}

fn without(mut value: Value, fields: &[&str]) -> Value {
    for field in fields {
        let (path, name) = field.rsplit_once('/').unwrap_or(("", field));
        let at = value.pointer_mut(path).and_then(Value::as_object_mut);
        at.unwrap_or_else(|| panic!("no {path}")).remove(name);
    }
    value
}

async fn one(client: &Client, kind: &str, name: &str) -> Value {
    let items = client.list(kind).await;
    items.iter().find(|item| item["name"] == name).unwrap_or_else(|| panic!("no {name}: {items:?}")).clone()
}

// bridging A3 (views): annotations, title, outputSchema, icons, execution
#[tokio::test]
async fn a_tool_is_listed_with_the_fields_of_the_clients_revision() {
    let server = newest().await;
    let gateway = Gateway::builder().server("one", &server).serve().await;
    for client in every_revision(&gateway).await {
        let revision = client.revision();
        let expected = match revision.as_str() {
            R1 => without(tool(), &["title", "outputSchema", "icons", "execution", "annotations"]),
            R2 => {
                let mut moved = without(tool(), &["title", "outputSchema", "icons", "execution"]);
                moved["annotations"]["title"] = json!("T");
                moved
            }
            R3 => without(tool(), &["icons", "execution"]),
            R4 => tool(),
            _ => without(tool(), &["execution"]),
        };
        assert_eq!(one(&client, "tools", "t").await, expected, "{revision}");
        let listed = one(&client, "tools", "list").await;
        assert_eq!(listed.get("outputSchema").is_some(), revision == R5, "an array schema at {revision}");
    }
}

// bridging A3 (views): title, icons, lastModified
#[tokio::test]
async fn resources_templates_and_prompts_are_listed_with_the_fields_of_the_clients_revision() {
    let server = newest().await;
    let gateway = Gateway::builder().server("one", &server).serve().await;
    for client in every_revision(&gateway).await {
        let revision = client.revision();
        let (strip, strip_prompt): (&[&str], &[&str]) = match revision.as_str() {
            R1 | R2 => (&["title", "icons", "/annotations/lastModified"], &["title", "icons", "/arguments/0/title"]),
            R3 => (&["icons"], &["icons"]),
            _ => (&[], &[]),
        };
        assert_eq!(one(&client, "resources", "r").await, without(resource(), strip), "{revision}");
        assert_eq!(one(&client, "templates", "x").await, without(template(), strip), "{revision}");
        assert_eq!(one(&client, "prompts", "p").await, without(prompt(), strip_prompt), "{revision}");
    }
}

/// The blocks of a result as a revision has them.
fn blocks_for(revision: &str) -> Vec<Value> {
    let blob = json!({"type": "resource",
        "resource": {"uri": "audio:///content", "mimeType": "audio/wav", "blob": "QUJD"}});
    let text = json!({"type": "text", "text": "linked: file:///l"});
    let undated = without(dated(), &["/annotations/lastModified"]);
    match revision {
        R1 => vec![blob, text, undated],
        R2 => vec![audio(), text, undated],
        R3 => vec![audio(), without(link(), &["icons"]), dated()],
        _ => vec![audio(), link(), dated()],
    }
}

// bridging A3 (views): audio, resource_link, structuredContent, progress message, lastModified
#[tokio::test]
async fn results_have_the_blocks_and_fields_of_the_clients_revision() {
    let server = newest().await;
    let gateway = Gateway::builder().server("one", &server).serve().await;
    for client in every_revision(&gateway).await {
        let revision = client.revision();
        let reply = client.call("tools/call").params(json!({"name": "t"})).progress_token("1").send().await;
        let result = reply.result();
        assert_eq!(result["content"], json!(blocks_for(&revision)), "{revision}");
        assert_eq!(result.get("structuredContent").is_some(), revision.as_str() >= R3, "{revision}");
        let progress = reply.before_with("notifications/progress");
        assert_eq!(progress[0].params().get("message").is_some(), revision.as_str() >= R2, "{revision}");

        let prompt = client.request("prompts/get", json!({"name": "p"})).await.result();
        let shown: Vec<_> = prompt["messages"].as_array().into_iter().flatten().map(|m| m["content"].clone()).collect();
        assert_eq!(shown, blocks_for(&revision), "prompt at {revision}");
    }
}

// bridging A3 (views): structuredContent as text, non-object structuredContent
#[tokio::test]
async fn structured_content_that_a_client_can_not_have_becomes_text() {
    let server = newest().await;
    let gateway = Gateway::builder().server("one", &server).serve().await;
    for client in every_revision(&gateway).await {
        let revision = client.revision();
        let bare = client.call_tool("bare", json!({})).await.result();
        let list = client.call_tool("list", json!({})).await.result();
        if revision.as_str() < R3 {
            assert_eq!(bare["content"], json!([{"type": "text", "text": r#"{"a":1}"#}]), "{revision}");
            assert!(bare.get("structuredContent").is_none());
        } else {
            assert_eq!((&bare["content"], &bare["structuredContent"]), (&json!([]), &json!({"a": 1})), "{revision}");
        }
        assert_eq!(list.get("structuredContent").is_some(), revision == R5, "{revision}");
        let text = json!({"type": "text", "text": "[1,2]"});
        assert_eq!(list["content"].as_array().is_some_and(|all| all.contains(&text)), revision != R5, "{revision}");
    }
}

// bridging A3 (views): pass
#[tokio::test]
async fn with_view_pass_every_client_sees_everything() {
    let server = newest().await;
    let gateway = Gateway::builder().toml("[gateway]\nview = \"pass\"").server("one", &server).serve().await;
    for client in every_revision(&gateway).await {
        let revision = client.revision();
        assert_eq!(one(&client, "tools", "t").await, tool(), "{revision}");
        assert_eq!(one(&client, "tools", "list").await, list_tool(), "{revision}");
        assert_eq!(one(&client, "resources", "r").await, resource(), "{revision}");
        assert_eq!(one(&client, "templates", "x").await, template(), "{revision}");
        assert_eq!(one(&client, "prompts", "p").await, prompt(), "{revision}");
        let reply = client.call("tools/call").params(json!({"name": "t"})).progress_token("1").send().await;
        let result = reply.result();
        assert_eq!(result["content"], json!([audio(), link(), dated()]), "{revision}");
        assert_eq!(result["structuredContent"], json!({"a": 1}), "{revision}");
        assert_eq!(reply.before_with("notifications/progress")[0].params()["message"], "half way", "{revision}");
        let list = client.call_tool("list", json!({})).await.result();
        assert_eq!(list["structuredContent"], json!([1, 2]), "{revision}");
    }
}
