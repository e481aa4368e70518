//! The output schemas of the registry tools: what their structured results look like.

use serde_json::{Value, json};

/// The schema of an object; members that are not named here may still come.
fn object(properties: &Value, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": properties, "required": required })
}

fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

fn texts(description: &str) -> Value {
    json!({ "type": "array", "items": { "type": "string" }, "description": description })
}

fn count(description: &str) -> Value {
    json!({ "type": "integer", "minimum": 0, "description": description })
}

fn flag(description: &str) -> Value {
    json!({ "type": "boolean", "description": description })
}

fn list(items: &Value, description: &str) -> Value {
    json!({ "type": "array", "items": items, "description": description })
}

fn entry() -> Value {
    let properties = json!({
        "id": text("What mcp_registry_add takes."),
        "name": text("Its name for people."),
        "description": text("What it does."),
        "source": text("Which source knows it."),
        "runs_as": text("npm, pypi, nuget, mcpb, command, container or url."),
        "version": text("The release, of an entry of a registry."),
        "status": text("active or deprecated, of an entry of a registry."),
        "status_message": text("What its publisher says about that."),
        "categories": texts("What it is for."),
        "tags": texts("Words about it."),
        "official": flag("Made by those who make what it gives access to."),
        "featured": flag("Recommended."),
        "required_environment": texts("Variables that it does not work without."),
        "optional_environment": texts("Other variables that it reads."),
        "needs_args": flag("Whether args have to be given."),
        "repository": text("Where its source is."),
        "score": { "type": "number", "description": "How well it fits; comparable only within one result." },
    });
    object(&properties, &["id", "name", "description", "source", "runs_as"])
}

fn server() -> Value {
    let properties = json!({
        "entry_id": text("The entry it was made of, stdio-PREFIX for a launched command, else its name."),
        "name": text("Its name in the gateway."),
        "prefix": text("What stands before __ in the names of its tools and prompts."),
        "source": text("file or runtime."),
        "state": text("ready, connecting, failing, needs login, disabled or not-started."),
        "since": text("Since when, as an RFC 3339 time."),
        "revision": text("The protocol revision it speaks."),
        "era": text("legacy or modern."),
        "tools": texts("The names to call its tools by."),
        "resources": count("How many resources it has."),
        "resource_templates": count("How many resource templates it has."),
        "prompts": count("How many prompts it has."),
        "error": text("What is wrong with it."),
    });
    let required =
        ["entry_id", "name", "prefix", "source", "state", "tools", "resources", "resource_templates", "prompts"];
    object(&properties, &required)
}

fn source(more: Value) -> Value {
    let mut properties = json!({
        "name": text("Its name."),
        "entries": count("How many entries it has."),
        "refreshed": text("When it was last read, as an RFC 3339 time; absent for a registry that was not read yet."),
        "url": text("Where it is, if it is a registry."),
        "file": text("The file, if it is one."),
        "error": text("Why it could not be read since."),
    });
    if let (Value::Object(all), Value::Object(more)) = (&mut properties, more) {
        all.extend(more);
    }
    object(&properties, &["name", "entries"])
}

pub(super) fn found() -> Value {
    object(&json!({ "entries": list(&entry(), "The entries that fit, best first.") }), &["entries"])
}

pub(super) fn listed() -> Value {
    let entries = list(&entry(), "In the order of their ids.");
    object(&json!({ "entries": entries, "total": count("How many there are.") }), &["entries", "total"])
}

pub(super) fn docs() -> Value {
    let page = text("What one needs to know, in Markdown.");
    object(&json!({ "entry": entry(), "documentation": page }), &["entry", "documentation"])
}

pub(super) fn changed() -> Value {
    object(&json!({ "server": server() }), &["server"])
}

pub(super) fn removed() -> Value {
    let gone = object(&json!({ "entry_id": text("As before."), "name": text("As before.") }), &["entry_id", "name"]);
    object(&json!({ "removed": gone }), &["removed"])
}

pub(super) fn active() -> Value {
    object(&json!({ "servers": list(&server(), "Every configured server.") }), &["servers"])
}

pub(super) fn refreshed() -> Value {
    let more = json!({
        "added": count("Entries that are new."),
        "changed": count("Entries that say something else."),
        "removed": count("Entries that are gone."),
    });
    object(&json!({ "sources": list(&source(more), "What was read.") }), &["sources"])
}

pub(super) fn status() -> Value {
    let servers = json!({
        "running": count("Servers that are on."),
        "ready": count("Connected."),
        "connecting": count("On the way."),
        "failing": count("Not connected; tried again."),
        "needs_login": count("Not connected before somebody has logged in."),
        "not_running": count("Disabled, or not started."),
    });
    let configuration = json!({
        "file": text("The configuration file."),
        "read": text("When it was last read while running."),
        "error": text("Why that changed nothing."),
        "needs_restart": texts("Sections that apply only after a restart."),
    });
    let properties = json!({
        "version": text("The gateway's version."),
        "entries": count("How many entries there are in all sources."),
        "sources": list(&source(json!({})), "Where entries come from."),
        "servers": object(&servers, &["running", "ready", "connecting", "failing", "needs_login", "not_running"]),
        "survives_restart": flag("Whether servers that are added now are started again after a restart."),
        "configuration": object(&configuration, &["needs_restart"]),
    });
    object(&properties, &["version", "entries", "sources", "servers", "survives_restart", "configuration"])
}
