//! The same commands without a running gateway: they change the configuration file.

use std::process::{Command, Output};

use tidings_testkit::{TempDir, tidings};

fn run(home: &TempDir, args: &[&str]) -> Output {
    let mut command = Command::new(tidings());
    command.args(args).current_dir(home.path()).env_clear().env("HOME", home.path()).env("PATH", "/usr/bin:/bin");
    command.output().expect("the command runs")
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

// S4.3
#[test]
fn the_first_server_makes_the_users_file_and_the_last_leaves_it() {
    let home = TempDir::new();
    let file = home.join(".config/tidings/tidings.toml");
    let said = text(&run(&home, &["add", "memory", "--env", "A=${env:HOME}", "--", "npx", "-y", "server-memory"]));
    assert!(said.contains(".config/tidings/tidings.toml") && said.contains("tidings serve"), "{said}");
    let written = std::fs::read_to_string(&file).unwrap();
    assert!(written.contains("[servers.memory]") && written.contains("${env:HOME}"), "{written}");
    text(&run(&home, &["check"]));
    let taken = run(&home, &["add", "memory", "--", "x"]);
    assert_eq!(taken.status.code(), Some(1), "{taken:?}");
    text(&run(&home, &["disable", "memory"]));
    assert!(std::fs::read_to_string(&file).unwrap().contains("enabled = false"));
    text(&run(&home, &["enable", "memory"]));
    text(&run(&home, &["remove", "memory"]));
    assert!(!std::fs::read_to_string(&file).unwrap().contains("memory"));
    let gone = run(&home, &["remove", "memory"]);
    assert!(String::from_utf8_lossy(&gone.stderr).contains("no server \"memory\""), "{gone:?}");
    let restart = run(&home, &["restart", "memory"]);
    assert!(String::from_utf8_lossy(&restart.stderr).contains("tidings serve"), "{restart:?}");
}

#[test]
fn a_file_that_is_broken_is_not_touched() {
    let home = TempDir::new();
    let file = home.write("tidings.toml", "[servers.x\n");
    let output = run(&home, &["add", "y", "--config", "tidings.toml", "--", "z"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("tidings.toml:1"), "{output:?}");
    assert_eq!(std::fs::read_to_string(file).unwrap(), "[servers.x\n");
}
