//! How much a change matters: set when it is recorded, and told of records that have no word on it.

use std::sync::{Arc, OnceLock};

use serde_json::Value;
use tidings_diff::{FieldPair, Finding, Severity};
use tidings_engine::{Catalogue, Change, ChangedDefinition, Gateway};
use tidings_proto::{ListKind, LocalName};
use tidings_store::{ChangeRecord, ChangedItem, ItemRemark};
use tokio::sync::watch;

/// How many items of one change are remarked on, how many reasons each gets, and how long one may be.
const MOST_REMARKS: usize = 100;
const MOST_REASONS: usize = 8;
const LONGEST_REASON: usize = 200;

/// The tools that there are, to find their names in texts of others. Empty until the gateway has begun.
#[derive(Clone, Default)]
pub(crate) struct ToolNames(Arc<OnceLock<watch::Receiver<Arc<Catalogue>>>>);

impl ToolNames {
    /// From now on the tools are those of this gateway.
    pub(crate) fn begin(&self, gateway: &Gateway) {
        let _ = self.0.set(gateway.catalogue());
    }

    /// Whether a word is a tool of another server than this one.
    fn is_foreign(&self, word: &str, server: &str) -> bool {
        let Some(catalogue) = self.0.get() else { return false };
        let snapshot = Arc::clone(&catalogue.borrow().snapshot);
        let by_public = snapshot.tool(word).and_then(|route| snapshot.offer(route.server));
        if by_public.is_some_and(|offer| *offer.name != *server) {
            return true;
        }
        let local = LocalName::new(word);
        snapshot
            .offers()
            .iter()
            .any(|offer| *offer.name != *server && offer.list(ListKind::Tools).get(&local).is_some())
    }
}

/// Sets the severity of a record, and why.
pub(crate) fn weigh(change: &Change, names: &ToolNames, record: &mut ChangeRecord) {
    let server = &*change.server.name;
    let is_tool = |word: &str| names.is_foreign(word, server);
    let mut scale = Scale::default();
    for (name, raw) in change.added.iter().zip(&change.definitions) {
        let definition: Value = serde_json::from_slice(raw).unwrap_or_default();
        scale.put(name.as_str(), &tidings_diff::added(&definition, &is_tool));
    }
    for item in &change.changed {
        scale.put(item.key.as_str(), &changed(item, &is_tool));
    }
    if !change.removed.is_empty() {
        scale.severity = scale.severity.max(tidings_diff::loudest(&tidings_diff::removed()));
    }
    record.severity = Some(scale.severity.as_str().to_owned());
    record.remarks = scale.remarks;
}

fn changed(item: &ChangedDefinition, is_tool: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    if item.fields.is_empty() {
        return tidings_diff::unknown();
    }
    let value =
        |raw: &Option<bytes::Bytes>| raw.as_ref().map(|raw| serde_json::from_slice::<Value>(raw).unwrap_or_default());
    let values: Vec<_> =
        item.fields.iter().map(|field| (&field.name, value(&field.before), value(&field.after))).collect();
    let pairs: Vec<FieldPair<'_>> = values
        .iter()
        .map(|(field, before, after)| FieldPair { field, before: before.as_ref(), after: after.as_ref() })
        .collect();
    tidings_diff::changed(&pairs, is_tool)
}

/// The severity of a record, and why; worked out from what it holds where it was recorded without.
pub(crate) fn of_record(record: &ChangeRecord) -> (Severity, Vec<ItemRemark>) {
    if let Some(severity) = record.severity.as_deref().and_then(Severity::named) {
        return (severity, record.remarks.clone());
    }
    let mut scale = Scale::default();
    for item in &record.changed {
        scale.put(&item.name, &recorded(item));
    }
    if !record.removed.is_empty() {
        scale.severity = scale.severity.max(tidings_diff::loudest(&tidings_diff::removed()));
    }
    (scale.severity, scale.remarks)
}

fn recorded(item: &ChangedItem) -> Vec<Finding> {
    // Of what changed while nobody looked, and of what was too large to be kept, only that is known.
    if item.diff.is_empty() || item.diff.iter().any(|field| field.truncated) {
        return tidings_diff::unknown();
    }
    let value = |raw: &Option<Box<serde_json::value::RawValue>>| {
        raw.as_ref().map(|raw| serde_json::from_str::<Value>(raw.get()).unwrap_or_default())
    };
    let values: Vec<_> =
        item.diff.iter().map(|field| (&field.field, value(&field.before), value(&field.after))).collect();
    let pairs: Vec<FieldPair<'_>> = values
        .iter()
        .map(|(field, before, after)| FieldPair { field, before: before.as_ref(), after: after.as_ref() })
        .collect();
    tidings_diff::changed(&pairs, &|_| false)
}

/// What was found so far, within bounds.
#[derive(Default)]
struct Scale {
    severity: Severity,
    remarks: Vec<ItemRemark>,
}

impl Scale {
    fn put(&mut self, name: &str, findings: &[Finding]) {
        let severity = tidings_diff::loudest(findings);
        self.severity = self.severity.max(severity);
        if severity < Severity::Breaking || self.remarks.len() >= MOST_REMARKS {
            return;
        }
        let loud = findings.iter().filter(|finding| finding.severity() >= Severity::Breaking);
        let reasons = loud.take(MOST_REASONS).map(|finding| {
            let text = finding.to_string();
            text.chars().take(LONGEST_REASON).collect()
        });
        let (name, severity, reasons) = (name.to_owned(), severity.as_str().to_owned(), reasons.collect());
        self.remarks.push(ItemRemark { name, severity, reasons });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(json: Value) -> ChangeRecord {
        serde_json::from_value(json).expect("a record")
    }

    #[test]
    fn a_record_without_a_severity_is_weighed_by_what_it_holds() {
        let with = |diff: Value| {
            let changed = serde_json::json!([{ "name": "t", "fields": ["description"], "diff": diff }]);
            let all = serde_json::json!({ "time": "2026-11-15T10:00:00Z", "server": "s", "kind": "tools", "added": [], "removed": [], "changed": changed });
            of_record(&record(all))
        };
        let (severity, remarks) =
            with(serde_json::json!([{ "field": "description", "before": "a", "after": "a\u{200b}" }]));
        assert_eq!(severity, Severity::Suspect);
        assert_eq!(remarks[0].reasons, ["has got a character that nobody sees (U+200B)"]);
        assert_eq!(
            with(serde_json::json!([{ "field": "description", "before": "a", "after": "b" }])),
            (Severity::Wording, vec![])
        );
        assert_eq!(with(serde_json::json!([])).0, Severity::Breaking, "nobody saw what changed");
        assert_eq!(with(serde_json::json!([{ "field": "description", "truncated": true }])).0, Severity::Breaking);
    }

    #[test]
    fn remarks_are_bounded() {
        let mut scale = Scale::default();
        let long = Finding::Url("x".repeat(10_000));
        for n in 0..1_000 {
            scale.put(&n.to_string(), &vec![long.clone(); 20]);
        }
        assert_eq!(scale.remarks.len(), MOST_REMARKS);
        assert!(
            scale
                .remarks
                .iter()
                .all(|remark| remark.reasons.len() == MOST_REASONS && remark.reasons[0].len() <= LONGEST_REASON)
        );
    }
}
