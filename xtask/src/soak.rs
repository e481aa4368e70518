//! Long random runs. What they do is in `crates/soak`; here it is built and started.

use std::time::Duration;

use crate::children::Children;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::workspace::Workspace;

/// More than anybody waits for: the run ends by itself.
const DEADLINE: Duration = Duration::from_secs(24 * 3600);

/// The short run of every test: always the same events.
pub(crate) const SHORT: [&str; 4] = ["--seconds", "30", "--seed", "1"];

pub(crate) fn run<A: AsRef<std::ffi::OsStr>>(
    children: &Children,
    workspace: &Workspace,
    arguments: impl IntoIterator<Item = A>,
) -> Result<(), Failure> {
    children.run(&workspace.build())?;
    let gateway = workspace.built_gateway();
    let soak = Invocation::new(gateway.with_file_name("tidings-soak")).args(arguments);
    children.run(&soak.env("TIDINGS_BIN", &gateway).deadline(DEADLINE))
}

/// Calls that wait for their clients. The storm is a test of a few seconds (`crates/tidings/tests/questions/park_storm.rs`), which needs
/// the testkit; here it lasts as long as is asked for. It prints its seed first.
pub(crate) fn parks(
    children: &Children,
    workspace: &Workspace,
    seconds: u64,
    seed: Option<u64>,
) -> Result<(), Failure> {
    let storm = ["test", "-p", "tidings", "--test", "questions", "park_storm", "--", "--nocapture"];
    let storm = workspace.cargo(storm).env("TIDINGS_STORM_SECONDS", seconds.to_string());
    let storm = match seed {
        Some(seed) => storm.env("TIDINGS_STORM_SEED", seed.to_string()),
        None => storm,
    };
    children.run(&storm.deadline(DEADLINE))
}

/// Replicas that are killed under load. The storm is a test of a few seconds (`crates/tidings/tests/cluster/storm.rs`); here it lasts as long as is
/// asked for, with as many clients, and needs `nats-server` (`cargo xtask peers`).
pub(crate) fn cluster(children: &Children, workspace: &Workspace, seconds: u64, clients: u64) -> Result<(), Failure> {
    let storm = ["test", "-p", "tidings", "--test", "cluster", "storm", "--", "--nocapture"];
    let storm = workspace.cargo(storm).env("TIDINGS_REQUIRE_NATS", "1").env("TIDINGS_STORM_EVERY", "20");
    let storm = storm.env("TIDINGS_STORM_SECONDS", seconds.to_string());
    children.run(&storm.env("TIDINGS_STORM_CLIENTS", clients.to_string()).deadline(DEADLINE))
}
