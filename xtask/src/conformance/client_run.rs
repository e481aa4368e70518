//! The suite as a server: its mock upstream, the PyPI client downstream, the gateway between them.

use std::path::Path;

use crate::failure::Failure;
use crate::suite::{ClientScenario, Driver};

use super::checks::{CheckKey, Outcome, Pairing, Results, Status};
use super::compare::Comparison;
use super::{Link, Run, Setting};

// The suite's own verdict, which includes how the client ended.
const VERDICT: &str = "suite-verdict";

pub(super) fn run(setting: &Setting<'_>, runs: &mut Vec<Run>) -> Result<(), Failure> {
    let selected = setting.selection.scenario.as_deref();
    let mut scenarios = setting.suite.client_scenarios()?;
    scenarios.retain(|scenario| selected.is_none_or(|only| only == scenario.name));
    for revision in setting.selection.revisions() {
        let applicable: Vec<&ClientScenario> =
            scenarios.iter().filter(|scenario| scenario.revision == revision).collect();
        if applicable.is_empty() {
            continue;
        }
        println!("{revision} client scenarios directly");
        let direct = run_all(setting, "client-direct", &applicable, None)?;
        require_passed(&direct, &applicable)?;
        println!("{revision} client scenarios through the gateway");
        let through = run_all(setting, Link::Client.name(), &applicable, Some(setting.gateway))?;
        runs.push(Run { revision, link: Link::Client, comparison: Comparison::new(&direct, &through) });
    }
    Ok(())
}

fn run_all(
    setting: &Setting<'_>,
    name: &str,
    scenarios: &[&ClientScenario],
    gateway: Option<&Path>,
) -> Result<Results, Failure> {
    let mut all = Results::default();
    let script = setting.workspace.conformance_file("client_through_gateway.py");
    for scenario in scenarios {
        let parts = [name, scenario.revision, &scenario.name];
        let directory = setting.workspace.fresh_run_directory(&parts)?;
        let driver = Driver { script: &script, gateway, run_directory: &directory.join("gateway") };
        all.merge(run_one(setting, &driver, scenario, &directory)?);
    }
    Ok(all)
}

fn run_one(
    setting: &Setting<'_>,
    driver: &Driver<'_>,
    scenario: &ClientScenario,
    directory: &Path,
) -> Result<Results, Failure> {
    let results = directory.join("results");
    let log = directory.join("suite.log");
    let verdict = match setting.suite.test_client(driver, scenario, &results, &log) {
        Ok(status) if status.success() => Outcome { status: Status::Success, message: String::new() },
        Ok(status) => failed(format!("{status}; see {}", log.display())),
        Err(Failure::TimedOut { after, .. }) => failed(format!("no end after {} s", after.as_secs())),
        Err(failure) => return Err(failure),
    };
    let mut read = Results::read(&results, "", Pairing::Name)?;
    read.insert(verdict_key(scenario), verdict);
    Ok(read)
}

fn failed(message: String) -> Outcome {
    Outcome { status: Status::Failure, message }
}

fn verdict_key(scenario: &ClientScenario) -> CheckKey {
    CheckKey { scenario: scenario.name.clone(), id: VERDICT.to_owned(), which: "exit code".to_owned() }
}

/// Without the gateway every scenario passes; if not, the set-up is at fault.
fn require_passed(direct: &Results, scenarios: &[&ClientScenario]) -> Result<(), Failure> {
    for scenario in scenarios {
        let verdict = direct.checks.get(&verdict_key(scenario));
        if let Some(Outcome { status: Status::Failure, message }) = verdict {
            let (scenario, message) = (scenario.name.clone(), message.clone());
            return Err(Failure::ClientBaseline { scenario, message });
        }
    }
    Ok(())
}
