//! Resources and families of them.

use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use serde_json::Map;

use super::{EntryOrigin, check_name, pass_icons, pass_objects, pass_texts};
use crate::entry::{ProjectResource, ProjectTemplate};
use crate::home::ProjectHome;
use crate::problem::{ProjectFault, ProjectProblem};

/// Characters that stay as they are in the URI of a file.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/').remove(b':');

/// Providers that need no script of the project.
const BUILT_IN: [&str; 4] = ["file", "git", "https", "echo"];

/// Which providers there are.
pub(crate) struct ProviderNames<'a>(pub(crate) &'a ProjectHome);

impl ProviderNames<'_> {
    pub(crate) fn has_own(&self, name: &str) -> bool {
        // A name becomes part of a path below.
        let plain = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
        plain && self.0.folders.providers.join(format!("{name}.sh")).is_file()
    }

    fn has(&self, name: &str) -> bool {
        BUILT_IN.contains(&name) || self.has_own(name)
    }

    /// Who reads a URI, by its scheme.
    fn of(&self, uri: &str) -> String {
        match uri.split_once("://").map_or("", |(scheme, _)| scheme) {
            "git+https" => "git".into(),
            scheme if self.has(scheme) => scheme.into(),
            "" => "file".into(),
            scheme => scheme.into(),
        }
    }
}

/// The `file://` URI of a path. Works on bytes, because a path need not be UTF-8.
fn file_uri(path: &Path) -> String {
    format!("file://{}", percent_encode(path.as_os_str().as_encoded_bytes(), PATH))
}

/// A resource from its metadata.
pub(crate) fn resource(
    origin: &EntryOrigin<'_>,
    path: Option<PathBuf>,
    name: &str,
    provided: &ProviderNames<'_>,
    problems: &mut Vec<ProjectProblem>,
) -> Result<ProjectResource, ProjectProblem> {
    let facts = &origin.facts;
    let name = facts.text("name", problems).unwrap_or_else(|| name.to_owned());
    check_name(origin, &name)?;
    let Some(uri) = facts.text("uri", problems).or_else(|| path.as_deref().map(file_uri)) else {
        return Err(facts.problem(None, ProjectFault::Missing("uri")));
    };
    if uri.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(facts.problem(Some("uri"), ProjectFault::Field { field: "uri".into(), wanted: "a URI" }));
    }
    let provider = facts.text("provider", problems).unwrap_or_else(|| provided.of(&uri));
    if !provided.has(&provider) {
        return Err(facts.problem(Some("provider"), ProjectFault::Provider(provider)));
    }
    let mut definition = Map::new();
    definition.insert("uri".into(), uri.as_str().into());
    definition.insert("name".into(), name.as_str().into());
    pass_texts(origin, &["title", "description"], &mut definition, problems);
    let mime_type = facts.text("mimeType", problems).unwrap_or_else(|| "text/plain".into());
    definition.insert("mimeType".into(), mime_type.into());
    pass_icons(origin, &mut definition, problems);
    pass_objects(origin, &mut definition, problems);
    let metadata = facts.members.clone().into();
    Ok(ProjectResource { name, uri, provider, path, definition: definition.into(), metadata })
}

/// A family of resources from its metadata.
pub(crate) fn template(
    origin: &EntryOrigin<'_>,
    problems: &mut Vec<ProjectProblem>,
) -> Result<ProjectTemplate, ProjectProblem> {
    let facts = &origin.facts;
    if facts.text("uri", problems).is_some() {
        return Err(facts.problem(Some("uri"), ProjectFault::TwoUris));
    }
    let Some(uri_template) = facts.text("uriTemplate", problems) else {
        return Err(facts.problem(None, ProjectFault::Missing("uriTemplate")));
    };
    let Some(name) = facts.text("name", problems) else {
        return Err(facts.problem(None, ProjectFault::Missing("name")));
    };
    check_name(origin, &name)?;
    if !has_variable(&uri_template) {
        return Err(facts.problem(Some("uriTemplate"), ProjectFault::NoVariable(uri_template)));
    }
    let provider = facts.text("provider", problems);
    let mut definition = Map::new();
    definition.insert("uriTemplate".into(), uri_template.as_str().into());
    definition.insert("name".into(), name.as_str().into());
    pass_texts(origin, &["title", "description", "mimeType"], &mut definition, problems);
    pass_icons(origin, &mut definition, problems);
    pass_objects(origin, &mut definition, problems);
    Ok(ProjectTemplate { name, uri_template, provider, definition: definition.into() })
}

fn has_variable(template: &str) -> bool {
    template.split('{').skip(1).any(|rest| rest.split_once('}').is_some_and(|(name, _)| !name.trim().is_empty()))
}
