//! The order of a merged list, and which tools are in it.

use serde_json::json;
use tidings_testkit::{Gateway, Server, ServerBuilder};

/// In an order that no rule would make.
const KEYS: [&str; 6] = ["b", "Z", "a_", "a", "é", "a-"];

fn unordered(name: &str) -> ServerBuilder {
    KEYS.iter().fold(Server::builder(name), |server, tool| {
        server
            .echo(tool)
            .resource(&format!("file:///{tool}"), tool)
            .template(&format!("x{tool}:///{{v}}"), |_| None)
            .prompt(tool, |call| async move { call.ok_message("hi") })
    })
}

// bridging A3 (order); edges C7
#[tokio::test]
async fn lists_are_in_the_order_of_the_configuration_and_then_of_the_server() {
    let zeta = unordered("zeta").stdio().await;
    let alpha = unordered("alpha").modern_only().http().await;
    let gateway = Gateway::builder().server("zeta", &zeta).server("alpha", &alpha).serve().await;
    let expect = |shape: &dyn Fn(&str, &str) -> String, keys: &[&str]| -> Vec<String> {
        ["zeta", "alpha"].iter().flat_map(|server| keys.iter().map(|key| shape(server, key))).collect()
    };
    for client in [gateway.client().connect().await, gateway.client().modern().connect().await] {
        let named = expect(&|server, key| format!("{server}__{key}"), &KEYS);
        assert_eq!(client.names("tools").await, named);
        assert_eq!(client.names("prompts").await, named);
        assert_eq!(client.names("resources").await, expect(&|s, key| format!("{s}+file:///{key}"), &KEYS));
        assert_eq!(client.names("templates").await, expect(&|s, key| format!("{s}+x{key}:///{{v}}"), &KEYS));
    }
}

// interface (tools = { allow, deny })
#[tokio::test]
async fn tools_that_are_not_allowed_are_neither_listed_nor_callable() {
    let filter = "tools = { allow = [\"read_*\", \"stat\"], deny = [\"*_secret\"] }";
    let script = || Server::builder("files").echo("read_file").echo("read_secret").echo("stat").echo("write_file");
    let (alone, one, two) = (script().stdio().await, script().stdio().await, script().stdio().await);
    let single = Gateway::builder().server_with("files", &alone, filter).serve().await;
    let both = Gateway::builder().server_with("files", &one, filter).server("other", &two).serve().await;

    let client = single.client().connect().await;
    assert_eq!(client.names("tools").await, ["read_file", "stat"]);
    for name in ["read_secret", "write_file", "files__write_file"] {
        assert_eq!(client.call_tool(name, json!({})).await.error_code(), -32602, "{name}");
    }
    assert_eq!(client.call_tool("read_file", json!({})).await.text(), "{}");
    assert_eq!(alone.count("tools/call"), 1);

    let client = both.client().modern().connect().await;
    let names = client.names("tools").await;
    assert_eq!(names[..2], ["files__read_file", "files__stat"]);
    assert_eq!(names.len(), 6, "the filter is that of one server: {names:?}");
    for name in ["files__read_secret", "files__write_file", "files:write_file", "mcp_files_write_file"] {
        assert_eq!(client.call_tool(name, json!({})).await.error_code(), -32602, "{name}");
    }
    assert_eq!(client.call_tool("write_file", json!({})).await.text(), "{}", "only the other server has that name");
    assert_eq!((one.count("tools/call"), two.count("tools/call")), (0, 1));
}
