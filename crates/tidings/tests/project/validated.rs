//! `tidings validate`, and what is said when a folder can not be served.

use std::process::{Command, Output};

use serde_json::Value;
use tidings_testkit::tidings;

use crate::Project;

fn tell(args: &[&str]) -> Output {
    Command::new(tidings()).args(args).env_remove("MCPBASH_PROJECT_ROOT").output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

// S0.9
#[test]
fn every_problem_is_named_with_its_line_and_its_remedy() {
    let project = Project::new();
    project.tool("fine").tool("odd").write("tools/odd/tool.meta.json", "{\n  \"name\": \"odd\",\n  oops\n}");
    project.write("server.d/register.sh", "touch ran\n");
    let output = tell(&["validate", &project.dir()]);
    assert_eq!(output.status.code(), Some(1));
    let shown = text(&output.stdout);
    assert!(shown.contains("error: tools/odd/tool.meta.json:3: is not JSON: "), "{shown}");
    assert!(
        shown.contains("warning: server.d/register.sh: is not run; set MCPBASH_ALLOW_PROJECT_HOOKS=true"),
        "{shown}"
    );
    assert!(shown.trim_end().ends_with(": 1 tool"), "{shown}");
    assert!(!project.path("ran").exists(), "nothing is run");

    let output = tell(&["validate", &project.dir(), "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["ok"], &report["offers"]["tools"]), (&false.into(), &1.into()));
    let problem = &report["problems"][0];
    assert_eq!((&problem["file"], &problem["line"]), (&"tools/odd/tool.meta.json".into(), &3.into()));
    assert_eq!(problem["severity"], "error");
    assert!(problem["remedy"].as_str().unwrap().starts_with("correct the JSON"));
}

// S0.9
#[test]
fn a_sound_project_is_counted() {
    let project = Project::new();
    project.tool("one").tool("two").write("prompts/p.txt", "x");
    let output = tell(&["validate", &project.dir()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).trim_end().ends_with(": 2 tools, 1 prompt"), "{}", text(&output.stdout));
}

#[test]
fn a_folder_that_is_not_there_or_not_named_is_said_to_be_so() {
    let output = tell(&["project"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("or set MCPBASH_PROJECT_ROOT"));
    for command in ["project", "validate"] {
        let output = tell(&[command, "/nowhere/at/all"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains("/nowhere/at/all: No such file or directory"), "{output:?}");
    }
    let project = Project::new();
    let config = project.0.write("tidings.toml", "\n[servers.x]\nproject = \"./nothing\"\n");
    let output = tell(&["check", "--config", &config.to_string_lossy()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("tidings.toml:3:1: servers.x.project: "), "{output:?}");
}
