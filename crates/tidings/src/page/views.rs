//! From what the gateway, the logs and the API know to what screens show.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use serde_json::value::RawValue;
use tidings_engine::{CommitNotices, FollowedResource};
use tidings_page::{
    BeliefView, CallRow, ChangeView, ChangedFieldView, ChangedItemView, ClientEventView, ClientView, FollowView,
    HeldDefinition, NoticeCounts, NoticesView, ServerView, ToldView, ToolView,
};
use tidings_proto::{ListKind, Topic};
use tidings_store::{ChangeRecord, ChangeRow, FieldChange};

use super::PageServer;
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
        self.0.is_empty() || String::from_utf8_lossy(json).to_lowercase().contains(&self.0)
    }
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

/// Every server, as the API describes it.
pub(super) fn servers(page: &PageServer) -> Vec<ServerView> {
    let catalogue = page.0.gateway.catalogue().borrow().clone();
    let bytes: HashMap<&str, usize> = catalogue
        .snapshot
        .offers()
        .iter()
        .map(|offer| (&*offer.name, offer.list(ListKind::Tools).items.iter().map(|item| item.raw.len()).sum()))
        .collect();
    let all = tidings_admin::describe(&page.0.gateway, &page.0.registry.state());
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
            transport: text("transport"),
            revision: text("revision"),
            counts: [count("tools"), count("prompts"), count("resources") + count("resource_templates")],
            since: server["since"].as_i64().and_then(|since| Timestamp::from_second(since).ok()),
            connects: server["connects"].as_u64().unwrap_or_default(),
            error: server["error"].as_str().map(str::to_owned),
            warning: server["warning"].as_str().map(str::to_owned),
            failed_lists: failed.collect(),
            held: count("held"),
            name,
        }
    };
    all["servers"].as_array().into_iter().flatten().map(one).collect()
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

fn past(ago: Duration) -> Option<Timestamp> {
    Timestamp::now().checked_sub(ago).ok()
}

/// Every client, as the API describes it, and since when that is counted.
pub(super) fn clients(page: &PageServer, now: Timestamp) -> (Vec<ClientView>, Timestamp) {
    let all = tidings_admin::clients(&page.0.gateway);
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
                })
                .collect(),
        }
    };
    let clients = all["clients"].as_array().into_iter().flatten().map(one).collect();
    (clients, seconds(&all["since"]).unwrap_or(now))
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

/// Every resource that is followed.
pub(super) fn follows(page: &PageServer) -> Vec<FollowView> {
    let (resources, followers) = page.0.gateway.followed();
    let mut clients: HashMap<(&str, &str), Vec<(u64, String)>> = HashMap::new();
    for follower in &followers {
        let name = follower.name.as_deref().unwrap_or("a client without a name");
        for (server, local) in &follower.resources {
            let all = clients.entry((server, local)).or_default();
            // More are only counted.
            if all.len() < 16 {
                all.push((follower.id, name.to_owned()));
            }
        }
    }
    let one = |resource: &FollowedResource| FollowView {
        server: resource.server.clone(),
        uri: resource.uri.clone(),
        state: resource.phase.as_str().to_owned(),
        unheard: resource.unheard_for.map(|unheard| unheard.as_secs()),
        followers: resource.followers,
        clients: clients.get(&(resource.server.as_str(), &*resource.local)).cloned().unwrap_or_default(),
    };
    resources.iter().map(one).collect()
}

/// A tool, as the search presents it.
pub(super) fn tool(tool: &Value) -> ToolView {
    let text = |key: &str| tool[key].as_str().unwrap_or_default().to_owned();
    let schema = &tool["inputSchema"];
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let names = schema["properties"].as_object().into_iter().flat_map(|properties| properties.keys());
    let mut arguments: Vec<(String, bool)> =
        names.map(|name| (name.clone(), required.contains(&name.as_str()))).collect();
    arguments.sort_by_key(|(_, required)| !required);
    ToolView {
        local: local_name(&text("name"), &text("server")),
        name: text("name"),
        server: text("server"),
        description: text("description"),
        arguments,
        definition: serde_json::to_string_pretty(tool).unwrap_or_default(),
    }
}

/// A name without the prefix of its server; the log has names as servers spell them.
fn local_name(name: &str, server: &str) -> String {
    let rest = name.strip_prefix(server).map(|rest| rest.trim_start_matches(['_', '-', '.', '/']));
    rest.filter(|rest| !rest.is_empty()).unwrap_or(name).to_owned()
}

/// A call from its record; `None` for records of other things.
pub(super) fn call(row: &ChangeRow) -> Option<CallRow> {
    let record: Value = serde_json::from_slice(&row.json).ok()?;
    if record["kind"] != "call" {
        return None;
    }
    let text = |key: &str| record[key].as_str().unwrap_or_default();
    let client = record["client"]["name"].as_str();
    let client =
        client.map_or_else(|| text("principal").to_owned(), |client| format!("{client} · {}", text("principal")));
    let outcome = match text("outcome") {
        "error" => format!("error {}", record["code"]),
        outcome => outcome.to_owned(),
    };
    Some(CallRow {
        seq: row.seq,
        time: text("time").parse().ok()?,
        client,
        server: text("server").to_owned(),
        name: text("name").to_owned(),
        millis: record["micros"].as_u64().map(|micros| micros / 1_000),
        failed: text("outcome") != "answered",
        outcome,
        arguments: record.get("given").map(|given| serde_json::to_string_pretty(given).unwrap_or_default()),
        bytes: record["arguments"]["bytes"].as_u64(),
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
