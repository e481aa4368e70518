//! Whether a script may run: the list of those that may, and `server.d/policy.sh` where the author has one and the user lets
//! hooks run. The script comes with the folder, so it may take away what the user's list permits, and never add to it.

use std::sync::Arc;
use std::time::Duration;

use tidings_proto::code;
use tidings_upstream::ProcessLauncher;
use tidings_upstream::in_process::RequestError;

use crate::entry::ProjectTool;
use crate::home::ProjectHome;
use crate::register::check_ownership;
use crate::run::ScriptFault;
use crate::shell::{self, RECORD, UNIT};

/// It is asked before every call.
const PATIENCE: Duration = Duration::from_secs(10);
const LONGEST: usize = 64 << 10;

/// What the script finds: it is asked only about what the list permits.
const PRELUDE: &str = r#"
exec 9>&1
mcp_tools_error() { printf '\036%s\037%s\036' "$1" "$2" >&9; }
for _tidings_level in debug info notice warning error; do
  eval "mcp_logging_${_tidings_level}() { printf '%s\n' \"\$*\" >&2; }"
done
unset _tidings_level
mcp_tools_policy_check() { true; }
. "$1" || { mcp_tools_error -32603 "server.d/policy.sh failed"; exit 1; }
mcp_tools_policy_check "$2" "$3"
"#;

/// Fails where the tool may not run.
pub(crate) async fn check(
    home: &ProjectHome,
    launcher: &Arc<ProcessLauncher>,
    tool: &ProjectTool,
) -> Result<(), RequestError> {
    let listed = home.settings.tools.permits(&tool.name);
    let path = home.folders.server.join("policy.sh");
    if !listed {
        return Err(RequestError::invalid_params(unlisted("Tool", &tool.name)));
    }
    if !home.settings.hooks || !path.is_file() {
        return Ok(());
    }
    let broken =
        |why: String| RequestError::internal(format!("server.d/policy.sh {why}: Tool '{}' is not run", tool.name));
    // The user counts on being protected by it. What others could have written is not run, and so nothing is allowed.
    check_ownership(&path, &home.root).map_err(|fault| broken(format!("is not used ({fault}; {})", fault.remedy())))?;
    let metadata = tool.metadata.to_string();
    // Arguments of a process have a bound, and exceeding it would fail the call.
    let metadata = if metadata.len() <= LONGEST { metadata } else { "{}".to_owned() };
    let arguments = [path.into(), tool.name.as_str().into(), metadata.into()];
    let command = shell::bash(PRELUDE, "policy.sh", arguments);
    let said = shell::run(home, Some(launcher), &command, LONGEST, PATIENCE).await;
    // A policy that fails to answer forbids: it may have been about to.
    let said = said.map_err(|silent| broken(silent.to_string()))?;
    if said.status.success() {
        return Ok(());
    }
    let output = String::from_utf8_lossy(&said.output);
    // The script may print other things before its refusal.
    let reason = output.split(RECORD).find_map(|part| part.split_once(UNIT));
    match reason {
        Some((code, message)) => Err(RequestError::new(code.parse().unwrap_or(code::INVALID_PARAMS), message)),
        None => {
            Err(RequestError::invalid_params(format!("Tool '{}' blocked by policy (server.d/policy.sh)", tool.name)))
        }
    }
}

/// Fails where a script that is no tool may not run: that of a prompt, a completion or a provider. The list is for all of them, since
/// each can do whatever a tool can.
pub(crate) fn check_script(home: &ProjectHome, kind: &str, name: &str) -> Result<(), ScriptFault> {
    match home.settings.tools.permits(name) {
        true => Ok(()),
        false => Err(ScriptFault::new(code::INVALID_PARAMS, unlisted(kind, name))),
    }
}

fn unlisted(kind: &str, name: &str) -> String {
    format!(
        "{kind} '{name}' blocked by policy: name it (or *) in MCPBASH_TOOL_ALLOWLIST, or set MCPBASH_TOOL_ALLOW_DEFAULT=allow"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::ProjectSurvey;
    use crate::survey::tests::Project;

    async fn outcome(project: &Project, variables: &[(&str, &str)]) -> Result<(), RequestError> {
        let path = std::env::var("PATH").unwrap();
        let home = project.home(&[variables, &[("PATH", &path)]].concat());
        let tool = ProjectSurvey::of(&home).contents.unwrap().tools[0].clone();
        check(&home, &ProcessLauncher::new(None), &tool).await
    }

    const ALL: (&str, &str) = ("MCPBASH_TOOL_ALLOWLIST", "*");
    const HOOKS: (&str, &str) = ("MCPBASH_ALLOW_PROJECT_HOOKS", "true");

    // S0.9
    #[tokio::test]
    async fn nothing_runs_that_is_not_named() {
        let project = Project::new();
        project.script("tools/a/a.sh", "");
        let RequestError { code, message, .. } = outcome(&project, &[]).await.unwrap_err();
        assert_eq!(code, -32602);
        assert!(message.starts_with("Tool 'a' blocked by policy"), "{message}");
        assert!(outcome(&project, &[("MCPBASH_TOOL_ALLOWLIST", "b")]).await.is_err());
        for allowed in [ALL, ("MCPBASH_TOOL_ALLOWLIST", "b,a"), ("MCPBASH_TOOL_ALLOW_DEFAULT", "allow")] {
            assert_eq!(outcome(&project, &[allowed]).await, Ok(()));
        }
    }

    // trust T4
    #[tokio::test]
    async fn a_policy_of_a_cloned_folder_neither_runs_unasked_nor_allows_anything() {
        let project = Project::new();
        project.safe().script("tools/a/a.sh", "");
        let ran = project.home(&[]).root.join("ran");
        let policy = format!("env > '{}'\nmcp_tools_policy_check() {{ return 0; }}\n", ran.display());
        project.write("server.d/policy.sh", &policy).safe();
        assert_eq!(outcome(&project, &[ALL]).await, Ok(()));
        assert!(!ran.exists(), "it ran without being allowed to");
        assert!(outcome(&project, &[HOOKS]).await.is_err(), "it may not allow what the list does not");
        assert!(!ran.exists(), "there was nothing to ask it");
        assert_eq!(outcome(&project, &[ALL, HOOKS, ("AWS_SECRET", "hush")]).await, Ok(()));
        let seen = std::fs::read_to_string(&ran).unwrap();
        assert!(seen.contains("PATH=") && !seen.contains("AWS_SECRET"), "{seen}");
    }

    // S0.9
    #[tokio::test]
    async fn a_policy_of_the_project_may_take_away_what_the_list_permits() {
        let project = Project::new();
        project.safe().script("tools/a/a.sh", "");
        let policy = r#"
mcp_tools_policy_check() {
  local tool_name="$1"
  if [ "${MCP_READ_ONLY:-0}" = "1" ]; then
    mcp_tools_error -32600 "Read-only mode: ${tool_name} disabled"
    return 1
  fi
  return 0
}
"#;
        project.write("server.d/policy.sh", policy).safe();
        assert_eq!(outcome(&project, &[ALL, HOOKS]).await, Ok(()));
        let denied = outcome(&project, &[ALL, HOOKS, ("MCP_READ_ONLY", "1")]).await;
        assert_eq!(denied, Err(RequestError::new(-32600, "Read-only mode: a disabled")));
        project.write("server.d/policy.sh", "AUDIT=1\n").safe();
        assert_eq!(outcome(&project, &[ALL, HOOKS]).await, Ok(()), "without a function of its own the list decides");
        assert!(outcome(&project, &[HOOKS]).await.is_err());
        project.write("server.d/policy.sh", "if then\n").safe();
        assert!(outcome(&project, &[ALL, HOOKS]).await.unwrap_err().message.contains("policy.sh failed"));
    }

    // S0.9, trust T4
    #[tokio::test]
    async fn a_policy_that_others_could_have_written_is_not_run_and_lets_nothing_run() {
        let project = Project::new();
        project.script("tools/a/a.sh", "").write("server.d/policy.sh", "mcp_tools_policy_check() { return 1; }\n");
        project.safe().open_to_others("server.d/policy.sh");
        let refused = outcome(&project, &[ALL, HOOKS]).await.unwrap_err();
        assert!(refused.message.contains("policy.sh is not used"), "{}", refused.message);
    }

    // trust T4
    #[tokio::test]
    async fn a_policy_that_is_not_asked_is_reported() {
        let project = Project::new();
        project.script("tools/a/a.sh", "").write("server.d/policy.sh", "").safe();
        let faults = |variables: &[(&str, &str)]| {
            let survey = ProjectSurvey::of(&project.home(variables));
            survey.all_problems().map(|problem| problem.to_string()).collect::<Vec<_>>()
        };
        assert!(faults(&[]).iter().any(|problem| problem.contains("forbids nothing")), "{:?}", faults(&[]));
        assert!(!faults(&[HOOKS]).iter().any(|problem| problem.contains("forbids nothing")));
    }
}
