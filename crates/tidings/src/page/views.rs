//! From what the gateway, the logs and the API know to what screens show.

use std::collections::HashMap;

use jiff::Timestamp;
use serde_json::Value;
use serde_json::value::RawValue;
use tidings_page::{CallRow, ChangeView, ChangedFieldView, ChangedItemView, HeldDefinition, ServerView, ToolView};
use tidings_proto::ListKind;
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
pub(super) fn change(row: &ChangeRow) -> Option<ChangeView> {
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
    Some(ChangeView {
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
        name: text("name"),
        server: text("server"),
        description: text("description"),
        arguments,
        definition: serde_json::to_string_pretty(tool).unwrap_or_default(),
    }
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
