//! How long the last calls of each server took, read from the audit log when somebody looks: so no call costs anything for it (ADR 58).

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Deserialize;
use tidings_store::{ChangeQuery, ChangeRow, QueryStart};

use super::PageServer;

/// How many records are looked at, how large they may be together, and how many calls of one server are shown.
const RECORDS: usize = 500;
const BYTES: usize = 1 << 20;
const CALLS: usize = 16;

/// By server, the oldest first, in microseconds.
#[derive(Default)]
pub(super) struct RecentCalls(HashMap<String, Vec<u64>>);

/// What is needed of a record.
#[derive(Deserialize)]
struct TimedCall<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    server: Option<Cow<'a, str>>,
    #[serde(default)]
    micros: Option<u64>,
}

impl RecentCalls {
    /// Those of the newest records; none where calls are not recorded.
    pub(super) async fn read(page: &PageServer) -> Self {
        let Some(audit) = &page.0.audit else { return Self::default() };
        let newest = ChangeQuery { from: QueryStart::Before(u64::MAX), limit: RECORDS, max_bytes: BYTES };
        // A log that can not be read is said where it is shown.
        Self::of(&audit.read(newest).await.map(|found| found.rows).unwrap_or_default())
    }

    /// Of records, the oldest first.
    fn of(rows: &[ChangeRow]) -> Self {
        let mut calls: HashMap<String, Vec<u64>> = HashMap::new();
        for row in rows.iter().rev() {
            let Ok(call) = serde_json::from_slice::<TimedCall<'_>>(&row.json) else { continue };
            let (Some(server), Some(micros)) = (call.server.filter(|_| call.kind == "call"), call.micros) else {
                continue;
            };
            match calls.get_mut(&*server) {
                Some(known) if known.len() < CALLS => known.push(micros),
                Some(_) => {}
                None => _ = calls.insert(server.into_owned(), vec![micros]),
            }
        }
        calls.values_mut().for_each(|known| known.reverse());
        Self(calls)
    }

    /// Those of one server.
    pub(super) fn take(&mut self, server: &str) -> Vec<u64> {
        self.0.remove(server).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_newest_calls_of_each_server_are_given_the_oldest_first() {
        let row = |seq: u64, record: Value| ChangeRow { seq, time: 0, json: record.to_string().into() };
        let mut rows: Vec<ChangeRow> = (0..40)
            .map(|n| row(n, json!({ "kind": "call", "server": "a", "micros": n, "given": { "x": 1 } })))
            .collect();
        rows.push(row(40, json!({ "kind": "call", "server": "b \"quoted\"", "micros": 7 })));
        rows.push(row(41, json!({ "kind": "refused", "server": "a", "micros": 1 })));
        rows.push(row(42, json!({ "kind": "call", "micros": 1 })));
        rows.push(row(43, json!("no record")));
        let mut calls = RecentCalls::of(&rows);
        assert_eq!(calls.take("a"), (24..40).collect::<Vec<u64>>());
        assert_eq!(calls.take("b \"quoted\""), [7]);
        assert!(calls.take("c").is_empty());
    }
}
