//! What `register.json` or `register.sh` say.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::SurveyLook;
use crate::document::ObjectFacts;
use crate::entry::{ProjectCompletion, ProjectPrompt, ProjectResource, ProjectTemplate, ProjectTool};
use crate::folder::inside;
use crate::make::{EntryOrigin, ProviderNames, body_of, completion, prompt, resource, template, tool};
use crate::problem::{ProjectFault, ProjectProblem};
use crate::register::ProjectRegistration;

impl SurveyLook<'_> {
    pub(super) fn registered_tools(
        &mut self,
        by: Option<&ProjectRegistration>,
        entries: &[Value],
    ) -> Vec<Arc<ProjectTool>> {
        let folder = self.home.folders.tools.clone();
        self.each(by, entries, &folder, |look, origin| {
            let script = look.file(&origin.facts, &folder)?;
            let Some(name) = origin.facts.text("name", &mut look.problems) else {
                return Err(origin.facts.problem(None, ProjectFault::Missing("name")));
            };
            tool(origin, script, &name, None, &mut look.problems)
        })
    }

    pub(super) fn registered_resources(
        &mut self,
        by: Option<&ProjectRegistration>,
        entries: &[Value],
    ) -> Vec<Arc<ProjectResource>> {
        let folder = self.home.folders.resources.clone();
        self.each(by, entries, &folder, |look, origin| {
            let path = match origin.facts.text("path", &mut look.problems) {
                Some(_) => look.file(&origin.facts, &folder).map(Some)?,
                None => None,
            };
            let Some(name) = origin.facts.text("name", &mut look.problems) else {
                return Err(origin.facts.problem(None, ProjectFault::Missing("name")));
            };
            resource(origin, path, &name, &ProviderNames(look.home), &mut look.problems)
        })
    }

    pub(super) fn registered_templates(
        &mut self,
        by: Option<&ProjectRegistration>,
        entries: &[Value],
    ) -> Vec<Arc<ProjectTemplate>> {
        let folder = self.home.folders.resources.clone();
        self.each(by, entries, &folder, |look, origin| template(origin, &mut look.problems))
    }

    pub(super) fn registered_prompts(
        &mut self,
        by: Option<&ProjectRegistration>,
        entries: &[Value],
    ) -> Vec<Arc<ProjectPrompt>> {
        let folder = self.home.folders.prompts.clone();
        self.each(by, entries, &folder, |look, origin| {
            let path = look.file(&origin.facts, &folder)?;
            let Some(name) = origin.facts.text("name", &mut look.problems) else {
                return Err(origin.facts.problem(None, ProjectFault::Missing("name")));
            };
            let executable = is_executable(&path);
            prompt(origin, body_of(path, executable), &name, &mut look.problems)
        })
    }

    pub(super) fn registered_completions(
        &mut self,
        by: Option<&ProjectRegistration>,
        entries: &[Value],
    ) -> Vec<Arc<ProjectCompletion>> {
        let root = self.home.root.clone();
        self.each(by, entries, &root, |look, origin| completion(origin, &mut look.problems))
    }

    /// Makes each entry; one that is wrong does not harm the others.
    fn each<T>(
        &mut self,
        by: Option<&ProjectRegistration>,
        entries: &[Value],
        base: &Path,
        make: impl Fn(&mut Self, &EntryOrigin<'_>) -> Result<T, ProjectProblem>,
    ) -> Vec<Arc<T>> {
        let Some(document) = by.map(|registration| &registration.document) else { return Vec::new() };
        let mut made = Vec::new();
        for entry in entries {
            let Value::Object(members) = entry else {
                self.problems.push(document.facts().problem(None, ProjectFault::NotAnObject(entry.to_string())));
                continue;
            };
            let origin = EntryOrigin { facts: document.entry(members), root: &self.home.root, base };
            match make(self, &origin) {
                Ok(entry) => made.push(Arc::new(entry)),
                Err(problem) => self.problems.push(problem),
            }
        }
        made
    }

    /// The file that `path` names: below the folder of its kind, or below the project.
    fn file(&mut self, facts: &ObjectFacts<'_>, folder: &Path) -> Result<PathBuf, ProjectProblem> {
        let Some(path) = facts.text("path", &mut self.problems) else {
            return Err(facts.problem(None, ProjectFault::Missing("path")));
        };
        let root = &self.home.root;
        let first = inside(root, folder, &path);
        // Authors write paths from either place; the fault of the first is told.
        let found = first.or_else(|fault| inside(root, root, &path).map_err(|_| fault));
        found.map_err(|fault| facts.problem(Some("path"), fault))
    }
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|about| about.permissions().mode() & 0o111 != 0)
}
