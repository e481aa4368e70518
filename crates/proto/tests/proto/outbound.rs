//! Requests on their way to a server.

use serde_json::{Value, json as value};
use tidings_proto::outbound::{
    RequestChanges, RequestDestination, RequestTarget, RequestingClient, StateChange, translate,
};
use tidings_proto::{Era, LogLevel, Method, Revision, SkillMethod, TraceContext};

use crate::{frame, json};

const META: &str = "io.modelcontextprotocol";

/// What the server gets for these params.
fn params(from: Era, to: Revision, method: Method, params: &str, state: StateChange<'_>) -> Value {
    let request =
        frame(&format!(r#"{{"jsonrpc":"2.0","id":"mine","method":"{}","params":{params}}}"#, method.as_str()));
    let requester = RequestingClient {
        era: from,
        info: (from == Era::Legacy).then_some(br#"{"name":"c"}"#),
        capabilities: b"{}",
        log_level: (from == Era::Legacy).then_some(LogLevel::Info),
        alone: false,
    };
    let target = RequestTarget { member: "name", in_ref: false, local: tidings_proto::LocalName::new("local") };
    let (to, changes) =
        (RequestDestination { revision: to, id: 77 }, RequestChanges { state, ..RequestChanges::default() });
    let bytes = translate(&request, method, Some(&target), &requester, to, changes);
    let message = json(bytes);
    assert_eq!((&message["id"], &message["method"]), (&value!(77), &value!(method.as_str())));
    message["params"].clone()
}

fn authored() -> Value {
    value!({
        format!("{META}/protocolVersion"): "2026-07-28",
        format!("{META}/clientCapabilities"): {},
        format!("{META}/clientInfo"): {"name": "c"},
        format!("{META}/logLevel"): "info",
    })
}

fn modern_meta(extra: &str) -> String {
    format!(
        r#"{{"{META}/protocolVersion":"2026-07-28","{META}/clientCapabilities":{{"sampling":{{}},"extensions":{{"x":{{}}}},"experimental":{{}}}}{extra}}}"#
    )
}

#[test]
fn between_legacy_peers_only_id_name_and_token_change() {
    let request = frame(
        r#"{ "jsonrpc":"2.0", "id":1, "method":"tools/call", "params":{"name":"up__t" , "arguments":{"n":1.0e2},"x":null,"_meta":{"progressToken":"p","v/k":[1]}} }"#,
    );
    let requester =
        RequestingClient { era: Era::Legacy, info: None, capabilities: b"{}", log_level: None, alone: false };
    let target = RequestTarget { member: "name", in_ref: false, local: tidings_proto::LocalName::new("t") };
    let to = RequestDestination { revision: Revision::V2025_06_18, id: 9 };
    let bytes = translate(&request, Method::ToolsCall, Some(&target), &requester, to, RequestChanges::default());
    assert_eq!(
        std::str::from_utf8(&bytes).unwrap(),
        r#"{ "jsonrpc":"2.0", "id":9, "method":"tools/call", "params":{"name":"t" , "arguments":{"n":1.0e2},"x":null,"_meta":{"progressToken":9,"v/k":[1]}} }"#
    );
}

// bridging A3 (`_meta` in)
#[test]
fn meta_is_what_the_servers_era_expects() {
    let (legacy, modern) = (Revision::LATEST_LEGACY, Revision::MODERN);
    let reserved = format!(r#"{{"name":"x","_meta":{{"{META}/related-task":{{}},"trace":1,"progressToken":"a"}}}}"#);
    let mut to_modern = authored();
    (to_modern["trace"], to_modern["progressToken"]) = (value!(1), value!(77));
    for (from, to, given, expected) in [
        (Era::Legacy, legacy, r#"{"name":"x"}"#.to_owned(), value!({"name": "local"})),
        (Era::Legacy, legacy, reserved.clone(), value!({"name": "local", "_meta": {"trace": 1, "progressToken": 77}})),
        (Era::Legacy, modern, r#"{"name":"x"}"#.to_owned(), value!({"name": "local", "_meta": authored()})),
        (Era::Legacy, modern, reserved, value!({"name": "local", "_meta": to_modern})),
        (
            Era::Modern,
            legacy,
            format!(r#"{{"name":"x","_meta":{}}}"#, modern_meta(r#","v":2"#)),
            value!({"name": "local", "_meta": {"v": 2}}),
        ),
        (
            Era::Modern,
            modern,
            format!(r#"{{"name":"x","_meta":{}}}"#, modern_meta(r#","v":2,"progressToken":1"#)),
            value!({"name": "local", "_meta": {
                format!("{META}/protocolVersion"): "2026-07-28",
                format!("{META}/clientCapabilities"): {"sampling": {}},
                "v": 2,
                "progressToken": 77,
            }}),
        ),
    ] {
        assert_eq!(
            params(from, to, Method::ToolsCall, &given, StateChange::Keep),
            expected,
            "{from:?} to {to}: {given}"
        );
    }
}

// bridging B6
#[test]
fn the_state_of_a_retry_goes_to_modern_servers_only() {
    let given = format!(r#"{{"name":"x","requestState":"sealed","inputResponses":{{}},"_meta":{}}}"#, modern_meta(""));
    let cases = [
        (Revision::MODERN, StateChange::Set("inner"), Some("inner"), true),
        (Revision::MODERN, StateChange::Remove, None, true),
        (Revision::LATEST_LEGACY, StateChange::Set("inner"), None, false),
    ];
    for (to, state, expected, responses) in cases {
        let got = params(Era::Modern, to, Method::ToolsCall, &given, state);
        assert_eq!(got.get("requestState").and_then(Value::as_str), expected, "{to}");
        assert_eq!(got.get("inputResponses").is_some(), responses, "{to}");
    }
}

// reach 4
#[test]
fn a_page_of_several_servers_is_asked_for_with_the_servers_own_cursor() {
    let request = frame(r#"{"jsonrpc":"2.0","id":1,"method":"skills/list","params":{"cursor":"c1.x"}}"#);
    let requester =
        RequestingClient { era: Era::Legacy, info: None, capabilities: b"{}", log_level: None, alone: false };
    let changes = [
        (StateChange::Keep, value!("c1.x")),
        (StateChange::Set("a\"b"), value!("a\"b")),
        (StateChange::Set(""), value!("")),
        (StateChange::Remove, Value::Null),
    ];
    for ((cursor, sent), revision) in changes
        .into_iter()
        .flat_map(|change| [Revision::MODERN, Revision::LATEST_LEGACY].map(|revision| (change.clone(), revision)))
    {
        let changes = RequestChanges { cursor, ..RequestChanges::default() };
        let to = RequestDestination { revision, id: 9 };
        let got = json(translate(&request, Method::Skills(SkillMethod::List), None, &requester, to, changes));
        assert_eq!(got["params"]["cursor"], sent, "{revision}");
    }
}

// bridging B6
#[test]
fn a_later_round_for_a_legacy_client_carries_state_and_answers() {
    let request = frame(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}"#);
    let requester =
        RequestingClient { era: Era::Legacy, info: None, capabilities: b"{}", log_level: None, alone: false };
    let changes = RequestChanges {
        state: StateChange::Set("s\"1"),
        responses: Some(br#"{"k":{"action":"cancel"}}"#),
        ..RequestChanges::default()
    };
    for (revision, carried) in [(Revision::MODERN, true), (Revision::LATEST_LEGACY, false)] {
        let to = RequestDestination { revision, id: 9 };
        let got = json(translate(&request, Method::ToolsCall, None, &requester, to, changes));
        assert_eq!(got["params"]["requestState"], if carried { value!("s\"1") } else { Value::Null });
        assert_eq!(
            got["params"]["inputResponses"],
            if carried { value!({"k": {"action": "cancel"}}) } else { Value::Null }
        );
    }
}

#[test]
fn a_completion_goes_without_context_to_servers_that_do_not_know_it() {
    let given = r#"{"name":"x","ref":{"type":"ref/prompt","name":"p"},"context":{"arguments":{}},"task":{}}"#;
    for revision in Revision::ALL {
        let got = params(Era::Legacy, revision, Method::Complete, given, StateChange::Keep);
        assert_eq!(got.get("context").is_some(), revision >= Revision::V2025_06_18, "{revision}");
        assert_eq!(got.get("task"), None);
    }
}

#[test]
fn what_a_reference_names_is_renamed_inside_it() {
    let request = frame(
        r#"{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/resource","uri":"up+f://{x}"},"uri":"up+other"}}"#,
    );
    let requester =
        RequestingClient { era: Era::Legacy, info: None, capabilities: b"{}", log_level: None, alone: false };
    let target = RequestTarget { member: "uri", in_ref: true, local: tidings_proto::LocalName::new("f://{x}") };
    let to = RequestDestination { revision: Revision::LATEST_LEGACY, id: 2 };
    let got = json(translate(&request, Method::Complete, Some(&target), &requester, to, RequestChanges::default()));
    assert_eq!(got["params"]["ref"]["uri"], "f://{x}");
    assert_eq!(got["params"]["uri"], "up+other");
}

/// Two readers of a repeated key could otherwise see two names.
#[test]
fn a_repeated_name_in_a_reference_is_left_once() {
    let got = frame(
        r#"{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"name":"up__a","name":"up__b"}}}"#,
    );
    let requester =
        RequestingClient { era: Era::Legacy, info: None, capabilities: b"{}", log_level: None, alone: false };
    let target = RequestTarget { member: "name", in_ref: true, local: tidings_proto::LocalName::new("b") };
    let to = RequestDestination { revision: Revision::LATEST_LEGACY, id: 2 };
    let bytes = translate(&got, Method::Complete, Some(&target), &requester, to, RequestChanges::default());
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    assert_eq!(text.matches("\"name\"").count(), 1, "{text}");
    assert_eq!(json(&text)["params"]["ref"]["name"], "b");
}

#[test]
fn a_modern_server_gets_meta_even_when_there_are_no_params() {
    let request = frame(r#"{"jsonrpc":"2.0","method":"tools/list","id":"a"}"#);
    let requester = RequestingClient {
        era: Era::Legacy,
        info: None,
        capabilities: br#"{"roots":{}}"#,
        log_level: None,
        alone: false,
    };
    let method = Method::List(tidings_proto::ListKind::Tools);
    let to = |revision| RequestDestination { revision, id: 5 };
    let got = json(translate(&request, method, None, &requester, to(Revision::MODERN), RequestChanges::default()));
    assert_eq!(got["params"]["_meta"][format!("{META}/clientCapabilities")], value!({"roots": {}}));
    let legacy =
        json(translate(&request, method, None, &requester, to(Revision::LATEST_LEGACY), RequestChanges::default()));
    assert_eq!(legacy, value!({"jsonrpc": "2.0", "method": "tools/list", "id": 5}));
}

// reach 7
#[test]
fn a_span_of_the_gateway_takes_the_place_of_the_clients() {
    let ours = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let trace = TraceContext::read(Some(ours), Some("v=1")).unwrap();
    let stateless = TraceContext { state: None, ..trace };
    let requester =
        RequestingClient { era: Era::Legacy, info: None, capabilities: b"{}", log_level: None, alone: false };
    let sent = |text: &str, revision, trace: Option<&TraceContext>| {
        let changes = RequestChanges { trace, ..RequestChanges::default() };
        let to = RequestDestination { revision, id: 5 };
        json(translate(&frame(text), Method::ToolsCall, None, &requester, to, changes))["params"].clone()
    };
    let (legacy, modern) = (Revision::LATEST_LEGACY, Revision::MODERN);
    let theirs = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":{"traceparent":"x","tracestate":"old=1","baggage":"b=1"}}}"#;
    for revision in [legacy, modern] {
        let meta = sent(theirs, revision, Some(&trace))["_meta"].clone();
        assert_eq!((&meta["traceparent"], &meta["tracestate"]), (&value!(ours), &value!("v=1")));
        assert_eq!(meta["baggage"], "b=1");
        assert_eq!(sent(theirs, revision, Some(&stateless))["_meta"].get("tracestate"), None, "of another trace");
    }
    let untouched = value!({"traceparent": "x", "tracestate": "old=1", "baggage": "b=1"});
    assert_eq!(sent(theirs, legacy, None)["_meta"], untouched);
    let bare = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}"#;
    assert_eq!(sent(bare, legacy, Some(&stateless)), value!({"name": "t", "_meta": {"traceparent": ours}}));
    assert_eq!(sent(bare, modern, Some(&trace))["_meta"]["tracestate"], "v=1");
    let without = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#;
    assert_eq!(sent(without, legacy, Some(&stateless)), value!({"_meta": {"traceparent": ours}}));
    assert_eq!(sent(without, modern, Some(&trace))["_meta"]["traceparent"], ours);
}
