//! Every block of configuration, JSON and units in the documentation is what it says it is.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tidings_config::ConfigSurroundings;

use crate::documented::blocks;

/// Blocks that show a part of a table, by their page and first words, and what stands before them in a file.
const PARTS: &[(&str, &str, &str)] = &[
    ("login.md", "[servers.crm.auth]\nfor = \"principal\"\n", "[servers.crm]\nurl = \"https://crm.example/mcp\"\n"),
    ("notify.md", "secret = [", "[[notify]]\nurl = \"https://example.com/tidings\"\n"),
];
/// Files that are not configuration of the gateway.
const CATALOGUES: &[(&str, &str)] = &[("registry.md", "[[servers]]\nid = ")];
/// Other files that a page shows, by language: what the packages install, word by word.
const SHOWN: &[(&str, &str, &str)] = &[
    ("service.md", "ini", "packaging/systemd/tidings-user.service"),
    ("service.md", "xml", "packaging/launchd/dev.tidings.serve.plist"),
];
/// Languages of which blocks are tested elsewhere: commands are run and parsed, what others print is shown.
const ELSEWHERE: &[&str] = &["sh", "console", "promql", "sql", ""];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every block of the documentation: page, line, language and text.
fn documented() -> Vec<(String, usize, String, String)> {
    let docs = std::fs::read_dir(root().join("docs")).unwrap().flatten().map(|entry| entry.path());
    let pages =
        docs.filter(|path| path.extension().is_some_and(|ending| ending == "md")).chain([root().join("README.md")]);
    let of_page = |path: PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        blocks(&text).into_iter().map(move |(language, text, line)| (name.clone(), line, language, text))
    };
    pages.flat_map(of_page).collect()
}

// reach 8
#[test]
fn every_configuration_in_the_documentation_is_valid() {
    // Each variable has a value that its key takes; files are not read.
    let secret = format!("whsec_{}", "QUFB".repeat(11));
    let env =
        |name: &str| Some(if name.ends_with("_WEBHOOK") { "https://example.com".to_owned() } else { secret.clone() });
    let creds = format!("---JWT---\na.b.c\n---\n---SEED---\nSU{}\n---\n", "A".repeat(56));
    let read = |path: &Path| {
        Ok(if path.extension().is_some_and(|kind| kind == "creds") { creds.clone() } else { "0".repeat(64) })
    };
    let surroundings = ConfigSurroundings { env: &env, read: &read };
    let (mut seen, mut used, mut wrong) = (0, BTreeSet::new(), Vec::new());
    for (page, line, _, text) in documented().into_iter().filter(|(_, _, language, _)| language == "toml") {
        seen += 1;
        let place = format!("{page}:{line}");
        let is = |(of, begins): (&str, &str)| of == page && text.starts_with(begins);
        if let Some(found) = CATALOGUES.iter().position(|(of, begins)| is((of, begins))) {
            used.insert(("catalogue", found));
            wrong.extend(
                tidings_config::parse_catalogue(&text, Path::new("servers.toml"))
                    .err()
                    .map(|e| format!("{place}: {e}")),
            );
            continue;
        }
        let before = PARTS.iter().position(|(of, begins, _)| is((of, begins)));
        used.extend(before.map(|found| ("part", found)));
        let whole = format!("{}{text}", before.map_or("", |found| PARTS[found].2));
        // What stands for a hash that every reader has their own of.
        let whole = whole.replace("sha256 = \"…\"", &format!("sha256 = \"{}\"", "0".repeat(64)));
        let parsed = tidings_config::parse(&whole, &root().join("tidings.toml"), &surroundings);
        wrong.extend(parsed.err().map(|errors| format!("{place}: {errors}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 25, "only {seen} blocks were found: is the search broken?");
    assert_eq!(used.len(), PARTS.len() + CATALOGUES.len(), "a line of the tables above is about no block: {used:?}");
}

// reach 8
#[test]
fn every_json_in_the_documentation_can_be_read() {
    let mut seen = 0;
    for (page, line, language, text) in documented() {
        if language == "json" {
            seen += 1;
            // A block may hold several values, one after the other.
            let values: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(&text).into_iter().collect();
            assert!(values.as_ref().is_ok_and(|values| !values.is_empty()), "{page}:{line}: {values:?}");
        }
    }
    assert!(seen > 3, "only {seen} blocks were found: is the search broken?");
}

// reach 8
#[test]
fn units_and_plists_are_those_that_packages_install() {
    for (page, language, file) in SHOWN {
        let shown = documented().into_iter().find(|(of, _, found, _)| of == page && found == language);
        let installed = std::fs::read_to_string(root().join(file)).unwrap();
        // Blocks are read without what they are indented by.
        let bare: String = installed.lines().map(|line| format!("{}\n", line.trim_start())).collect();
        assert_eq!(shown.map(|(.., text)| text).as_deref(), Some(bare.as_str()), "{page} and {file} differ");
    }
}

// reach 8
#[test]
fn no_block_is_of_a_kind_that_nothing_tests() {
    let known = |page: &str, language: &str| {
        ["toml", "json"].contains(&language)
            || ELSEWHERE.contains(&language)
            || SHOWN.iter().any(|(of, shown, _)| *of == page && *shown == language)
    };
    let unknown: Vec<_> = documented().into_iter().filter(|(page, _, language, _)| !known(page, language)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}
