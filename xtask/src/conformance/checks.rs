//! What the suite wrote: one folder for each scenario, with its checks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::failure::Failure;

// A folder is named `<scenario>-2026-11-15T09-29-37-903Z`.
const TIME_SUFFIX: usize = "-2026-11-15T09-29-37-903Z".len();

/// How the checks of two runs are paired when an id occurs more than once.
#[derive(Clone, Copy)]
pub(super) enum Pairing {
    /// The first with the first, and so on: a server scenario repeats its steps exactly.
    Occurrence,
    /// By name: a client scenario checks each request, and a gateway may send more or fewer.
    Name,
}

/// Identifies a check in every run of the suite.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CheckKey {
    pub(super) scenario: String,
    pub(super) id: String,
    /// Its number among those of the same id, or its name.
    pub(super) which: String,
}

/// How a check went. In the order of gravity: of several under one key the gravest counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Status {
    Skipped,
    Success,
    Warning,
    Failure,
}

/// A status with what the suite says about it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Outcome {
    pub(super) status: Status,
    pub(super) message: String,
}

/// All that one run of the suite found.
#[derive(Debug, Default)]
pub(super) struct Results {
    pub(super) checks: BTreeMap<CheckKey, Outcome>,
    /// Scenarios that threw: they have a folder and no checks.
    pub(super) broken: BTreeSet<String>,
}

impl Results {
    /// Reads every scenario in `directory`; `prefix` is what the suite puts before the name.
    pub(super) fn read(directory: &Path, prefix: &str, pairing: Pairing) -> Result<Self, Failure> {
        let mut results = Self::default();
        if !directory.exists() {
            return Ok(results);
        }
        for entry in fs::read_dir(directory).map_err(Failure::file(directory))? {
            let entry = entry.map_err(Failure::file(directory))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(scenario) = scenario_of(&name, prefix) else { continue };
            let file = entry.path().join("checks.json");
            if !file.exists() {
                results.broken.insert(scenario.to_owned());
                continue;
            }
            let text = fs::read(&file).map_err(Failure::file(&file))?;
            let checks: Vec<Value> =
                serde_json::from_slice(&text).map_err(|source| Failure::Json { path: file.clone(), source })?;
            results.add(scenario, &checks, pairing);
        }
        Ok(results)
    }

    pub(super) fn add(&mut self, scenario: &str, checks: &[Value], pairing: Pairing) {
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        for check in checks {
            let text = |key: &str| check.get(key).and_then(Value::as_str).unwrap_or_default();
            let Some(status) = status_of(text("status")) else { continue };
            let id = text("id");
            let which = match pairing {
                Pairing::Name => text("name").to_owned(),
                Pairing::Occurrence => {
                    let count = seen.entry(id).or_default();
                    *count += 1;
                    count.to_string()
                }
            };
            let key = CheckKey { scenario: scenario.to_owned(), id: id.to_owned(), which };
            let outcome = Outcome { status, message: text("errorMessage").to_owned() };
            self.insert(key, outcome);
        }
    }

    /// Keeps the gravest outcome under a key.
    pub(super) fn insert(&mut self, key: CheckKey, outcome: Outcome) {
        match self.checks.get(&key) {
            Some(known) if known.status >= outcome.status => {}
            _ => {
                self.checks.insert(key, outcome);
            }
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.checks.extend(other.checks);
        self.broken.extend(other.broken);
    }

    pub(super) fn successes(&self) -> impl Iterator<Item = &CheckKey> {
        let successful = self.checks.iter().filter(|(_, outcome)| outcome.status == Status::Success);
        successful.map(|(key, _)| key)
    }
}

fn scenario_of<'a>(folder: &'a str, prefix: &str) -> Option<&'a str> {
    let name = folder.strip_prefix(prefix)?;
    let end = name.len().checked_sub(TIME_SUFFIX)?;
    name.is_char_boundary(end).then(|| &name[..end])
}

/// INFO is no check. A status that this suite version does not have is taken for a failure.
fn status_of(word: &str) -> Option<Status> {
    match word {
        "INFO" => None,
        "SUCCESS" => Some(Status::Success),
        "SKIPPED" => Some(Status::Skipped),
        "WARNING" => Some(Status::Warning),
        _ => Some(Status::Failure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_scenario_is_what_stands_between_prefix_and_time() {
        let folder = "server-server-sse-polling-2026-11-15T09-29-35-080Z";
        assert_eq!(scenario_of(folder, "server-"), Some("server-sse-polling"));
        assert_eq!(scenario_of("x", "server-"), None);
    }

    #[test]
    fn equal_ids_are_told_apart_by_occurrence() {
        let mut results = Results::default();
        let same = json!({"id": "a", "name": "n", "status": "SUCCESS"});
        results.add("s", &[same.clone(), json!({"id": "i", "status": "INFO"}), same], Pairing::Occurrence);
        assert_eq!(results.successes().count(), 2);
    }

    #[test]
    fn under_one_name_the_gravest_outcome_counts() {
        let mut results = Results::default();
        let with = |status: &str| json!({"id": "a", "name": "n", "status": status});
        results.add("s", &[with("SKIPPED"), with("SUCCESS")], Pairing::Name);
        assert_eq!(results.successes().count(), 1);
        results.add("s", &[with("WARNING"), with("SUCCESS")], Pairing::Name);
        assert_eq!(results.successes().count(), 0);
    }
}
