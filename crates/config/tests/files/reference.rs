//! `docs/configuration.md`: the reference in it is made from the schema, so that it can not tell of another one.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

const BEGIN: &str = "<!-- made from the schema: begin -->\n";
const END: &str = "<!-- made from the schema: end -->\n";
/// With this variable the page is written in place of being compared.
const UPDATE: &str = "TIDINGS_UPDATE";

/// Each section of the file: its heading, and where its keys stand in the schema.
const SECTIONS: [(&str, &str); 30] = [
    ("[gateway]", "Gateway"),
    ("tls of [gateway]", "Tls"),
    ("[notifications]", "Notifications"),
    ("[search]", "Search"),
    ("embeddings of [search]", "Embeddings"),
    ("[audit]", "Audit"),
    ("[telemetry]", "Telemetry"),
    ("[page]", "Page"),
    ("[quotas]", "Quotas"),
    ("[vault]", "Vault"),
    ("[servers.NAME]", "Server"),
    ("tools of [servers.NAME]", "Tools"),
    ("release of [servers.NAME]", "Release"),
    ("[servers.NAME.auth]", "Login"),
    ("[watch.NAME]", "Watch"),
    ("[auth]", "Auth"),
    ("tokens of [auth]", "Token"),
    ("[auth.jwt]", "Jwt"),
    ("[auth.introspection]", "Introspection"),
    ("certificates of [auth]", "Certificate"),
    ("[policy]", "Policy"),
    ("[[policy.rule]]", "PolicyRule"),
    ("[limits]", "Limits"),
    ("principal of [limits]", "LimitAmounts"),
    ("[[limits.rule]]", "LimitRule"),
    ("[clients.NAME]", "Client"),
    ("[[notify]]", "Notify"),
    ("[[registry]]", "Registry"),
    ("[cluster]", "Cluster"),
    ("tls of [cluster]", "ClusterTls"),
];

fn reference(schema: &Value) -> String {
    let mut out = String::new();
    for (heading, definition) in SECTIONS {
        let section = &schema["$defs"][definition];
        let keys = section["properties"].as_object().unwrap_or_else(|| panic!("{definition} has no keys"));
        let _ = writeln!(out, "\n## `{heading}`\n");
        if let Some(about) = section["description"].as_str() {
            let _ = writeln!(out, "{about}\n");
        }
        out.push_str("| key | value | default | what it is |\n|---|---|---|---|\n");
        for (key, described) in keys {
            let default = described.get("default").map(|value| format!("`{value}`")).unwrap_or_default();
            let about = described["description"].as_str().unwrap_or_default().replace('\n', " ").replace('|', "\\|");
            let _ =
                writeln!(out, "| `{key}` | {} | {} | {about} |", kind(schema, described), default.replace('|', "\\|"));
        }
    }
    out.push('\n');
    out
}

/// What may stand there, in few words.
fn kind(schema: &Value, described: &Value) -> String {
    if let Some(reference) = described["$ref"].as_str() {
        let name = reference.trim_start_matches("#/$defs/");
        return match name {
            "Span" => "time".to_owned(),
            _ if SECTIONS.iter().any(|(_, definition)| *definition == name) => "table".to_owned(),
            _ => kind(schema, &schema["$defs"][name]),
        };
    }
    if let Some(choices) = described["anyOf"].as_array().or_else(|| described["oneOf"].as_array()) {
        let kinds: Vec<String> = choices.iter().map(|choice| kind(schema, choice)).collect();
        return kinds.join(", ");
    }
    if let Some(choices) = described["enum"].as_array() {
        return choices.iter().map(|choice| format!("`{choice}`")).collect::<Vec<_>>().join(", ");
    }
    if let Some(only) = described.get("const") {
        return format!("`{only}`");
    }
    match described["type"].as_str().unwrap_or_default() {
        "string" => "text".to_owned(),
        "integer" | "number" => "number".to_owned(),
        "boolean" => "`true`, `false`".to_owned(),
        "array" => format!("list of {}", kind(schema, &described["items"])),
        "object" => format!("table of {}", kind(schema, &described["additionalProperties"])),
        other => other.to_owned(),
    }
}

// edges F20
#[test]
fn the_page_about_the_configuration_is_made_from_the_schema() {
    let schema = tidings_config::schema();
    let named: Vec<&str> = SECTIONS.iter().map(|(_, definition)| *definition).collect();
    for (definition, described) in schema["$defs"].as_object().unwrap() {
        let has_keys = described["properties"].is_object();
        assert!(!has_keys || named.contains(&definition.as_str()), "{definition} has keys and no section in the page");
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the page says where the reference begins");
    let (written, after) = rest.split_once(END).expect("the page says where it ends");
    let made = reference(&schema);
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{made}{END}{after}")).unwrap();
        return;
    }
    assert!(
        written == made,
        "docs/configuration.md does not tell of this schema; make it anew: {UPDATE}=1 cargo test -p tidings-config --test files reference"
    );
}
