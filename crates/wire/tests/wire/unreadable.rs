use tidings_wire::{Frame, FrameLimits, unreadable_answer_id};

fn id(text: &[u8]) -> Option<String> {
    unreadable_answer_id(text).map(|id| id.to_string())
}

// edges A5, G5
#[test]
fn the_id_is_found_in_an_answer_that_can_not_be_read() {
    let deep = format!(r#"{{"result":{}1{},"id":17}}"#, "[".repeat(200_000), "]".repeat(200_000));
    for text in [
        &br#"{"jsonrpc":"2.0","id":17,"result":{"x":NaN}}"#[..],
        br#"{"result":{"x":NaN,"id":3},"jsonrpc":"2.0","id" : 17 }"#,
        b"{\"jsonrpc\":\"2.0\",\"result\":{\"x\":\"caf\xe9\"},\"id\":17}",
        br#"{"jsonrpc":"2.0","id":17,"resu"#,
        br#"{"jsonrpc":"2.0","id":17"#,
        br#"{"jsonrpc":"2.0","id":17,"result":{},"result":{}}"#,
        br#"{"id":17,"result":{"text":"\"id\":4 } {"},,}"#,
        deep.as_bytes(),
    ] {
        assert!(Frame::parse(text.to_vec(), &FrameLimits::default()).is_err());
        assert_eq!(id(text).as_deref(), Some("17"), "{}", String::from_utf8_lossy(&text[..text.len().min(80)]));
    }
    assert_eq!(id(br#"{"id":"17","x":NaN}"#).as_deref(), Some("\"17\""));
}

#[test]
fn nothing_is_found_where_there_is_nothing_or_more_than_one() {
    for text in [
        &b"<!DOCTYPE html>"[..],
        b"",
        b"{",
        br#"{"jsonrpc":"2.0","result":{"id":17}"#,
        br#"{"id":1,"id":2,"x":NaN}"#,
        br#"{"id":null,"x":NaN}"#,
        br#"{"id":{},"x":NaN}"#,
        br#"{"id":17,"method":"ping","x":NaN}"#,
        br#"["id":17]"#.get(..4).unwrap_or_default(),
        br#"{"id":"17"#,
        br#"{"text\"#,
    ] {
        assert_eq!(id(text), None, "{}", String::from_utf8_lossy(text));
    }
}
