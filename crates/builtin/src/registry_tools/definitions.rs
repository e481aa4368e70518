//! What clients are told about the tools.

use serde_json::{Map, Value, json};

use super::browse::{FIND_LIMIT, LIST_LIMIT};
use super::{environment, schemas};

pub(super) const FIND: &str = "mcp_registry_find";
pub(super) const LIST: &str = "mcp_registry_list";
pub(super) const GET_DOCS: &str = "mcp_registry_get_docs";
pub(super) const ADD: &str = "mcp_registry_add";
pub(super) const LAUNCH: &str = "mcp_registry_launch_stdio";
pub(super) const REMOVE: &str = "mcp_registry_remove";
pub(super) const ACTIVE: &str = "mcp_registry_active";
pub(super) const STATUS: &str = "mcp_registry_status";
pub(super) const CONFIG_SET: &str = "mcp_registry_config_set";
pub(super) const EXEC: &str = "mcp_registry_exec";
pub(super) const REFRESH: &str = "mcp_registry_refresh";

/// How long the list may be kept: it changes only when a server takes one of the names, and that is announced.
const TTL_MS: u64 = 5 * 60 * 1_000;

/// The answer to `tools/list`.
pub(super) fn list() -> Value {
    let tools: Vec<Value> = all().iter().map(ToolDefinition::show).collect();
    json!({ "tools": tools, "resultType": "complete", "ttlMs": TTL_MS, "cacheScope": "public" })
}

/// What a tool takes.
pub(super) fn parameters(tool: &str) -> Vec<&'static str> {
    all()
        .iter()
        .find(|own| own.name == tool)
        .map(|own| own.parameters.iter().map(|p| p.0).collect())
        .unwrap_or_default()
}

/// What a call may do.
#[derive(Clone, Copy)]
enum ToolEffect {
    /// It only reads: clients may call it without asking their user.
    Looks,
    /// Reads a source again.
    Reads,
    /// Starts or ends what somebody else wrote.
    Changes,
}

struct ToolDefinition {
    name: &'static str,
    title: &'static str,
    description: String,
    parameters: Vec<(&'static str, bool, Value)>,
    output: Option<Value>,
    effect: ToolEffect,
}

impl ToolDefinition {
    fn show(&self) -> Value {
        let properties: Map<String, Value> =
            self.parameters.iter().map(|(key, _, schema)| ((*key).to_owned(), schema.clone())).collect();
        let required: Vec<&str> = self.parameters.iter().filter(|p| p.1).map(|p| p.0).collect();
        let annotations = match self.effect {
            ToolEffect::Looks => json!({ "readOnlyHint": true, "idempotentHint": true, "openWorldHint": false }),
            ToolEffect::Reads => {
                json!({ "readOnlyHint": false, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false })
            }
            ToolEffect::Changes => json!({ "readOnlyHint": false, "destructiveHint": true, "openWorldHint": true }),
        };
        let mut input = json!({ "type": "object", "properties": properties, "additionalProperties": false });
        if !required.is_empty() {
            input["required"] = json!(required);
        }
        let mut shown = json!({
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": input,
            "annotations": annotations,
        });
        if let Some(output) = &self.output {
            shown["outputSchema"] = output.clone();
        }
        shown
    }
}

fn text(description: &str) -> Value {
    json!({ "type": "string", "minLength": 1, "description": description })
}

fn texts(description: &str) -> Value {
    json!({ "type": "array", "items": { "type": "string" }, "description": description })
}

fn pairs(description: &str) -> Value {
    json!({ "type": "object", "additionalProperties": { "type": "string" }, "description": description })
}

fn flag(description: &str) -> Value {
    json!({ "type": "boolean", "default": false, "description": description })
}

fn limit((default, max): (usize, usize)) -> Value {
    json!({ "type": "integer", "minimum": 1, "maximum": max, "default": default, "description": "How many at most." })
}

fn tool(
    name: &'static str,
    title: &'static str,
    effect: ToolEffect,
    description: &str,
    parameters: Vec<(&'static str, bool, Value)>,
    output: Option<Value>,
) -> ToolDefinition {
    ToolDefinition { name, title, description: description.to_owned(), parameters, output, effect }
}

fn all() -> Vec<ToolDefinition> {
    let mut all = browsing();
    all.extend(changing());
    all.extend(seeing());
    all
}

fn browsing() -> Vec<ToolDefinition> {
    vec![
        tool(
            FIND,
            "Find servers",
            ToolEffect::Looks,
            "Finds MCP servers that could be added to this gateway, by what they do. Use it when no tool at hand can do \
             what is needed; add one with mcp_registry_add.",
            vec![
                ("query", true, text("What the server should do, or its name. Word forms and typos are tolerated.")),
                ("categories", false, texts("Only servers in one of these categories.")),
                ("tags", false, texts("Only servers with one of these tags.")),
                ("sources", false, texts("Only servers of these sources: built-in, file.")),
                ("official_only", false, flag("Only servers made by the owners of what they give access to.")),
                ("featured_only", false, flag("Only recommended servers.")),
                ("limit", false, limit(FIND_LIMIT)),
            ],
            Some(schemas::found()),
        ),
        tool(
            LIST,
            "List servers that could be added",
            ToolEffect::Looks,
            "Lists the entries of the catalogue in the order of their ids.",
            vec![
                ("source", false, text("Only this source: built-in, file or all.")),
                ("limit", false, limit(LIST_LIMIT)),
            ],
            Some(schemas::listed()),
        ),
        tool(
            GET_DOCS,
            "Read about a server",
            ToolEffect::Looks,
            "What one needs to know before adding a server: how it runs, its environment variables and arguments.",
            vec![("entry_id", true, text("The id, as mcp_registry_find gives it."))],
            Some(schemas::docs()),
        ),
        tool(
            REFRESH,
            "Read the catalogue again",
            ToolEffect::Reads,
            "Reads a source of entries again and says what changed.",
            vec![("source", true, text("The source: built-in, file or all."))],
            Some(schemas::refreshed()),
        ),
    ]
}

fn changing() -> Vec<ToolDefinition> {
    let variables = format!(
        "Environment variables, such as keys. Allowed are those that the entry names, and names that begin with {}. A value \
         may be a reference such as ${{env:NAME}} to a variable of the gateway, so that the value itself is not needed.",
        environment::PREFIXES.join(", ")
    );
    vec![
        tool(
            ADD,
            "Add a server",
            ToolEffect::Changes,
            "Starts a server of the catalogue and adds its tools, resources and prompts to this gateway, for every client \
             and until it is removed. Answers when they can be used; if it does not start, nothing is changed. Its tools \
             are named PREFIX__tool.",
            vec![
                ("entry_id", true, text("The id, as mcp_registry_find gives it.")),
                ("prefix", false, text("What its tools are named by; by default the last part of the id.")),
                ("args", false, texts("Arguments after those of the entry, where it needs some.")),
                ("environment", false, pairs(&variables)),
            ],
            Some(schemas::changed()),
        ),
        tool(
            LAUNCH,
            "Run a command as a server",
            ToolEffect::Changes,
            "Starts a command that speaks MCP on its standard input and output, and adds its tools, resources and prompts \
             to this gateway, for every client and until it is removed. Answers when they can be used; if it does not \
             start, nothing is changed.",
            vec![
                ("command", true, text("The program, such as npx, uvx, python or an absolute path.")),
                ("prefix", true, text("What its tools are named by: PREFIX__tool.")),
                ("args", false, texts("Its arguments.")),
                ("env", false, pairs("Its environment variables.")),
            ],
            Some(schemas::changed()),
        ),
        tool(
            REMOVE,
            "Remove a server",
            ToolEffect::Changes,
            "Ends a server that was added at run time and takes its tools, resources and prompts from every client. \
             Servers of the configuration file stay.",
            vec![("entry_id", true, text("Its entry id, prefix or name, as mcp_registry_active gives them."))],
            Some(schemas::removed()),
        ),
        tool(
            CONFIG_SET,
            "Set environment variables of a server",
            ToolEffect::Changes,
            "Sets environment variables of a server that was added at run time, and starts it again with them. If it does \
             not start, it goes on as before.",
            vec![
                ("entry_id", true, text("Its entry id, prefix or name, as mcp_registry_active gives them.")),
                ("environment", true, pairs(&variables)),
            ],
            Some(schemas::changed()),
        ),
        tool(
            EXEC,
            "Call a tool of a server",
            ToolEffect::Changes,
            "Calls a tool of any server behind this gateway and returns that tool's own result, also a tool that was added \
             after the tool list was read.",
            vec![
                ("tool_name", true, text("mcp_PREFIX_TOOL, or PREFIX__TOOL as mcp_registry_active gives it.")),
                (
                    "arguments",
                    false,
                    json!({ "type": "object", "additionalProperties": true, "description": "The tool's arguments." }),
                ),
            ],
            None,
        ),
    ]
}

fn seeing() -> Vec<ToolDefinition> {
    vec![
        tool(
            ACTIVE,
            "Servers of this gateway",
            ToolEffect::Looks,
            "Every server behind this gateway: how it is, where it comes from, and the names of its tools.",
            Vec::new(),
            Some(schemas::active()),
        ),
        tool(
            STATUS,
            "Status of the registry",
            ToolEffect::Looks,
            "How many entries and servers there are, where they come from, and what is wrong.",
            Vec::new(),
            Some(schemas::status()),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    // S4.5: the names and parameters that users of the original rely on
    #[test]
    fn names_and_parameters_are_those_of_the_original() {
        let expected: [(&str, &[&str]); 11] = [
            (FIND, &["query", "categories", "tags", "sources", "official_only", "featured_only", "limit"]),
            (LIST, &["source", "limit"]),
            (GET_DOCS, &["entry_id"]),
            (REFRESH, &["source"]),
            (ADD, &["entry_id", "prefix"]),
            (LAUNCH, &["command", "prefix", "args", "env"]),
            (REMOVE, &["entry_id"]),
            (CONFIG_SET, &["entry_id", "environment"]),
            (EXEC, &["tool_name", "arguments"]),
            (ACTIVE, &[]),
            (STATUS, &[]),
        ];
        assert_eq!(all().len(), expected.len());
        for (name, wanted) in expected {
            let has = parameters(name);
            assert!(wanted.iter().all(|key| has.contains(key)), "{name}: {has:?}");
        }
    }

    #[test]
    fn whatever_changes_the_gateway_says_so() {
        let tools = list()["tools"].as_array().unwrap().clone();
        let hint = |tool: &Value, hint: &str| tool["annotations"][hint].as_bool();
        for tool in &tools {
            let name = tool["name"].as_str().unwrap();
            let changes = [ADD, LAUNCH, REMOVE, CONFIG_SET, EXEC].contains(&name);
            assert_eq!(hint(tool, "destructiveHint") == Some(true), changes, "{name}");
            assert_eq!(hint(tool, "openWorldHint"), Some(changes), "{name}");
            assert_eq!(tool["outputSchema"].is_object(), name != EXEC, "{name}");
            assert_eq!(tool["inputSchema"]["additionalProperties"], false);
        }
    }
}
