//! Changing one entry of a client's file. Every other byte stays, and what comes out is read again before it is given out.

mod json;
mod toml;
mod yaml;

use serde_json::{Map, Value};

/// The formats that clients write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// JSON, with or without comments.
    Json,
    /// TOML, with a section per server.
    Toml,
    /// YAML, with a block of lines per server.
    Yaml,
}

/// Why a file can not be read or is left as it is.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum EditError {
    /// It is not what its name says.
    #[error("it can not be read: {0}")]
    Unreadable(String),
    /// It is written in a way that a program should not change.
    #[error("it can not be changed by a program ({0}); change it by hand")]
    Unusual(String),
}

/// The servers that stand in a file, by name, each as the client wrote it.
pub fn entries(format: FileFormat, text: &str, key: &str) -> Result<Map<String, Value>, EditError> {
    match tree(format, text)?.get_mut(key).map(Value::take) {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(entries)) => Ok(entries),
        Some(_) => Err(EditError::Unusual(format!("`{key}` does not hold servers by name"))),
    }
}

/// The whole file as data.
pub(crate) fn tree(format: FileFormat, text: &str) -> Result<Value, EditError> {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let tree = match format {
        FileFormat::Json => json::tree(text)?,
        FileFormat::Toml => toml::tree(text)?,
        FileFormat::Yaml => yaml::tree(text)?,
    };
    match tree {
        Value::Object(_) => Ok(tree),
        Value::Null => Ok(Value::Object(Map::new())),
        _ => Err(EditError::Unusual("it holds something else than named settings".to_owned())),
    }
}

const BYTE_ORDER_MARK: char = '\u{feff}';

/// The text with `key.name` set to `entry`, or without it.
pub(crate) fn with_entry(
    format: FileFormat,
    text: &str,
    key: &str,
    name: &str,
    entry: Option<&Value>,
) -> Result<String, EditError> {
    let before = tree(format, text)?;
    let (mark, bare) = match text.strip_prefix(BYTE_ORDER_MARK) {
        Some(bare) => (&text[..text.len() - bare.len()], bare),
        None => ("", text),
    };
    let known = entries(format, text, key)?.get(name).cloned();
    // What says the same already keeps its own layout.
    if known.as_ref() == entry {
        return Ok(text.to_owned());
    }
    let edited = match (format, entry) {
        (FileFormat::Json, Some(entry)) => json::set(bare, key, name, entry)?,
        (FileFormat::Json, None) => json::remove(bare, key, name)?,
        (FileFormat::Toml, Some(entry)) => toml::set(bare, key, name, entry)?,
        (FileFormat::Toml, None) => toml::remove(bare, key, name)?,
        (FileFormat::Yaml, Some(entry)) => yaml::set(bare, key, name, entry)?,
        (FileFormat::Yaml, None) => yaml::remove(bare, key, name)?,
    };
    let edited = format!("{mark}{edited}");
    // What the file has to say afterwards, worked out without the editor, so that `checked` can compare the two.
    let mut wanted = before;
    let members = wanted.as_object_mut().map(|all| all.entry(key).or_insert_with(|| Value::Object(Map::new())));
    if let Some(member) = members {
        if member.is_null() {
            *member = Value::Object(Map::new());
        }
        match (member.as_object_mut(), entry) {
            (Some(members), Some(entry)) => _ = members.insert(name.to_owned(), entry.clone()),
            (Some(members), None) => _ = members.remove(name),
            (None, _) => {}
        }
    }
    checked(format, text, edited, &wanted, known.is_none(), key)
}

/// Reads the result again: it says what was wanted and nothing else, and an addition has kept every byte.
fn checked(
    format: FileFormat,
    text: &str,
    edited: String,
    wanted: &Value,
    is_addition: bool,
    key: &str,
) -> Result<String, EditError> {
    let mut after = tree(format, &edited).map_err(|error| EditError::Unusual(format!("afterwards {error}")))?;
    // A member that became empty may have gone with its last entry.
    if wanted.get(key).and_then(Value::as_object).is_some_and(Map::is_empty)
        && after.get(key).is_none_or(Value::is_null)
    {
        after[key] = Value::Object(Map::new());
    }
    if after != *wanted {
        return Err(EditError::Unusual("something else would change as well".to_owned()));
    }
    // The trees can be equal although a comment was lost.
    if is_addition && !keeps(text, &edited) {
        return Err(EditError::Unusual("text would be lost".to_owned()));
    }
    Ok(edited)
}

/// Whether every byte of `before` is still there, in order.
fn keeps(before: &str, after: &str) -> bool {
    let mut rest = after.bytes();
    before.bytes().all(|byte| rest.any(|other| other == byte))
}

/// Adds a question for a secret to `inputs`, as VS Code reads it.
pub(crate) fn with_input(text: &str, id: &str) -> Result<String, EditError> {
    json::with_input(text, id)
}

/// Takes it out again.
pub(crate) fn without_input(text: &str, id: &str) -> Result<String, EditError> {
    json::without_input(text, id)
}

#[cfg(test)]
mod tests;
