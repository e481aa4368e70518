//! What people install, built and tried. The building is in `packaging/package.py`.

use std::time::Duration;

use crate::children::{Children, Echo};
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::tally::Tally;
use crate::workspace::Workspace;

const DEADLINE: Duration = Duration::from_secs(1800);

/// `quick` packs the debug build, which is there already: how a package is made and installed does not depend on it.
pub(crate) fn run(children: &Children, workspace: &Workspace, quick: bool) -> Result<Tally, Failure> {
    let binary = if quick {
        children.run(&workspace.build())?;
        workspace.built_gateway()
    } else {
        children.run(&workspace.cargo(["build", "--release", "-p", "tidings", "--bin", "tidings"]))?;
        workspace.released_gateway()
    };
    let script = Invocation::new("python3").arg(workspace.packaging_file("package.py")).deadline(DEADLINE);
    let script = script.arg("--binary").arg(&binary).arg("--out").arg(workspace.packages());
    let script = if quick { script.arg("--quick") } else { script };
    let ended = children.capture(&script, Echo::Plain)?;
    let mut tally = Tally::from_output(&ended.output);
    if !ended.status.success() && tally.failed == 0 {
        tally += Tally::ONE_FAILED;
    }
    Ok(tally)
}
