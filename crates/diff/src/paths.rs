//! The difference between two JSON values, by path.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::lines::{DiffLine, lines};

/// A value that came, went or became another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathChange {
    /// Where it stands: `properties.n.default`, `required[]`; empty for the whole.
    pub path: String,
    /// The value before, as JSON; a text is given as such in [`Self::texts`].
    pub before: Option<Value>,
    /// The value of now.
    pub after: Option<Value>,
}

impl PathChange {
    /// Both values, where both are texts: what differs in them can be told word by word.
    pub fn texts(&self) -> Option<(&str, &str)> {
        Some((self.before.as_ref()?.as_str()?, self.after.as_ref()?.as_str()?))
    }

    /// The value before as one line with its path.
    pub fn gone(&self) -> Option<String> {
        self.before.as_ref().map(|value| self.line(value))
    }

    /// The value of now as one line with its path.
    pub fn come(&self) -> Option<String> {
        self.after.as_ref().map(|value| self.line(value))
    }

    fn line(&self, value: &Value) -> String {
        if self.path.is_empty() { value.to_string() } else { format!("{}: {value}", self.path) }
    }
}

/// What differs, in the order of the paths.
pub fn paths(before: Option<&Value>, after: Option<&Value>) -> Vec<PathChange> {
    let mut out = Vec::new();
    compare("", before, after, &mut out);
    out
}

fn compare(path: &str, before: Option<&Value>, after: Option<&Value>, out: &mut Vec<PathChange>) {
    match (before, after) {
        (None, None) => {}
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
        // Of another length: by place everything after an element that came would differ.
        (Some(Value::Array(old)), Some(Value::Array(new))) => elements(path, old, new, out),
        (old, new) => {
            out.push(PathChange { path: path.to_owned(), before: old.cloned(), after: new.cloned() });
        }
    }
}

/// Elements that came and went; those in both are not told.
fn elements(path: &str, old: &[Value], new: &[Value], out: &mut Vec<PathChange>) {
    let [old, new] = [old, new].map(|side| side.iter().map(Value::to_string).collect::<Vec<_>>());
    let [old, new] = [&old, &new].map(|side| side.iter().map(String::as_str).collect::<Vec<_>>());
    let path = format!("{path}[]");
    // The text is JSON that was made a moment ago.
    let value = |text: &str| serde_json::from_str(text).ok();
    for element in lines(&old, &new, 0) {
        let (before, after) = match element {
            DiffLine::Gone(text) => (value(text), None),
            DiffLine::Come(text) => (None, value(text)),
            DiffLine::Same(_) | DiffLine::Skipped => continue,
        };
        out.push(PathChange { path: path.clone(), before, after });
    }
}

fn member(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(before: &Value, after: &Value) -> Vec<String> {
        let sides = |part: &PathChange| {
            [part.gone().map(|line| format!("- {line}")), part.come().map(|line| format!("+ {line}"))]
        };
        paths(Some(before), Some(after)).iter().flat_map(sides).flatten().collect()
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
        assert_eq!(paths(None, Some(&json!([1])))[0].come(), Some("[1]".into()));
        assert_eq!(paths(Some(&json!(1)), None)[0].gone(), Some("1".into()));
    }
}
