//! The story clients of the PyPI SDK: each against its own server, directly and with the gateway between. One that passes
//! directly must pass through the gateway. They are run from the source distribution; the script counts.

use std::time::Duration;

use super::Setting;
use crate::children::Echo;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::tally::Tally;

const DEADLINE: Duration = Duration::from_secs(1_800);

pub(super) fn run(setting: &Setting<'_>) -> Result<Tally, Failure> {
    // The source distribution has its servers and its stories side by side.
    let server = setting.peers.everything_server();
    let examples = server.ancestors().nth(2).unwrap_or(&server);
    let directory = setting.workspace.fresh_run_directory(&["stories"])?;
    let script = Invocation::new(setting.peers.python())
        .arg(setting.workspace.conformance_file("stories.py"))
        .env("PYTHONUNBUFFERED", "1")
        .deadline(DEADLINE)
        .arg("--gateway")
        .arg(setting.gateway)
        .arg("--examples")
        .arg(examples)
        .arg("--directory")
        .arg(&directory);
    let script = match &setting.selection.scenario {
        Some(story) => script.args(["--story", story]),
        None => script,
    };
    println!("\nstories of the PyPI SDK, directly and through the gateway");
    let ended = setting.children.capture(&script, Echo::Plain)?;
    let mut tally = Tally::from_output(&ended.output);
    if !ended.status.success() && tally.failed == 0 {
        tally += Tally::ONE_FAILED;
    }
    Ok(tally)
}
