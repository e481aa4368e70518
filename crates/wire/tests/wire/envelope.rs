use bytes::Bytes;
use proptest::prelude::*;
use tidings_wire::{Frame, FrameFault, FrameKind, FrameLimits, IncomingMessage, ObjectEdit, Patch};

use crate::checks;
use crate::generate::{Range, json, message, mutated};

fn parse(text: &str) -> Frame {
    Frame::parse(text.to_owned(), &FrameLimits::default()).unwrap()
}

fn batch(text: &str) -> Vec<Result<Frame, tidings_wire::FrameError>> {
    match IncomingMessage::parse(Bytes::copy_from_slice(text.as_bytes()), &FrameLimits::default()).unwrap() {
        IncomingMessage::Batch(parts) => parts,
        IncomingMessage::Single(_) => panic!("not a batch: {text}"),
    }
}

#[test]
fn the_members_say_what_a_message_is() {
    for (text, kind) in [
        (r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#, FrameKind::Request),
        (r#"{"jsonrpc":"2.0","method":"m","params":{}}"#, FrameKind::Notification),
        (r#"{"jsonrpc":"2.0","id":"x","result":null}"#, FrameKind::Response),
        (r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}"#, FrameKind::Error),
        (r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}"#, FrameKind::Error),
        (r#"{"jsonrpc":"2.0","error":{"code":1,"message":"m"}}"#, FrameKind::Error),
    ] {
        assert_eq!(parse(text).kind(), kind, "{text}");
    }
}

#[test]
fn a_method_is_the_same_however_it_is_spelled() {
    for raw in ["a/b", "a\\/b", "\\u0061/b"] {
        let frame = parse(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{raw}"}}"#));
        assert!(frame.has_method("a/b"), "{raw}");
        for other in ["", "a", "a/", "a/bc", "a\\/b"] {
            assert!(!frame.has_method(other), "{raw} {other}");
        }
    }
    assert!(!parse(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).has_method(""), "a response has none");
}

#[test]
fn members_stand_in_any_order_among_strangers() {
    let text = concat!(
        "\t{ \"x\" : [1,{\"id\":9}] ,\r\n",
        r#""params":{"name":"n\u0061","a":{"b":[ ]}},"method":"a\/b", "id":4,"jsonrpc":"2.0"} "#,
        "\n",
    );
    let frame = parse(text);
    assert_eq!(frame.bytes(), text.as_bytes());
    assert_eq!(frame.id().unwrap().as_str(), "4");
    assert_eq!(frame.method(), "a/b");
    assert_eq!(frame.param_str(&["name"]).unwrap(), "na");
    assert_eq!(frame.raw(frame.param(&["a", "b"]).unwrap()), b"[ ]");
    assert_eq!(frame.slice(frame.params().unwrap()), &br#"{"name":"n\u0061","a":{"b":[ ]}}"#[..]);
    assert_eq!(frame.param(&["a", "c"]), None);
    assert_eq!(frame.param_str(&["a"]), None, "not a string");
    assert_eq!(frame.into_bytes(), text.as_bytes());
}

#[test]
fn an_escaped_key_is_the_same_key() {
    let frame = parse(r#"{"jsonrpc":"2.0","\u0069d":1,"m\u0065thod":"m"}"#);
    assert_eq!(frame.kind(), FrameKind::Request);
    assert_eq!(frame.id().unwrap().as_str(), "1");
}

#[test]
fn keys_that_only_look_alike_are_strangers() {
    let frame = parse(r#"{"jsonrpc":"2.0","ID":1,"id ":2,"\\u0069d":3,"\ud800id":4,"method":"m","":5}"#);
    assert_eq!(frame.kind(), FrameKind::Notification);
}

#[test]
fn a_result_may_be_any_value() {
    for result in ["null", "0", "false", "\"\"", "[]", "{}"] {
        let frame = parse(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#));
        assert_eq!(frame.raw(frame.outcome().unwrap()), result.as_bytes());
        assert_eq!(frame.method(), "");
    }
}

#[test]
fn an_error_answer_to_nobody_has_no_id() {
    let frame = parse(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}"#);
    assert_eq!(frame.id(), None);
    assert_eq!(frame.raw(frame.id_span().unwrap()), b"null", "what stands there can be replaced");
}

#[test]
fn parts_of_a_batch_fail_singly() {
    let parts = batch(concat!(
        r#" [ {"jsonrpc":"2.0","id":1,"method":"a"}, 7, [], "#,
        r#"{"jsonrpc":"2.0","id":2,"method":3},{"jsonrpc":"2.0","method":"b"}]"#,
    ));
    assert_eq!(parts.len(), 5);
    assert_eq!(parts[0].as_ref().unwrap().method(), "a");
    assert_eq!(parts[1].as_ref().unwrap_err().fault, FrameFault::NotAnObject);
    assert_eq!(parts[2].as_ref().unwrap_err().fault, FrameFault::NotAnObject);
    let third = parts[3].as_ref().unwrap_err();
    assert_eq!((&third.fault, third.id.as_ref().unwrap().as_str()), (&FrameFault::Method, "2"));
    let last = parts[4].as_ref().unwrap();
    assert_eq!(last.bytes(), &br#"{"jsonrpc":"2.0","method":"b"}"#[..]);
}

#[test]
fn spans_of_a_batch_part_are_relative_to_the_part() {
    let parts = batch(r#"[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","id":77,"method":"b"}]"#);
    let second = parts[1].as_ref().unwrap();
    assert_eq!(second.raw(second.id_span().unwrap()), b"77");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn frames_hold_for_messages(text in message()) {
        checks::frame(text.as_bytes());
    }

    #[test]
    fn frames_hold_for_damaged_messages(bytes in mutated(message())) {
        checks::frame(&bytes);
    }

    #[test]
    fn frames_hold_for_any_json(text in json(Range::Grammar)) {
        checks::frame(text.as_bytes());
    }

    #[test]
    fn frames_hold_for_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        checks::frame(&bytes);
    }

    #[test]
    fn whatever_stands_in_params_stays_as_it_was(params in json(Range::Grammar)) {
        prop_assume!(params.trim_start().starts_with('{'));
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{params}}}"#);
        let frame = match Frame::parse(text, &FrameLimits::default()) {
            Err(error) if matches!(error.fault, FrameFault::DuplicateMember(_)) => return Ok(()),
            parsed => parsed.unwrap(),
        };
        prop_assert_eq!(frame.raw(frame.params().unwrap()), params.trim_matches([' ', '\t', '\r', '\n']).as_bytes());
    }
}

/// Params with `_meta` in several spellings, some with more members than are remembered.
fn params() -> impl Strategy<Value = String> {
    let spelled = |name: &'static str, escaped: &'static str| prop_oneof![Just(name), Just(escaped)];
    let value =
        proptest::sample::select(vec!["1", r#"{"a": 2, "\u0062": 3}"#, "{}", r#"{"a":{"a":4, "a":5}}"#, "[1,{}]"]);
    let keys = (spelled("_meta", "\\u005fmeta"), spelled("a", "\\u0061"), spelled("b", "b"), spelled("c", "\\u0063"));
    let values = proptest::collection::vec(proptest::option::of(value), 4);
    (keys, values, prop_oneof![Just(0), Just(20)]).prop_map(|((meta, a, b, c), values, more)| {
        let named = [meta, a, b, c].into_iter().zip(values);
        let members = named.filter_map(|(key, value)| Some(format!("\"{key}\" : {}", value?)));
        let members: Vec<String> = members.chain((0..more).map(|i| format!("\"m{i}\":{i}"))).collect();
        format!("{{{}}}", members.join(" , "))
    })
}

proptest! {
    #[test]
    fn what_is_remembered_of_a_message_is_what_a_scan_finds(params in params(), result in any::<bool>()) {
        let text = match result {
            true => format!(r#"{{"jsonrpc":"2.0","id":1,"result":{params}}}"#),
            false => format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{params}}}"#),
        };
        let frame = Frame::parse(text, &FrameLimits::default()).unwrap();
        let whole = frame.params().or(frame.outcome()).unwrap();
        for name in ["_meta", "a", "b", "c", "d"] {
            let found = tidings_wire::get(frame.bytes(), whole, name);
            prop_assert_eq!(frame.get(whole, name), found);
            let Some(inner) = found else { continue };
            for name in ["a", "b"] {
                prop_assert_eq!(frame.get(inner, name), tidings_wire::get(frame.bytes(), inner, name));
            }
            for span in [whole, inner] {
                let (mut one, mut two) = (Patch::new(), Patch::new());
                let mut edit = frame.edit(span);
                edit.set("a", "9").remove("b");
                edit.finish(&mut one);
                let mut edit = ObjectEdit::new(frame.bytes(), span);
                edit.set("a", "9").remove("b");
                edit.finish(&mut two);
                prop_assert_eq!(one.apply(frame.bytes()), two.apply(frame.bytes()));
            }
        }
    }
}
