//! JSON files of clients and editors.

use tidings_config::TransportConfig;

use super::{json, pair, parse, stdio};

#[test]
fn a_file_of_a_client_is_accepted_as_it_is() {
    let config = json(
        r#"{
          "mcpServers": {
            "zeta": { "command": "npx", "args": ["-y", "zeta"], "env": { "PORT": 80, "TOKEN": "${SEARCH_TOKEN}", "NO": null } },
            "alpha": { "type": "http", "url": "${BASE:-https://example.com}/mcp", "headers": { "A": "${env:SEARCH_TOKEN}" } },
            "old": { "type": "sse", "url": "http://localhost/sse" },
            "wind": { "serverUrl": "https://example.com/wind" },
            "off": { "type": "stdio", "command": "x", "disabled": true, "cwd": "sub", "args": ["${NOT_THERE}"] }
          }
        }"#,
    );
    let names: Vec<_> = config.servers.iter().map(|server| server.name.as_str()).collect();
    assert_eq!(names, ["zeta", "alpha", "old", "wind", "off"]);
    let TransportConfig::Stdio { env, .. } = &config.servers[0].transport else { panic!("not a command") };
    assert_eq!(*env, [pair("PORT", "80"), pair("TOKEN", "hunter2")]);
    let headers = vec![pair("A", "hunter2")];
    assert_eq!(config.servers[1].transport, TransportConfig::Http { url: "https://example.com/mcp".into(), headers });
    assert_eq!(
        config.servers[3].transport,
        TransportConfig::Http { url: "https://example.com/wind".into(), headers: vec![] }
    );
    assert_eq!(
        config.servers[2].transport,
        TransportConfig::Sse { url: "http://localhost/sse".into(), headers: vec![] }
    );
    assert!(!config.servers[4].enabled);
    let TransportConfig::Stdio { cwd, .. } = &config.servers[4].transport else { panic!("not a command") };
    assert_eq!(cwd.as_deref(), Some("/conf/sub".as_ref()));
    let warnings: Vec<_> = config.warnings.iter().map(ToString::to_string).collect();
    assert!(warnings.is_empty(), "{warnings:?}");
}

#[test]
fn the_convention_of_vs_code_is_accepted_with_its_comments() {
    let text = r#"{
        // the editor asks
        "inputs": [{ "id": "token" }],
        "servers": { "a": { "type": "stdio", "command": "${workspaceFolder}/run", }, },
    }"#;
    let config = parse(".vscode/mcp.json", text).unwrap();
    assert_eq!(config.servers[0].transport, stdio("/conf/run", &[]));
    assert!(config.warnings.is_empty());
}

#[test]
fn keys_of_other_programs_are_ignored_with_a_warning() {
    let config = json(
        r#"{"globalShortcut": "", "mcpServers": {"a": {
            "command": "x", "alwaysAllow": [], "timeout": 60, "headers": {}, "tools": ["read_*"]
        }}}"#,
    );
    let warnings: Vec<_> = config.warnings.iter().map(|warning| warning.key.as_str()).collect();
    assert_eq!(
        warnings,
        ["globalShortcut", "mcpServers.a.headers", "mcpServers.a.timeout", "mcpServers.a.alwaysAllow"]
    );
    assert!(config.servers[0].tools.permits("read_x") && !config.servers[0].tools.permits("write_x"));
    assert_eq!(config.servers[0].timeout, None);
}

#[test]
fn an_entry_that_starts_tidings_is_skipped_with_a_warning() {
    let config =
        json(r#"{"mcpServers": {"me": {"command": "npx", "args": ["-y", "tidings"]}, "x": {"command": "x"}}}"#);
    assert_eq!(config.servers.len(), 1);
    assert_eq!(config.warnings[0].key, "mcpServers.me");
}

#[test]
fn a_file_without_an_extension_is_told_by_its_first_character() {
    assert_eq!(parse("config", " {\"mcpServers\": {\"a\": {\"command\": \"x\"}}}").unwrap().servers.len(), 1);
    assert_eq!(parse("config", "[servers.a]\ncommand = \"x\"").unwrap().servers.len(), 1);
}
