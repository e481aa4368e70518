//! The key through crashes, full disks and wrong permissions; and processes that have none.

use std::os::unix::fs::PermissionsExt as _;

use super::*;

#[tokio::test]
async fn a_key_that_can_not_be_read_leaves_the_signed_logs_as_they_are() {
    let directory = TempDir::new();
    record(&directory, limits()).await;
    let key = directory.join("chain.key");
    assert_eq!(std::fs::metadata(&key).expect("the key").permissions().mode() & 0o777, 0o600);
    let aside = directory.join("aside");
    proof(&directory, &[]);
    std::fs::rename(&key, &aside).expect("a rename");
    // A file that is not a key, and a folder, which even root can not read as a file.
    for broken in [Some("not a key"), None] {
        match broken {
            Some(text) => std::fs::write(&key, text).expect("a write"),
            None => std::fs::create_dir(&key).expect("a folder"),
        }
        let (log, queue, changes) = open(&directory, limits());
        changes.append(added("unsigned"), None);
        queue.hand_over(Deed("unsigned".into()));
        changes.close().await;
        assert!(log.checkpoint().await.expect_err("nothing to sign with").to_string().contains("no key"));
        let all = ChangeQuery { from: QueryStart::After(0), limit: 100, max_bytes: usize::MAX };
        assert_eq!(log.read(all).await.expect("rows").rows.len(), 1, "kept in memory");
        log.close().await;
        drop((log, queue, changes));
        says(&proof(&directory, &[]), "so nobody knows who signed");
        if broken.is_some() { std::fs::remove_file(&key) } else { std::fs::remove_dir(&key) }.expect("a removal");
    }
    std::fs::rename(&aside, &key).expect("a rename");
    record(&directory, limits()).await;
    let report = proof(&directory, &[]);
    assert!(report.holds(), "{report:?}");
    assert_eq!((report.changes.records, report.audit.records), (20, 22));
}

#[tokio::test]
async fn a_process_that_ended_while_it_made_the_key_is_not_taken_for_tampering() {
    // Before anything was written; before the seals were; and before the key got its name.
    for stage in 0..3 {
        let directory = TempDir::new();
        if stage == 0 {
            std::fs::write(directory.join("chain.key"), "").expect("a write");
        } else {
            drop(Store::open(directory.path(), Duration::ZERO));
            std::fs::rename(directory.join("chain.key"), directory.join("chain.key.new")).expect("a rename");
        }
        if stage == 1 {
            std::fs::remove_file(directory.join("tidings.redb")).expect("a removal");
        }
        record(&directory, limits()).await;
        let report = proof(&directory, &[]);
        assert!(report.holds() && report.keys.len() == 1, "{stage}: {report:?}");
        let names = std::fs::read_dir(directory.path()).expect("a listing");
        let mut names: Vec<_> = names.map(|entry| entry.expect("an entry").file_name()).collect();
        names.sort();
        assert_eq!(names, ["chain.key", "tidings.redb"]);
    }
}

#[tokio::test]
async fn a_process_without_a_store_puts_no_checkpoint_into_the_file_of_another() {
    let directory = TempDir::new();
    let file = directory.join("audit.jsonl");
    let sinks = SinkSettings { file: Some(file.clone()), syslog: None };
    let (log, queue) = AuditLog::start(Store::in_memory(), limits(), sinks);
    queue.hand_over(Deed("one".into()));
    assert!(log.checkpoint().await.is_err());
    log.close().await;
    let text = std::fs::read_to_string(&file).expect("the file");
    assert!(text.contains("\"one\"") && !text.contains("checkpoint"), "{text}");
}
