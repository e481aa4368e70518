//! Numbers never repeat: not after a restart, not after everything was pruned, not after the file was lost.

use jiff::{Timestamp, ToSpan as _};
use tidings_store::{LogLimits, Store, StoreError};
use tidings_testkit::{TempDir, eventually};

use crate::{ALL, added, added_at, log, names, wait_written};

// S4.4
#[tokio::test]
async fn a_restart_goes_on_counting_and_keeps_what_was_there() {
    let directory = TempDir::new();
    for round in 0..3_u64 {
        let log = log(directory.path(), LogLimits::default());
        log.append(added(&format!("a{round}")), None);
        log.append(added(&format!("b{round}")), None);
        log.close().await;
    }
    let log = log(directory.path(), LogLimits::default());
    let rows = log.read(ALL).await.unwrap();
    assert_eq!(names(&rows.rows), ["a0", "b0", "a1", "b1", "a2", "b2"]);
    assert_eq!(rows.rows.iter().map(|row| row.seq).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
}

// S4.4
#[tokio::test]
async fn a_restart_after_everything_was_pruned_goes_on_counting() {
    let directory = TempDir::new();
    let first = log(directory.path(), LogLimits::default());
    first.append(added_at("old", Timestamp::now() - 1000.hours()), None);
    first.append(added_at("older", Timestamp::now() - 2000.hours()), None);
    first.close().await;
    drop(first);
    let second = log(directory.path(), LogLimits::default());
    let rows = second.read(ALL).await.unwrap();
    assert!(rows.rows.is_empty());
    assert_eq!(rows.last, 2);
    second.append(added("new"), None);
    assert_eq!(wait_written(&second, 2, 1).await[0].seq, 3);
}

// S4.4
#[tokio::test]
async fn a_broken_file_is_moved_aside_and_the_count_goes_up() {
    for damage in [
        (|_: Vec<u8>| b"this is no database".to_vec()) as fn(Vec<u8>) -> Vec<u8>,
        |mut bytes| {
            bytes.truncate(bytes.len() / 3);
            bytes
        },
        |mut bytes| {
            bytes[..4096].fill(0x5a);
            bytes
        },
    ] {
        let directory = TempDir::new();
        let file = directory.join("tidings.redb");
        let first = log(directory.path(), LogLimits::default());
        first.append(added("before"), None);
        first.close().await;
        drop(first);
        eventually("the end of its thread", || Store::existing(directory.path()).ok()).await;
        let broken = damage(std::fs::read(&file).unwrap());
        std::fs::write(&file, &broken).unwrap();
        assert!(matches!(Store::existing(directory.path()), Err(StoreError::Broken { .. })), "a look moves nothing");
        assert_eq!(std::fs::read(&file).unwrap(), broken, "and changes nothing");
        let second = log(directory.path(), LogLimits::default());
        second.append(added("after"), None);
        let rows = wait_written(&second, 1, 1).await;
        assert_eq!(names(&rows), ["after"]);
        assert!(rows[0].seq > 1);
        let aside = std::fs::read_dir(directory.path())
            .unwrap()
            .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
            .filter(|name| name.starts_with("tidings.redb.broken-"))
            .count();
        assert_eq!(aside, 1);
    }
}
