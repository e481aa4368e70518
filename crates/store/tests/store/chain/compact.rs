//! Calls in the compact form: what is read of them, and what is found when somebody touches them.

use redb::ReadableDatabase as _;
use serde_json::Value;
use tidings_store::{CallCourse, CallEnding};

use super::*;

/// The nth call, of one of a few tools.
#[derive(Debug)]
struct Call(u64);

impl Call {
    fn hash(&self) -> [u8; 32] {
        [u8::try_from(self.0 % 200).expect("small"); 32]
    }
}

impl AuditEntry for Call {
    type Memo = ();

    fn moment(&self) -> Instant {
        Instant::now()
    }

    fn write(self, (): &mut (), sheet: EntrySheet<'_>) {
        let (hash, tool) = (self.hash(), format!("tool-{}", self.0 % 3));
        let more = if self.0 % 7 == 6 { &b",\"would_deny\":\"rule\""[..] } else { &[] };
        let ending = match self.0 % 5 {
            0 => CallEnding::Error(-32_602),
            1 => CallEnding::Cancelled,
            2 => CallEnding::Abandoned,
            _ => CallEnding::Answered(self.0 * 1_000),
        };
        let arguments = (self.0 % 4 != 3).then_some((&hash, self.0));
        let course = CallCourse { arguments, more, ending, micros: self.0 * 17 };
        let subject = format!("\"kind\":\"call\",\"method\":\"tools/call\",\"name\":\"{tool}\",\"principal\":\"p\"");
        let parts = [&b"tools/call"[..], b"", tool.as_bytes(), b"p", b"", b""];
        sheet.call(&parts, |members| members.extend_from_slice(subject.as_bytes()), &course);
    }
}

fn all() -> ChangeQuery {
    ChangeQuery { from: QueryStart::After(0), limit: usize::MAX, max_bytes: usize::MAX }
}

/// Hands over calls of these numbers, with a text among them, and gives what the log says then.
async fn record_calls(directory: &TempDir, limits: AuditLimits, sinks: SinkSettings, calls: u64) -> Vec<String> {
    let store = Store::open(directory.path(), Duration::from_secs(5));
    assert!(store.is_kept());
    let (log, queue) = AuditLog::start(store, limits, sinks);
    for number in 0..calls {
        queue.hand_over(Call(number));
        if number == 5 {
            queue.hand_over(Deed("between".into()));
        }
    }
    log.checkpoint().await.expect("a checkpoint");
    let rows = log.read(all()).await.expect("rows").rows;
    log.close().await;
    rows.iter().map(|row| String::from_utf8(row.json.to_vec()).expect("text")).collect()
}

/// As [`rewrite_blocks`], of bytes.
fn rewrite_rows(database: &Database, mut change: impl FnMut(u64, &mut Vec<u8>)) {
    let write = database.begin_write().expect("a transaction");
    {
        let mut blocks = write.open_table(AUDIT).expect("the table");
        let all = blocks.iter().expect("a read").map(|row| row.expect("a row"));
        let all: Vec<(u64, u64, u64, Vec<u8>)> = all
            .map(|(first, block)| (first.value(), block.value().0, block.value().1, block.value().2.to_vec()))
            .collect();
        for (first, time, count, mut row) in all {
            change(first, &mut row);
            blocks.insert(first, (time, count, &row[..])).expect("a write");
        }
    }
    write.commit().expect("a commit");
}

/// How many rows are in the compact form, and how many are lines.
fn forms(directory: &TempDir) -> (usize, usize) {
    let mut forms = (0, 0);
    attack(directory, |database| {
        let read = database.begin_read().expect("a read");
        for row in read.open_table(AUDIT).expect("the table").iter().expect("a read") {
            match row.expect("a row").1.value().2.first() {
                Some(b'{') => forms.1 += 1,
                _ => forms.0 += 1,
            }
        }
    });
    forms
}

/// A record without what is different in each log.
fn said(line: &str) -> Value {
    let mut record: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    for member in ["prev", "time", "audit", "changes", "key", "signature"] {
        record.as_object_mut().expect("an object").remove(member);
    }
    record
}

#[tokio::test]
async fn records_in_both_forms_say_the_same_and_their_members_stand_in_the_same_order() {
    let (compact, lines) = (TempDir::new(), TempDir::new());
    let file = lines.path().join("audit.jsonl");
    let sinks = SinkSettings { file: Some(file.clone()), syslog: None };
    let one = record_calls(&compact, limits(), SinkSettings::default(), 40).await;
    let other = record_calls(&lines, limits(), sinks, 40).await;
    assert!(proof(&compact, &[]).holds() && proof(&lines, &[]).holds());
    assert!(forms(&compact).0 > 0 && forms(&lines).0 == 0, "{:?}", (forms(&compact), forms(&lines)));
    assert_eq!(one.len(), 42, "with the text and the checkpoint");
    assert_eq!(
        one.iter().map(|line| said(line)).collect::<Vec<_>>(),
        other.iter().map(|line| said(line)).collect::<Vec<_>>()
    );
    let order = |line: &str| -> Vec<String> {
        let mut names: Vec<String> = serde_json::from_str::<indexed::Names>(line).expect("JSON").0;
        names.retain(|name| name != "prev");
        names
    };
    assert!(one.iter().zip(&other).all(|(one, other)| order(one) == order(other)));
    assert_eq!(std::fs::read_to_string(file).expect("the file").lines().collect::<Vec<_>>(), other);
}

/// The names of an object's members as they stand in it.
mod indexed {
    use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};

    pub(super) struct Names(pub(super) Vec<String>);

    impl<'de> Deserialize<'de> for Names {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct InOrder;
            impl<'de> Visitor<'de> for InOrder {
                type Value = Names;

                fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    formatter.write_str("an object")
                }

                fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Names, A::Error> {
                    let mut names = Vec::new();
                    while let Some((name, _)) = members.next_entry::<String, IgnoredAny>()? {
                        names.push(name);
                    }
                    Ok(Names(names))
                }
            }
            deserializer.deserialize_map(InOrder)
        }
    }
}

#[tokio::test]
async fn a_log_that_has_lines_goes_on_in_the_compact_form_and_back() {
    let directory = TempDir::new();
    let sinks = SinkSettings { file: Some(directory.path().join("audit.jsonl")), syslog: None };
    // As an earlier version left it: lines alone.
    record_calls(&directory, limits(), sinks.clone(), 30).await;
    assert_eq!(forms(&directory).0, 0);
    record_calls(&directory, limits(), SinkSettings::default(), 30).await;
    let records = record_calls(&directory, limits(), sinks, 30).await;
    let (compact, lines) = forms(&directory);
    assert!(compact > 0 && lines > 2, "{compact} and {lines}");
    let numbers: Vec<u64> = records.iter().map(|line| said(line)["seq"].as_u64().expect("a number")).collect();
    assert_eq!(numbers, (1..=3 * 32).collect::<Vec<u64>>());
    let report = proof(&directory, &[]);
    assert!(report.holds() && report.audit.records == 3 * 32, "{report:?}");
}

// T: each byte of a row in the compact form counts.
#[tokio::test]
async fn whatever_byte_of_a_compact_row_is_changed_it_is_found() {
    let directory = TempDir::new();
    record_calls(&directory, limits(), SinkSettings::default(), 40).await;
    let flip = |nth: usize| {
        let mut passed = 0;
        attack(&directory, |database| {
            rewrite_rows(database, |_, row| {
                if let Some(byte) = nth.checked_sub(passed).and_then(|at| row.get_mut(at)) {
                    *byte ^= 1;
                }
                passed += row.len();
            });
        });
        passed
    };
    let length = flip(usize::MAX);
    // All of the head of the first row, and some of the rest.
    for nth in (0..60).chain((60..length).step_by(29)) {
        flip(nth);
        assert!(!proof(&directory, &[]).holds(), "byte {nth} of {length}");
        flip(nth);
    }
    assert!(proof(&directory, &[]).holds(), "all as it was");
}

#[tokio::test]
async fn a_removed_an_altered_and_a_moved_call_are_found() {
    type Touch = fn(&mut Vec<u8>);
    let altered: Touch = |row| swap(row, 20, 70);
    let moved: Touch = |row| swap(row, 20, 21);
    let removed: Touch = |row| row.truncate(row.len() - 3);
    let emptied: Touch = |row| row.truncate(10);
    for (what, touch) in [("altered", altered), ("moved", moved), ("removed", removed), ("emptied", emptied)] {
        let directory = TempDir::new();
        record_calls(&directory, limits(), SinkSettings::default(), 40).await;
        attack(&directory, |database| {
            rewrite_rows(database, |_, row| {
                if row.first() != Some(&b'{') {
                    touch(row);
                }
            });
        });
        assert!(!proof(&directory, &[]).holds(), "{what}");
        // A gateway that writes on does not heal it, and can be read.
        let records = record_calls(&directory, limits(), SinkSettings::default(), 40).await;
        assert!(!proof(&directory, &[]).holds() && records.len() >= 42, "{what}");
        assert!(records.iter().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{what}");
    }
}

/// Puts the hash of one call in the place of that of another, and the other way round if both are there.
fn swap(row: &mut [u8], one: u64, other: u64) {
    let place = |row: &[u8], number: u64| row.windows(32).position(|part| part == Call(number).hash());
    let (first, second) = (place(row, one), place(row, other));
    if let Some(first) = first {
        row[first..first + 32].copy_from_slice(&Call(other).hash());
    }
    if let Some(second) = second {
        row[second..second + 32].copy_from_slice(&Call(one).hash());
    }
}

#[tokio::test]
async fn a_row_that_is_taken_out_is_missing() {
    let directory = TempDir::new();
    for _ in 0..2 {
        record_calls(&directory, limits(), SinkSettings::default(), 20).await;
    }
    attack(&directory, |database| {
        let write = database.begin_write().expect("a transaction");
        // The first row of the second process.
        write.open_table(AUDIT).expect("the table").remove(23).expect("a removal").expect("a row");
        write.commit().expect("a commit");
    });
    says(&proof(&directory, &[]), "are missing");
}

#[tokio::test]
async fn what_is_compacted_leaves_its_hash_and_most_of_what_is_kept_stays() {
    let directory = TempDir::new();
    let few = AuditLimits { max_records: 80, ..limits() };
    for _ in 0..4 {
        // More in one transaction than are kept.
        let records = record_calls(&directory, few.clone(), SinkSettings::default(), 200).await;
        assert!((60..=80).contains(&records.len()), "{}", records.len());
    }
    let report = proof(&directory, &[]);
    assert!(report.holds() && report.audit.compacted_to > 700, "{report:?}");
}

#[tokio::test]
async fn a_reader_finds_calls_by_number_time_and_from_the_end() {
    let directory = TempDir::new();
    // More than a row has.
    record_calls(&directory, AuditLimits { max_records: 100_000, ..limits() }, SinkSettings::default(), 2_500).await;
    let (log, queue, _changes) = open(&directory, limits());
    let numbers = async |from, limit| {
        let rows = log.read(ChangeQuery { from, limit, max_bytes: usize::MAX }).await.expect("rows").rows;
        for row in &rows {
            assert_eq!(said(&String::from_utf8_lossy(&row.json))["seq"], row.seq);
        }
        rows.iter().map(|row| row.seq).collect::<Vec<_>>()
    };
    assert_eq!(numbers(QueryStart::After(1_199), 3).await, [1_200, 1_201, 1_202]);
    assert_eq!(numbers(QueryStart::Before(1_200), 3).await, [1_197, 1_198, 1_199]);
    assert_eq!(numbers(QueryStart::Newest, 2).await, [2_501, 2_502]);
    assert_eq!(numbers(QueryStart::Time(0), 3).await, [1, 2, 3]);
    assert!(numbers(QueryStart::Time(u64::MAX), 3).await.is_empty());
    let mut tail = log.follow(Some(2_400)).await.expect("a tail");
    assert_eq!(tail.next().await.expect("records")[0].seq, 2_401);
    drop(queue);
}

#[tokio::test]
async fn calls_that_do_not_fit_are_counted_and_those_after_them_are_about_what_they_were_about() {
    let directory = TempDir::new();
    let store = Store::open(directory.path(), Duration::from_secs(5));
    let (log, queue) = AuditLog::start(store, AuditLimits { max_waiting: 600, ..limits() }, SinkSettings::default());
    for round in 0..20 {
        (0..50).for_each(|number| queue.hand_over(Call(round * 50 + number)));
        log.checkpoint().await.expect("a checkpoint");
    }
    let rows = log.read(all()).await.expect("rows").rows;
    let records: Vec<Value> = rows.iter().map(|row| serde_json::from_slice(&row.json).expect("JSON")).collect();
    let lost: u64 = records.iter().filter_map(|record| record["lost"].as_u64()).sum();
    let calls: Vec<&Value> = records.iter().filter(|record| record["micros"].is_u64()).collect();
    assert!(lost > 0 && lost + calls.len() as u64 == 1_000 && log.dropped() == lost, "{lost} and {}", calls.len());
    for call in calls {
        let number = call["micros"].as_u64().expect("a number") / 17;
        assert_eq!(call["name"], format!("tool-{}", number % 3));
    }
    log.close().await;
    drop((log, queue));
    assert!(proof(&directory, &[]).holds());
}

// trust (records): what stands beside the records and is in no hash leads readers past none of them
#[tokio::test]
async fn a_row_without_records_and_one_that_is_described_as_another_are_found() {
    type Row = (u64, u64, u64, Vec<u8>);
    let of_nothing: fn(&mut Vec<Row>) = |rows| rows.push((5, rows[0].1, 1, vec![1]));
    let empty: fn(&mut Vec<Row>) = |rows| rows.push((5, rows[0].1, 1, Vec::new()));
    let older: fn(&mut Vec<Row>) = |rows| rows[0].1 = 0;
    let longer: fn(&mut Vec<Row>) = |rows| rows[0].2 += 1;
    let beyond: fn(&mut Vec<Row>) = |rows| {
        let row = rows[0].clone();
        rows.push((u64::MAX, row.1, row.2, row.3));
    };
    for (what, change) in
        [("of nothing", of_nothing), ("empty", empty), ("older", older), ("longer", longer), ("beyond", beyond)]
    {
        let directory = TempDir::new();
        record_calls(&directory, limits(), SinkSettings::default(), 40).await;
        assert!(proof(&directory, &[]).holds());
        attack(&directory, |database| {
            let write = database.begin_write().expect("a transaction");
            {
                let mut blocks = write.open_table(AUDIT).expect("the table");
                let mut all: Vec<Row> = Vec::new();
                for row in blocks.iter().expect("a read") {
                    let (first, block) = row.expect("a row");
                    let (time, count, row) = block.value();
                    all.push((first.value(), time, count, row.to_vec()));
                }
                change(&mut all);
                for (first, time, count, row) in all {
                    blocks.insert(first, (time, count, &row[..])).expect("a write");
                }
            }
            write.commit().expect("a commit");
        });
        assert!(!proof(&directory, &[]).holds(), "{what}");
        // It is read without a fault of the reader, whatever it says.
        let store = Store::open(directory.path(), Duration::from_secs(5));
        let query = ChangeQuery { from: QueryStart::Newest, limit: usize::MAX, max_bytes: usize::MAX };
        assert!(AuditLog::look(&store, query).is_ok(), "{what}");
    }
}
