//! The difference between two JSON values, by path.

use std::collections::BTreeSet;

use serde_json::Value;

use super::diff::{self, DiffLine};

/// A value that came or went, as one line with its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ValueLine {
    Gone(String),
    Come(String),
}

impl ValueLine {
    /// As a line of a difference.
    pub(super) fn line(&self) -> DiffLine<'_> {
        match self {
            Self::Gone(text) => DiffLine::Gone(text),
            Self::Come(text) => DiffLine::Come(text),
        }
    }
}

/// What differs, in the order of the paths.
pub(super) fn parts(before: Option<&Value>, after: Option<&Value>) -> Vec<ValueLine> {
    let mut out = Vec::new();
    compare("", before, after, &mut out);
    out
}

fn compare(path: &str, before: Option<&Value>, after: Option<&Value>, out: &mut Vec<ValueLine>) {
    match (before, after) {
        (Some(old), Some(new)) if old == new => {}
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for key in keys {
                compare(&member(path, key), old.get(key), new.get(key), out);
            }
        }
        // Of the same length: most likely an element was changed, which is told by its path.
        (Some(Value::Array(old)), Some(Value::Array(new))) if old.len() == new.len() => {
            for (at, (old, new)) in old.iter().zip(new).enumerate() {
                compare(&format!("{path}[{at}]"), Some(old), Some(new), out);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) => elements(path, old, new, out),
        (old, new) => {
            out.extend(old.map(|value| ValueLine::Gone(line(path, &value.to_string()))));
            out.extend(new.map(|value| ValueLine::Come(line(path, &value.to_string()))));
        }
    }
}

/// Elements that came and went; those in both are not told.
fn elements(path: &str, old: &[Value], new: &[Value], out: &mut Vec<ValueLine>) {
    let [old, new] = [old, new].map(|side| side.iter().map(Value::to_string).collect::<Vec<_>>());
    let [old, new] = [&old, &new].map(|side| side.iter().map(String::as_str).collect::<Vec<_>>());
    let path = format!("{path}[]");
    for element in diff::lines(&old, &new, 0) {
        match element {
            DiffLine::Gone(text) => out.push(ValueLine::Gone(line(&path, text))),
            DiffLine::Come(text) => out.push(ValueLine::Come(line(&path, text))),
            DiffLine::Same(_) | DiffLine::Skipped => {}
        }
    }
}

fn member(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn line(path: &str, value: &str) -> String {
    if path.is_empty() { value.to_owned() } else { format!("{path}: {value}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(before: &Value, after: &Value) -> Vec<String> {
        let sign = |part: &ValueLine| match part {
            ValueLine::Gone(line) => format!("- {line}"),
            ValueLine::Come(line) => format!("+ {line}"),
        };
        parts(Some(before), Some(after)).iter().map(sign).collect()
    }

    #[test]
    fn members_are_named_by_their_path() {
        let before = json!({"type": "object", "properties": {"q": {"type": "string"}, "n": {"default": 10}}});
        let after = json!({"type": "object", "properties": {"n": {"default": 20}, "s": {"enum": ["a"]}}});
        let expected = [
            "- properties.n.default: 10",
            "+ properties.n.default: 20",
            r#"- properties.q: {"type":"string"}"#,
            r#"+ properties.s: {"enum":["a"]}"#,
        ];
        assert_eq!(told(&before, &after), expected);
    }

    #[test]
    fn elements_that_came_and_went_are_told_alone() {
        let before = json!({"required": ["a", "b"], "arguments": [{"name": "x"}, {"name": "y", "title": "Y"}]});
        let after = json!({"required": ["a", "c", "b"], "arguments": [{"name": "x"}, {"name": "y", "title": "Z"}]});
        let expected = [r#"- arguments[1].title: "Y""#, r#"+ arguments[1].title: "Z""#, r#"+ required[]: "c""#];
        assert_eq!(told(&before, &after), expected);
    }

    #[test]
    fn another_type_is_another_value() {
        assert_eq!(told(&json!({"a": []}), &json!({"a": {}})), ["- a: []", "+ a: {}"]);
        assert_eq!(parts(None, Some(&json!([1]))), [ValueLine::Come("[1]".into())]);
        assert_eq!(parts(Some(&json!(1)), None), [ValueLine::Gone("1".into())]);
    }
}
