//! From what the engine sees done to what the audit log keeps.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde_json::{Value, json};
use tidings_config::AuditSettings;
use tidings_engine::{AuditTrail, AuditedCall, AuditedDecision, CallOutcome};
use tidings_store::{AuditClock, AuditEntry, AuditLimits, AuditLog, AuditQueue, SinkSettings, Store};
use tidings_wire::{encode_string, hex, one_line};

/// What may wait to be written: with small calls this is 20,000 of them, and more than half a second of the fastest.
const WAITING: usize = 8 << 20;
/// What an entry takes besides its texts.
const ENTRY: usize = 320;
/// How long a name or what a client says of itself may be in a record.
const LONGEST: usize = 1 << 10;
/// How large arguments may be to be kept.
const ARGUMENTS: usize = 64 << 10;
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
        // Four times what records of calls take: those with arguments are longer.
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
    queue: AuditQueue<Recorded>,
    keeps_arguments: bool,
    begun: Instant,
    /// The minute since the start, in the upper half, and how many were refused in it.
    refusals: AtomicU64,
}

#[derive(Debug)]
enum Recorded {
    Call(AuditedCall),
    Decision(Instant, AuditedDecision, u64),
}

impl AuditTrail for AuditRecorder {
    fn call(&self, call: AuditedCall) {
        self.queue.hand_over(Recorded::Call(call));
    }

    fn decision(&self, decision: AuditedDecision) {
        let mut more = 0;
        if matches!(decision, AuditedDecision::Refused { .. }) {
            match self.admit_refusal() {
                Some(before) => more = before,
                None => return,
            }
        }
        self.queue.hand_over(Recorded::Decision(Instant::now(), decision, more));
    }

    fn keeps_arguments(&self) -> bool {
        self.keeps_arguments
    }
}

impl AuditRecorder {
    /// Whether one more refusal is recorded, and how many were not in the minute before.
    fn admit_refusal(&self) -> Option<u64> {
        let minute = self.begun.elapsed().as_secs() / 60 + 1;
        let update = |old: u64| {
            let same = old >> 32 == minute;
            Some(if same { old.saturating_add(1) } else { minute << 32 | 1 })
        };
        let old = self.refusals.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update).unwrap_or_default();
        let counted = old & u64::from(u32::MAX);
        if old >> 32 == minute {
            return (counted < REFUSALS).then_some(0);
        }
        Some(counted.saturating_sub(REFUSALS))
    }
}

impl AuditEntry for Recorded {
    fn weight(&self) -> usize {
        ENTRY
            + match self {
                Self::Call(call) => {
                    let arguments = call.kept_arguments.as_ref().map_or(0, bytes::Bytes::len);
                    call.name.len() + call.client.as_ref().map_or(0, bytes::Bytes::len) + arguments
                }
                Self::Decision(_, AuditedDecision::Servers { put, removed }, _) => {
                    put.iter().chain(removed).map(|name| name.len() + 24).sum()
                }
                Self::Decision(_, AuditedDecision::Approval { names, .. }, _) => {
                    names.iter().map(|name| name.len() + 24).sum()
                }
                Self::Decision(..) => LONGEST,
            }
    }

    fn write(self, clock: &AuditClock, members: &mut Vec<u8>) -> u64 {
        match self {
            Self::Call(call) => write_call(&call, clock, members),
            Self::Decision(at, decision, more) => {
                let time = clock.write_time(at, members);
                let mut record = decision_members(decision);
                if more > 0 {
                    record["more"] = more.into();
                }
                let text = record.to_string();
                members.push(b',');
                // Without the braces: these are the members of a record that has begun.
                members.extend_from_slice(&text.as_bytes()[1..text.len() - 1]);
                time
            }
        }
    }
}

/// Written by hand: there is one for every call.
fn write_call(call: &AuditedCall, clock: &AuditClock, members: &mut Vec<u8>) -> u64 {
    let time = clock.write_time(call.started + call.took, members);
    text(members, "kind", "call");
    text(members, "method", call.method.as_str());
    if let Some(server) = &call.server {
        text(members, "server", server);
    }
    text(members, "name", &call.name);
    text(members, "principal", &call.principal);
    if let Some(client) = &call.client {
        // What it says may be anything; it is shown as one line, or as the text that it is not.
        match client.len() <= LONGEST && serde_json::from_slice::<serde::de::IgnoredAny>(client).is_ok() {
            true => {
                members.extend_from_slice(b",\"client\":");
                members.extend_from_slice(&one_line(client));
            }
            false => text(members, "client", &String::from_utf8_lossy(client)),
        }
    }
    if let Some((digest, size)) = &call.arguments {
        let _ = write!(members, ",\"arguments\":{{\"hash\":\"{}\",\"bytes\":{size}}}", hex(&digest.0));
    }
    if let Some(arguments) = call.kept_arguments.as_ref().filter(|arguments| arguments.len() <= ARGUMENTS) {
        members.extend_from_slice(b",\"given\":");
        members.extend_from_slice(&one_line(arguments));
    }
    let _ = match call.outcome {
        CallOutcome::Answered(size) => write!(members, ",\"outcome\":\"answered\",\"answer_bytes\":{size}"),
        CallOutcome::Refused(code) => write!(members, ",\"outcome\":\"error\",\"code\":{code}"),
        CallOutcome::Cancelled => write!(members, ",\"outcome\":\"cancelled\""),
        CallOutcome::Abandoned => write!(members, ",\"outcome\":\"abandoned\""),
    };
    let _ = write!(members, ",\"micros\":{}", call.took.as_micros());
    time
}

fn text(members: &mut Vec<u8>, name: &str, value: &str) {
    members.extend_from_slice(b",\"");
    members.extend_from_slice(name.as_bytes());
    members.extend_from_slice(b"\":");
    members.extend_from_slice(encode_string(cut(value)).as_bytes());
}

/// A text that is not longer than texts of records may be.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(LONGEST)]
}

fn decision_members(decision: AuditedDecision) -> Value {
    match decision {
        AuditedDecision::Servers { put, removed } => json!({ "kind": "servers", "put": put, "removed": removed }),
        AuditedDecision::Approval { approved, server, names } => {
            json!({ "kind": if approved { "approved" } else { "rejected" }, "server": server, "names": names })
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

    #[test]
    fn a_flood_of_refusals_is_counted_and_not_recorded_one_by_one() {
        let (log, queue) = AuditLog::start::<Recorded>(
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
