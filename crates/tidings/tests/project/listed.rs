//! What clients are shown of a project.

use serde_json::{Value, json};
use tidings_testkit::*;

use crate::Project;

// S0.9
#[tokio::test]
async fn a_project_introduces_itself_and_keeps_its_names() {
    let project = Project::new();
    project.tool("hello").write("server.d/server.instructions.md", "Say hello first.\n");
    let about =
        json!({"name": "weather", "title": "Weather", "version": "1.2.3", "websiteUrl": "https://example.com/"});
    project.write("server.d/server.meta.json", &about.to_string());
    let client = project.stdio().connect().await;
    let hello = client.initialize_result();
    assert_eq!(hello["serverInfo"], about);
    assert_eq!(hello["instructions"], "Say hello first.\n");
    for kind in ["tools", "resources", "prompts"] {
        assert_eq!(hello["capabilities"][kind]["listChanged"], true, "{hello}");
    }
    assert_eq!(hello["capabilities"]["resources"]["subscribe"], true);
    let tools = client.list("tools").await;
    let expected =
        json!([{"name": "hello", "description": "Does hello", "inputSchema": {"type": "object", "properties": {}}}]);
    assert_eq!(Value::from(tools), expected, "bare names, and no built-ins");
}

// S0.9
#[tokio::test]
async fn a_project_that_says_nothing_is_called_like_its_folder() {
    let project = Project::new();
    project.write("VERSION", "4.5\n");
    let hello = project.stdio().connect().await.initialize_result();
    assert_eq!(hello["serverInfo"], json!({"name": "project", "title": "Project", "version": "4.5"}));
}

// S0.9
#[tokio::test]
async fn beside_other_servers_a_project_is_prefixed_like_them() {
    let project = Project::new();
    project.tool("hello").write("resources/r.meta.json", r#"{"name": "r", "uri": "echo://hi"}"#);
    let other = Server::builder("other").echo("echo").stdio().await;
    let scripts = format!("[servers.scripts]\nproject = {:?}", project.dir());
    let gateway = Gateway::builder().quick().toml(&scripts).server("other", &other).serve().await;
    for client in [gateway.client().connect().await, gateway.client().modern().connect().await] {
        assert_eq!(client.names("tools").await, ["scripts__hello", "other__echo"]);
        assert_eq!(client.names("resources").await, ["scripts+echo://hi"]);
    }
}

// S0.9
#[tokio::test]
async fn pages_have_fifty_items_or_as_many_as_asked_and_a_stale_cursor_is_refused() {
    let project = Project::new();
    let numbers: Vec<String> = (0..230).map(|number| format!("t{number:03}")).collect();
    let entries: Vec<Value> = numbers.iter().map(|name| json!({"name": name, "path": "one.sh"})).collect();
    project
        .write("tools/one.sh", "")
        .write("server.d/register.json", &json!({"version": 1, "tools": entries}).to_string());
    for client in [project.stdio().connect().await, project.stdio().modern().connect().await] {
        let page = client.request("tools/list", json!({})).await.result();
        assert_eq!(page["tools"].as_array().unwrap().len(), 50);
        assert_eq!(page["_meta"]["mcpbash/total"], 230);
        let long = client.request("tools/list", json!({"limit": 1000})).await.result();
        assert_eq!(long["tools"].as_array().unwrap().len(), 200);
        assert_eq!(
            client.request("tools/list", json!({"limit": 3})).await.result()["tools"].as_array().unwrap().len(),
            3
        );
        assert_eq!(client.names("tools").await, numbers, "all of them, page after page");
        let cursor = page["nextCursor"].clone();
        let next = client.request("tools/list", json!({"cursor": cursor})).await.result();
        assert_eq!(next["tools"][0]["name"], "t050");
        let fewer = &entries[1..];
        project.write("server.d/register.json", &json!({"version": 1, "tools": fewer}).to_string());
        within("the shorter list", async {
            while client.request("tools/list", json!({})).await.result()["_meta"]["mcpbash/total"] != 229 {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        })
        .await;
        let stale = client.request("tools/list", json!({"cursor": cursor})).await;
        assert_eq!(stale.error_code(), -32602);
        project.write("server.d/register.json", &json!({"version": 1, "tools": entries}).to_string());
    }
}

#[tokio::test]
async fn a_registration_that_never_was_good_is_reported_where_servers_are_shown() {
    let project = Project::new();
    project.tool("hello").write("server.d/register.json", "{\n oops }");
    let gateway = project.serve().await;
    gateway
        .stderr()
        .wait_for("the place of the fault", |line| line.contains("server.d/register.json:2: is not JSON"))
        .await;
    let client = gateway.client().connect().await;
    assert!(client.names("tools").await.is_empty());
    project.write("server.d/register.json", r#"{"version": 1}"#);
    within("the tool", async {
        while client.names("tools").await != ["hello"] {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    })
    .await;
}
