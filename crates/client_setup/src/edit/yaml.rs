//! YAML: an entry is a run of lines below its member. Lines come and go whole; the parser only says what they mean.

use std::str::FromStr as _;

use serde_json::{Map, Value};
use yaml_edit::{Document, YamlNode};

use super::EditError;

pub(super) fn tree(text: &str) -> Result<Value, EditError> {
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(Value::Null);
    }
    let document = Document::from_str(text).map_err(|error| EditError::Unreadable(error.to_string()))?;
    match document.as_mapping() {
        Some(mapping) => node(&YamlNode::Mapping(mapping)),
        None => Err(EditError::Unusual("it holds something else than named settings".to_owned())),
    }
}

fn node(yaml: &YamlNode) -> Result<Value, EditError> {
    Ok(match yaml {
        // In quotes, `true` and `1` are text.
        YamlNode::Scalar(scalar) if scalar.is_quoted() || scalar.is_block() => scalar.as_string().into(),
        YamlNode::Scalar(scalar) if scalar.is_null() => Value::Null,
        YamlNode::Scalar(scalar) => match (scalar.as_bool(), scalar.as_i64(), scalar.as_f64()) {
            (Some(value), ..) => value.into(),
            (_, Some(number), _) => number.into(),
            (_, _, Some(number)) => number.into(),
            _ => scalar.as_string().into(),
        },
        YamlNode::Sequence(sequence) => {
            sequence.values().map(|value| node(&value)).collect::<Result<Vec<_>, _>>()?.into()
        }
        YamlNode::Mapping(mapping) => {
            let mut members = Map::new();
            for entry in mapping.entries() {
                let key = entry.key_node().ok_or_else(|| EditError::Unusual("a key is missing".to_owned()))?;
                let key = match node(&key)? {
                    Value::String(text) => text,
                    other => other.to_string(),
                };
                let value = entry.value_node().map_or(Ok(Value::Null), |value| node(&value))?;
                if members.insert(key.clone(), value).is_some() {
                    return Err(EditError::Unusual(format!("`{key}` is there twice")));
                }
            }
            members.into()
        }
        // What an alias stands for is its owner's business; its words are what must not change.
        YamlNode::Alias(alias) => alias.to_string().into(),
        YamlNode::TaggedNode(tagged) => tagged.to_string().into(),
    })
}

/// A line with its end, and how far it is indented. Blank lines and comments have no depth.
struct IndentedLine<'a> {
    text: &'a str,
    depth: Option<usize>,
}

fn lines(text: &str) -> Vec<IndentedLine<'_>> {
    text.split_inclusive('\n')
        .map(|line| {
            let content = line.trim_start_matches(' ');
            let is_silent = content.trim().is_empty() || content.starts_with('#');
            IndentedLine { text: line, depth: (!is_silent).then(|| line.len() - content.len()) }
        })
        .collect()
}

/// Where the member `key` stands with its own lines, at `depth` and between `from` and `to`.
fn block(all: &[IndentedLine<'_>], key: &str, depth: usize, from: usize, to: usize) -> Option<(usize, usize)> {
    let names = [format!("{key}:"), format!("\"{key}\":"), format!("'{key}':")];
    let is_it = |line: &IndentedLine<'_>| {
        let content = line.text.trim();
        line.depth == Some(depth)
            && names.iter().any(|name| content == name || content.starts_with(&format!("{name} ")))
    };
    let start = (from..to).find(|at| is_it(&all[*at]))?;
    let outside = |line: &IndentedLine<'_>| line.depth.is_some_and(|other| other <= depth);
    let mut end = (start + 1..to).find(|at| outside(&all[*at])).unwrap_or(to);
    // Blank lines and comments before what follows belong to what follows.
    while end > start + 1 && all[end - 1].depth.is_none() {
        end -= 1;
    }
    Some((start, end))
}

pub(super) fn set(text: &str, key: &str, name: &str, entry: &Value) -> Result<String, EditError> {
    if super::entries(super::FileFormat::Yaml, text, key)?.contains_key(name) {
        // Out and in again, since lines come and go whole; it then stands first among the others.
        return set(&remove(text, key, name)?, key, name, entry);
    }
    let all = lines(text);
    let end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let rendered = |depth: usize, with_key: bool| {
        let mut out = String::new();
        if with_key {
            out.push_str(&format!("{key}:{end}"));
        }
        write(&mut out, name, entry, depth, end);
        out
    };
    let Some((start, after)) = block(&all, key, 0, 0, all.len()) else {
        let gap = if text.is_empty() || text.ends_with('\n') { "" } else { end };
        return Ok(format!("{text}{gap}{}", rendered(2, true)));
    };
    let depth = all[start + 1..after].iter().find_map(|line| line.depth);
    let head: String = all[..start].iter().map(|line| line.text).collect();
    let rest: String = all[start + 1..].iter().map(|line| line.text).collect();
    let opening = all[start].text.trim_end();
    let gap =
        if all[start].text.ends_with('\n') { all[start].text[opening.len()..].to_owned() } else { end.to_owned() };
    let value = opening.split_once(':').map_or("", |(_, value)| value.trim());
    match (value, depth) {
        ("", Some(depth)) => Ok(format!("{head}{opening}{gap}{}{rest}", rendered(depth, false))),
        ("", None) => Ok(format!("{head}{opening}{gap}{}{rest}", rendered(2, false))),
        (comment, depth) if comment.starts_with('#') => {
            Ok(format!("{head}{opening}{gap}{}{rest}", rendered(depth.unwrap_or(2), false)))
        }
        // Lines come and go whole here, which `key: {a: b}` does not allow.
        _ => Err(EditError::Unusual(format!("`{key}` is written on one line"))),
    }
}

pub(super) fn remove(text: &str, key: &str, name: &str) -> Result<String, EditError> {
    let all = lines(text);
    let missing = || EditError::Unusual(format!("`{name}` is written in an unusual way"));
    let (start, after) = block(&all, key, 0, 0, all.len()).ok_or_else(missing)?;
    let depth = all[start + 1..after].iter().find_map(|line| line.depth).ok_or_else(missing)?;
    let (from, to) = block(&all, name, depth, start + 1, after).ok_or_else(missing)?;
    let kept = all.iter().enumerate().filter(|(at, _)| !(from..to).contains(at));
    Ok(kept.map(|(_, line)| line.text).collect())
}

/// Texts are written in JSON's quotes, which YAML reads as JSON does.
fn write(out: &mut String, key: &str, value: &Value, depth: usize, end: &str) {
    let indent = " ".repeat(depth);
    let is_plain = key.starts_with(|c: char| c.is_ascii_alphabetic())
        && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
        // YAML 1.1 reads these words as truth values or null.
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"].contains(&key.to_ascii_lowercase().as_str());
    let key = if is_plain { key.to_owned() } else { Value::from(key).to_string() };
    match value {
        Value::Object(members) if !members.is_empty() => {
            out.push_str(&format!("{indent}{key}:{end}"));
            for (inner, value) in members {
                write(out, inner, value, depth + 2, end);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            out.push_str(&format!("{indent}{key}:{end}"));
            for item in items {
                out.push_str(&format!("{indent}- {item}{end}"));
            }
        }
        other => out.push_str(&format!("{indent}{key}: {other}{end}")),
    }
}
