//! What a project offers, as data. Entries are immutable and shared: a running call keeps the one it began with.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

/// A tool: what clients are shown, and the script that runs.
#[derive(Clone, Debug, PartialEq)]
pub struct ProjectTool {
    /// The name that clients are shown; unique in its list.
    pub name: String,
    /// The file to run, absolute and inside the project.
    pub script: PathBuf,
    /// As it is listed: `name`, `description`, `inputSchema` and what else a client may see.
    pub definition: Value,
    /// The metadata as its author wrote it, for `MCP_TOOL_METADATA_JSON`.
    pub metadata: Value,
    /// How long it may run.
    pub timeouts: ToolTimeouts,
}

/// How long a tool may run. What is absent is taken from [`crate::ProjectSettings`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolTimeouts {
    /// `timeoutSecs`: the whole time, or the silence when progress extends it.
    pub fixed: Option<Duration>,
    /// `progressExtendsTimeout`: progress begins the time anew.
    pub extends: Option<bool>,
    /// `maxTimeoutSecs`: the whole time, however much progress there is.
    pub max: Option<Duration>,
    /// `timeoutHint`: what the caller may do about it.
    pub hint: Option<String>,
}

/// A prompt: what clients are shown, and the template or script that renders it.
#[derive(Clone, Debug, PartialEq)]
pub struct ProjectPrompt {
    /// The name that clients are shown; unique in its list.
    pub name: String,
    /// What makes its text.
    pub body: PromptBody,
    /// The role of its message: `user` unless said otherwise.
    pub role: String,
    /// As it is listed.
    pub definition: Value,
    /// The metadata as its author wrote it.
    pub metadata: Value,
}

/// What makes the text of a prompt. Paths are absolute and inside the project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromptBody {
    /// A text in which `{{name}}` is replaced.
    Template(PathBuf),
    /// A program that prints the text.
    Script(PathBuf),
}

/// A resource: what clients are shown, and the provider that reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct ProjectResource {
    /// The name that clients are shown; unique in its list.
    pub name: String,
    /// The URI that clients read it by.
    pub uri: String,
    /// The provider that reads it: `file`, `git`, `https`, `echo`, or one of the project's own.
    pub provider: String,
    /// The file it stands for, where there is one; absolute.
    pub path: Option<PathBuf>,
    /// As it is listed.
    pub definition: Value,
    /// The metadata as its author wrote it.
    pub metadata: Value,
}

/// A family of resources.
#[derive(Clone, Debug, PartialEq)]
pub struct ProjectTemplate {
    /// The name that clients are shown; unique in its list.
    pub name: String,
    /// The pattern that the URIs of the family follow (RFC 6570).
    pub uri_template: String,
    /// The provider that reads its resources, where it is named; else the scheme of the URI decides.
    pub provider: Option<String>,
    /// As it is listed.
    pub definition: Value,
}

/// What completes an argument. It is not listed.
#[derive(Clone, Debug, PartialEq)]
pub struct ProjectCompletion {
    /// The prompt or resource it is for.
    pub name: String,
    /// The file to run, absolute and inside the project.
    pub script: PathBuf,
    /// How long it may take.
    pub timeout: Option<Duration>,
    /// The metadata as its author wrote it.
    pub metadata: Value,
}

/// One good state of everything a project offers, each list sorted by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProjectContents {
    /// The tools, by name; each name once.
    pub tools: Vec<Arc<ProjectTool>>,
    /// The resources, by name; pages of `ui/` come last.
    pub resources: Vec<Arc<ProjectResource>>,
    /// The families of resources.
    pub templates: Vec<Arc<ProjectTemplate>>,
    /// The prompts, by name; each name once.
    pub prompts: Vec<Arc<ProjectPrompt>>,
    /// The completions, which are never listed.
    pub completions: Vec<Arc<ProjectCompletion>>,
}

/// Hashes of what clients are shown, one per kind that is announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListDigests {
    /// The hash of the list of tools.
    pub tools: [u8; 32],
    /// Of resources and templates: clients are told of both at once.
    pub resources: [u8; 32],
    /// The hash of the list of prompts.
    pub prompts: [u8; 32],
}

impl ProjectContents {
    /// The tool that clients call by this name; `None` when the project has none.
    pub fn tool(&self, name: &str) -> Option<&Arc<ProjectTool>> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// The prompt that clients get by this name; `None` when the project has none.
    pub fn prompt(&self, name: &str) -> Option<&Arc<ProjectPrompt>> {
        self.prompts.iter().find(|prompt| prompt.name == name)
    }

    /// The listed resource with exactly this URI; what only a template describes is not found here.
    pub fn resource(&self, uri: &str) -> Option<&Arc<ProjectResource>> {
        self.resources.iter().find(|resource| resource.uri == uri)
    }

    /// The script that completes arguments for this name; `None` when the project has none.
    pub fn completion(&self, name: &str) -> Option<&Arc<ProjectCompletion>> {
        self.completions.iter().find(|completion| completion.name == name)
    }

    /// Everything that is listed.
    pub(crate) fn definitions(&self) -> impl Iterator<Item = &Value> {
        let tools = self.tools.iter().map(|tool| &tool.definition);
        let resources = self.resources.iter().map(|resource| &resource.definition);
        let templates = self.templates.iter().map(|template| &template.definition);
        let prompts = self.prompts.iter().map(|prompt| &prompt.definition);
        tools.chain(resources).chain(templates).chain(prompts)
    }

    /// Hashes of what is listed. Times of files have no part in it.
    pub fn digests(&self) -> ListDigests {
        let mut resources = blake3::Hasher::new();
        add(&mut resources, self.resources.iter().map(|resource| &resource.definition));
        // Between the two lists: a template that moves to the other one must not give the same hash.
        resources.update(b"\n");
        add(&mut resources, self.templates.iter().map(|template| &template.definition));
        ListDigests {
            tools: digest(self.tools.iter().map(|tool| &tool.definition)),
            resources: resources.finalize().into(),
            prompts: digest(self.prompts.iter().map(|prompt| &prompt.definition)),
        }
    }
}

fn digest<'a>(definitions: impl Iterator<Item = &'a Value>) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    add(&mut hasher, definitions);
    hasher.finalize().into()
}

fn add<'a>(hasher: &mut blake3::Hasher, definitions: impl Iterator<Item = &'a Value>) {
    for definition in definitions {
        hasher.update(definition.to_string().as_bytes());
        hasher.update(b"\n");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn prompt(name: &str, description: &str) -> Arc<ProjectPrompt> {
        Arc::new(ProjectPrompt {
            name: name.into(),
            body: PromptBody::Template("/p".into()),
            role: "user".into(),
            definition: json!({ "name": name, "description": description }),
            metadata: Value::Null,
        })
    }

    #[test]
    fn a_digest_differs_only_for_the_kind_that_changed() {
        // S0.3
        let before = ProjectContents { prompts: vec![prompt("a", "one")], ..ProjectContents::default() }.digests();
        let after = ProjectContents { prompts: vec![prompt("a", "two")], ..ProjectContents::default() }.digests();
        assert_eq!((before.tools, before.resources), (after.tools, after.resources));
        assert_ne!(before.prompts, after.prompts);
    }
}
