//! Everything that can be said about a project without running any of it.

use crate::entry::ProjectContents;
use crate::home::ProjectHome;
use crate::identity::ProjectIdentity;
use crate::problem::{ProblemSeverity, ProjectProblem};
use crate::register::hook_of;
use crate::survey::ProjectSurvey;

/// What a project offers, and every problem with it: errors first, then by place.
pub fn validate(home: &ProjectHome) -> (ProjectContents, Vec<ProjectProblem>) {
    let survey = ProjectSurvey::of(home);
    let mut problems: Vec<ProjectProblem> = survey.all_problems().cloned().collect();
    problems.extend(ProjectIdentity::read(home).1);
    problems.extend(hook_of(home).err());
    let rank = |problem: &ProjectProblem| match problem.fault.severity() {
        ProblemSeverity::Error => 0,
        ProblemSeverity::Warning => 1,
    };
    problems.sort_by_key(|problem| (rank(problem), problem.file.clone(), problem.line));
    (survey.contents.unwrap_or_default(), problems)
}
