//! Following: no gap, no duplicate, whoever writes meanwhile and wherever one begins.

use std::time::Duration;

use tidings_store::{ChangeLog, LogError, LogLimits, Store};
use tidings_testkit::TempDir;

use crate::{added, in_memory, log, wait_written};

// S4.4
#[tokio::test]
async fn followers_of_any_beginning_see_every_later_change_once() {
    const COUNT: u64 = 500;
    let directory = TempDir::new();
    for log in [log(directory.path(), LogLimits::default()), in_memory(LogLimits::default())] {
        let writer = log.clone();
        let writing = tokio::task::spawn_blocking(move || {
            for i in 0..COUNT {
                writer.append(added(&format!("t{i}")), None);
                if i % 7 == 0 {
                    std::thread::yield_now();
                }
            }
        });
        let mut followers = Vec::new();
        for begin in [0, 3, 250, COUNT - 1] {
            let log = log.clone();
            followers.push(tokio::spawn(async move {
                wait_written(&log, 0, usize::try_from(begin).unwrap()).await;
                let mut seen = Vec::new();
                let mut cursor = begin;
                // A new reader each time, as after a broken connection.
                while cursor < COUNT {
                    let rows = log.follow(Some(cursor)).await.unwrap().next().await.unwrap();
                    seen.extend(rows.iter().map(|row| row.seq));
                    cursor = rows.last().unwrap().seq;
                }
                assert_eq!(seen, (begin + 1..=COUNT).collect::<Vec<_>>());
            }));
        }
        writing.await.unwrap();
        for follower in followers {
            tokio::time::timeout(Duration::from_secs(20), follower).await.unwrap().unwrap();
        }
    }
}

// S4.4
#[tokio::test]
async fn without_a_beginning_only_what_comes_is_seen() {
    let log = in_memory(LogLimits::default());
    log.append(added("old"), None);
    wait_written(&log, 0, 1).await;
    for after in [None, Some(99)] {
        let mut tail = log.follow(after).await.unwrap();
        log.append(added("new"), None);
        let rows = tail.next().await.unwrap();
        assert_eq!(crate::names(&rows), ["new"]);
    }
}

#[tokio::test]
async fn a_closed_log_ends_its_followers() {
    let log = in_memory(LogLimits::default());
    let mut tail = log.follow(None).await.unwrap();
    log.append(added("last"), None);
    log.close().await;
    assert_eq!(tail.next().await.map(|rows| rows.len()), Err(LogError::Closed));
    log.append(added("too late"), None);
    assert!(log.read(crate::ALL).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn the_end_does_not_wait_for_a_store_that_nothing_is_written_to() {
    let (_never, wait) = std::sync::mpsc::channel::<()>();
    let open = move || {
        let _ = wait.recv();
        Store::in_memory()
    };
    let log = ChangeLog::start(open, LogLimits::default());
    let begun = tokio::time::Instant::now();
    log.close().await;
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn readers_do_not_wait_for_ever_for_the_store() {
    let (_never, wait) = std::sync::mpsc::channel::<()>();
    let open = move || {
        let _ = wait.recv();
        Store::in_memory()
    };
    let log = ChangeLog::start(open, LogLimits::default());
    assert_eq!(log.read(crate::ALL).await.map(|rows| rows.last), Err(LogError::Opening));
}
