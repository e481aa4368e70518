//! Whether a schema of arguments became narrower: then calls that were right are wrong now.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::severity::Finding;

/// Schemas deeper than this are not followed, and count as not understood.
const DEEPEST: usize = 64;
/// What becomes narrower as the number rises, and as it falls.
const LOWEST: [&str; 6] = ["minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains"];
const HIGHEST: [&str; 6] = ["maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains"];
/// What says nothing about which arguments are right.
const WORDS: [&str; 7] = ["description", "title", "default", "examples", "$comment", "enumNames", "deprecated"];
const QUIET: [&str; 6] = ["$schema", "$id", "$anchor", "readOnly", "writeOnly", "x-order"];

/// What a schema of arguments became.
pub(crate) fn arguments(before: &Value, after: &Value, out: &mut Vec<Finding>) {
    compare("", before, after, 0, out);
}

fn compare(path: &str, before: &Value, after: &Value, depth: usize, out: &mut Vec<Finding>) {
    if before == after {
        return;
    }
    // `true` takes everything, as a schema without keywords does; `false` nothing.
    let empty = Map::new();
    let (old, new) = match (before, after) {
        (Value::Object(old), Value::Object(new)) => (old, new),
        (Value::Bool(true), Value::Object(new)) => (&empty, new),
        (Value::Object(old), Value::Bool(true)) => (old, &empty),
        // Nothing was right before, so nothing can become wrong.
        (Value::Bool(false), _) => return out.push(Finding::Widened(at(path))),
        _ => return out.push(Finding::Narrowed(at(path))),
    };
    // After the look at both: equal schemas of any depth have nothing to find.
    if depth > DEEPEST {
        return out.push(Finding::NotUnderstood(at(path)));
    }
    let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for key in keys {
        let (was, is) = (old.get(key), new.get(key));
        if was != is {
            keyword(path, key, was, is, depth, out);
        }
    }
}

fn keyword(path: &str, key: &str, was: Option<&Value>, is: Option<&Value>, depth: usize, out: &mut Vec<Finding>) {
    let here = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    let narrower = |narrow: bool| if narrow { Finding::Narrowed(at(path)) } else { Finding::Widened(at(path)) };
    match (key, was, is) {
        (key, ..) if WORDS.contains(&key) => out.push(Finding::Text(here)),
        (key, ..) if QUIET.contains(&key) => out.push(Finding::Cosmetic(here)),
        ("properties", was, is) => properties(path, was, is, depth, out),
        ("required", was, is) => {
            let names = |value: Option<&Value>| -> BTreeSet<String> {
                let all = value.and_then(Value::as_array).into_iter().flatten();
                all.filter_map(Value::as_str).map(|name| member(path, name)).collect()
            };
            let (was, is) = (names(was), names(is));
            out.extend(is.difference(&was).cloned().map(Finding::NewlyRequired));
            out.extend(was.difference(&is).cloned().map(Finding::Widened));
        }
        // The new one is asked whether it admits the old: narrower is what does not admit all that was admitted.
        ("type", was, is) => out.push(narrower(!admits(is, was))),
        ("enum", Some(Value::Array(was)), Some(Value::Array(is))) => {
            out.push(narrower(!was.iter().all(|value| is.contains(value))));
        }
        ("uniqueItems", _, is) => out.push(narrower(is == Some(&Value::Bool(true)))),
        ("additionalProperties" | "unevaluatedProperties" | "items" | "propertyNames" | "contains", was, is) => {
            let any = Value::Bool(true);
            let inner = if key == "items" { format!("{}[]", at(path)) } else { here };
            compare(&inner, was.unwrap_or(&any), is.unwrap_or(&any), depth + 1, out);
        }
        (key, was, is) if LOWEST.contains(&key) || HIGHEST.contains(&key) => {
            let [was, is] = [was, is].map(|value| value.and_then(Value::as_f64));
            out.push(narrower(match (was, is) {
                (_, None) => false,
                (None, Some(_)) => true,
                (Some(was), Some(is)) => {
                    if LOWEST.contains(&key) {
                        is > was
                    } else {
                        is < was
                    }
                }
            }));
        }
        // A rule that is gone forbids nothing; one that is new or another may.
        ("enum" | "const" | "pattern" | "format" | "multipleOf" | "not", _, is) => out.push(narrower(is.is_some())),
        _ => out.push(Finding::NotUnderstood(here)),
    }
}

fn properties(path: &str, was: Option<&Value>, is: Option<&Value>, depth: usize, out: &mut Vec<Finding>) {
    let empty = Map::new();
    let [was, is] = [was, is].map(|value| value.and_then(Value::as_object).unwrap_or(&empty));
    let names: BTreeSet<&String> = was.keys().chain(is.keys()).collect();
    for name in names {
        let here = member(path, name);
        match (was.get(name), is.get(name)) {
            (Some(was), Some(is)) => compare(&here, was, is, depth + 1, out),
            (Some(_), None) => out.push(Finding::ArgumentRemoved(here)),
            (None, Some(_)) => out.push(Finding::ArgumentAdded(here)),
            (None, None) => {}
        }
    }
}

/// Whether every type of `was` is one of `is`; none means every type.
fn admits(is: Option<&Value>, was: Option<&Value>) -> bool {
    let types = |value: &Value| -> Vec<String> {
        match value {
            Value::Array(all) => all.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            other => other.as_str().map(str::to_owned).into_iter().collect(),
        }
    };
    match (is.map(types), was.map(types)) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(is), Some(was)) => {
            // An integer is a number, and not the other way around.
            was.iter().all(|one| is.contains(one) || (one == "integer" && is.iter().any(|other| other == "number")))
        }
    }
}

/// What a schema of results became: whoever reads them misses what is gone.
pub(crate) fn results(before: &Value, after: &Value, out: &mut Vec<Finding>) {
    let mut found = Vec::new();
    arguments(before, after, &mut found);
    // Turned around: what may come now and could not before is what readers are not prepared for.
    out.extend(found.into_iter().map(|finding| match finding {
        Finding::Widened(path) => Finding::Narrowed(path),
        Finding::Narrowed(path) | Finding::NewlyRequired(path) => Finding::Widened(path),
        other => other,
    }));
}

/// What the arguments of a prompt became, by name.
pub(crate) fn prompt_arguments(before: &Value, after: &Value, out: &mut Vec<Finding>) {
    let all = |value: &Value| -> Vec<(String, bool)> {
        let one = |item: &Value| Some((item["name"].as_str()?.to_owned(), item["required"] == Value::Bool(true)));
        value.as_array().into_iter().flatten().filter_map(one).collect()
    };
    let (old, new) = (all(before), all(after));
    let find =
        |side: &[(String, bool)], name: &str| side.iter().find(|(one, _)| one == name).map(|(_, required)| *required);
    for (name, required) in &new {
        match (find(&old, name), required) {
            (None, false) => out.push(Finding::ArgumentAdded(name.clone())),
            (None | Some(false), true) => out.push(Finding::NewlyRequired(name.clone())),
            (Some(true), false) => out.push(Finding::Widened(name.clone())),
            (Some(_), _) => {}
        }
    }
    let gone = old.iter().filter(|(name, _)| find(&new, name).is_none());
    out.extend(gone.map(|(name, _)| Finding::ArgumentRemoved(name.clone())));
    if out.is_empty() {
        // The order or the words of arguments changed, and nothing that has to be given.
        out.push(Finding::Text("arguments".to_owned()));
    }
}

fn at(path: &str) -> String {
    if path.is_empty() { "the arguments".to_owned() } else { path.to_owned() }
}

fn member(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
