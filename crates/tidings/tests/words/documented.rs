//! README and docs, walked through as a new user would: every command in them is run, in a home of its own.
//!
//! Only what needs another program than Tidings is left out. Servers that the pages start with `npx` or `uvx` are scripted
//! ones with the tools of the real servers.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tidings_testkit::{Server, TempDir, eventually, tidings, within};
use tokio::process::{Child, Command};

/// Programs of others. Their commands are tested where they can be had (`cargo xtask real-peers`) or not at all.
const OTHERS: &[&str] = &[
    "cargo",
    "curl",
    "podman",
    "psql",
    "npx",
    "systemctl",
    "loginctl",
    "journalctl",
    "launchctl",
    "cp",
    "auth=",
    "url=",
    "BODY=",
    "SIGNATURE=",
];
/// How long a command that goes on must have gone on to be believed.
const GOES_ON: Duration = Duration::from_millis(700);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// One page that is walked through.
struct Walk {
    folder: TempDir,
    path: std::ffi::OsString,
    gateway: Option<Child>,
    goes_on: Vec<Child>,
}

impl Walk {
    async fn begin(server: &Server) -> Self {
        let folder = TempDir::new();
        let bin = folder.join("bin");
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::create_dir_all(folder.join("work")).unwrap();
        std::os::unix::fs::symlink(tidings(), bin.join("tidings")).unwrap();
        let (program, args) = server.command();
        let start = format!("#!/bin/sh\nexec '{program}' '{}'\n", args.join("' '"));
        // What is after `--` is what the client will start.
        let client = "#!/bin/sh\nwhile [ $# -gt 0 ] && [ \"$1\" != -- ]; do shift; done\n[ $# -eq 0 ] || { shift; exec \"$@\" </dev/null; }\n";
        for (name, script) in [("npx", start.as_str()), ("uvx", &start), ("claude", client)] {
            std::fs::write(bin.join(name), script).unwrap();
            std::fs::set_permissions(bin.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let mut path = bin.into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        Self { folder, path, gateway: None, goes_on: Vec::new() }
    }

    fn shell(&self, line: &str) -> Command {
        let mut command = Command::new("bash");
        command.arg("-c").arg(line).current_dir(self.folder.join("work")).stdin(Stdio::null()).kill_on_drop(true);
        command
            .env("PATH", &self.path)
            .env("HOME", self.folder.join("home"))
            .env("TIDINGS_DATA", self.folder.join("data"));
        command.env("SEARCH_TOKEN", "t").env_remove("XDG_CONFIG_HOME").env_remove("XDG_DATA_HOME");
        command
    }

    async fn run(&mut self, place: &str, line: &str) {
        let is_served = |word: &str| line.split_whitespace().nth(1) == Some(word);
        if is_served("serve") {
            self.end().await;
            let line = format!("exec {} --listen 127.0.0.1:0", line.trim_end_matches('&').trim());
            let mut child = self.shell(&line).stderr(Stdio::piped()).spawn().unwrap();
            let file = self.folder.join("data/gateway.json");
            eventually(&format!("{place}: {line}"), || {
                if let Ok(Some(status)) = child.try_wait() {
                    panic!("{place}: {line}: {status}");
                }
                file.exists().then_some(())
            })
            .await;
            self.gateway = Some(child);
            return;
        }
        if line.contains("--follow") || is_served("watch") {
            let mut child = self.shell(&format!("exec {}", line.trim_end_matches('&').trim())).spawn().unwrap();
            let ended = tokio::time::timeout(GOES_ON, child.wait()).await;
            assert!(ended.is_err(), "{place}: {line}: {ended:?}");
            self.goes_on.push(child);
            return;
        }
        let output = within(&format!("{place}: {line}"), self.shell(line).output()).await.unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{place}: {line}: {}\n{errors}", output.status);
    }

    async fn end(&mut self) {
        self.goes_on.clear();
        if let Some(mut gateway) = self.gateway.take() {
            let _ = gateway.start_kill();
            let _ = gateway.wait().await;
            let _ = std::fs::remove_file(self.folder.join("data/gateway.json"));
        }
    }
}

/// The fenced blocks of a page: language, text and line.
pub(super) fn blocks(text: &str) -> Vec<(String, String, usize)> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, String, usize)> = None;
    for (number, line) in text.lines().enumerate() {
        let bare = line.trim_start();
        match (bare.strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(language), None) => open = Some((language.trim().to_owned(), String::new(), number + 2)),
            (None, Some((_, text, _))) => {
                text.push_str(bare);
                text.push('\n');
            }
            (None, None) => {}
        }
    }
    blocks
}

/// The commands of a block, without what is said about them; a line that goes on is one with the next.
fn commands(text: &str) -> Vec<String> {
    // A script of its own is shown, not typed.
    if text.starts_with("#!") {
        return Vec::new();
    }
    let mut commands: Vec<String> = Vec::new();
    let mut open = false;
    for line in text.replace("\\\n", " ").lines() {
        let line = line.split(" # ").next().unwrap_or_default().trim();
        match commands.last_mut().filter(|_| open) {
            Some(begun) => *begun = format!("{begun}\n{line}"),
            None if line.is_empty() || line.starts_with('#') => continue,
            None => commands.push(line.to_owned()),
        }
        open = commands.last().is_some_and(|command| command.matches('\'').count() % 2 == 1);
    }
    commands
}

async fn walk(page: &str) {
    let text = std::fs::read_to_string(root().join(page)).unwrap();
    let remote = Server::builder("search").echo("find").http().await;
    let server = Server::builder("memory");
    let about = BTreeMap::from([
        ("read_graph", "Read the entire knowledge graph"),
        ("search_nodes", "Search for nodes in the knowledge graph based on a query"),
        ("send_email", "Send an email to somebody"),
        ("createIssue", "Create an issue in a repository"),
    ]);
    let server = about.iter().fold(server, |server, (name, about)| {
        let definition = serde_json::json!({"name": name, "description": about, "inputSchema": {"type": "object"}});
        server.tool_def(definition, |call: tidings_testkit::ScriptedCall| async move { call.ok_text("done") })
    });
    let server = server.stdio().await;
    let mut walk = Walk::begin(&server).await;
    let mut ran = 0;
    let serves = blocks(&text).iter().any(|(_, text, _)| text.contains("tidings serve"));
    if !serves {
        // The page takes it for granted that a gateway runs.
        std::fs::write(walk.folder.join("work/own.toml"), "[servers.memory]\ncommand = \"npx\"\n").unwrap();
        walk.run(page, "tidings serve --config own.toml").await;
    }
    for (language, text, line) in blocks(&text) {
        let place = format!("{page}:{line}");
        match language.as_str() {
            "toml" if !text.contains("postgres =") && !text.contains("container =") => {
                let text = text.replace("https://example.com/mcp", &remote.url());
                let text = text.replace("127.0.0.1:7337", "127.0.0.1:0");
                std::fs::write(walk.folder.join("work/settings.json"), "{}").unwrap();
                std::fs::write(walk.folder.join("work/tidings.toml"), text).unwrap();
                // Whoever follows the page wrote this file, and says yes to it when asked.
                walk.run(&place, "tidings trust --yes").await;
            }
            "sh" => {
                for command in commands(&text) {
                    if OTHERS.iter().any(|other| command.starts_with(other)) {
                        continue;
                    }
                    ran += 1;
                    walk.run(&place, &command).await;
                }
            }
            _ => {}
        }
    }
    walk.end().await;
    assert!(ran > 0, "{page} has no command: nothing was tested");
}

macro_rules! pages {
    ($($name:ident: $page:literal;)*) => {
        $(
            // edges F16
            #[tokio::test]
            async fn $name() {
                walk($page).await;
            }
        )*

        // edges F16
        #[test]
        fn every_page_with_commands_is_walked_through() {
            let walked = [$($page),*];
            // It needs a database: `cargo xtask real-peers` walks through it.
            let elsewhere = ["docs/live-resources.md"];
            for entry in std::fs::read_dir(root().join("docs")).unwrap() {
                let name = entry.unwrap().file_name().to_string_lossy().into_owned();
                let page = format!("docs/{name}");
                if !name.ends_with(".md") || walked.contains(&page.as_str()) || elsewhere.contains(&page.as_str()) {
                    continue;
                }
                let text = std::fs::read_to_string(root().join(&page)).unwrap();
                let shells: Vec<_> = blocks(&text).into_iter().filter(|(language, ..)| language == "sh").collect();
                let ours = shells.iter().any(|(_, text, _)| commands(text).iter().any(|line| line.starts_with("tidings ")));
                assert!(!ours, "{page} has commands that no test runs");
            }
        }
    };
}

pages! {
    the_readme_works: "README.md";
    the_page_about_tokens_works: "docs/auth.md";
    the_page_about_clients_works: "docs/clients.md";
    the_page_about_installing_works: "docs/installing.md";
    the_page_about_managing_servers_works: "docs/managing-servers.md";
    the_page_about_scripts_works: "docs/script-projects.md";
    the_page_about_rules_works: "docs/policy.md";
    the_page_about_search_works: "docs/search.md";
    the_page_about_services_works: "docs/service.md";
    the_page_about_upgrading_works: "docs/upgrading.md";
    the_page_about_faults_works: "docs/troubleshooting.md";
}
