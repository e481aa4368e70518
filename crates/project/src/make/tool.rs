//! From a tool's script and metadata to the entry that is listed.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::{EntryOrigin, check_tool_name, pass_icons, pass_objects, pass_texts};
use crate::entry::{ProjectTool, ToolTimeouts};
use crate::problem::{ProjectFault, ProjectProblem};

/// A tool from its metadata. What is not said there: `name`, and perhaps a description.
pub(crate) fn tool(
    origin: &EntryOrigin<'_>,
    script: PathBuf,
    name: &str,
    description: Option<String>,
    problems: &mut Vec<ProjectProblem>,
) -> Result<ProjectTool, ProjectProblem> {
    let facts = &origin.facts;
    let name = facts.text("name", problems).unwrap_or_else(|| name.to_owned());
    check_tool_name(origin, &name, problems)?;
    let description = facts.text("description", problems).or(description);
    let mut definition = Map::new();
    definition.insert("name".into(), name.as_str().into());
    match &description {
        Some(description) => drop(definition.insert("description".into(), description.as_str().into())),
        None => problems.push(facts.problem(None, ProjectFault::NoDescription)),
    }
    pass_texts(origin, &["title"], &mut definition, problems);
    let schema = match facts.object("inputSchema", problems) {
        Some(schema) => Some(schema),
        None => facts.object("arguments", problems),
    };
    definition.insert("inputSchema".into(), complete(schema));
    if let Some(schema) = facts.object("outputSchema", problems) {
        definition.insert("outputSchema".into(), schema);
    }
    pass_icons(origin, &mut definition, problems);
    pass_objects(origin, &mut definition, problems);
    let timeouts = ToolTimeouts {
        fixed: facts.seconds("timeoutSecs", problems),
        extends: facts.flag("progressExtendsTimeout", problems),
        max: facts.seconds("maxTimeoutSecs", problems),
        hint: facts.text("timeoutHint", problems),
    };
    let metadata = known(origin, &definition, &script);
    Ok(ProjectTool { name, script, definition: definition.into(), metadata, timeouts })
}

/// What a script may know of itself: what its author wrote, with what follows from it.
fn known(origin: &EntryOrigin<'_>, definition: &Map<String, Value>, script: &std::path::Path) -> Value {
    let mut metadata = origin.facts.members.clone();
    for member in ["name", "description", "inputSchema"] {
        if let Some(value) = definition.get(member) {
            metadata.insert(member.into(), value.clone());
        }
    }
    let path = script.strip_prefix(origin.root).unwrap_or(script);
    metadata.entry("path").or_insert_with(|| path.to_string_lossy().into());
    metadata.into()
}

/// Clients rely on an object with properties.
fn complete(schema: Option<Value>) -> Value {
    let Some(Value::Object(mut schema)) = schema else {
        return json!({ "type": "object", "properties": {} });
    };
    schema.entry("type").or_insert_with(|| "object".into());
    schema.entry("properties").or_insert_with(|| json!({}));
    schema.into()
}
