//! Questions of modern servers to legacy clients: they are the client's own requests, and the call is sent again with the answers.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidings_testkit::{
    Client, ClientReply, Gateway, PendingExchange, ReceivedMessage, ScriptedAnswer, ScriptedCall, Server,
    ServerBuilder, V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25,
};

use super::{ELICIT, able, answers, arguments, form, questions, raw_id};

const SAMPLE: &str = "sampling/createMessage";
/// So that no link of the client's own era is tried beside it.
const MODERN: &str = "era = \"modern\"\n";
const STATE: &str = "s\"1\" \u{e4}\n\\";

fn ask(method: &str, params: &Value) -> Value {
    json!({"method": method, "params": params})
}

fn sampling() -> Value {
    ask(SAMPLE, &json!({"messages": [], "maxTokens": 5, "includeContext": "allServers"}))
}

/// Asks once with these requests; then tells what came back.
fn once(call: &ScriptedCall, requests: &Value) -> ScriptedAnswer {
    match call.request_state().as_str() {
        None => call.input_required(json!({"inputRequests": requests, "requestState": STATE})),
        Some(state) => {
            assert_eq!(state, STATE);
            call.ok_text(&call.input_responses().to_string())
        }
    }
}

fn url() -> Value {
    ask(ELICIT, &json!({"mode": "url", "message": "go", "url": "https://example.com/"}))
}

fn titled() -> Value {
    let choices = json!([{"const": "r", "title": "Red"}]);
    ask(
        ELICIT,
        &json!({"message": "m", "requestedSchema":
        {"type": "object", "properties": {"c": {"type": "string", "oneOf": choices}}}}),
    )
}

fn several() -> Value {
    ask(
        ELICIT,
        &json!({"message": "m", "requestedSchema":
        {"type": "object", "properties": {"c": {"type": "array", "items": {"type": "string", "enum": ["a"]}}}}}),
    )
}

/// A modern-only server; what a tool asks is in its name.
fn script() -> ServerBuilder {
    let tool = |builder: ServerBuilder, name: &'static str, requests: fn() -> Value| {
        builder.tool(name, move |call| async move { once(&call, &requests()) })
    };
    let builder = Server::builder("alpha").modern_only();
    let builder = tool(
        builder,
        "all",
        || json!({"a": ask(ELICIT, &form("who")), "b": sampling(), "c": {"method": "roots/list"}}),
    );
    let builder = tool(builder, "form", || json!({"f": ask(ELICIT, &form("who"))}));
    let builder = tool(builder, "both", || json!({"f": ask(ELICIT, &form("who")), "s": sampling()}));
    let builder = tool(builder, "url", || json!({"u": url()}));
    let builder = tool(builder, "titled", || json!({"t": titled()}));
    let builder = tool(builder, "several", || json!({"s": several()}));
    builder
        .tool(
            "endless",
            |call| async move { call.input_required(json!({"inputRequests": {"f": ask(ELICIT, &form("?"))}})) },
        )
        .tool("slow", |call| async move {
            let round = call.request_state().as_str().map_or(0, str::len);
            match round {
                0..3 => call.input_required(json!({"requestState": "x".repeat(round + 1)})),
                _ => call.ok_text(&call.input_responses().to_string()),
            }
        })
        .prompt("ask", |call| async move {
            match call.request_state().as_str() {
                None => call
                    .input_required(json!({"inputRequests": {"f": ask(ELICIT, &form("who"))}, "requestState": STATE})),
                Some(_) => call.ok_message(&call.input_responses().to_string()),
            }
        })
}

/// A client of each transport before a server of each transport.
async fn crossings(each: impl AsyncFn(&str, &Server, &Client)) {
    for server in [script().stdio().await, script().http().await] {
        let gateway = Gateway::builder().server_with("alpha", &server, MODERN).serve().await;
        let client = gateway.client().capabilities(able()).connect().await;
        each("http", &server, &client).await;
        let client =
            Gateway::builder().server_with("alpha", &server, MODERN).stdio().capabilities(able()).connect().await;
        each("stdio", &server, &client).await;
        server.assert_clean();
    }
}

fn calls(server: &Server) -> Vec<ReceivedMessage> {
    server.received().into_iter().filter(|received| received.method == "tools/call").collect()
}

async fn next_questions(calling: &mut PendingExchange, count: usize) -> Vec<ReceivedMessage> {
    let mut asked = Vec::new();
    while asked.len() < count {
        let next = calling.next().await.expect("another question");
        asked.extend(next.is_request().then_some(next));
    }
    asked
}

// bridging B6, Drive
#[tokio::test]
async fn questions_are_put_at_once_and_the_state_comes_back_exactly() {
    crossings(async |transport, server, client| {
        let before = calls(server).len();
        client.on_request(|_| ClientReply::Later);
        let mut calling = client.start("tools/call", arguments("all", "x"));
        // All three are there while none is answered.
        let asked = next_questions(&mut calling, 3).await;
        let methods: Vec<&str> = asked.iter().map(|question| question.method.as_str()).collect();
        assert_eq!(methods, [ELICIT, SAMPLE, "roots/list"], "{transport}");
        assert_eq!(asked[0].param(&["message"]), "who", "a server that is alone is no stranger");
        assert_eq!(asked[1].param(&["includeContext"]), "none");
        let form = json!({"action": "accept", "content": {"colour": "red"}});
        let sample = json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "t"}});
        let roots = json!({"roots": [{"uri": "file:///r"}]});
        for (question, answer) in asked.iter().zip([&form, &sample, &roots]).rev() {
            client.respond(question, ClientReply::Result(answer.clone())).await;
        }
        let heard: Value = serde_json::from_str(&calling.finish().await.text()).expect("what was heard is JSON");
        assert_eq!(heard, json!({"a": form, "b": sample, "c": roots}), "{transport}");
        let sent = calls(server)[before..].to_vec();
        assert_eq!(sent.len(), 2);
        assert_ne!(raw_id(&sent[0]), raw_id(&sent[1]), "a round is a request of its own");
        for round in &sent {
            let declared = round.param(&["_meta", "io.modelcontextprotocol/clientCapabilities"]);
            assert_eq!(declared, json!({"elicitation": {"form": {}}, "sampling": {}, "roots": {}}), "{transport}");
        }
        client.on_request(|_| ClientReply::Result(json!({"action": "decline"})));
        let prompt = client.request("prompts/get", json!({"name": "ask"})).await.result();
        let text = prompt["messages"][0]["content"]["text"].as_str().unwrap_or_default().to_owned();
        assert_eq!(text, r#"{"f":{"action":"decline"}}"#, "prompts are driven too");
    })
    .await;
}

// bridging B6, Drive: MRTR has no shape for an error.
#[tokio::test]
async fn a_refused_form_is_cancelled_and_a_refused_sample_ends_the_call() {
    crossings(async |transport, server, client| {
        client.on_request(|_| ClientReply::Error(-1, "user rejected".into()));
        let form = client.request("tools/call", arguments("form", "x")).await;
        assert_eq!(form.text(), r#"{"f":{"action":"cancel"}}"#, "{transport}");
        let before = calls(server).len();
        // The form is left open, and withdrawn when the call has failed without it.
        client.on_request(|request| match request.method.as_str() {
            ELICIT => ClientReply::Later,
            _ => ClientReply::Error(-1, "user rejected".into()),
        });
        let mut calling = client.start("tools/call", arguments("both", "x"));
        let open = calling.next_method(ELICIT).await;
        let withdrawn = calling.next_method("notifications/cancelled").await;
        assert_eq!(withdrawn.param_raw(&["requestId"]), raw_id(&open));
        let ended = calling.finish().await.result();
        assert_eq!(ended["isError"], true, "{ended}");
        let text = ended["content"][0]["text"].as_str().unwrap_or_default();
        assert!(text.contains("\"alpha\"") && text.contains(SAMPLE) && text.contains("user rejected"), "{text}");
        assert_eq!(calls(server).len(), before + 1, "nothing more is sent");
    })
    .await;
}

// bridging B6, Drive: bounded
#[tokio::test]
async fn a_server_that_never_stops_asking_is_given_up() {
    let server = script().http().await;
    let gateway = Gateway::builder().server_with("alpha", &server, MODERN).serve().await;
    let client = gateway.client().capabilities(able()).connect().await;
    answers(&client, "one");
    let ended = client.request("tools/call", arguments("endless", "x")).await.result();
    assert_eq!(ended["isError"], true, "{ended}");
    assert!(ended.to_string().contains("no end"), "{ended}");
    assert_eq!((questions(&client).len(), calls(&server).len()), (16, 17));
    // And the id is free again.
    assert_eq!(client.request("tools/call", arguments("form", "x")).await.result().get("isError"), None);
    server.assert_clean();
}

// bridging B6, Drive: "State-only => retry with backoff"
#[tokio::test]
async fn a_state_alone_is_sent_back_after_growing_pauses() {
    let server = script().http().await;
    let gateway = Gateway::builder().server_with("alpha", &server, MODERN).serve().await;
    let client = gateway.client().connect().await;
    let began = Instant::now();
    assert_eq!(client.request("tools/call", arguments("slow", "x")).await.text(), "null", "nothing was asked");
    assert!(began.elapsed() >= Duration::from_millis(700), "100, 200 and 400 ms");
    let states: Vec<Value> = calls(&server).iter().map(|call| call.param(&["requestState"])).collect();
    assert_eq!(states, [Value::Null, json!("x"), json!("xx"), json!("xxx")]);
    server.assert_clean();
}

// bridging B3: between two rounds the call can be cancelled like any other.
#[tokio::test]
async fn a_cancelled_call_withdraws_its_questions_and_is_not_sent_again() {
    for server in [script().stdio().await, script().http().await] {
        let client =
            Gateway::builder().server_with("alpha", &server, MODERN).stdio().capabilities(able()).connect().await;
        client.on_request(|_| ClientReply::Later);
        let mut calling = client.start("tools/call", arguments("both", "x"));
        let asked = next_questions(&mut calling, 2).await;
        client.cancel(&calling).await;
        for nth in [1, 2] {
            let withdrawn = client.wait_for_method("notifications/cancelled", nth).await;
            assert!(asked.iter().any(|question| raw_id(question) == withdrawn.param_raw(&["requestId"])));
        }
        for question in &asked {
            client.respond(question, ClientReply::Result(json!({"action": "decline"}))).await;
        }
        assert_eq!(client.request("ping", json!({})).await.result(), json!({}));
        assert_eq!(calls(&server).len(), 1, "its server is not called again");
        server.assert_clean();
    }
}

// interface, "Start and end": what still runs at the end of input is finished, so nothing may wait for the client.
#[tokio::test]
async fn a_client_whose_input_has_ended_cancels_its_forms() {
    let server = script().stdio().await;
    let client = Gateway::builder().server_with("alpha", &server, MODERN).stdio().capabilities(able()).connect().await;
    client.on_request(|_| ClientReply::Later);
    let mut calling = client.start("tools/call", arguments("form", "x"));
    calling.next_method(ELICIT).await;
    client.close_stdin();
    assert_eq!(calling.finish().await.text(), r#"{"f":{"action":"cancel"}}"#);
    assert!(client.wait_exit().await.success());
}

// bridging B6, "Conversions"; bridging D
#[tokio::test]
async fn each_revision_is_asked_in_its_own_words() {
    let server = script().http().await;
    let idle = Server::builder("beta").http().await;
    let gateway = Gateway::builder().server_with("alpha", &server, MODERN).server("beta", &idle).serve().await;
    let all = json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}});
    let cancelled = |key: &str| json!({key: {"action": "cancel"}}).to_string();
    let accepted = |key: &str| json!({key: {"action": "accept"}}).to_string();
    for revision in [V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25] {
        let client = gateway.client().revision(revision).capabilities(all.clone()).connect().await;
        client.on_request(|_| ClientReply::Result(json!({"action": "accept"})));
        let (forms, urls) = (revision >= V2025_06_18, revision >= V2025_11_25);
        for (tool, key, can) in
            [("form", "f", forms), ("titled", "t", forms), ("several", "s", urls), ("url", "u", urls)]
        {
            let answer = client.request("tools/call", arguments(&format!("alpha__{tool}"), "x")).await.text();
            assert_eq!(answer, if can { accepted(key) } else { cancelled(key) }, "{revision} {tool}");
        }
        let asked = questions(&client);
        assert_eq!(
            asked.len(),
            if urls {
                4
            } else if forms {
                2
            } else {
                0
            },
            "{revision}"
        );
        let Some(first) = asked.first() else { continue };
        assert_eq!(first.param(&["message"]), "[alpha] who", "the client sees only the gateway");
        let choice = asked[1].param(&["requestedSchema", "properties", "c"]);
        if !urls {
            assert_eq!(choice, json!({"type": "string", "enum": ["r"], "enumNames": ["Red"]}));
            continue;
        }
        assert_eq!(choice["oneOf"], json!([{"const": "r", "title": "Red"}]));
        let id = asked[3].param(&["elicitationId"]);
        assert!(id.is_string(), "{id}");
        // Told when the server has taken note, and so before the answer.
        let completed = client.wait_for_method("notifications/elicitation/complete", 1).await;
        assert_eq!(completed.param(&["elicitationId"]), id);
    }
    let sent = calls(&server);
    let declared = |call: &ReceivedMessage| call.param(&["_meta", "io.modelcontextprotocol/clientCapabilities"]);
    assert_eq!(declared(&sent[0]), json!({"sampling": {}, "roots": {}}), "2024-11-05 has no forms");
    server.assert_clean();
}

// bridging D: what the client did not declare is refused with its name, before anybody is asked.
#[tokio::test]
async fn what_the_client_lacks_is_named() {
    let server = script().http().await;
    let gateway = Gateway::builder().server_with("alpha", &server, MODERN).serve().await;
    let client = gateway.client().capabilities(json!({"elicitation": {}})).connect().await;
    let ended = client.request("tools/call", arguments("both", "x")).await.result();
    assert_eq!(ended["isError"], true, "{ended}");
    let text = ended["content"][0]["text"].as_str().unwrap_or_default();
    assert!(text.contains("sampling/createMessage") && text.contains("lacks sampling"), "{text}");
    assert_eq!(questions(&client).len(), 0, "nobody fills in a form for a call that fails");
    server.assert_clean();
}
