//! Finding the programs that tests start; building them when they are missing or old.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

/// The program that stands in for a stdio server and relays to the test process.
pub fn relay() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bin/testkit-relay.rs");
        // Tests of other crates do not make cargo build this program, so an old one may be lying there.
        find("testkit-relay", "tidings-testkit", modified(&source))
    })
}

/// The gateway: `$TIDINGS_BIN`, else the one that cargo built for this test, else the one next to the test.
pub fn tidings() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        for variable in ["TIDINGS_BIN", "CARGO_BIN_EXE_tidings"] {
            if let Some(path) = std::env::var_os(variable) {
                return path.into();
            }
        }
        find("tidings", "tidings", None)
    })
}

fn find(program: &str, package: &str, not_before: Option<SystemTime>) -> PathBuf {
    let directory = profile_directory();
    let path = directory.join(program);
    if modified(&path).is_none_or(|built| not_before.is_some_and(|source| built < source)) {
        build(program, package, &directory);
        assert!(path.exists(), "cargo built {package} but there is no {}", path.display());
    }
    path
}

/// `target/debug` for a test in `target/debug/deps`.
fn profile_directory() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let mut directory = test.parent().expect("a program is in a directory");
    if directory.file_name().is_some_and(|name| name == "deps" || name == "examples") {
        directory = directory.parent().expect("deps is in a directory");
    }
    directory.to_owned()
}

fn build(program: &str, package: &str, directory: &Path) {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--package", package, "--bin", program]);
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    if let Some(target) = directory.parent() {
        // The same folder as the test's, or the program would be built elsewhere and not be found.
        cargo.arg("--target-dir").arg(target);
    }
    if directory.file_name().is_some_and(|name| name == "release") {
        cargo.arg("--release");
    }
    let status = cargo.status().unwrap_or_else(|e| panic!("can not run cargo to build {program}: {e}"));
    assert!(status.success(), "cargo could not build {program}");
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|data| data.modified()).ok()
}
