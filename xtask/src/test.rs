//! Everything that must hold before a change is merged, step by step, up to the first failure.

use std::fmt;
use std::thread;
use std::time::Instant;

use crate::browser;
use crate::chaos;
use crate::children::{self, Children, Echo};
use crate::conformance::{self, Selection};
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::package::{self, PackedBuild};
use crate::peers::{self, Peers};
use crate::real_peers;
use crate::soak;
use crate::tally::{self, Tally};
use crate::workspace::Workspace;

/// Of more than two thousand tests, most with processes and clocks of their own, so many may pass at the second attempt only. They are
/// named at the end, and each is a defect to be found ([ADR 97](../../docs/adr/0097-a-test-may-fail-once.md)).
const MOST_FLAKY: usize = 2;

/// Runs the steps; the tally holds the failure, which has been shown.
pub(crate) fn run(children: &Children, workspace: &Workspace, quick: bool) -> Tally {
    let mut steps = Steps { children, workspace, tally: Tally::default(), began: Instant::now() };
    let done = if quick { steps.only_rust() } else { steps.all() };
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
    began: Instant,
}

impl Steps<'_> {
    fn only_rust(&mut self) -> Result<(), Stop> {
        self.lints()?;
        self.rust_tests(0, |tests| tests)
    }

    fn all(&mut self) -> Result<(), Stop> {
        let (children, workspace) = (self.children, self.workspace);
        // Downloads take the network, and lints the processor: both at a time.
        let installed = thread::scope(|scope| {
            let installing = scope.spawn(|| {
                browser::install(children, workspace)?;
                peers::install(children, workspace)
            });
            // A failure still waits for the downloads: a scope ends only with its threads.
            self.lints()?;
            self.announce("peers");
            Ok::<_, Stop>(installing.join().unwrap_or(Err(Failure::Lane)))
        })?;
        let peers = installed.map_err(|failure| stopped(failure, "cargo xtask peers"))?;
        // Tests of these are skipped where they are not installed, and they are now.
        self.rust_tests(MOST_FLAKY, |tests| {
            tests
                .env("TIDINGS_REQUIRE_POSTGRES", "1")
                .env("TIDINGS_REQUIRE_PODMAN", "1")
                .env("TIDINGS_REQUIRE_NATS", "1")
        })?;
        self.command("build", &workspace.build())?;
        self.announce("soak");
        soak::run(children, workspace, soak::SHORT)?;
        self.tally += Tally::ONE_PASSED;
        self.announce("packages");
        let result = package::run(children, workspace, PackedBuild::Debug);
        self.count(result, "cargo xtask package --quick")?;
        self.with_peers(&peers)
    }

    fn lints(&mut self) -> Result<(), Stop> {
        let workspace = self.workspace;
        self.command("format", &workspace.cargo(["fmt", "--all", "--check"]))?;
        let clippy = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
        self.command("clippy", &workspace.cargo(clippy))
    }

    /// `flaky`: how many may fail once.
    fn rust_tests(&mut self, flaky: usize, with: impl Fn(Invocation) -> Invocation) -> Result<(), Stop> {
        let workspace = self.workspace;
        if !self.children.succeeds(&workspace.cargo(["nextest", "--version"])) {
            // Includes the examples, which nextest does not run.
            return self.tests("tests", &with(workspace.cargo(["test", "--workspace"]))).map(drop);
        }
        let retries = if flaky > 0 { "--retries=1" } else { "--retries=0" };
        let tests = with(workspace.cargo(["nextest", "run", "--workspace", "--no-tests=pass", retries]));
        let output = self.tests("tests", &tests)?;
        if tally::flaky_in(&output) > flaky {
            self.tally += Tally::ONE_FAILED;
            return Err(Stop::Checks { repeat: "cargo nextest run TEST, with the tests that are named as FLAKY" });
        }
        self.tests("examples in the documentation", &workspace.cargo(["test", "--workspace", "--doc"])).map(drop)
    }

    fn with_peers(&mut self, peers: &Peers) -> Result<(), Stop> {
        let (children, workspace) = (self.children, self.workspace);
        let gateway = workspace.built_gateway();
        self.announce("chaos");
        chaos::run(children, workspace, peers, chaos::SHORT)?;
        self.tally += Tally::ONE_PASSED;
        self.announce("conformance");
        let result = conformance::run(children, workspace, peers, &gateway, &Selection::default());
        self.count(result, "cargo xtask conformance")?;
        self.announce("browser");
        let result = browser::run(children, workspace, peers, &gateway);
        self.count(result, "cargo xtask browser")?;
        self.announce("real peers");
        let result = real_peers::run(children, workspace, peers, &gateway);
        self.count(result, "cargo xtask real-peers")
    }

    fn announce(&self, step: &str) {
        println!("\n=== {step} (after {:.1} min)", self.began.elapsed().as_secs_f64() / 60.0);
    }

    /// A step that is one check.
    fn command(&mut self, name: &str, invocation: &Invocation) -> Result<(), Stop> {
        self.announce(name);
        self.children.run(invocation)?;
        self.tally += Tally::ONE_PASSED;
        Ok(())
    }

    /// A step that prints how many of its checks passed. Gives what it printed.
    fn tests(&mut self, name: &str, invocation: &Invocation) -> Result<String, Stop> {
        self.announce(name);
        let ended = self.children.capture(invocation, Echo::Plain)?;
        self.tally += Tally::from_output(&ended.output);
        if ended.status.success() { Ok(ended.output) } else { Err(children::ended(invocation, ended.status).into()) }
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
