//! How the lists of a server's next release differ from those of the one that runs.

use serde_json::{Value, json};
use tidings_diff::{FieldPair, Finding, Severity};
use tidings_engine::OfferReview;
use tidings_hub::catalogue::{OfferItem, ServerOffer};
use tidings_proto::ListKind;

const KINDS: [(ListKind, &str); 4] = [
    (ListKind::Tools, "tools"),
    (ListKind::Prompts, "prompts"),
    (ListKind::Resources, "resources"),
    (ListKind::Templates, "resource_templates"),
];
/// How many items of one list are shown, how many reasons of one, and how long a value may be that is shown.
const MOST_ITEMS: usize = 200;
const MOST_REASONS: usize = 8;
const LONGEST_VALUE: usize = 4_000;

/// Every list that differs, and how much the loudest difference matters.
pub(crate) fn difference(offers: &[OfferReview]) -> Value {
    let mut severity = Severity::default();
    let mut lists = Vec::new();
    for OfferReview { before, after } in offers {
        for (kind, name) in KINDS {
            let list = list(before.as_deref(), after.as_deref(), kind, &mut severity);
            lists.extend(list.map(|mut list| {
                list["kind"] = name.into();
                list
            }));
        }
    }
    json!({ "severity": severity.as_str(), "lists": lists })
}

/// One list, unless it is the same.
fn list(
    before: Option<&ServerOffer>,
    after: Option<&ServerOffer>,
    kind: ListKind,
    loudest: &mut Severity,
) -> Option<Value> {
    let items = |offer: Option<&ServerOffer>| -> Vec<OfferItem> {
        offer.map(|offer| offer.list(kind).items.clone()).unwrap_or_default()
    };
    let (before, after) = (items(before), items(after));
    let find = |items: &[OfferItem], item: &OfferItem| items.iter().find(|other| other.key == item.key).cloned();
    // Names of other tools are no sign here: the tools of the same server know each other.
    let is_foreign = |_: &str| false;
    let (mut added, mut removed, mut changed, mut omitted) = (Vec::new(), Vec::new(), Vec::new(), 0);
    let mut show = |to: &mut Vec<Value>, name: &str, findings: &[Finding], fields: Option<Value>| {
        let severity = tidings_diff::loudest(findings);
        // Before the bound: what is not shown counts all the same.
        *loudest = (*loudest).max(severity);
        if to.len() >= MOST_ITEMS {
            omitted += 1;
            return;
        }
        let reasons: Vec<String> = findings.iter().take(MOST_REASONS).map(ToString::to_string).collect();
        let mut shown = json!({ "name": name, "severity": severity.as_str(), "reasons": reasons });
        if let Some(fields) = fields {
            shown["fields"] = fields;
        }
        to.push(shown);
    };
    for item in before.iter().filter(|item| find(&after, item).is_none()) {
        show(&mut removed, item.key.as_str(), &tidings_diff::removed(), None);
    }
    for item in &after {
        let definition: Value = serde_json::from_slice(&item.raw).unwrap_or_default();
        match find(&before, item) {
            None => show(&mut added, item.key.as_str(), &tidings_diff::added(&definition, &is_foreign), None),
            Some(old) if old.digest != item.digest => {
                let old: Value = serde_json::from_slice(&old.raw).unwrap_or_default();
                let (findings, fields) = fields(&old, &definition);
                show(&mut changed, item.key.as_str(), &findings, Some(fields));
            }
            Some(_) => {}
        }
    }
    let is_same = added.is_empty() && removed.is_empty() && changed.is_empty();
    (!is_same).then(|| json!({ "added": added, "removed": removed, "changed": changed, "omitted": omitted }))
}

/// What differs in one item, and how much each matters.
fn fields(before: &Value, after: &Value) -> (Vec<Finding>, Value) {
    let empty = serde_json::Map::new();
    let (old, new) = (before.as_object().unwrap_or(&empty), after.as_object().unwrap_or(&empty));
    let mut names: Vec<&String> = old.keys().chain(new.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let pairs: Vec<FieldPair<'_>> = names
        .into_iter()
        .map(|name| FieldPair { field: name, before: old.get(name), after: new.get(name) })
        .filter(|pair| pair.before != pair.after)
        .collect();
    let shown = |value: Option<&Value>| {
        let is_short = value.is_none_or(|value| value.to_string().len() <= LONGEST_VALUE);
        if is_short { json!(value) } else { json!("(too long to show)") }
    };
    let fields: Vec<Value> = pairs
        .iter()
        .map(|pair| json!({ "field": pair.field, "before": shown(pair.before), "after": shown(pair.after) }))
        .collect();
    (tidings_diff::changed(&pairs, &|_| false), fields.into())
}
