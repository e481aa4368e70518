use proptest::prelude::*;
use tidings_wire::{ByteSpan, ScanError, validate};

use crate::checks::is_json;
use crate::generate::{Range, json, mutated};

#[test]
fn numbers_follow_the_grammar() {
    for good in
        ["0", "-0", "1", "-1", "10", "1e3", "1E+3", "1e-03", "0.0", "0.10", "-0.5e9", "1e99999", &"9".repeat(400)]
    {
        assert_eq!(validate(good.as_bytes(), 0), Ok(ByteSpan::new(0, good.len())), "{good}");
    }
    for bad in
        ["-", "+1", "01", "-01", "1.", ".5", "1.e3", "1e", "1e+", "1e3.5", "0x10", "1_000", "NaN", "Infinity", "--1"]
    {
        assert!(validate(bad.as_bytes(), 0).is_err(), "{bad}");
    }
}

#[test]
fn control_characters_stand_in_no_string() {
    for byte in 0..0x20u8 {
        let text = [b'"', b'a', byte, b'"'];
        assert_eq!(validate(&text, 0), Err(ScanError::Syntax { at: 2 }), "{byte:#x}");
        let in_key = [b'{', b'"', byte, b'"', b':', b'1', b'}'];
        assert_eq!(validate(&in_key, 1), Err(ScanError::Syntax { at: 2 }), "{byte:#x}");
    }
    assert!(validate(b"\"\x7f\"", 0).is_ok());
}

#[test]
fn a_control_character_is_named_even_where_the_string_never_ends() {
    assert_eq!(validate(b"\"ab\ncd", 0), Err(ScanError::Syntax { at: 3 }));
    assert_eq!(validate(b"\"abcd", 0), Err(ScanError::Truncated));
}

#[test]
fn only_the_escapes_of_json_are_escapes() {
    for good in [r#""\"\\\/\b\f\n\r\t""#, r#""\u00e9\uD83D\ude00""#, r#""\ud800""#] {
        assert!(validate(good.as_bytes(), 0).is_ok(), "{good}");
    }
    for (bad, at) in [(r#""\x41""#, 2), (r#""\'""#, 2), (r#""\u12g4""#, 5), (r#""\u123""#, 6), (r#""\U0041""#, 2)] {
        assert_eq!(validate(bad.as_bytes(), 0), Err(ScanError::Syntax { at }), "{bad}");
    }
}

#[test]
fn nesting_is_accepted_up_to_the_limit_and_no_deeper() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let nested = |n: usize| format!("{}1{}", open.repeat(n), close.repeat(n));
        assert!(validate(nested(8).as_bytes(), 8).is_ok());
        assert_eq!(validate(nested(9).as_bytes(), 8), Err(ScanError::TooDeep { limit: 8 }));
    }
    assert!(validate(b"[[1],[2],{\"a\":{}},[3]]", 3).is_ok(), "neighbours do not add up");
    assert_eq!(validate("[".repeat(1 << 20).as_bytes(), 256), Err(ScanError::TooDeep { limit: 256 }));
}

#[test]
fn the_default_depth_fits_on_a_small_stack() {
    let text = format!("{}1{}", "[{\"a\":".repeat(128), "}]".repeat(128));
    let thread = std::thread::Builder::new().stack_size(256 << 10);
    let answer = thread.spawn(move || validate(text.as_bytes(), 256).is_ok()).unwrap();
    assert!(answer.join().unwrap());
}

#[test]
fn one_value_and_nothing_after_it() {
    for bad in ["1 2", "{} {}", "[1]]", "{\"a\":1}x", "nullnull", "\"a\"\"b\"", "1,"] {
        assert!(matches!(validate(bad.as_bytes(), 4), Err(ScanError::Syntax { .. })), "{bad}");
    }
    assert_eq!(validate(b" \t\r\n[1] \n", 1), Ok(ByteSpan::new(4, 7)));
}

#[test]
fn only_four_bytes_are_white_space() {
    for space in ["\u{b}", "\u{c}", "\u{a0}", "\u{feff}", "\u{2028}"] {
        assert!(validate(format!("{space}1").as_bytes(), 0).is_err(), "{space:?}");
        assert!(validate(format!("[1{space}]").as_bytes(), 1).is_err(), "{space:?}");
    }
}

#[test]
fn commas_and_colons_are_neither_missing_nor_spare() {
    for bad in [
        "[1,]",
        "[,1]",
        "[1 2]",
        "{,}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{\"a\":1 \"b\":2}",
        "{a:1}",
        "{1:1}",
        "{\"a\",1}",
    ] {
        assert!(validate(bad.as_bytes(), 4).is_err(), "{bad}");
    }
}

#[test]
fn literals_are_exact() {
    for bad in ["True", "nul", "nulL", "truefalse", "fals", "undefined", ""] {
        assert!(validate(bad.as_bytes(), 4).is_err(), "{bad}");
    }
    for cut in ["", " ", "[", "[1", "[1,", "{", "{\"a", "{\"a\"", "{\"a\":", "{\"a\":1", "tr", "-", "\"\\", "\"\\u00"] {
        assert_eq!(validate(cut.as_bytes(), 4), Err(ScanError::Truncated), "{cut}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn every_json_text_is_accepted_and_located(text in json(Range::Grammar)) {
        let span = validate(text.as_bytes(), 64).unwrap();
        let trimmed = text.trim_matches([' ', '\t', '\r', '\n']);
        prop_assert_eq!(span.of(text.as_bytes()), trimmed.as_bytes());
        prop_assert!(is_json(text.as_bytes()));
    }

    #[test]
    fn damaged_texts_are_judged_as_another_parser_judges_them(bytes in mutated(json(Range::Grammar))) {
        let ours = validate(&bytes, 64).is_ok() && std::str::from_utf8(&bytes).is_ok();
        prop_assert_eq!(ours, is_json(&bytes), "{:?}", String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_bytes_are_judged_as_another_parser_judges_them(bytes in prop::collection::vec(any::<u8>(), 0..24)) {
        let ours = validate(&bytes, 64).is_ok() && std::str::from_utf8(&bytes).is_ok();
        prop_assert_eq!(ours, is_json(&bytes));
    }

    #[test]
    fn a_text_cut_short_is_never_accepted(text in json(Range::Grammar), at in any::<prop::sample::Index>()) {
        let text = text.trim_matches([' ', '\t', '\r', '\n']);
        prop_assume!(!text.starts_with(|c: char| c == '-' || c.is_ascii_digit()));
        let cut = &text.as_bytes()[..at.index(text.len())];
        prop_assert_eq!(validate(cut, 64), Err(ScanError::Truncated));
    }
}
