//! The official conformance suite as a program: how it is called and where its results are.

use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use crate::children::Echo;
use crate::children::{self, Children};
use crate::failure::Failure;
use crate::invocation::{Invocation, quoted};
use crate::peers::Peers;

/// The protocol revisions that it is run at.
pub(crate) const REVISIONS: [&str; 3] = ["2025-06-18", "2025-11-25", "2026-07-28"];

const SCENARIO_MILLISECONDS: &str = "15000";
const CLIENT_MILLISECONDS: &str = "45000";
// Forty scenarios that all run into their own limit.
const SERVER_SUITE_DEADLINE: Duration = Duration::from_secs(720);
const CLIENT_SCENARIO_DEADLINE: Duration = Duration::from_secs(75);

/// The suite, ready to be run.
pub(crate) struct Suite<'a> {
    children: &'a Children,
    peers: &'a Peers,
}

/// A client scenario and a revision at which it applies.
#[derive(Debug, PartialEq)]
pub(crate) struct ClientScenario {
    pub(crate) name: String,
    pub(crate) revision: &'static str,
}

impl<'a> Suite<'a> {
    pub(crate) fn new(children: &'a Children, peers: &'a Peers) -> Self {
        Self { children, peers }
    }

    /// Tests the server at `url`. The exit code says less than the results, so it is not looked at.
    pub(crate) fn test_server(
        &self,
        url: &str,
        revision: &str,
        scenario: Option<&str>,
        results: &Path,
    ) -> Result<(), Failure> {
        let call = self.call().args(["server", "--url", url, "--spec-version", revision]);
        let call = call.args(["--timeout", SCENARIO_MILLISECONDS, "-o"]).arg(results);
        let call = match scenario {
            Some(scenario) => call.args(["--scenario", scenario]),
            None => call.args(["--suite", "all"]),
        };
        let call = call.deadline(SERVER_SUITE_DEADLINE);
        match self.children.run_logged(&call, &results.with_extension("log")) {
            // What it wrote until then is compared; the rest counts as lost.
            Ok(_) | Err(Failure::TimedOut { .. }) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// Tests the client that `driver` starts, in one scenario.
    pub(crate) fn test_client(
        &self,
        driver: &Driver<'_>,
        scenario: &ClientScenario,
        results: &Path,
        log: &Path,
    ) -> Result<ExitStatus, Failure> {
        let python = self.peers.python();
        let words = [python.to_string_lossy(), driver.script.to_string_lossy()];
        let command = words.map(|word| quoted(&word)).join(" ");
        let call = self.call().args(["client", "--command", &command]);
        let call = call.args(["--scenario", &scenario.name, "--spec-version", scenario.revision]);
        let call = call.args(["--timeout", CLIENT_MILLISECONDS, "-o"]).arg(results);
        let call = match driver.gateway {
            Some(gateway) => call.env("TIDINGS_BIN", gateway).env("TIDINGS_RUN_DIR", driver.run_directory),
            None => call,
        };
        self.children.run_logged(&call.deadline(CLIENT_SCENARIO_DEADLINE), log)
    }

    /// The client scenarios of the protocol itself: not authorization, not extensions.
    pub(crate) fn client_scenarios(&self) -> Result<Vec<ClientScenario>, Failure> {
        let call = self.call().args(["list", "--client"]);
        let listed = self.children.capture(&call, Echo::Silent)?;
        if listed.status.success() {
            Ok(parse_client_scenarios(&listed.output))
        } else {
            Err(children::ended(&call, listed.status))
        }
    }

    fn call(&self) -> Invocation {
        Invocation::new(self.peers.node()).arg(self.peers.script("conformance"))
    }
}

/// The client under test: our script, straight to the suite's mock server or with a gateway between.
pub(crate) struct Driver<'a> {
    pub(crate) script: &'a Path,
    pub(crate) gateway: Option<&'a Path>,
    pub(crate) run_directory: &'a Path,
}

/// Lines look like `  - tools_call [2025-06-18,2025-11-25,2026-07-28]`.
fn parse_client_scenarios(listing: &str) -> Vec<ClientScenario> {
    let mut scenarios = Vec::new();
    for line in listing.lines() {
        let Some((name, rest)) = line.trim().strip_prefix("- ").and_then(|entry| entry.split_once(" [")) else {
            continue;
        };
        if name.starts_with("auth/") {
            continue;
        }
        let at: Vec<&str> = rest.trim_end_matches(']').split(',').collect();
        let applicable = REVISIONS.into_iter().filter(|revision| at.contains(revision));
        scenarios.extend(applicable.map(|revision| ClientScenario { name: name.to_owned(), revision }));
    }
    scenarios
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorization_and_extensions_are_left_out() {
        let listing = "Client scenarios (test against a client):\n  \
            - tools_call [2025-06-18,2026-07-28]\n  \
            - auth/basic-cimd [2025-11-25]\n  \
            - sep-2640-client-verify-size [extension]\n";
        let expected =
            ["2025-06-18", "2026-07-28"].map(|revision| ClientScenario { name: "tools_call".to_owned(), revision });
        assert_eq!(parse_client_scenarios(listing), expected);
    }
}
