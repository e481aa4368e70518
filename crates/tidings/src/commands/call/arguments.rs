//! Arguments as people type them: a JSON object, `@FILE`, `-` for standard input, or `name=value` pairs.

use std::io::Read as _;

use serde_json::{Map, Value};

use crate::failure::CommandFailure;

/// The arguments of a call as they were typed: an object, or pairs that need the tool's schema.
#[derive(Debug, PartialEq)]
pub(in crate::commands) enum TypedArgument {
    /// A JSON object, which is handed on as it is.
    Whole(Value),
    /// Names and values that wait for the tool's schema.
    Pairs(Vec<ArgumentPair>),
}

/// One `name=value`, or `name:=JSON`.
#[derive(Debug, PartialEq)]
pub(in crate::commands) struct ArgumentPair {
    name: String,
    value: String,
    /// `:=` says that the value is JSON, whatever the tool expects.
    is_json: bool,
}

const FORMS: &str =
    "write a JSON object ('{\"text\": \"hi\"}'), @FILE, - for standard input, or pairs (text=hi count=3)";

/// Reads what was typed.
pub(in crate::commands) fn read(words: &[String]) -> Result<TypedArgument, CommandFailure> {
    match words {
        [] => Ok(TypedArgument::Whole(Value::Object(Map::new()))),
        [only] if only == "-" => {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .map_err(|error| CommandFailure::Usage(format!("standard input: {error}")))?;
            object(&text, "standard input")
        }
        [only] if only.starts_with('@') => {
            let file = &only[1..];
            let text = std::fs::read_to_string(file)
                .map_err(|error| CommandFailure::Usage(format!("@{file}: {error}; {FORMS}")))?;
            object(&text, file)
        }
        [only] if !is_pair(only) => object(only, "the arguments"),
        pairs => pairs.iter().map(|word| pair(word)).collect::<Result<_, _>>().map(TypedArgument::Pairs),
    }
}

fn object(text: &str, from: &str) -> Result<TypedArgument, CommandFailure> {
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(TypedArgument::Whole(Value::Object(object))),
        Ok(_) => Err(CommandFailure::Usage(format!("{from} must be a JSON object; {FORMS}"))),
        Err(error) => Err(CommandFailure::Usage(format!("{from}: not JSON: {error}; {FORMS}"))),
    }
}

/// JSON never begins with a letter and goes on with `=`.
fn is_pair(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| !name.is_empty() && !name.starts_with(['{', '[', '"']))
}

fn pair(word: &str) -> Result<ArgumentPair, CommandFailure> {
    let wrong = || CommandFailure::Usage(format!("\"{word}\" is not a pair name=value; {FORMS}"));
    let (name, value) = word.split_once('=').filter(|_| is_pair(word)).ok_or_else(wrong)?;
    let (name, is_json) = name.strip_suffix(':').map_or((name, false), |name| (name, true));
    if name.is_empty() {
        return Err(wrong());
    }
    Ok(ArgumentPair { name: name.to_owned(), value: value.to_owned(), is_json })
}

/// The arguments that pairs mean to a tool with this schema. A value is text where the tool takes text; elsewhere it is
/// JSON. A name that is given twice makes a list.
pub(in crate::commands) fn from_pairs(pairs: &[ArgumentPair], schema: &Value) -> Result<Value, CommandFailure> {
    let mut object = Map::new();
    for pair in pairs {
        let expected = &schema["properties"][&pair.name];
        let repeated = pairs.iter().filter(|other| other.name == pair.name).count() > 1;
        let is_list = expected["type"] == "array";
        // A list may be typed whole, as JSON, or one element per pair.
        let item = if is_list && !pair.value.trim_start().starts_with('[') { &expected["items"] } else { expected };
        let value = value(pair, item)?;
        match object.get_mut(&pair.name) {
            Some(Value::Array(list)) if repeated => list.push(value),
            _ if repeated || (is_list && !value.is_array()) => {
                object.insert(pair.name.clone(), Value::Array(vec![value]));
            }
            _ => {
                object.insert(pair.name.clone(), value);
            }
        }
    }
    Ok(Value::Object(object))
}

fn value(pair: &ArgumentPair, expected: &Value) -> Result<Value, CommandFailure> {
    let takes = |kind: &str| match &expected["type"] {
        Value::String(only) => only == kind,
        Value::Array(several) => several.iter().any(|one| one == kind),
        _ => false,
    };
    let parsed = serde_json::from_str::<Value>(&pair.value).ok();
    let wrong =
        |what: &str| CommandFailure::Usage(format!("{}={}: the tool takes {what} there", pair.name, pair.value));
    match parsed {
        None if pair.is_json => Err(CommandFailure::Usage(format!("{}:={}: not JSON", pair.name, pair.value))),
        Some(parsed) if pair.is_json => Ok(parsed),
        // Text comes first: `12` for a parameter that takes text is not a number.
        _ if takes("string") => Ok(pair.value.as_str().into()),
        // Quotes that were typed are part of the value; only `:=` reads JSON.
        Some(parsed) if parsed.is_string() => Ok(pair.value.as_str().into()),
        Some(parsed) => Ok(parsed),
        None if takes("boolean") => Err(wrong("true or false")),
        None if takes("number") || takes("integer") => Err(wrong("a number")),
        None if takes("object") => Err(wrong("a JSON object")),
        None => Ok(pair.value.as_str().into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidings_testkit::TempDir;

    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn typed(text: &[&str], schema: &Value) -> Result<Value, String> {
        match read(&words(text)).map_err(|failure| failure.to_string())? {
            TypedArgument::Whole(object) => Ok(object),
            TypedArgument::Pairs(pairs) => from_pairs(&pairs, schema).map_err(|failure| failure.to_string()),
        }
    }

    // edges F17
    #[test]
    fn arguments_are_json_a_file_or_pairs() {
        let folder = TempDir::new();
        let file = folder.write("a.json", r#"{"from": "file"}"#);
        let schema = json!({"properties": {
            "text": {"type": "string"}, "count": {"type": "integer"}, "on": {"type": "boolean"},
            "list": {"type": "array", "items": {"type": "string"}}, "free": {},
        }});
        let at = format!("@{}", file.display());
        let cases: [(&[&str], Value); 9] = [
            (&[], json!({})),
            (&[r#"{"a": 1}"#], json!({"a": 1})),
            (&[&at], json!({"from": "file"})),
            (&["text=12", "count=3", "on=true"], json!({"text": "12", "count": 3, "on": true})),
            (&["text=a=b c"], json!({"text": "a=b c"})),
            (&["list=one"], json!({"list": ["one"]})),
            (&["list=one", "list=2"], json!({"list": ["one", "2"]})),
            (&["list=[\"x\"]", "free=7"], json!({"list": ["x"], "free": 7})),
            (
                &["unknown=word", "deep:={\"a\": [1]}", "text:=null"],
                json!({"unknown": "word", "deep": {"a": [1]}, "text": null}),
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(typed(text, &schema), Ok(expected), "{text:?}");
        }
    }

    // edges F15, F17
    #[test]
    fn arguments_that_can_not_be_meant_are_refused_with_the_forms_there_are() {
        let schema = json!({"properties": {"count": {"type": "integer"}, "on": {"type": "boolean"}}});
        for (text, word) in [
            (&["hello"][..], "name=value"),
            (&["[1]"], "must be a JSON object"),
            (&["{"], "not JSON"),
            (&["a=1", "{}"], "\"{}\" is not a pair"),
            (&["=x"], "pairs"),
            (&["@/no/such/file"], "@/no/such/file"),
            (&["count=many"], "takes a number"),
            (&["on=perhaps"], "true or false"),
            (&["a:={"], "not JSON"),
        ] {
            let said = typed(text, &schema).expect_err("refused");
            assert!(said.contains(word) || (word == "name=value" && said.contains("pairs (")), "{text:?}: {said}");
        }
    }
}
