//! What must be on the machine before packages can be installed: npm, a Python with `venv`, PostgreSQL,
//! and podman with an image registry.
//! Missing parts come from Debian when that is possible, else the command to run is named.

use std::path::Path;

use crate::children::Children;
use crate::failure::Failure;
use crate::invocation::Invocation;

use super::DOWNLOAD_DEADLINE;

// The PyPI packages need 3.10.
const PYTHON_IS_RECENT: &str = "import sys; sys.exit(sys.version_info < (3, 10))";
// The second is Debian's own, which gains `venv` by a Debian package even if another one is first.
const PYTHONS: [&str; 2] = ["python3", "/usr/bin/python3"];

pub(crate) fn ensure_npm(children: &Children) -> Result<(), Failure> {
    let npm = Invocation::new("npm").arg("--version");
    if children.succeeds(&npm) {
        return Ok(());
    }
    install_debian_packages(children, "npm", &["npm"])?;
    children.run(&npm)
}

/// The tests of PostgreSQL find it where Debian puts it, or on the path.
pub(super) fn ensure_postgres(children: &Children) -> Result<(), Failure> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let is_there = versions.map(|version| version.path().join("bin/initdb")).any(|program| program.is_file());
    if is_there || children.succeeds(&Invocation::new("initdb").arg("--version")) {
        return Ok(());
    }
    install_debian_packages(children, "PostgreSQL", &["postgresql"])
}

/// The tests of containers need a runtime that works in a sandbox, and a registry to get images from.
pub(super) fn ensure_podman(children: &Children) -> Result<(), Failure> {
    let all = [("podman", "--version"), ("runc", "--version"), ("docker-registry", "--version")];
    let is_there = |(program, arg): &(&str, &str)| {
        // Ordinary users do not look there.
        let beside = Path::new("/usr/sbin").join(program).is_file();
        beside || children.succeeds(&Invocation::new(program).arg(arg))
    };
    if all.iter().all(is_there) {
        return Ok(());
    }
    install_debian_packages(children, "podman with runc and docker-registry", &all.map(|(program, _)| program))
}

/// Makes a virtual environment with pip in it.
pub(super) fn make_venv(children: &Children, directory: &Path) -> Result<(), Failure> {
    if try_every_python(children, directory) {
        return Ok(());
    }
    let packages = ["python3", "python3-venv"];
    install_debian_packages(children, "a python3 of at least 3.10 with venv", &packages)?;
    if try_every_python(children, directory) {
        return Ok(());
    }
    children.run(&venv(PYTHONS[1], directory))
}

fn try_every_python(children: &Children, directory: &Path) -> bool {
    PYTHONS.iter().any(|python| {
        children.succeeds(&Invocation::new(python).args(["-c", PYTHON_IS_RECENT]))
            && children.succeeds(&venv(python, directory))
    })
}

fn venv(python: &str, directory: &Path) -> Invocation {
    Invocation::new(python).args(["-m", "venv", "--clear"]).arg(directory)
}

pub(crate) fn install_debian_packages(
    children: &Children,
    what: &'static str,
    packages: &[&str],
) -> Result<(), Failure> {
    let remedy = format!("apt-get install --no-install-recommends {}", packages.join(" "));
    let has_apt = children.succeeds(&Invocation::new("apt-get").arg("--version"));
    if !has_apt || !rustix::process::geteuid().is_root() {
        return Err(Failure::Missing { what, remedy });
    }
    println!("  {remedy}");
    let apt = || {
        let quiet = Invocation::new("apt-get").args(["-qq", "-y"]);
        quiet.env("DEBIAN_FRONTEND", "noninteractive").deadline(DOWNLOAD_DEADLINE)
    };
    children.run(&apt().arg("update"))?;
    children.run(&apt().args(["install", "--no-install-recommends"]).args(packages))
}
