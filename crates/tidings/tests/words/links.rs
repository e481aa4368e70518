//! Every link between pages leads somewhere, and the table of contents has every page.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "md") {
            found.push(path);
        }
    }
}

/// The targets of a page's links; code is not read.
fn links(text: &str) -> Vec<String> {
    let mut prose = String::new();
    let mut in_block = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            prose.push_str(line);
            prose.push('\n');
        }
    }
    let targets = prose.match_indices("](").filter_map(|(at, sign)| {
        let rest = &prose[at + sign.len()..];
        rest.split(')').next().map(str::to_owned)
    });
    targets.collect()
}

/// The anchors of a page, as they are made of headings.
fn anchors(text: &str) -> Vec<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || *c == ' ' || *c == '-' || *c == '_');
        kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>()
    };
    headings.map(anchor).collect()
}

// reach 8
#[test]
fn every_link_between_pages_leads_somewhere() {
    let root = root();
    let mut all: Vec<PathBuf> =
        ["README.md", "CHANGELOG.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "packaging/README.md"]
            .map(|page| root.join(page))
            .to_vec();
    pages(&root.join("docs"), &mut all);
    let (mut seen, mut dead) = (0, Vec::new());
    for page in &all {
        let text = std::fs::read_to_string(page).unwrap();
        for link in links(&text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            seen += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            let is_there = target.exists();
            let has_anchor = anchor.is_empty()
                || std::fs::read_to_string(&target)
                    .is_ok_and(|text| anchors(&text).iter().any(|known| known == anchor));
            if !is_there || !has_anchor {
                dead.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(dead.is_empty(), "{dead:#?}");
    assert!(seen > 60, "only {seen} links were found: is the search broken?");
}

// reach 8
#[test]
fn the_contents_name_every_page() {
    let docs = root().join("docs");
    let contents = std::fs::read_to_string(docs.join("README.md")).unwrap();
    for entry in std::fs::read_dir(&docs).unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".md") && !["README.md", "SUMMARY.md"].contains(&name.as_str()) {
            assert!(contents.contains(&format!("({name})")), "{name} is not in docs/README.md");
        }
    }
}

// reach 8
#[test]
fn the_site_has_the_same_contents_in_the_same_order() {
    let entries = |file: &str| -> Vec<String> {
        let text = std::fs::read_to_string(root().join("docs").join(file)).unwrap();
        let kept = text.lines().filter(|line| line.starts_with("- [") && !line.ends_with("(../README.md)"));
        kept.map(str::to_owned).collect()
    };
    assert_eq!(entries("SUMMARY.md"), entries("README.md"), "docs/SUMMARY.md and docs/README.md differ");
}
