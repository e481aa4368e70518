//! The files of every client: connected, looked at again, and left as they were.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};
use tidings_client_setup::{
    CLIENTS, ChangeError, FileFormat, FilePreview, FoundServers, GatewayReach, ImportSource, KnownClient,
    OperatingSystem, ReceiptFolder, TokenInFile, UndoPlan, UserPlaces, by_id, entries, read_file,
};

const URL: &str = "http://127.0.0.1:7337/mcp";

/// A home of its own, gone at the end.
struct Home(PathBuf);

impl Home {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tidings-clients-{}-{number}", std::process::id()));
        std::fs::create_dir_all(path.join("work")).unwrap();
        Self(path)
    }

    fn places(&self) -> UserPlaces {
        self.places_on(OperatingSystem::Linux)
    }

    fn places_on(&self, system: OperatingSystem) -> UserPlaces {
        let home = self.0.to_string_lossy().into_owned();
        UserPlaces::new(system, &|name| (name == "HOME").then(|| home.clone()), &self.0.join("work")).unwrap()
    }

    fn receipts(&self) -> ReceiptFolder {
        ReceiptFolder::new(self.0.join("data/connected"))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn entry(client: &'static KnownClient) -> Value {
    let args = ["stdio".to_owned(), "--attach".to_owned()];
    let reach = match client.takes_urls() {
        true => GatewayReach::Url(URL),
        false => GatewayReach::Command { program: "/usr/bin/tidings", args: &args },
    };
    client.entry("tidings", &reach, None).unwrap()
}

fn preview(client: &'static KnownClient, path: &Path) -> FilePreview {
    FilePreview::new(client, path, &[("tidings".to_owned(), Some(entry(client)))], false).unwrap()
}

/// What may stand in a client's file: with comments where the format has them, Windows line ends, no last line end.
fn contents(client: &KnownClient) -> Vec<Option<String>> {
    let key = client.key;
    let text = match client.format {
        FileFormat::Json => format!(
            "// mine\n{{\n    \"a\": [1, 2],\n    \"{key}\": {{\n        \"other\": {{ \"command\": \"x\", \"env\": {{ \"K\": \"S3CRET\" }} }} // last\n    }} /* end */\n}}\n"
        ),
        FileFormat::Toml => {
            format!("# mine\na = 1\n\n[{key}.other]\ncommand = \"x\" # it\nenv = {{ K = \"S3CRET\" }}\n\n[z]\nb = 2\n")
        }
        FileFormat::Yaml => {
            format!("# mine\na: 1\n{key}:\n  other:\n    cmd: x # it\n    envs:\n      K: S3CRET\n\n# end\nz: 2\n")
        }
    };
    vec![None, Some(String::new()), Some(text.trim_end().to_owned()), Some(text.replace('\n', "\r\n")), Some(text)]
}

// reach 1
#[test]
fn every_client_is_connected_once_and_its_file_comes_back_byte_for_byte() {
    for client in &CLIENTS {
        for content in contents(client) {
            let home = Home::new();
            let (places, receipts) = (home.places(), home.receipts());
            let path = client.user_file(&places);
            if let Some(content) = &content {
                write(&path, content);
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
            }
            let place = format!("{}: {content:?}", client.id);
            let first = preview(client, &path);
            let shown = first.shown();
            assert!(
                shown.contains("tidings") && !shown.contains("S3CRET") && !shown.contains("other"),
                "{place}: {shown}"
            );
            assert_eq!(first.makes_the_file(), content.is_none());
            assert_eq!(std::fs::read_to_string(&path).ok(), content, "{place}: a preview writes nothing");

            first.write(&receipts).unwrap();
            first.confirm().unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            let known = entries(client.format, &text, client.key).unwrap();
            assert_eq!(known["tidings"], entry(client), "{place}: {text}");
            assert_eq!(known.contains_key("other"), content.is_some_and_other(), "{place}");
            let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, if content.is_some() { 0o640 } else { 0o600 }, "{place}");
            assert!(preview(client, &path).is_done(), "{place}: a second connect changes nothing");

            let receipt = receipts.newest(&path).unwrap();
            let plan = receipts.plan(&receipt).unwrap();
            assert!(matches!(plan, UndoPlan::Whole { .. }), "{place}: {plan:?}");
            receipts.undo(&receipt, &plan).unwrap();
            assert_eq!(std::fs::read_to_string(&path).ok(), content, "{place}");
            if content.is_none() && path.parent() != Some(&home.0) {
                assert!(!path.parent().unwrap().exists(), "{place}: folders that were made for it go, too");
            }
            assert!(receipts.newest(&path).is_none(), "{place}: nothing is left to take back");
        }
    }
}

trait HasOther {
    fn is_some_and_other(&self) -> bool;
}

impl HasOther for Option<String> {
    fn is_some_and_other(&self) -> bool {
        self.as_ref().is_some_and(|text| text.contains("other"))
    }
}

// reach 1
#[test]
fn a_file_that_changed_after_the_preview_is_not_written() {
    for client in &CLIENTS {
        let home = Home::new();
        let path = client.user_file(&home.places());
        let looked = preview(client, &path);
        write(&path, "");
        let refused = looked.write(&home.receipts());
        assert!(matches!(refused, Err(ChangeError::MovedOn(_))), "{}: {refused:?}", client.id);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "");
        assert!(home.receipts().newest(&path).is_none());
    }
}

// reach 1
#[test]
fn what_a_client_wrote_since_stays_when_only_our_entry_goes() {
    for client in &CLIENTS {
        let home = Home::new();
        let receipts = home.receipts();
        let path = client.user_file(&home.places());
        let before = contents(client).pop().flatten().unwrap();
        write(&path, &before);
        preview(client, &path).write(&receipts).unwrap();
        let theirs =
            FilePreview::new(client, &path, &[("later".to_owned(), Some(json!({"command": "y"})))], false).unwrap();
        theirs.write(&ReceiptFolder::new(home.0.join("elsewhere"))).unwrap();
        let receipt = receipts.newest(&path).unwrap();
        let plan = receipts.plan(&receipt).unwrap();
        assert!(matches!(&plan, UndoPlan::Entries { stay, .. } if stay.is_empty()), "{}: {plan:?}", client.id);
        receipts.undo(&receipt, &plan).unwrap();
        let known = entries(client.format, &std::fs::read_to_string(&path).unwrap(), client.key).unwrap();
        assert_eq!(known.keys().collect::<Vec<_>>(), ["later", "other"], "{}", client.id);
    }
}

// reach 1
#[test]
fn an_entry_that_its_owner_changed_since_is_left_alone() {
    let home = Home::new();
    let (client, receipts) = (by_id("cursor").unwrap(), home.receipts());
    let path = client.user_file(&home.places());
    preview(client, &path).write(&receipts).unwrap();
    write(&path, r#"{"mcpServers": {"tidings": {"url": "http://mine/mcp"}}}"#);
    let receipt = receipts.newest(&path).unwrap();
    let plan = receipts.plan(&receipt).unwrap();
    assert!(matches!(&plan, UndoPlan::Entries { stay, .. } if stay == &["tidings"]), "{plan:?}");
    write(&path, "{}");
    assert!(matches!(receipts.undo(&receipt, &plan), Err(ChangeError::MovedOn(_))), "it moved on since the plan");
}

// reach 1
#[test]
fn a_link_stays_a_link_and_its_target_comes_back() {
    for client in &CLIENTS {
        let home = Home::new();
        let receipts = home.receipts();
        let (path, target) = (client.user_file(&home.places()), home.0.join("dotfiles/file"));
        let before = contents(client).pop().flatten().unwrap();
        write(&target, &before);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(&target, &path).unwrap();
        preview(client, &path).write(&receipts).unwrap();
        assert!(path.symlink_metadata().unwrap().is_symlink(), "{}", client.id);
        assert_ne!(std::fs::read_to_string(&target).unwrap(), before);
        let receipt = receipts.newest(&path).unwrap();
        receipts.undo(&receipt, &receipts.plan(&receipt).unwrap()).unwrap();
        assert!(path.symlink_metadata().unwrap().is_symlink());
        assert_eq!(std::fs::read_to_string(&target).unwrap(), before, "{}", client.id);
    }
}

// reach 1
#[test]
fn two_writings_are_taken_back_in_turn_and_backups_are_private() {
    let home = Home::new();
    let (client, receipts) = (by_id("codex").unwrap(), home.receipts());
    let path = client.user_file(&home.places());
    write(&path, "a = 1\n");
    preview(client, &path).write(&receipts).unwrap();
    let one = std::fs::read_to_string(&path).unwrap();
    let second = [("two".to_owned(), Some(entry(client)))];
    FilePreview::new(client, &path, &second, false).unwrap().write(&receipts).unwrap();
    for kept in std::fs::read_dir(home.0.join("data/connected")).unwrap() {
        assert_eq!(kept.unwrap().metadata().unwrap().permissions().mode() & 0o077, 0);
    }
    for expected in [one.as_str(), "a = 1\n"] {
        let receipt = receipts.newest(&path).unwrap();
        receipts.undo(&receipt, &receipts.plan(&receipt).unwrap()).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
    }
}

// reach 1
#[test]
fn a_token_is_a_reference_wherever_the_client_has_one() {
    for client in CLIENTS.iter().filter(|client| client.takes_urls()) {
        let token = TokenInFile { variable: "TIDINGS_TOKEN", value: Some("S3CRET") };
        let entry = client.entry("tidings", &GatewayReach::Url(URL), Some(token)).unwrap().to_string();
        assert_eq!(entry.contains("S3CRET"), !client.refers_to_tokens(), "{}: {entry}", client.id);
        let named = entry.contains("TIDINGS_TOKEN") || entry.contains("${input:tidings-token}");
        assert_eq!(named, client.refers_to_tokens(), "{}: {entry}", client.id);
        let unknown = TokenInFile { variable: "TIDINGS_TOKEN", value: None };
        assert_eq!(
            client.entry("tidings", &GatewayReach::Url(URL), Some(unknown)).is_some(),
            client.refers_to_tokens()
        );
    }
    let literal: Vec<&str> =
        CLIENTS.iter().filter(|client| !client.refers_to_tokens()).map(|client| client.id).collect();
    assert_eq!(literal, ["claude-desktop", "zed", "lmstudio", "cline"]);
}

// reach 1
#[test]
fn vs_code_asks_for_the_token_once_and_the_question_goes_with_the_entry() {
    let home = Home::new();
    let (client, receipts) = (by_id("vscode").unwrap(), home.receipts());
    let path = client.user_file(&home.places());
    write(&path, "{\n\t\"servers\": {},\n\t\"inputs\": [{ \"id\": \"mine\", \"type\": \"promptString\" }]\n}");
    let token = TokenInFile { variable: "T", value: None };
    let wanted = [("tidings".to_owned(), client.entry("tidings", &GatewayReach::Url(URL), Some(token)))];
    FilePreview::new(client, &path, &wanted, client.asks_for_tokens()).unwrap().write(&receipts).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let read: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (read["inputs"][0]["id"].as_str(), read["inputs"][1]["id"].as_str()),
        (Some("mine"), Some("tidings-token"))
    );
    assert_eq!(read["inputs"][1]["password"], true);
    write(&path, &format!("{text}\n// by the editor\n"));
    let receipt = receipts.newest(&path).unwrap();
    receipts.undo(&receipt, &receipts.plan(&receipt).unwrap()).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains("tidings") && text.contains("mine") && text.contains("// by the editor"), "{text}");
}

// reach 1
#[test]
fn files_are_where_each_system_has_them() {
    let home = Home::new();
    let shown = |id: &str, system| {
        let places = home.places_on(system);
        places.shown(&by_id(id).unwrap().user_file(&places))
    };
    for (id, linux, mac) in [
        ("claude-code", "~/.claude.json", "~/.claude.json"),
        (
            "claude-desktop",
            "~/.config/Claude/claude_desktop_config.json",
            "~/Library/Application Support/Claude/claude_desktop_config.json",
        ),
        ("cursor", "~/.cursor/mcp.json", "~/.cursor/mcp.json"),
        ("vscode", "~/.config/Code/User/mcp.json", "~/Library/Application Support/Code/User/mcp.json"),
        ("codex", "~/.codex/config.toml", "~/.codex/config.toml"),
        ("gemini", "~/.gemini/settings.json", "~/.gemini/settings.json"),
        ("windsurf", "~/.codeium/windsurf/mcp_config.json", "~/.codeium/windsurf/mcp_config.json"),
        ("zed", "~/.config/zed/settings.json", "~/.config/zed/settings.json"),
        ("goose", "~/.config/goose/config.yaml", "~/.config/goose/config.yaml"),
        ("opencode", "~/.config/opencode/opencode.json", "~/.config/opencode/opencode.json"),
        ("lmstudio", "~/.lmstudio/mcp.json", "~/.lmstudio/mcp.json"),
        ("cline", "~/.cline/data/settings/cline_mcp_settings.json", "~/.cline/data/settings/cline_mcp_settings.json"),
        ("copilot-cli", "~/.copilot/mcp-config.json", "~/.copilot/mcp-config.json"),
    ] {
        assert_eq!(
            (shown(id, OperatingSystem::Linux).as_str(), shown(id, OperatingSystem::Mac).as_str()),
            (linux, mac)
        );
    }
    assert_eq!(shown("goose", OperatingSystem::Windows), "~/AppData/Roaming/Block/goose/config/config.yaml");
    write(&home.0.join(".config/opencode/opencode.jsonc"), "{}");
    assert_eq!(shown("opencode", OperatingSystem::Linux), "~/.config/opencode/opencode.jsonc");
    let moved = |name: &str| match name {
        "HOME" => Some("/h".to_owned()),
        "XDG_CONFIG_HOME" => Some("/x".to_owned()),
        "CODEX_HOME" => Some("/c".to_owned()),
        _ => None,
    };
    let places = UserPlaces::new(OperatingSystem::Linux, &moved, Path::new("/")).unwrap();
    assert_eq!(by_id("zed").unwrap().user_file(&places), Path::new("/x/zed/settings.json"));
    assert_eq!(by_id("codex").unwrap().user_file(&places), Path::new("/c/config.toml"));
}

// reach 1
#[test]
fn what_connect_writes_is_not_taken_for_a_server_of_somebody_else() {
    let home = Home::new();
    for client in &CLIENTS {
        let path = client.user_file(&home.places());
        preview(client, &path).write(&home.receipts()).unwrap();
        let mut found = FoundServers::default();
        for source in client.sources(&home.places()) {
            read_file(&source, &[URL.to_owned()], &mut found);
        }
        assert!(found.servers.is_empty() && found.notices.is_empty(), "{}: {found:?}", client.id);
    }
}

// reach 1
#[test]
fn entries_of_every_client_become_keys_of_servers() {
    let home = Home::new();
    let places = home.places();
    let work = places.project().to_string_lossy().into_owned();
    for (id, text, expected) in [
        ("claude-code", json!({"mcpServers": {"u": {"type": "stdio", "command": "a", "args": ["b"], "env": {"K": "${K:-d}"}}},
            "projects": {work: {"mcpServers": {"l": {"type": "http", "url": "https://l/mcp"}}}}}).to_string(),
            json!({"l": {"url": "https://l/mcp"}, "u": {"command": "a", "args": ["b"], "env": {"K": "${env:K:-d}"}}})),
        ("vscode", "{ // c\n \"servers\": {\"w\": {\"type\": \"http\", \"url\": \"https://w/mcp\", \"headers\": {\"A\": \"Bearer ${input:key}\"}},}}".to_owned(),
            json!({"w": {"url": "https://w/mcp", "headers": {"A": "Bearer ${env:key}"}}})),
        ("codex", "[mcp_servers.c]\nurl = \"https://c/mcp\"\nbearer_token_env_var = \"T\"\nenv_http_headers = { X = \"Y\" }\n\
            [mcp_servers.d]\ncommand = \"d\"\nenv_vars = [\"P\"]\n[mcp_servers.off]\ncommand = \"x\"\nenabled = false\n".to_owned(),
            json!({"c": {"url": "https://c/mcp", "headers": {"Authorization": "Bearer ${env:T}", "X": "${env:Y}"}},
                "d": {"command": "d", "env": {"P": "${env:P}"}}})),
        ("gemini", json!({"mcpServers": {"g": {"httpUrl": "https://g/mcp", "headers": {"A": "$TOKEN"}}}}).to_string(),
            json!({"g": {"url": "https://g/mcp", "headers": {"A": "${env:TOKEN}"}}})),
        ("windsurf", json!({"mcpServers": {"s": {"serverUrl": "https://s/mcp"}}}).to_string(), json!({"s": {"url": "https://s/mcp"}})),
        ("goose", "extensions:\n  developer:\n    type: builtin\n    enabled: true\n  f:\n    type: stdio\n    cmd: uvx\n    args:\n    - \"x\"\n    envs: {}\n    env_keys:\n    - KEY\n    enabled: true\n".to_owned(),
            json!({"f": {"command": "uvx", "args": ["x"], "env": {"KEY": "${env:KEY}"}}})),
        ("opencode", json!({"mcp": {"o": {"type": "local", "command": ["npx", "-y", "o"], "environment": {"E": "{env:E}"}}}}).to_string(),
            json!({"o": {"command": "npx", "args": ["-y", "o"], "env": {"E": "${env:E}"}}})),
        ("cline", json!({"mcpServers": {"t": {"command": "/opt/tidings", "args": ["stdio"]}, "z": {"command": "z", "disabled": true}}}).to_string(),
            json!({})),
    ] {
        let client = by_id(id).unwrap();
        write(&client.user_file(&places), &text);
        let mut found = FoundServers::default();
        for source in client.sources(&places) {
            read_file(&source, &[], &mut found);
        }
        let read: Value = found.servers.iter().map(|server| (server.name.clone(), server.keys.clone())).collect::<serde_json::Map<_, _>>().into();
        assert_eq!(read, expected, "{id}: {found:?}");
        assert_eq!(found.notices.len(), usize::from(id == "vscode"), "{id}: {:?}", found.notices);
    }
    let file = home.0.join("shared.yaml");
    write(&file, "extensions:\n  a:\n    type: sse\n    uri: https://x/sse\n  b:\n    what: 1\n");
    let text = std::fs::read_to_string(&file).unwrap();
    let mut found = FoundServers::default();
    read_file(&ImportSource::of_file(&file, &text).unwrap(), &[], &mut found);
    assert_eq!((found.servers.len(), found.notices.len()), (1, 1), "{found:?}");
    assert_eq!(found.servers[0].keys, json!({ "url": "https://x/sse", "type": "sse" }));
    assert!(ImportSource::of_file(&file, "a: 1\n").is_err());
}
