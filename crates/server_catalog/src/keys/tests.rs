use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use tidings_config::parse_catalogue;

use super::*;

fn entry(keys: &str) -> CatalogEntry {
    let text = format!("[[servers]]\nid = \"acme/the-desk\"\ndescription = \"d\"\n{keys}");
    let about = parse_catalogue(&text, Path::new("s.toml")).unwrap().remove(0);
    CatalogEntry { source: Arc::from("file"), about, release: None }
}

fn wishes(args: &[&str], environment: &[(&str, &str)]) -> ExtraKeys {
    ExtraKeys {
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        environment: environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        kind: None,
    }
}

fn keys(text: &str, wishes: &ExtraKeys) -> Result<Value, String> {
    server_keys(&entry(text), wishes, &|name| name == "HERE").map_err(|error| error.to_string())
}

#[test]
fn the_prefix_is_the_last_part_of_the_id() {
    for (id, prefix) in [("acme/ticket-desk", "ticket_desk"), ("time", "time"), ("io.github.a/b.c", "b_c")] {
        assert_eq!(default_prefix(id), prefix);
    }
}

#[test]
fn each_kind_becomes_the_keys_of_a_server() {
    let more = wishes(&["b"], &[("K", "v")]);
    let id = "acme/the-desk";
    let table = [
        (
            "npm = \"p\"\nargs = [\"a\"]",
            json!({"command": "npx", "args": ["-y", "p", "a", "b"], "env": {"K": "v"}, "entry": id}),
        ),
        ("pypi = \"p\"", json!({"command": "uvx", "args": ["p", "b"], "env": {"K": "v"}, "entry": id})),
        ("command = \"p\"", json!({"command": "p", "args": ["b"], "env": {"K": "v"}, "entry": id})),
        ("container = \"i\"", json!({"container": "i", "args": ["b"], "env": {"K": "v"}, "entry": id})),
        (
            "container = \"i\"\nnetwork = true\nread_only = false\nvolumes = [\"notes:/notes\"]",
            json!({"container": "i", "args": ["b"], "network": true, "read_only": false,
                "volumes": ["notes:/notes"], "env": {"K": "v"}, "entry": id}),
        ),
    ];
    for (text, expected) in table {
        assert_eq!(keys(text, &more).unwrap(), expected, "{text}");
    }
    let url = "url = \"https://x/mcp\"\nheaders = { Authorization = \"Bearer ${env:K}\" }";
    let expected = |value: &str| json!({"url": "https://x/mcp", "headers": {"Authorization": value}, "entry": id});
    assert_eq!(keys(url, &wishes(&[], &[("K", "v")])).unwrap(), expected("Bearer v"));
    assert_eq!(keys(url, &wishes(&[], &[])).unwrap(), expected("Bearer ${env:K}"));
}

#[test]
fn what_the_gateway_has_in_its_environment_is_passed_on_by_reference() {
    let text = "npm = \"p\"\nvariables = [{ name = \"HERE\", required = true }, { name = \"ABSENT\" }]";
    assert_eq!(keys(text, &ExtraKeys::default()).unwrap()["env"], json!({"HERE": "${env:HERE}"}));
    assert_eq!(keys(text, &wishes(&[], &[("HERE", "x")])).unwrap()["env"], json!({"HERE": "x"}));
}

#[test]
fn what_is_missing_is_named_before_anything_is_started() {
    let key = "variables = [{ name = \"KEY\", description = \"a key\", required = true }]";
    let table = [
        (
            format!("npm = \"p\"\n{key}"),
            wishes(&[], &[]),
            "acme/the-desk needs KEY (a key); give it in `environment`, or set it where the gateway runs",
        ),
        (
            "npm = \"p\"\narguments = { description = \"the folders\", required = true }".to_owned(),
            wishes(&[], &[]),
            "acme/the-desk needs `args`: the folders",
        ),
        ("url = \"http://x\"".to_owned(), wishes(&["a"], &[]), "acme/the-desk is reached by a URL and takes no `args`"),
        (
            "url = \"http://x\"".to_owned(),
            wishes(&[], &[("K", "v")]),
            "acme/the-desk is reached by a URL, and none of its headers uses K",
        ),
    ];
    for (text, wishes, expected) in table {
        assert_eq!(keys(&text, &wishes).unwrap_err(), expected);
    }
}
