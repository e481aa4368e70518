//! Answers on their way to a client.

use serde_json::{Value, json as value};
use tidings_proto::content::ContentView;
use tidings_proto::outcome::{AnswerReader, translate};
use tidings_proto::{Era, FieldView, Method, Revision, SkillMethod, UriMap};
use tidings_wire::RawId;

use crate::{frame, json};

use Era::{Legacy as L, Modern as M};

const META: &str = "io.modelcontextprotocol";

struct Case {
    method: Method,
    from: Era,
    to: Revision,
    uris: UriMap,
    urls: bool,
    private: bool,
    identity: Option<&'static [u8]>,
}

fn case(method: Method, from: Era, to: Revision) -> Case {
    Case { method, from, to, uris: UriMap::Prefix("up".into()), urls: false, private: false, identity: None }
}

impl Case {
    fn run(&self, outcome: &str) -> (Value, Option<i64>) {
        let reader = AnswerReader {
            method: self.method,
            from: self.from,
            content: ContentView { uris: &self.uris, revision: self.to, view: FieldView::Strict },
            identity: self.identity,
            url_elicitation: self.urls,
            asker: self.identity.map(|_| "up"),
            private: self.private,
            verbatim: false,
            seal: &|inner| format!("sealed({inner})"),
            tasks: tidings_proto::outcome::TaskIds::Absent,
            part: None,
        };
        let id = RawId::from_raw(b"\"mine\"").unwrap();
        let answer = translate(&frame(&format!(r#"{{"jsonrpc":"2.0","id":77,{outcome}}}"#)), &id, &reader);
        let message = json(answer.payload.to_bytes());
        assert_eq!((&message["id"], &message["jsonrpc"]), (&value!("mine"), &value!("2.0")), "{message}");
        (message, answer.error)
    }

    fn result(&self, result: &str) -> Value {
        let (message, error) = self.run(&format!("\"result\":{result}"));
        assert_eq!(error, None, "{message}");
        message["result"].clone()
    }

    fn error_or_result(&self, error: &str) -> (Option<i64>, Value) {
        let (message, code) = self.run(&format!("\"error\":{error}"));
        (code, message)
    }

    /// The code, and the message or the text of a failed tool.
    fn error(&self, error: &str) -> (Option<i64>, Value) {
        let (message, code) = self.run(&format!("\"error\":{error}"));
        assert_eq!(message["error"]["code"].as_i64(), code, "{message}");
        (code, message)
    }
}

// bridging A3, "Errors"
#[test]
fn error_codes_by_era() {
    use Method::{PromptsGet as Prompt, ResourcesRead as Read, ToolsCall as Call};
    let (old, new) = (Revision::LATEST_LEGACY, Revision::MODERN);
    for (method, from, to, code, data, shown) in [
        (Read, L, old, -32002, r#"{"uri":"f://x"}"#, Some(-32002)),
        (Read, L, new, -32002, r#"{"uri":"f://x"}"#, Some(-32602)),
        (Read, M, old, -32602, r#"{"uri":"f://x"}"#, Some(-32002)),
        (Read, M, old, -32602, "{}", Some(-32602)),
        (Read, L, old, -32602, r#"{"uri":"f://x"}"#, Some(-32602)),
        (Read, M, new, -32602, r#"{"uri":"f://x"}"#, Some(-32602)),
        (Call, M, old, -32602, r#"{"uri":"f://x"}"#, Some(-32602)),
        (Call, M, old, -32020, "{}", Some(-32603)),
        (Call, M, new, -32020, "{}", Some(-32603)),
        (Call, M, new, -32022, "{}", Some(-32603)),
        (Call, M, new, -32021, "{}", Some(-32021)),
        (Call, M, old, -32021, "{}", None),
        (Prompt, M, old, -32021, "{}", Some(-32603)),
        (Call, L, old, -32042, "{}", None),
        (Call, L, new, -32042, "{}", None),
        (Prompt, L, old, -32042, "{}", Some(-32603)),
        (Call, L, old, -32007, "{}", Some(-32007)),
        (Call, L, new, -32019, "{}", Some(-32019)),
        (Call, L, new, -32601, "{}", Some(-32601)),
        (Call, L, old, 7, "{}", Some(7)),
    ] {
        let (got, message) =
            case(method, from, to).error(&format!(r#"{{"code":{code},"message":"why","data":{data}}}"#));
        assert_eq!(got, shown, "{method:?} {from:?} to {to}: {code} {data}");
        match got {
            Some(_) => assert_eq!(message["error"]["message"], "why"),
            None => {
                assert_eq!(message["result"]["isError"], true);
                assert_eq!(message["result"]["content"][0]["text"], "why");
                assert_eq!(message["result"].get("resultType").is_some(), to == new);
            }
        }
        if data.contains("uri") {
            assert_eq!(message["error"]["data"]["uri"], "up+f://x", "in the client's terms");
        }
    }
}

#[test]
fn a_url_to_visit_reaches_every_client_in_some_form() {
    let error = r#"{"code":-32042,"message":"visit","data":{"elicitations":[{"url":"https://a.example/1"}]}}"#;
    let able = Case { urls: true, ..case(Method::ToolsCall, L, Revision::LATEST_LEGACY) };
    let (code, message) = able.error(error);
    assert_eq!(code, Some(-32042));
    assert_eq!(message["error"]["data"]["elicitations"][0]["url"], "https://a.example/1");
    let (code, message) = case(Method::ToolsCall, L, Revision::V2025_06_18).error(error);
    assert_eq!(code, None);
    assert_eq!(message["result"]["content"][0]["text"], "visit\nhttps://a.example/1");
    // A modern client is asked, and its retry is a new call, so there is no state.
    let (code, message) = Case { urls: true, ..case(Method::ToolsCall, L, Revision::MODERN) }.error_or_result(error);
    let params = value!({"mode": "url", "url": "https://a.example/1", "message": "visit"});
    let asked = value!({"url-0": {"method": "elicitation/create", "params": params}});
    assert_eq!((code, &message["result"]), (None, &value!({"resultType": "input_required", "inputRequests": asked})));
    let (code, message) = case(Method::ToolsCall, L, Revision::MODERN).error(error);
    assert_eq!(code, Some(-32021));
    assert_eq!(message["error"]["data"], value!({"requiredCapabilities": {"elicitation": {"url": {}}}}));
    let (code, _) = Case { urls: true, ..case(Method::Complete, L, Revision::MODERN) }.error(error);
    assert_eq!(code, Some(-32603), "only three methods may ask");
}

// bridging B6: clients see only the gateway
#[test]
fn a_modern_client_of_several_servers_is_told_who_asks() {
    let given = r#"{"resultType":"input_required","requestState":"s","inputRequests":{
        "f":{"method":"elicitation/create","params":{"message":"m","requestedSchema":{}}},
        "s":{"method":"sampling/createMessage","params":{"messages":[],"includeContext":"allServers"}}}}"#;
    let several = Case { identity: Some(br#"{"name":"g"}"#), ..case(Method::ToolsCall, M, Revision::MODERN) };
    let shown = several.result(given);
    assert_eq!(shown["inputRequests"]["f"]["params"]["message"], "[up] m");
    assert_eq!(shown["inputRequests"]["s"]["params"]["includeContext"], "none");
    let alone = case(Method::ToolsCall, M, Revision::MODERN).result(given);
    assert_eq!(alone["inputRequests"], json(given)["inputRequests"]);
}

#[test]
fn an_error_without_a_code_is_the_servers_fault() {
    let (code, message) = case(Method::ToolsCall, L, Revision::LATEST_LEGACY).run(r#""error":{"message":"x"}"#);
    assert_eq!(message, Some(-32603));
    assert_eq!(code["error"]["code"], -32603);
}

// bridging A3, "resultType" and "Caching"
#[test]
fn result_types_and_cache_hints_are_for_modern_clients() {
    let (old, new) = (Revision::LATEST_LEGACY, Revision::MODERN);
    let read = Method::ResourcesRead;
    for (method, from, to, given, expected) in [
        (Method::ToolsCall, L, old, r#"{"v":1}"#, value!({"v": 1})),
        (Method::ToolsCall, L, new, r#"{"v":1}"#, value!({"v": 1, "resultType": "complete"})),
        (Method::ToolsCall, M, old, r#"{"v":1,"resultType":"complete"}"#, value!({"v": 1})),
        (Method::ToolsCall, M, new, r#"{"v":1}"#, value!({"v": 1, "resultType": "complete"})),
        (read, L, new, "{}", value!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private"})),
        (read, M, old, r#"{"resultType":"complete","ttlMs":5,"cacheScope":"public"}"#, value!({})),
        (
            read,
            M,
            new,
            r#"{"resultType":"complete","ttlMs":5,"cacheScope":"public"}"#,
            value!({"resultType": "complete", "ttlMs": 5, "cacheScope": "public"}),
        ),
        (Method::ToolsCall, L, old, r#"{"resultType":"odd"}"#, value!({"resultType": "odd"})),
    ] {
        assert_eq!(case(method, from, to).result(given), expected, "{method:?} {from:?} to {to}: {given}");
    }
    let (_, code) = case(Method::ToolsCall, M, new).run(r#""result":{"resultType":"odd"}"#);
    assert_eq!(code, Some(-32603));
}

// bridging B6
#[test]
fn questions_of_modern_servers_are_sealed_or_refused() {
    let given = r#"{"resultType":"input_required","requestState":"s","inputRequests":{}}"#;
    let sealed = case(Method::ToolsCall, M, Revision::MODERN).result(given);
    assert_eq!((&sealed["requestState"], &sealed["resultType"]), (&value!("sealed(s)"), &value!("input_required")));
    for (method, to) in [(Method::ToolsCall, Revision::LATEST_LEGACY), (Method::Complete, Revision::MODERN)] {
        let (_, code) = case(method, M, to).run(&format!("\"result\":{given}"));
        assert_eq!(code, Some(-32603), "{method:?} {to}");
    }
}

#[test]
fn meta_tells_who_answers_in_the_clients_terms() {
    let given = format!(r#"{{"_meta":{{"{META}/serverInfo":{{"name":"s"}},"{META}/subscriptionId":1,"v":2}}}}"#);
    let old = case(Method::ToolsCall, M, Revision::LATEST_LEGACY).result(&given);
    assert_eq!(old["_meta"], value!({"v": 2}));
    let plain = case(Method::ToolsCall, M, Revision::MODERN).result(&given);
    assert_eq!(plain["_meta"], value!({format!("{META}/serverInfo"): {"name": "s"}, "v": 2}));
    let ours = Case { identity: Some(br#"{"name":"g"}"#), ..case(Method::ToolsCall, M, Revision::MODERN) };
    let expected = value!({
        format!("{META}/serverInfo"): {"name": "g"}, "dev.tidings/upstreamInfo": {"name": "s"}, "v": 2,
    });
    assert_eq!(ours.result(&given)["_meta"], expected);
}

// bridging A3, "Views for old clients"
#[test]
fn content_that_a_client_does_not_know_becomes_something_it_knows() {
    use Revision::*;
    let audio = r#"{"type":"audio","data":"AA==","mimeType":"audio/wav"}"#;
    let link = r#"{"type":"resource_link","uri":"f://x","name":"n","icons":[]}"#;
    let embedded = r#"{"type":"resource","resource":{"uri":"f://x","text":"t"}}"#;
    let blob = value!({"type": "resource", "resource":
        {"uri": "audio:///content", "mimeType": "audio/wav", "blob": "AA=="}});
    let mapped = value!({"type": "resource_link", "uri": "up+f://x", "name": "n"});
    let mut iconed = mapped.clone();
    iconed["icons"] = value!([]);
    for (block, revision, shown) in [
        (audio, V2024_11_05, blob),
        (audio, V2025_03_26, json(audio)),
        (link, V2025_03_26, value!({"type": "text", "text": "n: up+f://x"})),
        (link, V2025_06_18, mapped),
        (link, V2025_11_25, iconed.clone()),
        (link, V2026_07_28, iconed),
        (embedded, V2024_11_05, value!({"type": "resource", "resource": {"uri": "up+f://x", "text": "t"}})),
    ] {
        let tool = case(Method::ToolsCall, L, revision).result(&format!(r#"{{"content":[{block}]}}"#));
        assert_eq!(tool["content"][0], shown, "{revision}: {block}");
        let message = format!(r#"{{"messages":[{{"role":"user","content":{block}}}]}}"#);
        let prompt = case(Method::PromptsGet, L, revision).result(&message);
        assert_eq!(prompt["messages"][0]["content"], shown, "{revision}: {block}");
    }
    let read = case(Method::ResourcesRead, L, V2024_11_05).result(r#"{"contents":[{"uri":"f://x","text":"f://x"}]}"#);
    assert_eq!(read["contents"][0], value!({"uri": "up+f://x", "text": "f://x"}), "text is never rewritten");
}

#[test]
fn structured_output_is_never_lost() {
    let text = |text: &str| value!({"type": "text", "text": text});
    let structured = r#"{"structuredContent":{"a":1},"content":[]}"#;
    let early = case(Method::ToolsCall, L, Revision::V2025_03_26);
    assert_eq!(early.result(structured), value!({"content": [text("{\"a\":1}")]}));
    assert_eq!(early.result(r#"{"structuredContent":{"a":1}}"#), value!({"content": [text("{\"a\":1}")]}));
    let with_text = r#"{"structuredContent":{"a":1},"content":[{"type":"text","text":"said"}]}"#;
    assert_eq!(early.result(with_text), value!({"content": [text("said")]}));
    let image = r#"{"structuredContent":{"a":1},"content":[{"type":"image","data":""}]}"#;
    assert_eq!(early.result(image)["content"], value!([text("{\"a\":1}"), {"type": "image", "data": ""}]));
    let later = case(Method::ToolsCall, L, Revision::V2025_06_18);
    assert_eq!(later.result(structured)["structuredContent"], value!({"a": 1}));
    assert_eq!(later.result(r#"{"structuredContent":[1],"content":[]}"#), value!({"content": [text("[1]")]}));
    let modern = case(Method::ToolsCall, M, Revision::MODERN);
    assert_eq!(modern.result(r#"{"structuredContent":[1],"content":[]}"#)["structuredContent"], value!([1]));
}

#[test]
fn nothing_is_touched_where_nothing_must_change() {
    let id = RawId::from_raw(b"1").unwrap();
    let reader = AnswerReader {
        method: Method::ToolsCall,
        from: L,
        content: ContentView { uris: &UriMap::Transparent, revision: Revision::LATEST_LEGACY, view: FieldView::Strict },
        identity: None,
        url_elicitation: false,
        asker: None,
        private: false,
        verbatim: false,
        seal: &|inner| inner.to_owned(),
        tasks: tidings_proto::outcome::TaskIds::Absent,
        part: None,
    };
    let text = r#"{ "result" : { "b":1e2,"a":"\u0041","content":[ ] }, "id": 77 ,"jsonrpc":"2.0"}"#;
    let answer = translate(&frame(text), &id, &reader);
    assert_eq!(answer.payload.to_bytes(), text.replace("77", "1"));
}

// bridging "Caching"
#[test]
fn what_clients_are_told_apart_for_is_kept_for_nobody_else() {
    let read = case(Method::ResourcesRead, M, Revision::MODERN);
    let public = r#"{"resultType":"complete","contents":[],"ttlMs":5,"cacheScope":"public"}"#;
    assert_eq!(read.result(public)["cacheScope"], "public");
    let apart = Case { private: true, ..read };
    assert_eq!(apart.result(public)["cacheScope"], "private");
    assert_eq!(apart.result(public)["ttlMs"], 5);
    let plain = r#"{"resultType":"complete","contents":[]}"#;
    assert_eq!(apart.result(plain).get("cacheScope"), None, "nothing is added");
}

// trust T7
#[test]
fn what_a_server_that_is_alone_answers_names_none_of_the_gateways_own_resources() {
    for (from, to) in
        [(L, Revision::V2025_11_25), (L, Revision::MODERN), (M, Revision::MODERN), (M, Revision::V2025_11_25)]
    {
        let bare = Case { uris: UriMap::Bare("up".into()), ..case(Method::ToolsCall, from, to) };
        for own in ["watch:x", "WATCH:x", r"w\u0061tch:x", r"watch\u003ax"] {
            let link =
                format!(r#""resultType":"complete","content":[{{"type":"resource_link","name":"n","uri":"{own}"}}]"#);
            let shown =
                bare.result(&format!("{{{link}}}"))["content"][0]["uri"].as_str().unwrap_or_default().to_lowercase();
            assert_eq!(shown, "up+watch:x", "{from:?} {to:?} {own}");
            let read = Case { uris: UriMap::Bare("up".into()), ..case(Method::ResourcesRead, from, to) };
            let text = format!(r#"{{"resultType":"complete","contents":[{{"uri":"{own}","text":"t"}}]}}"#);
            assert_eq!(
                read.result(&text)["contents"][0]["uri"].as_str().unwrap_or_default().to_lowercase(),
                "up+watch:x"
            );
        }
        let other =
            r#"{"resultType":"complete","content":[{"type":"resource_link","name":"n","uri":"file:///watch"}]}"#;
        assert_eq!(bare.result(other)["content"][0]["uri"], "file:///watch");
    }
}

// reach 4
#[test]
fn of_skills_only_uris_are_mapped() {
    let entry = r#"{"uri":"skill://a/SKILL.md","frontmatter":{"uri":"skill://a/x","n":1.50},"resources":[{"uri":"skill://a/SKILL.md","digest":"d","size":1}]}"#;
    let shown = value!({"uri": "up+skill://a/SKILL.md", "frontmatter": {"uri": "skill://a/x", "n": 1.5},
        "resources": [{"uri": "up+skill://a/SKILL.md", "digest": "d", "size": 1}]});
    for (from, to) in
        [(L, Revision::LATEST_LEGACY), (L, Revision::MODERN), (M, Revision::LATEST_LEGACY), (M, Revision::MODERN)]
    {
        let hints = if from == M { r#""resultType":"complete","ttlMs":5,"cacheScope":"public","# } else { "" };
        let list = case(Method::Skills(SkillMethod::List), from, to)
            .result(&format!(r#"{{{hints}"skills":[{entry},{{"uri":"x:y","resources":"dynamic"}}]}}"#));
        assert_eq!(list["skills"], value!([shown, {"uri": "up+x:y", "resources": "dynamic"}]));
        let got = case(Method::Skills(SkillMethod::Get), from, to).result(&format!(r#"{{{hints}"skill":{entry}}}"#));
        assert_eq!(got["skill"], shown);
        let read = case(Method::Skills(SkillMethod::ReadDirectory), from, to);
        let read = read.result(&format!(r#"{{{hints}"resources":[{{"uri":"x:y","name":"y"}}]}}"#));
        assert_eq!(read["resources"], value!([{"uri": "up+x:y", "name": "y"}]));
        for result in [list, got, read] {
            let ttl = (to == Revision::MODERN).then(|| if from == M { value!(5) } else { value!(0) });
            assert_eq!((result.get("ttlMs"), result.get("resultType").is_some()), (ttl.as_ref(), ttl.is_some()));
        }
    }
}
