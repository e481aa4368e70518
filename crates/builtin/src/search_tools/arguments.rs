//! The arguments of the two tools, read and checked.

use bytes::Bytes;
use tidings_wire::{Frame, is_object, members};

/// How many tools are returned when nothing is said.
pub(super) const DEFAULT_LIMIT: usize = 5;
/// And how many at most.
pub(super) const MAX_LIMIT: usize = 50;
/// Longer queries than this are cut: they are pasted texts, and every word of them costs.
const MAX_QUERY: usize = 1_000;

/// What is wrong with arguments. The words are for the model that wrote them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SearchArgumentFault {
    /// There is an argument that the tool does not have: a tool that is called without what was meant for it may do harm.
    Unknown { key: String, known: [&'static str; 2] },
    /// There is no query, or nothing in it.
    Query,
    /// The limit is not a positive whole number.
    Limit,
    /// There is no name.
    Name,
    /// The arguments are no object.
    Arguments,
}

impl std::fmt::Display for SearchArgumentFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Unknown { key, known: [first, second] } => {
                write!(f, "`{key}` is no argument of this tool; it has `{first}` and `{second}`")?;
                if let Some(meant) = meant(key, &[first, second]) {
                    write!(f, ". Did you mean `{meant}`?")?;
                }
                return Ok(());
            }
            Self::Query => "`query` must be a string that says what the tool should do, such as \"send an email\"",
            Self::Limit => "`limit` must be a whole number from 1 to 50",
            Self::Name => "`name` must be the name of the tool to call, as retrieve_tools gives it",
            Self::Arguments => "`arguments` must be an object that fits the tool's inputSchema",
        })
    }
}

/// The argument that somebody meant by another word.
fn meant<'k>(key: &str, known: &[&'k str]) -> Option<&'k str> {
    const WORDS: [(&str, &[&str]); 4] = [
        ("arguments", &["args", "argument", "params", "parameters", "input", "inputs", "tool_arguments", "tool_args"]),
        ("name", &["tool", "tool_name", "toolname"]),
        ("query", &["q", "search", "text", "keywords", "description"]),
        ("limit", &["max", "count", "n", "top_k", "k", "max_results"]),
    ];
    let key = key.to_lowercase().replace('-', "_");
    let (meant, _) = WORDS.into_iter().find(|(name, words)| *name == key || words.contains(&&*key))?;
    known.iter().copied().find(|name| *name == meant)
}

/// Refuses arguments that the tool does not have.
fn only(frame: &Frame, known: [&'static str; 2]) -> Result<(), SearchArgumentFault> {
    // Arguments that are no object have no members to refuse; the readers below say what is wrong.
    let Some(arguments) = frame.param(&["arguments"]).filter(|at| is_object(frame.bytes(), *at)) else { return Ok(()) };
    for member in members(frame.bytes(), arguments) {
        let key = member.key.text(frame.bytes()).unwrap_or_default();
        if !known.contains(&&*key) {
            // It is repeated to the caller, and may be of any length.
            return Err(SearchArgumentFault::Unknown { key: key.chars().take(64).collect(), known });
        }
    }
    Ok(())
}

/// Arguments of `retrieve_tools`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RetrieveArguments {
    pub(super) text: String,
    pub(super) limit: usize,
}

impl RetrieveArguments {
    pub(super) fn read(frame: &Frame) -> Result<Self, SearchArgumentFault> {
        only(frame, ["query", "limit"])?;
        let text = frame.param_str(&["arguments", "query"]).ok_or(SearchArgumentFault::Query)?;
        let text = text.trim();
        if text.is_empty() {
            return Err(SearchArgumentFault::Query);
        }
        // Not inside a character.
        let cut = text.floor_char_boundary(MAX_QUERY.min(text.len()));
        let limit = match frame.param(&["arguments", "limit"]).map(|at| frame.raw(at)) {
            // Some clients send null for what their user left out.
            None | Some(b"null") => DEFAULT_LIMIT,
            Some(raw) => whole(raw).filter(|limit| *limit >= 1).ok_or(SearchArgumentFault::Limit)?.min(MAX_LIMIT),
        };
        Ok(Self { text: text[..cut].to_owned(), limit })
    }
}

/// A whole number, also where it is spelled `5.0`.
fn whole(raw: &[u8]) -> Option<usize> {
    let number: f64 = std::str::from_utf8(raw).ok()?.parse().ok()?;
    (number.fract() == 0.0 && number >= 0.0).then_some(number as usize)
}

/// Arguments of `call_tool`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CallArguments {
    pub(super) name: String,
    pub(super) arguments: Option<Bytes>,
}

impl CallArguments {
    pub(super) fn read(frame: &Frame) -> Result<Self, SearchArgumentFault> {
        only(frame, ["name", "arguments"])?;
        let name =
            frame.param_str(&["arguments", "name"]).filter(|name| !name.is_empty()).ok_or(SearchArgumentFault::Name)?;
        let arguments = match frame.param(&["arguments", "arguments"]) {
            Some(at) if is_object(frame.bytes(), at) => Some(frame.slice(at)),
            Some(at) if frame.raw(at) != b"null" => return Err(SearchArgumentFault::Arguments),
            _ => None,
        };
        Ok(Self { name: name.into_owned(), arguments })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use tidings_wire::FrameLimits;

    use super::*;

    fn frame(arguments: &str) -> Frame {
        let params = format!(r#"{{"name":"x","arguments":{arguments}}}"#);
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        Frame::parse(text, &FrameLimits::default()).unwrap()
    }

    fn query(arguments: &str) -> Result<(String, usize), SearchArgumentFault> {
        RetrieveArguments::read(&frame(arguments)).map(|query| (query.text, query.limit))
    }

    #[test]
    fn a_query_needs_words_and_a_sensible_limit() {
        assert_eq!(query(r#"{"query":" send mail "}"#), Ok(("send mail".into(), 5)));
        assert_eq!(query(r#"{"query":"a","limit":7.0}"#), Ok(("a".into(), 7)));
        assert_eq!(query(r#"{"query":"a","limit":1000}"#), Ok(("a".into(), 50)));
        assert_eq!(query(r#"{"query":"a","limit":null}"#), Ok(("a".into(), 5)));
        for none in ["{}", r#"{"query":"  "}"#, r#"{"query":5}"#, "null"] {
            assert_eq!(query(none), Err(SearchArgumentFault::Query), "{none}");
        }
        for odd in ["0", "-1", "2.5", "\"5\"", "[]"] {
            assert_eq!(query(&format!(r#"{{"query":"a","limit":{odd}}}"#)), Err(SearchArgumentFault::Limit), "{odd}");
        }
        let long = format!(r#"{{"query":"{}"}}"#, "ä".repeat(5_000));
        assert_eq!(query(&long).unwrap().0.len(), MAX_QUERY);
    }

    // edges C13
    #[test]
    fn an_unknown_argument_is_refused_and_the_right_one_is_named() {
        let call = |arguments: &str| CallArguments::read(&frame(arguments)).map(|_| ()).unwrap_err().to_string();
        let text = "`args` is no argument of this tool; it has `name` and `arguments`. Did you mean `arguments`?";
        assert_eq!(call(r#"{"name":"t","args":{"n":1}}"#), text);
        assert!(call(r#"{"tool":"t","arguments":{}}"#).ends_with("Did you mean `name`?"));
        assert!(call(r#"{"name":"t","\u0061rgs":{}}"#).contains("`args`"), "however it is written");
        assert_eq!(
            call(r#"{"name":"t","colour":1}"#),
            "`colour` is no argument of this tool; it has `name` and `arguments`"
        );
        let query =
            RetrieveArguments::read(&frame(r#"{"query":"a","max_results":3}"#)).map(|_| ()).unwrap_err().to_string();
        assert!(query.ends_with("it has `query` and `limit`. Did you mean `limit`?"), "{query}");
    }

    #[test]
    fn the_arguments_of_a_call_are_taken_as_they_are() {
        let call = |arguments: &str| CallArguments::read(&frame(arguments)).map(|call| (call.name, call.arguments));
        let raw = r#"{ "n": 5.00, "n": 1e2 }"#;
        assert_eq!(call(&format!(r#"{{"name":"t","arguments":{raw}}}"#)), Ok(("t".into(), Some(raw.into()))));
        assert_eq!(call(r#"{"name":"t"}"#), Ok(("t".into(), None)));
        assert_eq!(call(r#"{"name":"t","arguments":null}"#), Ok(("t".into(), None)));
        assert_eq!(call(r#"{"name":"t","arguments":"{}"}"#), Err(SearchArgumentFault::Arguments));
        assert_eq!(call(r#"{"name":""}"#), Err(SearchArgumentFault::Name));
        assert_eq!(call(r#"{"arguments":{}}"#), Err(SearchArgumentFault::Name));
    }
}
