//! `[[servers]]` of a catalogue file.

use std::collections::BTreeMap;

use crate::error::{ConfigFault, ConfigPlace};
use crate::plan::entry::{CatalogueEntry, EntryArguments, EntryCommand, EntryVariable};
use crate::read::TableSection;
use crate::read::forms::{header_objection, http_url, variable_objection};
use crate::tree::ConfigNode;

const KINDS: &[&str] = &["npm", "pypi", "container", "url", "command"];

/// The keys that only containers have.
const CONTAINER: &[&str] = &["network", "read_only", "volumes"];

/// All entries of a file.
pub(super) fn all(mut root: TableSection<'_, '_>) -> Vec<CatalogueEntry> {
    if !root.has("servers") {
        root.fault("servers", ConfigFault::MissingKey { key: "servers" });
    }
    let nodes = root.list("servers", "a list of tables").unwrap_or_default();
    let mut ids: BTreeMap<String, ConfigPlace> = BTreeMap::new();
    let mut entries = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        let path = format!("servers[{index}]");
        let section = TableSection::of_node(root.reading, path.clone(), node.at, node);
        // The faults of a broken entry are noted; the others are read all the same.
        let Some(entry) = section.and_then(one) else { continue };
        match ids.get(&entry.id) {
            Some(first) => {
                root.reading.fault(&format!("{path}.id"), node.at, ConfigFault::Repeated { first: first.clone() });
            }
            None => drop(ids.insert(entry.id.clone(), root.reading.place(node.at))),
        }
        entries.push(entry);
    }
    root.finish();
    entries
}

fn one(mut section: TableSection<'_, '_>) -> Option<CatalogueEntry> {
    let id = section.required_text("id").filter(|id| {
        let fits = is_id(id);
        if !fits {
            section.fault("id", ConfigFault::BadEntryId);
        }
        fits
    });
    let name = section.text("name");
    let description = section.required_text("description");
    let categories = section.texts("categories").unwrap_or_default();
    let tags = section.texts("tags").unwrap_or_default();
    let official = section.boolean("official").unwrap_or(false);
    let featured = section.boolean("featured").unwrap_or(false);
    let repository = section.has("repository").then(|| http_url(&mut section, "repository")).flatten();
    let docs = section.text("docs");
    let kind = section.kind(KINDS);
    let run = kind.and_then(|kind| run(&mut section, kind));
    let variables = variables(&mut section);
    let arguments = section.section("arguments").and_then(arguments);
    // Known whatever the kind, so that a missing kind is the only complaint.
    for key in ["args", "headers"].iter().chain(CONTAINER) {
        section.has(key);
    }
    section.finish();
    let id = id?;
    Some(CatalogueEntry {
        name: name.unwrap_or_else(|| last_part(&id).to_owned()),
        description: description?,
        categories,
        tags,
        official,
        featured,
        repository,
        docs,
        run: run?,
        variables,
        arguments,
        id,
    })
}

fn run(section: &mut TableSection<'_, '_>, kind: &'static str) -> Option<EntryCommand> {
    if kind == "url" {
        let url = http_url(section, "url");
        let headers = section.pairs("headers", header_objection);
        section.refuse(kind, &["args", "arguments"]);
        section.refuse(kind, CONTAINER);
        return Some(EntryCommand::Url { url: url?, headers });
    }
    let what = section.text(kind);
    let args = section.texts("args").unwrap_or_default();
    section.refuse(kind, &["headers"]);
    if kind == "container" {
        let network = section.boolean("network").unwrap_or(false);
        let read_only = section.boolean("read_only").unwrap_or(true);
        let volumes = section.texts("volumes").unwrap_or_default();
        return Some(EntryCommand::Container { image: what?, args, network, read_only, volumes });
    }
    section.refuse(kind, CONTAINER);
    Some(match kind {
        "npm" => EntryCommand::Npm { package: what?, args },
        "pypi" => EntryCommand::Pypi { package: what?, args },
        _ => EntryCommand::Command { command: what?, args },
    })
}

fn variables(section: &mut TableSection<'_, '_>) -> Vec<EntryVariable> {
    let nodes = section.list("variables", "a list of tables").unwrap_or_default();
    let path = section.key("variables");
    let variable = |(index, node): (usize, &ConfigNode)| {
        let mut section = TableSection::of_node(section.reading, format!("{path}[{index}]"), node.at, node)?;
        let name = section.required_text("name");
        if let Some(fault) = name.as_deref().and_then(|name| variable_objection(name, "")) {
            section.fault("name", fault);
        }
        let description = section.text("description").unwrap_or_default();
        let required = section.boolean("required").unwrap_or(false);
        let secret = section.boolean("secret").unwrap_or(false);
        section.finish();
        Some(EntryVariable { name: name?, description, required, secret })
    };
    nodes.iter().enumerate().filter_map(variable).collect()
}

fn arguments(mut section: TableSection<'_, '_>) -> Option<EntryArguments> {
    let description = section.required_text("description");
    let required = section.boolean("required").unwrap_or(false);
    section.finish();
    Some(EntryArguments { description: description?, required })
}

fn is_id(id: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_./@:".contains(c);
    id.chars().all(allowed) && !last_part(id).is_empty()
}

fn last_part(id: &str) -> &str {
    id.rsplit('/').next().unwrap_or(id)
}
