//! What people read after a run, and the numbers that it adds up to.

use crate::tally::Tally;

use super::Run;
use super::compare::{HowLost, Lost};
use super::expected::ExpectedLost;

// A schema violation quotes the whole message.
const LONGEST_MESSAGE: usize = 600;

/// Prints the table and each loss. Kept checks passed; unexpected losses and stale entries failed.
pub(super) fn print(runs: &[Run], expected: &ExpectedLost, complete: bool) -> Tally {
    let mut tally = Tally::default();
    for run in runs {
        tally.passed += run.comparison.checks_kept();
        for lost in &run.comparison.lost {
            let place = format!("{} {} {}", run.revision, run.link.name(), describe(lost));
            match expected.allowing(run, lost) {
                Some(entry) => {
                    let kind = if entry.exempt { "exempt" } else { "expected" };
                    println!("{kind}: {place}\n    # {}", entry.reason);
                }
                None => {
                    tally.failed += 1;
                    println!("LOST: {place}\n    {}", repeat(run, lost));
                }
            }
        }
    }
    for entry in expected.stale(runs, complete) {
        tally.failed += 1;
        println!("conformance/expected-lost.txt:{}: no longer lost, remove it", entry.line);
    }
    print_table(runs);
    tally
}

fn print_table(runs: &[Run]) {
    println!("\n{:<12} {:<8} {:>16} {:>16}", "revision", "upstream", "scenarios kept", "checks kept");
    for Run { revision, link, comparison } in runs {
        let scenarios = format!("{} / {}", comparison.scenarios_kept(), comparison.scenarios());
        let checks = format!("{} / {}", comparison.checks_kept(), comparison.checks());
        println!("{revision:<12} {:<8} {scenarios:>16} {checks:>16}", link.name());
    }
    println!();
}

fn describe(lost: &Lost) -> String {
    let (word, message) = match &lost.how {
        HowLost::Missing => ("not reached".to_owned(), ""),
        HowLost::ScenarioThrew => ("its scenario threw".to_owned(), ""),
        HowLost::Outcome(outcome) => (format!("{:?}", outcome.status), outcome.message.as_str()),
        HowLost::Appeared(outcome) => {
            (format!("{:?}, not in the direct run", outcome.status), outcome.message.as_str())
        }
    };
    let key = &lost.key;
    let shortened: String = message.chars().take(LONGEST_MESSAGE).collect();
    format!("{} {} ({}): {word} {shortened}", key.scenario, key.id, key.which)
}

fn repeat(run: &Run, lost: &Lost) -> String {
    let (upstream, revision) = (run.link.name(), run.revision);
    let scenario = &lost.key.scenario;
    format!("cargo xtask conformance --upstream {upstream} --revision {revision} --scenario {scenario}")
}
