//! TOML: a section per server.

use serde_json::{Map, Value as Json};
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, Value, value};

use super::EditError;

fn parsed(text: &str) -> Result<DocumentMut, EditError> {
    text.parse().map_err(|error: toml_edit::TomlError| EditError::Unreadable(error.to_string()))
}

pub(super) fn tree(text: &str) -> Result<Json, EditError> {
    Ok(table(parsed(text)?.as_table()))
}

fn table(table: &dyn toml_edit::TableLike) -> Json {
    Json::Object(table.iter().map(|(key, item)| (key.to_owned(), plain(item))).collect::<Map<_, _>>())
}

fn plain(item: &Item) -> Json {
    match item {
        Item::None => Json::Null,
        Item::Value(value) => scalar(value),
        Item::Table(inner) => table(inner),
        Item::ArrayOfTables(tables) => tables.iter().map(|inner| table(inner)).collect(),
    }
}

fn scalar(value: &Value) -> Json {
    match value {
        Value::String(text) => text.value().as_str().into(),
        Value::Integer(number) => (*number.value()).into(),
        Value::Float(number) => (*number.value()).into(),
        Value::Boolean(value) => (*value.value()).into(),
        // JSON has none; as text it can still be compared.
        Value::Datetime(time) => time.value().to_string().into(),
        Value::Array(items) => items.iter().map(scalar).collect(),
        Value::InlineTable(inner) => table(inner),
    }
}

pub(super) fn set(text: &str, key: &str, name: &str, entry: &Json) -> Result<String, EditError> {
    let end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let section = rendered(key, name, entry)?.replace('\n', end);
    if super::entries(super::FileFormat::Toml, text, key)?.contains_key(name) {
        let (lines, from, to) = section_lines(text, key, name)?;
        return Ok([&lines[..from].concat(), section.as_str(), &lines[to..].concat()].concat());
    }
    let gap = match text {
        "" => String::new(),
        _ if text.ends_with('\n') => end.to_owned(),
        _ => end.repeat(2),
    };
    Ok(format!("{text}{gap}{section}"))
}

pub(super) fn remove(text: &str, key: &str, name: &str) -> Result<String, EditError> {
    let (lines, mut from, to) = section_lines(text, key, name)?;
    // The blank line that came with a section at the end.
    if to == lines.len() && from > 0 && lines[from - 1].trim().is_empty() {
        from -= 1;
    }
    Ok([lines[..from].concat(), lines[to..].concat()].concat())
}

/// The section of one entry as text, to be put into the file.
fn rendered(key: &str, name: &str, entry: &Json) -> Result<String, EditError> {
    let mut section = Table::new();
    for (inner, json) in entry.as_object().into_iter().flatten() {
        let known = native(json).ok_or_else(|| EditError::Unusual(format!("TOML has no word for `{inner}`")))?;
        section.insert(inner, value(known));
    }
    let mut members = Table::new();
    // Only its members get a heading.
    members.set_implicit(true);
    members.insert(name, Item::Table(section));
    let mut document = DocumentMut::new();
    document.insert(key, Item::Table(members));
    Ok(document.to_string())
}

/// The lines of the file, and those among them that are the section. The library would write the whole file anew, with other
/// line ends; what the lines mean is read again afterwards.
fn section_lines<'a>(text: &'a str, key: &str, name: &str) -> Result<(Vec<&'a str>, usize, usize), EditError> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let heading = |line: &str| -> Option<Vec<String>> {
        let inside = line.trim_start().strip_prefix('[')?;
        let path = toml_edit::Key::parse(inside.split_once(']')?.0).ok()?;
        Some(path.iter().map(|part| part.get().to_owned()).collect())
    };
    let is_ours = |path: &[String]| path.len() >= 2 && path[0] == key && path[1] == name;
    let unusual = || EditError::Unusual(format!("`{name}` has no section of its own"));
    let from = lines.iter().position(|line| heading(line).is_some_and(|path| is_ours(&path))).ok_or_else(unusual)?;
    let other = |line: &&str| line.trim_start().starts_with('[') && !heading(line).is_some_and(|path| is_ours(&path));
    let mut to = lines[from + 1..].iter().position(other).map_or(lines.len(), |at| from + 1 + at);
    // Blank lines and comments before what follows belong to what follows.
    while to > from + 1 && (lines[to - 1].trim().is_empty() || lines[to - 1].trim_start().starts_with('#')) {
        to -= 1;
    }
    Ok((lines, from, to))
}

fn native(json: &Json) -> Option<Value> {
    Some(match json {
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
