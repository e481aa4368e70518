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
// Four cold builds with all optimisations, on a small machine: one that counts, its harness, and two that are compared.
const BUILD_DEADLINE: Duration = Duration::from_secs(3 * 3600);

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

/// Builds the gateway as it is released, but for the C library of this machine: what benchmarks measure. Gives its path.
pub(crate) fn released(children: &Children, workspace: &Workspace) -> Result<PathBuf, Failure> {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    children.run(&release_build(workspace, &target))?;
    Ok(workspace.released_gateway(&target))
}

fn built_static(children: &Children, workspace: &Workspace, build: PackedBuild) -> Result<PathBuf, Failure> {
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let script = release_build(workspace, &target);
    children.run(&if build == PackedBuild::StaticTwice { script.arg("--twice") } else { script })?;
    Ok(workspace.released_gateway(&target))
}

fn release_build(workspace: &Workspace, target: &str) -> Invocation {
    let script = script(workspace, "release_build.py").args(["--target", target]).arg("--cache");
    script.arg(workspace.packaging_tools()).arg("--target-dir").arg(workspace.output()).deadline(BUILD_DEADLINE)
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
