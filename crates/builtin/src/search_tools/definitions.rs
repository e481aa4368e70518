//! What clients are told about the two tools.

use serde_json::{Value, json};

use super::arguments::{DEFAULT_LIMIT, MAX_LIMIT};

pub(super) const RETRIEVE: &str = "retrieve_tools";
pub(super) const CALL: &str = "call_tool";

/// How long the list may be kept: it changes only when a server takes one of the names, and that is announced.
const TTL_MS: u64 = 5 * 60 * 1_000;

/// The answer to `tools/list`.
pub(super) fn list() -> Value {
    json!({ "tools": [retrieve(), call()], "resultType": "complete", "ttlMs": TTL_MS, "cacheScope": "public" })
}

fn retrieve() -> Value {
    json!({
        "name": RETRIEVE,
        "title": "Find tools",
        "description": "Finds tools by what they do, among all tools of all connected servers. Many of them may not be in \
            the tool list, so search before you conclude that something can not be done. Returns the best matches first, \
            each with its name, description and input schema; call one with call_tool.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "minLength": 1,
                    "description": "What the tool should do, in a few words, such as \"create a calendar event\"; or a \
                        tool or server name. Spelling, word forms and synonyms are tolerated.",
                },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_LIMIT,
                    "default": DEFAULT_LIMIT,
                    "description": "How many tools to return at most.",
                },
            },
            "required": ["query"],
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "tools": {
                    "type": "array",
                    "description": "The tools that fit, best first.",
                    "items": {
                        "type": "object",
                        "properties": {
                            "name": { "type": "string", "description": "The name to call it by." },
                            "server": { "type": "string", "description": "The server that offers it." },
                            "title": { "type": "string" },
                            "description": { "type": "string" },
                            "inputSchema": { "type": "object", "description": "What its arguments must look like." },
                            "outputSchema": { "description": "What its structured result looks like." },
                            "annotations": { "type": "object" },
                            "score": {
                                "type": "number",
                                "description": "How well it fits; comparable only within one result.",
                            },
                        },
                        "required": ["name", "server", "description", "inputSchema", "score"],
                    },
                },
            },
            "required": ["tools"],
        },
        "annotations": { "readOnlyHint": true, "idempotentHint": true, "openWorldHint": false },
    })
}

fn call() -> Value {
    json!({
        "name": CALL,
        "title": "Call a tool",
        "description": "Calls a tool that retrieve_tools has found and returns that tool's own result. What it does, and \
            whether it changes anything, depends on the tool: see its description and annotations.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": { "type": "string", "description": "The tool's name, as retrieve_tools gives it." },
                "arguments": {
                    "type": "object",
                    "description": "The tool's arguments, as its inputSchema describes them.",
                    "additionalProperties": true,
                },
            },
            "required": ["name"],
        },
        "annotations": { "readOnlyHint": false, "destructiveHint": true, "openWorldHint": true },
    })
}
