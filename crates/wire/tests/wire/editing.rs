use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Map, Value};
use tidings_wire::{ByteSpan, ObjectEdit, Patch, encode_string, get, members, validate};

use crate::generate::{Range, json, object};

/// Spellings that repeat one another once decoded.
const KEYS: [&str; 6] = [r#""a""#, r#""b""#, r#""\u0061""#, r#""é""#, r#""""#, r#""q\"""#];
const NAMES: [&str; 6] = ["a", "b", "é", "", "q\"", "new"];

fn edited(text: &str, edit: impl FnOnce(&mut ObjectEdit<'_>)) -> String {
    let bytes = Bytes::copy_from_slice(text.as_bytes());
    let mut object = ObjectEdit::new(&bytes, validate(&bytes, 64).unwrap());
    edit(&mut object);
    let mut patch = Patch::new();
    object.finish(&mut patch);
    String::from_utf8(patch.apply(&bytes).to_vec()).unwrap()
}

#[test]
fn an_empty_patch_shares_the_original() {
    let bytes = Bytes::from_static(b"{}");
    assert!(Patch::new().is_empty());
    assert_eq!(Patch::new().apply(&bytes).as_ptr(), bytes.as_ptr());
}

#[test]
fn insertions_at_one_place_keep_their_order() {
    let mut patch = Patch::new();
    patch.remove(ByteSpan::new(1, 2));
    patch.insert(1, "x");
    patch.insert(1, "y");
    assert_eq!(patch.apply(&Bytes::from_static(b"abc")), "axyc");
}

#[test]
fn a_part_is_patched_without_the_edits_around_it() {
    let mut patch = Patch::new();
    patch.replace(ByteSpan::new(0, 1), "-");
    patch.replace(ByteSpan::new(3, 4), "+");
    assert_eq!(patch.apply_within(&Bytes::from_static(b"abcdef"), ByteSpan::new(2, 5)), "c+e");
}

#[test]
fn members_are_set_in_place_and_added_in_front() {
    assert_eq!(edited(r#"{"a": 1, "b": 2}"#, |o| _ = o.set("b", "3").set("c", "4")), r#"{"c":4,"a": 1, "b": 3}"#);
    assert_eq!(edited("{ }", |o| _ = o.set("a", "1").set("b", "2")), r#"{"a":1,"b":2 }"#);
}

#[test]
fn commas_follow_what_is_left() {
    let text = r#"{ "a":1 , "b":2 , "c":3 }"#;
    for (gone, left) in [
        (&["a"][..], r#"{ "b":2 , "c":3 }"#),
        (&["b"], r#"{ "a":1 , "c":3 }"#),
        (&["c"], r#"{ "a":1 , "b":2 }"#),
        (&["a", "b"], r#"{ "c":3 }"#),
        (&["b", "c"], r#"{ "a":1 }"#),
        (&["a", "c"], r#"{ "b":2 }"#),
        (&["a", "b", "c"], r#"{  }"#),
    ] {
        assert_eq!(edited(text, |o| gone.iter().for_each(|name| _ = o.remove(name))), left);
    }
}

#[test]
fn everything_may_give_way_to_something_new() {
    assert_eq!(edited(r#"{"a":1,"b":2}"#, |o| _ = o.remove_where(|_| true).set("c", "3")), r#"{"c":3}"#);
    assert_eq!(edited(r#"{"a":1,"b":2}"#, |o| _ = o.remove("a").set("a", "3").remove("b")), r#"{"a":3}"#);
}

#[test]
fn the_last_word_on_a_new_member_counts() {
    assert_eq!(edited("{}", |o| _ = o.set("a", "1").set("a", "2")), r#"{"a":2}"#);
    assert_eq!(edited(r#"{"b":0}"#, |o| _ = o.set("a", "1").remove("a")), r#"{"b":0}"#);
}

#[test]
fn setting_a_repeated_member_leaves_one() {
    assert_eq!(edited(r#"{"a":1,"b":2,"\u0061":3}"#, |o| _ = o.set("a", "9")), r#"{"a":9,"b":2}"#);
}

#[test]
fn an_edit_knows_when_nothing_would_be_left() {
    edited(r#"{"a":1}"#, |o| {
        assert!(!o.would_be_empty());
        assert!(o.remove("a").would_be_empty());
        assert!(!o.set("b", "1").would_be_empty());
    });
}

#[test]
fn what_is_no_object_is_left_alone() {
    for text in ["[1]", "null", "\"{\"", "7"] {
        assert_eq!(edited(text, |o| _ = o.set("a", "1").remove("b")), text);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Set(&'static str, String),
    Remove(&'static str),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = prop::sample::select(&NAMES[..]);
    let step = prop_oneof![
        (name.clone(), json(Range::Holdable)).prop_map(|(name, value)| Step::Set(name, value)),
        name.prop_map(Step::Remove),
    ];
    prop::collection::vec(step, 0..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn replacing_values_leaves_every_other_byte(
        text in object(&KEYS),
        new in json(Range::Grammar),
        chosen in prop::collection::vec(any::<bool>(), 8),
    ) {
        let bytes = Bytes::from(text);
        let whole = validate(&bytes, 64).unwrap();
        let all: Vec<_> = members(&bytes, whole).collect();
        let mut patch = Patch::new();
        let mut expected = Vec::new();
        let mut from = 0;
        for (member, _) in all.iter().zip(&chosen).filter(|(_, chosen)| **chosen) {
            patch.replace(member.value, new.clone());
            expected.extend_from_slice(&bytes[from..member.value.start]);
            expected.extend_from_slice(new.as_bytes());
            from = member.value.end;
        }
        expected.extend_from_slice(&bytes[from..]);
        let patched = patch.apply(&bytes);
        prop_assert_eq!(&patched, &expected);

        let after: Vec<_> = members(&patched, validate(&patched, 64).unwrap()).collect();
        prop_assert_eq!(after.len(), all.len());
        for ((before, after), chosen) in all.iter().zip(&after).zip(&chosen) {
            prop_assert_eq!(before.key.span.of(&bytes), after.key.span.of(&patched));
            let new = new.trim_matches([' ', '\t', '\r', '\n']).as_bytes();
            prop_assert_eq!(if *chosen { new } else { before.value.of(&bytes) }, after.value.of(&patched));
        }
    }

    #[test]
    fn edits_do_to_the_text_what_they_do_to_the_map(text in object(&KEYS), steps in steps()) {
        let mut expected: Map<String, Value> = serde_json::from_str(&text).unwrap();
        let result = edited(&text, |object| {
            for step in &steps {
                match step {
                    Step::Set(name, value) => _ = object.set(name, value.clone()),
                    Step::Remove(name) => _ = object.remove(name),
                }
            }
        });
        for step in steps {
            match step {
                Step::Set(name, value) => drop(expected.insert(name.into(), serde_json::from_str(&value).unwrap())),
                Step::Remove(name) => drop(expected.remove(name)),
            }
        }
        let found: Map<String, Value> = serde_json::from_str(&result).unwrap();
        prop_assert_eq!(found, expected, "{} became {}", text, result);
    }

    #[test]
    fn getting_agrees_with_another_parser(text in object(&KEYS)) {
        let map: Map<String, Value> = serde_json::from_str(&text).unwrap();
        let bytes = text.as_bytes();
        let whole = validate(bytes, 64).unwrap();
        for name in NAMES {
            let span = get(bytes, whole, name);
            let found = span.map(|span| serde_json::from_slice(span.of(bytes)).unwrap());
            prop_assert_eq!(found.as_ref(), map.get(name), "{}", encode_string(name));
            prop_assert_eq!(ObjectEdit::new(bytes, whole).get(name), span);
        }
    }
}
