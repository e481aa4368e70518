//! Completions: they are registered, never found.

use crate::entry::ProjectCompletion;
use crate::folder::inside;
use crate::problem::{ProjectFault, ProjectProblem};

use super::{EntryOrigin, check_name};

/// A completion from its registration; its path counts from the project.
pub(crate) fn completion(
    origin: &EntryOrigin<'_>,
    problems: &mut Vec<ProjectProblem>,
) -> Result<ProjectCompletion, ProjectProblem> {
    let facts = &origin.facts;
    let Some(name) = facts.text("name", problems) else {
        return Err(facts.problem(None, ProjectFault::Missing("name")));
    };
    check_name(origin, &name)?;
    let Some(path) = facts.text("path", problems) else {
        return Err(facts.problem(None, ProjectFault::Missing("path")));
    };
    let script = inside(origin.root, origin.root, &path).map_err(|fault| facts.problem(Some("path"), fault))?;
    let timeout = facts.seconds("timeoutSecs", problems);
    Ok(ProjectCompletion { name, script, timeout, metadata: facts.members.clone().into() })
}
