//! Every project of `examples/script-projects`, used by a client as its README says.

use std::path::PathBuf;

use serde_json::{Value, json};
use tidings_testkit::*;

use crate::serve;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/script-projects");

fn folder(name: &str) -> PathBuf {
    PathBuf::from(EXAMPLES).join(name)
}

/// A client in the making of `tidings project` for an example.
fn example(name: &str) -> ClientBuilder {
    let state = TempDir::new();
    serve(&folder(name), &state).keep(state)
}

/// Clients of both eras.
async fn both(name: &str) -> [Client; 2] {
    [example(name).connect().await, example(name).modern().connect().await]
}

// S0.9
#[tokio::test]
async fn hello_in_three_languages() {
    for client in both("hello").await {
        assert_eq!(client.names("tools").await, ["hello", "sum", "uptime"]);
        assert_eq!(client.call_tool("hello", json!({ "name": "Ada" })).await.text(), "Hello, Ada!");
        assert_eq!(client.call_tool("hello", json!({})).await.text(), "Hello, World!");
        let sum = client.call_tool("sum", json!({ "numbers": [1, 2.5] })).await.result();
        assert_eq!(sum["structuredContent"], json!({ "sum": 3.5 }));
        assert!(client.call_tool("uptime", json!({})).await.text().trim().parse::<u64>().is_ok());
    }
}

// S0.9
#[tokio::test]
async fn arguments_are_checked_and_errors_help() {
    for client in both("arguments").await {
        let repeated = client.call_tool("repeat", json!({ "text": "ab", "times": 3, "loud": true })).await.result();
        assert_eq!(repeated["structuredContent"], json!({ "success": true, "result": ["AB", "AB", "AB"] }));
        let long = client.call_tool("repeat", json!({ "text": "x".repeat(101) })).await.result();
        assert_eq!(long["isError"], true);
        assert_eq!(long["structuredContent"]["error"]["hint"], "Use at most 100 characters.");
        let missing = client.call_tool("repeat", json!({})).await;
        assert_eq!(missing.error_code(), -32602);
        assert!(missing.error()["message"].to_string().contains("text is required"), "{}", missing.error());
        assert_eq!(client.call_tool("repeat", json!({ "text": "x", "times": 99 })).await.error_code(), -32602);
    }
}

// S0.9
#[tokio::test]
async fn log_messages_come_at_the_level_that_was_asked_for() {
    let client = example("logging").connect().await;
    client.request("logging/setLevel", json!({ "level": "warning" })).await.result();
    let levels = |exchange: &Exchange| -> Vec<String> {
        let told = exchange.before_with("notifications/message");
        told.iter().map(|message| message.params()["level"].as_str().unwrap().to_owned()).collect()
    };
    let logged = client.call_tool("logger", json!({})).await;
    assert_eq!(logged.text(), "Logged.");
    assert_eq!(levels(&logged), ["warning", "error"]);
    client.request("logging/setLevel", json!({ "level": "debug" })).await.result();
    let logged = client.call_tool("logger", json!({})).await;
    assert_eq!(levels(&logged), ["debug", "info", "warning", "error", "notice"]);
    let data = logged.before_with("notifications/message")[4].params()["data"].clone();
    assert_eq!(data["answer"], 42);
    let modern = example("logging").modern().log_level("error").connect().await;
    assert_eq!(levels(&modern.call_tool("logger", json!({})).await), ["error"]);
}

// S0.9
#[tokio::test]
async fn progress_is_told_as_it_is_made() {
    for client in both("progress").await {
        let request = json!({ "name": "count", "arguments": { "steps": 4, "pause": 0.01 } });
        let counted = client.call("tools/call").params(request).progress_token("\"mine\"").send().await;
        assert_eq!(counted.text(), "Counted to 4.");
        let told = counted.before_with("notifications/progress");
        let told: Vec<Value> = told.iter().map(|notice| notice.params()).collect();
        assert!(told.iter().all(|params| params["progressToken"] == "mine"), "{told:?}");
        let numbers: Vec<i64> = told.iter().map(|params| params["progress"].as_i64().unwrap()).collect();
        assert_eq!(numbers, [25, 50, 75, 100]);
        assert_eq!(told[0]["message"], "step 1 of 4");
    }
}

// S0.9, S2.1
#[tokio::test]
async fn a_cancelled_tool_ends() {
    let client = example("progress").connect().await;
    let request = json!({ "name": "count", "arguments": { "steps": 100, "pause": 30 } });
    let mut pending = client.call("tools/call").params(request).progress_token("1").start();
    pending.next_method("notifications/progress").await;
    client.cancel(&pending).await;
    // The one worker that this leaves is the proof: the next call needs no patience.
    assert_eq!(client.call_tool("count", json!({ "steps": 1, "pause": 0 })).await.text(), "Counted to 1.");
}

// S0.9
#[tokio::test]
async fn resources_come_from_files_and_providers() {
    for client in both("resources").await {
        let listed = client.list("resources").await;
        let uri_of = |name: &str| listed.iter().find(|resource| resource["name"] == name).map(|it| it["uri"].clone());
        assert_eq!((listed.len(), uri_of("fortune")), (2, Some(json!("fortune://today"))));
        let file = uri_of("greeting").unwrap();
        let file = file.as_str().unwrap();
        assert!(file.starts_with("file:///"), "{file}");
        let read = |uri: &str| {
            let uri = uri.to_owned();
            let client = &client;
            async move { client.request("resources/read", json!({ "uri": uri })).await }
        };
        assert_eq!(read(file).await.result()["contents"][0]["text"], "Hello from a file.\n");
        let fortune = read("fortune://monday").await.result();
        assert_eq!(fortune["contents"][0]["text"], "Mondays are for reading.\n");
        let unknown = read("fortune://never").await;
        assert!(matches!(unknown.error_code(), -32002 | -32602), "{}", unknown.error());
        let templates = client.request("resources/templates/list", json!({})).await.result();
        assert_eq!(templates["resourceTemplates"][0]["uriTemplate"], "fortune://{day}");
        let report = client.call_tool("report", json!({})).await.result();
        assert_eq!(report["content"][1]["resource"]["text"], "Hello from a file.\n", "{report}");
    }
}

// S0.9
#[tokio::test]
async fn prompts_have_their_gaps_filled() {
    for client in both("prompts").await {
        let listed = client.list("prompts").await;
        assert_eq!(listed[0]["arguments"][0]["name"], "code");
        let request = json!({ "name": "review", "arguments": { "language": "Rust", "code": "fn main() {}" } });
        let got = client.request("prompts/get", request).await.result();
        let text = got["messages"][0]["content"]["text"].as_str().unwrap();
        assert!(text.starts_with("Review this Rust code.") && text.contains("fn main() {}"), "{text}");
        assert_eq!(got["messages"][0]["role"], "user");
    }
}

// S0.9
#[tokio::test]
async fn roots_are_the_clients_or_the_projects_own() {
    let own = example("roots").connect().await;
    assert_eq!(own.call_tool("read-file", json!({ "path": "./data/sample.txt" })).await.text(), "You may read this.\n");
    let denied = own.call_tool("read-file", json!({ "path": "/etc/hostname" })).await;
    assert!(denied.error()["message"].to_string().contains("outside configured MCP roots"), "{}", denied.error());

    let folder = TempDir::new();
    let file = folder.write("mine.txt", "mine");
    let client = example("roots").capabilities(json!({ "roots": {} })).connect().await;
    let root = format!("file://{}", folder.path().display());
    client.on_request(move |_| ClientReply::Result(json!({ "roots": [{ "uri": root, "name": "Mine" }] })));
    assert_eq!(client.call_tool("read-file", json!({ "path": file.to_str() })).await.text(), "mine");
    let inside = self::folder("roots").join("data/sample.txt");
    assert_eq!(client.call_tool("read-file", json!({ "path": inside.to_str() })).await.error_code(), -32602);
}

// S0.9
#[tokio::test]
async fn the_user_is_asked_in_the_middle_of_a_call() {
    let client = example("elicitation").capabilities(json!({ "elicitation": { "form": {} } })).connect().await;
    client.on_request(|request| {
        let content = if request.params()["message"] == "Which size?" {
            json!({ "choice": "l" })
        } else {
            json!({ "confirmed": true })
        };
        ClientReply::Result(json!({ "action": "accept", "content": content }))
    });
    let ordered = client.call_tool("order", json!({})).await.result();
    assert_eq!(ordered["structuredContent"]["result"], json!({ "status": "ordered", "size": "l" }));
    let asked: Vec<Value> =
        client.received().iter().filter(|seen| seen.is_request()).map(|seen| seen.params()).collect();
    assert_eq!(asked[0]["requestedSchema"]["properties"]["confirmed"]["type"], "boolean");
    assert_eq!(asked[1]["requestedSchema"]["properties"]["choice"]["oneOf"][1]["title"], "Large (for long days)");
    let mute = example("elicitation").connect().await;
    let nothing = mute.call_tool("order", json!({})).await.result();
    assert_eq!(nothing["structuredContent"]["result"], json!({ "status": "nothing ordered", "action": "decline" }));
}

// S0.9
#[tokio::test]
async fn arguments_of_prompts_are_completed() {
    for client in both("completion").await {
        let complete = |value: &str| {
            let params = json!({
                "ref": { "type": "ref/prompt", "name": "trip" },
                "argument": { "name": "city", "value": value },
            });
            let client = &client;
            async move { client.request("completion/complete", params).await.result()["completion"].clone() }
        };
        assert_eq!(complete("ber").await["values"], json!(["Berlin", "Bern", "Bergen"]));
        let all = complete("").await;
        assert_eq!((all["values"].as_array().unwrap().len(), &all["hasMore"]), (5, &json!(true)), "{all}");
    }
}

// S0.7, S0.9
#[tokio::test]
async fn a_hook_says_what_there_is() {
    let folder = TempDir::new();
    let project = folder.join("project");
    for file in ["server.d/register.sh", "tools.list", "tools/say/tool.sh"] {
        let to = project.join(file);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(self::folder("register-hooks").join(file), to).unwrap();
    }
    let denied = serve(&project, &folder).connect().await;
    assert_eq!(denied.names("tools").await, ["say"], "hooks are off unless they are permitted");
    let hooks = serve(&project, &folder).env("MCPBASH_ALLOW_PROJECT_HOOKS", "true").env("MCPBASH_REGISTER_TTL", "1");
    let client = hooks.connect().await;
    assert_eq!(client.names("tools").await, ["say-goodbye", "say-hello"]);
    assert_eq!(client.call_tool("say-goodbye", json!({})).await.text(), "Goodbye.\n");
    let before = client.count("notifications/tools/list_changed");
    std::fs::write(project.join("tools.list"), "say-hello Says hello.\nsay-moin Says hello in the north.\n").unwrap();
    client.wait_for_method("notifications/tools/list_changed", before + 1).await;
    assert_eq!(client.names("tools").await, ["say-hello", "say-moin"]);
}
