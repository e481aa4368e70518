//! The clients that are known: each row holds its file, the format, and the words of an entry.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::edit::FileFormat;
use crate::entry::{TokenWords, goose_http, goose_stdio, headers_in};
use crate::places::{OperatingSystem, UserPlaces};

/// A program that uses MCP servers.
#[derive(Debug)]
pub struct KnownClient {
    /// The word by which users name the client on the command line.
    pub id: &'static str,
    /// What it is called.
    pub title: &'static str,
    /// How its file is written; edits keep that format and everything else in it.
    pub format: FileFormat,
    /// The member that holds the servers by name.
    pub key: &'static str,
    /// Below the folder of a project, where the client has such a file.
    pub project_file: Option<&'static str>,
    pub(crate) user_file: fn(&UserPlaces) -> PathBuf,
    /// An entry with a URL; the client can not connect to one when there is none.
    pub(crate) http: Option<fn(&str, Value) -> Value>,
    pub(crate) stdio: fn(&str, &[String]) -> Value,
    pub(crate) token: TokenWords,
}

impl KnownClient {
    /// The file that counts for this user in every project; it need not be there.
    #[must_use]
    pub fn user_file(&self, places: &UserPlaces) -> PathBuf {
        (self.user_file)(places)
    }

    /// The file of the project, for clients that have one.
    #[must_use]
    pub fn project_file(&self, places: &UserPlaces) -> Option<PathBuf> {
        self.project_file.map(|file| places.project.join(file))
    }

    /// Whether the client seems to be on this machine: its file is there, or the folder that it keeps it in.
    #[must_use]
    pub fn is_found(&self, places: &UserPlaces) -> bool {
        let file = self.user_file(places);
        // Home and the config directory are on every machine and say nothing about a client.
        let own_folder = file.parent().filter(|folder| *folder != places.home && *folder != places.config);
        file.exists()
            || own_folder.is_some_and(std::path::Path::exists)
            || (self.id == "claude-code" && places.home.join(".claude").exists())
    }
}

/// Finds a client by what users type.
#[must_use]
pub fn by_id(id: &str) -> Option<&'static KnownClient> {
    CLIENTS.iter().find(|client| client.id == id)
}

fn plain(command: &str, args: &[String]) -> Value {
    json!({"command": command, "args": args})
}

fn typed_stdio(command: &str, args: &[String]) -> Value {
    json!({"type": "stdio", "command": command, "args": args})
}

fn bare_url(url: &str, headers: Value) -> Value {
    headers_in(json!({"url": url}), headers)
}

fn typed_http(url: &str, headers: Value) -> Value {
    headers_in(json!({"type": "http", "url": url}), headers)
}

fn opencode_file(places: &UserPlaces) -> PathBuf {
    let folder = places.home.join(".config/opencode");
    let folder = if places.system == OperatingSystem::Linux { places.config.join("opencode") } else { folder };
    let commented = folder.join("opencode.jsonc");
    // OpenCode reads both; the one that the user has is the one to change.
    if commented.exists() { commented } else { folder.join("opencode.json") }
}

/// Every client that is known, in the order in which they are shown.
pub static CLIENTS: [KnownClient; 13] = [
    KnownClient {
        id: "claude-code",
        title: "Claude Code",
        format: FileFormat::Json,
        key: "mcpServers",
        project_file: Some(".mcp.json"),
        user_file: |places| places.claude.as_ref().unwrap_or(&places.home).join(".claude.json"),
        http: Some(typed_http),
        stdio: typed_stdio,
        token: TokenWords::Braces,
    },
    KnownClient {
        id: "claude-desktop",
        title: "Claude Desktop",
        format: FileFormat::Json,
        key: "mcpServers",
        project_file: None,
        user_file: |places| places.desktop.join("Claude/claude_desktop_config.json"),
        // Claude Desktop's file takes commands only.
        http: None,
        stdio: plain,
        token: TokenWords::Literal,
    },
    KnownClient {
        id: "cursor",
        title: "Cursor",
        format: FileFormat::Json,
        key: "mcpServers",
        project_file: Some(".cursor/mcp.json"),
        user_file: |places| places.home.join(".cursor/mcp.json"),
        http: Some(bare_url),
        stdio: plain,
        token: TokenWords::EnvBraces,
    },
    KnownClient {
        id: "vscode",
        title: "VS Code",
        format: FileFormat::Json,
        key: "servers",
        project_file: Some(".vscode/mcp.json"),
        user_file: |places| places.desktop.join("Code/User/mcp.json"),
        http: Some(typed_http),
        stdio: typed_stdio,
        token: TokenWords::Input,
    },
    KnownClient {
        id: "codex",
        title: "Codex",
        format: FileFormat::Toml,
        key: "mcp_servers",
        project_file: Some(".codex/config.toml"),
        user_file: |places| {
            let folder = places.codex.clone().unwrap_or_else(|| places.home.join(".codex"));
            folder.join("config.toml")
        },
        http: Some(bare_url),
        stdio: plain,
        token: TokenWords::BearerVariable,
    },
    KnownClient {
        id: "gemini",
        title: "Gemini CLI",
        format: FileFormat::Json,
        key: "mcpServers",
        project_file: Some(".gemini/settings.json"),
        user_file: |places| places.home.join(".gemini/settings.json"),
        http: Some(typed_http),
        stdio: plain,
        token: TokenWords::Braces,
    },
    KnownClient {
        id: "windsurf",
        title: "Windsurf",
        format: FileFormat::Json,
        key: "mcpServers",
        project_file: None,
        user_file: |places| places.home.join(".codeium/windsurf/mcp_config.json"),
        http: Some(|url, headers| headers_in(json!({"serverUrl": url}), headers)),
        stdio: plain,
        token: TokenWords::EnvBraces,
    },
    KnownClient {
        id: "zed",
        title: "Zed",
        format: FileFormat::Json,
        key: "context_servers",
        project_file: Some(".zed/settings.json"),
        user_file: |places| match places.system {
            OperatingSystem::Windows => places.roaming.join("Zed/settings.json"),
            OperatingSystem::Mac | OperatingSystem::Linux => places.config.join("zed/settings.json"),
        },
        http: Some(bare_url),
        stdio: plain,
        token: TokenWords::Literal,
    },
    KnownClient {
        id: "goose",
        title: "Goose",
        format: FileFormat::Yaml,
        key: "extensions",
        project_file: None,
        user_file: |places| match places.system {
            OperatingSystem::Windows => places.roaming.join("Block/goose/config/config.yaml"),
            OperatingSystem::Mac | OperatingSystem::Linux => places.config.join("goose/config.yaml"),
        },
        http: Some(goose_http),
        stdio: goose_stdio,
        token: TokenWords::GooseKeys,
    },
    KnownClient {
        id: "opencode",
        title: "OpenCode",
        format: FileFormat::Json,
        key: "mcp",
        project_file: Some("opencode.json"),
        user_file: opencode_file,
        http: Some(|url, headers| headers_in(json!({"type": "remote", "url": url, "oauth": false}), headers)),
        stdio: |command, args| {
            let words: Vec<&str> = std::iter::once(command).chain(args.iter().map(String::as_str)).collect();
            json!({"type": "local", "command": words})
        },
        token: TokenWords::BareEnvBraces,
    },
    KnownClient {
        id: "lmstudio",
        title: "LM Studio",
        format: FileFormat::Json,
        key: "mcpServers",
        project_file: None,
        user_file: |places| places.home.join(".lmstudio/mcp.json"),
        http: Some(bare_url),
        stdio: plain,
        token: TokenWords::Literal,
    },
    KnownClient {
        id: "cline",
        title: "Cline",
        format: FileFormat::Json,
        key: "mcpServers",
        project_file: None,
        user_file: |places| places.home.join(".cline/data/settings/cline_mcp_settings.json"),
        // Without a type it takes a URL for HTTP+SSE.
        http: Some(|url, headers| headers_in(json!({"type": "streamableHttp", "url": url}), headers)),
        stdio: plain,
        token: TokenWords::Literal,
    },
    KnownClient {
        id: "copilot-cli",
        title: "Copilot CLI",
        format: FileFormat::Json,
        key: "mcpServers",
        project_file: Some(".github/mcp.json"),
        user_file: |places| places.home.join(".copilot/mcp-config.json"),
        http: Some(|url, headers| headers_in(json!({"type": "http", "url": url, "tools": ["*"]}), headers)),
        stdio: |command, args| json!({"type": "local", "command": command, "args": args, "tools": ["*"]}),
        token: TokenWords::Braces,
    },
];
