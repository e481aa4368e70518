//! `[[notify]]`.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::error::{ConfigFault, ConfigPlace};
use crate::plan::notify::{NOTIFY_KINDS, NotifyFormat, NotifySettings};
use crate::read::TableSection;
use crate::read::forms::http_url;
use crate::tree::{ConfigNode, ConfigValue};

/// Each costs a task and a place in the log.
const MOST: usize = 64;
/// While one secret takes the place of another there are two.
const MOST_SECRETS: usize = 2;
/// How many bytes a secret of Standard Webhooks has.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

pub(super) fn all(root: &mut TableSection<'_, '_>) -> Vec<NotifySettings> {
    let nodes = root.list("notify", "a list of tables, each written as [[notify]]").unwrap_or_default();
    if nodes.len() > MOST {
        root.fault("notify", ConfigFault::TooMany { most: MOST });
    }
    let mut known: BTreeMap<String, ConfigPlace> = BTreeMap::new();
    let mut all = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        let path = format!("notify[{index}]");
        let Some(notify) = TableSection::of_node(root.reading, path.clone(), node.at, node).and_then(one) else {
            continue;
        };
        // How far each came is kept by this.
        match known.get(notify.identity()) {
            Some(first) => {
                let key = if notify.name.is_some() { "name" } else { "url" };
                root.reading.fault(&format!("{path}.{key}"), node.at, ConfigFault::Repeated { first: first.clone() });
            }
            None => drop(known.insert(notify.identity().to_owned(), root.reading.place(node.at))),
        }
        all.push(notify);
    }
    all
}

fn one(mut section: TableSection<'_, '_>) -> Option<NotifySettings> {
    let name = section.text("name");
    if !section.has("url") {
        section.fault("url", ConfigFault::MissingKey { key: "url" });
    }
    let url = http_url(&mut section, "url");
    let formats = [("cloudevents", NotifyFormat::CloudEvents), ("slack", NotifyFormat::Slack)];
    let format = section.choice("format", &formats).unwrap_or_default();
    let secrets = match format {
        NotifyFormat::CloudEvents => secrets(&mut section),
        NotifyFormat::Slack => {
            section.refuse("format = \"slack\"", &["secret"]);
            Vec::new()
        }
    };
    let servers = section.texts("servers").unwrap_or_default();
    let kinds = section.texts("kinds").unwrap_or_default();
    // An empty list would read as "of nothing", and mean "of everything".
    for (key, list) in [("servers", &servers), ("kinds", &kinds)] {
        if list.is_empty() && section.has(key) {
            section.fault(key, ConfigFault::Empty);
        }
    }
    for found in kinds.iter().filter(|kind| !NOTIFY_KINDS.contains(&kind.as_str())) {
        section.fault("kinds", ConfigFault::NotOneOf { found: found.clone(), choices: NOTIFY_KINDS.to_vec() });
    }
    let private = section.boolean("private").unwrap_or(false);
    section.finish();
    Some(NotifySettings { name, url: url?, secrets, format, servers, kinds, private })
}

/// One secret, or the new and the old one.
fn secrets(section: &mut TableSection<'_, '_>) -> Vec<String> {
    let secrets = match section.entry("secret").map(|entry| &entry.node) {
        None => {
            section.fault("secret", ConfigFault::MissingKey { key: "secret" });
            return Vec::new();
        }
        Some(ConfigNode { value: ConfigValue::List(_), .. }) => section.texts("secret").unwrap_or_default(),
        Some(_) => section.text("secret").into_iter().collect(),
    };
    if secrets.len() > MOST_SECRETS {
        section.fault("secret", ConfigFault::TooMany { most: MOST_SECRETS });
    }
    let is_secret = |text: &String| {
        let bytes = text.strip_prefix("whsec_").and_then(|text| STANDARD.decode(text).ok());
        bytes.is_some_and(|bytes| SECRET_BYTES.contains(&bytes.len()))
    };
    if !secrets.iter().all(is_secret) {
        section.fault("secret", ConfigFault::BadSecret);
    }
    secrets
}
