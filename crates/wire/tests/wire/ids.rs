use std::collections::HashSet;

use tidings_wire::{Frame, FrameLimits, RawId};

fn id_of(raw: &str) -> Option<RawId> {
    Frame::parse(format!(r#"{{"jsonrpc":"2.0","id": {raw} ,"method":"m"}}"#), &FrameLimits::default()).ok()?.id()
}

#[test]
fn ids_come_back_exactly_as_they_were_sent() {
    let all =
        ["0", "-0", "1", "1.0", "\"1\"", "-1", "1e3", "1000", "\"\"", "\"\\u0061\"", "\"a\"", "18446744073709551616"];
    let ids: HashSet<_> = all.iter().map(|raw| id_of(raw).unwrap()).collect();
    assert_eq!(ids.len(), all.len(), "different spellings are different ids");
    for raw in all {
        assert_eq!(id_of(raw).unwrap().as_str(), raw);
    }
}

#[test]
fn what_is_neither_string_nor_number_is_no_id() {
    for raw in ["null", "true", "false", "{}", "[1]"] {
        assert_eq!(id_of(raw), None, "{raw}");
        assert_eq!(RawId::from_raw(raw.as_bytes()), None, "{raw}");
    }
}

#[test]
fn raw_text_that_is_more_than_one_scalar_is_no_id() {
    for raw in ["", " 1", "1 ", "1,\"x\":2", "\"a\",\"b\"", "\"a", "-", "01", "1x", "\"a\nb\"", "\"\\q\""] {
        assert_eq!(RawId::from_raw(raw.as_bytes()), None, "{raw}");
    }
    assert_eq!(RawId::from_raw(b"\"\xff\""), None);
}

#[test]
fn only_plain_unsigned_integers_read_as_numbers() {
    for number in [0, 1, u64::MAX] {
        assert_eq!(RawId::from(number).as_u64(), Some(number));
    }
    for raw in ["-1", "1.0", "1e3", "\"1\"", "18446744073709551616"] {
        assert_eq!(RawId::from_raw(raw.as_bytes()).unwrap().as_u64(), None, "{raw}");
    }
}

#[test]
fn an_id_of_any_length_is_itself_and_no_other() {
    let quoted = |text: &str, times: usize| format!("\"{}\"", text.repeat(times));
    // On both sides of the length up to which an id stands in the value itself.
    let texts =
        [quoted("é", 10), quoted("y", 20), quoted("y", 21), quoted("y", 40), "1".into(), "10".into(), "2".into()];
    for text in &texts {
        let id = RawId::from_raw(text.as_bytes()).unwrap();
        assert_eq!((id.as_str(), id.as_bytes(), &id.to_string()), (&**text, text.as_bytes(), text));
        for other in &texts {
            let theirs = RawId::from_raw(other.as_bytes()).unwrap();
            assert_eq!((id == theirs, id.cmp(&theirs)), (text == other, text.cmp(other)));
        }
    }
    assert_eq!(RawId::from_raw(b"18446744073709551615"), Some(RawId::from(u64::MAX)));
}
