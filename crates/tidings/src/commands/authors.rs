//! `tidings project registry` and `tidings project config`: what authors of script projects are used to ask for.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tidings_project::{ProblemSeverity, ProjectProblem};
use tidings_wire::hex;

use super::project::named;
use crate::failure::CommandFailure;
use crate::wiring;

/// What a folder registers, by kind, with the hash of what clients are shown. Nothing is cached, so there is nothing to
/// make anew but the look itself.
pub(super) fn registry(dir: Option<&Path>, as_json: bool) -> Result<(), CommandFailure> {
    let dir = folder(dir);
    let home = wiring::open_project(&dir, &[]).map_err(CommandFailure::failed)?;
    let (contents, problems) = tidings_project::validate(&home);
    let digests = contents.digests();
    let rows = [
        ("tools", contents.tools.len(), Some(hex(&digests.tools))),
        ("resources", contents.resources.len(), Some(hex(&digests.resources))),
        ("resourceTemplates", contents.templates.len(), Some(hex(&digests.resources))),
        ("prompts", contents.prompts.len(), Some(hex(&digests.prompts))),
        ("completions", contents.completions.len(), None),
    ];
    let errors = problems.iter().filter(|problem| problem.fault.severity() == ProblemSeverity::Error).count();
    if as_json {
        let mut status = json!({ "project": home.root.to_string_lossy(), "ok": errors == 0 });
        for (kind, count, hash) in rows {
            status[kind] = json!({ "count": count, "hash": hash });
        }
        status["problems"] = problems.iter().map(ProjectProblem::to_json).collect();
        println!("{status:#}");
    } else {
        for (kind, count, hash) in rows {
            let hash = hash.map(|hash| hash[..16].to_owned()).unwrap_or_default();
            println!("{:20}{count:>6}  {hash}", kind);
        }
        if !problems.is_empty() {
            println!("\nproblems: {}; tidings project validate {}", problems.len(), dir.display());
        }
    }
    if errors == 0 { Ok(()) } else { Err(CommandFailure::Failed(format!("{errors} of them are errors"))) }
}

/// How a client starts the folder as a server.
pub(super) fn config(dir: Option<&Path>, client: Option<&str>, as_json: bool) -> Result<(), CommandFailure> {
    let dir = folder(dir);
    let root = dir.canonicalize().map_err(|error| CommandFailure::Failed(format!("{}: {error}", dir.display())))?;
    let name = root.file_name().map_or_else(|| "scripts".to_owned(), |name| name.to_string_lossy().into_owned());
    let entry = entry(&root);
    if as_json {
        let mut described = entry;
        described["name"] = name.into();
        println!("{described:#}");
        return Ok(());
    }
    let Some(client) = client else {
        println!("{:#}", wrapped("mcpServers", &name, &entry));
        return Ok(());
    };
    match client {
        "claude-desktop" | "claude-cli" | "claude-code" | "cursor" | "windsurf" => {
            println!("{:#}", wrapped("mcpServers", &name, &entry));
        }
        "vscode" => println!("{:#}", wrapped("servers", &name, &entry)),
        other => {
            return Err(CommandFailure::Usage(format!(
                "no such client: {other}; there are claude-code, claude-desktop, cursor, vscode and windsurf"
            )));
        }
    }
    Ok(())
}

fn wrapped(member: &str, name: &str, entry: &Value) -> Value {
    json!({ member: { name: entry } })
}

/// This very program, so that it is found wherever the client looks.
fn entry(root: &Path) -> Value {
    let program = std::env::current_exe().map_or_else(|_| "tidings".into(), |path| path.to_string_lossy().into_owned());
    json!({ "command": program, "args": ["project", root.to_string_lossy(), "--allow", "*"] })
}

fn folder(dir: Option<&Path>) -> PathBuf {
    named(dir).unwrap_or_else(|| PathBuf::from("."))
}
