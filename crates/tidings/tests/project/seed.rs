//! The reproduction that came with the report of spurious notices, and the tests it asked for, word for word but for the
//! program.

use std::process::Command;

use tidings_testkit::{TempDir, tidings};

/// Runs a script of the report, in which `./bin/mcp-bash` is `tidings project` and `/tmp/mcp-test` a folder of the test.
fn run(script: &str) -> String {
    let dir = TempDir::new();
    let workspace = dir.join("mcp-test").to_string_lossy().into_owned();
    let script = script
        .replace("./bin/mcp-bash", &format!("{} project", tidings().display()))
        .replace("/tmp/mcp-test", &workspace);
    let output = Command::new("bash")
        .args(["-c", &script])
        .env("TIDINGS_DATA", dir.join("data"))
        .env("TMPDIR", dir.path())
        .env_remove("MCPBASH_PROJECT_ROOT")
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

// S0.1
#[test]
fn a_fresh_session_of_an_empty_workspace_gets_three_notices() {
    let script = r#"# Fresh session test
rm -rf /tmp/mcp-test && mkdir -p /tmp/mcp-test/{tools,resources,prompts,server.d}
MCPBASH_PROJECT_ROOT=/tmp/mcp-test ./bin/mcp-bash << 'EOF' | grep -c "list_changed"
{"jsonrpc":"2.0","id":"init","method":"initialize","params":{}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":"l1","method":"tools/list"}
{"jsonrpc":"2.0","id":"l2","method":"tools/list"}
EOF
"#;
    // The capability names the word, too, and is no notice.
    assert_eq!(run(&script.replace("grep -c \"list_changed\"", "grep -c '/list_changed\"'")), "3");
    assert_eq!(run(script), "3");
}

// S0.1
#[test]
fn a_fast_sequence_produces_exactly_one_triplet() {
    let script = r#"
    test_dir="$(mktemp -d)"
    mkdir -p "${test_dir}/tools"
    cat > "${test_dir}/tools/test_tool.sh" << 'TOOL'
#!/usr/bin/env bash
# @describe A test tool
echo "ok"
TOOL
    chmod +x "${test_dir}/tools/test_tool.sh"

    MCPBASH_PROJECT_ROOT="${test_dir}" ./bin/mcp-bash << 'EOF' 2>/dev/null | grep SHOWN
{"jsonrpc":"2.0","id":"init","method":"initialize","params":{}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":"l1","method":"tools/list"}
{"jsonrpc":"2.0","id":"l2","method":"tools/list"}
EOF
"#;
    assert_eq!(run(&script.replace("grep SHOWN", "grep -c \"list_changed\"")), "3");
    let lists = run(&script.replace("SHOWN", "'\"id\":\"l[12]\"'"));
    assert_eq!(lists.matches(r#""name":"test_tool""#).count(), 2, "{lists}");
    assert_eq!(lists.matches("A test tool").count(), 2, "{lists}");
}

// S0.4
#[test]
fn the_old_protocol_suppresses_every_notice() {
    let script = r#"
    test_dir="$(mktemp -d)"
    mkdir -p "${test_dir}/tools"
    cat > "${test_dir}/tools/test_tool.sh" << 'TOOL'
#!/usr/bin/env bash
# @describe A test tool
echo "ok"
TOOL
    chmod +x "${test_dir}/tools/test_tool.sh"

    MCPBASH_PROJECT_ROOT="${test_dir}" ./bin/mcp-bash << 'EOF' 2>/dev/null | grep -c PATTERN
{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-03-26"}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":"l1","method":"tools/list"}
EOF
"#;
    assert_eq!(run(&script.replace("PATTERN", "\"list_changed\"")), "0");
    assert_eq!(run(&script.replace("PATTERN", "listChanged")), "0", "nor is it promised");
    assert_eq!(run(&script.replace("PATTERN", "test_tool")), "1", "it sees what it is not told of");
}
