//! `tidings connect`, `import`, `logs` and `man`.

use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tidings_testkit::{TempDir, eventually, tidings};

use crate::{stderr, stdout};

fn command(folder: &TempDir, args: &[&str]) -> Command {
    let work = folder.join("work");
    std::fs::create_dir_all(&work).unwrap();
    let mut command = Command::new(tidings());
    command.args(args).current_dir(work).stdin(Stdio::null());
    command.env("HOME", folder.join("home")).env("TIDINGS_DATA", folder.join("data"));
    for name in ["XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "TIDINGS_CONFIG", "TIDINGS_TOKEN"] {
        command.env_remove(name);
    }
    command
}

fn run(folder: &TempDir, args: &[&str]) -> Output {
    command(folder, args).output().unwrap()
}

fn write(folder: &TempDir, path: &str, text: &str) {
    let path = folder.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn read(folder: &TempDir, path: &str) -> String {
    std::fs::read_to_string(folder.join(path)).unwrap()
}

const CURSOR: &str = "home/.cursor/mcp.json";
const MINE: &str =
    "{\r\n  \"mcpServers\": {\r\n    \"mine\": {\"command\": \"x\", \"env\": {\"K\": \"S3CRET\"}}\r\n  }\r\n}";

// reach 1
#[test]
fn a_client_is_connected_after_a_preview_and_left_byte_for_byte() {
    let folder = TempDir::new();
    write(&folder, CURSOR, MINE);
    let looked = run(&folder, &["connect", "cursor", "--dry-run"]);
    assert!(looked.status.success(), "{looked:?}");
    let shown = stdout(&looked);
    assert!(shown.contains("~/.cursor/mcp.json") && shown.contains("http://127.0.0.1:7337/mcp"), "{shown}");
    assert!(!shown.contains("S3CRET") && shown.contains("Nothing was written"), "{shown}");
    let unasked = run(&folder, &["connect", "cursor"]);
    assert_eq!(unasked.status.code(), Some(2), "nobody could be asked: {unasked:?}");
    assert_eq!(read(&folder, CURSOR), MINE);

    let connected = run(&folder, &["connect", "cursor", "--yes"]);
    assert!(connected.status.success(), "{connected:?}");
    assert!(stdout(&connected).contains("tidings connect cursor --undo"), "{connected:?}");
    assert!(stdout(&connected).contains("No gateway is running"), "{connected:?}");
    let text = read(&folder, CURSOR);
    let file: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(file["mcpServers"]["tidings"]["url"], "http://127.0.0.1:7337/mcp");
    assert_eq!(file["mcpServers"]["mine"]["env"]["K"], "S3CRET");
    let again = run(&folder, &["connect", "cursor", "--yes"]);
    assert!(again.status.success() && stdout(&again).contains("already"), "{again:?}");
    assert_eq!(read(&folder, CURSOR), text);

    let listed = run(&folder, &["connect", "--json"]);
    let listed: Value = serde_json::from_str(&stdout(&listed)).unwrap();
    let row = listed["clients"].as_array().unwrap().iter().find(|row| row["id"] == "cursor").unwrap();
    assert_eq!((&row["connected"], &row["undo"], &row["found"]), (&true.into(), &true.into(), &true.into()));

    let undone = run(&folder, &["connect", "cursor", "--undo"]);
    assert!(undone.status.success() && stdout(&undone).contains("byte for byte"), "{undone:?}");
    assert_eq!(read(&folder, CURSOR), MINE);
    let nothing = run(&folder, &["connect", "cursor", "--undo"]);
    assert_eq!(nothing.status.code(), Some(1), "{nothing:?}");
}

// reach 1
#[test]
fn an_entry_of_somebody_else_needs_a_word_and_comes_back() {
    let folder = TempDir::new();
    let theirs = r#"{"mcpServers": {"tidings": {"url": "http://elsewhere/mcp?key=S3CRET"}}}"#;
    write(&folder, CURSOR, theirs);
    let refused = run(&folder, &["connect", "cursor", "--yes"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("--replace"), "{refused:?}");
    let replaced = run(&folder, &["connect", "cursor", "--yes", "--replace"]);
    assert!(replaced.status.success() && !stdout(&replaced).contains("S3CRET"), "{replaced:?}");
    assert!(run(&folder, &["connect", "cursor", "--undo"]).status.success());
    assert_eq!(read(&folder, CURSOR), theirs);
    for wrong in
        [&["connect", "emacs"][..], &["connect", "zed", "--url", "x", "--stdio"], &["connect", "cline", "--project"]]
    {
        assert_eq!(run(&folder, wrong).status.code(), Some(2), "{wrong:?}");
    }
}

// reach 1
#[test]
fn a_gateway_with_tokens_is_named_with_a_reference_and_a_literal_only_where_it_must_be() {
    let folder = TempDir::new();
    let digest = "0".repeat(64);
    let config = format!(
        "[gateway]\nlisten = \"127.0.0.1:8123\"\n[auth]\ntokens = [{{ name = \"a\", sha256 = \"{digest}\" }}]\n"
    );
    write(&folder, "work/t.toml", &config);
    let connected = run(&folder, &["connect", "codex", "--yes", "--config", "t.toml"]);
    assert!(connected.status.success() && stdout(&connected).contains("Set TIDINGS_TOKEN"), "{connected:?}");
    let text = read(&folder, "home/.codex/config.toml");
    assert!(text.contains("bearer_token_env_var = \"TIDINGS_TOKEN\"") && text.contains("127.0.0.1:8123/mcp"), "{text}");
    let unknown = run(&folder, &["connect", "zed", "--yes", "--config", "t.toml"]);
    assert_eq!(unknown.status.code(), Some(2), "{unknown:?}");
    let mut known = command(&folder, &["connect", "zed", "--yes", "--config", "t.toml"]);
    let known = known.env("TIDINGS_TOKEN", "S3CRET").output().unwrap();
    assert!(known.status.success() && !stdout(&known).contains("S3CRET"), "{known:?}");
    assert!(read(&folder, "home/.config/zed/settings.json").contains("Bearer S3CRET"));
    let desktop = run(&folder, &["connect", "claude-desktop", "--yes", "--config", "t.toml"]);
    assert!(desktop.status.success(), "{desktop:?}");
    let text = read(&folder, "home/.config/Claude/claude_desktop_config.json");
    let file: Value = serde_json::from_str(&text).unwrap();
    let args = &file["mcpServers"]["tidings"]["args"];
    assert_eq!((&args[0], &args[1]), (&"stdio".into(), &"--config".into()), "{text}");
    assert!(args[2].as_str().unwrap().starts_with('/'), "the client starts it elsewhere: {text}");
}

// reach 1
#[test]
fn servers_of_clients_are_taken_over_and_away_and_come_back() {
    let folder = TempDir::new();
    let codex = "# mine\n[mcp_servers.docs]\nurl = \"https://docs.example/mcp\"\nbearer_token_env_var = \"T\"\n\n[mcp_servers.notes]\ncommand = \"sh\"\nargs = [\"-c\", \"cat\"]\n";
    write(&folder, "home/.codex/config.toml", codex);
    write(
        &folder,
        "work/more.json",
        r#"{"mcpServers": {"notes": {"command": "other"}, "extra": {"command": "sh", "env": {"K": "${input:k}"}}}}"#,
    );
    let listed = run(&folder, &["import", "--json"]);
    let listed: Value = serde_json::from_str(&stdout(&listed)).unwrap();
    assert_eq!(listed["servers"].as_array().unwrap().len(), 2, "{listed}");
    let looked = run(&folder, &["import", "codex", "--dry-run", "--take"]);
    assert!(looked.status.success() && stdout(&looked).contains("2 servers would come"), "{looked:?}");
    let file = "home/.config/tidings/tidings.toml";
    assert!(!folder.join(file).exists());

    let taken = run(&folder, &["import", "codex", "--take", "--yes"]);
    assert!(taken.status.success(), "{taken:?}");
    let text = read(&folder, file);
    assert!(
        text.contains("[servers.docs]") && text.contains("Bearer ${env:T}") && text.contains("[servers.notes]"),
        "{text}"
    );
    assert!(
        !read(&folder, "home/.codex/config.toml").contains("mcp_servers"),
        "{}",
        read(&folder, "home/.codex/config.toml")
    );
    assert!(run(&folder, &["connect", "codex", "--undo"]).status.success());
    assert_eq!(read(&folder, "home/.codex/config.toml"), codex);

    let more = run(&folder, &["import", "more.json"]);
    assert!(more.status.success(), "{more:?}");
    assert!(stdout(&more).contains("+ extra") && stdout(&more).contains("notes: there is one"), "{more:?}");
    assert!(stderr(&more).contains("set the variable k"), "{more:?}");
    let checked = command(&folder, &["check"]).env("T", "t").env("k", "k").output().unwrap();
    assert!(checked.status.success(), "{checked:?}");
    assert_eq!(run(&folder, &["import", "absent.json"]).status.code(), Some(2));
}

// reach 1
#[tokio::test]
async fn the_log_of_a_gateway_is_shown_while_it_runs_and_afterwards() {
    let folder = TempDir::new();
    let none = run(&folder, &["logs"]);
    assert!(none.status.code() == Some(1) && stderr(&none).contains("tidings serve"), "{none:?}");
    write(&folder, "work/t.toml", "[watch.settings]\nfile = \"./t.toml\"\n");
    let mut gateway = command(&folder, &["serve", "--listen", "127.0.0.1:0", "--config", "t.toml"]);
    let mut gateway = gateway.stderr(Stdio::null()).spawn().unwrap();
    let log = folder.join("data/gateway.log");
    eventually("a log", || std::fs::read_to_string(&log).ok().filter(|text| text.contains('\n'))).await;
    let output = folder.join("followed");
    let into = std::fs::File::create(&output).unwrap();
    let mut following = command(&folder, &["logs", "--follow"]).stdout(into).spawn().unwrap();
    ask_to_end(&gateway);
    gateway.wait().unwrap();
    let shown = run(&folder, &["logs"]);
    assert!(shown.status.success() && stdout(&shown).contains("stopped"), "{shown:?}");
    let last = run(&folder, &["logs", "-n", "1"]);
    assert_eq!(stdout(&last).lines().count(), 1, "{last:?}");
    eventually("the last line", || std::fs::read_to_string(&output).ok().filter(|text| text.contains("stopped"))).await;
    following.kill().unwrap();
    following.wait().unwrap();
}

/// Asks a process to end.
fn ask_to_end(child: &std::process::Child) {
    let status = Command::new("kill").arg(child.id().to_string()).status().unwrap();
    assert!(status.success());
}

// reach 6
#[test]
fn every_command_has_a_man_page() {
    let folder = TempDir::new();
    let page = run(&folder, &["man"]);
    assert!(page.status.success() && stdout(&page).contains(".TH tidings 1"), "{page:?}");
    let made = run(&folder, &["man", "pages"]);
    assert!(made.status.success(), "{made:?}");
    let text = read(&folder, "work/pages/tidings-connect.1");
    assert!(text.contains("undo") && text.contains(".SH"), "{text}");
    assert!(folder.join("work/pages/tidings-serve.1").exists());
}

// trust T5
#[test]
fn where_everybody_needs_a_token_clients_get_the_one_there_is() {
    let folder = TempDir::new();
    write(&folder, "work/tidings.toml", "[gateway]\nauth = \"token\"\n");
    let connect = |client: &str| run(&folder, &["--config", "tidings.toml", "connect", client, "--yes"]);
    // It reads a variable: the key itself stays where it is.
    let cursor = connect("cursor");
    assert!(cursor.status.success(), "{cursor:?}");
    let key = read(&folder, "data/admin.token").trim().to_owned();
    assert!(read(&folder, CURSOR).contains("Bearer ${env:TIDINGS_TOKEN}"));
    let file = folder.join("data/admin.token");
    assert!(stdout(&cursor).contains(&format!("export TIDINGS_TOKEN=\"$(cat {})\"", file.display())), "{cursor:?}");
    assert!(!read(&folder, CURSOR).contains(&key) && !stdout(&cursor).contains(&key));
    // It can not: the key has to stand in its file, and nowhere else.
    let literal = connect("lmstudio");
    assert!(literal.status.success() && !stdout(&literal).contains(&key), "{literal:?}");
    assert!(read(&folder, "home/.lmstudio/mcp.json").contains(&format!("Bearer {key}")));
}
