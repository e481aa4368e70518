//! Cancellations through the real gateway: they reach the one server that runs the request, or nobody.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tidings_testkit::{
    Client, DISCONNECTED, Gate, Gateway, PendingExchange, ReceivedMessage, ScriptedAnswer, ScriptedCall, Server,
    V2025_06_18, V2025_11_25, eventually,
};

/// A server with a tool that runs until the gate opens or the call is cancelled, and one that answers at once.
fn script(name: &str, gate: &Gate) -> tidings_testkit::ServerBuilder {
    let gate = gate.clone();
    Server::builder(name)
        .tool("slow", move |call| {
            let gate = gate.clone();
            async move { slow(&call, &gate).await }
        })
        .echo("echo")
}

async fn slow(call: &ScriptedCall, gate: &Gate) -> ScriptedAnswer {
    call.progress(1);
    tokio::select! {
        () = gate.wait() => call.ok_text("done"),
        () = call.cancelled() => call.ok_text("too late"),
    }
}

fn start(client: &Client, tool: &str, id: &str, who: &str) -> PendingExchange {
    let params = json!({"name": tool, "arguments": {"who": who}});
    client.call("tools/call").id(id).params(params).start()
}

/// The call as the server got it.
async fn arrived(server: &Server, who: &str) -> ReceivedMessage {
    server.wait_for(|r| r.method == "tools/call" && r.param(&["arguments", "who"]) == who).await
}

fn raw_id(message: &ReceivedMessage) -> String {
    message.id.as_ref().expect("a request has an id").as_str().to_owned()
}

/// The ids that the server was told to cancel, as raw JSON with the number of the connection.
fn cancelled(server: &Server) -> Vec<(usize, String)> {
    let all = server.received();
    let cancelled = all.iter().filter(|r| r.method == "notifications/cancelled");
    cancelled.map(|r| (r.connection, r.param_raw(&["requestId"]))).collect()
}

async fn wait_cancelled(server: &Server, call: &ReceivedMessage) {
    let id = raw_id(call);
    server.wait_for(|r| r.method == "notifications/cancelled" && r.param_raw(&["requestId"]) == id).await;
}

async fn unknown_cancellations(gateway: &Gateway, count: usize) {
    let unknown = |line: &String| line.contains("WARN") && line.contains("cancellation of an unknown request");
    gateway.stderr().wait_for_nth("a warning about a cancellation", count, unknown).await;
}

// S2.1
#[tokio::test]
async fn a_cancellation_reaches_only_the_server_that_runs_the_request_with_its_own_id() {
    for kind in ["legacy http", "legacy stdio", "modern stdio"] {
        let gate = Gate::new();
        let process = script("alpha", &gate).stdio().await;
        let remote = script("beta", &gate).http().await;
        let modern = script("gamma", &gate).modern_only().stdio().await;
        let servers = [("alpha", &process), ("beta", &remote), ("gamma", &modern)];
        let builder = servers.iter().fold(Gateway::builder(), |builder, (name, server)| builder.server(name, server));
        let (client, _gateway) = match kind {
            "legacy http" => {
                let gateway = builder.serve().await;
                (gateway.client().connect().await, Some(gateway))
            }
            "legacy stdio" => (builder.stdio().connect().await, None),
            _ => (builder.stdio().modern().connect().await, None),
        };
        for (name, server) in servers {
            let mut running = Vec::new();
            for (other, _) in servers {
                running.push((other, start(&client, &format!("{other}__slow"), &format!("\"{name}-{other}\""), name)));
            }
            for (_, other) in servers {
                arrived(other, name).await;
            }
            let doomed = running.iter().find(|(other, _)| *other == name).expect("each server runs one");
            client.cancel(&doomed.1).await;
            let call = arrived(server, name).await;
            wait_cancelled(server, &call).await;
            assert_eq!(cancelled(server), [(call.connection, raw_id(&call))], "{kind}, {name}");
        }
        gate.open();
        for (_, server) in servers {
            assert_eq!(cancelled(server).len(), 1, "{kind}");
            server.assert_clean();
        }
    }
}

// S2.1
#[tokio::test]
async fn zero_and_one_and_quoted_one_are_three_requests() {
    let gate = Gate::new();
    for server in [script("alpha", &gate).stdio().await, script("alpha", &gate).http().await] {
        gate.close();
        let gateway = Gateway::builder().server("alpha", &server).serve().await;
        let client = gateway.client().connect().await;
        let [zero, one, quoted] = ["0", "1", "\"1\""].map(|id| start(&client, "slow", id, id));
        for id in ["0", "1", "\"1\""] {
            arrived(&server, id).await;
        }
        client.cancel(&quoted).await;
        let call = arrived(&server, "\"1\"").await;
        wait_cancelled(&server, &call).await;
        client.cancel(&zero).await;
        let call = arrived(&server, "0").await;
        wait_cancelled(&server, &call).await;
        assert_eq!(cancelled(&server).len(), 2);
        gate.open();
        let answer = one.finish().await;
        assert_eq!((answer.text().as_str(), raw_id(answer.response()).as_str()), ("done", "1"));
        assert!(quoted.finish().await.response.is_none());
        assert!(zero.finish().await.response.is_none());
        server.assert_clean();
    }
}

// S2.1, bridging 28
#[tokio::test]
async fn two_clients_with_the_same_id_do_not_meet() {
    let gate = Gate::new();
    for server in [script("alpha", &gate).stdio().await, script("alpha", &gate).http().await] {
        gate.close();
        let gateway = Gateway::builder().server("alpha", &server).serve().await;
        let (one, two) = (gateway.client().connect().await, gateway.client().connect().await);
        let modern = gateway.client().modern().connect().await;
        let [first, second, third] =
            [(&one, "one"), (&two, "two"), (&modern, "modern")].map(|(client, who)| start(client, "slow", "7", who));
        for who in ["one", "two", "modern"] {
            arrived(&server, who).await;
        }
        one.cancel(&first).await;
        let call = arrived(&server, "one").await;
        wait_cancelled(&server, &call).await;
        gate.open();
        assert_eq!(second.finish().await.text(), "done");
        assert_eq!(third.finish().await.text(), "done");
        assert!(first.finish().await.response.is_none());
        assert_eq!(cancelled(&server), [(call.connection, raw_id(&call))]);
    }
}

// S2.6, bridging 31
#[tokio::test]
async fn a_cancellation_of_an_unknown_request_is_a_warning_and_nothing_else() {
    let gate = Gate::new();
    let server = script("alpha", &gate).stdio().await;
    let gateway = Gateway::builder().server("alpha", &server).serve().await;
    let (client, other) = (gateway.client().connect().await, gateway.client().connect().await);
    client.notify("notifications/cancelled", json!({"requestId": 99})).await;
    unknown_cancellations(&gateway, 1).await;
    // Over by now.
    let over = client.call("tools/call").id("5").params(json!({"name": "echo", "arguments": {}})).send().await;
    over.result();
    client.notify("notifications/cancelled", json!({"requestId": 5})).await;
    unknown_cancellations(&gateway, 2).await;
    // Somebody else's.
    let running = start(&client, "slow", "6", "client");
    arrived(&server, "client").await;
    other.notify("notifications/cancelled", json!({"requestId": 6})).await;
    unknown_cancellations(&gateway, 3).await;
    gate.open();
    assert_eq!(running.finish().await.text(), "done");
    assert_eq!(cancelled(&server), []);
    let warnings = gateway.stderr().all().iter().filter(|line| line.contains("WARN")).count();
    assert_eq!(warnings, 3, "{}", gateway.stderr().dump());
}

// bridging 31: ids of modern clients are not unique across their POSTs.
#[tokio::test]
async fn a_cancellation_posted_by_a_modern_client_is_accepted_and_ignored() {
    let gate = Gate::new();
    let server = script("alpha", &gate).stdio().await;
    let gateway = Gateway::builder().server("alpha", &server).serve().await;
    let client = gateway.client().modern().connect().await;
    let running = start(&client, "slow", "6", "client");
    arrived(&server, "client").await;
    client.cancel(&running).await;
    gate.open();
    assert_eq!(running.finish().await.text(), "done");
    assert_eq!(cancelled(&server), []);
}

// bridging 30: the server answers although it was told to stop.
#[tokio::test]
async fn an_answer_behind_a_cancellation_is_dropped() {
    let gate = Gate::new();
    for server in [script("alpha", &gate).stdio().await, script("alpha", &gate).http().await] {
        let client = Gateway::builder().server("alpha", &server).stdio().connect().await;
        let running = start(&client, "slow", "70", "client");
        let call = arrived(&server, "client").await;
        client.cancel(&running).await;
        wait_cancelled(&server, &call).await;
        // The server's late answer is written before this one.
        client.call_tool("echo", json!({})).await.result();
        client.close_stdin();
        assert!(client.wait_exit().await.success());
        let answers = client.received().iter().filter(|r| r.is_response() && raw_id(r) == "70").count();
        assert_eq!(answers, 0);
    }
}

// bridging 30: in whatever order they meet, there is an answer or a cancellation, and the id is free again. A server that has
// answered by then need not be told of the cancellation.
#[tokio::test]
async fn an_answer_and_a_cancellation_that_cross_have_one_outcome() {
    let gate = Gate::new();
    let done: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let script = || {
        let (gate, done) = (gate.clone(), Arc::clone(&done));
        let server = Server::builder("alpha").echo("echo");
        server.tool("slow", move |call| {
            let (gate, done) = (gate.clone(), Arc::clone(&done));
            async move {
                tokio::select! {
                    () = gate.wait() => {
                        done.lock().expect("no test panicked").insert(call.id().as_str().to_owned());
                        call.ok_text("done")
                    }
                    () = call.cancelled() => call.ok_text("too late"),
                }
            }
        })
    };
    for server in [script().stdio().await, script().http().await] {
        done.lock().expect("no test panicked").clear();
        let gateway = Gateway::builder().server("alpha", &server).serve().await;
        let client = gateway.client().connect().await;
        let mut answered = BTreeSet::new();
        let told = || -> BTreeSet<String> { cancelled(&server).into_iter().map(|(_, id)| id).collect() };
        for round in 0..40 {
            let who = format!("round {round}");
            let running = start(&client, "slow", "7", &who);
            let call = arrived(&server, &who).await;
            // A pass that a cancelled call did not take lets the next one answer at once: one more order.
            if round % 2 == 0 {
                gate.release();
                client.cancel(&running).await;
            } else {
                tokio::join!(client.cancel(&running), async { gate.release() });
            }
            let outcome = running.finish().await;
            if outcome.response.is_some() {
                assert_eq!(outcome.text(), "done");
                answered.insert(raw_id(&call));
            } else {
                let id = raw_id(&call);
                let is_over =
                    || (told().contains(&id) || done.lock().expect("no test panicked").contains(&id)).then_some(());
                eventually("the server is told, or has answered", is_over).await;
            }
        }
        client.call_tool("echo", json!({})).await.result();
        let told = told();
        assert!(told.is_disjoint(&answered), "answered {answered:?}, told to cancel {told:?}");
        let done = done.lock().expect("no test panicked").clone();
        let all: BTreeSet<&String> = told.iter().chain(&answered).chain(&done).collect();
        assert_eq!(all.len(), 40, "answered {answered:?}, told {told:?}, done {done:?}");
        assert_eq!(cancelled(&server).len(), told.len());
    }
}

// bridging 30: the cancellation overtakes the work that precedes sending the request.
#[tokio::test]
async fn a_cancellation_right_behind_its_request_is_not_lost() {
    let gate = Gate::new();
    let server = script("alpha", &gate).stdio().await;
    let client = Gateway::builder().server("alpha", &server).stdio().connect().await;
    for id in 100..140 {
        let params = json!({"name": "slow", "arguments": {}});
        client.write_line(json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string());
        let params = json!({"requestId": id});
        let message = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
        client.write_line(message.to_string());
    }
    // At the end of its input the gateway waits for what still runs.
    client.close_stdin();
    assert!(client.wait_exit().await.success());
    let answers: Vec<Value> =
        client.received().iter().filter(|r| r.is_response()).map(ReceivedMessage::value).collect();
    assert_eq!(answers.len(), 1, "only initialize is answered: {answers:?}");
    let ran = server.count("tools/call");
    assert_eq!(cancelled(&server).len(), ran);
}

// bridging 33
#[tokio::test]
async fn a_legacy_call_goes_on_without_its_stream_and_can_be_resumed() {
    let gate = Gate::new();
    for server in [script("alpha", &gate).stdio().await, script("alpha", &gate).http().await] {
        for revision in [V2025_06_18, V2025_11_25] {
            gate.close();
            let gateway = Gateway::builder().server("alpha", &server).serve().await;
            let client = gateway.client().revision(revision).connect().await;
            let params = json!({"name": "slow", "arguments": {"who": revision}});
            let mut running = client.call("tools/call").id("9").params(params).progress_token("3").start();
            running.next_method("notifications/progress").await;
            let last = running.last_event_id().expect("events have ids").to_owned();
            drop(running);
            arrived(&server, revision).await;
            // The gateway has seen the connection close once it serves others after it.
            client.call_tool("echo", json!({})).await.result();
            gate.open();
            let resumed = client.resume(&last).await.finish().await;
            assert_eq!((resumed.text().as_str(), raw_id(resumed.response()).as_str()), ("done", "9"));
            assert_eq!(resumed.before.len(), 0, "only what came after the last event: {resumed:?}");
            assert_eq!(cancelled(&server), []);
        }
    }
}

// bridging 33, S2.1
#[tokio::test]
async fn a_modern_call_is_cancelled_when_its_stream_closes() {
    let gate = Gate::new();
    let servers = [
        ("legacy stdio", script("alpha", &gate).stdio().await),
        ("legacy http", script("alpha", &gate).http().await),
        ("modern stdio", script("alpha", &gate).modern_only().stdio().await),
        ("modern http", script("alpha", &gate).modern_only().http().await),
    ];
    for (kind, server) in &servers {
        let gateway = Gateway::builder().server("alpha", server).serve().await;
        let client = gateway.client().modern().connect().await;
        let kept = start(&client, "slow", "1", "kept");
        arrived(server, "kept").await;
        // Before the response has begun, and after.
        for early in [true, false] {
            let who = format!("early {early}");
            let params = json!({"name": "slow", "arguments": {"who": who}});
            let request = client.call("tools/call").id("1").params(params);
            let mut running = if early { request.start() } else { request.progress_token("5").start() };
            let call = arrived(server, &who).await;
            if !early {
                running.next_method("notifications/progress").await;
            }
            drop(running);
            if *kind == "modern http" {
                let id = call.id.clone();
                server.wait_for(|r| r.method == DISCONNECTED && r.id == id).await;
            } else {
                wait_cancelled(server, &call).await;
            }
        }
        gate.open();
        assert_eq!(kept.finish().await.text(), "done", "{kind}");
        gate.close();
        let kept = raw_id(&arrived(server, "kept").await);
        assert!(cancelled(server).iter().all(|(_, id)| *id != kept), "{kind}");
        server.assert_clean();
    }
}

// edges G13
#[tokio::test]
async fn in_a_storm_of_cancellations_no_call_goes_on_at_the_server() {
    const CALLS: usize = 60;
    let running = std::sync::Arc::new(std::sync::Mutex::new(BTreeSet::new()));
    let record = std::sync::Arc::clone(&running);
    let server = Server::builder("beta")
        .tool("slow", move |call| {
            let record = std::sync::Arc::clone(&record);
            async move {
                let who = call.argument("who").to_string();
                record.lock().expect("a record").insert(who.clone());
                if call.argument("early") == true {
                    call.progress(1);
                }
                call.cancelled().await;
                record.lock().expect("a record").remove(&who);
                call.ok_text("too late")
            }
        })
        .http()
        .await;
    let (slow_road, on_the_road) = slow_road(&server).await;
    let gateway = Gateway::builder().toml(&format!("[servers.beta]\nurl = \"{slow_road}\"")).serve().await;
    let client = gateway.client().connect().await;
    let mut calls = Vec::new();
    for i in 0..CALLS {
        let arguments = json!({"who": format!("{i}"), "early": i % 2 == 0});
        let params = json!({"name": "slow", "arguments": arguments});
        calls.push(client.call("tools/call").params(params).progress_token(&i.to_string()).start());
    }
    // The gateway has sent all of them, and the server has none.
    let all_sent = || (on_the_road.load(std::sync::atomic::Ordering::SeqCst) >= CALLS).then_some(());
    tidings_testkit::eventually("all calls to be sent", all_sent).await;
    for call in &calls {
        client.cancel(call).await;
    }
    server.record().wait_for_nth("all calls", CALLS, |r| r.method == "tools/call").await;
    let left = || running.lock().expect("a record").clone();
    let mut quiet = 0;
    tidings_testkit::within("the end of every call", async {
        // A call may begin late.
        while quiet < 20 {
            quiet = if left().is_empty() { quiet + 1 } else { 0 };
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    })
    .await;
    assert_eq!(left(), BTreeSet::new());
}

/// A way to a server on which calls take longer than anything else, so that what is sent after them arrives before them. As
/// proxies do, it brings what it was given to the server also when whoever gave it is gone. Counts the calls.
async fn slow_road(server: &Server) -> (String, std::sync::Arc<std::sync::atomic::AtomicUsize>) {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    const LONGER: std::time::Duration = std::time::Duration::from_millis(500);
    let to = server.url().trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
    let calls = std::sync::Arc::new(AtomicUsize::new(0));
    let counter = std::sync::Arc::clone(&calls);
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let Ok(far) = tokio::net::TcpStream::connect(&to).await else { return };
            let ((mut from, mut back), (mut answers, mut onward)) = (near.into_split(), far.into_split());
            let calls = std::sync::Arc::clone(&counter);
            tokio::spawn(async move { tokio::io::copy(&mut answers, &mut back).await });
            tokio::spawn(async move {
                let mut chunk = vec![0; 64 << 10];
                while let Ok(read @ 1..) = from.read(&mut chunk).await {
                    if chunk[..read].windows(10).any(|window| window == b"tools/call") {
                        calls.fetch_add(1, Ordering::SeqCst);
                        tokio::time::sleep(LONGER).await;
                    }
                    if onward.write_all(&chunk[..read]).await.is_err() {
                        return;
                    }
                }
                tokio::time::sleep(tidings_testkit::DEADLINE).await;
            });
        }
    });
    (url, calls)
}
