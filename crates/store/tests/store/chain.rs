//! Attacks on what is recorded, played on the file itself.

mod compact;
mod key;
mod seals;

use std::time::{Duration, Instant};

use redb::{Builder, Database, ReadableTable as _, TableDefinition};
use tidings_store::{
    AuditEntry, AuditLimits, AuditLog, AuditQueue, ChangeLog, ChangeQuery, Checkpoint, EntrySheet, LogLimits,
    QueryStart, SinkSettings, Store, VerifyReport, verify,
};
use tidings_testkit::TempDir;

use super::added;

const CHANGES: TableDefinition<'_, u64, (u64, &[u8])> = TableDefinition::new("changes");
const AUDIT: TableDefinition<'_, u64, (u64, u64, &[u8])> = TableDefinition::new("audit");
const SEALS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("seals");

#[derive(Debug)]
struct Deed(String);

impl AuditEntry for Deed {
    type Memo = ();

    fn moment(&self) -> Instant {
        Instant::now()
    }

    fn write(self, (): &mut (), sheet: EntrySheet<'_>) {
        let text = format!("\"kind\":\"call\",\"tool\":\"{}\"", self.0);
        sheet.members(|members| members.extend_from_slice(text.as_bytes()));
    }
}

fn limits() -> AuditLimits {
    AuditLimits { max_age: Duration::from_secs(3600), max_records: 1_000, max_bytes: 16 << 20, max_waiting: 1 << 20 }
}

fn open(directory: &TempDir, limits: AuditLimits) -> (AuditLog, AuditQueue<()>, ChangeLog) {
    let store = Store::open(directory.path(), Duration::from_secs(2));
    assert!(store.is_kept());
    let (log, queue) = AuditLog::start(store.clone(), limits, SinkSettings::default());
    (log, queue, ChangeLog::start(move || store, LogLimits::default()))
}

/// Ten changes and ten deeds with a checkpoint after them, all of it on disk.
async fn record(directory: &TempDir, limits: AuditLimits) -> Checkpoint {
    let (log, queue, changes) = open(directory, limits);
    for number in 0..10 {
        changes.append(added(&format!("tool-{number}")), None);
        queue.hand_over(Deed(format!("deed-{number}")));
    }
    changes.close().await;
    let checkpoint = log.checkpoint().await.expect("a checkpoint");
    log.close().await;
    checkpoint
}

fn proof(directory: &TempDir, given: &[Checkpoint]) -> VerifyReport {
    let until = Instant::now() + Duration::from_secs(5);
    loop {
        match Store::existing(directory.path()) {
            Ok(store) => return verify(&store.expect("a store"), given, None).expect("a report"),
            // The threads of the logs let go of it a moment after they said that they are done.
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Somebody who can write to the file, and has no key.
fn attack(directory: &TempDir, with: impl FnOnce(&Database)) {
    let until = Instant::now() + Duration::from_secs(5);
    let database = loop {
        match Builder::new().open(directory.path().join("tidings.redb")) {
            Ok(database) => break database,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    with(&database);
}

/// Every row of the audit log, from the first on: what was written together is one.
fn rewrite_blocks(database: &Database, mut change: impl FnMut(&str) -> String) {
    let write = database.begin_write().expect("a transaction");
    {
        let mut blocks = write.open_table(AUDIT).expect("the table");
        let all = blocks.iter().expect("a read").map(|row| row.expect("a row"));
        let all: Vec<(u64, u64, u64, String)> = all
            .map(|(first, block)| {
                let (time, count, lines) = block.value();
                (first.value(), time, count, String::from_utf8(lines.to_vec()).expect("text"))
            })
            .collect();
        for (first, time, count, text) in all {
            blocks.insert(first, (time, count, change(&text).as_bytes())).expect("a write");
        }
    }
    write.commit().expect("a commit");
}

fn says(report: &VerifyReport, what: &str) {
    assert!(
        !report.holds() && report.faults.iter().any(|fault| fault.contains(what)),
        "{what:?} in {:?}",
        report.faults
    );
}

#[tokio::test]
async fn records_that_nobody_touched_are_proved() {
    let directory = TempDir::new();
    let first = record(&directory, limits()).await;
    let report = proof(&directory, std::slice::from_ref(&first));
    assert!(report.holds(), "{report:?}");
    assert_eq!((report.changes.records, report.audit.records, report.checkpoints), (10, 11, 2));
    assert_eq!((first.changes.seq, first.audit.seq), (10, 10));
    // A second process goes on where the first ended.
    record(&directory, limits()).await;
    let report = proof(&directory, &[first]);
    assert!(report.holds(), "{report:?}");
    assert_eq!((report.changes.records, report.audit.records, report.keys.len()), (20, 22, 1));
}

#[tokio::test]
async fn a_removed_an_altered_and_a_moved_change_are_found() {
    for (what, found) in [
        ("removed", "changes: records 5 to 5 are missing"),
        ("altered", "changes: record 5 or 6 was altered"),
        ("moved", "changes: record 5 was altered or moved"),
    ] {
        let directory = TempDir::new();
        record(&directory, limits()).await;
        attack(&directory, |database| {
            let write = database.begin_write().expect("a transaction");
            {
                let mut rows = write.open_table(CHANGES).expect("the table");
                let row = |rows: &redb::Table<'_, u64, (u64, &[u8])>, seq| {
                    let row = rows.get(seq).expect("a read").expect("a row");
                    (row.value().0, row.value().1.to_vec())
                };
                let (five, six) = (row(&rows, 5), row(&rows, 6));
                match what {
                    "removed" => drop(rows.remove(5).expect("a removal")),
                    "altered" => {
                        let text = String::from_utf8_lossy(&five.1).replace("tool-4", "tool-X");
                        rows.insert(5, (five.0, text.as_bytes())).expect("a write");
                    }
                    _ => {
                        rows.insert(5, (six.0, &six.1[..])).expect("a write");
                        rows.insert(6, (five.0, &five.1[..])).expect("a write");
                    }
                }
            }
            write.commit().expect("a commit");
        });
        says(&proof(&directory, &[]), found);
        // A gateway that writes on does not heal it.
        record(&directory, limits()).await;
        says(&proof(&directory, &[]), found);
    }
}

/// Says that a record was altered: it, or one of those that were written together with it.
fn says_altered(report: &VerifyReport, log: &str, record: u64) {
    let numbers = |fault: &str| -> Vec<u64> {
        fault.split(|letter: char| !letter.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
    };
    let names = |fault: &&String| {
        let numbers = numbers(fault);
        let range = numbers.iter().min().zip(numbers.iter().max());
        fault.starts_with(log) && fault.contains("altered") && range.is_some_and(|(a, b)| (*a..=*b).contains(&record))
    };
    assert!(report.faults.iter().any(|fault| names(&fault)), "{record} in {:?}", report.faults);
}

#[tokio::test]
async fn a_removed_an_altered_and_a_moved_audit_record_are_found() {
    type Rewrite = fn(&str) -> String;
    let altered: Rewrite = |text| text.replace("deed-4", "deed-X");
    let last_altered: Rewrite = |text| text.replace("\"signature\":\"", "\"signature\":\"00");
    let removed: Rewrite =
        |text| text.lines().filter(|line| !line.contains("deed-4")).map(|line| format!("{line}\n")).collect();
    let moved: Rewrite = |text| {
        let mut lines: Vec<&str> = text.lines().collect();
        if let Some(at) = lines.windows(2).position(|pair| pair[0].contains("deed-3") && pair[1].contains("deed-4")) {
            lines.swap(at, at + 1);
        }
        lines.iter().map(|line| format!("{line}\n")).collect()
    };
    for (rewrite, record_found) in [(altered, 5), (last_altered, 11), (removed, 5), (moved, 4)] {
        let directory = TempDir::new();
        record(&directory, limits()).await;
        attack(&directory, |database| rewrite_blocks(database, rewrite));
        says_altered(&proof(&directory, &[]), "audit: ", record_found);
        record(&directory, limits()).await;
        assert!(!proof(&directory, &[]).holds(), "not healed by going on: {record_found}");
    }
}

// T: records that were written together have one hash; each byte of each of them counts.
#[tokio::test]
async fn whatever_byte_of_the_audit_log_is_changed_it_is_found() {
    let directory = TempDir::new();
    record(&directory, limits()).await;
    let flip = |nth: usize| {
        let mut passed = 0;
        attack(&directory, |database| {
            rewrite_blocks(database, |text| {
                let mut bytes = text.as_bytes().to_vec();
                if let Some(byte) = nth.checked_sub(passed).and_then(|at| bytes.get_mut(at)) {
                    // Another character, and never one that is not text.
                    *byte ^= 1;
                }
                passed += bytes.len();
                String::from_utf8(bytes).expect("text")
            });
        });
        passed
    };
    let length = flip(usize::MAX);
    for nth in (0..length).step_by(37) {
        flip(nth);
        assert!(!proof(&directory, &[]).holds(), "byte {nth} of {length}");
        flip(nth);
    }
    assert!(proof(&directory, &[]).holds(), "all as it was");
}

#[tokio::test]
async fn a_tail_that_is_cut_off_is_found_also_when_the_gateway_writes_on() {
    let directory = TempDir::new();
    let checkpoint = record(&directory, limits()).await;
    attack(&directory, |database| {
        let mut left = 8;
        rewrite_blocks(database, |text| {
            let kept: Vec<&str> = text.lines().take(left).collect();
            left -= kept.len();
            kept.iter().map(|line| format!("{line}\n")).collect()
        });
    });
    says(&proof(&directory, std::slice::from_ref(&checkpoint)), "audit: records 9 to 11 are missing at the end");
    record(&directory, limits()).await;
    says(&proof(&directory, &[]), "audit: records 9 to 11 are missing");
}

#[tokio::test]
async fn a_seal_that_somebody_else_made_or_took_away_is_found() {
    for take_away in [false, true] {
        let directory = TempDir::new();
        record(&directory, limits()).await;
        attack(&directory, |database| {
            let write = database.begin_write().expect("a transaction");
            {
                let mut rows = write.open_table(CHANGES).expect("the table");
                rows.remove(10).expect("a removal");
                let hash = blake3::hash(rows.get(9).expect("a read").expect("a row").value().1).to_hex().to_string();
                let mut seals = write.open_table(SEALS).expect("the table");
                let old = seals.get("changes").expect("a read").expect("a seal").value().to_vec();
                let mut seal: serde_json::Value = serde_json::from_slice(&old).expect("JSON");
                seal["to"] = serde_json::json!({ "seq": 9, "hash": hash });
                if take_away {
                    seals.remove("changes").expect("a removal");
                } else {
                    seals.insert("changes", seal.to_string().as_bytes()).expect("a write");
                }
            }
            write.commit().expect("a commit");
        });
        says(
            &proof(&directory, &[]),
            if take_away { "changes: the seal is missing" } else { "changes: the seal was altered" },
        );
        // The gateway signs what it writes from now on; what was before it does not become right by that.
        record(&directory, limits()).await;
        assert!(!proof(&directory, &[]).holds());
    }
}

#[tokio::test]
async fn a_store_that_was_written_anew_with_another_key_contradicts_a_checkpoint_that_was_kept() {
    let directory = TempDir::new();
    let kept = record(&directory, limits()).await;
    std::fs::remove_file(directory.path().join("tidings.redb")).expect("a removal");
    std::fs::remove_file(directory.path().join("chain.key")).expect("a removal");
    record(&directory, limits()).await;
    assert!(proof(&directory, &[]).holds(), "by itself it is whole");
    let report = proof(&directory, std::slice::from_ref(&kept));
    says(&report, "audit: record 10 was altered");
    says(&report, "changes: record 10 was altered");
    assert_eq!(report.keys.len(), 2);
    let store = Store::existing(directory.path()).expect("a store").expect("a store");
    says(&verify(&store, &[], Some(&kept.key)).expect("a report"), "signed by another key");
}

#[tokio::test]
async fn what_is_compacted_leaves_its_hash() {
    let directory = TempDir::new();
    let few = AuditLimits { max_records: 30, ..limits() };
    let first = record(&directory, few.clone()).await;
    for _ in 0..5 {
        record(&directory, few.clone()).await;
    }
    let report = proof(&directory, &[first]);
    assert!(report.holds(), "{report:?}");
    assert!(report.audit.compacted_to >= 33 && report.audit.records <= 33, "{report:?}");
    // Somebody takes away the oldest that are left, as if they had been compacted.
    attack(&directory, |database| {
        let write = database.begin_write().expect("a transaction");
        write.open_table(AUDIT).expect("the table").pop_first().expect("a removal");
        write.commit().expect("a commit");
    });
    says(&proof(&directory, &[]), "are missing");
}

#[tokio::test]
async fn what_does_not_fit_into_the_queue_is_told_by_the_log_itself() {
    let directory = TempDir::new();
    let (log, queue, changes) = open(&directory, AuditLimits { max_waiting: 1_000, ..limits() });
    for number in 0..1_000 {
        queue.hand_over(Deed(format!("deed-{number}")));
    }
    let all = ChangeQuery { from: QueryStart::After(0), limit: usize::MAX, max_bytes: usize::MAX };
    log.checkpoint().await.expect("a checkpoint");
    let rows = log.read(all).await.expect("rows").rows;
    let lost = |line: &[u8]| serde_json::from_slice::<serde_json::Value>(line).expect("JSON")["lost"].as_u64();
    let lost: u64 = rows.iter().filter_map(|row| lost(&row.json)).sum();
    let deeds = rows.iter().filter(|row| String::from_utf8_lossy(&row.json).contains("deed-")).count() as u64;
    assert!(lost > 0 && lost + deeds == 1_000 && log.dropped() == lost, "{lost} and {deeds}");
    log.close().await;
    changes.close().await;
    drop((log, queue, changes));
    assert!(proof(&directory, &[]).holds());
}

#[tokio::test]
async fn a_reader_finds_records_by_number_and_follows() {
    let directory = TempDir::new();
    record(&directory, limits()).await;
    let (log, queue, _changes) = open(&directory, limits());
    let numbers = async |from, limit| {
        let rows = log.read(ChangeQuery { from, limit, max_bytes: usize::MAX }).await.expect("rows").rows;
        rows.iter().map(|row| row.seq).collect::<Vec<_>>()
    };
    assert_eq!(numbers(QueryStart::After(9), 100).await, [10, 11]);
    assert_eq!(numbers(QueryStart::Newest, 2).await, [10, 11]);
    assert_eq!(numbers(QueryStart::Time(0), 3).await, [1, 2, 3]);
    assert!(numbers(QueryStart::After(11), 100).await.is_empty());
    let mut tail = log.follow(None).await.expect("a tail");
    queue.hand_over(Deed("next".into()));
    assert_eq!(tail.next().await.expect("a record")[0].seq, 12);
}

#[tokio::test]
async fn sinks_have_every_line_that_the_store_has() {
    let directory = TempDir::new();
    let (file, socket) = (directory.path().join("audit.jsonl"), directory.path().join("log"));
    let syslog = std::os::unix::net::UnixDatagram::bind(&socket).expect("a socket");
    syslog.set_read_timeout(Some(Duration::from_secs(5))).expect("a deadline");
    let store = Store::open(directory.path(), Duration::ZERO);
    let sinks = SinkSettings { file: Some(file.clone()), syslog: Some(socket) };
    let (log, queue) = AuditLog::start(store, limits(), sinks);
    queue.hand_over(Deed("one".into()));
    log.checkpoint().await.expect("a checkpoint");
    let text = std::fs::read_to_string(&file).expect("the file");
    let all = ChangeQuery { from: QueryStart::After(0), limit: 10, max_bytes: usize::MAX };
    let rows = log.read(all).await.expect("rows").rows;
    assert_eq!(
        text.lines().map(str::as_bytes).collect::<Vec<_>>(),
        rows.iter().map(|row| &row.json[..]).collect::<Vec<_>>()
    );
    let mut heard = [0; 4096];
    let length = syslog.recv(&mut heard).expect("a message");
    let heard = String::from_utf8_lossy(&heard[..length]).into_owned();
    assert!(heard.starts_with("<110>") && heard.ends_with(text.lines().next().expect("a line")), "{heard}");
    let given: Vec<Checkpoint> = text.lines().filter_map(|line| Checkpoint::read(line.as_bytes())).collect();
    assert_eq!(given.len(), 1);
    assert!(log.verify(given, None).await.expect("a report").holds());
}
