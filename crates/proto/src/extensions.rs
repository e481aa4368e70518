//! Extensions: which of them the gateway carries where several servers stand behind it.
//!
//! A server that is alone has its extensions passed through, whatever they are. Among several, one is declared to a client only
//! if the gateway knows how to carry it and some server that the client may use declares it.

use serde_json::{Map, Value, json};
use tidings_wire::{ByteSpan, get, get_path};

use crate::Era;
use crate::task::{self, TASKS};

/// MCP Apps: tools that name a `ui://` resource.
pub const APPS: &str = "io.modelcontextprotocol/ui";

/// Skills: instructions for agents, in files that servers have as resources.
pub const SKILLS: &str = "io.modelcontextprotocol/skills";

/// The setting of [`SKILLS`] by which a server says that folders can be read.
const DIRECTORY_READ: &str = "directoryRead";

/// What a page of an app is: the only kind that the extension defines.
const APP_PAGE: &str = "text/html;profile=mcp-app";

/// The setting of [`APPS`] that both sides declare: the kinds of pages.
const MIME_TYPES: &str = "mimeTypes";

/// Whether a definition of a tool names the page of an app, in either spelling.
pub fn names_page(definition: &[u8]) -> bool {
    let whole = ByteSpan::new(0, definition.len());
    let Some(meta) = get(definition, whole, "_meta") else { return false };
    get_path(definition, meta, &["ui", "resourceUri"]).or_else(|| get(definition, meta, "ui/resourceUri")).is_some()
}

/// Whether the gateway carries an extension among several servers, for clients or servers of an era. In the old one tasks are part
/// of the core.
pub fn is_carried(id: &str, era: Era) -> bool {
    id == APPS || id == SKILLS || (id == TASKS && era == Era::Modern)
}

/// Whether a server has skills.
pub fn has_skills(capabilities: &Value) -> bool {
    skills_of(capabilities).is_some()
}

/// Whether folders of a server can be read.
pub fn reads_directories(capabilities: &Value) -> bool {
    skills_of(capabilities).is_some_and(|settings| settings.get(DIRECTORY_READ) == Some(&Value::Bool(true)))
}

fn skills_of(capabilities: &Value) -> Option<&Value> {
    capabilities.get("extensions")?.get(SKILLS).filter(|settings| settings.is_object())
}

/// Whether a server declares an extension that a method belongs to by its prefix: `com.example/search` is a method of
/// `com.example/catalog`, and of `com.example`.
pub fn declares_namespace(capabilities: &Value, method: &str) -> bool {
    // A method without a prefix belongs to no extension.
    let Some((namespace, _)) = method.split_once('/') else { return false };
    let of = |id: &str| id == namespace || id.split_once('/').is_some_and(|(prefix, _)| prefix == namespace);
    let groups = ["extensions", "experimental"].into_iter().filter_map(|group| capabilities.get(group)?.as_object());
    groups.flat_map(Map::keys).any(|id| of(id))
}

/// What the gateway declares to servers for itself. Of skills only servers have to say that they know them.
pub fn of_gateway() -> Map<String, Value> {
    Map::from_iter([(APPS.to_owned(), json!({ MIME_TYPES: [APP_PAGE] }))])
}

/// What a client that asks for it is promised of servers that are not there yet: every extension that is carried in both eras.
pub fn promised(asked: &Map<String, Value>) -> Map<String, Value> {
    let mut all = of_gateway();
    all.insert(SKILLS.to_owned(), json!({}));
    all.retain(|id, _| asked.contains_key(id));
    all
}

/// Those of a side's extensions that are carried to one of this era, as it declared them.
pub fn carried_of(capabilities: &Value, era: Era) -> Map<String, Value> {
    let declared = capabilities.get("extensions").and_then(Value::as_object);
    let carried = declared.into_iter().flatten().filter(|(id, _)| is_carried(id, era));
    let mut carried: Map<String, Value> = carried.map(|(id, settings)| (id.clone(), settings.clone())).collect();
    // Tasks of the old era are shown to the new one as what they are there.
    if era == Era::Modern && task::declares_core(capabilities) {
        carried.entry(TASKS).or_insert_with(|| json!({}));
    }
    carried
}

/// What a client of an era may be told of the extensions of several servers: those that are carried, as the first server has them,
/// with the kinds of pages of all. Folders can be read if those of some server can; the others refuse each by itself.
pub fn carried<'a>(servers: impl IntoIterator<Item = &'a Value>, era: Era) -> Map<String, Value> {
    let mut out = Map::new();
    for (id, mut settings) in servers.into_iter().flat_map(|server| carried_of(server, era)) {
        if id == SKILLS {
            // Of settings that are not known nobody can say what they mean for a list of several servers.
            keep_known(&mut settings);
        }
        match out.get_mut(&id) {
            Some(first) if id == SKILLS => add_directories(first, &settings),
            // The first configured server wins, as with names.
            Some(first) => add_mime_types(first, &settings),
            None => {
                out.insert(id, settings);
            }
        }
    }
    out
}

fn keep_known(settings: &mut Value) {
    if let Some(all) = settings.as_object_mut() {
        all.retain(|name, value| name == DIRECTORY_READ && *value == Value::Bool(true));
    }
}

fn add_directories(first: &mut Value, further: &Value) {
    if let (Some(first), Some(further)) = (first.as_object_mut(), further.as_object()) {
        // `keep_known` has left nothing but a yes, so a later server only adds and never takes away.
        first.extend(further.clone());
    }
}

/// A host must know of every kind of page that it may be given.
fn add_mime_types(first: &mut Value, further: &Value) {
    let (Some(first), Some(further)) =
        (first.as_object_mut(), further.get(MIME_TYPES).and_then(Value::as_array).filter(|types| !types.is_empty()))
    else {
        return;
    };
    let known = first.entry(MIME_TYPES).or_insert_with(|| json!([]));
    if let Some(known) = known.as_array_mut() {
        for one in further {
            if !known.contains(one) {
                known.push(one.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // edges C8
    #[test]
    fn a_method_belongs_to_the_extension_that_its_prefix_names() {
        let server = json!({"extensions": {"com.example/catalog": {}}, "experimental": {"acme": {}}});
        for (method, belongs) in [
            ("com.example/search", true),
            ("acme/do", true),
            ("com.example2/search", false),
            ("com.exampl/search", false),
            ("search", false),
        ] {
            assert_eq!(declares_namespace(&server, method), belongs, "{method}");
        }
    }

    // edges C9
    #[test]
    fn of_several_servers_only_what_is_carried_is_told() {
        let servers = [json!({"extensions": {"com.example/x": {}, APPS: {"a": 1}}}), json!({"extensions": {APPS: {}}})];
        assert_eq!(Value::Object(carried(&servers, Era::Legacy)), json!({APPS: {"a": 1}}));
    }

    // bridging B7
    #[test]
    fn tasks_are_an_extension_in_the_modern_era_alone() {
        let server = [json!({"extensions": {TASKS: {}}})];
        assert_eq!(Value::Object(carried(&server, Era::Modern)), json!({TASKS: {}}));
        assert!(carried(&server, Era::Legacy).is_empty());
        assert!(!of_gateway().contains_key(TASKS), "no server may think that the gateway itself works on tasks");
    }

    // reach 4
    #[test]
    fn folders_can_be_read_if_those_of_some_server_can() {
        let server = |settings: Value| json!({"extensions": {SKILLS: settings}});
        for (settings, told) in [
            ([json!({}), json!({"directoryRead": true})], json!({"directoryRead": true})),
            ([json!({"directoryRead": true, "x": 1}), json!({})], json!({"directoryRead": true})),
            ([json!({"directoryRead": false}), json!({"directoryRead": "true"})], json!({})),
        ] {
            for era in [Era::Legacy, Era::Modern] {
                assert_eq!(Value::Object(carried(&settings.clone().map(server), era)), json!({SKILLS: told}));
            }
        }
        assert!(reads_directories(&server(json!({"directoryRead": true}))) && !reads_directories(&server(json!({}))));
        assert!(has_skills(&server(json!({}))) && !has_skills(&server(json!(true))) && !has_skills(&json!({})));
        assert!(!of_gateway().contains_key(SKILLS), "it has no skills of its own");
    }

    // reach 4
    #[test]
    fn the_kinds_of_pages_of_all_servers_are_told() {
        let server = |settings: Value| json!({"extensions": {APPS: settings}});
        for (settings, told) in [
            (
                [json!({"mimeTypes": ["a", "b"]}), json!({"mimeTypes": ["b", "c"]})],
                json!({"mimeTypes": ["a", "b", "c"]}),
            ),
            ([json!({}), json!({"mimeTypes": ["c"]})], json!({"mimeTypes": ["c"]})),
            ([json!({"mimeTypes": ["a"]}), json!(true)], json!({"mimeTypes": ["a"]})),
            ([json!({"mimeTypes": "a"}), json!({"mimeTypes": ["c"]})], json!({"mimeTypes": "a"})),
            ([json!(true), json!({"mimeTypes": ["c"]})], json!(true)),
        ] {
            assert_eq!(Value::Object(carried(&settings.map(server), Era::Legacy)), json!({APPS: told}));
        }
    }
}
