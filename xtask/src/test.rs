//! Everything that must hold before a change is merged, step by step, up to the first failure.

use std::fmt;

use crate::chaos;
use crate::children::{self, Children};
use crate::conformance::{self, Selection};
use crate::failure::Failure;
use crate::gateway;
use crate::invocation::Invocation;
use crate::peers;
use crate::real_peers;
use crate::soak;
use crate::tally::Tally;
use crate::workspace::Workspace;

/// Runs the steps; the tally holds the failure, which has been shown.
pub(crate) fn run(children: &Children, workspace: &Workspace, quick: bool) -> Tally {
    let mut steps = Steps { children, workspace, tally: Tally::default() };
    let all = |steps: &mut Steps<'_>| steps.soak().and_then(|()| steps.with_peers());
    let done = steps.only_rust().and_then(|()| if quick { Ok(()) } else { all(&mut steps) });
    if let Err(failure) = done {
        println!("\nfailed: {failure}");
        if steps.tally.failed == 0 {
            steps.tally += Tally::ONE_FAILED;
        }
    }
    steps.tally
}

/// Why no further step is run.
enum Stop {
    /// A command that says itself how to repeat it.
    Command(Failure),
    Task {
        failure: Failure,
        repeat: &'static str,
    },
    /// Checks that failed; they have been shown and counted.
    Checks {
        repeat: &'static str,
    },
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Command(failure)
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(failure) => write!(f, "{failure}"),
            Self::Task { failure, repeat } => write!(f, "{failure}\nrepeat with: {repeat}"),
            Self::Checks { repeat } => write!(f, "repeat with: {repeat}"),
        }
    }
}

struct Steps<'a> {
    children: &'a Children,
    workspace: &'a Workspace,
    tally: Tally,
}

impl Steps<'_> {
    fn only_rust(&mut self) -> Result<(), Stop> {
        let workspace = self.workspace;
        self.command("format", &workspace.cargo(["fmt", "--all", "--check"]))?;
        let clippy = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
        self.command("clippy", &workspace.cargo(clippy))?;
        if self.children.succeeds(&workspace.cargo(["nextest", "--version"])) {
            let tests = ["nextest", "run", "--workspace", "--no-tests=pass"];
            self.tests("tests", &workspace.cargo(tests))?;
            self.tests("examples in the documentation", &workspace.cargo(["test", "--workspace", "--doc"]))?;
        } else {
            // Includes the examples, which nextest does not run.
            self.tests("tests", &workspace.cargo(["test", "--workspace"]))?;
        }
        self.command("build", &gateway::build(workspace))
    }

    fn soak(&mut self) -> Result<(), Stop> {
        announce("soak");
        soak::run(self.children, self.workspace, soak::SHORT)?;
        self.tally += Tally::ONE_PASSED;
        Ok(())
    }

    fn with_peers(&mut self) -> Result<(), Stop> {
        let (children, workspace) = (self.children, self.workspace);
        let gateway = workspace.built_gateway();
        announce("peers");
        let peers = peers::install(children, workspace).map_err(|failure| stopped(failure, "cargo xtask peers"))?;
        // They were skipped before if it was not there.
        let databases = ["test", "-p", "tidings-watch", "-p", "tidings", "--", "postgres", "database"];
        self.tests("PostgreSQL", &workspace.cargo(databases).env("TIDINGS_REQUIRE_POSTGRES", "1"))?;
        let containers = ["test", "-p", "tidings", "--test", "containers"];
        self.tests("containers", &workspace.cargo(containers).env("TIDINGS_REQUIRE_PODMAN", "1"))?;
        let added = ["test", "-p", "tidings", "--test", "registry_tools", "containers"];
        self.tests("containers of the catalogue", &workspace.cargo(added).env("TIDINGS_REQUIRE_PODMAN", "1"))?;
        announce("chaos");
        chaos::run(children, workspace, &peers, chaos::SHORT)?;
        self.tally += Tally::ONE_PASSED;
        announce("conformance");
        let result = conformance::run(children, workspace, &peers, &gateway, &Selection::default());
        self.count(result, "cargo xtask conformance")?;
        announce("real peers");
        let result = real_peers::run(children, workspace, &peers, &gateway);
        self.count(result, "cargo xtask real-peers")
    }

    /// A step that is one check.
    fn command(&mut self, name: &str, invocation: &Invocation) -> Result<(), Stop> {
        announce(name);
        self.children.run(invocation)?;
        self.tally += Tally::ONE_PASSED;
        Ok(())
    }

    /// A step that prints how many of its checks passed.
    fn tests(&mut self, name: &str, invocation: &Invocation) -> Result<(), Stop> {
        announce(name);
        let ended = self.children.capture(invocation, true)?;
        self.tally += Tally::from_output(&ended.output);
        if ended.status.success() { Ok(()) } else { Err(children::ended(invocation, ended.status).into()) }
    }

    fn count(&mut self, result: Result<Tally, Failure>, repeat: &'static str) -> Result<(), Stop> {
        let tally = result.map_err(|failure| stopped(failure, repeat))?;
        self.tally += tally;
        if tally.failed == 0 { Ok(()) } else { Err(Stop::Checks { repeat }) }
    }
}

fn stopped(failure: Failure, repeat: &'static str) -> Stop {
    Stop::Task { failure, repeat }
}

fn announce(step: &str) {
    println!("\n=== {step}");
}
