use bytes::Bytes;
use proptest::prelude::*;
use serde_json::Value;
use tidings_wire::{append_string, decode_string, encode_string, one_line};

use crate::generate::{Range, json, mutated, string};

#[test]
fn text_on_one_line_is_shared_not_copied() {
    let bytes = Bytes::from_static(b"{\"a\":\"\\n\"}");
    assert_eq!(one_line(&bytes).as_ptr(), bytes.as_ptr());
}

#[test]
fn a_line_break_in_any_style_becomes_space() {
    assert_eq!(one_line(&Bytes::from_static(b"{\r\n\"a\":\r1\n}")), "{  \"a\": 1 }");
}

#[test]
fn lone_surrogates_do_not_decode() {
    for raw in [r#""\ud800""#, r#""\udc00""#, r#""\ud800\ud800""#, r#""\ud800x""#, r#""\ud800\n""#, r#""\ude00\ud83d""#]
    {
        assert_eq!(decode_string(raw.as_bytes()), None, "{raw}");
    }
    assert_eq!(decode_string(br#""\uD83D\uDE00""#).unwrap(), "\u{1F600}");
}

#[test]
fn what_is_no_string_does_not_decode() {
    for raw in [
        "",
        "\"",
        "a",
        "'a'",
        "\"a",
        "a\"",
        "1",
        "\"\\\"",
        "\"a\"b\"",
        "\"\\n\"b\"",
        "\"\\x\"",
        "\"\\u00\"",
        "\"\n\"",
        "\"\\u+041\"",
    ] {
        assert_eq!(decode_string(raw.as_bytes()), None, "{raw}");
    }
    assert_eq!(decode_string(b"\"\xff\""), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn one_line_keeps_the_value(text in json(Range::Holdable)) {
        let line = one_line(&Bytes::from(text.clone()));
        prop_assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
        prop_assert_eq!(serde_json::from_slice::<Value>(&line).unwrap(), serde_json::from_str::<Value>(&text).unwrap());
    }

    #[test]
    fn any_text_comes_back_through_a_json_string(text: String) {
        let raw = encode_string(&text);
        prop_assert_eq!(serde_json::from_str::<String>(&raw).unwrap(), text.as_str());
        prop_assert_eq!(decode_string(raw.as_bytes()).unwrap(), text.as_str());
        prop_assert_eq!(one_line(&raw.clone().into()), raw);
    }

    #[test]
    fn strings_decode_as_another_parser_decodes_them(raw in mutated(string(Range::Grammar))) {
        let trimmed = raw.trim_ascii() == raw;
        let theirs = serde_json::from_slice::<String>(&raw).ok().filter(|_| trimmed);
        prop_assert_eq!(decode_string(&raw).map(|s| s.into_owned()), theirs);
    }
}

#[test]
fn every_character_below_the_blank_is_escaped_and_nothing_else_but_quote_and_backslash() {
    for code in 0..0x3000 {
        let Some(character) = char::from_u32(code) else { continue };
        let text = format!("{character}a{character}{character}\u{10ffff}");
        let encoded = encode_string(&text);
        assert_eq!(serde_json::from_str::<String>(&encoded).ok().as_ref(), Some(&text), "{encoded}");
        let is_escaped = code < 0x20 || character == '"' || character == '\\';
        assert_eq!(encoded.contains('\\'), is_escaped, "{encoded}");
        let mut appended = b"x".to_vec();
        append_string(&text, &mut appended);
        assert_eq!(&appended[1..], encoded.as_bytes());
    }
}
