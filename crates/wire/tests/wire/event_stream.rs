use bytes::Bytes;
use proptest::prelude::*;
use tidings_wire::one_line;
use tidings_wire::sse::{EventTooLong, SseEvent, encode};

use crate::checks::{decode, event_stream};
use crate::generate::{Range, json};

fn events(stream: &str) -> Vec<SseEvent> {
    let (events, error) = decode([stream.as_bytes()], 1 << 20);
    assert_eq!(error, None);
    events
}

fn message(data: &str) -> SseEvent {
    SseEvent { data: Bytes::copy_from_slice(data.as_bytes()), ..SseEvent::default() }
}

#[test]
fn every_line_ending_ends_a_line() {
    for end in ["\n", "\r", "\r\n"] {
        let stream = "id: 1|event: e|data: a|data: b||data: c||".replace('|', end);
        let first = SseEvent { id: Some("1".into()), event: "e".into(), ..message("a\nb") };
        assert_eq!(events(&stream), [first, message("c")], "{end:?}");
    }
    assert_eq!(events("data: a\r\r\ndata: b\n\r"), [message("a"), message("b")]);
}

#[test]
fn one_space_after_the_colon_belongs_to_the_framing() {
    assert_eq!(
        events("data:a\n\ndata: a\n\ndata:  a\n\ndata:\ta\n\n").iter().map(|e| e.data.clone()).collect::<Vec<_>>(),
        ["a", "a", " a", "\ta"]
    );
}

#[test]
fn data_may_be_empty_or_have_empty_lines() {
    assert_eq!(events("data\n\ndata:\n\ndata\ndata:\n\n"), [message(""), message(""), message("\n")]);
}

#[test]
fn comments_and_unknown_fields_say_nothing() {
    assert_eq!(events(": ping\n\n:\n\nfoo: bar\nData: x\n\n"), []);
    assert_eq!(events(":c\ndata: a\n: c\n\n"), [message("a")]);
}

#[test]
fn a_name_alone_is_no_event_and_does_not_stick() {
    assert_eq!(events("event: e\n\ndata: a\n\n"), [message("a")]);
}

#[test]
fn an_id_or_a_retry_alone_primes() {
    assert_eq!(
        events("id: 7\n\nretry: 50\n\nid\n\n"),
        [
            SseEvent { id: Some("7".into()), ..SseEvent::default() },
            SseEvent { retry: Some(50), ..SseEvent::default() },
            SseEvent { id: Some(String::new()), ..SseEvent::default() },
        ]
    );
}

#[test]
fn an_id_with_a_zero_byte_is_ignored() {
    assert_eq!(events("id: a\0b\ndata: x\n\n"), [message("x")]);
}

#[test]
fn a_retry_is_digits_only() {
    for bad in ["+5", "-5", "5ms", "", "1e3", "99999999999999999999"] {
        assert_eq!(events(&format!("retry: {bad}\n\n")), [], "{bad}");
        let kept = SseEvent { retry: Some(9), ..SseEvent::default() };
        assert_eq!(events(&format!("retry: 9\nretry: {bad}\n\n")), [kept], "{bad}");
    }
}

#[test]
fn a_byte_order_mark_is_skipped_once() {
    assert_eq!(events("\u{feff}data: a\n\n\u{feff}data: b\n\n"), [message("a")]);
    assert_eq!(decode("\u{feff}data: a\n\n".as_bytes().chunks(1), 9).0, [message("a")]);
}

#[test]
fn an_event_that_never_ends_is_no_event() {
    assert_eq!(events("data: a\n"), []);
    assert_eq!(events("data: a"), []);
}

#[test]
fn the_limit_is_for_one_event_not_for_one_chunk() {
    let stream = "data: 12345678\n\n".repeat(100);
    let (events, error) = decode([stream.as_bytes()], 8);
    assert_eq!((events.len(), error), (100, None));
}

#[test]
fn an_event_over_the_limit_is_refused_after_those_before_it() {
    let too_long = Some(EventTooLong::OverLimit { limit: 8 });
    assert_eq!(decode([&b"data: a\n\ndata: 123456789\n\n"[..]], 8), (vec![message("a")], too_long));
    assert_eq!(decode([&b"data: 1234\ndata: 5678\n\n"[..]], 8), (vec![], too_long), "the joining line break counts");
    assert_eq!(decode([&b"data: 123456789012345678"[..]], 8), (vec![], too_long), "before its line ends");
    assert_eq!(decode([&b"id: 12345\ndata: 1234\n\n"[..]], 8), (vec![], too_long));
}

#[test]
fn comments_for_ever_are_fine() {
    let stream = ": still here\n".repeat(1000);
    assert_eq!(decode([stream.as_bytes()], 16), (vec![], None));
}

#[test]
fn a_priming_event_has_no_name() {
    assert_eq!(encode(Some("1-0"), Some(500), b""), "id: 1-0\nretry: 500\ndata: \n\n");
    assert_eq!(encode(None, None, b"{}"), "event: message\ndata: {}\n\n");
}

/// Streams of pieces that mean something, in orders that often do not.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        &b"data"[..],
        b"data: ",
        b"data:x",
        b"id: ",
        b"id: 1",
        b"event: ",
        b"retry: ",
        b"12",
        b":",
        b" ",
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
        b"\xEF\xBB\xBF",
        b"\0",
        b"\xff",
        b"abcdefgh",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn cutting_the_stream_changes_nothing(
        stream in stream(),
        limit in 0..40usize,
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let mut cuts: Vec<_> = cuts.iter().map(|at| at.index(stream.len() + 1)).chain([0, stream.len()]).collect();
        cuts.sort_unstable();
        let chunks = cuts.windows(2).map(|w| &stream[w[0]..w[1]]);
        prop_assert_eq!(decode(chunks, limit), decode([&stream[..]], limit));
    }

    #[test]
    fn streams_hold_for_pieces(limit: u8, cut: u8, stream in stream()) {
        event_stream(&[&[limit, cut][..], &stream].concat());
    }

    #[test]
    fn streams_hold_for_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        event_stream(&bytes);
    }

    #[test]
    fn what_is_written_is_read(
        sent in prop::collection::vec(
            (prop::option::of("[!-~]{0,8}"), prop::option::of(any::<u64>()), json(Range::Grammar)),
            0..5,
        ),
        cut in 1..64usize,
    ) {
        let mut stream = Vec::new();
        let mut expected = Vec::new();
        for (id, retry, text) in sent {
            let data = one_line(&Bytes::from(text));
            stream.extend_from_slice(&encode(id.as_deref(), retry, &data));
            expected.push(SseEvent { id, event: "message".into(), data, retry });
        }
        prop_assert_eq!(decode(stream.chunks(cut), 1 << 20), (expected, None));
    }
}
