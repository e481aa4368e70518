//! Every command that an error, a page or the help names is one that there is.

use std::path::{Path, PathBuf};

use clap::{CommandFactory as _, Parser as _};

use super::Cli;

/// Every file with words for people: the source of all crates, README and docs.
fn files() -> Vec<PathBuf> {
    fn below(folder: &Path, files: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() && !["target", "tests", "adr"].contains(&name.as_str()) {
                below(&path, files);
            } else if name.ends_with(".rs") || name.ends_with(".md") || name.ends_with(".toml") {
                files.push(path);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = vec![root.join("README.md")];
    below(&root.join("docs"), &mut files);
    below(&root.join("crates"), &mut files);
    files
}

/// The words after `tidings ` where that is a command and not a sentence: in backticks, after a colon, or on a line of
/// its own.
fn commands(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("tidings ") {
        let before = &text[..at];
        if !["`", ": ", "  ", "\\n", "-- "].iter().any(|sign| before.ends_with(sign)) {
            continue;
        }
        let after = &text[at + "tidings ".len()..];
        let end = after.find(['`', '"', '\n', '\\', ';', '|', '>']).unwrap_or(after.len());
        found.push(after[..end].trim().to_owned());
    }
    found
}

// edges F16
#[test]
fn every_command_that_is_named_anywhere_is_there() {
    let known: Vec<String> = Cli::command().get_subcommands().map(|command| command.get_name().to_owned()).collect();
    let mut seen = 0;
    for file in files() {
        let text = std::fs::read_to_string(&file).expect("text");
        for command in commands(&text) {
            let word = command.split_whitespace().next().unwrap_or_default();
            // `tidings COMMAND`, `tidings {name}`: a place to fill in.
            if !word.starts_with(|c: char| c.is_ascii_lowercase()) || word.contains(['{', '…']) {
                continue;
            }
            seen += 1;
            let word = word.trim_end_matches([',', '.', ':', ')', ']']);
            assert!(known.iter().any(|name| name == word), "{}: there is no `tidings {command}`", file.display());
        }
    }
    assert!(seen > 100, "only {seen} commands were found: is the search broken?");
}

// edges F16
#[test]
fn every_example_of_the_help_is_understood() {
    for command in Cli::command().get_subcommands() {
        let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(examples.starts_with("Example"), "{} has no example", command.get_name());
        for line in examples.lines().filter(|line| line.trim_start().starts_with("tidings ")) {
            let line = line.split(" > ").next().unwrap_or_default();
            let words = split(line);
            if words.iter().any(|word| word == "json") {
                continue;
            }
            let parsed = Cli::try_parse_from(&words);
            assert!(parsed.is_ok(), "{line}: {}", parsed.err().map(|error| error.to_string()).unwrap_or_default());
        }
    }
}

/// What stands in a code block of a page, line by line, and in backticks in its text.
fn typed(page: &str) -> (Vec<String>, Vec<String>) {
    let (mut blocks, mut prose) = (String::new(), String::new());
    let mut is_block = false;
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            is_block = !is_block;
        } else {
            let part = if is_block { &mut blocks } else { &mut prose };
            part.push_str(line);
            part.push('\n');
        }
    }
    let blocks = blocks.replace("\\\n", " ");
    let lines = blocks.lines().filter_map(|line| {
        let line = line.trim().trim_start_matches("$ ");
        let line =
            [" # ", " > ", " | ", " || ", " && "].iter().fold(line, |line, end| line.split(end).next().unwrap_or(line));
        line.starts_with("tidings ").then(|| line.trim().trim_end_matches('&').trim().to_owned())
    });
    let spans = prose.split('`').skip(1).step_by(2).filter(|span| span.starts_with("tidings "));
    (lines.collect(), spans.map(|span| span.replace('\n', " ")).collect())
}

fn pages() -> impl Iterator<Item = (PathBuf, String)> {
    let pages = files().into_iter().filter(|file| file.extension().is_some_and(|ending| ending == "md"));
    pages.map(|file| (file.clone(), std::fs::read_to_string(&file).expect("text")))
}

// reach 8
#[test]
fn every_command_line_of_the_documentation_is_understood() {
    let (mut seen, mut wrong) = (0, Vec::new());
    for (file, text) in pages() {
        for line in typed(&text).0.iter().filter(|line| !line.starts_with("tidings json ")) {
            seen += 1;
            let error = Cli::try_parse_from(split(line)).err();
            wrong.extend(error.map(|error| format!("{}: {line}: {error}", file.display())));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 60, "only {seen} command lines were found: is the search broken?");
}

// reach 8
#[test]
fn every_option_that_is_named_in_a_sentence_is_there() {
    use clap::error::ErrorKind::{InvalidSubcommand, UnknownArgument};
    let mut seen = 0;
    for (file, text) in pages() {
        // `[--json]` may be left out, and `…` stands for something else.
        for span in
            typed(&text).1.iter().filter(|span| !span.contains(['[', '…', '|']) && !span.starts_with("tidings json"))
        {
            seen += 1;
            // Values may be names of places to fill in, and required ones may be left out; what is there has to be known.
            if let Err(error) = Cli::try_parse_from(split(span)) {
                assert!(
                    !matches!(error.kind(), InvalidSubcommand | UnknownArgument),
                    "{}: {span}: {error}",
                    file.display()
                );
            }
        }
    }
    assert!(seen > 100, "only {seen} commands were found: is the search broken?");
}

#[test]
fn every_shell_has_completions_of_every_command() {
    use clap::ValueEnum as _;
    for shell in clap_complete::Shell::value_variants() {
        let text = super::completions(*shell);
        assert!(["serve", "run-tool", "data"].iter().all(|word| text.contains(word)), "{shell}");
    }
}

/// Words as a shell makes them of a line with simple quotes.
fn split(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for c in line.trim().chars() {
        match (c, quote) {
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            (' ', None) => words.push(std::mem::take(&mut word)),
            (c, _) => word.push(c),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}
