//! What lies in the folders.

use std::path::Path;
use std::sync::Arc;

use super::{MadeEntry, SurveyLook};
use crate::document::JsonDocument;
use crate::entry::{ProjectPrompt, ProjectResource, ProjectTemplate, ProjectTool};
use crate::folder::{FolderWalk, FoundFile, relative};
use crate::identity::server_name;
use crate::make::{EntryOrigin, ProviderNames, body_of, prompt, resource, template, tool};
use crate::metadata::{SUFFIX, ScriptHeader, beside, document};
use crate::problem::ProjectProblem;
use crate::ui;

/// Tests of a tool, which are not tools.
const SMOKE: &str = "smoke.sh";

impl SurveyLook<'_> {
    fn walk(&mut self, folder: &Path) -> FolderWalk {
        let walk = FolderWalk::of(folder, &self.home.root, &mut self.problems);
        self.folders.extend(walk.folders.iter().cloned());
        walk
    }

    /// What was made of this file before, where it can not be told now.
    pub(super) fn keep(&mut self, path: &Path, problem: ProjectProblem) -> Option<MadeEntry> {
        self.problems.push(problem);
        // A file that is just being edited is often broken for a moment: its last good state stays listed.
        let kept = self.previous?.made.get(path)?.clone();
        self.made.insert(path.to_owned(), kept.clone());
        Some(kept)
    }

    pub(super) fn found_tools(&mut self) -> Vec<Arc<ProjectTool>> {
        let walk = self.walk(&self.home.folders.tools.clone());
        let mut tools = Vec::new();
        for found in walk.files.iter().filter(|found| !is_metadata(found)) {
            match self.found_tool(found, &walk) {
                Ok(None) => {}
                Ok(Some(tool)) => {
                    let tool = Arc::new(tool);
                    self.made.insert(found.path.clone(), MadeEntry::Tool(Arc::clone(&tool)));
                    tools.push(tool);
                }
                Err(problem) => {
                    if let Some(MadeEntry::Tool(tool)) = self.keep(&found.path, problem) {
                        tools.push(tool);
                    }
                }
            }
        }
        tools
    }

    fn found_tool(&mut self, found: &FoundFile, walk: &FolderWalk) -> Result<Option<ProjectTool>, ProjectProblem> {
        let root = &self.home.root;
        let file_name = found.file_name();
        let extension = file_name.ends_with(".sh") || file_name.ends_with(".bash");
        let is_of_page = found.relative.parent().is_some_and(|folder| folder.ends_with(ui::FOLDER));
        // Directly in `tools/` only programs count; text beside them is documentation.
        if file_name == SMOKE || is_of_page || (found.is_direct() && !found.executable) {
            return Ok(None);
        }
        let mut header = None;
        if !found.executable && !extension {
            let read = ScriptHeader::read(&found.path, root)?;
            // Neither executable nor a script by its first line: data of a tool.
            if !read.shebang {
                return Ok(None);
            }
            header = Some(read);
        }
        let mut written = beside(found, walk, root)?;
        if written.as_ref().is_none_or(|document| document.facts().get("description").is_none()) {
            let read = match header.take() {
                Some(read) => read,
                None => ScriptHeader::read(&found.path, root)?,
            };
            if written.is_none() {
                written = read.document(&found.path, root)?;
            }
            header = Some(read);
        }
        let written = written.unwrap_or_else(|| JsonDocument::empty(relative(root, &found.path)));
        let folder = found.path.parent().unwrap_or(root);
        let origin = EntryOrigin { facts: written.facts(), root, base: folder };
        let description = header.and_then(|header| header.description);
        let mut made = tool(&origin, found.path.clone(), &own_name(found), description, &mut self.problems)?;
        if !found.is_direct() && ui::is_page(&folder.join(ui::FOLDER)) {
            let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let meta = made.definition.get("_meta").cloned();
            made.definition["_meta"] = ui::linked(meta, &server_name(self.home), &name);
        }
        Ok(Some(made))
    }

    /// Resources and templates. `wanted`: whether the resources count, which can be registered instead.
    pub(super) fn found_resources(&mut self, wanted: bool) -> (Vec<Arc<ProjectResource>>, Vec<Arc<ProjectTemplate>>) {
        let walk = self.walk(&self.home.folders.resources.clone());
        let (mut resources, mut templates) = (Vec::new(), Vec::new());
        for found in &walk.files {
            let made = match self.found_resource(found, &walk, wanted) {
                Ok(made) => made.inspect(|made| drop(self.made.insert(found.path.clone(), made.clone()))),
                Err(problem) => self.keep(&found.path, problem),
            };
            match made {
                Some(MadeEntry::Resource(resource)) if wanted => resources.push(resource),
                Some(MadeEntry::Template(template)) => templates.push(template),
                _ => {}
            }
        }
        (resources, templates)
    }

    fn found_resource(
        &mut self,
        found: &FoundFile,
        walk: &FolderWalk,
        wanted: bool,
    ) -> Result<Option<MadeEntry>, ProjectProblem> {
        let root = &self.home.root;
        let base = found.path.parent().unwrap_or(root);
        if is_metadata(found) {
            let written = document(&found.path, root)?;
            let origin = EntryOrigin { facts: written.facts(), root, base };
            // A template has no file of its own; its metadata is all there is.
            if origin.facts.get("uriTemplate").is_some() {
                return template(&origin, &mut self.problems).map(|made| Some(MadeEntry::Template(Arc::new(made))));
            }
            // With a file beside it, that file is the resource.
            if !wanted || has_companion(found, walk) {
                return Ok(None);
            }
            let name = found.file_name().trim_end_matches(SUFFIX).to_owned();
            let made = resource(&origin, None, &name, &ProviderNames(self.home), &mut self.problems)?;
            return Ok(Some(MadeEntry::Resource(Arc::new(made))));
        }
        if !wanted {
            return Ok(None);
        }
        let mut written = beside(found, walk, root)?;
        if written.as_ref().is_none_or(|document| document.facts().get("uri").is_none()) {
            let header = ScriptHeader::read(&found.path, root)?;
            if let Some(inline) = header.document(&found.path, root)?
                && written.is_none()
            {
                written = Some(inline);
            }
        }
        let written = written.unwrap_or_else(|| JsonDocument::empty(relative(root, &found.path)));
        let origin = EntryOrigin { facts: written.facts(), root, base };
        if origin.facts.get("uriTemplate").is_some() {
            return Ok(None);
        }
        let path = Some(found.path.clone());
        let made = resource(&origin, path, &found.stem(), &ProviderNames(self.home), &mut self.problems)?;
        Ok(Some(MadeEntry::Resource(Arc::new(made))))
    }

    pub(super) fn found_prompts(&mut self) -> Vec<Arc<ProjectPrompt>> {
        let walk = self.walk(&self.home.folders.prompts.clone());
        let mut prompts = Vec::new();
        for found in walk.files.iter().filter(|found| !is_metadata(found)) {
            match self.found_prompt(found, &walk) {
                Ok(prompt) => {
                    let prompt = Arc::new(prompt);
                    self.made.insert(found.path.clone(), MadeEntry::Prompt(Arc::clone(&prompt)));
                    prompts.push(prompt);
                }
                Err(problem) => {
                    if let Some(MadeEntry::Prompt(prompt)) = self.keep(&found.path, problem) {
                        prompts.push(prompt);
                    }
                }
            }
        }
        prompts
    }

    fn found_prompt(&mut self, found: &FoundFile, walk: &FolderWalk) -> Result<ProjectPrompt, ProjectProblem> {
        let root = &self.home.root;
        let written = beside(found, walk, root)?.unwrap_or_else(|| JsonDocument::empty(relative(root, &found.path)));
        let base = found.path.parent().unwrap_or(root);
        let origin = EntryOrigin { facts: written.facts(), root, base };
        let body = body_of(found.path.clone(), found.executable);
        prompt(&origin, body, &found.stem(), &mut self.problems)
    }
}

fn is_metadata(found: &FoundFile) -> bool {
    found.file_name().ends_with(SUFFIX)
}

/// What a script is called when nothing is said: its stem, or its folder where the stem says nothing.
fn own_name(found: &FoundFile) -> String {
    let stem = found.stem();
    if stem != "tool" || found.is_direct() {
        return stem;
    }
    let folder = found.path.parent().and_then(Path::file_name);
    folder.map_or(stem, |name| name.to_string_lossy().into_owned())
}

/// Whether a file beside the metadata is what it describes.
fn has_companion(found: &FoundFile, walk: &FolderWalk) -> bool {
    let name = found.file_name();
    walk.has_named(&found.path.with_file_name(name.trim_end_matches(SUFFIX)))
}
