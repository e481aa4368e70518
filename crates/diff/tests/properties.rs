//! What holds for every two values.

use proptest::prelude::*;
use serde_json::{Value, json};
use tidings_diff::{
    DiffLine, FieldPair, Severity, VisibleSpan, WordSpan, changed, is_deceptive, lines, loudest, paths, visible, words,
};

fn json_value() -> impl Strategy<Value = Value> {
    let keys = prop::sample::select(vec![
        "type",
        "properties",
        "required",
        "enum",
        "items",
        "description",
        "minimum",
        "anyOf",
        "a",
        "b",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i8>().prop_map(Value::from),
        "[a-c \u{200b}/<>A-C]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(keys.clone(), inner, 0..5)
                .prop_map(|all| all.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ]
    })
}

fn text() -> impl Strategy<Value = String> {
    "[ab \n\u{200b}ä.]{0,40}"
}

proptest! {
    #[test]
    fn taking_words_apart_gives_both_texts_again(before in text(), after in text()) {
        let (mut old, mut new) = (String::new(), String::new());
        for span in words(&before, &after) {
            match span {
                WordSpan::Same(text) => { old.push_str(&text); new.push_str(&text); }
                WordSpan::Gone(text) => old.push_str(&text),
                WordSpan::Come(text) => new.push_str(&text),
            }
        }
        prop_assert_eq!((old, new), (before, after));
    }

    #[test]
    fn taking_lines_apart_gives_both_texts_again(before in text(), after in text()) {
        let (old, new): (Vec<&str>, Vec<&str>) = (before.split(' ').collect(), after.split(' ').collect());
        let all = lines(&old, &new, usize::MAX);
        if old == new {
            prop_assert!(all.is_empty());
            return Ok(());
        }
        let side = |gone: bool| -> Vec<&str> {
            all.iter().filter_map(|line| match *line {
                DiffLine::Same(text) => Some(text),
                DiffLine::Gone(text) => gone.then_some(text),
                DiffLine::Come(text) => (!gone).then_some(text),
                DiffLine::Skipped => None,
            }).collect()
        };
        prop_assert_eq!((side(true), side(false)), (old, new));
    }

    #[test]
    fn values_differ_exactly_where_a_path_says_so(before in json_value(), after in json_value()) {
        prop_assert_eq!(paths(Some(&before), Some(&after)).is_empty(), before == after);
        prop_assert!(paths(Some(&before), Some(&before)).is_empty());
    }

    #[test]
    fn nothing_that_can_not_be_seen_is_plain(text in any::<String>()) {
        let mut again = String::new();
        for span in visible(&text) {
            match span {
                VisibleSpan::Plain(part) => {
                    prop_assert!(!part.chars().any(|c| is_deceptive(c) && !matches!(c, '\n' | '\t')));
                    again.push_str(part);
                }
                VisibleSpan::Marked(c) => { prop_assert!(is_deceptive(c)); again.push(c); }
            }
        }
        prop_assert_eq!(again, text);
    }

    #[test]
    fn every_change_has_a_reason_and_none_has_none(
        field in prop::sample::select(vec!["description", "inputSchema", "outputSchema", "arguments", "annotations", "icons", "x"]),
        before in json_value(), after in json_value(),
    ) {
        let pair = FieldPair { field, before: Some(&before), after: Some(&after) };
        let found = changed(&[pair], &|word| word == "a_b");
        prop_assert_eq!(found.is_empty(), before == after, "{:?}", found);
    }

    #[test]
    fn an_unseen_character_is_never_overlooked(
        before in json_value(), head in "[a-z ]{0,6}", unseen in prop::sample::select(vec!['\u{200b}', '\u{202e}', '\u{e0041}', '\u{1b}']),
    ) {
        prop_assume!(!before.to_string().contains(unseen) && !before.to_string().contains('\u{200b}') && !before.to_string().contains("\\u"));
        let after = json!({ "description": format!("{head}{unseen}"), "was": before });
        for field in ["description", "inputSchema", "outputSchema", "arguments", "annotations", "whatever"] {
            let pair = FieldPair { field, before: Some(&before), after: Some(&after) };
            prop_assert_eq!(loudest(&changed(&[pair], &|_| false)), Severity::Suspect, "{}", field);
        }
    }
}
