//! Where the tools are offered, and what is said of them.

use serde_json::{Value, json};
use tidings_testkit::{Client, Gateway, V2024_11_05};

use crate::{call, clock, with_tools};

async fn registry_tools(client: &Client) -> Vec<Value> {
    let tools = client.list("tools").await;
    tools.into_iter().filter(|tool| tool["name"].as_str().unwrap().starts_with("mcp_registry_")).collect()
}

// S4.5: they start commands, so over HTTP they have to be asked for
#[tokio::test]
async fn they_are_there_where_they_are_wanted() {
    let server = clock().stdio().await;
    let table = [("\"auto\"", true, false), ("true", true, true), ("false", false, false)];
    for (setting, on_stdio, in_serve) in table {
        let text = format!("[gateway]\nregistry_tools = {setting}");
        let gateway = Gateway::builder().toml(&text).quick().server("one", &server).serve().await;
        let clients = [
            (gateway.client().connect().await, in_serve),
            (gateway.client().modern().connect().await, in_serve),
            (gateway.stdio().connect().await, on_stdio),
            (gateway.stdio().modern().connect().await, on_stdio),
        ];
        for (client, expected) in clients {
            assert_eq!(registry_tools(&client).await.len(), if expected { 11 } else { 0 }, "{setting}");
            let answer = client.call_tool("mcp_registry_active", json!({})).await;
            assert_eq!(answer.response.unwrap().error().is_null(), expected, "{setting}");
        }
    }
}

/// Whether a value has what a schema asks for.
fn fits(schema: &Value, value: &Value) -> Result<(), String> {
    let kind_fits = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        _ => true,
    };
    if !kind_fits {
        return Err(format!("{value} is no {}", schema["type"]));
    }
    for key in schema["required"].as_array().into_iter().flatten() {
        if value.get(key.as_str().unwrap()).is_none() {
            return Err(format!("{key} is missing in {value}"));
        }
    }
    for (key, member) in value.as_object().into_iter().flatten() {
        let property = schema["properties"].get(key).ok_or_else(|| format!("{key} is not described"))?;
        fits(property, member).map_err(|problem| format!("{key}: {problem}"))?;
    }
    value.as_array().into_iter().flatten().try_for_each(|item| fits(&schema["items"], item))
}

// S4.5
#[tokio::test]
async fn results_fit_their_schemas() {
    let server = clock().stdio().await;
    let gateway = with_tools("").server("one", &server).serve().await;
    let client = gateway.client().connect().await;
    let schemas = registry_tools(&client).await;
    let (command, args) = server.command();
    let calls = [
        ("find", json!({"query": "time"})),
        ("list", json!({})),
        ("get_docs", json!({"entry_id": "modelcontextprotocol/git"})),
        ("refresh", json!({"source": "all"})),
        ("launch_stdio", json!({"command": command, "args": args, "prefix": "new"})),
        ("config_set", json!({"entry_id": "new", "environment": {"API_KEY": "x"}})),
        ("active", json!({})),
        ("status", json!({})),
        ("remove", json!({"entry_id": "new"})),
    ];
    for (tool, arguments) in calls {
        let name = format!("mcp_registry_{tool}");
        let schema = &schemas.iter().find(|known| known["name"] == *name).unwrap()["outputSchema"];
        let answer = client.call_tool(&name, arguments).await.result();
        assert_ne!(answer["isError"], true, "{answer}");
        fits(schema, &answer["structuredContent"]).unwrap_or_else(|problem| panic!("{tool}: {problem}"));
    }
}

#[tokio::test]
async fn the_oldest_clients_use_them_too() {
    let server = clock().stdio().await;
    let gateway = with_tools("").server("one", &server).serve().await;
    let client = gateway.client().revision(V2024_11_05).connect().await;
    for tool in registry_tools(&client).await {
        assert!(tool.get("outputSchema").is_none() && tool.get("annotations").is_none(), "{tool}");
    }
    let answer = client.call_tool("mcp_registry_active", json!({})).await;
    let said: Value = serde_json::from_str(&answer.text()).unwrap();
    assert_eq!(said["servers"][0]["name"], "one");
    let modern = gateway.client().modern().connect().await;
    assert_eq!(call(&modern, "active", json!({})).await, said);
}

// S3.8
#[tokio::test]
async fn with_search_they_are_found_and_not_listed() {
    let server = clock().stdio().await;
    let gateway = with_tools("expose = \"search\"").server("one", &server).server("two", &server).serve().await;
    let client = gateway.client().connect().await;
    assert!(registry_tools(&client).await.is_empty());
    let found = client.call_tool("retrieve_tools", json!({"query": "add a server"})).await;
    assert!(found.text().contains("mcp_registry_add"), "{}", found.text());
    let through = json!({"name": "mcp_registry_status", "arguments": {}});
    let answer = client.call_tool("call_tool", through).await;
    assert_eq!(answer.result()["structuredContent"]["servers"]["ready"], 2);
}

#[tokio::test]
async fn they_keep_their_names_and_a_server_that_wants_one_is_reported() {
    let server = clock().tool("mcp_registry_find", |call| async move { call.ok_text("lost and found") }).stdio().await;
    let gateway = with_tools("").server("one", &server).serve().await;
    let client = gateway.client().connect().await;
    assert_eq!(client.call_tool("one__mcp_registry_find", json!({})).await.text(), "lost and found");
    assert_ne!(client.call_tool("mcp_registry_find", json!({"query": "x"})).await.text(), "lost and found");
    assert_eq!(registry_tools(&client).await.len(), 11);
    let is_warning =
        |line: &String| line.contains("WARN") && line.contains("mcp_registry_find") && line.contains("one");
    gateway.stderr().wait_for("a warning about the name", is_warning).await;
}
