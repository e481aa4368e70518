//! Calls, what is said during them, and what is asked.

use serde_json::{Value, json};
use tidings_testkit::{Client, ClientReply, is_modern};

use super::Project;

fn everything() -> Project {
    let project = Project::new();
    project
        .tool("add", json!({}), r#"printf '{"args":%s}' "$MCP_TOOL_ARGS_JSON""#)
        .tool("fail", json!({}), "echo 'which file?' >&2; exit 4")
        .tool("slow", json!({"timeoutSecs": 1, "timeoutHint": "ask for less"}), "sleep 60")
        .write("resources/note.txt", "a note\n")
        .write("prompts/greet.txt", "Hello {{name}}")
        .write("prompts/greet.meta.json", r#"{"name": "greet", "description": "Greets", "arguments": {"type": "object", "properties": {"name": {"type": "string"}}}}"#)
        .write("completions/names.sh", "#!/bin/sh\necho '[\"ann\",\"bob\"]'\n");
    project
}

// S0.9
#[tokio::test]
async fn tools_prompts_and_resources_answer_clients_of_both_eras_everywhere() {
    let project = everything();
    let gateway = project.serve().await;
    for (kind, client) in project.clients(&gateway).await {
        let added = client.call_tool("add", json!({"a": 1, "text": "$(id) `id` é"})).await.result();
        assert_eq!(added["structuredContent"]["args"], json!({"a": 1, "text": "$(id) `id` é"}), "{kind}");
        assert_eq!(added["_meta"]["exitCode"], 0, "{kind}");
        // edges F10
        let failed = client.call_tool("fail", json!({})).await.result();
        assert_eq!(failed["isError"], true, "{kind}: {failed}");
        let said = failed["content"][0]["text"].as_str().unwrap_or_default();
        assert!(said.starts_with("Tool failed with exit code ") && said.ends_with(":\nwhich file?"), "{kind}: {said}");
        let late = client.call_tool("slow", json!({})).await.result();
        assert_eq!(late["structuredContent"]["error"]["reason"], "fixed", "{kind}: {late}");
        let uri = client.list("resources").await[0]["uri"].as_str().unwrap().to_owned();
        let read = client.request("resources/read", json!({"uri": uri})).await.result();
        assert_eq!(read["contents"][0]["text"], "a note\n", "{kind}");
        let outside = uri.replace("resources/note.txt", "tools/add/tool.sh");
        assert_eq!(
            client.request("resources/read", json!({"uri": outside})).await.error()["message"],
            "Resource outside allowed roots"
        );
        let prompt =
            client.request("prompts/get", json!({"name": "greet", "arguments": {"name": "Ann"}})).await.result();
        assert_eq!(prompt["messages"][0]["content"]["text"], "Hello Ann", "{kind}");
    }
}

// S0.9
#[tokio::test]
async fn completions_are_registered_and_asked() {
    let project = everything();
    project.write(
        "server.d/register.json",
        r#"{"version": 1, "completions": [{"name": "greet", "path": "completions/names.sh", "timeoutSecs": 20}]}"#,
    );
    let client = project.stdio().connect().await;
    let argument = json!({"name": "name", "value": "a"});
    let ask = |name: &str| {
        client
            .request("completion/complete", json!({"ref": {"type": "ref/prompt", "name": name}, "argument": argument}))
    };
    assert_eq!(ask("greet").await.result()["completion"]["values"], json!(["ann", "bob"]));
    assert_eq!(ask("absent").await.error_code(), -32602);
}

// S2.3 S2.8
#[tokio::test]
async fn progress_reaches_the_caller_with_its_own_token_while_the_tool_runs() {
    let project = Project::new();
    let go = project.path("go");
    let line = r#"{"method":"notifications/progress","params":{"progress":1,"message":"begun"}}"#;
    project.tool(
        "work",
        json!({}),
        &format!(
            "echo '{line}' >> \"$MCP_PROGRESS_STREAM\"; while [ ! -e {} ]; do sleep 0.05; done; echo done",
            go.display()
        ),
    );
    let gateway = project.serve().await;
    for (kind, client) in project.clients(&gateway).await {
        let params = json!({"name": "work", "arguments": {}});
        let mut call = client.call("tools/call").params(params).progress_token("\"mine\"").start();
        let progress = call.next_method("notifications/progress").await;
        assert_eq!(
            (progress.param(&["progressToken"]), progress.param(&["message"])),
            (json!("mine"), json!("begun")),
            "{kind}"
        );
        project.write("go", "");
        assert_eq!(call.finish().await.text(), "done\n", "{kind}");
        std::fs::remove_file(&go).unwrap();
    }
}

// S0.9
#[tokio::test]
async fn log_messages_reach_those_who_want_them_by_level() {
    let project = Project::new();
    let log = |level: &str| {
        format!(
            r#"echo '{{"method":"notifications/message","params":{{"level":"{level}","logger":"it","data":"{level}"}}}}' >> "$MCP_LOG_STREAM""#
        )
    };
    project.tool("talk", json!({}), &[log("debug"), log("info"), log("error")].join("\n"));
    let levels = |call: &tidings_testkit::Exchange| -> Vec<Value> {
        call.before_with("notifications/message").iter().map(|message| message.param(&["level"])).collect()
    };
    let client = project.stdio().connect().await;
    assert_eq!(levels(&client.call_tool("talk", json!({})).await), ["info", "error"]);
    client.request("logging/setLevel", json!({"level": "error"})).await.result();
    assert_eq!(levels(&client.call_tool("talk", json!({})).await), ["error"]);
    client.request("logging/setLevel", json!({"level": "debug"})).await.result();
    assert_eq!(levels(&client.call_tool("talk", json!({})).await), ["debug", "info", "error"]);
}

const ASK: &str = r#"if [ "$MCP_ELICIT_SUPPORTED" = 1 ]; then
  printf '{"message":"Which?","schema":{"type":"object","properties":{"colour":{"type":"string"}}},"mode":"form"}' > "$MCP_ELICIT_REQUEST_FILE.tmp"
  mv "$MCP_ELICIT_REQUEST_FILE.tmp" "$MCP_ELICIT_REQUEST_FILE"
  while [ ! -f "$MCP_ELICIT_RESPONSE_FILE" ]; do sleep 0.05; done
  cat "$MCP_ELICIT_RESPONSE_FILE"
else echo 'nobody to ask'; fi"#;

fn answers(client: &Client, colour: &'static str, root: String) {
    client.on_request(move |request| match request.method.as_str() {
        "elicitation/create" => ClientReply::Result(json!({"action": "accept", "content": {"colour": colour}})),
        _ => ClientReply::Result(json!({"roots": [{"uri": format!("file://{root}")}]})),
    });
}

#[tokio::test]
async fn a_tool_asks_the_client_that_called_it_and_knows_who_can_not_be_asked() {
    let project = Project::new();
    project.tool("ask", json!({}), ASK).tool("roots", json!({}), r#"printf %s "$MCP_ROOTS_PATHS""#);
    project.write("data/x", "");
    let gateway = project.serve().await;
    let able = json!({"elicitation": {}, "roots": {}});
    let red = project.stdio().capabilities(able.clone()).connect().await;
    let blue = gateway.client().capabilities(able).connect().await;
    let real = project.path("data").canonicalize().unwrap().to_string_lossy().into_owned();
    for (client, colour) in [(&red, "red"), (&blue, "blue")] {
        answers(client, colour, real.clone());
    }
    for (client, colour) in [(&red, "red"), (&blue, "blue")] {
        let asked = client.call_tool("ask", json!({})).await.result();
        assert_eq!(asked["structuredContent"], json!({"action": "accept", "content": {"colour": colour}}));
        assert_eq!(client.call_tool("roots", json!({})).await.text(), real);
    }
    let root = project.path("").canonicalize().unwrap();
    for (kind, client) in project.clients(&gateway).await {
        assert_eq!(client.call_tool("ask", json!({})).await.text(), "nobody to ask\n", "{kind}");
        assert_eq!(client.call_tool("roots", json!({})).await.text(), root.to_str().unwrap(), "{kind}");
        assert!(
            client.received().iter().all(|message| !message.is_request()),
            "{kind}, {}",
            is_modern(&client.revision())
        );
    }
}

// bridging B6
#[tokio::test]
async fn a_tool_asks_a_modern_client_through_its_request() {
    let project = Project::new();
    project.tool("ask", json!({}), ASK).tool("roots", json!({}), r#"printf %s "$MCP_ROOTS_PATHS""#);
    project.write("data/x", "");
    let gateway = project.serve().await;
    let real = project.path("data").canonicalize().unwrap().to_string_lossy().into_owned();
    let answer = |request: &Value| match request["method"].as_str() {
        Some("elicitation/create") => json!({"action": "accept", "content": {"colour": "green"}}),
        _ => json!({"roots": [{"uri": format!("file://{real}")}]}),
    };
    for client in [project.stdio().modern(), gateway.client().modern()] {
        let client = client.capabilities(json!({"elicitation": {"form": {}}, "roots": {}})).connect().await;
        let (asked, rounds) = client.rounds("tools/call", &json!({"name": "ask", "arguments": {}}), answer).await;
        let expected = json!({"action": "accept", "content": {"colour": "green"}});
        assert_eq!(asked.result()["structuredContent"], expected);
        assert_eq!(rounds.len(), 2, "the roots first, then the form: {rounds:?}");
        let (told, _) = client.rounds("tools/call", &json!({"name": "roots", "arguments": {}}), answer).await;
        assert_eq!(told.text(), real);
    }
}

// S0.9
#[tokio::test]
async fn a_tool_that_policy_does_not_name_is_refused_with_the_remedy() {
    let project = everything();
    let server =
        format!("[servers.scripts]\nproject = {:?}\nenv = {{ MCPBASH_TOOL_ALLOWLIST = \"fail\" }}", project.dir());
    let gateway = tidings_testkit::Gateway::builder().toml(&server).serve().await;
    let client = gateway.client().connect().await;
    let refused = client.call_tool("add", json!({})).await.error();
    assert_eq!(refused["code"], -32602);
    assert!(refused["message"].as_str().unwrap().contains("MCPBASH_TOOL_ALLOWLIST"), "{refused}");
    assert!(client.call_tool("fail", json!({})).await.text().contains("which file?"), "it may run");
}
