use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::survey::tests::Project;

const DEADLINE: Duration = Duration::from_secs(20);

async fn until(registry: &ProjectRegistry, what: &str, wanted: impl Fn(&ProjectState) -> bool) -> Arc<ProjectState> {
    let mut changes = registry.changes();
    let found = changes.wait_for(|state| state.as_deref().is_some_and(&wanted));
    let found = timeout(DEADLINE, found).await.unwrap_or_else(|_| panic!("never: {what}")).unwrap().clone();
    found.unwrap()
}

fn has(name: &str) -> impl Fn(&ProjectState) -> bool {
    move |state| state.contents.tool(name).is_some()
}

fn start(project: &Project, variables: &[(&str, &str)]) -> Arc<ProjectRegistry> {
    let path = std::env::var("PATH").unwrap();
    let mut variables = variables.to_vec();
    variables.push(("PATH", &path));
    // Whoever runs the tests may let others write by default.
    project.safe();
    ProjectRegistry::start(Arc::new(project.home(&variables)), None)
}

const HOOKS: (&str, &str) = ("MCPBASH_ALLOW_PROJECT_HOOKS", "true");

// S0.10
#[tokio::test]
async fn changes_anywhere_in_the_project_are_seen_also_in_new_folders() {
    let project = Project::new();
    let registry = start(&project, &[]);
    assert!(registry.state().await.unwrap().contents.tools.is_empty());
    project.script("tools/deep/er/one.sh", "");
    until(&registry, "a tool in new folders", has("one")).await;
    project.script("tools/deep/er/two.sh", "");
    until(&registry, "a second one there", has("two")).await;
    std::fs::rename(project.path("tools"), project.path("away")).unwrap();
    until(&registry, "all of them gone", |state| state.contents.tools.is_empty()).await;
    std::fs::rename(project.path("away"), project.path("tools")).unwrap();
    until(&registry, "all of them back", has("two")).await;
    project.script("tools/deep/er/three.sh", "");
    until(&registry, "one more in a folder that came back", has("three")).await;
}

// S0.10; compat: TTLs
#[tokio::test]
async fn where_there_are_no_events_the_folder_is_read_by_its_ttl() {
    let project = Project::new();
    let registry = start(&project, &[("TIDINGS_PROJECT_EVENTS", "off"), ("MCP_PROMPTS_TTL", "1")]);
    assert!(registry.state().await.unwrap().contents.tools.is_empty());
    project.script("tools/one.sh", "");
    until(&registry, "a tool that nobody told of", has("one")).await;
    std::fs::remove_file(project.path("tools/one.sh")).unwrap();
    until(&registry, "no tool again", |state| state.contents.tools.is_empty()).await;
}

// S0.8
#[tokio::test]
async fn a_broken_registration_leaves_the_last_good_state_and_is_healed() {
    let project = Project::new();
    project.script("tools/a.sh", "").script("tools/b/b.sh", "");
    project.write("server.d/register.json", r#"{"version": 1, "tools": [{"name": "a", "path": "a.sh"}]}"#);
    let registry = start(&project, &[]);
    until(&registry, "the registered tool", has("a")).await;
    project.write("server.d/register.json", r#"{"version": 1, "tools": [{"na"#);
    // What is seen next has been read after the broken file.
    project.write("server.d/register.json.new", r#"{"version": 1, "tools": [{"name": "z", "path": "b/b.sh"}]}"#);
    let before = registry.now().unwrap();
    assert!(before.contents.tool("a").is_some() && before.broken.is_none());
    std::fs::rename(project.path("server.d/register.json.new"), project.path("server.d/register.json")).unwrap();
    until(&registry, "the new registration", has("z")).await;
    std::fs::remove_file(project.path("server.d/register.json")).unwrap();
    until(&registry, "what lies in the folders", has("b")).await;
}

// S0.8
#[tokio::test]
async fn a_registration_that_never_was_good_is_named_until_it_is() {
    let project = Project::new();
    project.script("tools/a/a.sh", "").write("server.d/register.json", "{\n  oops");
    let registry = start(&project, &[]);
    let state = registry.state().await.unwrap();
    assert!(state.broken.as_ref().unwrap().to_string().starts_with("server.d/register.json:2: is not JSON"));
    project.write("server.d/register.json", r#"{"version": 1}"#);
    assert!(until(&registry, "the tool", has("a")).await.broken.is_none());
}

// S0.7, S0.9
#[tokio::test]
async fn a_permitted_hook_registers_and_runs_again_by_its_own_ttl() {
    let project = Project::new();
    project.script("tools/a/a.sh", "").script("c.sh", "").write("count", "");
    let hook = r#"#!/usr/bin/env bash
set -euo pipefail
echo x >> count
n=$(wc -l < count)
mcp_tools_manual_begin
mcp_register_tool "{\"name\": \"run$n\", \"path\": \"a/a.sh\"}"
mcp_tools_manual_finalize
mcp_completion_register_manual '{"name":"c","path":"c.sh"}'
if [[ "${BASH_SOURCE[0]}" == "$0" ]]; then exit 0; fi
return 0
"#;
    project.script("server.d/register.sh", hook);
    let registry = start(&project, &[HOOKS, ("MCPBASH_REGISTER_TTL", "1")]);
    let state = registry.state().await.unwrap();
    assert_eq!(state.contents.tools[0].name, "run1");
    assert_eq!(state.contents.completions[0].name, "c");
    until(&registry, "its next run", has("run2")).await;
}

// S0.9
#[tokio::test]
async fn a_hook_in_any_language_prints_its_registrations() {
    let project = Project::new();
    project.script("tools/a/a.sh", "");
    project.script("server.d/register.sh", "#!/usr/bin/awk -f\nBEGIN { print \"{\\\"tools\\\": [{\\\"name\\\": \\\"x\\\", \\\"path\\\": \\\"a/a.sh\\\"}]}\" }\n");
    let registry = start(&project, &[HOOKS]);
    assert_eq!(registry.state().await.unwrap().contents.tools[0].name, "x");
}

// S0.8, S0.9
#[tokio::test]
async fn a_failing_hook_leaves_what_it_registered_before_and_names_its_line() {
    let project = Project::new();
    project.script("tools/a/a.sh", "");
    project.script("server.d/register.sh", "mcp_register_tool '{\"name\": \"one\", \"path\": \"a/a.sh\"}'\n");
    let registry = start(&project, &[HOOKS]);
    until(&registry, "the registered tool", has("one")).await;
    let home = project.home(&[HOOKS, ("PATH", &std::env::var("PATH").unwrap())]);
    for (script, expected) in [
        ("true\nfalse_command_x\n", "server.d/register.sh:2: register.sh failed (exit status: 127)"),
        ("echo sorry >&2; exit 3\n", "server.d/register.sh: register.sh failed (exit status: 3): sorry"),
        ("yes\n", "server.d/register.sh: register.sh printed more than 1048576 bytes"),
        ("echo hello\n", "server.d/register.sh: register.sh printed neither registrations nor JSON"),
        ("mcp_register_tool '{'\n", "server.d/register.sh: register.sh registered in tools what is not JSON"),
    ] {
        project.script("server.d/register.sh", script);
        let problem = hook_of(&home).unwrap().unwrap().run(&home, None).await.unwrap_err().to_string();
        assert!(problem.starts_with(expected), "{problem}");
    }
    assert!(registry.now().unwrap().contents.tool("one").is_some(), "the last good registration");
    project.script("server.d/register.sh", "mcp_register_tool '{\"name\": \"two\", \"path\": \"a/a.sh\"}'\n");
    until(&registry, "the new registration", has("two")).await;
}

// S0.9
#[tokio::test]
async fn a_hook_does_not_run_without_permission_or_when_others_could_have_written_it() {
    let project = Project::new();
    project.script("tools/a/a.sh", "").script("server.d/register.sh", "touch ran\n");
    let registry = start(&project, &[]);
    assert!(registry.state().await.unwrap().contents.tool("a").is_some(), "as if there was none");
    for name in ["server.d/register.sh", "server.d", ""] {
        let path = project.path(name);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
        let problem = hook_of(&project.home(&[HOOKS])).unwrap_err().to_string();
        assert!(problem.contains("can be written by others"), "{problem}");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    assert!(hook_of(&project.home(&[HOOKS])).unwrap().is_some());
    project.write("server.d/register.json", r#"{"version": 1}"#);
    assert!(hook_of(&project.home(&[HOOKS])).unwrap().is_none(), "register.json wins");
    assert!(!project.path("ran").exists());
}
