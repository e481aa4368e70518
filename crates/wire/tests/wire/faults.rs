use bytes::Bytes;
use tidings_wire::{Frame, FrameError, FrameFault, FrameLimits, IncomingMessage, ScanError};

fn fault_of(bytes: impl Into<Bytes>) -> FrameError {
    let bytes = bytes.into();
    let error = Frame::parse(bytes.clone(), &FrameLimits::default()).unwrap_err();
    if !bytes.starts_with(b"[") {
        assert_eq!(IncomingMessage::parse(bytes, &FrameLimits::default()).unwrap_err(), error);
    }
    error
}

/// The fault, and the id that came with it.
fn fault_and_id(text: &str) -> (FrameFault, Option<String>) {
    let error = fault_of(text.to_owned());
    (error.fault, error.id.map(|id| id.to_string()))
}

#[test]
fn json_that_is_no_message_has_its_own_fault_and_keeps_the_id() {
    let id = Some("\"7\"".to_owned());
    for (text, fault) in [
        (r#"{"id":"7","method":"m"}"#, FrameFault::Version),
        (r#"{"jsonrpc":2.0,"id":"7","method":"m"}"#, FrameFault::Version),
        (r#"{"jsonrpc":"1.0","id":"7","method":"m"}"#, FrameFault::Version),
        (r#"{"jsonrpc":"2.0","id":"7","method":null}"#, FrameFault::Method),
        (r#"{"jsonrpc":"2.0","id":"7","method":"\ud800"}"#, FrameFault::Method),
        (r#"{"jsonrpc":"2.0","id":"7","method":"\udc00\ud800"}"#, FrameFault::Method),
        (r#"{"jsonrpc":"2.0","id":"7","method":"m","params":"p"}"#, FrameFault::Params),
        (r#"{"jsonrpc":"2.0","id":"7","method":"m","params":[]}"#, FrameFault::Params),
        (r#"{"jsonrpc":"2.0","id":"7"}"#, FrameFault::Shape),
        (r#"{"jsonrpc":"2.0","id":"7","method":"m","result":1}"#, FrameFault::Shape),
        (r#"{"jsonrpc":"2.0","id":"7","result":1,"error":{}}"#, FrameFault::Shape),
        (r#"{"jsonrpc":"2.0","id":"7","error":"e"}"#, FrameFault::Shape),
    ] {
        assert_eq!(fault_and_id(text), (fault.clone(), id.clone()), "{text}");
        assert!(!fault.is_parse_error());
    }
}

#[test]
fn an_id_that_is_no_id_can_not_be_answered() {
    for raw in ["null", "true", "{}", "[]"] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{raw},"method":"m"}}"#);
        assert_eq!(fault_and_id(&text), (FrameFault::Id, None), "{raw}");
    }
    assert_eq!(fault_and_id(r#"{"jsonrpc":"2.0","id":{},"result":1}"#), (FrameFault::Id, None));
    assert_eq!(fault_and_id(r#"{"jsonrpc":"2.0","id":null,"result":1}"#), (FrameFault::Shape, None));
    assert_eq!(fault_and_id(r#"{"jsonrpc":"2.0","result":1}"#), (FrameFault::Shape, None));
}

#[test]
fn a_repeated_envelope_member_is_named() {
    let values = [("jsonrpc", "\"2.0\""), ("method", "\"m\""), ("params", "{}"), ("result", "1"), ("error", "{}")];
    for (name, value) in values {
        let text = format!(r#"{{"{name}":{value},"jsonrpc":"2.0","id":7,"method":"m","{name}":{value}}}"#);
        assert_eq!(fault_and_id(&text), (FrameFault::DuplicateMember(name.into()), Some("7".into())), "{text}");
    }
}

#[test]
fn a_repeated_id_answers_nobody() {
    for text in [
        r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}"#,
        r#"{"jsonrpc":"2.0","id":1,"\u0069d":1,"method":"m"}"#,
        r#"{"jsonrpc":"2.0","i\u0064":1,"\u0069\u0064":2,"method":"m"}"#,
        r#"{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"id":2,"method":"m"}"#,
    ] {
        assert_eq!(fault_and_id(text), (FrameFault::DuplicateMember("id".into()), None), "{text}");
    }
}

// edges G1
#[test]
fn a_member_that_stands_twice_where_the_protocol_looks_is_named() {
    let many: String = (0..20).map(|i| format!("\"m{i}\":{i},")).collect();
    for (rest, name) in [
        (r#""method":"m","params":{"a":1,"\u0061":2}"#.to_owned(), "a"),
        (r#""method":"m","params":{"_meta":{"k":1},"_meta":{}}"#.to_owned(), "_meta"),
        (r#""method":"m","params":{"_meta":{"k":1,"k":2}}"#.to_owned(), "k"),
        (r#""method":"m","params":{"\u005fmeta":{"k":1,"k":2}}"#.to_owned(), "k"),
        (format!(r#""method":"m","params":{{{many}"m7":1}}"#), "m7"),
        (r#""result":{"content":[],"content":[]}"#.to_owned(), "content"),
        (r#""error":{"code":1,"message":"","code":2}"#.to_owned(), "code"),
        (r#""params":{},"result":{"content":[],"content":[]}"#.to_owned(), "content"),
        (r#""method":"m","x":1,"x":1"#.to_owned(), "x"),
    ] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":7,{rest}}}"#);
        assert_eq!(fault_and_id(&text), (FrameFault::DuplicateMember(name.into()), Some("7".into())), "{text}");
    }
    // What lies deeper is the business of whoever it is for.
    let deeper = r#"{"jsonrpc":"2.0","id":7,"method":"m","params":{"arguments":{"a":1,"a":2}}}"#;
    assert!(Frame::parse(deeper, &FrameLimits::default()).is_ok());
}

#[test]
fn an_escaped_spelling_hides_no_second_method() {
    let text = r#"{"jsonrpc":"2.0","id":1,"method":"a","\u006Dethod":"b"}"#;
    assert_eq!(fault_and_id(text), (FrameFault::DuplicateMember("method".into()), Some("1".into())));
}

#[test]
fn what_is_not_json_is_a_parse_error_even_after_a_repeated_member() {
    let (fault, id) = fault_and_id(r#"{"jsonrpc":"2.0","id":1,"method":"a","method":"b",}"#);
    assert!(matches!(fault, FrameFault::Json(ScanError::Syntax { .. })), "{fault}");
    assert_eq!(id, None);
}

#[test]
fn text_that_is_not_json_is_told_from_text_that_ends_early() {
    for text in [
        "{\"jsonrpc\":\"2.0\",\"method\":\"m\"}x",
        "{\"jsonrpc\":\"2.0\",\"method\":\"m\"}{}",
        "\u{feff}{}",
        "{'a':1}",
        "\x0c{}",
    ] {
        let (fault, id) = fault_and_id(text);
        assert!(matches!(fault, FrameFault::Json(ScanError::Syntax { .. })), "{text}: {fault}");
        assert!(fault.is_parse_error() && id.is_none());
    }
    for text in ["", " \n", "{", "{\"id\":1", "{\"id\":1,"] {
        assert_eq!(fault_and_id(text), (FrameFault::Json(ScanError::Truncated), None), "{text}");
    }
}

#[test]
fn invalid_utf_8_is_refused_with_its_place() {
    let error = fault_of(Bytes::from_static(b"{\"a\":\"\xff\"}"));
    assert_eq!(error.fault, FrameFault::Utf8 { valid: 6 });
    // A surrogate, written as bytes, and an over-long slash.
    assert!(matches!(fault_of(Bytes::from_static(b"{\"a\":\"\xed\xa0\x80\"}")).fault, FrameFault::Utf8 { .. }));
    assert!(matches!(fault_of(Bytes::from_static(b"{\"a\":\"\xc0\xaf\"}")).fault, FrameFault::Utf8 { .. }));
    assert!(error.fault.is_parse_error());
}

#[test]
fn a_message_may_be_as_long_as_the_limit_and_no_longer() {
    let text = r#"{"jsonrpc":"2.0","method":"m"}"#;
    let limits = |max_bytes| FrameLimits { max_bytes, ..FrameLimits::default() };
    assert!(Frame::parse(text, &limits(text.len())).is_ok());
    let fault = Frame::parse(text, &limits(text.len() - 1)).unwrap_err().fault;
    assert_eq!(fault, FrameFault::TooLong { len: text.len(), limit: text.len() - 1 });
    assert!(fault.is_parse_error());
}

#[test]
fn a_message_too_deep_is_refused_with_the_id_that_stood_before() {
    let deep = format!("{}{}", "[".repeat(300), "]".repeat(300));
    let too_deep = FrameFault::Json(ScanError::TooDeep { limit: 256 });
    let before = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"m","params":{deep}}}"#);
    assert_eq!(fault_and_id(&before), (too_deep.clone(), Some("7".into())));
    let after = format!(r#"{{"jsonrpc":"2.0","method":"m","params":{deep},"id":7}}"#);
    assert_eq!(fault_and_id(&after), (too_deep.clone(), None));
    let twice = format!(r#"{{"jsonrpc":"2.0","id":7,"id":8,"params":{deep}}}"#);
    assert_eq!(fault_and_id(&twice), (too_deep, None));
}

#[test]
fn the_envelope_itself_is_one_level() {
    let text = r#"{"jsonrpc":"2.0","method":"m","params":{"a":[]}}"#;
    let limits = |max_depth| FrameLimits { max_depth, ..FrameLimits::default() };
    assert!(Frame::parse(text, &limits(3)).is_ok());
    assert!(Frame::parse(text, &limits(2)).is_err());
}

#[test]
fn scalars_and_arrays_are_no_single_message() {
    for text in ["1", "null", "\"{}\"", "[]", "[{}]"] {
        assert_eq!(fault_of(text).fault, FrameFault::NotAnObject, "{text}");
    }
}

#[test]
fn a_batch_is_neither_empty_nor_longer_than_the_limit() {
    let batch = |n: usize| Bytes::from(format!("[{}]", vec!["{}"; n].join(",")));
    let limits = FrameLimits { max_batch: 3, ..FrameLimits::default() };
    assert!(IncomingMessage::parse(batch(3), &limits).is_ok());
    let fault = |n| IncomingMessage::parse(batch(n), &limits).unwrap_err().fault;
    assert_eq!(fault(4), FrameFault::BatchTooLong { limit: 3 });
    assert_eq!(fault(0), FrameFault::EmptyBatch);
    assert!(!fault(0).is_parse_error() && !fault(4).is_parse_error());
}

#[test]
fn a_batch_that_is_not_json_fails_as_a_whole() {
    let text = r#"[{"jsonrpc":"2.0","method":"m"},{]"#;
    let error = IncomingMessage::parse(Bytes::from_static(text.as_bytes()), &FrameLimits::default()).unwrap_err();
    assert!(matches!(error.fault, FrameFault::Json(ScanError::Syntax { .. })));
}

#[test]
fn faults_explain_themselves_differently() {
    let faults = [
        FrameFault::Json(ScanError::Syntax { at: 3 }),
        FrameFault::Json(ScanError::Truncated),
        FrameFault::Json(ScanError::TooDeep { limit: 3 }),
        FrameFault::Utf8 { valid: 3 },
        FrameFault::TooLong { len: 4, limit: 3 },
        FrameFault::BatchTooLong { limit: 3 },
        FrameFault::EmptyBatch,
        FrameFault::NotAnObject,
        FrameFault::DuplicateMember("id".into()),
        FrameFault::Version,
        FrameFault::Id,
        FrameFault::Method,
        FrameFault::Params,
        FrameFault::Shape,
    ];
    let texts: std::collections::HashSet<_> = faults.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), faults.len());
}
