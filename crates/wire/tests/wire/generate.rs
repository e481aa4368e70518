//! Random JSON texts, with the spellings and the white space that real senders use and a few that they do not.

use proptest::prelude::*;
use proptest::string::string_regex;

/// Which texts to make.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Range {
    /// Only what other parsers can hold as a value: numbers in range, surrogates in pairs.
    Holdable,
    /// All that the grammar allows.
    Grammar,
}

pub(crate) fn space() -> impl Strategy<Value = String> + Clone {
    prop_oneof![4 => Just(String::new()), 1 => "[ \t\r\n]{1,3}"]
}

/// A JSON string, quotes included.
pub(crate) fn string(range: Range) -> BoxedStrategy<String> {
    let plain = any::<char>().prop_map(|c| match c {
        '"' | '\\' | '\0'..='\x1f' => "x".to_owned(),
        c => c.to_string(),
    });
    let escape = prop::sample::select(vec![
        "\\\"",
        "\\\\",
        "\\/",
        "\\b",
        "\\f",
        "\\n",
        "\\r",
        "\\t",
        "\\u0000",
        "\\u00e9",
        "\\u2028",
        "\\uD83D\\uDE00",
        "\\uffff",
    ])
    .prop_map(str::to_owned);
    let piece = match range {
        Range::Holdable => prop_oneof![3 => plain, 1 => escape].boxed(),
        Range::Grammar => prop_oneof![3 => plain, 1 => escape, 1 => "\\\\u[0-9a-fA-F]{4}"].boxed(),
    };
    prop::collection::vec(piece, 0..8).prop_map(|pieces| format!("\"{}\"", pieces.concat())).boxed()
}

fn number(range: Range) -> BoxedStrategy<String> {
    let pattern = match range {
        Range::Holdable => "-?(0|[1-9][0-9]{0,17})(\\.[0-9]{1,6})?([eE][+-]?[0-9])?",
        Range::Grammar => "-?(0|[1-9][0-9]{0,40})(\\.[0-9]{1,40})?([eE][+-]?[0-9]{1,5})?",
    };
    string_regex(pattern).unwrap().boxed()
}

/// Any JSON text, with white space around.
pub(crate) fn json(range: Range) -> BoxedStrategy<String> {
    let literal =
        prop::sample::select(vec!["null", "true", "false", "{}", "[]", "{ }", "[\n]"]).prop_map(str::to_owned);
    prop_oneof![literal, number(range), string(range)]
        .prop_recursive(5, 48, 6, move |inner| {
            let element = padded(inner.clone());
            let member = (padded(string(range)), padded(inner)).prop_map(|(key, value)| format!("{key}:{value}"));
            prop_oneof![
                prop::collection::vec(element, 1..6).prop_map(|all| format!("[{}]", all.join(","))),
                prop::collection::vec(member, 1..6).prop_map(|all| format!("{{{}}}", all.join(","))),
            ]
        })
        .prop_flat_map(|text| padded(Just(text)))
        .boxed()
}

fn padded(text: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    (space(), text, space()).prop_map(|(before, text, after)| format!("{before}{text}{after}"))
}

/// An object text whose keys come from `keys` (so that they repeat), as raw spellings.
pub(crate) fn object(keys: &'static [&'static str]) -> impl Strategy<Value = String> {
    let key = padded(prop::sample::select(keys).prop_map(str::to_owned));
    let member = (key, json(Range::Holdable)).prop_map(|(key, value)| format!("{key}:{value}"));
    let inner = prop_oneof![
        1 => space(),
        8 => prop::collection::vec(member, 1..7).prop_map(|all| all.join(",")),
    ];
    padded(inner.prop_map(|inner| format!("{{{inner}}}")))
}

/// Something like a message: envelope members, some right, some wrong, some twice.
pub(crate) fn message() -> impl Strategy<Value = String> {
    const WELL_FORMED: [&str; 14] = [
        r#""jsonrpc":"2.0""#,
        r#""id":1"#,
        r#""id":"a\n""#,
        r#""\u0069d":-1e3"#,
        r#""id":null"#,
        r#""method":"m""#,
        r#""method":"\ud800""#,
        r#""method":7"#,
        r#""params":{"a":[1,{"b":2}]}"#,
        r#""params":null"#,
        r#""result":{}"#,
        r#""error":{"code":1,"message":""}"#,
        r#""error":3"#,
        r#""extra":[]"#,
    ];
    let member = padded(prop::sample::select(&WELL_FORMED[..]).prop_map(str::to_owned));
    let version = prop_oneof![1 => Just(""), 9 => Just("\"jsonrpc\":\"2.0\",")];
    let single = (version, prop::collection::vec(member, 1..4))
        .prop_map(|(version, members)| format!("{{{version}{}}}", members.join(",")));
    let single = padded(single).boxed();
    let batch = prop::collection::vec(prop_oneof![4 => single.clone(), 1 => json(Range::Grammar)], 0..4)
        .prop_map(|parts| format!("[{}]", parts.join(",")));
    prop_oneof![4 => single, 1 => batch]
}

/// One careless change of a text: a byte put in, taken out, replaced or repeated, or the rest cut off.
pub(crate) fn mutated(text: impl Strategy<Value = String>) -> impl Strategy<Value = Vec<u8>> {
    const BYTES: &[u8] = b"{}[]:,\"\\ \n\t\x0c\x00\x1f\x7f\xc3\xa9\xff0123456789-+.eEutfnarls/";
    let change = (any::<prop::sample::Index>(), prop::sample::select(BYTES), 0..5u8);
    (text, prop::collection::vec(change, 0..3)).prop_map(|(text, changes)| {
        let mut bytes = text.into_bytes();
        for (at, byte, how) in changes {
            let at = at.index(bytes.len() + 1);
            match (how, at < bytes.len()) {
                (0, true) => bytes[at] = byte,
                (1, true) => drop(bytes.remove(at)),
                (2, true) => bytes.insert(at, bytes[at]),
                (3, true) => bytes.truncate(at),
                _ => bytes.insert(at, byte),
            }
        }
        bytes
    })
}
