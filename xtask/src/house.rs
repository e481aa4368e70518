//! Measures of the code, for everybody to look at; no gate. They are taken from the sources as they parse, without tests.
//!
//! One file per sort of measure: `parsed` (sizes, names and comments of one file), `module_graph` (who uses whom). Here they
//! are gathered and printed.

#[cfg(test)]
mod dropped_tasks;
mod module_graph;
mod parsed;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::children::{Children, Echo};
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::workspace::Workspace;
use module_graph::ModuleGraph;
use parsed::ParsedFile;

pub(crate) fn print(children: &Children, workspace: &Workspace) -> Result<(), Failure> {
    let mut files = Vec::new();
    let mut cycles = Vec::new();
    for root in crate_sources(workspace)? {
        let of_crate = parse_all(&root)?;
        let name = root.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        let graph = ModuleGraph::of(&of_crate);
        cycles.extend(graph.cycles().into_iter().map(|cycle| (name.clone().unwrap_or_default(), cycle)));
        files.extend(of_crate);
    }
    print_sizes(&files);
    print_cycles(&mut cycles);
    print_names(&files);
    print_comments(&files);
    print_commits(children)
}

fn crate_sources(workspace: &Workspace) -> Result<Vec<PathBuf>, Failure> {
    let folder = workspace.crates();
    let entries = fs::read_dir(&folder).map_err(Failure::file(&folder))?;
    let mut sources: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path().join("src"))).collect();
    sources.retain(|source| source.is_dir());
    sources.sort();
    Ok(sources)
}

fn parse_all(root: &Path) -> Result<Vec<ParsedFile>, Failure> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(Failure::file(&folder))?.flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).map_err(Failure::file(&path))?;
                found.extend(ParsedFile::read(root, &path, &text));
            }
        }
    }
    Ok(found)
}

fn print_sizes(files: &[ParsedFile]) {
    let mut lines: Vec<usize> = files.iter().map(|file| file.lines).collect();
    let mut functions: Vec<usize> =
        files.iter().flat_map(|file| file.functions.iter().map(|(_, lines)| *lines)).collect();
    println!("files          {}", spread(&mut lines));
    println!("functions      {}", spread(&mut functions));
    let widest = files.iter().flat_map(|file| &file.structs).max_by_key(|(_, fields)| *fields);
    if let Some((name, fields)) = widest {
        println!("widest struct  {fields} fields ({name})");
    }
    let longest = files.iter().flat_map(|file| file.functions.iter().map(move |found| (file, found)));
    if let Some((file, (name, lines))) = longest.max_by_key(|(_, (_, lines))| *lines) {
        println!("longest        {name} in {} ({lines} lines)", file.path.display());
    }
}

fn print_cycles(cycles: &mut [(String, Vec<String>)]) {
    cycles.sort_by_key(|(_, cycle)| std::cmp::Reverse(cycle.len()));
    println!("cycles         {} of more than one module; the largest:", cycles.len());
    for (name, cycle) in cycles.iter().take(8) {
        println!("  {name}: {} ({})", cycle.len(), cycle.join(", "));
    }
}

fn print_names(files: &[ParsedFile]) {
    let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
    for name in files.iter().flat_map(|file| &file.types) {
        *uses.entry(name).or_default() += 1;
    }
    let all: usize = uses.values().sum();
    let one_word: usize = uses.iter().filter(|(name, _)| parsed::is_one_word(name)).map(|(_, count)| count).sum();
    let shared: usize = uses.values().filter(|count| **count > 1).sum();
    println!("types          {all}; one word {} %, not unique {} %", percent(one_word, all), percent(shared, all));
    let mut worst: Vec<(&str, usize)> = uses.into_iter().filter(|(_, count)| *count > 2).collect();
    worst.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let worst: Vec<String> = worst.iter().take(16).map(|(name, count)| format!("{name} ×{count}")).collect();
    println!("  most shared: {}", worst.join(", "));
}

fn print_comments(files: &[ParsedFile]) {
    let sum = |number: fn(&ParsedFile) -> usize| files.iter().map(number).sum::<usize>();
    let (lines, inline) = (sum(|file| file.lines), sum(|file| file.inline_comments));
    let (words, docs) = (sum(|file| file.doc_words), sum(|file| file.doc_comments));
    println!(
        "comments       {:.1} inline lines per 100; {} words per doc comment",
        tenths(inline, lines),
        words / docs.max(1)
    );
}

fn print_commits(children: &Children) -> Result<(), Failure> {
    // Bodies end with a byte that no message has.
    let log = Invocation::new("git").args(["log", "--no-merges", "--format=%b%x01"]);
    let output = children.capture(&log, Echo::Silent)?.output;
    let bodies: Vec<&str> = output.split('\u{1}').collect();
    let all = bodies.len().saturating_sub(1);
    let empty = bodies.iter().take(all).filter(|body| body.trim().is_empty()).count();
    println!("commits        {all}; without a body {} %", percent(empty, all));
    Ok(())
}

/// Median, 95th percentile and most.
fn spread(numbers: &mut [usize]) -> String {
    numbers.sort_unstable();
    let at = |percentile: usize| numbers.get(numbers.len().saturating_sub(1) * percentile / 100).copied().unwrap_or(0);
    format!("{}; lines p50 {}, p95 {}, most {}", numbers.len(), at(50), at(95), at(100))
}

fn percent(part: usize, whole: usize) -> usize {
    (part * 100 + whole / 2) / whole.max(1)
}

fn tenths(part: usize, whole: usize) -> f64 {
    part as f64 * 100.0 / whole.max(1) as f64
}
