//! Attacks on the seals, and on what decides about compaction.

use super::*;

const CHANGE_FACTS: TableDefinition<'_, &str, u64> = TableDefinition::new("changes_facts");
const AUDIT_FACTS: TableDefinition<'_, &str, u64> = TableDefinition::new("audit_facts");

/// A line without its hash, and with another content.
fn unchained(line: &str) -> String {
    let bare = match line.split_once(",\"prev\":\"") {
        Some((head, rest)) => format!("{head}{}", &rest[65..]),
        // It stands behind one that has the hash for both.
        None => line.to_owned(),
    };
    bare.replace("deed-4", "deed-X").replace("tool-4", "tool-X")
}

/// Both logs as if they were from before there was a chain.
fn unchain(database: &Database) {
    let write = database.begin_write().expect("a transaction");
    {
        let mut rows = write.open_table(CHANGES).expect("the table");
        let all: Vec<(u64, u64, String)> = rows
            .iter()
            .expect("a read")
            .map(|row| row.expect("a row"))
            .map(|(seq, row)| (seq.value(), row.value().0, String::from_utf8_lossy(row.value().1).into_owned()))
            .collect();
        for (seq, time, line) in all {
            rows.insert(seq, (time, unchained(&line).as_bytes())).expect("a write");
        }
        let mut seals = write.open_table(SEALS).expect("the table");
        seals.remove("audit").expect("a removal");
        seals.remove("changes").expect("a removal");
    }
    write.commit().expect("a commit");
    rewrite_blocks(database, |text| {
        let lines = text.lines().filter(|line| !line.contains("checkpoint"));
        lines.map(|line| format!("{}\n", unchained(line))).collect()
    });
}

fn remove_all(database: &Database) {
    let write = database.begin_write().expect("a transaction");
    write.open_table(AUDIT).expect("the table").retain(|_, _| false).expect("a removal");
    write.open_table(CHANGES).expect("the table").retain(|_, _| false).expect("a removal");
    write.open_table(SEALS).expect("the table").retain(|_, _| false).expect("a removal");
    write.commit().expect("a commit");
}

#[tokio::test]
async fn logs_whose_hashes_and_seals_were_taken_away_are_not_taken_for_those_of_an_earlier_version() {
    for attacker in [unchain as fn(&Database), remove_all] {
        let directory = TempDir::new();
        record(&directory, limits()).await;
        attack(&directory, attacker);
        let report = proof(&directory, &[]);
        says(&report, "audit: the seal is missing");
        says(&report, "changes: the seal is missing");
        // Nor does the gateway sign it for what it says that it is.
        record(&directory, limits()).await;
        let report = proof(&directory, &[]);
        says(&report, "audit: after record");
        says(&report, "changes: after record");
        assert_eq!(report.audit.unchained + report.changes.unchained, 0, "{report:?}");
    }
}

#[tokio::test]
async fn changes_of_an_earlier_version_are_no_fault() {
    let directory = TempDir::new();
    record(&directory, limits()).await;
    // What an earlier version left: rows without hashes, and neither seals nor a key.
    attack(&directory, |database| {
        unchain(database);
        let write = database.begin_write().expect("a transaction");
        write.delete_table(AUDIT).expect("a removal");
        write.delete_table(SEALS).expect("a removal");
        write.commit().expect("a commit");
    });
    std::fs::remove_file(directory.join("chain.key")).expect("a removal");
    let report = proof(&directory, &[]);
    assert!(report.holds() && report.changes.unchained == 10, "{report:?}");
    record(&directory, limits()).await;
    let report = proof(&directory, &[]);
    assert!(report.holds(), "{report:?}");
    assert_eq!((report.changes.unchained, report.changes.records, report.audit.records), (10, 10, 11));
}

#[tokio::test]
async fn a_store_that_was_deleted_beside_its_key_is_found() {
    let directory = TempDir::new();
    record(&directory, limits()).await;
    proof(&directory, &[]);
    std::fs::remove_file(directory.join("tidings.redb")).expect("a removal");
    says(&VerifyReport::without_store(directory.path()), "all records are missing");
    assert!(VerifyReport::without_store(TempDir::new().path()).holds(), "there never was one");
    record(&directory, limits()).await;
    let report = proof(&directory, &[]);
    says(&report, "audit: after record 0");
    says(&report, "changes: after record 0");
}

/// A seal that says that everything was compacted, with the hash that a gateway once went on from.
fn forge(database: &Database, seq: u64) {
    let write = database.begin_write().expect("a transaction");
    {
        write.open_table(AUDIT).expect("the table").retain(|_, _| false).expect("a removal");
        let mut seals = write.open_table(SEALS).expect("the table");
        let old = seals.get("audit").expect("a read").expect("a seal").value().to_vec();
        let mut seal: serde_json::Value = serde_json::from_slice(&old).expect("JSON");
        let place = serde_json::json!({ "seq": seq, "hash": blake3::hash(b"broken seal").to_hex().to_string() });
        seal["began"] = seq.into();
        seal["from"] = place.clone();
        seal["to"] = place;
        seals.insert("audit", seal.to_string().as_bytes()).expect("a write");
    }
    write.commit().expect("a commit");
}

#[tokio::test]
async fn a_forged_seal_is_never_healed_and_no_number_of_it_is_believed() {
    for seq in [11, u64::MAX] {
        let directory = TempDir::new();
        record(&directory, limits()).await;
        attack(&directory, |database| forge(database, seq));
        says(&proof(&directory, &[]), "audit: the seal was altered");
        // The mark stays, also when everything from before is gone.
        for round in 1..=4_u64 {
            record(&directory, AuditLimits { max_records: 11, ..limits() }).await;
            let report = proof(&directory, &[]);
            says(&report, "audit: after record 0 the log was found not to be what was signed");
            assert_eq!(report.audit.last, 11 * round, "{report:?}");
        }
        // Without the mark the signature is not right.
        attack(&directory, |database| {
            let write = database.begin_write().expect("a transaction");
            {
                let mut seals = write.open_table(SEALS).expect("the table");
                let old = seals.get("audit").expect("a read").expect("a seal").value().to_vec();
                let mut seal: serde_json::Value = serde_json::from_slice(&old).expect("JSON");
                seal.as_object_mut().expect("a seal").remove("broken").expect("the mark");
                seals.insert("audit", seal.to_string().as_bytes()).expect("a write");
            }
            write.commit().expect("a commit");
        });
        says(&proof(&directory, &[]), "audit: the seal was altered");
        record(&directory, limits()).await;
        says(&proof(&directory, &[]), "audit: after record 44 the log was found");
    }
}

#[tokio::test]
async fn times_and_counts_that_are_not_signed_make_nobody_compact() {
    let directory = TempDir::new();
    let kept = record(&directory, limits()).await;
    attack(&directory, |database| {
        rewrite_blocks(database, str::to_owned);
        let write = database.begin_write().expect("a transaction");
        {
            let mut blocks = write.open_table(AUDIT).expect("the table");
            let (first, lines) = {
                let (first, block) = blocks.first().expect("a read").expect("a block");
                (first.value(), block.value().2.to_vec())
            };
            blocks.insert(first, (0, 1 << 40, &lines[..])).expect("a write");
            let mut rows = write.open_table(CHANGES).expect("the table");
            let row = rows.get(1).expect("a read").expect("a row").value().1.to_vec();
            rows.insert(1, (0, &row[..])).expect("a write");
            for (facts, names) in [(AUDIT_FACTS, ["count", "bytes"]), (CHANGE_FACTS, ["bytes", "bytes"])] {
                let mut facts = write.open_table(facts).expect("the table");
                for name in names {
                    facts.insert(name, 1 << 40).expect("a write");
                }
            }
        }
        write.commit().expect("a commit");
    });
    record(&directory, limits()).await;
    let report = proof(&directory, &[kept]);
    assert_eq!(report.faults.len(), 1, "{report:?}");
    // Readers find their way by it.
    says(&report, "audit: the row of record 1 is not described as it is");
    assert_eq!(
        (report.audit.records, report.changes.records, report.checkpoints),
        (22, 20, 3),
        "nothing was compacted"
    );
}

#[tokio::test]
async fn what_was_altered_and_then_compacted_stays_a_fault() {
    let directory = TempDir::new();
    record(&directory, limits()).await;
    attack(&directory, |database| rewrite_blocks(database, |text| text.replace("deed-4", "deed-X")));
    record(&directory, AuditLimits { max_records: 11, ..limits() }).await;
    let report = proof(&directory, &[]);
    assert_eq!(report.audit.compacted_to, 11, "{report:?}");
    says(&report, "audit: after record 22 the log was found not to be what was signed");
}

#[tokio::test]
async fn a_checkpoint_of_what_was_compacted_agrees_only_if_a_later_one_was_signed() {
    let directory = TempDir::new();
    let few = AuditLimits { max_records: 11, ..limits() };
    let kept = record(&directory, few.clone()).await;
    // Written and compacted without a checkpoint.
    let (log, queue, changes) = open(&directory, few.clone());
    (0..30).for_each(|number| queue.hand_over(Deed(format!("more-{number}"))));
    log.close().await;
    changes.close().await;
    drop((log, queue, changes));
    let report = proof(&directory, std::slice::from_ref(&kept));
    assert_eq!((report.checkpoints, report.uncompared), (0, 1), "{report:?}");
    says(&report, "no checkpoint that was given can be compared");
    record(&directory, AuditLimits { max_records: 100, ..limits() }).await;
    let report = proof(&directory, &[kept]);
    assert!(report.holds() && report.uncompared == 0, "{report:?}");
}
