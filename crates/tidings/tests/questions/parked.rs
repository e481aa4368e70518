//! A modern client of a server that asks in the middle of a call: the call waits, and the client comes back with the answers.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;

use serde_json::{Value, json};
use tidings_testkit::{
    Client, ClientReply, Gate, Gateway, ScriptedAnswer, Server, ServerBuilder, answer_all, retry_of, within,
};

use super::{assert_answered_by, form, script};

fn declared() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}})
}

/// What the client says to everything that it is asked.
fn answer(name: &str) -> impl Fn(&Value) -> Value {
    move |request| match request["method"].as_str().unwrap_or_default() {
        "elicitation/create" => json!({"action": "accept", "content": {"colour": name}}),
        "sampling/createMessage" => {
            json!({"role": "assistant", "model": name, "content": {"type": "text", "text": ""}})
        }
        _ => json!({"roots": [{"uri": format!("file:///{name}")}]}),
    }
}

/// The request once more, with answers to everything that the round asked.
fn retry(params: &Value, round: &Value, name: &str) -> Value {
    retry_of(params, round, answer_all(&round["inputRequests"], answer(name)))
}

fn call(tool: &str) -> Value {
    json!({"name": tool, "arguments": {"who": "me"}})
}

/// `ask` asks one thing after the other.
fn asking() -> ServerBuilder {
    let open = Gate::new();
    open.open();
    script(&open, &Gate::new())
        .tool("together", |call| async move {
            let sampling = json!({"messages": [], "maxTokens": 5});
            let (form, sample, roots) = tokio::join!(call.elicit(form("now")), call.sample(sampling), call.roots());
            let heard: Vec<Value> = [form, sample, roots].into_iter().map(Result::unwrap_or_default).collect();
            call.ok_text(&Value::from(heard).to_string())
        })
        .tool("visit", |call| async move {
            let heard = call
                .elicit(json!({"mode": "url", "message": "go", "url": "https://x.test/", "elicitationId": "e1"}))
                .await;
            call.ok_text(&heard.unwrap_or_default().to_string())
        })
        .prompt("brief", |call| async move {
            let heard = call.elicit(form("which")).await.unwrap_or_default();
            call.ok_message(heard["content"]["colour"].as_str().unwrap_or("none"))
        })
}

/// A modern client of a gateway on HTTP and on a pipe, in front of this server alone and beside another one.
async fn clients_of(server: &Server, other: &Server) -> (Vec<Client>, Vec<Gateway>) {
    let alone = Gateway::builder().server("alpha", server).serve().await;
    let several = Gateway::builder().server("alpha", server).server("beta", other).serve().await;
    let clients = vec![
        alone.client().modern().capabilities(declared()).connect().await,
        alone.stdio().modern().capabilities(declared()).connect().await,
        several.client().modern().capabilities(declared()).connect().await,
    ];
    (clients, vec![alone, several])
}

// bridging 35
#[tokio::test]
async fn the_same_call_completes_after_the_answers() {
    let other = Server::builder("beta").echo("echo").stdio().await;
    for server in [asking().stdio().await, asking().http().await] {
        let (clients, _gateways) = clients_of(&server, &other).await;
        for (client, tool) in clients.iter().zip(["ask", "ask", "alpha__ask"]) {
            let before = server.count("tools/call");
            let (reply, asked) = client.rounds("tools/call", &call(tool), answer("ann")).await;
            assert_answered_by(&reply.text(), "ann");
            assert_eq!(reply.result()["resultType"], "complete");
            assert_eq!(server.count("tools/call"), before + 1, "one call at the server");
            let methods: Vec<&Value> = asked
                .iter()
                .flat_map(|round| round.as_object().into_iter().flatten())
                .map(|(_, q)| &q["method"])
                .collect();
            assert_eq!(methods, ["elicitation/create", "sampling/createMessage", "roots/list"]);
            let text = if tool == "ask" { "me" } else { "[alpha] me" };
            assert!(asked[0].to_string().contains(&format!("\"{text}\"")), "{}", asked[0]);
        }
        server.assert_clean();
    }
}

// bridging B6
#[tokio::test]
async fn several_questions_come_together_and_urls_prompts_and_reads_are_asked_too() {
    let read = |call: tidings_testkit::ScriptedCall| async move {
        let heard = call.roots().await.unwrap_or_default();
        call.ok_contents(heard["roots"][0]["uri"].as_str().unwrap_or("none"))
    };
    let server = asking().resource("file:///r", "r").on_raw("resources/read", read).http().await;
    let gateway = Gateway::builder().server("alpha", &server).serve().await;
    let client = gateway.client().modern().capabilities(declared()).connect().await;
    let (reply, asked) = client.rounds("tools/call", &call("together"), answer("bob")).await;
    assert_answered_by(&reply.text(), "bob");
    assert_eq!(asked.iter().map(|round| round.as_object().map_or(0, serde_json::Map::len)).collect::<Vec<_>>(), [3]);
    let (reply, asked) = client.rounds("tools/call", &call("visit"), answer("bob")).await;
    assert!(reply.text().contains("accept"));
    let url = asked[0].as_object().and_then(|round| round.values().next()).cloned().unwrap_or_default();
    assert_eq!(
        url["params"],
        json!({"mode": "url", "message": "go", "url": "https://x.test/"}),
        "no id of the old era"
    );
    let (reply, _) = client.rounds("prompts/get", &json!({"name": "brief"}), answer("bob")).await;
    assert_eq!(reply.result()["messages"][0]["content"]["text"], "bob");
    let (reply, _) = client.rounds("resources/read", &json!({"uri": "file:///r"}), answer("bob")).await;
    assert_eq!(reply.result()["contents"][0]["text"], "file:///bob");
    // What a client does not declare is refused in its place, as before.
    let plain = gateway.client().modern().connect().await;
    assert_eq!(plain.request("tools/call", call("ask")).await.text(), super::REFUSED);
    server.assert_clean();
}

const AUTH: &str = r#"[auth]
tokens = [
    { name = "x", sha256 = "d4ae844c189c5f38ddd7e60eecdbb09112a913c99f2ff8d6dc16f4205942ed90" },
    { name = "y", sha256 = "bc4b684625de6202b40c04caf3ebee22890eaf93955ecb95dfb1fdf420017732" },
]"#;

// bridging 36
#[tokio::test]
async fn a_state_of_somebody_else_is_refused_and_the_server_hears_nothing() {
    let server = asking().http().await;
    let gateway = Gateway::builder().toml(AUTH).server("alpha", &server).serve().await;
    let client = |token: &str| gateway.client().modern().capabilities(declared()).header("authorization", token);
    let (mine, other) = (client("Bearer token-x").connect().await, client("Bearer token-y").connect().await);
    let params = call("ask");
    let round = mine.request("tools/call", params.clone()).await.result();
    let good = retry(&params, &round, "x");
    let heard = server.received().len();
    let mut changed = good.clone();
    let state = good["requestState"].as_str().unwrap_or_default();
    changed["requestState"] =
        format!("{}{}", &state[..state.len() - 2], if state.ends_with("AA") { "BB" } else { "AA" }).into();
    let mut others = good.clone();
    others["arguments"]["who"] = "you".into();
    let mut tool = good.clone();
    tool["name"] = "together".into();
    let mut made_up = good.clone();
    made_up["requestState"] = "mine".into();
    for (client, params) in [(&mine, changed), (&mine, others), (&mine, tool), (&mine, made_up), (&other, good.clone())]
    {
        let reply = client.request("tools/call", params).await;
        assert_eq!(reply.error_code(), -32602, "{}", reply.error());
    }
    assert_eq!(server.received().len(), heard, "nothing of it reached the server");
    // The right one still works.
    assert_eq!(mine.request("tools/call", good).await.result()["resultType"], "input_required");
}

// bridging 37
#[tokio::test]
async fn a_retry_sent_twice_is_answered_twice_and_run_once() {
    let gate = Gate::new();
    let held = gate.clone();
    let server = Server::builder("alpha").tool("ask", move |call| {
        let gate = held.clone();
        async move {
            let heard = call.elicit(form("once")).await.unwrap_or_default();
            gate.wait().await;
            call.ok_text(heard["content"]["colour"].as_str().unwrap_or("none"))
        }
    });
    let server = server.stdio().await;
    let gateway = Gateway::builder().server("alpha", &server).serve().await;
    let client = gateway.client().modern().capabilities(declared()).connect().await;
    let params = call("ask");
    let round = client.request("tools/call", params.clone()).await.result();
    let again = retry(&params, &round, "z");
    let (first, second) = (client.start("tools/call", again.clone()), client.start("tools/call", again.clone()));
    gate.reached(1).await;
    gate.open();
    assert_eq!((first.finish().await.text(), second.finish().await.text()), ("z".into(), "z".into()));
    assert_eq!(client.request("tools/call", again).await.text(), "z", "also when it is over");
    assert_eq!(server.count("tools/call"), 1);
    let answers = server.received().iter().filter(|message| message.is_response()).count();
    assert_eq!(answers, 1);
    server.assert_clean();
}

/// Asks, then waits until it is cancelled.
fn waiting() -> ServerBuilder {
    Server::builder("alpha").tool("ask", |call| async move {
        let heard = call.elicit(form("still there?")).await.unwrap_or_default();
        call.cancelled().await;
        call.ok_text(&heard.to_string())
    })
}

// bridging 38
#[tokio::test]
async fn an_abandoned_call_is_refused_and_cancelled_and_its_state_expires() {
    for server in [waiting().stdio().await, waiting().http().await] {
        let gateway =
            Gateway::builder().toml("[gateway]\ninput_wait = \"300ms\"").server("alpha", &server).serve().await;
        let client = gateway.client().modern().capabilities(declared()).connect().await;
        let params = call("ask");
        let round = client.request("tools/call", params.clone()).await.result();
        let answer = server.wait_for(tidings_testkit::ReceivedMessage::is_response).await;
        assert_eq!(answer.result(), json!({"action": "cancel"}));
        server.wait_for_method("notifications/cancelled", 0).await;
        let late = retry(&params, &round, "late");
        let reply = client.request("tools/call", late.clone()).await;
        assert!([-32602, -32603].contains(&reply.error_code()), "{}", reply.error());
        // Once the second in which it ended is over, the state says so by itself.
        let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
        while client.request("tools/call", late.clone()).await.error_code() != -32602 {
            assert!(tokio::time::Instant::now() < deadline, "a state without an end");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(server.count("tools/call"), 1);
    }
}

/// Whoever was in time is told what came of it, also after the time for the answers is over.
// bridging 37
#[tokio::test]
async fn a_retry_that_was_in_time_can_be_repeated_after_its_time() {
    let gate = Gate::new();
    let held = gate.clone();
    let server = Server::builder("alpha").tool("ask", move |call| {
        let gate = held.clone();
        async move {
            let heard = call.elicit(form("once")).await.unwrap_or_default();
            gate.wait().await;
            call.ok_text(heard["content"]["colour"].as_str().unwrap_or("none"))
        }
    });
    let server = server.tool("forgotten", |call| async move {
        call.elicit(form("anybody?")).await.ok();
        // One that is over by itself is not cancelled.
        call.cancelled().await;
        call.ok_text("nobody")
    });
    let server = server.http().await;
    let gateway = Gateway::builder().toml("[gateway]\ninput_wait = \"2s\"").server("alpha", &server).serve().await;
    let client = gateway.client().modern().capabilities(declared()).connect().await;
    let params = call("ask");
    let round = client.request("tools/call", params.clone()).await.result();
    let again = retry(&params, &round, "in time");
    let first = client.start("tools/call", again.clone());
    gate.reached(1).await;
    // Another call that was asked later than this one says when the time is over.
    let other = client.request("tools/call", call("forgotten")).await.result();
    let late = retry(&call("forgotten"), &other, "late");
    server.wait_for_method("notifications/cancelled", 0).await;
    tidings_testkit::within("its state has expired", async {
        while client.request("tools/call", late.clone()).await.error_code() != -32602 {}
    })
    .await;
    let second = client.start("tools/call", again.clone());
    gate.open();
    assert_eq!((first.finish().await.text(), second.finish().await.text()), ("in time".into(), "in time".into()));
    assert_eq!(client.request("tools/call", again).await.text(), "in time", "the answer is kept");
    assert_eq!(server.count("tools/call"), 2);
}

/// What has asked has run: a refusal of its session, which is else a reason to send a call again, is its end.
// bridging 37, invariant 12
#[tokio::test]
async fn a_call_that_asked_is_not_sent_again_when_its_session_is_refused() {
    let gate = Gate::new();
    let held = gate.clone();
    let server = Server::builder("alpha").tool("work", move |_call| {
        let gate = held.clone();
        async move {
            gate.wait().await;
            ScriptedAnswer::http(404, "no such session")
        }
    });
    let server = server.http().await;
    let gateway = Gateway::builder().server("alpha", &server).serve().await;
    let client = gateway.client().modern().capabilities(declared()).connect().await;
    let pending = client.start("tools/call", call("work"));
    gate.reached(1).await;
    let question = json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": form("aside")});
    assert_eq!(server.ask_raw(question.to_string()), 1, "on the stream beside the call");
    let round = pending.finish().await.result();
    server.forget_sessions();
    gate.open();
    let again = retry(&call("work"), &round, "me");
    tidings_testkit::within("the call is over", async {
        while client.request("tools/call", again.clone()).await.response().value()["error"].is_null() {}
    })
    .await;
    // Over the new link: whatever was sent again would have come before it.
    assert_eq!(client.request("prompts/list", json!({})).await.result()["prompts"], json!([]));
    assert_eq!(server.count("tools/call"), 1);
}

/// An answer is sent again where it did not arrive: the call of its server waits for nothing else.
#[tokio::test]
async fn an_answer_that_does_not_arrive_is_sent_again() {
    let left = Arc::new(AtomicUsize::new(0));
    let refusing = Arc::clone(&left);
    let server = Server::builder("alpha")
        .tool("ask", |call| async move {
            let heard = call.elicit(form("who")).await.unwrap_or_default();
            call.ok_text(&heard["action"].to_string())
        })
        .on_http(move |got| {
            let is_lost =
                got.is_response() && refusing.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok();
            is_lost.then(|| ScriptedAnswer::http(503, "busy"))
        });
    let server = server.http().await;
    let gateway = Gateway::builder().server("alpha", &server).serve().await;
    let modern = gateway.client().modern().capabilities(declared()).connect().await;
    left.store(2, SeqCst);
    let round = modern.request("tools/call", call("ask")).await.result();
    assert_eq!(modern.request("tools/call", retry(&call("ask"), &round, "me")).await.text(), "\"accept\"");
    let legacy = gateway.client().capabilities(json!({"elicitation": {}})).connect().await;
    legacy.on_request(|_| ClientReply::Result(json!({"action": "decline"})));
    left.store(2, SeqCst);
    assert_eq!(legacy.request("tools/call", call("ask")).await.text(), "\"decline\"");
    assert_eq!(server.count("tools/call"), 2, "the calls themselves are sent once");
}

/// An answer that is refused with its session is a reason to look at the link: the next call has a good one.
#[tokio::test]
async fn an_answer_that_is_refused_with_its_session_has_the_link_checked() {
    let gone = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&gone);
    let server = Server::builder("alpha")
        .tool("ask", |call| async move {
            let heard = call.elicit(form("who")).await.unwrap_or_default();
            call.ok_text(&heard["action"].to_string())
        })
        .on_http(move |got| {
            seen.fetch_or(got.is_response(), SeqCst);
            let is_lost = seen.load(SeqCst) && got.verb == "POST" && got.method != "initialize" && got.connection == 1;
            is_lost.then(|| ScriptedAnswer::http(404, "no such session"))
        });
    let server = server.http().await;
    let gateway = Gateway::builder().server("alpha", &server).serve().await;
    let client = gateway.client().modern().capabilities(declared()).connect().await;
    let round = client.request("tools/call", call("ask")).await.result();
    let lost = client.start("tools/call", retry(&call("ask"), &round, "me"));
    server.wait_for_method("initialize", 2).await;
    server.wait_for(|got| got.method == "tools/list" && got.connection == 2).await;
    let round = client.request("tools/call", call("ask")).await.result();
    assert_eq!(client.request("tools/call", retry(&call("ask"), &round, "me")).await.text(), "\"accept\"");
    assert_eq!(server.count("tools/call"), 2, "what has asked is not sent again");
    drop(lost);
}

/// A call whose answer can not be delivered is over: nobody waits for its time-out, and its server is told.
#[tokio::test]
async fn a_call_whose_answer_is_lost_does_not_wait_for_its_time_out() {
    let cancelled = Arc::new(AtomicUsize::new(0));
    let heard = Arc::clone(&cancelled);
    let server = Server::builder("alpha")
        .tool("ask", move |call| {
            let heard = Arc::clone(&heard);
            async move {
                let (_, answer) = call.ask_raw("elicitation/create", form("who").to_string().as_bytes());
                tokio::select! {
                    _ = answer => call.ok_text("answered"),
                    () = call.cancelled() => {
                        heard.fetch_add(1, SeqCst);
                        call.ok_text("cancelled")
                    }
                }
            }
        })
        .on_http(move |got| got.is_response().then(|| ScriptedAnswer::http(400, "not that")));
    let server = server.http().await;
    let gateway = Gateway::builder().server("alpha", &server).serve().await;
    let modern = gateway.client().modern().capabilities(declared()).connect().await;
    let round = modern.request("tools/call", call("ask")).await.result();
    let again = retry(&call("ask"), &round, "me");
    for _ in 0..2 {
        let error = modern.request("tools/call", again.clone()).await.response().error();
        assert_eq!(error["code"], -32603, "{error}");
        assert!(error["message"].to_string().contains("could not be told the answer"), "{error}");
    }
    let legacy = gateway.client().capabilities(json!({"elicitation": {}})).connect().await;
    legacy.on_request(|_| ClientReply::Result(json!({"action": "decline"})));
    let error = legacy.request("tools/call", call("ask")).await.response().error();
    assert!(error["message"].to_string().contains("could not be told the answer"), "{error}");
    let told = async {
        while cancelled.load(SeqCst) < 2 {
            tokio::task::yield_now().await;
        }
    };
    within("both calls of the server to be cancelled", told).await;
    assert_eq!(server.count("tools/call"), 2, "no call was sent again");
}

/// A question that is withdrawn before it was shown leaves nothing behind: not the question, and not the time without end.
// bridging B3
#[tokio::test]
async fn a_question_that_is_withdrawn_at_once_is_not_shown() {
    let server = Server::builder("alpha").tool("ask", |call| async move {
        let (id, unheard) = call.ask_raw("elicitation/create", form("never mind").to_string().as_bytes());
        drop(unheard);
        let params = format!("{{\"requestId\":{id}}}");
        call.notify_raw(format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{params}}}"));
        call.cancelled().await;
        call.ok_text("never")
    });
    let server = server.stdio().await;
    let gateway = Gateway::builder().server_with("alpha", &server, "timeout = \"400ms\"").serve().await;
    let client = gateway.client().modern().capabilities(declared()).connect().await;
    let reply = client.request("tools/call", call("ask")).await;
    assert_eq!(reply.error_code(), -32603, "its server is silent for longer than it may be");
}

// bridging B6
#[tokio::test]
async fn closing_or_cancelling_a_retry_cancels_the_call() {
    for on_stdio in [false, true] {
        let server = waiting().stdio().await;
        let gateway = Gateway::builder().server("alpha", &server).serve().await;
        let client = if on_stdio { gateway.stdio() } else { gateway.client() };
        let client = client.modern().capabilities(declared()).connect().await;
        let params = call("ask");
        let round = client.request("tools/call", params.clone()).await.result();
        // The end of the first response was no cancellation: the server still waits.
        let pending = client.start("tools/call", retry(&params, &round, "me"));
        server.wait_for(tidings_testkit::ReceivedMessage::is_response).await;
        assert_eq!(server.count("notifications/cancelled"), 0);
        if on_stdio {
            client.cancel(&pending).await;
        } else {
            drop(pending);
        }
        server.wait_for_method("notifications/cancelled", 0).await;
    }
}

// bridging B6
#[tokio::test]
async fn a_restart_says_that_the_call_has_to_be_made_again() {
    let server = asking().http().await;
    let gateway = Gateway::builder().server("alpha", &server).serve().await;
    let client = gateway.client().modern().capabilities(declared()).connect().await;
    let params = call("ask");
    let round = client.request("tools/call", params.clone()).await.result();
    let again = retry(&params, &round, "me");
    let key = std::fs::metadata(gateway.data().join("seal.key")).expect("the key is kept");
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&key.permissions()) & 0o777, 0o600);
    gateway.kill().await;
    let gateway = gateway.again().await;
    let client = gateway.client().modern().capabilities(declared()).connect().await;
    let reply = client.request("tools/call", again).await;
    assert_eq!(reply.error_code(), -32603);
    assert!(reply.error()["message"].as_str().unwrap_or_default().contains("call again"), "{}", reply.error());
    assert_eq!(server.count("tools/call"), 1, "it is not run a second time by itself");
    let (reply, _) = client.rounds("tools/call", &params, answer("new")).await;
    assert_answered_by(&reply.text(), "new");
}

// bridging B6
#[tokio::test]
async fn an_answer_that_came_meanwhile_waits_and_progress_is_shown_under_the_token_of_the_retry() {
    let server = Server::builder("alpha")
        .tool("impatient", |call| async move {
            let (_, _unheard) = call.ask_raw("elicitation/create", form("never mind").to_string().as_bytes());
            tokio::time::sleep(Duration::from_millis(300)).await;
            call.ok_text("went on")
        })
        .tool("busy", |call| async move {
            call.elicit(form("go?")).await.ok();
            call.progress(1);
            call.ok_text("done")
        })
        .http()
        .await;
    let gateway = Gateway::builder().server("alpha", &server).serve().await;
    let client = gateway.client().modern().capabilities(declared()).connect().await;
    let (reply, asked) = client.rounds("tools/call", &call("impatient"), answer("me")).await;
    assert_eq!((reply.text().as_str(), asked.len()), ("went on", 1));
    let first = client.call("tools/call").params(call("busy")).progress_token("\"one\"").send().await.result();
    let again = retry(&call("busy"), &first, "me");
    let reply = client.call("tools/call").params(again).progress_token("\"two\"").send().await;
    assert_eq!(reply.text(), "done");
    let shown = reply.before_with("notifications/progress");
    assert_eq!(shown.iter().map(|message| message.param(&["progressToken"])).collect::<Vec<_>>(), [json!("two")]);
}

// bridging D: what nobody can be shown is counted.
#[tokio::test]
async fn messages_that_are_dropped_while_a_call_waits_are_counted() {
    let gate = Gate::new();
    let waits = gate.clone();
    let server = Server::builder("alpha")
        .tool("noisy", move |call| {
            let waits = waits.clone();
            async move {
                let (_, answer) = call.ask_raw("elicitation/create", form("go?").to_string().as_bytes());
                waits.wait().await;
                for step in 1..=3 {
                    call.progress(step);
                }
                call.log("error", "nobody is there");
                answer.await.ok();
                call.ok_text("done")
            }
        })
        .http()
        .await;
    let gateway = Gateway::builder().server("alpha", &server).serve().await;
    let client = gateway.client().modern().capabilities(declared()).log_level("info").connect().await;
    let first = client.call("tools/call").params(call("noisy")).progress_token("\"one\"").send().await.result();
    let dropped = "tidings_call_messages_dropped_total{reason=\"waiting\"}";
    assert_eq!(gateway.metric(dropped).await, Some(0.0));
    gate.open();
    // The log message comes last: by then only the newest progress is kept.
    gateway.wait_metric(dropped, |count| count >= 3.0).await;
    let again = retry(&call("noisy"), &first, "me");
    let reply = client.call("tools/call").params(again).progress_token("\"two\"").send().await;
    assert_eq!(reply.text(), "done");
    let shown = reply.before_with("notifications/progress");
    assert_eq!(shown.iter().map(|message| message.param(&["progress"])).collect::<Vec<_>>(), [json!(3)]);
    assert_eq!(gateway.metric(dropped).await, Some(3.0));
}

// bridging B6
#[tokio::test]
async fn all_who_wait_have_an_answer_when_the_server_dies() {
    let server = waiting().stdio().await;
    let gateway = Gateway::builder().server("alpha", &server).serve().await;
    let client = gateway.client().modern().capabilities(declared()).connect().await;
    let params = call("ask");
    let round = client.request("tools/call", params.clone()).await.result();
    let again = retry(&params, &round, "me");
    let pending = client.start("tools/call", again.clone());
    server.wait_for(tidings_testkit::ReceivedMessage::is_response).await;
    server.exit(3);
    assert_eq!(pending.finish().await.error_code(), -32603);
    assert_eq!(client.request("tools/call", again).await.error_code(), -32603, "and later ones the same");
    assert_eq!(server.count("tools/call"), 1);
}
