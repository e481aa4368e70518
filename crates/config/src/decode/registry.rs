//! `[[registry]]`, and `release` of `[servers.X]`.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::error::{ConfigFault, ConfigPlace};
use crate::plan::registry::{RegistrySettings, ReleasePin};
use crate::read::TableSection;
use crate::read::forms::{header_objection, http_url};

/// How often a registry is asked when the file does not say.
const REFRESH: Duration = Duration::from_secs(60 * 60);
/// What other sources of entries are called, and all of them together.
const RESERVED: [&str; 3] = ["built-in", "file", "all"];

/// All registries of a file.
pub(super) fn registries(root: &mut TableSection<'_, '_>) -> Vec<RegistrySettings> {
    let nodes = root.list("registry", "a list of tables").unwrap_or_default();
    let mut names: BTreeMap<String, ConfigPlace> = BTreeMap::new();
    let mut registries = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        let path = format!("registry[{index}]");
        let section = TableSection::of_node(root.reading, path.clone(), node.at, node);
        let Some(registry) = section.and_then(one) else { continue };
        let place = root.reading.place(node.at);
        // Sources are asked for by name, in any case.
        if let Some(first) = names.insert(registry.name.to_ascii_lowercase(), place) {
            root.reading.fault(&format!("{path}.name"), node.at, ConfigFault::Repeated { first });
        }
        registries.push(registry);
    }
    registries
}

fn one(mut section: TableSection<'_, '_>) -> Option<RegistrySettings> {
    let name = section.required_text("name");
    // Whatever the case of its letters, as sources are asked for.
    if name.as_deref().is_some_and(|name| RESERVED.iter().any(|own| own.eq_ignore_ascii_case(name))) {
        section.fault("name", ConfigFault::ReservedSource);
    }
    if !section.has("url") {
        section.fault("url", ConfigFault::MissingKey { key: "url" });
    }
    let url = http_url(&mut section, "url");
    let headers = section.pairs("headers", header_objection);
    let refresh = section.positive_duration("refresh").unwrap_or(REFRESH);
    section.finish();
    let url = url?;
    // The version of the API is ours to say: the paths after it differ between versions.
    let url = url.trim_end_matches('/').trim_end_matches("/v0.1").to_owned();
    Some(RegistrySettings { name: name?, url, headers, refresh })
}

/// `release` of a server.
pub(super) fn release(section: &mut TableSection<'_, '_>) -> Option<ReleasePin> {
    let mut section = section.section("release")?;
    let version = section.required_text("version");
    let kind = section.required_text("kind");
    let digest = section.text("digest");
    // Only for whoever makes the keys of the next release: what they say stands in the other keys already.
    section.has("inputs");
    section.has("args");
    section.finish();
    Some(ReleasePin { version: version?, kind: kind?, digest })
}
