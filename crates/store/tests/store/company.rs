//! Two processes on one data directory.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use tidings_store::{LogLimits, Store, StoreError};
use tidings_testkit::TempDir;

use crate::{ALL, added, impatient, log, names, wait_written};

// S4.4
#[tokio::test]
async fn the_first_owns_the_file_and_the_second_keeps_its_own_in_memory() {
    let directory = TempDir::new();
    let first = log(directory.path(), LogLimits::default());
    first.append(added("first"), None);
    wait_written(&first, 0, 1).await;
    assert!(!Store::open(directory.path(), Duration::ZERO).is_kept());
    assert!(matches!(Store::existing(directory.path()), Err(StoreError::InUse(_))));
    let second = impatient(directory.path(), LogLimits::default(), Duration::ZERO);
    second.append(added("second"), None);
    assert_eq!(names(&wait_written(&second, 0, 1).await), ["second"]);
    assert_eq!(names(&first.read(ALL).await.unwrap().rows), ["first"]);
}

#[test]
fn only_its_owner_can_read_the_file() {
    let directory = TempDir::new();
    assert!(Store::existing(directory.path()).unwrap().is_none());
    assert!(Store::open(directory.path(), Duration::ZERO).is_kept());
    let mode = std::fs::metadata(directory.join("tidings.redb")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn without_a_directory_changes_are_kept_in_memory() {
    let directory = TempDir::new();
    let log = log(&directory.join("not/there"), LogLimits::default());
    log.append(added("new"), None);
    assert_eq!(names(&wait_written(&log, 0, 1).await), ["new"]);
}
