use proptest::prelude::*;
use tidings_wire::{Frame, FrameKind, FrameLimits, RawId, error_response, notification, request, response};

use crate::generate::{Range, json};

fn parse(bytes: bytes::Bytes) -> Frame {
    Frame::parse(bytes, &FrameLimits::default()).unwrap()
}

#[test]
fn an_error_without_a_known_id_says_null() {
    let bytes = error_response(None, -32700, "no \"JSON\"\n", None);
    assert_eq!(bytes, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no \"JSON\"\n"}}"#);
    assert_eq!(parse(bytes).kind(), FrameKind::Error);
}

#[test]
fn messages_without_params_have_none() {
    assert_eq!(notification("m", None), r#"{"jsonrpc":"2.0","method":"m"}"#);
    assert_eq!(request(&RawId::from(1), "m", None), r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#);
}

proptest! {
    #[test]
    fn what_is_composed_is_a_message(value in json(Range::Grammar), method: String, code: i64, number: u64) {
        let id = RawId::from(number);
        let raw = value.trim_matches([' ', '\t', '\r', '\n']).as_bytes();

        // A member that stands twice is refused, whoever composes it.
        prop_assume!(Frame::parse(response(&id, value.as_bytes()), &FrameLimits::default()).is_ok());
        let answer = parse(response(&id, value.as_bytes()));
        prop_assert_eq!((answer.kind(), answer.id()), (FrameKind::Response, Some(id.clone())));
        prop_assert_eq!(answer.raw(answer.outcome().unwrap()), raw);

        let error = parse(error_response(Some(&id), code, &method, Some(value.as_bytes())));
        prop_assert_eq!((error.kind(), error.id()), (FrameKind::Error, Some(id.clone())));

        let params = [br#"{"value":"#, raw, b"}"].concat();
        let call = parse(request(&id, &method, Some(&params)));
        prop_assert_eq!((call.kind(), call.id()), (FrameKind::Request, Some(id)));
        prop_assert_eq!(call.method(), method.as_str());
        prop_assert_eq!(call.raw(call.params().unwrap()), &params);

        let notice = parse(notification(&method, Some(&params)));
        prop_assert_eq!((notice.kind(), notice.id()), (FrameKind::Notification, None));
    }
}
