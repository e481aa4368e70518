//! A tool that starts commands asks a person first.

use serde_json::{Value, json};
use tidings_testkit::{Client, ClientReply, Gateway, Server, TempDir};

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

// trust T3
#[tokio::test]
async fn what_a_tool_launched_is_marked_and_not_started_anew_without_a_yes() {
    let server = Server::builder("s").echo("echo").stdio().await;
    let (command, args) = server.command();
    let gateway = Gateway::builder().toml(&format!("{TOOLS}true\n")).serve().await;
    let plain = gateway.client().connect().await;
    let arguments = json!({"command": command, "args": args, "prefix": "mine", "env": {"MODE": "one"}});
    let launched = plain.request("tools/call", json!({"name": "mcp_registry_launch_stdio", "arguments": arguments}));
    assert!(launched.await.result()["isError"] != true);
    assert_eq!(gateway.server_status("mine").await["added_by"], "tool");
    let shown = crate::stdout(&gateway.command(&["servers", "mine"]).await);
    assert!(shown.contains("a tool that a client called"), "{shown}");
    let arguments = json!({"entry_id": "mine", "environment": {"MODE": "two"}});
    let change = json!({"name": "mcp_registry_config_set", "arguments": arguments});
    for (answer, started) in
        [(json!({"action": "decline"}), 1), (json!({"action": "accept", "content": {"start": true}}), 2)]
    {
        let client = gateway.client().capabilities(json!({"elicitation": {}})).connect().await;
        client.on_request(move |_| ClientReply::Result(answer.clone()));
        let result = client.request("tools/call", change.clone()).await.result();
        let asked = client.received().into_iter().filter(|message| message.method == "elicitation/create");
        assert_eq!(asked.count(), 1, "{result}");
        assert_eq!(server.processes().len(), started);
    }
    assert_eq!(server.processes()[1].env["MODE"], "two");
}
