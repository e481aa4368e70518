//! `tidings init`.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};

use tidings_testkit::{TempDir, tidings};

use crate::{stderr, stdout};

fn run(folder: &TempDir, args: &[&str]) -> Output {
    let mut command = Command::new(tidings());
    command
        .args(args)
        .current_dir(folder.path())
        .env("HOME", folder.join("home"))
        .env("TIDINGS_DATA", folder.join("data"));
    command.env_remove("XDG_CONFIG_HOME").output().unwrap()
}

// edges F16
#[test]
fn a_first_configuration_is_made_from_what_clients_use_and_nothing_is_overwritten() {
    let folder = TempDir::new();
    folder.write(
        ".mcp.json",
        r#"{"mcpServers": {"notes": {"command": "sh", "args": ["-c", "cat"], "env": {"KEY": "${KEY}"}}}}"#,
    );
    let made = run(&folder, &["init"]);
    assert!(made.status.success(), "{made:?}");
    assert!(stdout(&made).contains("with 1 server") && stdout(&made).contains("notes (from .mcp.json)"), "{made:?}");
    let file = folder.join("tidings.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(
        text.contains("[servers.notes]") && text.contains("${env:KEY}") && text.contains("# Check this file"),
        "{text}"
    );
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o077, 0, "it may hold keys");
    assert!(run(&folder, &["servers", "--help"]).status.success());
    let again = run(&folder, &["init"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains("stays as it is"), "{again:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
}

// edges F16
#[test]
fn without_any_client_it_is_the_commented_example_that_check_accepts() {
    let folder = TempDir::new();
    let made = run(&folder, &["init", "--output", "conf/tidings.toml"]);
    assert!(made.status.success() && stdout(&made).contains("with 0 servers"), "{made:?}");
    let checked = run(&folder, &["check", "--config", "conf/tidings.toml"]);
    assert!(checked.status.success(), "{checked:?}");
    let missing = run(&folder, &["check", "--config", "absent.toml"]);
    assert!(stderr(&missing).contains("tidings init"), "the command that the error names is there: {missing:?}");
}
