//! `tidings validate`: what is wrong with a folder of scripts. Nothing of it is run.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tidings_project::{ProblemSeverity, ProjectProblem};

use super::project::named;
use super::terminal::plural;
use crate::failure::CommandFailure;
use crate::wiring;

pub(super) fn run(dir: Option<&Path>, as_json: bool) -> Result<(), CommandFailure> {
    let dir = named(dir).unwrap_or_else(|| PathBuf::from("."));
    let home = wiring::open_project(&dir, &[]).map_err(CommandFailure::failed)?;
    let (contents, problems) = tidings_project::validate(&home);
    let errors = problems.iter().filter(|problem| problem.fault.severity() == ProblemSeverity::Error).count();
    let counts = [
        ("tool", contents.tools.len()),
        ("resource", contents.resources.len()),
        ("template", contents.templates.len()),
        ("prompt", contents.prompts.len()),
        ("completion", contents.completions.len()),
    ];
    if as_json {
        let counts: serde_json::Map<String, Value> =
            counts.iter().map(|(kind, count)| (format!("{kind}s"), (*count).into())).collect();
        let problems: Vec<Value> = problems.iter().map(ProjectProblem::to_json).collect();
        println!(
            "{:#}",
            json!({ "ok": errors == 0, "project": home.root.to_string_lossy(), "offers": counts, "problems": problems })
        );
    } else {
        for problem in &problems {
            let word = if problem.fault.severity() == ProblemSeverity::Error { "error" } else { "warning" };
            println!("{word}: {problem}");
        }
        let offers: Vec<String> =
            counts.iter().filter(|(_, count)| *count > 0).map(|(kind, n)| plural(*n as u64, kind)).collect();
        let offers = if offers.is_empty() { "nothing to offer yet".to_owned() } else { offers.join(", ") };
        println!("{}: {offers}", home.root.display());
    }
    if errors == 0 { Ok(()) } else { Err(CommandFailure::Failed(plural(errors as u64, "error"))) }
}
