//! One test for every row of the table of conventions that script projects rely on, through `tidings project`. What is
//! listed and announced has its tests in `tests/project`.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use tidings_testkit::{Client, TempDir};

use crate::Project;

fn tool<'a>(tools: &'a [Value], name: &str) -> &'a Value {
    tools.iter().find(|tool| tool["name"] == name).unwrap_or_else(|| panic!("no {name} in {tools:?}"))
}

// compat: a tool
#[tokio::test]
async fn tools_are_what_can_be_run() {
    let project = Project::new();
    project
        .write("tools/executable/run", "#!/bin/sh\necho executable\n")
        .write("tools/ending/tool.sh", "echo ending\n")
        .write("tools/bash-ending/tool.bash", "echo bash\n")
        .write("tools/direct.sh", "#!/bin/sh\n# @describe Lies directly in tools.\necho direct\n")
        .write("tools/executable/smoke.sh", "#!/bin/sh\nexit 1\n")
        .write("tools/ending/README.md", "not a tool\n");
    let client = project.client().await;
    let mut names = client.names("tools").await;
    names.sort();
    assert_eq!(names, ["bash-ending", "direct", "ending", "run"]);
    assert_eq!(tool(&client.list("tools").await, "direct")["description"], "Lies directly in tools.");
    for (name, says) in
        [("run", "executable\n"), ("direct", "direct\n"), ("ending", "ending\n"), ("bash-ending", "bash\n")]
    {
        assert_eq!(client.call_tool(name, json!({})).await.text(), says, "{name}");
    }
}

// compat: metadata
#[tokio::test]
async fn metadata_stands_beside_a_script_or_in_it() {
    let project = Project::new();
    let meta = json!({
        "name": "full", "description": "All of it.", "title": "Full",
        "inputSchema": { "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"] },
        "outputSchema": { "type": "object" },
        "annotations": { "readOnlyHint": true },
        "_meta": { "vendor/x": 1 },
        "icons": [{ "src": "./icon.svg", "mimeType": "image/svg+xml" }],
        "timeoutSecs": 9, "timeoutHint": "less", "progressExtendsTimeout": true, "maxTimeoutSecs": 20,
    });
    project
        .tool("one", "echo 1")
        .about("one", &meta.to_string())
        .write("tools/one/icon.svg", "<svg/>")
        .write("tools/two/two.sh", "#!/bin/sh\n")
        .write(
            "tools/two/two.sh.meta.json",
            r#"{"name": "by-file", "description": "d", "arguments": {"type": "object", "properties": {"q": {}}}}"#,
        )
        .write("tools/three/three.sh", "#!/bin/sh\n# mcp:{\"name\":\"inline\",\"description\":\"In the script.\"}\n");
    let client = project.client().await;
    let tools = client.list("tools").await;
    let full = tool(&tools, "full");
    for member in ["description", "outputSchema", "annotations", "_meta"] {
        assert_eq!(full[member], meta[member], "{member}");
    }
    assert_eq!(full["inputSchema"]["required"], json!(["a"]));
    assert!(full["icons"][0]["src"].as_str().unwrap().starts_with("data:image/svg+xml;base64,"), "{full}");
    assert!(full.get("timeoutSecs").is_none(), "how it is run is not listed: {full}");
    assert_eq!(tool(&tools, "by-file")["inputSchema"]["properties"], json!({ "q": {} }));
    assert_eq!(tool(&tools, "inline")["description"], "In the script.");
}

// compat: arguments, `MCP_SDK`
#[tokio::test]
async fn a_tool_finds_its_arguments_and_surroundings_in_the_environment() {
    let project = Project::new();
    project
        .tool("show", r#"printf '%s' "${MCP_TOOL_ARGS_JSON-unset}|${MCP_TOOL_ARGS_FILE:+file}|$(mcp_args_get '.text | length')""#)
        .tool("seen", r#"mcp_json_obj name "$MCP_TOOL_NAME" root "$MCPBASH_PROJECT_ROOT" meta "$(mcp_meta_get '.mine // "none"')" metadata "$(printf '%s' "$MCP_TOOL_METADATA_JSON" | jq -r .description)" elicit "$MCP_ELICIT_SUPPORTED" roots "$MCP_ROOTS_COUNT" json "$MCPBASH_JSON_TOOL" secret "${MY_SECRET-unset}""#)
        .about("seen", r#"{"name": "seen", "description": "Sees."}"#);
    let client = project.stdio().env("MY_SECRET", "hunter2").connect().await;
    let small = client.call_tool("show", json!({ "text": "héllo" })).await.text();
    assert_eq!(small, r#"{"text":"héllo"}||5"#);
    let large = client.call_tool("show", json!({ "text": "x".repeat(70_000) })).await.text();
    assert!(large.ends_with("|file|70000"), "{}", &large[large.len().saturating_sub(100)..]);
    let request = json!({ "name": "seen", "arguments": {}, "_meta": { "mine": "meta" } });
    let seen = client.request("tools/call", request).await.result()["structuredContent"].clone();
    let root = project.root().canonicalize().unwrap();
    assert_eq!(
        seen,
        json!({ "name": "seen", "root": root.to_str(), "meta": "meta", "metadata": "Sees.", "elicit": "0", "roots": "1",
            "json": "jq", "secret": "unset" })
    );
}

// compat: result
#[tokio::test]
async fn what_a_tool_prints_and_how_it_ends_is_its_result() {
    let project = Project::new();
    project
        .write(
            "tools/whole/tool.sh",
            "#!/bin/sh\necho '{\"content\":[{\"type\":\"text\",\"text\":\"mine\"}],\"isError\":true}'\n",
        )
        .write("tools/data/tool.sh", "#!/bin/sh\necho '{\"a\":[1]}'; echo note >&2\n")
        .write("tools/plain/tool.sh", "#!/bin/sh\necho 'just text'\n")
        .write("tools/bad/tool.sh", "#!/bin/sh\necho 'out of cheese' >&2; exit 7\n")
        .tool("refuses", "mcp_fail -32050 'no luck' '{\"luck\":0}'")
        .write("tools/slow/tool.sh", "#!/bin/sh\nsleep 60\n")
        .about("slow", r#"{"name": "slow", "description": "d", "timeoutSecs": 1, "timeoutHint": "be quick"}"#);
    let client = project.client().await;
    let whole = client.call_tool("whole", json!({})).await.result();
    assert_eq!((&whole["content"][0]["text"], &whole["isError"]), (&json!("mine"), &json!(true)));
    let data = client.call_tool("data", json!({})).await.result();
    assert_eq!(data["structuredContent"], json!({ "a": [1] }));
    assert_eq!(
        (&data["_meta"]["exitCode"], data["_meta"]["stderr"].as_str().map(str::trim)),
        (&json!(0), Some("note"))
    );
    assert_eq!(client.call_tool("plain", json!({})).await.text(), "just text\n");
    // edges F10
    let bad = client.call_tool("bad", json!({})).await.result();
    assert_eq!((&bad["isError"], &bad["_meta"]["exitCode"]), (&json!(true), &json!(7)), "{bad}");
    assert_eq!(bad["content"][0]["text"], "Tool failed with exit code 7:\nout of cheese");
    let refused = client.call_tool("refuses", json!({})).await.error();
    assert_eq!(
        (&refused["code"], &refused["message"], &refused["data"]["luck"]),
        (&json!(-32050), &json!("no luck"), &json!(0))
    );
    let late = client.call_tool("slow", json!({})).await.result();
    let error = &late["structuredContent"]["error"];
    assert_eq!(
        (&late["isError"], &error["type"], &error["reason"]),
        (&json!(true), &json!("timeout"), &json!("fixed")),
        "{late}"
    );
    assert_eq!(error["hint"], "be quick");
}

// compat: result (cancelled), limits
#[tokio::test]
async fn times_and_sizes_are_limited() {
    let project = Project::new();
    project
        .tool("idle", "mcp_progress 1 x; sleep 60")
        .about("idle", r#"{"name": "idle", "description": "d", "timeoutSecs": 1, "progressExtendsTimeout": true, "maxTimeoutSecs": 30}"#)
        .tool("busy", "while :; do mcp_progress 1 x; sleep 0.2; done")
        .about("busy", r#"{"name": "busy", "description": "d", "timeoutSecs": 1, "progressExtendsTimeout": true, "maxTimeoutSecs": 2}"#)
        .tool("wordy", "for i in 1 2 3 4 5 6; do mcp_progress $i; done; mcp_emit_text ok")
        .write("tools/large/tool.sh", "#!/bin/sh\nhead -c 5000 /dev/zero | tr '\\0' x\n");
    let client = project
        .stdio()
        .env("MCPBASH_MAX_TOOL_OUTPUT_SIZE", "4096")
        .env("MCPBASH_MAX_PROGRESS_PER_MIN", "3")
        .connect()
        .await;
    let reason = |name: &'static str| {
        let client = &client;
        async move {
            let request = json!({ "name": name, "arguments": {} });
            let late = client.call("tools/call").params(request).progress_token("1").send().await.result();
            late["structuredContent"]["error"]["reason"].clone()
        }
    };
    assert_eq!(reason("idle").await, "idle");
    assert_eq!(reason("busy").await, "max_exceeded");
    let large = client.call_tool("large", json!({})).await.error();
    assert_eq!(large["code"], -32603, "{large}");
    assert!(large["message"].to_string().contains("4096"), "{large}");
    let request = json!({ "name": "wordy", "arguments": {} });
    let wordy = client.call("tools/call").params(request).progress_token("1").send().await;
    assert_eq!(wordy.before_with("notifications/progress").len(), 3);
}

// compat: limits (workers)
#[tokio::test]
async fn as_many_scripts_run_as_there_are_workers() {
    let project = Project::new();
    // Each waits until another one is there; with one worker at a time nobody would ever come.
    project.write(
        "tools/meet/tool.sh",
        "#!/bin/sh\nmkdir \"$MCPBASH_PROJECT_ROOT/here-$$\"\nuntil [ \"$(ls -d \"$MCPBASH_PROJECT_ROOT\"/here-* | wc -l)\" -ge 2 ]; do sleep 0.05; done\necho met\n",
    );
    let client = project.stdio().env("MCPBASH_MAX_CONCURRENT_REQUESTS", "2").connect().await;
    let (one, other) = tokio::join!(client.call_tool("meet", json!({})), client.call_tool("meet", json!({})));
    assert_eq!((one.text(), other.text()), ("met\n".into(), "met\n".into()));
}

// compat: providers
#[tokio::test]
async fn providers_read_what_their_scheme_names() {
    let project = Project::new();
    project
        .write("resources/note.txt", "a note\n")
        .write("resources/said.meta.json", r#"{"name": "said", "uri": "echo://hello%20there"}"#)
        .write("resources/own.meta.json", r#"{"name": "own", "uri": "mine://x"}"#)
        .write("resources/up.meta.json", r#"{"name": "up", "uri": "file:///etc/hostname"}"#)
        .write("resources/web.meta.json", r#"{"name": "web", "uri": "https://127.0.0.1/x"}"#)
        .write("providers/mine.sh", "#!/bin/sh\n[ \"$1\" = mine://x ] || exit 3\necho \"mine: $1\"\n");
    let client = project.client().await;
    let read = |uri: String| {
        let client = &client;
        async move { client.request("resources/read", json!({ "uri": uri })).await }
    };
    let note = format!("file://{}", project.root().canonicalize().unwrap().join("resources/note.txt").display());
    assert_eq!(read(note).await.result()["contents"][0]["text"], "a note\n");
    assert_eq!(read("mine://x".into()).await.result()["contents"][0]["text"], "mine: mine://x\n");
    assert!(read("echo://hello%20there".into()).await.result()["contents"][0]["text"].is_string());
    let missing = read("mine://nothing".into()).await;
    assert!(matches!(missing.error_code(), -32002 | -32602), "{}", missing.error());
    for refused in ["file:///etc/hostname", "https://127.0.0.1/x"] {
        let refused = read(refused.into()).await.error();
        assert!(refused["code"].as_i64().unwrap() < 0, "{refused}");
    }
}

// compat: completions
#[tokio::test]
async fn completions_are_registered_and_bounded() {
    let project = Project::new();
    let script = "#!/usr/bin/env bash\nprintf '%s %s %s %s' \"$MCP_COMPLETION_NAME\" \"$MCP_COMPLETION_LIMIT\" \"$MCP_COMPLETION_OFFSET\" \"$MCP_COMPLETION_ARGS_JSON\" >\"$MCPBASH_PROJECT_ROOT/seen\"\njq -nc '[range(300) | \"v\\(.)\"]'\n";
    project.write("completions/many.sh", script).write("prompts/p.txt", "{{a}}").write(
        "server.d/register.json",
        r#"{"version": 1, "completions": [{"name": "p", "path": "completions/many.sh"}]}"#,
    );
    let client = project.client().await;
    let wish = |limit: Option<u64>| {
        let mut params =
            json!({ "ref": { "type": "ref/prompt", "name": "p" }, "argument": { "name": "a", "value": "v" } });
        if let Some(limit) = limit {
            params["limit"] = limit.into();
        }
        let client = &client;
        async move { client.request("completion/complete", params).await.result()["completion"].clone() }
    };
    assert_eq!(wish(None).await["values"], json!(["v0", "v1", "v2", "v3", "v4"]));
    let seen = std::fs::read_to_string(project.root().join("seen")).unwrap();
    assert!(seen.starts_with("p 5 0 {") && seen.contains(r#""query":"v""#), "{seen}");
    assert_eq!(wish(Some(1000)).await["values"].as_array().unwrap().len(), 100);
}

// compat: policy
#[tokio::test]
async fn nothing_runs_unless_it_is_allowed() {
    let project = Project::new();
    project.tool("one", "mcp_emit_text one").tool("two", "mcp_emit_text two");
    let denied = project.stdio().env("MCPBASH_TOOL_ALLOWLIST", "").connect().await;
    assert_eq!(denied.call_tool("two", json!({})).await.error_code(), -32602);
    let some = project.stdio().env("MCPBASH_TOOL_ALLOWLIST", "two,three").connect().await;
    assert_eq!(some.call_tool("two", json!({})).await.text(), "two");
    assert_eq!(some.call_tool("one", json!({})).await.error_code(), -32602);
    // The project's own rule.
    let rule = "mcp_tools_policy_check() {\n\t[ \"$1\" != one ] || { mcp_tools_error -32602 'one is off today'; return 1; }\n}\n";
    project.write("server.d/policy.sh", rule);
    let unasked = project.client().await;
    assert_eq!(unasked.call_tool("one", json!({})).await.text(), "one", "hooks run where the user lets them");
    let ruled = project.stdio().env("MCPBASH_ALLOW_PROJECT_HOOKS", "true").connect().await;
    assert_eq!(ruled.call_tool("two", json!({})).await.text(), "two");
    let off = ruled.call_tool("one", json!({})).await;
    assert!(off.error()["message"].to_string().contains("one is off today"), "{}", off.error());
}

// compat: policy (environment)
#[tokio::test]
async fn a_tool_sees_of_the_environment_what_the_mode_says() {
    let project = Project::new();
    project.write("tools/env/tool.sh", "#!/bin/sh\nprintf '%s %s' \"${FOO-no}\" \"${BAR-no}\"\n");
    let with = |mode: &'static [(&'static str, &'static str)]| {
        let mut builder = project.stdio().env("FOO", "foo").env("BAR", "bar");
        for (name, value) in mode {
            builder = builder.env(name, value);
        }
        async move { builder.connect().await.call_tool("env", json!({})).await.text() }
    };
    assert_eq!(with(&[]).await, "no no");
    let list = [("MCPBASH_TOOL_ENV_MODE", "allowlist"), ("MCPBASH_TOOL_ENV_ALLOWLIST", "FOO")];
    assert_eq!(with(Box::leak(Box::new(list))).await, "foo no");
    let all = [("MCPBASH_TOOL_ENV_MODE", "inherit"), ("MCPBASH_TOOL_ENV_INHERIT_ALLOW", "true")];
    assert_eq!(with(Box::leak(Box::new(all))).await, "foo bar");
    assert_eq!(with(&[("MCPBASH_TOOL_ENV_MODE", "inherit")]).await, "no no");
}

// compat: known faults of the original
#[tokio::test]
async fn unsubscribing_needs_no_subscription_id() {
    let project = Project::new();
    project.write("resources/note.txt", "a\n");
    let client = project.client().await;
    let uri = client.list("resources").await[0]["uri"].clone();
    if client.initialize_result()["capabilities"]["resources"]["subscribe"] == true {
        client.request("resources/subscribe", json!({ "uri": uri })).await.result();
        std::fs::write(project.root().join("resources/note.txt"), "b\n").unwrap();
        client.wait_for_method("notifications/resources/updated", 1).await;
        assert_eq!(client.request("resources/unsubscribe", json!({ "uri": uri })).await.result(), json!({}));
    }
}

// compat: commands
#[tokio::test]
async fn the_registry_and_the_entry_of_a_client_can_be_asked_for() {
    let folder = TempDir::new();
    std::fs::create_dir_all(folder.join("mine/tools/one")).unwrap();
    let script = folder.write("mine/tools/one/tool.sh", "#!/bin/sh\necho one\n");
    std::fs::set_permissions(script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let run = |args: &[&str]| {
        let output =
            std::process::Command::new(tidings_testkit::tidings()).args(args).current_dir(folder.path()).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{args:?} {output:?}");
        let value: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        value
    };
    let status = run(&["registry", "status", "mine", "--json"]);
    assert_eq!((&status["tools"]["count"], &status["ok"]), (&json!(1), &json!(true)), "{status}");
    assert_eq!(run(&["registry", "refresh", "--project-root", "mine", "--json"]), status);
    std::fs::write(folder.join("mine/tools/one/tool.meta.json"), r#"{"name": "one", "description": "New"}"#).unwrap();
    let changed = run(&["registry", "status", "mine", "--json"]);
    assert_ne!(changed["tools"]["hash"], status["tools"]["hash"]);
    assert_eq!(changed["prompts"]["hash"], status["prompts"]["hash"]);
    // What is printed starts the folder.
    let entry = run(&["config", "mine", "--json"]);
    let args = entry["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap().to_owned()).collect();
    let client = Client::stdio(entry["command"].as_str().unwrap(), args).connect().await;
    assert_eq!(client.call_tool("one", json!({})).await.text().trim_end(), "one");
    assert_eq!(run(&["config", "mine", "--client", "vscode"])["servers"]["mine"]["command"], entry["command"]);
}
