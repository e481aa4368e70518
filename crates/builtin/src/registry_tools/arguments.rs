//! Arguments of the tools, read and checked.

use std::fmt;

use serde_json::{Map, Value};

/// A text longer than this is not a name, a command or a value.
const MAX_TEXT: usize = 32 * 1024;
/// More elements than this are no list that somebody wrote.
const MAX_ELEMENTS: usize = 256;

/// What is wrong with an argument. The words are for the model that wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ArgumentFault {
    /// The arguments are no object.
    NoObject,
    /// One that the tool does not have.
    Unknown { key: String, known: Vec<&'static str> },
    /// One that is missing, or of another kind.
    Expected { key: &'static str, expected: &'static str },
    /// A text or list beyond the bounds above; it is not repeated to the caller.
    TooLong { key: &'static str },
}

impl ArgumentFault {
    pub(super) const fn expected(key: &'static str, expected: &'static str) -> Self {
        Self::Expected { key, expected }
    }
}

impl fmt::Display for ArgumentFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoObject => write!(f, "`arguments` must be an object"),
            Self::Unknown { key, known } if known.is_empty() => write!(f, "`{key}`: this tool takes no arguments"),
            Self::Unknown { key, known } => {
                write!(f, "`{key}` is no argument of this tool; it has {}", known.join(", "))
            }
            Self::Expected { key, expected } => write!(f, "`{key}` must be {expected}"),
            Self::TooLong { key } => write!(f, "`{key}` is too long"),
        }
    }
}

/// The arguments of one call. `null` is like nothing.
#[derive(Debug)]
pub(super) struct ToolArguments<'a>(Option<&'a Map<String, Value>>);

impl<'a> ToolArguments<'a> {
    pub(super) fn new(value: &'a Value, known: &[&'static str]) -> Result<Self, ArgumentFault> {
        let map = match value {
            Value::Null => return Ok(Self(None)),
            Value::Object(map) => map,
            _ => return Err(ArgumentFault::NoObject),
        };
        match map.keys().find(|key| !known.contains(&key.as_str())) {
            // The key is repeated to the caller, so it is cut: it may be of any length.
            Some(key) => Err(ArgumentFault::Unknown { key: key.chars().take(64).collect(), known: known.to_vec() }),
            None => Ok(Self(Some(map))),
        }
    }

    fn get(&self, key: &str) -> Option<&'a Value> {
        self.0?.get(key).filter(|value| !value.is_null())
    }

    /// A text that has to be there.
    pub(super) fn text(&self, key: &'static str, expected: &'static str) -> Result<&'a str, ArgumentFault> {
        self.optional_text(key, expected)?.ok_or(ArgumentFault::expected(key, expected))
    }

    /// A text that is not empty, if it is there.
    pub(super) fn optional_text(
        &self,
        key: &'static str,
        expected: &'static str,
    ) -> Result<Option<&'a str>, ArgumentFault> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let text = value.as_str().map(str::trim).filter(|text| !text.is_empty());
        let text = text.ok_or(ArgumentFault::expected(key, expected))?;
        if text.len() > MAX_TEXT { Err(ArgumentFault::TooLong { key }) } else { Ok(Some(text)) }
    }

    /// A list of texts; nothing is an empty one.
    pub(super) fn texts(&self, key: &'static str) -> Result<Vec<String>, ArgumentFault> {
        let fault = ArgumentFault::expected(key, "a list of strings");
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let list = value.as_array().ok_or_else(|| fault.clone())?;
        let texts: Option<Vec<String>> = list.iter().map(|text| text.as_str().map(str::to_owned)).collect();
        let texts = texts.ok_or(fault)?;
        let is_long = texts.len() > MAX_ELEMENTS || texts.iter().any(|text| text.len() > MAX_TEXT);
        if is_long { Err(ArgumentFault::TooLong { key }) } else { Ok(texts) }
    }

    /// Names and texts; nothing is none.
    pub(super) fn pairs(&self, key: &'static str) -> Result<Vec<(String, String)>, ArgumentFault> {
        let fault = ArgumentFault::expected(key, "an object whose values are strings, such as {\"API_KEY\": \"…\"}");
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let map = value.as_object().ok_or_else(|| fault.clone())?;
        let pairs: Option<Vec<(String, String)>> =
            map.iter().map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect();
        let pairs = pairs.ok_or(fault)?;
        let is_long = pairs.len() > MAX_ELEMENTS || pairs.iter().any(|(_, value)| value.len() > MAX_TEXT);
        if is_long { Err(ArgumentFault::TooLong { key }) } else { Ok(pairs) }
    }

    /// A yes or no; nothing is a no.
    pub(super) fn flag(&self, key: &'static str) -> Result<bool, ArgumentFault> {
        match self.get(key) {
            None => Ok(false),
            Some(value) => value.as_bool().ok_or(ArgumentFault::expected(key, "true or false")),
        }
    }

    /// How many at most; more than `max` is cut to it.
    pub(super) fn limit(&self, default: usize, max: usize) -> Result<usize, ArgumentFault> {
        let Some(value) = self.get("limit") else { return Ok(default) };
        // Some clients write whole numbers as `5.0`.
        let number = value.as_f64().filter(|number| number.fract() == 0.0 && *number >= 1.0);
        number
            // A number beyond `usize` becomes the largest one by the cast, and then the bound.
            .map(|number| (number as usize).min(max))
            .ok_or(ArgumentFault::expected("limit", "a whole number above 0"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_kind_is_read_and_checked() {
        let value = json!({"a": " x ", "b": ["y"], "c": {"K": "v"}, "d": true, "limit": 7.0, "e": null});
        let arguments = ToolArguments::new(&value, &["a", "b", "c", "d", "e", "limit"]).unwrap();
        assert_eq!(arguments.text("a", "a text"), Ok("x"));
        assert_eq!(arguments.optional_text("e", "a text"), Ok(None));
        assert_eq!(arguments.texts("b"), Ok(vec!["y".to_owned()]));
        assert_eq!(arguments.pairs("c"), Ok(vec![("K".to_owned(), "v".to_owned())]));
        assert_eq!((arguments.flag("d"), arguments.flag("e")), (Ok(true), Ok(false)));
        assert_eq!((arguments.limit(20, 100), arguments.limit(20, 5)), (Ok(7), Ok(5)));
        assert_eq!(arguments.text("e", "a text").unwrap_err().to_string(), "`e` must be a text");
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let problem = |value: Value| ToolArguments::new(&value, &["a", "b"]).map(|_| ()).unwrap_err().to_string();
        assert_eq!(problem(json!([])), "`arguments` must be an object");
        assert_eq!(problem(json!({"z": 1})), "`z` is no argument of this tool; it has a, b");
        let odd = json!({"a": 1, "b": [1], "limit": 0});
        let arguments = ToolArguments::new(&odd, &["a", "b", "limit"]).unwrap();
        assert_eq!(arguments.text("a", "a name"), Err(ArgumentFault::expected("a", "a name")));
        assert!(arguments.texts("b").is_err() && arguments.pairs("a").is_err() && arguments.flag("a").is_err());
        for odd in [json!(0), json!(-1), json!(1.5), json!("5")] {
            let value = json!({ "limit": odd });
            assert!(ToolArguments::new(&value, &["limit"]).unwrap().limit(1, 2).is_err(), "{value}");
        }
        let long = json!({"a": "x".repeat(MAX_TEXT + 1)});
        assert_eq!(ToolArguments::new(&long, &["a"]).unwrap().text("a", ""), Err(ArgumentFault::TooLong { key: "a" }));
    }
}
