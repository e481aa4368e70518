//! What is kept is bounded by age, count and size; what waits is bounded too, and nothing is lost silently.

use std::time::Duration;

use jiff::{Timestamp, ToSpan as _};
use tidings_store::{ChangeLog, ChangeQuery, ChangeRecord, LogLimits, QueryStart, RecordDraft, Store};
use tidings_testkit::TempDir;

use crate::{ALL, added, added_at, in_memory, log, names, wait_written};

/// The same log on disk and in memory.
fn both(directory: &TempDir, limits: &LogLimits) -> [ChangeLog; 2] {
    [log(directory.path(), limits.clone()), in_memory(limits.clone())]
}

// S4.4
#[tokio::test]
async fn the_oldest_go_when_there_are_too_many() {
    let directory = TempDir::new();
    for log in both(&directory, &LogLimits { max_rows: 3, ..LogLimits::default() }) {
        for i in 1..=5_u64 {
            log.append(added(&format!("t{i}")), None);
            wait_written(&log, i - 1, 1).await;
        }
        let rows = log.read(ALL).await.unwrap();
        assert_eq!(names(&rows.rows), ["t3", "t4", "t5"]);
        assert_eq!(rows.last, 5);
    }
}

// S4.4
#[tokio::test]
async fn the_oldest_go_when_they_are_too_large() {
    let directory = TempDir::new();
    // Long, so that the hash that a row of the file carries makes no difference.
    let long = |i: u64| format!("t{i}{}", "-".repeat(400));
    let size = serde_json::to_vec(&ChangeRecord { seq: 1, ..added(&long(1)) }).unwrap().len() as u64;
    for log in both(&directory, &LogLimits { max_bytes: size * 2 + size / 2, ..LogLimits::default() }) {
        for i in 1..=5_u64 {
            log.append(added(&long(i)), None);
            wait_written(&log, i - 1, 1).await;
        }
        assert_eq!(names(&log.read(ALL).await.unwrap().rows), [long(4), long(5)]);
    }
}

// S4.4
#[tokio::test]
async fn the_old_go_with_the_next_change() {
    let directory = TempDir::new();
    for log in both(&directory, &LogLimits { max_age: Duration::from_secs(3600), ..LogLimits::default() }) {
        log.append(added_at("old", Timestamp::now() - 2.hours()), None);
        log.append(added_at("young", Timestamp::now() - 30.minutes()), None);
        // Already in the first write the old one is too old.
        wait_written(&log, 0, 1).await;
        log.append(added("new"), None);
        wait_written(&log, 2, 1).await;
        assert_eq!(names(&log.read(ALL).await.unwrap().rows), ["young", "new"]);
    }
}

// S4.4
#[tokio::test]
async fn parts_of_the_log_can_be_read() {
    let directory = TempDir::new();
    for log in both(&directory, &LogLimits::default()) {
        let begin = Timestamp::now() - 100.minutes();
        for i in 0..10_i64 {
            // The clock is set back once.
            let minute = if i == 7 { 2 } else { i * 10 };
            log.append(added_at(&format!("t{i}"), begin + minute.minutes()), None);
        }
        wait_written(&log, 0, 10).await;
        let read = async |from, limit, max_bytes| {
            let rows = log.read(ChangeQuery { from, limit, max_bytes }).await.unwrap();
            assert_eq!(rows.last, 10);
            names(&rows.rows)
        };
        assert_eq!(read(QueryStart::After(8), 9, usize::MAX).await, ["t8", "t9"]);
        assert_eq!(read(QueryStart::After(2), 3, usize::MAX).await, ["t2", "t3", "t4"]);
        assert_eq!(read(QueryStart::Newest, 3, usize::MAX).await, ["t7", "t8", "t9"]);
        assert_eq!(read(QueryStart::Newest, 0, usize::MAX).await, Vec::<String>::new());
        assert_eq!(read(QueryStart::After(2), 3, 1).await, ["t2"], "one is given even if it is too large");
        let late = u64::try_from((begin + 60.minutes()).as_millisecond()).unwrap();
        assert_eq!(read(QueryStart::Time(late), 9, usize::MAX).await, ["t6", "t8", "t9"]);
    }
}

// S4.4
#[tokio::test]
async fn what_could_not_wait_is_counted_in_the_next_change() {
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let open = move || {
        let _ = wait.recv();
        Store::in_memory()
    };
    let log = ChangeLog::start(open, LogLimits { max_waiting: 2, ..LogLimits::default() });
    for i in 0..5 {
        log.append(added(&format!("t{i}")), None);
    }
    go.send(()).unwrap();
    let rows = wait_written(&log, 0, 2).await;
    assert_eq!(names(&rows), ["t0", "t1"]);
    log.append(added("t5"), None);
    wait_written(&log, 2, 1).await;
    let lost = |row: &tidings_store::ChangeRow| serde_json::from_slice::<ChangeRecord>(&row.json).unwrap().lost;
    let rows = log.read(ALL).await.unwrap().rows;
    assert_eq!(rows.iter().map(lost).sum::<u64>(), 3, "{rows:?}");
}

#[tokio::test]
async fn a_draft_is_completed_by_the_logs_thread_and_one_without_room_by_its_caller() {
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let open = move || {
        let _ = wait.recv();
        Store::in_memory()
    };
    let log = ChangeLog::start(open, LogLimits { max_waiting_bytes: 2_000, ..LogLimits::default() });
    let (say, said) = std::sync::mpsc::channel();
    let draft = |name: &'static str, bytes| {
        let say = say.clone();
        let complete = move || {
            let _ = say.send((name, std::thread::current().name().map(str::to_owned)));
            (added(name), None)
        };
        RecordDraft { owner: None, bytes, complete: Box::new(complete) }
    };
    log.append_draft(draft("small", 100));
    assert!(said.try_recv().is_err(), "nobody waited for it");
    log.append_draft(draft("large", 10_000));
    let here = std::thread::current().name().map(str::to_owned);
    assert_eq!(said.try_recv(), Ok(("large", here)), "its record fits, though what it is made of does not");
    go.send(()).unwrap();
    let rows = wait_written(&log, 0, 2).await;
    assert_eq!(names(&rows), ["small", "large"], "in the order in which they came");
    assert_eq!(said.try_recv(), Ok(("small", Some("change-log".to_owned()))));
}
