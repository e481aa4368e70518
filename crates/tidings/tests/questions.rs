//! What servers ask of clients, through the real gateway: only the owner of the call is asked, and the server always
//! hears back under its own id.

#[path = "questions/drives.rs"]
mod drives;
#[path = "questions/park_storm.rs"]
mod park_storm;
#[path = "questions/parked.rs"]
mod parked;

use std::time::Duration;

use serde_json::{Value, json};
use tidings_testkit::{
    Client, ClientReply, Gate, Gateway, ReceivedMessage, ScriptedAnswer, ScriptedCall, Server, ServerBuilder,
    V2025_03_26, V2025_06_18, V2025_11_25,
};

const ELICIT: &str = "elicitation/create";

fn form(text: &str) -> Value {
    json!({"message": text, "requestedSchema": {"type": "object", "properties": {"colour": {"type": "string"}}}})
}

fn able() -> Value {
    json!({"elicitation": {}, "sampling": {}, "roots": {}})
}

/// What a call heard back for its three questions, as text.
async fn ask_all(call: &ScriptedCall) -> ScriptedAnswer {
    let who = call.argument("who").as_str().unwrap_or_default().to_owned();
    let sampling = json!({"messages": [], "maxTokens": 5, "_meta": {"who": who}});
    let mut heard = Vec::new();
    for outcome in [call.elicit(form(&who)).await, call.sample(sampling).await, call.roots().await] {
        heard.push(match outcome {
            Ok(result) => result,
            Err(error) => json!(error.code),
        });
    }
    call.ok_text(&Value::from(heard).to_string())
}

/// `ask` asks everything once the gate lets it; `wait` only waits at the other gate.
fn script(gate: &Gate, other: &Gate) -> ServerBuilder {
    let (gate, other) = (gate.clone(), other.clone());
    Server::builder("alpha")
        .tool("ask", move |call| {
            let gate = gate.clone();
            async move {
                gate.wait().await;
                ask_all(&call).await
            }
        })
        .tool("wait", move |call| {
            let other = other.clone();
            async move {
                other.wait().await;
                call.ok_text("waited")
            }
        })
}

/// Answers everything under its name.
fn answers(client: &Client, name: &'static str) {
    client.on_request(move |request| match request.method.as_str() {
        ELICIT => ClientReply::Result(json!({"action": "accept", "content": {"colour": name}})),
        "sampling/createMessage" => {
            ClientReply::Result(json!({"role": "assistant", "model": name, "content": {"type": "text", "text": ""}}))
        }
        _ => ClientReply::Result(json!({"roots": [{"uri": format!("file:///{name}")}]})),
    });
}

async fn asked_client(gateway: &Gateway, revision: &str, name: &'static str) -> Client {
    let client = gateway.client().revision(revision).capabilities(able()).connect().await;
    answers(&client, name);
    client
}

fn arguments(tool: &str, who: &str) -> Value {
    json!({"name": tool, "arguments": {"who": who}})
}

/// Everything that a client was asked.
fn questions(client: &Client) -> Vec<ReceivedMessage> {
    client.received().into_iter().filter(ReceivedMessage::is_request).collect()
}

fn assert_answered_by(text: &str, name: &str) {
    let heard: Value = serde_json::from_str(text).expect("what was heard is JSON");
    assert_eq!(heard[0]["content"]["colour"], name, "{text}");
    assert_eq!(heard[1]["model"], name, "{text}");
    assert_eq!(heard[2]["roots"][0]["uri"], format!("file:///{name}"), "{text}");
}

const REFUSED: &str = r#"[{"action":"cancel"},-32601,-32601]"#;

// bridging 39
#[tokio::test]
async fn a_shared_process_with_two_calls_in_flight_is_refused_and_nobody_sees_its_questions() {
    let (gate, other) = (Gate::new(), Gate::new());
    let server = script(&gate, &other).stdio().await;
    let gateway = Gateway::builder().server("alpha", &server).serve().await;
    let one = asked_client(&gateway, V2025_11_25, "one").await;
    let two = asked_client(&gateway, V2025_11_25, "two").await;
    let (_first, _second) = (one.open_get().await, two.open_get().await);
    let asking = one.start("tools/call", arguments("ask", "one"));
    let waiting = two.start("tools/call", arguments("wait", "two"));
    gate.reached(1).await;
    other.reached(1).await;
    gate.open();
    assert_eq!(asking.finish().await.text(), REFUSED);
    other.open();
    assert_eq!(waiting.finish().await.text(), "waited");
    assert_eq!(questions(&one).len() + questions(&two).len(), 0);
    server.assert_clean();
}

// bridging 39
#[tokio::test]
async fn a_shared_process_with_one_call_in_flight_asks_its_caller_only() {
    let (gate, other) = (Gate::new(), Gate::new());
    gate.open();
    let server = script(&gate, &other).stdio().await;
    let idle = Server::builder("beta").stdio().await;
    let gateway = Gateway::builder().server("alpha", &server).server("beta", &idle).serve().await;
    let one = asked_client(&gateway, V2025_11_25, "one").await;
    let two = asked_client(&gateway, V2025_11_25, "two").await;
    let (_first, _second) = (one.open_get().await, two.open_get().await);
    assert_answered_by(&one.request("tools/call", arguments("alpha__ask", "one")).await.text(), "one");
    assert_eq!(questions(&two).len(), 0);
    let asked = questions(&one);
    let methods: Vec<&str> = asked.iter().map(|question| question.method.as_str()).collect();
    assert_eq!(methods, [ELICIT, "sampling/createMessage", "roots/list"]);
    assert_eq!(asked[0].param(&["message"]), "[alpha] one", "the client sees only the gateway");
    // The answers carry the ids that the server gave, which the client never saw.
    let heard: Vec<String> = server.received().iter().filter(|r| r.is_response()).map(raw_id).collect();
    assert_eq!(heard, ["\"alpha-1\"", "\"alpha-2\"", "\"alpha-3\""]);
    assert!(asked.iter().all(|question| !raw_id(question).contains("alpha")));
    server.assert_clean();
}

fn raw_id(message: &ReceivedMessage) -> String {
    message.id.as_ref().expect("it has an id").as_str().to_owned()
}

// bridging B6: a question on the standalone stream has an owner only while one call runs.
#[tokio::test]
async fn a_question_beside_the_streams_goes_to_the_only_call_or_is_refused() {
    let (gate, other) = (Gate::new(), Gate::new());
    let server = script(&gate, &other).http().await;
    let gateway = Gateway::builder().server("alpha", &server).serve().await;
    let one = asked_client(&gateway, V2025_11_25, "one").await;
    let two = asked_client(&gateway, V2025_11_25, "two").await;
    let first = one.start("tools/call", arguments("wait", "one"));
    other.reached(1).await;
    assert_eq!(ask_aside(&server, "q1").await, json!({"action": "accept", "content": {"colour": "one"}}));
    let second = two.start("tools/call", arguments("wait", "two"));
    other.reached(2).await;
    assert_eq!(ask_aside(&server, "q2").await, json!({"action": "cancel"}));
    other.open();
    assert_eq!(first.finish().await.before_with(ELICIT).len(), 1);
    assert_eq!(second.finish().await.before_with(ELICIT).len(), 0);
    assert_eq!(ask_aside(&server, "q3").await, json!({"action": "cancel"}), "nobody calls any more");
    assert_eq!((questions(&one).len(), questions(&two).len()), (1, 0));
}

// bridging B6: the servers of the SDKs drop what they ask on the standalone stream while nobody has it open.
#[tokio::test]
async fn a_server_is_asked_nothing_before_its_standalone_stream_is_open() {
    let (gate, other, stream) = (Gate::new(), Gate::new(), Gate::new());
    let server = script(&gate, &other).forgetful().hold_get(&stream).http().await;
    let opening = async {
        stream.reached(1).await;
        // Long enough for whoever does not wait for the stream.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let early: Vec<String> = server.received().into_iter().map(|received| received.method).collect();
        stream.open();
        early
    };
    let (gateway, early) = tokio::join!(Gateway::builder().server("alpha", &server).serve(), opening);
    assert!(!early.iter().any(|method| method.starts_with("tools/")), "{early:?}");
    let client = asked_client(&gateway, V2025_11_25, "one").await;
    let call = client.start("tools/call", arguments("wait", "one"));
    other.reached(1).await;
    assert_eq!(ask_aside(&server, "q1").await, json!({"action": "accept", "content": {"colour": "one"}}));
    other.open();
    assert_eq!(call.finish().await.before_with(ELICIT).len(), 1);
}

async fn ask_aside(server: &Server, id: &str) -> Value {
    let question = json!({"jsonrpc": "2.0", "id": id, "method": ELICIT, "params": form("aside")});
    assert_eq!(server.ask_raw(question.to_string()), 1);
    let quoted = format!("\"{id}\"");
    server.wait_for(|r| r.is_response() && raw_id(r) == quoted).await.result()
}

// bridging 39, 0.2: everything is declared to a shared server, so what the owner can not do is refused in its place.
#[tokio::test]
async fn an_owner_that_can_not_answer_is_not_asked() {
    let gate = Gate::new();
    gate.open();
    for server in [script(&gate, &gate).stdio().await, script(&gate, &gate).http().await] {
        let gateway = Gateway::builder().server("alpha", &server).serve().await;
        let unable = gateway.client().connect().await;
        answers(&unable, "unable");
        assert_eq!(unable.request("tools/call", arguments("ask", "unable")).await.text(), REFUSED);
        assert_eq!(questions(&unable).len(), 0);
        // Elicitation came with 2025-06-18, whatever an older client declares.
        let early = asked_client(&gateway, V2025_03_26, "early").await;
        let text = early.request("tools/call", arguments("ask", "early")).await.text();
        assert!(text.starts_with(r#"[{"action":"cancel"},{"#), "{text}");
        server.assert_clean();
    }
}

// bridging 0.2, 39
#[tokio::test]
async fn isolated_sessions_have_their_own_connections_and_are_asked_at_the_same_time() {
    let (gate, other) = (Gate::new(), Gate::new());
    for server in [script(&gate, &other).stdio().await, script(&gate, &other).http().await] {
        gate.close();
        let keys = "isolation = \"session\"";
        let gateway = Gateway::builder().server_with("alpha", &server, keys).serve().await;
        let arrivals = gate.arrived();
        let one = asked_client(&gateway, V2025_11_25, "one").await;
        let two = asked_client(&gateway, V2025_06_18, "two").await;
        let first = one.start("tools/call", arguments("ask", "one"));
        let second = two.start("tools/call", arguments("ask", "two"));
        gate.reached(arrivals + 2).await;
        gate.open();
        assert_answered_by(&first.finish().await.text(), "one");
        assert_answered_by(&second.finish().await.text(), "two");
        assert_eq!((questions(&one).len(), questions(&two).len()), (3, 3));
        let connection = |who: &str| {
            let all = server.received();
            let call = all.iter().find(|r| r.method == "tools/call" && r.param(&["arguments", "who"]) == who);
            call.expect("it was called").connection
        };
        assert_ne!(connection("one"), connection("two"));
        server.assert_clean();
    }
}

// bridging B6: on a connection of its own a client is the owner, however many calls it has in flight.
#[tokio::test]
async fn a_client_with_its_own_connection_is_asked_with_two_calls_in_flight() {
    for own in ["isolated", "alone on stdio"] {
        let (gate, other) = (Gate::new(), Gate::new());
        let server = script(&gate, &other).stdio().await;
        let builder = Gateway::builder().server_with("alpha", &server, "isolation = \"session\"");
        let (client, _gateway) = match own {
            "isolated" => {
                let gateway = builder.serve().await;
                (gateway.client().capabilities(able()).connect().await, Some(gateway))
            }
            _ => {
                let builder = Gateway::builder().server("alpha", &server);
                (builder.stdio().capabilities(able()).connect().await, None)
            }
        };
        answers(&client, "own");
        let _stream = match own {
            "isolated" => Some(client.open_get().await),
            _ => None,
        };
        let waiting = client.start("tools/call", arguments("wait", "own"));
        let asking = client.start("tools/call", arguments("ask", "own"));
        other.reached(1).await;
        gate.reached(1).await;
        gate.open();
        assert_answered_by(&asking.finish().await.text(), "own");
        other.open();
        assert_eq!(waiting.finish().await.text(), "waited", "{own}");
        let call = server.wait_for(|r| r.method == "tools/call").await;
        let introduced = server.wait_for(|r| r.method == "initialize" && r.connection == call.connection).await;
        assert_eq!(introduced.param(&["capabilities"]), able(), "{own}: its own capabilities are declared");
        server.assert_clean();
    }
}

// bridging B6, legacy to legacy
#[tokio::test]
async fn two_callers_of_a_remote_server_are_each_asked_on_the_stream_of_their_call() {
    let gate = Gate::new();
    let server = script(&gate, &gate).http().await;
    let gateway = Gateway::builder().server("alpha", &server).serve().await;
    let earlier = asked_client(&gateway, V2025_06_18, "earlier").await;
    let later = asked_client(&gateway, V2025_11_25, "later").await;
    let (_first, _second) = (earlier.open_get().await, later.open_get().await);
    let first = earlier.start("tools/call", arguments("ask", "earlier"));
    let second = later.start("tools/call", arguments("ask", "later"));
    gate.reached(2).await;
    gate.open();
    for (client, pending, name) in [(&earlier, first, "earlier"), (&later, second, "later")] {
        let stream = format!("post {}", pending.id());
        let exchange = pending.finish().await;
        assert_answered_by(&exchange.text(), name);
        let asked = questions(client);
        assert_eq!(asked.len(), 3);
        assert!(asked.iter().all(|question| question.stream == stream), "{asked:?}");
        assert_eq!(asked[0].param(&["message"]), name);
    }
    server.assert_clean();
}

/// A tool that asks, tells the test what it heard, and can withdraw its question.
fn asks_once(withdraw: &Gate, end: &Gate) -> ServerBuilder {
    let (withdraw, end) = (withdraw.clone(), end.clone());
    Server::builder("alpha").tool("ask", move |call| {
        let (withdraw, end) = (withdraw.clone(), end.clone());
        async move {
            let (id, mut response) = call.ask_raw(ELICIT, form("a colour").to_string().as_bytes());
            tokio::select! {
                response = &mut response => {
                    return call.ok_text(&response.map(|r| r.result().to_string()).unwrap_or_default());
                }
                () = withdraw.wait() => {}
            }
            // From here on an answer would be one that nobody waits for, which is a fault.
            drop(response);
            let params = format!("{{\"requestId\":{id},\"reason\":\"enough\"}}");
            let message = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{params}}}");
            call.notify_raw(message);
            end.wait().await;
            call.ok_text("withdrawn")
        }
    })
}

// bridging B3: the server cancels its own request.
#[tokio::test]
async fn a_question_that_the_server_withdraws_is_withdrawn_from_the_client_under_the_id_it_knows() {
    for transport in ["stdio", "http"] {
        let (withdraw, end) = (Gate::new(), Gate::new());
        let script = asks_once(&withdraw, &end);
        let server = if transport == "stdio" { script.stdio().await } else { script.http().await };
        let gateway = Gateway::builder().server("alpha", &server).serve().await;
        let client = gateway.client().capabilities(able()).connect().await;
        client.on_request(|_| ClientReply::Later);
        let other = gateway.client().capabilities(able()).connect().await;
        let _other = other.open_get().await;
        let mut calling = client.start("tools/call", arguments("ask", "client"));
        let question = calling.next_method(ELICIT).await;
        withdraw.open();
        // On the stream that the question came on, since a client may have no other.
        let withdrawn = calling.next_method("notifications/cancelled").await;
        assert_eq!(withdrawn.param_raw(&["requestId"]), raw_id(&question), "{transport}");
        client.respond(&question, ClientReply::Result(json!({"action": "decline"}))).await;
        end.open();
        assert_eq!(calling.finish().await.text(), "withdrawn");
        assert_eq!(other.count("notifications/cancelled"), 0);
        assert_eq!(server.received().iter().filter(|r| r.is_response()).count(), 0, "too late to answer");
        server.assert_clean();
    }
}

// bridging B6: the server is answered in the client's place.
#[tokio::test]
async fn a_client_that_ends_its_session_leaves_the_server_answered() {
    let closed = Gate::new();
    for server in [asks_once(&closed, &closed).stdio().await, asks_once(&closed, &closed).http().await] {
        let gateway = Gateway::builder().server("alpha", &server).serve().await;
        let client = gateway.client().capabilities(able()).connect().await;
        client.on_request(|_| ClientReply::Later);
        let mut calling = client.start("tools/call", arguments("ask", "client"));
        calling.next_method(ELICIT).await;
        assert_eq!(client.delete().await, 204);
        let call = server.wait_for_method("tools/call", 1).await;
        let cancelled = server.wait_for_method("notifications/cancelled", 1).await;
        assert_eq!(cancelled.param_raw(&["requestId"]), raw_id(&call));
        let answer = server.wait_for(ReceivedMessage::is_response).await;
        assert_eq!((raw_id(&answer).as_str(), answer.result()), ("\"alpha-1\"", json!({"action": "cancel"})));
        server.assert_clean();
    }
}

/// While a client is asked its server waits for it, so the time that the server may be silent stands still; with the answer it runs
/// again.
// bridging B6
#[tokio::test]
async fn a_user_who_thinks_longer_than_the_server_may_be_silent_loses_nothing() {
    let script = || {
        Server::builder("alpha")
            .tool("ask", |call| async move {
                let heard = call.elicit(form("take your time")).await.unwrap_or_default();
                if heard["action"] == "decline" {
                    call.cancelled().await;
                }
                call.ok_text(heard["action"].as_str().unwrap_or("nothing"))
            })
            .tool("silent", |call| async move {
                call.cancelled().await;
                call.ok_text("never")
            })
    };
    let (server, other) = (script().http().await, script().http().await);
    let brief = "timeout = \"1s\"";
    let gateway = Gateway::builder().server_with("alpha", &server, brief).server_with("beta", &other, brief);
    let gateway = gateway.serve().await;
    let client = gateway.client().capabilities(able()).connect().await;
    client.on_request(|_| ClientReply::Later);
    for (action, ends_well) in [("accept", true), ("decline", false)] {
        let mut calling = client.start("tools/call", arguments("alpha__ask", "client"));
        let question = calling.next_method(ELICIT).await;
        // A call that began later is over because of its silence: so long the user has thought.
        assert_eq!(client.request("tools/call", arguments("beta__silent", "client")).await.error_code(), -32603);
        client.respond(&question, ClientReply::Result(json!({"action": action, "content": {}}))).await;
        let reply = calling.finish().await;
        match ends_well {
            true => assert_eq!(reply.text(), action),
            // From the answer on its silence counts again.
            false => assert_eq!(reply.error_code(), -32603),
        }
    }
}

// bridging B6: a client that cancels its call will not answer the questions of that call either.
#[tokio::test]
async fn a_client_that_cancels_its_call_leaves_the_server_answered() {
    let closed = Gate::new();
    for server in [asks_once(&closed, &closed).stdio().await, asks_once(&closed, &closed).http().await] {
        let gateway = Gateway::builder().server("alpha", &server).serve().await;
        let client = gateway.client().capabilities(able()).connect().await;
        client.on_request(|_| ClientReply::Later);
        let mut calling = client.start("tools/call", arguments("ask", "client"));
        let question = calling.next_method(ELICIT).await;
        client.cancel(&calling).await;
        server.wait_for_method("notifications/cancelled", 1).await;
        assert_eq!(server.wait_for(ReceivedMessage::is_response).await.result(), json!({"action": "cancel"}));
        // Its own answer comes too late to be a second one.
        client.respond(&question, ClientReply::Result(json!({"action": "decline"}))).await;
        assert_eq!(client.request("ping", json!({})).await.result(), json!({}));
        assert_eq!(server.received().iter().filter(|r| r.is_response()).count(), 1);
        server.assert_clean();
    }
}

// interface, "Start and end": what still runs at the end of input is finished, so nothing may wait for the client.
#[tokio::test]
async fn a_client_whose_input_has_ended_leaves_the_server_answered() {
    let closed = Gate::new();
    let server = asks_once(&closed, &closed).stdio().await;
    let client = Gateway::builder().server("alpha", &server).stdio().capabilities(able()).connect().await;
    client.on_request(|_| ClientReply::Later);
    let mut calling = client.start("tools/call", arguments("ask", "client"));
    calling.next_method(ELICIT).await;
    client.close_stdin();
    assert_eq!(calling.finish().await.text(), json!({"action": "cancel"}).to_string());
    assert!(client.wait_exit().await.success());
}
