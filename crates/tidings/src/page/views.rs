//! From what the gateway, the logs and the API know to what screens show.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use jiff::Timestamp;
use memchr::memmem;
use serde_json::Value;
use serde_json::value::RawValue;
use tidings_engine::CommitNotices;
use tidings_page::{
    BeliefView, CallRow, ChangeView, ChangedFieldView, ChangedItemView, ClientEventView, ClientView, HeldDefinition,
    NoticeCounts, NoticesView, SERVER_CHOICES, ServerView, ToldView, ToolView,
};
use tidings_proto::{ListKind, Topic};
use tidings_store::{ChangeRecord, ChangeRow, FieldChange};

use super::PageServer;
use super::recent_calls::RecentCalls;
use crate::weight;

/// A text that is looked for in records.
pub(super) struct TextSearch(String);

impl TextSearch {
    pub(super) fn new(text: &str) -> Self {
        // As it stands in JSON, without the quotes.
        let quoted = Value::from(text.to_lowercase()).to_string();
        Self(quoted[1..quoted.len() - 1].to_owned())
    }

    pub(super) fn is_in(&self, json: &[u8]) -> bool {
        if self.0.is_empty() {
            return true;
        }
        // Thousands of records are looked at for one page.
        if self.0.is_ascii() {
            return memmem::find(&json.to_ascii_lowercase(), self.0.as_bytes()).is_some();
        }
        String::from_utf8_lossy(json).to_lowercase().contains(&self.0)
    }
}

/// Whether a record can have a member with this text as its value. Reading it as a whole takes a hundred times longer.
pub(super) fn may_have(json: &[u8], member: &str, value: &str) -> bool {
    value.is_empty() || memmem::find(json, format!("\"{member}\":{}", Value::from(value)).as_bytes()).is_some()
}

/// Whether a record can be of this severity: it says so, or says nothing of it and has to be weighed.
pub(super) fn may_weigh(json: &[u8], severity: &str) -> bool {
    may_have(json, "severity", severity) || memmem::find(json, b"\"severity\":").is_none()
}

/// A change from its record; `None` if that can not be read.
pub(super) fn change(page: &PageServer, row: &ChangeRow) -> Option<ChangeView> {
    let record: ChangeRecord = serde_json::from_slice(&row.json).ok()?;
    let (severity, remarks) = weight::of_record(&record);
    let remarks = remarks.into_iter().flat_map(|remark| {
        let name = remark.name;
        remark.reasons.into_iter().map(move |reason| (name.clone(), reason))
    });
    let item = |item: tidings_store::ChangedItem| ChangedItemView {
        name: item.name,
        fields: item.diff.into_iter().map(field).collect(),
    };
    let notices = record.commit.and_then(|commit| counts(page, commit, &record.kind));
    Some(ChangeView {
        notices,
        seq: row.seq,
        time: record.time,
        server: record.server,
        kind: record.kind,
        severity,
        remarks: remarks.collect(),
        added: record.added,
        removed: record.removed,
        changed: record.changed.into_iter().map(item).collect(),
        while_down: record.while_down,
        held: record.held,
        lost: record.lost,
    })
}

fn field(change: FieldChange) -> ChangedFieldView {
    let value = |raw: Option<Box<RawValue>>| {
        raw.map(|raw| serde_json::from_str(raw.get()).unwrap_or_else(|_| raw.get().into()))
    };
    ChangedFieldView {
        field: change.field,
        before: value(change.before),
        after: value(change.after),
        truncated: change.truncated,
    }
}

/// The names of all servers, if they are few enough to choose from.
pub(super) fn server_names(page: &PageServer) -> Option<Vec<String>> {
    let (kept, running) = (page.0.registry.state(), page.0.gateway.catalogue().borrow().servers.len());
    if kept.servers.len().max(running) > SERVER_CHOICES {
        return None;
    }
    let all = tidings_admin::server_states(&page.0.gateway, &kept);
    (all.len() <= SERVER_CHOICES).then(|| all.into_iter().map(|(name, _)| name).collect())
}

/// Servers as the API describes them, with how long their last calls took.
pub(super) fn servers(page: &PageServer, described: &[Value], mut calls: RecentCalls) -> Vec<ServerView> {
    let catalogue = page.0.gateway.catalogue().borrow().clone();
    let wanted: HashSet<&str> = described.iter().filter_map(|server| server["name"].as_str()).collect();
    let offers = catalogue.snapshot.offers().iter().filter(|offer| wanted.contains(&*offer.name));
    let bytes: HashMap<&str, usize> = offers
        .map(|offer| (&*offer.name, offer.list(ListKind::Tools).items.iter().map(|item| item.raw.len()).sum()))
        .collect();
    let one = |server: &Value| {
        let text = |key: &str| server[key].as_str().unwrap_or_default().to_owned();
        let count = |key: &str| usize::try_from(server[key].as_u64().unwrap_or_default()).unwrap_or(usize::MAX);
        let failed = server["failed_lists"].as_array().into_iter().flatten().map(|list| {
            let text = |key: &str| list[key].as_str().unwrap_or_default().to_owned();
            (text("list"), text("error"), list["retry_in"].as_u64().unwrap_or_default())
        });
        let name = text("name");
        ServerView {
            bytes: bytes.get(name.as_str()).copied().unwrap_or_default(),
            state: text("state"),
            is_ours: !matches!(server["source"].as_str(), Some("built-in" | "built_in" | "builtin")),
            source: text("source"),
            // In a cluster, also where it runs.
            transport: match server["owner"].as_str() {
                Some(owner) => format!("{} at {owner}", text("transport")),
                None => text("transport"),
            },
            revision: text("revision"),
            counts: [count("tools"), count("prompts"), count("resources") + count("resource_templates")],
            since: server["since"].as_i64().and_then(|since| Timestamp::from_second(since).ok()),
            connects: server["connects"].as_u64().unwrap_or_default(),
            error: server["error"].as_str().map(str::to_owned),
            warning: server["warning"].as_str().map(str::to_owned),
            failed_lists: failed.collect(),
            held: count("held"),
            has_login: page.0.logins.is_some(),
            people: server["people"].is_object().then(|| {
                let count = |key: &str| usize::try_from(server["people"][key].as_u64().unwrap_or_default());
                (count("logged_in").unwrap_or_default(), count("need_login").unwrap_or_default())
            }),
            calls: calls.take(&name),
            name,
        }
    };
    described.iter().map(one).collect()
}

fn counts(page: &PageServer, commit: u64, kind: &str) -> Option<NoticeCounts> {
    page.0.gateway.notices_of(commit, topic_of(kind)).map(|known| notice_counts(commit, &known))
}

/// The counts of one commit and list.
pub(super) fn notice_counts(commit: u64, known: &CommitNotices) -> NoticeCounts {
    let number = u64::from;
    NoticeCounts {
        commit,
        owed: number(known.owed),
        told: number(known.told.min(known.owed)),
        left: number(known.left),
        waiting: number(known.owed.saturating_sub(known.told + known.left)),
        spared: number(known.spared),
        silent: number(known.silent),
        median: known.median,
    }
}

fn topic_of(kind: &str) -> Topic {
    match kind {
        "tools" => Topic::Tools,
        "prompts" => Topic::Prompts,
        _ => Topic::Resources,
    }
}

/// Everything that is known of the notices of a change.
pub(super) fn notices(page: &PageServer, change: &ChangeView, most: usize) -> Option<NoticesView> {
    let counts = change.notices.clone()?;
    let topic = topic_of(&change.kind);
    let within = page.0.gateway.notices_of(counts.commit, topic)?.within.into_iter().map(u64::from).collect();
    let told = page.0.gateway.told_of(counts.commit, topic, most).into_iter().map(|told| ToldView {
        id: told.id,
        name: told.name,
        time: past(told.ago),
        coalesced: u64::from(told.span.saturating_sub(1)),
    });
    Some(NoticesView { counts, within, told: told.collect() })
}

pub(super) fn past(ago: Duration) -> Option<Timestamp> {
    Timestamp::now().checked_sub(ago).ok()
}

/// Since when deliveries are counted.
pub(super) fn counted_since(page: &PageServer, now: Timestamp) -> Timestamp {
    Timestamp::try_from(page.0.gateway.started()).unwrap_or(now)
}

/// Clients as the API describes them.
pub(super) fn clients(described: &[Value]) -> Vec<ClientView> {
    let seconds = |value: &Value| value.as_i64().and_then(|seconds| Timestamp::from_second(seconds).ok());
    let time = |value: &Value| value.as_str().and_then(|text| text.parse().ok());
    let one = |client: &Value| {
        let text = |key: &str| client[key].as_str().unwrap_or_default().to_owned();
        let lists = client["lists"].as_array().into_iter().flatten();
        ClientView {
            id: client["id"].as_u64().unwrap_or_default(),
            name: client["name"].as_str().unwrap_or("a client without a name").to_owned(),
            principal: text("principal"),
            kind: text("kind"),
            revision: text("revision"),
            since: seconds(&client["since"]),
            state: text("state"),
            reason: text("reason"),
            notices: client["notices"].as_u64().unwrap_or_default(),
            lists: lists
                .map(|list| BeliefView {
                    list: list["list"].as_str().unwrap_or_default().to_owned(),
                    told: time(&list["told"]),
                    listed: time(&list["listed"]),
                    outdated: list["outdated"] == true,
                    state: list["state"].as_str().unwrap_or_default().to_owned(),
                })
                .collect(),
        }
    };
    described.iter().map(one).collect()
}

/// What happened to a client, the newest first; and whether there was more.
pub(super) fn client_events(page: &PageServer, id: u64, most: usize) -> (Vec<ClientEventView>, bool) {
    let found = page.0.gateway.client_events(id, most);
    let commit = |number: u64| Timestamp::from_millisecond(i64::try_from(number).unwrap_or_default()).ok();
    let events = found.events.into_iter().map(|event| ClientEventView {
        time: past(event.ago),
        told: event.told,
        lists: event.topics.iter().map(|topic| topic.as_str().to_owned()).collect(),
        commits: event.commits.and_then(|(first, last)| commit(first).zip(commit(last))),
    });
    (events.collect(), found.older)
}

/// A tool, as the search presents it; `local` is what its server calls it, where that is another name.
pub(super) fn tool(tool: &Value, local: Option<String>) -> ToolView {
    let text = |key: &str| tool[key].as_str().unwrap_or_default().to_owned();
    let schema = &tool["inputSchema"];
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let names = schema["properties"].as_object().into_iter().flat_map(|properties| properties.keys());
    let mut arguments: Vec<(String, bool)> =
        names.map(|name| (name.clone(), required.contains(&name.as_str()))).collect();
    arguments.sort_by_key(|(_, required)| !required);
    ToolView {
        local: local.unwrap_or_else(|| text("name")),
        name: text("name"),
        server: text("server"),
        description: text("description"),
        arguments,
        definition: serde_json::to_string_pretty(tool).unwrap_or_default(),
    }
}

/// A call from its record; `None` if that can not be read.
pub(super) fn call(seq: u64, record: &Value) -> Option<CallRow> {
    let text = |key: &str| record[key].as_str().unwrap_or_default();
    let client = record["client"]["name"].as_str();
    let client =
        client.map_or_else(|| text("principal").to_owned(), |client| format!("{client} · {}", text("principal")));
    let outcome = match text("outcome") {
        "error" => format!("error {}", record["code"]),
        outcome => outcome.to_owned(),
    };
    Some(CallRow {
        seq,
        time: text("time").parse().ok()?,
        client,
        server: text("server").to_owned(),
        name: text("name").to_owned(),
        millis: record["micros"].as_u64().map(|micros| micros / 1_000),
        failed: text("outcome") != "answered",
        outcome,
        arguments: record.get("given").map(|given| serde_json::to_string_pretty(given).unwrap_or_default()),
        bytes: record["arguments"]["bytes"].as_u64(),
        outdated: None,
    })
}

/// A held definition, as the API describes it.
pub(super) fn held(row: &Value) -> HeldDefinition {
    let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let findings = row["findings"].as_array().into_iter().flatten();
    let findings =
        findings.map(|one| (one["text"].as_str().unwrap_or_default().to_owned(), one["severity"] == "suspect"));
    HeldDefinition {
        id: text("id"),
        digest: text("digest"),
        server: text("server"),
        kind: text("kind"),
        name: text("name"),
        since: row["since"].as_i64().and_then(|since| Timestamp::from_second(since).ok()),
        rejected: row["rejected"] == true,
        findings: findings.collect(),
        approved: Some(row["approved"].clone()).filter(Value::is_object),
        had_approved: row["reason"] == "changed",
        definition: row["definition"].clone(),
    }
}
