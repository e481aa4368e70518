//! The list of checks that may be lost, each with its reason. An entry that is no longer lost must
//! go, except those marked `exempt`, which are lost rightly and for good.

use std::fs;
use std::path::Path;

use crate::failure::Failure;

use super::Run;
use super::compare::Lost;

/// One line: `revision upstream scenario check-id [exempt]  # reason`.
#[derive(Debug, PartialEq)]
pub(super) struct Entry {
    revision: String,
    upstream: String,
    scenario: String,
    id: String,
    pub(super) exempt: bool,
    pub(super) reason: String,
    pub(super) line: usize,
}

impl Entry {
    fn covers_run(&self, run: &Run) -> bool {
        let matches = |pattern: &str, value: &str| pattern == "*" || pattern == value;
        matches(&self.revision, run.revision) && matches(&self.upstream, run.link.name())
    }

    fn covers(&self, run: &Run, lost: &Lost) -> bool {
        self.covers_run(run) && self.scenario == lost.key.scenario && self.id == lost.key.id
    }

    fn parse(line: &str, number: usize) -> Result<Self, &'static str> {
        let (fields, reason) = line.split_once('#').ok_or("an entry needs `# reason`")?;
        let reason = reason.trim();
        if reason.is_empty() {
            return Err("an entry needs a reason after `#`");
        }
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let (fields, exempt) = match fields.split_last() {
            Some((&"exempt", rest)) => (rest, true),
            _ => (fields.as_slice(), false),
        };
        let [revision, upstream, scenario, id] = fields else {
            return Err("expected `revision upstream scenario check-id [exempt]  # reason`");
        };
        let owned = |text: &str| text.to_owned();
        Ok(Self {
            revision: owned(revision),
            upstream: owned(upstream),
            scenario: owned(scenario),
            id: owned(id),
            exempt,
            reason: owned(reason),
            line: number,
        })
    }
}

/// The whole list.
#[derive(Debug)]
pub(super) struct ExpectedLost {
    entries: Vec<Entry>,
}

impl ExpectedLost {
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let text = fs::read_to_string(path).map_err(Failure::file(path))?;
        Self::parse(&text).map_err(|(line, reason)| Failure::ExpectedLost { path: path.to_owned(), line, reason })
    }

    fn parse(text: &str) -> Result<Self, (usize, &'static str)> {
        let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
        let entries = lines
            .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
            .map(|(number, line)| Entry::parse(line, number).map_err(|reason| (number, reason)))
            .collect::<Result<_, _>>()?;
        Ok(Self { entries })
    }

    /// The entry that allows this loss.
    pub(super) fn allowing(&self, run: &Run, lost: &Lost) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.covers(run, lost))
    }

    /// Entries that allow nothing. In a partial run only those are judged whose check took part.
    pub(super) fn stale(&self, runs: &[Run], complete: bool) -> Vec<&Entry> {
        let is_used =
            |entry: &Entry| runs.iter().any(|run| run.comparison.lost.iter().any(|lost| entry.covers(run, lost)));
        let took_part = |entry: &Entry| {
            runs.iter().any(|run| entry.covers_run(run) && run.comparison.includes(&entry.scenario, &entry.id))
        };
        let judged = self.entries.iter().filter(|entry| !entry.exempt);
        judged.filter(|entry| !is_used(entry) && (complete || took_part(entry))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::Link;
    use crate::conformance::checks::{Pairing, Results};
    use crate::conformance::compare::Comparison;
    use serde_json::json;

    fn run(status: &str) -> Run {
        let mut direct = Results::default();
        direct.add("s", &[json!({"id": "c", "status": "SUCCESS"})], Pairing::Occurrence);
        let mut through = Results::default();
        through.add("s", &[json!({"id": "c", "status": status})], Pairing::Occurrence);
        let comparison = Comparison::new(&direct, &through);
        Run { revision: "2025-11-25", link: Link::Http, comparison }
    }

    fn list(text: &str) -> ExpectedLost {
        ExpectedLost::parse(text).expect("a list")
    }

    #[test]
    fn an_entry_allows_its_check_and_no_other() {
        let lossy = run("FAILURE");
        let allowed = |text| list(text).allowing(&lossy, &lossy.comparison.lost[0]).is_some();
        assert!(allowed("* * s c # why"));
        assert!(allowed("2025-11-25 http s c # why"));
        assert!(!allowed("2025-11-25 stdio s c # why"));
        assert!(!allowed("2026-07-28 * s c # why"));
        assert!(!allowed("* * s d # why"));
    }

    #[test]
    fn an_entry_that_is_not_lost_must_go_unless_exempt() {
        let kept = [run("SUCCESS")];
        assert_eq!(list("* * s c # why").stale(&kept, true).len(), 1);
        assert_eq!(list("* * s c # why").stale(&kept, false).len(), 1);
        assert!(list("* * s c exempt # why").stale(&kept, true).is_empty());
        assert!(list("* * s c # why").stale(&[run("FAILURE")], true).is_empty());
    }

    #[test]
    fn a_partial_run_says_nothing_about_what_it_left_out() {
        let kept = [run("SUCCESS")];
        assert!(list("* stdio s c # why").stale(&kept, false).is_empty());
        assert_eq!(list("* stdio s c # why").stale(&kept, true).len(), 1);
    }

    #[test]
    fn an_entry_without_reason_is_refused() {
        assert!(ExpectedLost::parse("\n# a comment\n* * s c").is_err_and(|(line, _)| line == 3));
        assert!(ExpectedLost::parse("* * s c #").is_err());
        assert!(ExpectedLost::parse("* s c # why").is_err());
    }
}
