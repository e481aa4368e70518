//! Extensions: which of them the gateway carries where several servers stand behind it.
//!
//! A server that is alone has its extensions passed through, whatever they are. Among several, one is declared to a client only
//! if the gateway knows how to carry it and some server that the client may use declares it.

use serde_json::{Map, Value};

/// MCP Apps: tools that name a `ui://` resource.
pub const APPS: &str = "io.modelcontextprotocol/ui";

/// Whether the gateway carries an extension among several servers.
pub fn is_carried(id: &str) -> bool {
    id == APPS
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

/// What a client may be told of the extensions of several servers: those that are carried, as the first server has them.
pub fn carried<'a>(servers: impl IntoIterator<Item = &'a Value>) -> Map<String, Value> {
    let mut out = Map::new();
    for declared in servers.into_iter().filter_map(|capabilities| capabilities.get("extensions")?.as_object()) {
        for (id, settings) in declared.iter().filter(|(id, _)| is_carried(id)) {
            // The first configured server wins, as with names.
            out.entry(id.clone()).or_insert_with(|| settings.clone());
        }
    }
    out
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
        assert_eq!(Value::Object(carried(&servers)), json!({APPS: {"a": 1}}));
    }
}
