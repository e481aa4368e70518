//! From `tidings scaffold` to a tool that a client calls.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::json;
use tidings_testkit::*;

use crate::serve;

fn run(state: &TempDir, args: &[&str]) -> Output {
    let data = state.join("data");
    Command::new(tidings()).args(args).arg("--data").arg(data).env_remove("MCPBASH_PROJECT_ROOT").output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

// issue 5: docs/script-projects.md, from scaffold to client
#[tokio::test]
async fn what_is_scaffolded_is_valid_runs_and_can_be_called() {
    let state = TempDir::new();
    let project = state.join("my-scripts");
    let dir = project.to_str().unwrap();
    for kind in ["tool", "prompt", "resource", "completion"] {
        let made = run(&state, &["scaffold", kind, "hello", "--project", dir]);
        assert!(made.status.success(), "{}", text(&made.stderr));
        assert!(text(&made.stdout).contains("Next:"), "{}", text(&made.stdout));
    }
    let valid = run(&state, &["validate", dir, "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&valid.stdout).unwrap();
    assert_eq!((&report["ok"], &report["problems"]), (&json!(true), &json!([])), "{report}");
    let ran = run(&state, &["run-tool", "hello", "--project", dir, "--args", r#"{"name": "Ada"}"#]);
    assert!(text(&ran.stdout).contains("Hello, Ada!"), "{} {}", text(&ran.stdout), text(&ran.stderr));

    let client = serve(Path::new(dir), &state).connect().await;
    let called = client.call_tool("hello", json!({ "name": "Ada" })).await.result();
    assert_eq!(called["structuredContent"]["result"]["message"], "Hello, Ada!");
    let prompt = client.request("prompts/get", json!({ "name": "hello", "arguments": { "topic": "tides" } })).await;
    assert!(prompt.result()["messages"][0]["content"]["text"].as_str().unwrap().contains("tides"));
    let uri = client.list("resources").await[0]["uri"].clone();
    let read = client.request("resources/read", json!({ "uri": uri })).await.result();
    assert!(read["contents"][0]["text"].as_str().unwrap().contains("This is hello."));
    let wish =
        json!({ "ref": { "type": "ref/prompt", "name": "hello" }, "argument": { "name": "topic", "value": "g" } });
    let completed = client.request("completion/complete", wish).await.result();
    assert_eq!(completed["completion"]["values"], json!(["green"]));
}

#[test]
fn nothing_is_overwritten_and_bad_names_are_refused() {
    let state = TempDir::new();
    let dir = state.join("p");
    let dir = dir.to_str().unwrap();
    assert!(run(&state, &["scaffold", "tool", "one", "--project", dir]).status.success());
    let again = run(&state, &["scaffold", "tool", "one", "--project", dir]);
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("there already"), "{}", text(&again.stderr));
    let bad = run(&state, &["scaffold", "tool", "../up", "--project", dir]);
    assert_eq!(bad.status.code(), Some(2));
    assert!(text(&bad.stderr).contains("not a name"), "{}", text(&bad.stderr));
}

#[test]
fn json_is_answered_by_the_program_itself() {
    let json = |args: &[&str]| text(&Command::new(tidings()).args(args).output().unwrap().stdout);
    assert_eq!(json(&["json", "-nr", "--arg", "who", "Ada", "\"Hello, \\($who)!\""]), "Hello, Ada!\n");
    assert!(json(&["json", "--help"]).contains("--slurpfile"));
    assert_eq!(json(&["-v", "json", "-n", "1 + 1"]), "2\n");
    assert!(json(&["--help"]).contains("json"));
}
