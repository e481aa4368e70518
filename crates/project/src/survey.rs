//! One look at a project: everything it offers, and everything that is wrong with it. Nothing is started.

mod found;
mod pages;
mod registered;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use crate::entry::{ProjectCompletion, ProjectContents, ProjectPrompt, ProjectResource, ProjectTemplate, ProjectTool};
use crate::folder::problem;
use crate::home::ProjectHome;
use crate::problem::{ProjectFault, ProjectProblem};
use crate::register::{ProjectRegistration, declared};

/// What a look at a project found.
#[derive(Clone, Debug)]
pub struct ProjectSurvey {
    /// What it offers. An error where that can not be told: then the last good state holds.
    pub contents: Result<ProjectContents, ProjectProblem>,
    /// What is wrong with parts of it.
    pub problems: Vec<ProjectProblem>,
    /// The folders in which a change may matter.
    pub(crate) folders: BTreeSet<PathBuf>,
    /// What was made of which file, to be kept while that file does not parse.
    made: BTreeMap<PathBuf, MadeEntry>,
}

/// What was made of a file.
#[derive(Clone, Debug)]
enum MadeEntry {
    Tool(Arc<ProjectTool>),
    Resource(Arc<ProjectResource>),
    Template(Arc<ProjectTemplate>),
    Prompt(Arc<ProjectPrompt>),
}

impl ProjectSurvey {
    /// Looks at a project for the first time, without its `register.sh`.
    pub fn of(home: &ProjectHome) -> Self {
        Self::after(None, home, None)
    }

    /// Looks again. `hook` is what `register.sh` registered. A file that does not parse now, because it is being written or
    /// by mistake, counts as it was.
    pub(crate) fn after(previous: Option<&Self>, home: &ProjectHome, hook: Option<&ProjectRegistration>) -> Self {
        let mut look =
            SurveyLook { home, previous, problems: Vec::new(), folders: BTreeSet::new(), made: BTreeMap::new() };
        let folders = &home.folders;
        let parts =
            [&folders.tools, &folders.resources, &folders.prompts, &folders.server, &folders.providers, &folders.ui];
        // Also where nothing is yet: it can be made.
        look.folders.insert(home.root.clone());
        look.folders.extend(parts.into_iter().filter(|folder| folder.is_dir()).cloned());
        let contents = match std::fs::read_dir(&home.root) {
            Ok(_) => look.contents(hook),
            Err(error) => Err(problem(&home.root, &home.root, ProjectFault::Unreadable(error.to_string()))),
        };
        Self { contents, problems: look.problems, folders: look.folders, made: look.made }
    }

    /// Where the whole can not be told, what was made before stays what is kept.
    pub(crate) fn keep(&mut self, previous: Option<Self>) {
        if self.contents.is_err()
            && let Some(previous) = previous
        {
            // A look that failed as a whole made nothing; the next one still falls back on what was good last.
            self.made = previous.made;
        }
    }

    /// Every problem, the worst first.
    pub fn all_problems(&self) -> impl Iterator<Item = &ProjectProblem> {
        self.contents.as_ref().err().into_iter().chain(&self.problems)
    }
}

/// A look that is going on.
struct SurveyLook<'a> {
    home: &'a ProjectHome,
    previous: Option<&'a ProjectSurvey>,
    problems: Vec<ProjectProblem>,
    folders: BTreeSet<PathBuf>,
    made: BTreeMap<PathBuf, MadeEntry>,
}

impl SurveyLook<'_> {
    fn contents(&mut self, hook: Option<&ProjectRegistration>) -> Result<ProjectContents, ProjectProblem> {
        let policy = self.home.folders.server.join("policy.sh");
        if policy.is_file() && !self.home.settings.hooks {
            // Whoever wrote it counts on it: that it forbids nothing must not go unsaid.
            self.problems.push(problem(&self.home.root, &policy, ProjectFault::PolicyOff));
        }
        let declared = declared(self.home)?;
        // The declaration wins over the program.
        let registration = declared.as_ref().or(hook);
        let tools = match registration.and_then(|r| r.list("tools")) {
            Some(entries) => self.registered_tools(registration, entries),
            None => self.found_tools(),
        };
        let registered = registration.and_then(|r| r.list("resources"));
        let templates = registration.and_then(|r| r.list("resourceTemplates"));
        let (mut resources, mut found_templates) = (Vec::new(), Vec::new());
        // Templates lie among the resources, so the folder is walked for either.
        if registered.is_none() || templates.is_none_or(|entries| !entries.is_empty()) {
            (resources, found_templates) = self.found_resources(registered.is_none());
        }
        if let Some(entries) = registered {
            resources = self.registered_resources(registration, entries);
        }
        let mut resources = self.distinct(resources, |resource: &ProjectResource| &resource.name);
        let templates = match templates {
            None => found_templates,
            Some([]) => Vec::new(),
            Some(entries) => {
                let own = self.registered_templates(registration, entries);
                let taken: BTreeSet<String> = own.iter().map(|template| template.name.clone()).collect();
                found_templates.retain(|template| !taken.contains(&template.name));
                own.into_iter().chain(found_templates).collect()
            }
        };
        let templates = self.apart_from(templates, &resources);
        // After the others, whatever is registered; a page may be called like a resource.
        resources.extend(self.found_pages());
        let prompts = match registration.and_then(|r| r.list("prompts")) {
            Some(entries) => self.registered_prompts(registration, entries),
            None => self.found_prompts(),
        };
        let completions = match registration.and_then(|r| r.list("completions")) {
            Some(entries) => self.registered_completions(registration, entries),
            None => Vec::new(),
        };
        let contents = ProjectContents {
            tools: self.distinct(tools, |tool: &ProjectTool| &tool.name),
            templates: self.distinct(templates, |template: &ProjectTemplate| &template.name),
            resources,
            prompts: self.distinct(prompts, |prompt: &ProjectPrompt| &prompt.name),
            completions: self.distinct(completions, |completion: &ProjectCompletion| &completion.name),
        };
        self.bounded(contents)
    }

    /// Sorted by name; of two with the same, the first counts.
    fn distinct<T>(&mut self, mut entries: Vec<Arc<T>>, name: fn(&T) -> &String) -> Vec<Arc<T>> {
        // Stable, so that of equal names the first in the order of files is kept.
        entries.sort_by(|a, b| name(a).cmp(name(b)));
        let mut last: Option<String> = None;
        entries.retain(|entry| {
            let own = name(entry);
            if last.as_ref() != Some(own) {
                last = Some(own.clone());
                return true;
            }
            let fault = ProjectFault::Duplicate { name: own.clone(), first: "another one".into() };
            let place = self.home.root.join(self.place_of(own));
            self.problems.push(problem(&self.home.root, &place, fault));
            false
        });
        entries
    }

    /// The last file that an entry of this name was made of: the first keeps its name.
    fn place_of(&self, name: &str) -> PathBuf {
        let is = |made: &MadeEntry| match made {
            MadeEntry::Tool(tool) => tool.name == name,
            MadeEntry::Resource(resource) => resource.name == name,
            MadeEntry::Template(template) => template.name == name,
            MadeEntry::Prompt(prompt) => prompt.name == name,
        };
        let last = self.made.iter().rfind(|(_, made)| is(made));
        last.map_or_else(|| self.home.folders.server.join("register.json"), |(path, _)| path.clone())
    }

    /// Families may not be called like a resource.
    fn apart_from(
        &mut self,
        mut templates: Vec<Arc<ProjectTemplate>>,
        resources: &[Arc<ProjectResource>],
    ) -> Vec<Arc<ProjectTemplate>> {
        templates.retain(|template| {
            if resources.iter().all(|resource| resource.name != template.name) {
                return true;
            }
            let fault = ProjectFault::Duplicate { name: template.name.clone(), first: "a resource".into() };
            let place = self.place_of(&template.name);
            self.problems.push(problem(&self.home.root, &place, fault));
            false
        });
        templates
    }

    fn bounded(&self, contents: ProjectContents) -> Result<ProjectContents, ProjectProblem> {
        let limit = self.home.settings.registry_limit;
        let size: usize = contents.definitions().map(|definition| definition.to_string().len()).sum();
        if size <= limit {
            return Ok(contents);
        }
        Err(problem(&self.home.root, &self.home.folders.tools, ProjectFault::Registry { size, limit }))
    }
}
