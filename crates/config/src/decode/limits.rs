//! `[limits]`.

use std::collections::BTreeMap;
use std::time::Duration;

use super::policy::{items, people};
use crate::error::{ConfigFault, ConfigPlace};
use crate::plan::limits::LimitSettings;
use crate::read::TableSection;

/// The limits; those of `principal` are one of them, about everything.
pub(super) fn limits(mut section: TableSection<'_, '_>) -> Vec<LimitSettings> {
    let everything = || vec!["*".to_owned()];
    let principal = section.section("principal").map(|mut section| {
        let limit = amounts(&mut section, "principal".to_owned());
        section.finish();
        LimitSettings { who: everything(), what: everything(), ..limit }
    });
    let mut limits: Vec<LimitSettings> = principal.into_iter().collect();
    let nodes = section.list("rule", "a list of tables").unwrap_or_default();
    let mut names: BTreeMap<String, ConfigPlace> = BTreeMap::new();
    for (index, node) in nodes.iter().enumerate() {
        let path = format!("{}[{index}]", section.key("rule"));
        let Some(limit) =
            TableSection::of_node(section.reading, path.clone(), node.at, node).map(|section| rule(section, index))
        else {
            continue;
        };
        // Counts are kept by name when the file is read again.
        match names.get(&limit.name) {
            Some(first) => {
                section.reading.fault(&format!("{path}.name"), node.at, ConfigFault::Repeated { first: first.clone() });
            }
            None => drop(names.insert(limit.name.clone(), section.reading.place(node.at))),
        }
        limits.push(limit);
    }
    section.finish();
    limits
}

fn rule(mut section: TableSection<'_, '_>, index: usize) -> LimitSettings {
    let name = section.text("name").unwrap_or_else(|| format!("limit {}", index + 1));
    let who = match section.has("who") {
        true => people(&mut section, "who"),
        false => vec!["*".to_owned()],
    };
    let except = people(&mut section, "except");
    if !section.has("what") {
        section.fault("what", ConfigFault::MissingKey { key: "what" });
    }
    let what = if section.has("what") { items(&mut section, "what") } else { Vec::new() };
    let limit = amounts(&mut section, name);
    section.finish();
    LimitSettings { who, except, what, ..limit }
}

fn amounts(section: &mut TableSection<'_, '_>, name: String) -> LimitSettings {
    let rate = section.text("rate").and_then(|text| {
        let rate = rate(&text);
        if rate.is_none() {
            section.fault("rate", ConfigFault::BadRate);
        }
        rate
    });
    let concurrent = section.integer("concurrent", 1, 1_000_000).and_then(|count| u32::try_from(count).ok());
    let per_day = section.integer("per_day", 1, i64::MAX).and_then(|count| u64::try_from(count).ok());
    if !["rate", "concurrent", "per_day"].into_iter().any(|key| section.has(key)) {
        section.reading.fault(
            &section.path,
            section.at,
            ConfigFault::NoKind { choices: &["rate", "concurrent", "per_day"] },
        );
    }
    LimitSettings { name, who: Vec::new(), except: Vec::new(), what: Vec::new(), rate, concurrent, per_day }
}

/// `COUNT/UNIT`.
fn rate(text: &str) -> Option<(u32, Duration)> {
    let (count, unit) = text.split_once('/')?;
    let count: u32 = count.trim().parse().ok().filter(|count| (1..=10_000_000).contains(count))?;
    let seconds = match unit.trim() {
        "s" => 1,
        "min" => 60,
        "h" => 60 * 60,
        _ => return None,
    };
    Some((count, Duration::from_secs(seconds)))
}
