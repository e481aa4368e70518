//! The official suite through the gateway. Every check that passes in a direct run must pass with
//! the gateway between, or stand in `conformance/expected-lost.txt` with a reason.

mod checks;
mod client_run;
mod compare;
mod expected;
mod report;
mod server_run;
mod stories;

use std::path::Path;

use crate::children::Children;
use crate::failure::Failure;
use crate::peers::Peers;
use crate::suite::{REVISIONS, Suite};
use crate::tally::Tally;
use crate::workspace::Workspace;

use compare::Comparison;
use expected::ExpectedLost;

/// What is on the far side of the gateway.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Link {
    /// The everything-server over HTTP; the suite is the client.
    Http,
    /// The everything-server as a child process; the suite is the client.
    Stdio,
    /// The suite's mock server; the PyPI client is in front of the gateway.
    Client,
    /// The stories of the PyPI SDK: each server with its own client.
    Stories,
}

impl Link {
    pub(crate) const ALL: [Self; 4] = [Self::Http, Self::Stdio, Self::Client, Self::Stories];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Stdio => "stdio",
            Self::Client => "client",
            Self::Stories => "stories",
        }
    }
}

/// A part of the whole run; by default all of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Selection {
    pub(crate) link: Option<Link>,
    pub(crate) revision: Option<&'static str>,
    pub(crate) scenario: Option<String>,
}

impl Selection {
    fn links(&self) -> Vec<Link> {
        Link::ALL.into_iter().filter(|link| self.link.is_none_or(|only| only == *link)).collect()
    }

    fn revisions(&self) -> Vec<&'static str> {
        REVISIONS.into_iter().filter(|revision| self.revision.is_none_or(|only| only == *revision)).collect()
    }

    fn is_everything(&self) -> bool {
        *self == Self::default()
    }
}

/// One cell of the table: a revision over a link.
struct Run {
    revision: &'static str,
    link: Link,
    comparison: Comparison,
}

/// What the runs have in common.
struct Setting<'a> {
    children: &'a Children,
    workspace: &'a Workspace,
    peers: &'a Peers,
    gateway: &'a Path,
    suite: Suite<'a>,
    selection: &'a Selection,
}

pub(crate) fn run(
    children: &Children,
    workspace: &Workspace,
    peers: &Peers,
    gateway: &Path,
    selection: &Selection,
) -> Result<Tally, Failure> {
    let expected = ExpectedLost::read(&workspace.conformance_file("expected-lost.txt"))?;
    let suite = Suite::new(children, peers);
    let setting = Setting { children, workspace, peers, gateway, suite, selection };
    let mut runs = Vec::new();
    let links = selection.links();
    if links.iter().any(|link| matches!(link, Link::Http | Link::Stdio)) {
        server_run::run(&setting, &mut runs)?;
    }
    if links.contains(&Link::Client) {
        client_run::run(&setting, &mut runs)?;
    }
    if selection.link == Some(Link::Stories) {
        return stories::run(&setting);
    }
    // A misspelled scenario would pass, with nothing compared.
    if let Some(scenario) = selection.scenario.as_ref().filter(|_| nothing_compared(&runs)) {
        return Err(Failure::NoSuchScenario { scenario: scenario.clone() });
    }
    let mut tally = report::print(&runs, &expected, selection.is_everything());
    if selection.is_everything() {
        tally += stories::run(&setting)?;
    }
    Ok(tally)
}

fn nothing_compared(runs: &[Run]) -> bool {
    runs.iter().all(|run| run.comparison.checks() == 0)
}
