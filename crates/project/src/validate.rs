//! Everything that can be said about a project without running any of it.

use crate::entry::Contents;
use crate::home::Home;
use crate::identity::Identity;
use crate::problem::{Problem, Severity};
use crate::register::hook_of;
use crate::survey::Survey;

/// What a project offers, and every problem with it: errors first, then by place.
pub fn validate(home: &Home) -> (Contents, Vec<Problem>) {
    let survey = Survey::of(home);
    let mut problems: Vec<Problem> = survey.all_problems().cloned().collect();
    problems.extend(Identity::read(home).1);
    problems.extend(hook_of(home).err());
    let rank = |problem: &Problem| match problem.fault.severity() {
        Severity::Error => 0,
        Severity::Warning => 1,
    };
    problems.sort_by_key(|problem| (rank(problem), problem.file.clone(), problem.line));
    (survey.contents.unwrap_or_default(), problems)
}
