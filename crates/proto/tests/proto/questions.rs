//! Questions of servers, in the words of each era and revision.

use proptest::prelude::*;
use serde_json::{Value, json as value};
use tidings_proto::Revision;
use tidings_proto::question::{
    Abilities, ELICIT, InputAnswer, InputRequest, Needs, ROOTS, SAMPLE, Unable, answer_to_input, answer_to_server,
    declared_to_modern, from_input_request, input_required, refusal, to_input_request, to_session,
};
use tidings_wire::RawId;

use crate::{frame, json};

const R1: Revision = Revision::V2024_11_05;
const R3: Revision = Revision::V2025_06_18;
const R4: Revision = Revision::V2025_11_25;

fn ask(method: &str, params: &Value) -> tidings_wire::Frame {
    frame(&value!({"jsonrpc": "2.0", "id": "q", "method": method, "params": params}).to_string())
}

fn form(properties: &Value) -> Value {
    value!({"message": "m", "requestedSchema": {"type": "object", "properties": properties}})
}

fn entry(method: &str, params: &Value) -> Vec<u8> {
    value!({"method": method, "params": params}).to_string().into_bytes()
}

fn questions() -> impl Strategy<Value = (&'static str, Value)> {
    let text = "[a-z \"\\\\]{0,12}";
    prop_oneof![
        (text, text).prop_map(|(message, field)| {
            (
                ELICIT,
                value!({"message": message, "requestedSchema":
                {"type": "object", "properties": {field: {"type": "string"}}}}),
            )
        }),
        text.prop_map(|message| (ELICIT, value!({"message": message, "mode": "url", "url": "https://x.example/"}))),
        (text, any::<bool>()).prop_map(|(text, tools)| {
            let mut params = value!({"messages": [{"role": "user", "content": {"type": "text", "text": text}}],
                "maxTokens": 5});
            if tools {
                params["tools"] = value!([{"name": "t", "inputSchema": {"type": "object"}}]);
            }
            (SAMPLE, params)
        }),
        Just((ROOTS, value!({}))),
    ]
}

proptest! {
    // bridging B6
    #[test]
    fn a_question_survives_the_way_there_and_back((method, params) in questions(), shown in 1_u64..1_000) {
        // From a legacy server into `inputRequests`, and from there to a session of another gateway.
        let there = to_input_request(&ask(method, &params), None).unwrap();
        prop_assert_eq!(json(&there), value!({"method": method, "params": params}));
        let back = json(from_input_request(&there, shown, R4, None, "e1").unwrap());
        let mut expected = value!({"jsonrpc": "2.0", "id": shown, "method": method, "params": params});
        if params.get("url").is_some() {
            expected["params"]["elicitationId"] = value!("e1");
        }
        prop_assert_eq!(&back, &expected);
        // And the id of a URL is gone again where the modern era has none.
        prop_assert_eq!(to_input_request(&frame(&back.to_string()), None), Some(there));
    }

    // bridging B6
    #[test]
    fn an_answer_survives_or_is_a_refusal(method in prop_oneof![Just(ELICIT), Just(SAMPLE), Just(ROOTS)], good in any::<bool>()) {
        let given = match (method, good) {
            (_, false) => value!({"odd": 1}),
            (ELICIT, _) => value!({"action": "accept", "content": {"a": [1, "x"]}}),
            (SAMPLE, _) => value!({"role": "assistant", "model": "m", "content": {"type": "text", "text": ""}}),
            _ => value!({"roots": [{"uri": "file:///a"}]}),
        };
        let id = RawId::from_raw(b"\"s\"").unwrap();
        let to_server = json(answer_to_server(&id, given.to_string().as_bytes(), method));
        let of_session = answer_to_input(&frame(&value!({"jsonrpc": "2.0", "id": 1, "result": given}).to_string()), method);
        if good {
            prop_assert_eq!(to_server, value!({"jsonrpc": "2.0", "id": "s", "result": given}));
            prop_assert_eq!(of_session, InputAnswer::Result(given.to_string().into()));
        } else {
            prop_assert_eq!(to_server, json(refusal(&id, method, None)));
            prop_assert_eq!(matches!(of_session, InputAnswer::Cancelled), method == ELICIT);
            prop_assert_eq!(matches!(of_session, InputAnswer::Fatal(_)), method != ELICIT);
        }
    }
}

#[test]
fn a_clients_error_cancels_a_form_and_ends_anything_else() {
    let error = frame(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"user rejected"}}"#);
    assert_eq!(answer_to_input(&error, ELICIT), InputAnswer::Cancelled);
    for method in [SAMPLE, ROOTS] {
        let InputAnswer::Fatal(reason) = answer_to_input(&error, method) else { panic!("{method}") };
        assert!(reason.contains("user rejected"), "{reason}");
    }
}

// bridging B6, "Conversions"
#[test]
fn titled_choices_are_spelled_for_each_revision() {
    let titled = value!([{"const": "r", "title": "Red"}, {"const": "g"}]);
    let early = value!({"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "g"]});
    for spelling in ["oneOf", "anyOf"] {
        let asked = ask(ELICIT, &form(&value!({"c": {"type": "string", spelling: titled}})));
        let shown = |revision| json(to_session(&asked, 1, revision, None).unwrap());
        assert_eq!(shown(R3)["params"]["requestedSchema"]["properties"]["c"], early, "{spelling}");
        assert_eq!(
            shown(R4)["params"]["requestedSchema"]["properties"]["c"],
            value!({"type": "string", spelling: titled})
        );
    }
    let with_mode = value!({"message": "m", "mode": "form", "requestedSchema": {"type": "object", "properties": {}}});
    let mode = |revision| {
        json(from_input_request(&entry(ELICIT, &with_mode), 1, revision, None, "e").unwrap())["params"]
            .get("mode")
            .cloned()
    };
    assert_eq!((mode(R3), mode(R4)), (None, Some(value!("form"))));
}

// bridging D
#[test]
fn what_a_revision_can_not_say_is_refused_with_its_capability() {
    let several = form(&value!({"c": {"type": "array", "items": {"enum": ["a"]}}}));
    let url = value!({"message": "m", "mode": "url", "url": "https://x.example/"});
    let lacks = |revision, params: &Value| {
        from_input_request(&entry(ELICIT, params), 1, revision, None, "e").err().map(|unable| unable.capability)
    };
    assert_eq!(lacks(R3, &several), Some("elicitation.form with a choice of several (2025-11-25)"));
    assert_eq!(lacks(R3, &url), Some("elicitation.url"));
    assert_eq!(lacks(R1, &form(&value!({}))), Some("elicitation.form"));
    assert_eq!((lacks(R4, &several), lacks(R4, &url)), (None, None));
    assert!(to_session(&ask(ELICIT, &several), 1, R3, None).is_err());
    let able = Abilities::read(&value!({"sampling": {}, "elicitation": {"url": {}}}), R4);
    let lacks = |needs| able.allow(needs).err().map(|unable: Unable| unable.capability);
    assert_eq!(lacks(Needs::Form), Some("elicitation.form"));
    assert_eq!(lacks(Needs::Url), None);
    assert_eq!(lacks(Needs::Sampling { tools: true }), Some("sampling.tools"));
    assert_eq!(lacks(Needs::Sampling { tools: false }), None);
    assert_eq!(lacks(Needs::Roots), Some("roots"));
    assert!(from_input_request(&entry("tasks/get", &value!({})), 1, R4, None, "e").is_err());
}

// bridging B6, "Conversions"
#[test]
fn include_context_never_leaves() {
    let params = value!({"messages": [], "maxTokens": 1, "includeContext": "allServers", "task": {},
        "_meta": {"progressToken": 7, "io.modelcontextprotocol/related-task": {}, "v": 1}});
    let asked = ask(SAMPLE, &params);
    assert_eq!(json(to_session(&asked, 1, R4, None).unwrap())["params"]["includeContext"], "none");
    let expected = value!({"messages": [], "maxTokens": 1, "includeContext": "none", "_meta": {"v": 1}});
    assert_eq!(json(to_input_request(&asked, None).unwrap())["params"], expected);
    let driven = from_input_request(&entry(SAMPLE, &params), 1, R3, None, "e").unwrap();
    assert_eq!(json(driven)["params"]["includeContext"], "none");
}

#[test]
fn a_form_says_who_asks() {
    let asked = ask(ELICIT, &form(&value!({})));
    assert_eq!(json(to_session(&asked, 1, R4, Some("up")).unwrap())["params"]["message"], "[up] m");
    assert_eq!(json(to_input_request(&asked, Some("up")).unwrap())["params"]["message"], "[up] m");
}

// bridging A3, "Client capabilities"
#[test]
fn a_sessions_capabilities_are_told_in_modern_words() {
    for (revision, declared, told) in [
        (R4, value!({}), value!({})),
        (R4, value!({"elicitation": {}}), value!({"elicitation": {"form": {}}})),
        (R4, value!({"elicitation": {"url": {}}}), value!({"elicitation": {"url": {}}})),
        (R3, value!({"elicitation": {"url": {}}}), value!({"elicitation": {"form": {}}})),
        (R1, value!({"elicitation": {}, "roots": {"listChanged": true}}), value!({"roots": {}})),
        (R4, value!({"sampling": {"context": {}, "tools": {}}}), value!({"sampling": {"tools": {}}})),
        (
            R4,
            value!({"experimental": {"a": {}}, "extensions": {"com.example/x": {}, "io.modelcontextprotocol/ui": {"m": 1}}}),
            value!({"extensions": {"io.modelcontextprotocol/ui": {"m": 1}}}),
        ),
    ] {
        assert_eq!(json(declared_to_modern(&declared, revision)), told, "{revision} {declared}");
    }
}

#[test]
fn input_required_is_read_in_its_order_and_with_its_state() {
    let given = r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","requestState":"s\"1","inputRequests":
        {"b":{"method":"roots/list"},"a":{"method":"elicitation/create","params":{"mode":"url"}}}}}"#;
    let read = input_required(&frame(given)).unwrap();
    assert_eq!(read.state.as_deref(), Some("s\"1"));
    let of = |request: &InputRequest| (request.key.to_string(), request.needs());
    let all: Vec<_> = read.requests.iter().map(of).collect();
    assert_eq!(all, [("b".into(), Needs::Roots), ("a".into(), Needs::Url)]);
    for other in [r#""result":{"resultType":"complete"}"#, r#""result":{}"#, r#""error":{"code":1,"message":""}"#] {
        assert_eq!(input_required(&frame(&format!(r#"{{"jsonrpc":"2.0","id":1,{other}}}"#))), None);
    }
}
