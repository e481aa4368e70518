//! Calls of tools that went.

use serde_json::json;
use tidings_testkit::*;

use crate::{Feed, full, put, quick};

// reach 3
#[tokio::test]
async fn a_call_of_a_tool_that_went_is_told_when_by_which_change_and_what_is_near() {
    let (one, two) = (full().stdio().await, Server::builder("two").echo("echo").stdio().await);
    let gateway = quick().server("one", &one).server("two", &two).serve().await;
    let mut feed = Feed::all(&gateway).await;
    let tool = |name: &str| {
        Tool::raw(
            &json!({ "name": name, "description": "Finds.", "inputSchema": { "type": "object" } }).to_string(),
            |call| async move { call.ok_text("") },
        )
    };
    put(&one, tool("search_code"));
    feed.next().await;
    one.remove_tool("search_code");
    put(&one, tool("search_all_code"));
    let change = feed.next().await;
    for client in [gateway.client().connect().await, gateway.client().modern().connect().await] {
        let error = client.request("tools/call", json!({ "name": "one__search_code" })).await.error();
        assert_eq!(error["code"], -32602);
        let data = &error["data"];
        assert_eq!(data["change"], change["commit"]);
        assert!(data["removedAt"].as_str().is_some_and(|at| at.ends_with('Z')), "{data}");
        assert_eq!(data["renamedTo"], "one__search_all_code", "it says the same under another name");
        assert_eq!(data["nearest"][0], "one__search_all_code");
        let text = error["message"].as_str().unwrap();
        let number = change["commit"].to_string();
        assert!(text.starts_with("unknown tool: one__search_code: it went at 20") && text.contains(&number), "{text}");
        let never = client.request("tools/call", json!({ "name": "one__never" })).await.error();
        assert_eq!(never["message"], "unknown tool: one__never");
    }
}

// reach 3
#[tokio::test]
async fn a_client_that_was_shown_a_short_name_is_told_the_same_by_it() {
    let (one, two) = (full().stdio().await, Server::builder("two").echo("echo").stdio().await);
    let gateway = quick().server("one", &one).server("two", &two).serve().await;
    let mut feed = Feed::all(&gateway).await;
    // Longer than this client takes, and not so long that everybody is shown a shorter one.
    let long = |end: &str| format!("search_{}_{end}", "x".repeat(40));
    let tool = |name: &str| {
        Tool::raw(
            &json!({ "name": name, "description": "Finds.", "inputSchema": { "type": "object" } }).to_string(),
            |call| async move { call.ok_text("") },
        )
    };
    put(&one, tool(&long("code")));
    feed.next().await;
    for builder in [gateway.client(), gateway.client().modern()] {
        let client = builder.name("gemini-cli-mcp-client").connect().await;
        let shown = |tools: Vec<serde_json::Value>| {
            let mut names = tools.iter().filter_map(|tool| tool["name"].as_str());
            names.find(|name| name.starts_with("one__search_xxx")).unwrap().to_owned()
        };
        let before = shown(client.list("tools").await);
        assert!(before.len() < long("code").len(), "{before}");
        one.remove_tool(&long("code"));
        put(&one, tool(&long("all_code")));
        let change = feed.next().await;
        let after = shown(client.list("tools").await);
        assert_ne!(before, after);
        let error = client.request("tools/call", json!({ "name": before })).await.error();
        assert_eq!(error["code"], -32602);
        let data = &error["data"];
        assert_eq!(data["change"], change["commit"], "{error}");
        assert_eq!(data["tool"], before.as_str());
        assert_eq!(data["fullName"], format!("one__{}", long("code")));
        assert_eq!(data["renamedTo"], after.as_str(), "by the name that the client is shown");
        assert_eq!(data["nearest"][0], after.as_str());
        // Whose names are whole has never seen this one.
        let other = gateway.client().connect().await;
        let never = other.request("tools/call", json!({ "name": before })).await.error();
        assert_eq!(never["message"], format!("unknown tool: {before}"));
        one.remove_tool(&long("all_code"));
        put(&one, tool(&long("code")));
        feed.next().await;
    }
}
