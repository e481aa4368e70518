//! From what the engine sees done to what the audit log keeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use serde_json::{Value, json};
use tidings_config::AuditSettings;
use tidings_engine::{AuditTrail, AuditedCall, AuditedDecision, CallOutcome, KeptArguments, LONGEST_TEXT};
use tidings_store::{
    AuditEntry, AuditLimits, AuditLog, AuditQueue, CallCourse, CallEnding, EntrySheet, SinkSettings, Store,
    SubjectParts,
};
use tidings_wire::{Digest, append_hex, append_string, one_line};

/// What may wait to be written: with small calls this is 200,000 of them, and some seconds of the fastest.
const WAITING: usize = 16 << 20;
/// How long the names of one decision may be together: approvals name as many as servers offer.
const NAMES: usize = 1 << 20;
/// How many refusals are recorded one by one in a minute: anybody can cause them, and they must not push out the rest.
const REFUSALS: u64 = 10;

/// Starts the audit log of a store, if there is to be one.
pub(crate) fn start(store: &Store, settings: &AuditSettings) -> Option<(AuditLog, Arc<dyn AuditTrail>)> {
    if !settings.enabled {
        return None;
    }
    let limits = AuditLimits {
        max_age: settings.keep,
        max_records: settings.max_records,
        // Four times what records of calls take as lines: those with arguments are longer.
        max_bytes: settings.max_records.saturating_mul(2 << 10),
        max_waiting: WAITING,
    };
    let sinks = SinkSettings { file: settings.file.clone(), syslog: settings.syslog.clone() };
    let (log, queue) = AuditLog::start(store.clone(), limits, sinks);
    let trail = AuditRecorder {
        queue,
        keeps_arguments: settings.arguments,
        begun: Instant::now(),
        refusals: AtomicU64::new(0),
    };
    Some((log, Arc::new(trail)))
}

/// The engine's way to the log.
struct AuditRecorder {
    queue: AuditQueue<LastClient>,
    keeps_arguments: bool,
    begun: Instant,
    /// The minute since the start, in the upper half, and how many were refused in it.
    refusals: AtomicU64,
}

/// A decision, when it was made, and how many of its kind were not recorded before it.
struct RecordedDecision {
    at: Instant,
    decision: AuditedDecision,
    more: u64,
}

struct RecordedCall<'a>(AuditedCall<'a>);

impl AuditTrail for AuditRecorder {
    fn call(&self, call: AuditedCall<'_>) {
        self.queue.hand_over(RecordedCall(call));
    }

    fn decision(&self, decision: AuditedDecision) {
        let mut more = 0;
        if matches!(decision, AuditedDecision::Refused { .. }) {
            match self.admit_refusal() {
                Some(before) => more = before,
                None => return,
            }
        }
        self.queue.hand_over(RecordedDecision { at: Instant::now(), decision: bounded(decision), more });
    }

    fn keeps_arguments(&self) -> bool {
        self.keeps_arguments
    }
}

impl AuditRecorder {
    /// Whether one more refusal is recorded, and how many were not in the minute before.
    fn admit_refusal(&self) -> Option<u64> {
        // From 1, so that the first minute differs from the zero that the counter begins with.
        let minute = self.begun.elapsed().as_secs() / 60 + 1;
        let update = |old: u64| {
            let same = old >> 32 == minute;
            // The lower half holds 2^32 refusals of a minute, which nobody can send: it does not run over into the
            // minute.
            Some(if same { old.saturating_add(1) } else { minute << 32 | 1 })
        };
        // Relaxed: it counts, and orders nothing else.
        let old = self.refusals.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update).unwrap_or_default();
        let counted = old & u64::from(u32::MAX);
        if old >> 32 == minute {
            return (counted < REFUSALS).then_some(0);
        }
        // The first of a minute tells of the one before; the others tell nothing, so that nothing is told twice.
        Some(counted.saturating_sub(REFUSALS))
    }
}

/// The client of the last call whose subject was written out, as it said of itself and as it is recorded: most calls come from few clients, and what
/// they say has to be read as JSON.
#[derive(Debug, Default)]
struct LastClient {
    said: Vec<u8>,
    recorded: Vec<u8>,
}

impl LastClient {
    fn write(&mut self, said: &[u8], members: &mut Vec<u8>) {
        if self.said != said {
            said.clone_into(&mut self.said);
            self.recorded.clear();
            json_or_text(&mut self.recorded, "client", said);
        }
        members.extend_from_slice(&self.recorded);
    }
}

impl AuditEntry for RecordedDecision {
    type Memo = LastClient;

    fn moment(&self) -> Instant {
        self.at
    }

    fn write(self, _: &mut LastClient, sheet: EntrySheet<'_>) {
        let mut record = decision_members(self.decision);
        if self.more > 0 {
            record["more"] = self.more.into();
        }
        let text = record.to_string();
        // Without the braces: these are the members of a record that has begun.
        sheet.members(|members| members.extend_from_slice(&text.as_bytes()[1..text.len() - 1]));
    }
}

impl AuditEntry for RecordedCall<'_> {
    type Memo = LastClient;

    fn moment(&self) -> Instant {
        self.0.ended
    }

    /// There is one for every call, so what is different in each is all that is written, and that not as text.
    fn write(self, last: &mut LastClient, sheet: EntrySheet<'_>) {
        let call = &self.0;
        let ending = match call.outcome {
            CallOutcome::Answered(size) => CallEnding::Answered(size as u64),
            CallOutcome::Refused(code) => CallEnding::Error(code),
            CallOutcome::Cancelled => CallEnding::Cancelled,
            CallOutcome::Abandoned => CallEnding::Abandoned,
        };
        let more = more_members(call);
        let course = CallCourse {
            arguments: call.arguments.as_ref().map(|(digest, size)| (&digest.0, *size as u64)),
            more: &more,
            ending,
            micros: u64::try_from(call.took.as_micros()).unwrap_or(u64::MAX),
        };
        let cuts = is_cut(call).then(|| cuts_of(call));
        let parts: SubjectParts<'_> = [
            call.method.as_str().as_bytes(),
            // A server has a name, and a client that says something says more than nothing.
            call.server.unwrap_or_default().as_bytes(),
            call.name.as_bytes(),
            call.principal.as_bytes(),
            call.client.unwrap_or_default(),
            cuts.as_ref().map_or(&[], |cuts| &cuts[..]),
        ];
        sheet.call(&parts, |members| write_subject(call, last, members), &course);
    }
}

fn is_cut(call: &AuditedCall<'_>) -> bool {
    call.name_cut.is_some() || call.client_cut.is_some()
}

/// What tells something that was cut from what begins in the same way.
fn cuts_of(call: &AuditedCall<'_>) -> Vec<u8> {
    let (digest, name) = call.name_cut.unwrap_or((Digest::NONE, 0));
    let client = call.client_cut.unwrap_or_default();
    [&digest.0[..], &name.to_le_bytes(), &client.to_le_bytes()].concat()
}

/// What a call is about. Whoever adds a member here adds what it depends on to the parts by which a subject is found again.
fn write_subject(call: &AuditedCall<'_>, last: &mut LastClient, members: &mut Vec<u8>) {
    members.extend_from_slice(b"\"kind\":\"call\"");
    text(members, "method", call.method.as_str());
    if let Some(server) = call.server {
        text(members, "server", server);
    }
    text(members, "name", call.name);
    if let Some((digest, size)) = &call.name_cut {
        hashed(members, "name_cut", digest, *size);
    }
    text(members, "principal", call.principal);
    if let Some(client) = call.client.filter(|client| !client.is_empty()) {
        last.write(client, members);
    }
    if let Some(size) = call.client_cut {
        members.extend_from_slice(format!(",\"client_cut\":{{\"bytes\":{size}}}").as_bytes());
    }
}

/// What only some records have. Allocates nothing for the others.
fn more_members(call: &AuditedCall<'_>) -> Vec<u8> {
    let mut members = Vec::new();
    match call.kept_arguments {
        Some(KeptArguments::Whole(arguments)) => json_or_text(&mut members, "given", arguments),
        Some(KeptArguments::TooLong) => members.extend_from_slice(b",\"given_cut\":true"),
        None => {}
    }
    if let Some(rule) = call.would_deny {
        text(&mut members, "would_deny", rule);
    }
    members
}

fn text(members: &mut Vec<u8>, name: &str, value: &str) {
    key(members, name);
    append_string(value, members);
}

/// What is only known by its hash and its size.
fn hashed(members: &mut Vec<u8>, name: &str, digest: &Digest, size: usize) {
    key(members, name);
    members.extend_from_slice(b"{\"hash\":\"");
    append_hex(&digest.0, members);
    members.extend_from_slice(format!("\",\"bytes\":{size}}}").as_bytes());
}

fn key(members: &mut Vec<u8>, name: &str) {
    members.extend_from_slice(b",\"");
    members.extend_from_slice(name.as_bytes());
    members.extend_from_slice(b"\":");
}

/// What a client sent, as the JSON that it is. What not every reader of JSON takes (a number beyond all bounds, half a character, too
/// many brackets) is a text: it must not spoil the record for whoever reads it.
fn json_or_text(members: &mut Vec<u8>, name: &str, raw: &[u8]) {
    if serde_json::from_slice::<Value>(raw).is_err() {
        return text(members, name, &String::from_utf8_lossy(raw));
    }
    key(members, name);
    // On one line, as every record is in the file that sinks write.
    members.extend_from_slice(&one_line(&Bytes::copy_from_slice(raw)));
}

/// A decision whose texts are not longer than those of records may be.
fn bounded(decision: AuditedDecision) -> AuditedDecision {
    let cut = |text: String| match text.len() <= LONGEST_TEXT {
        true => text,
        false => format!("{}… ({} bytes)", &text[..text.floor_char_boundary(LONGEST_TEXT)], text.len()),
    };
    match decision {
        AuditedDecision::Approval { approved, is_unanswered, server, names } => {
            let (count, mut size) = (names.len(), 0);
            let mut names: Vec<String> = names
                .into_iter()
                .map(cut)
                .take_while(|name| {
                    size += name.len();
                    size <= NAMES
                })
                .collect();
            if names.len() < count {
                names.push(format!("… and {} more", count - names.len()));
            }
            AuditedDecision::Approval { approved, is_unanswered, server, names }
        }
        AuditedDecision::Administration { principal, request, status } => {
            AuditedDecision::Administration { principal, request: cut(request), status }
        }
        AuditedDecision::Refused { peer, path, status } => AuditedDecision::Refused { peer, path: cut(path), status },
        decision @ (AuditedDecision::Servers { .. } | AuditedDecision::Policy { .. }) => decision,
    }
}

fn decision_members(decision: AuditedDecision) -> Value {
    match decision {
        AuditedDecision::Policy { rules, enforced } => {
            json!({ "kind": "policy", "rules": rules, "mode": if enforced { "enforce" } else { "report" } })
        }
        AuditedDecision::Servers { put, removed } => json!({ "kind": "servers", "put": put, "removed": removed }),
        AuditedDecision::Approval { approved, is_unanswered, server, names } => {
            let mut members =
                json!({ "kind": if approved { "approved" } else { "rejected" }, "server": server, "names": names });
            if is_unanswered {
                members["unanswered"] = true.into();
            }
            members
        }
        AuditedDecision::Administration { principal, request, status } => {
            json!({ "kind": "administration", "principal": principal, "request": request, "status": status })
        }
        AuditedDecision::Refused { peer, path, status } => {
            json!({ "kind": "refused", "peer": peer.map(|peer| peer.to_string()), "path": path, "status": status })
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::time::Duration;

    use super::*;

    fn call(client: &str) -> AuditedCall<'_> {
        AuditedCall {
            ended: Instant::now(),
            took: Duration::from_millis(1),
            principal: "local",
            client: Some(client.as_bytes()),
            client_cut: None,
            method: tidings_proto::Method::ToolsCall,
            server: None,
            name: "echo",
            name_cut: None,
            arguments: None,
            kept_arguments: Some(KeptArguments::Whole(client.as_bytes())),
            would_deny: None,
            outcome: CallOutcome::Cancelled,
        }
    }

    #[tokio::test]
    async fn whatever_a_client_says_every_reader_of_json_can_read_its_record() {
        let limits = AuditLimits {
            max_age: Duration::from_secs(60),
            max_records: 1_000,
            max_bytes: 1 << 20,
            max_waiting: WAITING,
        };
        let (log, queue) = AuditLog::start::<LastClient>(Store::in_memory(), limits, SinkSettings::default());
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        let said =
            [r#"{"name":"x","n":1e999}"#, r#"{"name":"\ud800"}"#, &deep, "{\"name\":\n\"y\"}", "{\"name\":\"cut"];
        for said in said {
            queue.hand_over(RecordedCall(call(said)));
        }
        let mut tail = log.follow(Some(0)).await.unwrap();
        let mut rows = Vec::new();
        while rows.len() < said.len() {
            rows.extend(tail.next().await.unwrap());
        }
        for (row, said) in rows.iter().zip(said) {
            let record: Value = serde_json::from_slice(&row.json).unwrap_or_else(|error| panic!("{said}: {error}"));
            let as_text = record["client"] == said && record["given"] == said;
            assert!(as_text || record["client"]["name"] == "y", "{record}");
        }
    }

    // trust (records): the form in which records are kept changes nothing of what readers see.
    #[tokio::test]
    async fn a_call_is_recorded_with_all_its_members_in_their_order() {
        let limits = AuditLimits {
            max_age: Duration::from_secs(60),
            max_records: 1_000,
            max_bytes: 1 << 20,
            max_waiting: WAITING,
        };
        let (log, queue) = AuditLog::start::<LastClient>(Store::in_memory(), limits, SinkSettings::default());
        let digest = |text: &str| Digest::of_bytes(text.as_bytes());
        let full = AuditedCall {
            server: Some("alpha"),
            name_cut: Some((digest("one"), 2_000)),
            client_cut: Some(3_000),
            arguments: Some((digest("{}"), 2)),
            kept_arguments: Some(KeptArguments::Whole(b"{}")),
            would_deny: Some("rule 1"),
            outcome: CallOutcome::Refused(-32_602),
            ..call(r#"{"name":"x"}"#)
        };
        // The same beginning of another name.
        let other = AuditedCall { name_cut: Some((digest("two"), 2_000)), ..full.clone() };
        let short = AuditedCall { client: None, kept_arguments: None, outcome: CallOutcome::Answered(7), ..call("") };
        for _ in 0..2 {
            [&full, &other, &short].into_iter().for_each(|call| queue.hand_over(RecordedCall(call.clone())));
        }
        let mut tail = log.follow(Some(0)).await.unwrap();
        let mut rows = Vec::new();
        while rows.len() < 6 {
            rows.extend(tail.next().await.unwrap());
        }
        let said = |row: usize| {
            let line = String::from_utf8(rows[row].json.to_vec()).unwrap();
            line[line.find("\"kind\"").unwrap()..].to_owned()
        };
        let expected = |name: &str| {
            let hash = |text| tidings_wire::hex(&digest(text).0);
            format!(
                r#""kind":"call","method":"tools/call","server":"alpha","name":"echo","name_cut":{{"hash":"{}","bytes":2000}},"principal":"local","client":{{"name":"x"}},"client_cut":{{"bytes":3000}},"arguments":{{"hash":"{}","bytes":2}},"given":{{}},"would_deny":"rule 1","outcome":"error","code":-32602,"micros":1000}}"#,
                hash(name),
                hash("{}"),
            )
        };
        let short = r#""kind":"call","method":"tools/call","name":"echo","principal":"local","outcome":"answered","answer_bytes":7,"micros":1000}"#;
        for row in [0, 3] {
            let lines = [said(row), said(row + 1), said(row + 2)];
            assert_eq!(lines, [expected("one"), expected("two"), short.to_owned()]);
        }
    }

    #[test]
    fn a_decision_has_no_text_without_end() {
        let long = "x".repeat(100_000);
        let refused = bounded(AuditedDecision::Refused { peer: None, path: long.clone(), status: 401 });
        let AuditedDecision::Refused { path, .. } = refused else { panic!("another decision") };
        assert!(path.len() < 1_100 && path.ends_with("… (100000 bytes)"), "{path}");
        let names = vec![long; 5_000];
        let approval =
            bounded(AuditedDecision::Approval { approved: true, is_unanswered: false, server: "s".into(), names });
        let weight = decision_members(approval.clone()).to_string().len();
        let AuditedDecision::Approval { names, .. } = approval else { panic!("another decision") };
        assert!(weight < 2 * NAMES && names.last().is_some_and(|last| last.ends_with("more")), "{weight}");
    }

    #[test]
    fn a_flood_of_refusals_is_counted_and_not_recorded_one_by_one() {
        let (log, queue) = AuditLog::start::<LastClient>(
            Store::in_memory(),
            AuditLimits {
                max_age: Duration::from_secs(60),
                max_records: 1_000,
                max_bytes: 1 << 20,
                max_waiting: WAITING,
            },
            SinkSettings::default(),
        );
        let recorder =
            AuditRecorder { queue, keeps_arguments: false, begun: Instant::now(), refusals: AtomicU64::new(0) };
        let admitted = (0..1_000).filter(|_| recorder.admit_refusal().is_some()).count() as u64;
        assert_eq!(admitted, REFUSALS);
        let later = AuditRecorder { begun: Instant::now().checked_sub(Duration::from_secs(60)).unwrap(), ..recorder };
        assert_eq!(later.admit_refusal(), Some(990), "the next minute tells of them");
        drop(log);
    }
}
