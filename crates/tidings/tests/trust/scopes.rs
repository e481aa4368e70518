//! What a token that may not use a server does to it, and hears of it.

use serde_json::{Value, json};
use tidings_testkit::{Gateway, Server, Tool};

use crate::{auth, with_token};

// trust T12
#[tokio::test]
async fn nobody_sets_the_log_level_of_a_server_that_they_may_not_use() {
    let logging = json!({"tools": {}, "logging": {}});
    let red = Server::builder("red").echo("echo").capabilities(logging.clone()).stdio().await;
    let blue = Server::builder("blue").echo("echo").capabilities(logging).stdio().await;
    let tokens = auth(&[("red", &["red"]), ("all", &["*"])]);
    let gateway = Gateway::builder().toml(&tokens).server("red", &red).server("blue", &blue).serve().await;
    let level = |level: &str| json!({ "level": level });
    let client = with_token(gateway.client(), "red").connect().await;
    client.request("logging/setLevel", level("debug")).await.result();
    red.record().wait_for("the level", |message| message.method == "logging/setLevel").await;
    // What is asked of `blue` next is the first that it hears of levels.
    let other = with_token(gateway.client(), "all").connect().await;
    other.request("logging/setLevel", level("error")).await.result();
    let told = blue.record().wait_for("the level", |message| message.method == "logging/setLevel").await;
    assert_eq!(told.params()["level"], "error");
    assert_eq!(red.count("logging/setLevel"), 1, "the lower one stays");
}

// trust T12
#[tokio::test]
async fn scores_tell_nothing_of_tools_that_the_caller_does_not_see() {
    let tool = |name: &str, text: &str| {
        let definition = json!({"name": name, "description": text, "inputSchema": {"type": "object"}});
        Tool::raw(&definition.to_string(), |call| async move { call.ok_text("done") })
    };
    let mut seen: Vec<Value> = Vec::new();
    for secret in [false, true] {
        let red = Server::builder("red")
            .entry_tool(tool("pay", "Pay an invoice."))
            .entry_tool(tool("list", "List things to pay."));
        let (red, blue) = (red.stdio().await, Server::builder("blue").echo("echo").stdio().await);
        if secret {
            (0..20).for_each(|nth| blue.put_tool(tool(&format!("invoice{nth}"), "Pay an invoice at once.")));
        }
        let toml = format!("{}[gateway]\nexpose = \"search\"\n", auth(&[("red", &["red"]), ("all", &["*"])]));
        let gateway = Gateway::builder().toml(&toml).server("red", &red).server("blue", &blue).serve().await;
        let client = with_token(gateway.client(), "red").connect().await;
        let found = client.call_tool("retrieve_tools", json!({"query": "pay an invoice"})).await;
        seen.push(serde_json::from_str(&found.text()).unwrap());
    }
    assert_eq!(seen[0]["tools"].as_array().unwrap().len(), 2, "{}", seen[0]);
    assert_eq!(seen[0], seen[1]);
}
