//! The published schema and the decoder say the same.

use serde_json::Value;
use tidings_config::ConfigFault;

use super::{parse, toml};

/// The properties of a type in the schema, sorted.
fn properties(schema: &Value, name: &str) -> Vec<String> {
    let object = if name.is_empty() { schema } else { &schema["$defs"][name] };
    assert_eq!(object["additionalProperties"], false, "{name} lets unknown keys through");
    let mut keys: Vec<_> = object["properties"].as_object().unwrap().keys().cloned().collect();
    keys.sort();
    keys
}

/// The keys that the decoder knows in a section, sorted.
fn known(text: &str) -> Vec<String> {
    let errors = parse("tidings.toml", text).unwrap_err();
    let known = errors.iter().find_map(|error| match &error.fault {
        ConfigFault::UnknownKey { known, .. } => Some(known.clone()),
        _ => None,
    });
    let mut known: Vec<_> = known.unwrap().into_iter().map(str::to_owned).collect();
    known.sort();
    known
}

#[test]
fn schema_and_decoder_know_the_same_keys() {
    let schema = tidings_config::schema();
    let sections = [
        ("", "zzz = 1"),
        ("Gateway", "[gateway]\nzzz = 1"),
        ("Notifications", "[notifications]\nzzz = 1"),
        ("Search", "[search]\nzzz = 1"),
        ("Embeddings", "[search]\nembeddings = { zzz = 1 }"),
        ("Audit", "[audit]\nzzz = 1"),
        ("Telemetry", "[telemetry]\nzzz = 1"),
        ("Page", "[page]\nzzz = 1"),
        ("Server", "[servers.x]\nzzz = 1"),
        ("Tools", "[servers.x]\ncommand = \"x\"\ntools = { zzz = 1 }"),
        ("Watch", "[watch.x]\nzzz = 1"),
        ("Auth", "[auth]\nzzz = 1"),
        ("Token", "[auth]\ntokens = [{ zzz = 1 }]"),
        ("Jwt", "[auth]\njwt = { zzz = 1 }"),
        ("Introspection", "[auth]\nintrospection = { zzz = 1 }"),
        ("Certificate", "[auth]\ncertificates = [{ zzz = 1 }]"),
        ("Vault", "[vault]\nzzz = 1"),
        ("Tls", "[gateway]\ntls = { zzz = 1 }"),
        ("Limits", "[limits]\nzzz = 1"),
        ("LimitAmounts", "[limits]\nprincipal = { zzz = 1 }"),
        ("LimitRule", "[[limits.rule]]\nzzz = 1"),
        ("Policy", "[policy]\nzzz = 1"),
        ("PolicyRule", "[[policy.rule]]\nzzz = 1"),
        ("Client", "[clients.x]\nzzz = 1"),
        ("Notify", "[[notify]]\nzzz = 1"),
        ("Registry", "[[registry]]\nzzz = 1"),
        ("Release", "[servers.x]\ncommand = \"x\"\nrelease = { zzz = 1 }"),
        ("Cluster", "[cluster]\nzzz = 1"),
        ("ClusterTls", "[cluster.tls]\nzzz = 1"),
    ];
    for (name, text) in sections {
        assert_eq!(properties(&schema, name), known(text), "{name}");
    }
}

#[test]
fn the_schema_has_no_null_because_toml_has_none() {
    assert!(!tidings_config::schema().to_string().contains("null"));
}

#[test]
fn every_key_is_described() {
    let schema = tidings_config::schema();
    let types = schema["$defs"].as_object().unwrap().values().chain([&schema]);
    for object in types {
        for (key, property) in object["properties"].as_object().into_iter().flatten() {
            assert!(property["description"].is_string(), "{key}: {property}");
        }
    }
}

#[test]
fn defaults_of_the_schema_are_those_of_the_decoder() {
    let schema = tidings_config::schema();
    let defaults = |name: &str| {
        let properties = schema["$defs"][name]["properties"].as_object().unwrap();
        let lines =
            properties.iter().filter_map(|(key, property)| Some(format!("{key} = {}\n", property.get("default")?)));
        lines.collect::<String>()
    };
    let (gateway, notifications) = (defaults("Gateway"), defaults("Notifications"));
    assert!(gateway.lines().count() > 8 && notifications.lines().count() > 6, "{gateway}{notifications}");
    let written = toml(&format!(
        "[gateway]\n{gateway}\n[notifications]\n{notifications}\n[servers.x]\ncontainer = \"x\"\n{}",
        defaults("Server")
    ));
    // A container has every key with a default.
    let empty = toml("[servers.x]\ncontainer = \"x\"\n");
    assert_eq!(written.gateway, empty.gateway);
    assert_eq!(written.notifications, empty.notifications);
    assert_eq!(written.servers, empty.servers);
}
