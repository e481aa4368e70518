use std::path::Path;

use serde_json::json;

use super::*;

fn after(text: &str, file: &str, name: &str, wanted: &ServerEdit<'_>) -> Result<String, EditError> {
    let surroundings = ConfigSurroundings { env: &|_| None, read: &|_| Err(std::io::ErrorKind::NotFound.into()) };
    edit(text, Path::new(file), name, wanted, &surroundings)
}

const TOML: &str = r#"# Mine.
[gateway]
listen = "127.0.0.1:7000" # not the usual one

[servers.memory]
command = "npx"          # from npm
args = ["-y", "memory"]
[servers.memory.env]
LOG = "1"

[servers.time]
command = "time"
"#;

#[test]
fn a_server_is_added_at_the_end_of_a_file_and_the_rest_stays() {
    let server = json!({"command": "git", "args": ["-v"], "env": {"A": "b"}});
    let edited = after(TOML, "t.toml", "git", &ServerEdit::Add(&server)).unwrap();
    assert!(edited.starts_with(TOML), "{edited}");
    assert!(edited.contains("\n[servers.git]\n") && edited.contains(r#"env = { A = "b" }"#), "{edited}");
    let fresh = after("", "t.toml", "git", &ServerEdit::Add(&server)).unwrap();
    assert!(fresh.starts_with("[servers.git]\n"), "{fresh}");
}

#[test]
fn a_server_is_removed_with_its_sub_tables_only() {
    let edited = after(TOML, "t.toml", "memory", &ServerEdit::Remove).unwrap();
    assert!(!edited.contains("memory") && !edited.contains("LOG"), "{edited}");
    assert!(edited.contains("# not the usual one") && edited.contains("[servers.time]"), "{edited}");
}

#[test]
fn a_server_is_switched_off_and_on_again() {
    let off = after(TOML, "t.toml", "time", &ServerEdit::Enable(false)).unwrap();
    assert!(off.contains("command = \"time\"\nenabled = false"), "{off}");
    let on = after(&off, "t.toml", "time", &ServerEdit::Enable(true)).unwrap();
    assert!(on.contains("enabled = true"), "{on}");
}

#[test]
fn the_file_of_a_client_keeps_its_order_and_what_is_not_ours() {
    let text = r#"{
  "zebra": [1, 2],
  "mcpServers": {
    "b": { "command": "b" },
    "a": { "command": "a", "disabled": true }
  }
}
"#;
    let server = json!({"command": "c"});
    let edited = after(text, "x.json", "c", &ServerEdit::Add(&server)).unwrap();
    let expected = text
        .replace("\"disabled\": true }\n", "\"disabled\": true },\n    \"c\": {\n      \"command\": \"c\"\n    }\n");
    assert_eq!(edited, expected);
    let edited = after(text, "x.json", "b", &ServerEdit::Remove).unwrap();
    assert!(edited.contains("\"zebra\": [1, 2]") && !edited.contains("\"b\""), "{edited}");
    let edited = after(text, "x.json", "a", &ServerEdit::Enable(true)).unwrap();
    assert!(!edited.contains("disabled"), "{edited}");
}

#[test]
fn what_can_not_be_is_refused_and_says_why() {
    let server = json!({"command": "c"});
    assert!(matches!(after(TOML, "t.toml", "time", &ServerEdit::Add(&server)), Err(EditError::Taken(_))));
    assert!(matches!(after(TOML, "t.toml", "none", &ServerEdit::Remove), Err(EditError::Unknown(_))));
    assert!(matches!(after("[servers", "t.toml", "x", &ServerEdit::Add(&server)), Err(EditError::Invalid(_))));
    let nonsense = json!({"comand": "c"});
    assert!(matches!(after(TOML, "t.toml", "x", &ServerEdit::Add(&nonsense)), Err(EditError::Invalid(_))));
    let commented = "{\n// mine\n\"mcpServers\": {}}";
    assert!(matches!(
        after(commented, "x.json", "c", &ServerEdit::Add(&server)),
        Err(EditError::Unusual(_) | EditError::Invalid(_))
    ));
}
