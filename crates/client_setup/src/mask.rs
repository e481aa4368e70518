//! Entries as they may be shown: what is, or may be, a secret is not in them.

use serde_json::Value;

const HIDDEN: &str = "•••";
/// Members whose values are secrets more often than not.
const SECRET_TABLES: [&str; 5] = ["env", "envs", "environment", "headers", "http_headers"];
/// Words in the name of an option whose value is a secret.
const SECRET_WORDS: [&str; 6] = ["key", "token", "secret", "password", "auth", "credential"];

/// An entry without its secrets. References to variables stay: they tell nothing.
#[must_use]
pub fn masked(entry: &Value) -> Value {
    let Value::Object(members) = entry else { return entry.clone() };
    let shown = members.iter().map(|(key, value)| {
        let value = match value {
            Value::Object(table) if SECRET_TABLES.contains(&key.as_str()) => {
                table.iter().map(|(key, value)| (key.clone(), hidden(value))).collect()
            }
            Value::Array(words) => arguments(words),
            Value::String(text) if text.contains("://") => address(text).into(),
            // `bearer_token_env_var` and its like hold the name of a variable.
            Value::String(text) if is_secret_name(key) && !key.ends_with("_env_var") => hidden(&text.as_str().into()),
            other => other.clone(),
        };
        (key.clone(), value)
    });
    shown.collect()
}

fn hidden(value: &Value) -> Value {
    let Some(text) = value.as_str() else { return HIDDEN.into() };
    let (scheme, rest) = match text.split_once(' ') {
        Some((scheme @ ("Bearer" | "Basic" | "Token"), rest)) => (format!("{scheme} "), rest),
        _ => (String::new(), text),
    };
    // Where a secret comes from may be shown.
    let is_reference = ["${", "{env:", "$"].iter().any(|start| rest.starts_with(start));
    if is_reference { text.into() } else { format!("{scheme}{HIDDEN}").into() }
}

fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

fn arguments(words: &[Value]) -> Value {
    let mut after_secret = false;
    let shown = words.iter().map(|word| {
        let Some(text) = word.as_str() else { return word.clone() };
        // `--token VALUE`: the word after the option is the secret, unless it is an option itself.
        if std::mem::take(&mut after_secret) && !text.starts_with('-') {
            return hidden(word);
        }
        match text.split_once('=') {
            Some((name, value)) if is_secret_name(name) => {
                format!("{name}={}", hidden(&value.into()).as_str().unwrap_or(HIDDEN)).into()
            }
            _ if text.contains("://") => address(text).into(),
            _ => {
                after_secret = text.starts_with('-') && is_secret_name(text);
                word.clone()
            }
        }
    });
    shown.collect()
}

/// A URL without a password and without what stands after the question mark.
fn address(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (rest, query) = match rest.split_once('?') {
        Some((rest, _)) => (rest, format!("?{HIDDEN}")),
        None => (rest, String::new()),
    };
    let end = rest.find('/').unwrap_or(rest.len());
    let host = match rest[..end].rsplit_once('@') {
        Some((_, host)) => format!("{HIDDEN}@{host}"),
        None => rest[..end].to_owned(),
    };
    format!("{scheme}://{host}{}{query}", &rest[end..])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // reach 1
    #[test]
    fn no_secret_of_an_entry_is_shown() {
        let entry = json!({
            "command": "npx", "args": ["-y", "x", "--api-key", "S1", "--token=S2", "https://u:S3@h/p?k=S4", "--port", "1"],
            "env": {"A": "S5", "B": "${B}"}, "headers": {"Authorization": "Bearer S6", "X": "Bearer ${X}"},
            "bearer_token": "S7", "bearer_token_env_var": "NAME", "url": "https://h/mcp?token=S8",
        });
        let shown = masked(&entry).to_string();
        for secret in 1..=8 {
            assert!(!shown.contains(&format!("S{secret}")), "S{secret}: {shown}");
        }
        for kept in ["npx", "${B}", "Bearer ${X}", "NAME", "https://h/mcp", "--port", "\"1\""] {
            assert!(shown.contains(kept), "{kept}: {shown}");
        }
    }
}
