//! What people install, built and tried; and the documentation as a site. The work is done in `packaging/`.

use std::path::PathBuf;
use std::time::Duration;

use crate::children::{Children, Echo};
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::tally::Tally;
use crate::workspace::Workspace;

// Fresh machines are made, and filled from Debian.
const DEADLINE: Duration = Duration::from_secs(3600);
// Two cold builds with all optimisations, on a small machine.
const BUILD_DEADLINE: Duration = Duration::from_secs(2 * 3600);

/// Which program is packed.
#[derive(Debug, PartialEq, Clone, Copy)]
pub(crate) enum PackedBuild {
    /// The debug build, which is there already: how a package is made and installed does not depend on it. Without fresh machines.
    Debug,
    /// The static one that is released.
    Static,
    /// The same, built a second time in another folder and compared.
    StaticTwice,
}

pub(crate) fn run(children: &Children, workspace: &Workspace, build: PackedBuild) -> Result<Tally, Failure> {
    let binary = match build {
        PackedBuild::Debug => {
            children.run(&workspace.build())?;
            workspace.built_gateway()
        }
        PackedBuild::Static | PackedBuild::StaticTwice => built_static(children, workspace, build)?,
    };
    let script = script(workspace, "package.py").arg("--binary").arg(&binary).arg("--out").arg(workspace.packages());
    let script = script.arg("--cache").arg(workspace.packaging_tools());
    counted(children, &if build == PackedBuild::Debug { script.arg("--quick") } else { script })
}

/// Builds the site, and follows its links.
pub(crate) fn site(children: &Children, workspace: &Workspace) -> Result<Tally, Failure> {
    let script = script(workspace, "site.py").arg("--out").arg(workspace.site());
    counted(children, &script.arg("--cache").arg(workspace.packaging_tools()))
}

fn built_static(children: &Children, workspace: &Workspace, build: PackedBuild) -> Result<PathBuf, Failure> {
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let script = script(workspace, "static_build.py").args(["--target", &target]).arg("--cache");
    let script =
        script.arg(workspace.packaging_tools()).arg("--target-dir").arg(workspace.output()).deadline(BUILD_DEADLINE);
    children.run(&if build == PackedBuild::StaticTwice { script.arg("--twice") } else { script })?;
    Ok(workspace.static_gateway(&target))
}

fn script(workspace: &Workspace, name: &str) -> Invocation {
    Invocation::new("python3").arg(workspace.packaging_file(name)).deadline(DEADLINE)
}

fn counted(children: &Children, script: &Invocation) -> Result<Tally, Failure> {
    let ended = children.capture(script, Echo::Plain)?;
    let mut tally = Tally::from_output(&ended.output);
    if !ended.status.success() && tally.failed == 0 {
        tally += Tally::ONE_FAILED;
    }
    Ok(tally)
}
