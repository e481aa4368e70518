//! What a tool is given.

use serde_json::json;

use super::{World, answer, text};

#[tokio::test]
async fn a_tool_finds_its_arguments_in_the_environment_and_starts_in_the_project() {
    // S0.9
    let world = World::new();
    let tool =
        world.tool(r#"printf '%s|%s|%s|%s' "$MCP_TOOL_ARGS_JSON" "$MCP_TOOL_NAME" "$MCP_TOOL_META_JSON" "$PWD""#);
    let params = json!({"arguments": {"a": "$(id) `id` ; rm -rf / \" ' \n"}, "_meta": {"who": "x"}});
    let answer = answer(world.start(tool, params.clone())).await;
    let parts: Vec<&str> = text(&answer).split('|').collect();
    assert_eq!(serde_json::from_str::<serde_json::Value>(parts[0]).unwrap(), params["arguments"]);
    assert_eq!(parts[1..3], ["it", r#"{"who":"x"}"#]);
    assert_eq!(std::path::Path::new(parts[3]), world.dir.path().canonicalize().unwrap());
    assert_eq!(answer["result"]["_meta"]["exitCode"], 0);
    world.assert_clean().await;
}

#[tokio::test]
async fn long_arguments_come_in_a_private_file_that_is_gone_afterwards() {
    // S0.9
    let world = World::with(&[("MCPBASH_ENV_PAYLOAD_THRESHOLD", "1000")]);
    let tool = world.tool(
        r#"[ -z "$MCP_TOOL_ARGS_JSON" ] || exit 9
stat -c %a "$MCP_TOOL_ARGS_FILE" "$(dirname "$MCP_TOOL_ARGS_FILE")"
wc -c < "$MCP_TOOL_ARGS_FILE""#,
    );
    let long = "x".repeat(5_000_000);
    let answer = answer(world.start(tool, json!({"arguments": {"long": long}}))).await;
    assert_eq!(text(&answer).split_whitespace().collect::<Vec<_>>(), ["600", "700", "5000011"]);
    world.assert_clean().await;
}

#[tokio::test]
async fn a_tool_sees_no_secrets_and_has_the_files_and_words_of_the_protocol() {
    // S0.9
    let world = World::with(&[("SECRET_TOKEN", "hush"), ("MCPBASH_TOOL_ALLOWLIST", "*")]);
    let answer = world.run("env").await;
    let lines: Vec<&str> = text(&answer).lines().collect();
    let value = |name: &str| lines.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    assert_eq!(value("SECRET_TOKEN"), None);
    assert_eq!(
        (value("MCP_ELICIT_SUPPORTED"), value("MCP_ROOTS_COUNT"), value("MCPBASH_TOOL_ALLOWLIST")),
        (Some("0"), Some("1"), Some("*"))
    );
    let root = world.dir.path().canonicalize().unwrap();
    assert_eq!(value("MCP_ROOTS_PATHS"), root.to_str());
    assert_eq!(value("MCPBASH_PROJECT_ROOT"), root.to_str());
    for name in
        ["MCP_TOOL_ERROR_FILE", "MCP_TOOL_RESOURCES_FILE", "MCP_PROGRESS_STREAM", "MCP_LOG_STREAM", "MCP_CANCEL_FILE"]
    {
        assert!(value(name).is_some_and(|path| path.starts_with(world.temporary.path().to_str().unwrap())), "{name}");
    }
}

#[tokio::test]
async fn any_language_with_a_first_line_runs_and_it_need_not_be_executable() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::new();
    let mut tool = world.tool("exit 1");
    tool.script = world.script("tools/odd", "#!/usr/bin/env -S awk -f\nBEGIN { print \"awk\" }\n");
    assert_eq!(text(&answer(world.start(tool.clone(), json!({}))).await), "awk\n");
    tool.script = world.script("tools/plain.sh", "echo shell\n");
    std::fs::set_permissions(&tool.script, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(text(&answer(world.start(tool.clone(), json!({}))).await), "shell\n");
    tool.script = world.script("tools/none", "#!/no/such/interpreter\n");
    let missing = answer(world.start(tool, json!({}))).await;
    let message = missing["error"]["message"].as_str().unwrap();
    assert!(message.contains("tools/none") && message.contains("interpreter"), "{message}");
    world.assert_clean().await;
}
