//! Changing a configuration file for its owner: one server comes, goes, or is switched on or off. Everything else in the
//! file stays as it was written, comments included.

mod members;

use std::path::Path;

use serde_json::Value as Json;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, Value, value};

use crate::expand::ConfigSurroundings;
use members::RawMembers;

/// What to do with one server.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerEdit<'a> {
    /// Add it, with the keys of `[servers.X]`.
    Add(&'a Json),
    /// Take the server's table out of the file.
    Remove,
    /// Use it, or do not.
    Enable(bool),
}

/// Why a file is left as it is.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// It is wrong already, or would be.
    #[error("{0}")]
    Invalid(#[from] crate::ConfigErrors),
    /// There is such a server already.
    #[error("there is a server \"{0}\" already; remove it first, or choose another name")]
    Taken(String),
    /// There is no such server.
    #[error("there is no server \"{0}\" in the file")]
    Unknown(String),
    /// The text is too unusual to be changed by a program.
    #[error("the file can not be changed by a program ({0}); change it by hand")]
    Unusual(String),
}

/// The text of the file `path` after the edit. It is read again before it is given out: it is a valid configuration, in
/// which nothing but that server differs.
pub fn edit(
    text: &str,
    path: &Path,
    name: &str,
    edit: &ServerEdit<'_>,
    surroundings: &ConfigSurroundings<'_>,
) -> Result<String, EditError> {
    let before = crate::parse(text, path, surroundings)?;
    let known = before.servers.iter().any(|server| server.name == name);
    match edit {
        ServerEdit::Add(_) if known => return Err(EditError::Taken(name.to_owned())),
        ServerEdit::Remove | ServerEdit::Enable(_) if !known => return Err(EditError::Unknown(name.to_owned())),
        _ => {}
    }
    let edited = if crate::decode::is_json(text, path) { json(text, name, edit)? } else { toml(text, name, edit)? };
    // A file that this program wrote and then can not read is worse than an edit that is refused.
    let after = crate::parse(&edited, path, surroundings)?;
    let others = |config: &crate::Config| -> Vec<crate::ServerConfig> {
        config.servers.iter().filter(|server| server.name != name).cloned().collect()
    };
    // Inline tables and dotted keys can be written in ways that an insertion changes; the result is compared instead
    // of trusted.
    if others(&before) != others(&after) {
        return Err(EditError::Unusual("other servers would change as well".into()));
    }
    Ok(edited)
}

fn toml(text: &str, name: &str, edit: &ServerEdit<'_>) -> Result<String, EditError> {
    let unusual = |why: &dyn std::fmt::Display| EditError::Unusual(why.to_string());
    let mut document: DocumentMut = text.parse().map_err(|error| unusual(&error))?;
    let servers = document.entry("servers").or_insert_with(|| {
        let mut table = Table::new();
        // Only its members get a heading.
        table.set_implicit(true);
        Item::Table(table)
    });
    let servers = servers.as_table_like_mut().ok_or_else(|| unusual(&"`servers` is not a table"))?;
    match edit {
        ServerEdit::Add(keys) => {
            let table = keys.as_object().map(|keys| keys.iter().map(|(key, json)| (key, native(json))));
            let mut section = Table::new();
            for (key, converted) in table.into_iter().flatten() {
                let converted = converted.ok_or_else(|| unusual(&format!("`{key}` has no counterpart in TOML")))?;
                section.insert(key, value(converted));
            }
            servers.insert(name, Item::Table(section));
        }
        ServerEdit::Remove => _ = servers.remove(name),
        ServerEdit::Enable(enabled) => {
            let section = servers.get_mut(name).and_then(Item::as_table_like_mut);
            let section = section.ok_or_else(|| unusual(&"its section is not a table"))?;
            // In its place where there is one, so that the keys keep their order.
            match section.get_mut("enabled") {
                Some(known) => *known = value(*enabled),
                None => _ = section.insert("enabled", value(*enabled)),
            }
        }
    }
    Ok(document.to_string())
}

/// A JSON value in TOML's words; `None` for what TOML has no word for.
fn native(json: &Json) -> Option<Value> {
    Some(match json {
        // TOML has no null.
        Json::Null => return None,
        Json::Bool(value) => (*value).into(),
        Json::Number(number) => match number.as_i64() {
            Some(whole) => whole.into(),
            None => number.as_f64()?.into(),
        },
        Json::String(text) => text.as_str().into(),
        Json::Array(items) => items.iter().map(native).collect::<Option<Array>>()?.into(),
        Json::Object(members) => {
            let pairs = members.iter().map(|(key, value)| Some((key.as_str(), native(value)?)));
            pairs.collect::<Option<InlineTable>>()?.into()
        }
    })
}

fn json(text: &str, name: &str, edit: &ServerEdit<'_>) -> Result<String, EditError> {
    let unusual = |why: serde_json::Error| EditError::Unusual(why.to_string());
    // Strict JSON: the comments that `parse` allows would be lost, so a file that has some is left to its owner.
    let mut file: RawMembers = serde_json::from_str(text).map_err(unusual)?;
    let mut servers: RawMembers = match file.get("mcpServers") {
        Some(raw) => serde_json::from_str(raw).map_err(unusual)?,
        None => RawMembers::default(),
    };
    match edit {
        ServerEdit::Add(keys) => servers.set(name, format!("{keys:#}")),
        ServerEdit::Remove => servers.remove(name),
        ServerEdit::Enable(enabled) => {
            let mut server: RawMembers = serde_json::from_str(servers.get(name).unwrap_or("{}")).map_err(unusual)?;
            // The word that client programs use for it.
            server.remove("enabled");
            match enabled {
                true => server.remove("disabled"),
                false => server.set("disabled", "true".into()),
            }
            servers.set(name, server.to_text(2));
        }
    }
    file.set("mcpServers", servers.to_text(1));
    Ok(file.to_text(0) + "\n")
}

#[cfg(test)]
mod tests;
