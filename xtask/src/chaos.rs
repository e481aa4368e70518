//! Faults between real peers. What they are is in `crates/chaos`; here it is built and started.

use std::time::Duration;

use crate::children::Children;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::peers::Peers;
use crate::workspace::Workspace;

/// More than anybody waits for: the run ends by itself.
const DEADLINE: Duration = Duration::from_secs(24 * 3600);

/// The short run of every test: always the same faults.
pub(crate) const SHORT: [&str; 4] = ["--seconds", "30", "--seed", "1"];

pub(crate) fn run<A: AsRef<std::ffi::OsStr>>(
    children: &Children,
    workspace: &Workspace,
    peers: &Peers,
    arguments: impl IntoIterator<Item = A>,
) -> Result<(), Failure> {
    children.run(&workspace.build())?;
    let gateway = workspace.built_gateway();
    let chaos = Invocation::new(gateway.with_file_name("tidings-chaos"));
    let chaos = chaos.arg("--peers").arg(peers.directory()).args(arguments);
    children.run(&chaos.env("TIDINGS_BIN", &gateway).deadline(DEADLINE))
}
