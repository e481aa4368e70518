//! `tidings run-tool`.

use std::process::{Command, Output};

use serde_json::{Value, json};
use tidings_testkit::tidings;

use super::Project;

fn run(project: &Project, args: &[&str]) -> Output {
    let data = project.0.join("data");
    let mut command = Command::new(tidings());
    command.arg("run-tool").args(args).arg("--project").arg(project.path("")).arg("--data").arg(data);
    command.env("SECRET", "hush").output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn project() -> Project {
    let project = Project::new();
    let line = r#"{"method":"notifications/progress","params":{"progress":50,"message":"half"}}"#;
    project
        .tool(
            "hello",
            json!({}),
            &format!("echo '{line}' >> \"$MCP_PROGRESS_STREAM\"; printf '{{\"got\":%s}}' \"$MCP_TOOL_ARGS_JSON\""),
        )
        .tool("fail", json!({}), "echo no >&2; exit 3")
        .tool("slow", json!({}), "sleep 60");
    project
}

#[test]
fn a_tool_is_run_with_its_arguments_and_shows_its_progress() {
    let project = project();
    let plain = run(&project, &["hello", "--args", r#"{"name": "Ann"}"#]);
    assert!(plain.status.success(), "{plain:?}");
    assert_eq!(stdout(&plain), "{\"got\":{\"name\":\"Ann\"}}\n");
    assert!(stderr(&plain).contains("progress 50 half"), "{plain:?}");
    let file = project.0.write("args.json", r#"{"name": "Bob"}"#);
    let whole = run(&project, &["hello", "--json", "--args", &format!("@{}", file.display())]);
    let result: Value = serde_json::from_str(&stdout(&whole)).unwrap();
    assert_eq!(result["structuredContent"]["got"], json!({"name": "Bob"}));
}

#[test]
fn failures_are_told_by_exit_code_and_in_words() {
    let project = project();
    let failed = run(&project, &["fail"]);
    assert_eq!(failed.status.code(), Some(1));
    // edges F10
    assert_eq!(stdout(&failed), "Tool failed with exit code 3:\nno\n");
    assert!(stderr(&failed).contains("the tool reports an error (exit code 3)"), "{failed:?}");
    let late = run(&project, &["slow", "--timeout", "0.2", "--json"]);
    assert_eq!(late.status.code(), Some(1));
    assert_eq!(serde_json::from_str::<Value>(&stdout(&late)).unwrap()["structuredContent"]["error"]["type"], "timeout");
    let unknown = run(&project, &["helo"]);
    assert!(stderr(&unknown).contains("it has fail, hello, slow"), "{unknown:?}");
    for bad in [&["hello", "--args", "[1]"][..], &["hello", "--args", "{"], &["hello", "--timeout", "-1"]] {
        assert_eq!(run(&project, bad).status.code(), Some(2), "{bad:?}");
    }
}

#[test]
fn what_would_be_run_and_its_environment_can_be_seen_without_running_it() {
    let project = project();
    let seen = stdout(&run(&project, &["hello", "--dry-run", "--print-env", "--args", r#"{"a":1}"#]));
    assert!(seen.contains("tools/hello/tool.sh with {\"a\":1}"), "{seen}");
    assert!(seen.contains("MCPBASH_PROJECT_ROOT=") && !seen.contains("hush"), "{seen}");
    let json: Value = serde_json::from_str(&stdout(&run(&project, &["fail", "--dry-run", "--json"]))).unwrap();
    assert_eq!((&json["tool"], &json["runs"]), (&json!("fail"), &json!(false)));
}
