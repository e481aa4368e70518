//! `[policy]`.

use std::collections::BTreeMap;

use super::access::is_who;
use crate::error::{ConfigFault, ConfigPlace};
use crate::plan::policy::{PolicyHints, PolicyKinds, PolicyRuleSettings, PolicySettings, PolicyVerbs};
use crate::read::TableSection;

const EFFECTS: &[&str] = &["allow", "deny"];
const KINDS: [&str; 3] = ["tools", "prompts", "resources"];
const VERBS: [&str; 3] = ["see", "use", "follow"];

pub(super) fn policy(mut section: TableSection<'_, '_>) -> PolicySettings {
    let allows_by_default = section.choice("default", &[("allow", true), ("deny", false)]).unwrap_or(true);
    let enforced = section.choice("mode", &[("enforce", true), ("report", false)]).unwrap_or(true);
    let nodes = section.list("rule", "a list of tables").unwrap_or_default();
    let mut names: BTreeMap<String, ConfigPlace> = BTreeMap::new();
    let mut rules = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        let path = format!("{}[{index}]", section.key("rule"));
        let entry = TableSection::of_node(section.reading, path.clone(), node.at, node);
        let Some(rule) = entry.and_then(|section| rule(section, index)) else { continue };
        // Records and `tidings explain` tell rules apart by their names.
        match names.get(&rule.name) {
            Some(first) => {
                section.reading.fault(&format!("{path}.name"), node.at, ConfigFault::Repeated { first: first.clone() });
            }
            None => drop(names.insert(rule.name.clone(), section.reading.place(node.at))),
        }
        rules.push(rule);
    }
    section.finish();
    PolicySettings { allows_by_default, enforced, rules }
}

fn rule(mut section: TableSection<'_, '_>, index: usize) -> Option<PolicyRuleSettings> {
    let name = section.text("name").unwrap_or_else(|| format!("rule {}", index + 1));
    if !section.has("who") {
        section.fault("who", ConfigFault::MissingKey { key: "who" });
    }
    let who = people(&mut section, "who");
    let except = people(&mut section, "except");
    let effect = section.kind(EFFECTS);
    let items = effect.map(|effect| items(&mut section, effect)).unwrap_or_default();
    let hints = PolicyHints {
        read_only: section.boolean("read_only"),
        destructive: section.boolean("destructive"),
        idempotent: section.boolean("idempotent"),
        open_world: section.boolean("open_world"),
    };
    let asks_hints = hints != PolicyHints::default();
    // Hints are of tools, so a rule that asks for them is about tools unless it says otherwise.
    let [tools, prompts, resources] = words(&mut section, "kinds", &KINDS).unwrap_or([true, !asks_hints, !asks_hints]);
    if asks_hints && (prompts || resources) {
        section.fault("kinds", ConfigFault::HintsOfTools);
    }
    let [see, r#use, follow] = words(&mut section, "to", &VERBS).unwrap_or([true; 3]);
    let scope = scope(&mut section, effect, r#use);
    section.finish();
    Some(PolicyRuleSettings {
        name,
        who,
        except,
        // After `finish`: a rule without an effect has had its other faults noted.
        denies: effect? == "deny",
        items,
        kinds: PolicyKinds { tools, prompts, resources },
        to: PolicyVerbs { see, r#use, follow },
        hints,
        scope,
    })
}

/// The scope that a rule asks for. A denial needs none, and neither does what is only in lists.
fn scope(section: &mut TableSection<'_, '_>, effect: Option<&str>, permits_use: bool) -> Option<String> {
    let scope = section.text("scope")?;
    // RFC 6749: no spaces, quotes and backslashes; it stands in a header.
    let is_scope = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\\');
    if scope.is_empty() || !scope.chars().all(is_scope) {
        section.fault("scope", ConfigFault::BadScope);
    } else if effect == Some("deny") || !permits_use {
        section.fault("scope", ConfigFault::UselessScope);
    }
    Some(scope)
}

/// People as rules name them.
pub(super) fn people(section: &mut TableSection<'_, '_>, key: &'static str) -> Vec<String> {
    let Some(people) = section.texts(key) else { return Vec::new() };
    if people.is_empty() {
        section.fault(key, ConfigFault::Empty);
    }
    if !people.iter().all(|who| is_who(who)) {
        section.fault(key, ConfigFault::BadWho);
    }
    people
}

pub(super) fn items(section: &mut TableSection<'_, '_>, key: &'static str) -> Vec<String> {
    let items = section.texts(key).unwrap_or_default();
    // A rule about nothing says nothing, and its author meant something.
    if items.is_empty() {
        section.fault(key, ConfigFault::Empty);
    }
    let is_pattern = |text: &String| {
        let parts = text.split_once('/');
        text == "*" || parts.is_some_and(|(server, name)| !server.is_empty() && !name.is_empty())
    };
    if !items.iter().all(is_pattern) {
        section.fault(key, ConfigFault::BadItemPattern);
    }
    items
}

/// Which of some words a list has.
fn words(section: &mut TableSection<'_, '_>, key: &'static str, known: &[&'static str; 3]) -> Option<[bool; 3]> {
    let said = section.texts(key)?;
    if said.is_empty() {
        section.fault(key, ConfigFault::Empty);
    }
    for found in said.iter().filter(|word| !known.contains(&word.as_str())) {
        section.fault(key, ConfigFault::NotOneOf { found: found.clone(), choices: known.to_vec() });
    }
    Some(known.map(|word| said.iter().any(|said| said == word)))
}
