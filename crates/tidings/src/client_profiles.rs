//! From `[clients.X]` to what the hub knows of clients.

use serde_json::Value;
use tidings_config::{ClientSettings, Config, ExposeSetting};
use tidings_hub::client_profile::{
    ClientProfiles, HeardNotices, PageReading, ProfileOverride, SchemaRules, ToolExposure, VIEW_META,
};
use tidings_hub::ledger::{Topic, Topics};

/// The profiles of clients under a configuration.
pub(crate) fn of(config: &Config) -> ClientProfiles {
    let overrides: Vec<ProfileOverride> = config.clients.iter().map(said).collect();
    ClientProfiles::new(&overrides)
}

/// What clients call themselves that `tidings connect` has another word for.
const CONNECTED: [(&str, &str); 9] = [
    ("codex", "codex-mcp-client"),
    ("gemini", "gemini-cli-mcp-client"),
    ("vscode", "Visual Studio Code"),
    ("zed", "Zed"),
    ("goose", "goose-cli"),
    ("cline", "Cline"),
    ("claude-desktop", "claude-ai"),
    ("cursor", "cursor-vscode"),
    ("copilot-cli", "github-copilot-developer"),
];

/// What a client calls itself, by that or by the word of `tidings connect` for it.
pub(crate) fn own_name(word: &str) -> &str {
    CONNECTED.iter().find(|(connected, _)| *connected == word).map_or(word, |(_, name)| name)
}

/// What was changed of a tool for a client, in words; nothing where it is everybody's.
pub(crate) fn changes(tool: &Value) -> Vec<String> {
    let view = &tool["_meta"][VIEW_META];
    let full = view["fullName"].as_str().map(|full| format!("short for {full}"));
    let schemas = [("inputSchema", "input schema"), ("outputSchema", "output schema")];
    let schemas = schemas.into_iter().flat_map(|(member, what)| {
        let done = view[member].as_array().into_iter().flatten().filter_map(Value::as_str);
        done.map(move |done| format!("{what} {done}"))
    });
    full.into_iter().chain(schemas).collect()
}

fn said(client: &ClientSettings) -> ProfileOverride {
    ProfileOverride {
        client: client.name.clone(),
        // None is lost here: the configuration refuses what is no range.
        version: client.version.as_deref().and_then(|range| range.parse().ok()).unwrap_or_default(),
        registered_as: client.registered_as.clone(),
        name_budget: client.name_budget,
        pages: client.follows_pages.map(|follows| if follows { PageReading::Follow } else { PageReading::One }),
        hears: client.hears.as_deref().map(heard),
        expose: client.expose.map(|expose| match expose {
            ExposeSetting::All => ToolExposure::All,
            ExposeSetting::Search => ToolExposure::Search,
            ExposeSetting::Both => ToolExposure::Both,
        }),
        schema: client.schema.as_deref().map(rules),
        hint: client.hint,
    }
}

fn heard(words: &[String]) -> HeardNotices {
    let has = |name: &str| words.iter().any(|word| word == name);
    let mut lists = Topics::default();
    Topic::ALL.into_iter().filter(|topic| has(topic.as_str())).for_each(|topic| lists.insert(topic));
    HeardNotices { lists, updated: has("updated") }
}

fn rules(words: &[String]) -> SchemaRules {
    let has = |name: &str| words.iter().any(|word| word == name);
    SchemaRules {
        inline_refs: has("inline_refs"),
        no_top_combinators: has("no_top_combinators"),
        object_output: has("object_output"),
    }
}
