//! `[clients.X]`.

use crate::error::ConfigFault;
use crate::plan::gateway::ExposeSetting;
use crate::plan::profile::{ClientSettings, HEARD_NOTICES, SCHEMA_RULES};
use crate::read::TableSection;

/// Shorter names could not be told apart, longer ones no client takes.
const NAME_BUDGET: (i64, i64) = (16, 1024);

/// All clients of a file.
pub(super) fn clients(section: &TableSection<'_, '_>) -> Vec<ClientSettings> {
    section.named_sections().into_iter().map(|(name, section)| client(section, name)).collect()
}

fn client(mut section: TableSection<'_, '_>, name: &str) -> ClientSettings {
    let version = section.text("version");
    if version.as_deref().is_some_and(|version| !version.split(',').all(is_bound)) {
        section.fault("version", ConfigFault::BadVersionRange);
    }
    let registered_as = section.text("as");
    let (least, most) = NAME_BUDGET;
    let name_budget = section.integer("name_budget", least, most).and_then(|bytes| usize::try_from(bytes).ok());
    let follows_pages = section.choice("pages", &[("follow", true), ("one", false)]);
    let hears = words(&mut section, "hears", &HEARD_NOTICES);
    let expose = section.choice(
        "expose",
        &[("all", ExposeSetting::All), ("search", ExposeSetting::Search), ("both", ExposeSetting::Both)],
    );
    let schema = words(&mut section, "schema", &SCHEMA_RULES);
    let hint = section.boolean("hint");
    section.finish();
    let name = name.to_owned();
    ClientSettings { name, version, registered_as, name_budget, follows_pages, hears, expose, schema, hint }
}

fn words(section: &mut TableSection<'_, '_>, key: &'static str, choices: &[&'static str]) -> Option<Vec<String>> {
    let words = section.texts(key)?;
    for word in words.iter().filter(|word| !choices.contains(&word.as_str())) {
        section.fault(key, ConfigFault::NotOneOf { found: word.clone(), choices: choices.to_vec() });
    }
    Some(words)
}

/// `<`, `<=`, `=`, `>=` or `>`, and numbers with dots between them.
fn is_bound(text: &str) -> bool {
    let text = text.trim();
    let signs = ["<=", ">=", "<", ">", "="];
    let version = signs.iter().find_map(|sign| text.strip_prefix(sign)).map(str::trim);
    let is_number = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
    version.is_some_and(|version| version.split('.').all(is_number))
}
