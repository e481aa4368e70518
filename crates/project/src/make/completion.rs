//! Completions: they are registered, never found.

use crate::entry::Completion;
use crate::folder::inside;
use crate::problem::{Fault, Problem};

use super::{Origin, check_name};

/// A completion from its registration; its path counts from the project.
pub(crate) fn completion(origin: &Origin<'_>, problems: &mut Vec<Problem>) -> Result<Completion, Problem> {
    let facts = &origin.facts;
    let Some(name) = facts.text("name", problems) else {
        return Err(facts.problem(None, Fault::Missing("name")));
    };
    check_name(origin, &name)?;
    let Some(path) = facts.text("path", problems) else {
        return Err(facts.problem(None, Fault::Missing("path")));
    };
    let script = inside(origin.root, origin.root, &path).map_err(|fault| facts.problem(Some("path"), fault))?;
    let timeout = facts.seconds("timeoutSecs", problems);
    Ok(Completion { name, script, timeout, metadata: facts.members.clone().into() })
}
