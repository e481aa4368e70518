//! From a prompt's file and metadata to the entry that is listed.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::{EntryOrigin, check_name, pass_icons, pass_objects, pass_texts};
use crate::entry::{ProjectPrompt, PromptBody};
use crate::folder::head;
use crate::problem::{ProjectFault, ProjectProblem};

/// A prompt from its metadata.
pub(crate) fn prompt(
    origin: &EntryOrigin<'_>,
    body: PromptBody,
    name: &str,
    problems: &mut Vec<ProjectProblem>,
) -> Result<ProjectPrompt, ProjectProblem> {
    let facts = &origin.facts;
    let name = facts.text("name", problems).unwrap_or_else(|| name.to_owned());
    check_name(origin, &name)?;
    let mut definition = Map::new();
    definition.insert("name".into(), name.as_str().into());
    pass_texts(origin, &["title", "description"], &mut definition, problems);
    definition.insert("arguments".into(), arguments(origin, problems));
    pass_icons(origin, &mut definition, problems);
    pass_objects(origin, &mut definition, problems);
    let role = facts.text("role", problems).unwrap_or_else(|| "user".into());
    if !matches!(role.as_str(), "user" | "assistant") {
        let fault = ProjectFault::Field { field: "role".into(), wanted: "user or assistant" };
        return Err(facts.problem(Some("role"), fault));
    }
    let metadata = facts.members.clone().into();
    Ok(ProjectPrompt { name, body, role, definition: definition.into(), metadata })
}

/// A program is one that can be run and says with what; anything else is text.
pub(crate) fn body_of(path: PathBuf, executable: bool) -> PromptBody {
    // Executable alone is not enough: on some file systems every file is.
    if executable && is_program(&path) { PromptBody::Script(path) } else { PromptBody::Template(path) }
}

fn is_program(path: &Path) -> bool {
    head(path, 2).is_ok_and(|bytes| bytes == b"#!")
}

/// Authors write a schema, clients read a list; a list passes as it is.
fn arguments(origin: &EntryOrigin<'_>, problems: &mut Vec<ProjectProblem>) -> Value {
    match origin.facts.get("arguments") {
        None => json!([]),
        Some(Value::Array(list)) => list.clone().into(),
        Some(Value::Object(schema)) => {
            let required: Vec<&str> = schema
                .get("required")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            let properties = schema.get("properties").and_then(Value::as_object);
            let listed = properties.into_iter().flatten().map(|(name, about)| {
                let mut argument = json!({ "name": name, "required": required.contains(&name.as_str()) });
                for member in ["title", "description"] {
                    if let Some(text) = about.get(member).filter(|text| text.is_string()) {
                        argument[member] = text.clone();
                    }
                }
                argument
            });
            listed.collect()
        }
        Some(_) => {
            let fault = ProjectFault::Field { field: "arguments".into(), wanted: "a schema of type object" };
            problems.push(origin.facts.problem(Some("arguments"), fault));
            json!([])
        }
    }
}
