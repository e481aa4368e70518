//! A tool that starts commands asks a person first.

use serde_json::{Value, json};
use tidings_testkit::{Client, ClientReply, Gateway, TempDir};

const TOOLS: &str = "[gateway]\nregistry_tools = ";

fn launch(mark: &std::path::Path) -> Value {
    let script = format!("touch {}; exit 1", mark.display());
    let arguments = json!({"command": "sh", "args": ["-c", script], "prefix": "evil", "env": {"KEY": "${env:SECRET}"}});
    json!({"name": "mcp_registry_launch_stdio", "arguments": arguments})
}

// trust T3
#[tokio::test]
async fn nothing_starts_before_somebody_who_can_be_asked_says_yes_to_exactly_that() {
    let gateway = Gateway::builder().toml(&format!("{TOOLS}true\n")).env("SECRET", "hush").serve().await;
    let forms = json!({"elicitation": {}});
    for answer in [json!({"action": "decline"}), json!({"action": "accept", "content": {"start": false}})] {
        let (home, said) = (TempDir::new(), answer.clone());
        let mark = home.join("started");
        let client = gateway.client().capabilities(forms.clone()).connect().await;
        client.on_request(move |_| ClientReply::Result(said.clone()));
        let refused = client.request("tools/call", launch(&mark)).await.result();
        let asked = client.received().into_iter().find(|message| message.method == "elicitation/create").unwrap();
        let message = asked.params()["message"].as_str().unwrap().to_owned();
        assert!(message.contains("Command: sh -c") && message.contains("Variables: KEY"), "{message}");
        assert!(!message.contains("hush") && !message.contains("env:SECRET"), "{message}");
        assert!(refused["isError"] == true && refused.to_string().contains("did not agree"), "{refused}");
        assert!(!mark.exists(), "{answer}");
    }
    let home = TempDir::new();
    let mark = home.join("started");
    let client = gateway.client().capabilities(forms).connect().await;
    client.on_request(|_| ClientReply::Result(json!({"action": "accept", "content": {"start": true}})));
    client.request("tools/call", launch(&mark)).await.result();
    assert!(mark.exists(), "with a yes it starts");
}

// trust T3
#[tokio::test]
async fn with_ask_a_client_that_can_not_be_asked_starts_nothing() {
    let gateway = Gateway::builder().toml(&format!("{TOOLS}\"ask\"\n")).serve().await;
    let home = TempDir::new();
    let mark = home.join("started");
    let clients: [Client; 2] = [gateway.client().connect().await, gateway.client().modern().connect().await];
    for client in clients {
        let refused = client.request("tools/call", launch(&mark)).await.result();
        assert!(refused["isError"] == true && refused.to_string().contains("tidings add"), "{refused}");
    }
    assert!(!mark.exists());
}

// trust T3
#[tokio::test]
async fn what_a_tool_is_given_refers_to_nothing() {
    let gateway = Gateway::builder().toml(&format!("{TOOLS}true\n")).env("SECRET", "hush").serve().await;
    let home = TempDir::new();
    let seen = home.join("seen");
    let client = gateway.client().connect().await;
    let script = format!("printf '%s %s' \"$KEY\" '${{env:SECRET}}' > {}; exit 1", seen.display());
    let arguments = json!({"command": "sh", "args": ["-c", script], "prefix": "evil", "env": {"KEY": "${env:SECRET}"}});
    client.call_tool("mcp_registry_launch_stdio", arguments).await;
    assert_eq!(std::fs::read_to_string(&seen).unwrap(), "${env:SECRET} ${env:SECRET}");
}
