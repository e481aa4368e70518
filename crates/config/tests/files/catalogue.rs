//! Catalogue files: the servers that could be added.

use std::path::Path;

use tidings_config::{CatalogueEntry, EntryCommand, EntryVariable, parse_catalogue};

const TOML: &str = r#"
[[servers]]
id = "acme/ticket-desk"
name = "Ticket desk"
description = "Reads and files tickets."
categories = ["Work"]
tags = ["issues"]
official = true
repository = "https://example.com/acme/desk"
docs = "Ask ACME for a key."
npm = "@acme/desk@1"
args = ["--read-only"]
arguments = { description = "the queues", required = true }
variables = [{ name = "DESK_KEY", description = "the key", required = true, secret = true }]

[[servers]]
id = "acme/search"
description = "Searches."
url = "https://example.com/mcp"
headers = { Authorization = "Bearer ${env:ACME_KEY}" }
"#;

const JSON: &str = r#"{"servers": [
  {"id": "acme/ticket-desk", "name": "Ticket desk", "description": "Reads and files tickets.",
   "categories": ["Work"], "tags": ["issues"], "official": true, "repository": "https://example.com/acme/desk",
   "docs": "Ask ACME for a key.", "npm": "@acme/desk@1", "args": ["--read-only"],
   "arguments": {"description": "the queues", "required": true},
   "variables": [{"name": "DESK_KEY", "description": "the key", "required": true, "secret": true}]},
  {"id": "acme/search", "description": "Searches.", "url": "https://example.com/mcp",
   "headers": {"Authorization": "Bearer ${env:ACME_KEY}"}}
]}"#;

fn parse(name: &str, text: &str) -> Result<Vec<CatalogueEntry>, String> {
    parse_catalogue(text, &Path::new("/conf").join(name)).map_err(|errors| errors.to_string().replace("/conf/", ""))
}

// S4.5
#[test]
fn both_formats_say_the_same() {
    let entries = parse("servers.toml", TOML).unwrap();
    assert_eq!(parse("servers.json", JSON).unwrap(), entries);
    let [desk, search] = &entries[..] else { panic!("{entries:?}") };
    assert_eq!((desk.name.as_str(), desk.official, desk.featured), ("Ticket desk", true, false));
    assert_eq!(desk.run, EntryCommand::Npm { package: "@acme/desk@1".into(), args: vec!["--read-only".into()] });
    let key = EntryVariable { name: "DESK_KEY".into(), description: "the key".into(), required: true, secret: true };
    assert_eq!(desk.variables, [key]);
    assert_eq!(search.name, "search", "without a name it is the last part of the id");
    let headers = vec![("Authorization".to_owned(), "Bearer ${env:ACME_KEY}".to_owned())];
    assert_eq!(search.run, EntryCommand::Url { url: "https://example.com/mcp".into(), headers }, "references are kept");
}

// S4.5
#[test]
fn faults_are_given_with_their_place() {
    let entry = |keys: &str| format!("[[servers]]\nid = \"a\"\ndescription = \"d\"\n{keys}\n");
    let table = [
        (
            "x = 1".to_owned(),
            "s.toml: the key `servers` is missing\ns.toml:1:1: x: unknown key; expected one of servers",
        ),
        (entry(""), "s.toml:1:1: servers[0]: needs one of the keys npm, pypi, container, url, command"),
        (
            entry("npm = \"x\"\nurl = \"http://x\""),
            "s.toml:1:1: servers[0]: has both `npm` and `url`; keep one of them",
        ),
        (entry("npm = \"x\"\ntag = []"), "s.toml:5:1: servers[0].tag: unknown key; did you mean \"tags\"?"),
        (
            entry("pypi = \"x\"\nnetwork = true"),
            "s.toml:5:11: servers[0].network: this key does not go with `pypi`; remove it",
        ),
        (
            entry("npm = \"x\"") + &entry("npm = \"y\""),
            "s.toml:5:1: servers[1].id: is used already at s.toml:1:1; choose another",
        ),
        (
            "[[servers]]\nid = \"a b\"\ndescription = \"d\"\nnpm = \"x\"".to_owned(),
            "s.toml:2:6: servers[0].id: use letters, digits and \"-_./@:\" only, and do not end with \"/\"",
        ),
    ];
    for (text, expected) in table {
        assert_eq!(parse("s.toml", &text).unwrap_err(), expected, "{text}");
    }
    assert!(parse("s.json", "{\"servers\": [").unwrap_err().starts_with("s.json:1:"), "broken JSON has a place too");
}

#[test]
fn the_gateway_may_have_a_catalogue_beside_its_file() {
    let config = super::toml("[gateway]\ncatalogue = \"./servers.json\"");
    assert_eq!(config.gateway.catalogue.as_deref(), Some(Path::new("/conf/servers.json")));
}
