//! Raw JSON texts: every spelling the grammar allows, also those that other parsers can not hold.

use proptest::prelude::*;

/// One conversation: what the client sends, and what the server says before and in its answer.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// White space between members.
    pub(crate) space: String,
    /// A JSON string.
    pub(crate) string: String,
    /// The client's progress token, a string or an integer.
    pub(crate) token: String,
    /// Any JSON value.
    pub(crate) value: String,
    /// An object with repeated and nearly repeated keys.
    pub(crate) object: String,
    /// Whether something precedes the answer, so that it comes in an event stream.
    pub(crate) streamed: bool,
}

pub(crate) fn case() -> impl Strategy<Value = Case> {
    (space(), string(), token(), value(), object(), any::<bool>()).prop_map(
        |(space, string, token, value, object, streamed)| Case { space, string, token, value, object, streamed },
    )
}

fn space() -> impl Strategy<Value = String> + Clone {
    prop_oneof![2 => Just(String::new()), 1 => "[ \t\r\n]{1,3}"]
}

fn token() -> impl Strategy<Value = String> {
    prop_oneof![Just("1".to_owned()), Just("\"1\"".to_owned()), Just(r#""\u0031\n/""#.to_owned()), Just("0".to_owned())]
}

fn string() -> BoxedStrategy<String> {
    let plain = any::<char>().prop_map(|c| match c {
        '"' | '\\' | '\0'..='\x1f' => "x".to_owned(),
        c => c.to_string(),
    });
    let escapes =
        vec!["\\\"", "\\\\", "\\/", "\\b", "\\n", "\\u0000", "\\u00e9", "\\u2028", "\\uD83D\\uDE00", "\\ud800"];
    let piece = prop_oneof![3 => plain, 2 => prop::sample::select(escapes).prop_map(str::to_owned)];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| format!("\"{}\"", pieces.concat())).boxed()
}

fn value() -> BoxedStrategy<String> {
    let odd = vec!["null", "true", "{}", "[ ]", "9007199254740993", "-0", "-0.0", "1e400", "-1E-400", "0.1e+05"];
    let number = "-?(0|[1-9][0-9]{0,40})(\\.[0-9]{1,30})?([eE][+-]?[0-9]{1,4})?";
    prop_oneof![prop::sample::select(odd).prop_map(str::to_owned), number, string()]
        .prop_recursive(4, 24, 5, |inner| {
            let member = (padded(string()), padded(inner.clone())).prop_map(|(key, value)| format!("{key}:{value}"));
            prop_oneof![
                prop::collection::vec(padded(inner), 1..5).prop_map(|all| format!("[{}]", all.join(","))),
                prop::collection::vec(member, 1..5).prop_map(|all| format!("{{{}}}", all.join(","))),
            ]
        })
        .boxed()
}

fn object() -> impl Strategy<Value = String> {
    let key = prop::sample::select(vec![r#""a""#, r#""\u0061""#, r#""A""#, r#""""#, r#""name""#, r#""_meta""#]);
    let member =
        (padded(key.prop_map(str::to_owned)), padded(value())).prop_map(|(key, value)| format!("{key}:{value}"));
    prop::collection::vec(member, 0..5).prop_map(|all| format!("{{{}}}", all.join(",")))
}

fn padded(text: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    (space(), text, space()).prop_map(|(before, text, after)| format!("{before}{text}{after}"))
}
