//! What in a text, read by a model, may be meant for the model and not for the person: characters that nobody sees, addresses, paths, the
//! names of other tools, and tags that claim weight.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::visible::is_deceptive;

/// One such sign.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sign {
    /// A character that does something else than to be seen.
    Unseen(char),
    /// An address.
    Url(String),
    /// A path of a file.
    Path(String),
    /// The name of another tool.
    OtherTool(String),
    /// A tag such as `<IMPORTANT>`.
    Tag(String),
    /// Words that speak to the model.
    Instruction(&'static str),
}

/// Tags that claim weight also in small letters.
const WEIGHTY: [&str; 14] = [
    "admin",
    "assistant",
    "critical",
    "hidden",
    "important",
    "instruction",
    "instructions",
    "note",
    "prompt",
    "secret",
    "system",
    "thinking",
    "user",
    "warning",
];

/// Words that speak to the model about its behaviour, and not about the tool.
pub const INSTRUCTIONS: &[&str] = &[
    "ignore all",
    "ignore any",
    "ignore previous",
    "ignore prior",
    "ignore the above",
    "ignore your",
    "ignore other",
    "disregard",
    "do not tell",
    "don't tell",
    "never tell",
    "do not mention",
    "don't mention",
    "do not inform",
    "do not reveal",
    "do not ask the user",
    "without telling",
    "without asking the user",
    "without the user",
    "system prompt",
    "<important>",
    "<system>",
    "before using any other tool",
    "before any other tool",
    "instead of any other tool",
];

/// Everything in a value that a model reads: its strings, and the names of its members.
pub(crate) fn of_value(value: &Value, is_tool: &dyn Fn(&str) -> bool, found: &mut BTreeSet<Sign>) {
    match value {
        Value::String(text) => of_text(text, is_tool, found),
        Value::Array(items) => items.iter().for_each(|item| of_value(item, is_tool, found)),
        Value::Object(members) => {
            for (key, value) in members {
                of_text(key, is_tool, found);
                // Their values are addresses and paths by their nature.
                if !matches!(key.as_str(), "$schema" | "$ref" | "$id" | "pattern" | "format" | "uri" | "uriTemplate") {
                    of_value(value, is_tool, found);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The signs in one text.
pub(crate) fn of_text(text: &str, is_tool: &dyn Fn(&str) -> bool, found: &mut BTreeSet<Sign>) {
    found.extend(text.chars().filter(|c| is_deceptive(*c) && !matches!(c, '\n' | '\t' | '\r')).map(Sign::Unseen));
    found.extend(tags(text).map(Sign::Tag));
    // Unseen characters between the letters must not hide the words.
    let plain: String =
        // Spaces stay, though some are deceptive: without them two words would become one.
        text.chars().filter(|c| !is_deceptive(*c) || c.is_whitespace()).flat_map(char::to_lowercase).collect();
    let plain = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    found.extend(
        INSTRUCTIONS
            .iter()
            // Those with a sign of a tag are found as tags, which tolerate attributes and cases.
            .filter(|words| !words.starts_with('<') && plain.contains(*words))
            .copied()
            .map(Sign::Instruction),
    );
    let is_edge = |c: char| !(c.is_alphanumeric() || matches!(c, '/' | '~' | '.' | '\\' | '_' | '-' | '%'));
    // The end of a tag looks like a path.
    let text = text.replace("</", " ");
    for word in text.split(|c: char| c.is_whitespace() || matches!(c, '"' | '`' | '(' | ')' | '<' | '>' | ',' | ';')) {
        let word = word.trim_matches(is_edge).trim_end_matches('.');
        if word.contains("://") || word.starts_with("www.") {
            found.insert(Sign::Url(word.to_owned()));
        } else if is_path(word) {
            found.insert(Sign::Path(word.to_owned()));
        } else if is_telling(word) && is_tool(word) {
            found.insert(Sign::OtherTool(word.to_owned()));
        }
    }
}

fn is_path(word: &str) -> bool {
    let begins = ["~/", "./", "../", "/", "%APPDATA%", "%USERPROFILE%"].iter().any(|head| {
        let rest = word.strip_prefix(head).unwrap_or_default();
        rest.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '\\'))
    });
    let mut chars = word.chars();
    let has_drive = chars.next().is_some_and(|c| c.is_ascii_alphabetic()) && chars.as_str().starts_with(":\\");
    begins || has_drive
}

/// Whether a word can be told from plain language: `read_file`, not `read`.
fn is_telling(word: &str) -> bool {
    let mut chars = word.chars();
    let inner = chars.next().is_some() && chars.clone().any(char::is_uppercase) && word.chars().any(char::is_lowercase);
    word.len() >= 3 && (inner || word.contains(['_', '-', '.', '/']))
}

fn tags(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split('<').skip(1).filter_map(|rest| {
        let (inside, _) = rest.split_once('>')?;
        let name = inside.trim_start_matches('/').split_whitespace().next()?;
        let is_name = name.len() >= 3 && name.chars().all(|c| c.is_ascii_alphabetic() || matches!(c, '_' | '-'));
        let claims = !name.chars().any(|c| c.is_ascii_lowercase()) || WEIGHTY.contains(&&*name.to_ascii_lowercase());
        (is_name && claims).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signs(text: &str) -> Vec<Sign> {
        let mut found = BTreeSet::new();
        of_text(text, &|word| matches!(word, "send_mail" | "search"), &mut found);
        found.into_iter().collect()
    }

    #[test]
    fn what_is_meant_for_the_model_is_found() {
        assert_eq!(signs("a\u{200b}b"), [Sign::Unseen('\u{200b}')]);
        assert_eq!(signs("see https://evil.example/x."), [Sign::Url("https://evil.example/x".into())]);
        assert_eq!(signs("first read ~/.ssh/id_rsa"), [Sign::Path("~/.ssh/id_rsa".into())]);
        assert_eq!(signs("read (`/etc/passwd`)"), [Sign::Path("/etc/passwd".into())]);
        assert_eq!(signs(r"C:\Users\me\key"), [Sign::Path(r"C:\Users\me\key".into())]);
        assert_eq!(signs("then `send_mail` it"), [Sign::OtherTool("send_mail".into())]);
        assert_eq!(signs("IGNORE  previous\nru\u{ad}les")[1..], [Sign::Instruction("ignore previous")]);
        assert_eq!(
            signs("<IMPORTANT>do</IMPORTANT> <system>"),
            [Sign::Tag("IMPORTANT".into()), Sign::Tag("system".into())]
        );
    }

    #[test]
    fn plain_language_has_no_signs() {
        for text in [
            "Search the code and/or the issues.",
            "a <name> of x",
            "1 < 2 > 0",
            "search",
            "10/20",
            "",
            "e.g. this…",
            "/",
        ] {
            assert_eq!(signs(text), [], "{text}");
        }
    }
}
