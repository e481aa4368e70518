//! Introductions, names, progress, notifications and order, through the real gateway with several servers and clients.

use bytes::Bytes;
use serde_json::{Value, json};
use tidings_testkit::{
    Client, Gate, Gateway, ReceivedMessage, ScriptedAnswer, ScriptedCall, Server, ServerBuilder, V2025_06_18,
    V2025_11_25, within,
};

async fn start(script: ServerBuilder, transport: &str) -> Server {
    if transport == "stdio" { script.stdio().await } else { script.http().await }
}

const TRANSPORTS: [&str; 2] = ["stdio", "http"];

// S2.2, bridging 32
#[tokio::test]
async fn a_shared_server_is_introduced_once_for_three_sessions() {
    for transport in TRANSPORTS {
        let server = start(Server::builder("alpha").echo("echo"), transport).await;
        let gateway = Gateway::builder().server("alpha", &server).serve().await;
        for revision in [V2025_06_18, V2025_11_25, V2025_11_25] {
            let client = gateway.client().revision(revision).connect().await;
            client.call_tool("echo", json!({})).await.result();
        }
        assert_eq!((server.count("initialize"), server.count("notifications/initialized")), (1, 1), "{transport}");
        let all: Vec<String> = server.received().into_iter().map(|r| r.method).collect();
        let place = |method: &str| all.iter().position(|m| m == method).expect("it was sent");
        assert!(place("initialize") < place("notifications/initialized"));
        assert!(place("notifications/initialized") < place("tools/list"));
        server.assert_clean();
    }
}

// S2.2
#[tokio::test]
async fn a_server_that_fails_or_hangs_in_its_introduction_blocks_nobody() {
    let failing = Server::builder("failing").exit_on("initialize", 3).stdio().await;
    let refusing = Server::builder("refusing").on_raw("initialize", |_| async { ScriptedAnswer::error(-32603, "no") });
    let refusing = refusing.http().await;
    let hanging = Server::builder("hanging").silent_on("initialize").stdio().await;
    let good = Server::builder("good").echo("echo").stdio().await;
    let servers = [("failing", &failing), ("refusing", &refusing), ("hanging", &hanging), ("good", &good)];
    let builder = Gateway::builder().toml("[gateway]\nstart_wait = \"1h\"");
    let builder = servers.iter().fold(builder, |builder, (name, server)| builder.server(name, server));
    let gateway = builder.without_waiting().serve().await;
    let client = gateway.client().connect().await;
    client.call_tool("good__echo", json!({})).await.result();
    good.wait_for_method("notifications/initialized", 1).await;
    for name in ["failing", "refusing"] {
        let logged = |line: &String| line.contains("WARN") && line.contains(&format!("server={name}"));
        gateway.stderr().wait_for("a warning about the server", logged).await;
    }
    assert_eq!(failing.count("notifications/initialized"), 0);
    assert_eq!(refusing.count("notifications/initialized"), 0);
}

// S2.2
#[tokio::test]
async fn a_server_that_comes_later_is_introduced_too() {
    for transport in TRANSPORTS {
        let late = start(Server::builder("late").echo("echo"), transport).await;
        let good = Server::builder("good").echo("echo").stdio().await;
        late.kill().await;
        let gateway = Gateway::builder().server("late", &late).server("good", &good).serve().await;
        let client = gateway.client().connect().await;
        assert_eq!(client.names("tools").await, ["good__echo"]);
        late.revive().await;
        within("the tools of the late server", async {
            while !client.names("tools").await.contains(&"late__echo".to_owned()) {
                tokio::task::yield_now().await;
            }
        })
        .await;
        client.call_tool("late__echo", json!({})).await.result();
        assert_eq!((late.count("initialize"), late.count("notifications/initialized")), (1, 1), "{transport}");
        assert_eq!(good.count("notifications/initialized"), 1);
    }
}

/// Waits until `count` calls are at the gate, reports progress under a message of its own, and ends.
fn steps(name: &str, gate: &Gate) -> ServerBuilder {
    let gate = gate.clone();
    Server::builder(name).echo("echo").tool("steps", move |call| {
        let gate = gate.clone();
        async move {
            gate.wait().await;
            for step in 1..=3 {
                call.progress(json!({"progress": step, "total": 3, "message": call.argument("who")}));
                tokio::task::yield_now().await;
            }
            call.ok_text("done")
        }
    })
}

fn tokens(messages: &[ReceivedMessage]) -> Vec<(String, Value, Value)> {
    let progress = messages.iter().filter(|m| m.method == "notifications/progress");
    progress.map(|p| (p.param_raw(&["progressToken"]), p.param(&["message"]), p.param(&["progress"]))).collect()
}

// S2.3, bridging 29
#[tokio::test]
async fn progress_carries_the_callers_own_token_when_clients_and_servers_use_equal_ones() {
    for transport in TRANSPORTS {
        let gate = Gate::new();
        let alpha = start(steps("alpha", &gate), transport).await;
        let beta = start(steps("beta", &gate), transport).await;
        let gateway = Gateway::builder().server("alpha", &alpha).server("beta", &beta).serve().await;
        let clients = [gateway.client().connect().await, gateway.client().connect().await];
        let modern = gateway.client().modern().connect().await;
        let mut running = Vec::new();
        for (number, client) in clients.iter().chain([&modern]).enumerate() {
            for (server, token) in [("alpha", "1"), ("beta", "\"1\""), ("alpha", "1.0"), ("beta", "\"\\u0031\"")] {
                let who = format!("{number} {server} {token}");
                let params = json!({"name": format!("{server}__steps"), "arguments": {"who": who}});
                let pending = client.call("tools/call").params(params).progress_token(token).start();
                running.push((who, token, pending));
            }
        }
        gate.reached(12).await;
        gate.open();
        for (who, token, pending) in running {
            let exchange = pending.finish().await;
            let expected: Vec<_> = (1..=3).map(|step| (token.to_owned(), json!(who), json!(step))).collect();
            assert_eq!(tokens(&exchange.before), expected, "{transport}");
        }
        for client in &clients {
            assert_eq!(client.count("notifications/progress"), 12);
        }
        alpha.assert_clean();
        beta.assert_clean();
    }
}

// S2.3
#[tokio::test]
async fn progress_that_does_not_rise_is_not_delivered() {
    for transport in TRANSPORTS {
        let script = Server::builder("alpha").tool("steps", |call| async move {
            for step in [json!(1), json!(1), json!(0.5), json!(2), json!(2.0), json!(1.5), json!(2.5)] {
                call.progress(step);
            }
            call.ok_text("done")
        });
        let server = start(script, transport).await;
        let gateway = Gateway::builder().server("alpha", &server).serve().await;
        let client = gateway.client().connect().await;
        let params = json!({"name": "steps"});
        let exchange = client.call("tools/call").params(params).progress_token("7").send().await;
        let values: Vec<Value> = tokens(&exchange.before).into_iter().map(|(_, _, progress)| progress).collect();
        assert_eq!(values, [json!(1), json!(2), json!(2.5)], "{transport}");
    }
}

// S2.3
#[tokio::test]
async fn progress_after_the_response_is_not_delivered() {
    for transport in TRANSPORTS {
        let server = start(steps("alpha", &opened()), transport).await;
        let gateway = Gateway::builder().server("alpha", &server).serve().await;
        let client = gateway.client().connect().await;
        let _stream = client.open_get().await;
        let params = json!({"name": "steps", "arguments": {"who": "me"}});
        client.call("tools/call").params(params).progress_token("7").send().await.result();
        let call = server.wait_for_method("tools/call", 1).await;
        let token = call.param(&["_meta", "progressToken"]);
        // While the call after it runs, too: a token is never given out again.
        server.notify("notifications/progress", json!({"progressToken": token, "progress": 9}));
        server.notify("notifications/vendor/last", json!({}));
        client.wait_for_method("notifications/vendor/last", 1).await;
        assert_eq!(client.count("notifications/progress"), 3, "{transport}");
    }
}

fn opened() -> Gate {
    let gate = Gate::new();
    gate.open();
    gate
}

// S2.3: some servers report on their standalone stream; the token says whose it is.
#[tokio::test]
async fn progress_beside_the_stream_of_a_call_reaches_its_caller() {
    let gate = Gate::new();
    let server = steps("alpha", &gate).http().await;
    let gateway = Gateway::builder().server("alpha", &server).serve().await;
    let (one, two) = (gateway.client().connect().await, gateway.client().connect().await);
    let [mut first, second] = [&one, &two]
        .map(|client| client.call("tools/call").params(json!({"name": "steps"})).progress_token("\"mine\"").start());
    gate.reached(2).await;
    let call = server.wait_for_method("tools/call", 1).await;
    let params = json!({"progressToken": call.param(&["_meta", "progressToken"]), "progress": 0.5});
    server.notify("notifications/progress", params);
    // Whichever of the two came first at the server.
    let mut second = second;
    let (mine, other) = tokio::select! {
        progress = first.next_method("notifications/progress") => (progress, second),
        progress = second.next_method("notifications/progress") => (progress, first),
    };
    assert_eq!(mine.param_raw(&["progressToken"]), "\"mine\"");
    assert_eq!(mine.param(&["progress"]), 0.5);
    gate.open();
    let values: Vec<Value> = tokens(&other.finish().await.before).into_iter().map(|(_, _, p)| p).collect();
    assert_eq!(values, [json!(1), json!(2), json!(3)]);
}

/// Members that nobody knows, numbers that no machine type holds, unusual escapes and order.
const ODD: &str = r#"{"z":1.50,"a":[1E+400,123456789012345678901234567890],"é":"\u00e9\/","o":{"x":null,"":{}}}"#;

fn odd_messages() -> [String; 2] {
    let log = format!(r#"{{"level":"warning","data":{ODD},"_meta":{{"v/x":1.0}},"extra":{ODD}}}"#);
    [
        format!(r#"{{"method":"notifications/vendor/thing","jsonrpc":"2.0","params":{ODD},"beside":[]}}"#),
        format!(r#"{{"params":{log},"jsonrpc":"2.0","method":"notifications/message"}}"#),
    ]
}

async fn speak(call: ScriptedCall) -> ScriptedAnswer {
    for message in odd_messages() {
        call.notify_raw(message);
    }
    call.ok_text("done")
}

// S2.4
#[tokio::test]
async fn unknown_notifications_and_log_messages_of_a_call_keep_every_byte() {
    let alpha = Server::builder("alpha").tool("speak", speak).stdio().await;
    let beta = Server::builder("beta").tool("speak", speak).http().await;
    let modern = Server::builder("gamma").modern_only().tool("speak", speak).http().await;
    let servers = [("alpha", &alpha), ("beta", &beta), ("gamma", &modern)];
    let gateway = servers.iter().fold(Gateway::builder(), |builder, (name, server)| builder.server(name, server));
    let gateway = gateway.serve().await;
    let clients = [gateway.client().connect().await, gateway.client().modern().log_level("debug").connect().await];
    for client in &clients {
        for (name, _) in servers {
            let exchange = client.call_tool(&format!("{name}__speak"), json!({})).await;
            let heard: Vec<&str> = exchange.before.iter().map(ReceivedMessage::text).collect();
            assert_eq!(heard, odd_messages(), "{name} to {}", client.revision());
        }
    }
}

// S2.4
#[tokio::test]
async fn an_unknown_notification_of_no_call_reaches_every_legacy_session_as_it_was() {
    for transport in TRANSPORTS {
        let server = start(Server::builder("alpha").echo("echo"), transport).await;
        let gateway = Gateway::builder().server("alpha", &server).serve().await;
        let clients = [gateway.client().connect().await, gateway.client().revision(V2025_06_18).connect().await];
        let streams = [clients[0].open_get().await, clients[1].open_get().await];
        let modern = gateway.client().modern().connect().await;
        let mut listening = modern.start("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
        listening.next_method("notifications/subscriptions/acknowledged").await;
        let [message, _] = odd_messages();
        assert_eq!(server.notify_raw(Bytes::from(message.clone())), 1);
        for mut stream in streams {
            assert_eq!(stream.next_method("notifications/vendor/thing").await.text(), message, "{transport}");
        }
        assert_eq!(modern.count("notifications/vendor/thing"), 0, "never on a subscription");
    }
}

// S2.4, bridging B5: beside the streams of calls it belongs to the only one in flight, or to none.
#[tokio::test]
async fn a_log_message_beside_the_streams_reaches_the_only_caller() {
    let gate = Gate::new();
    let server = steps("alpha", &gate).http().await;
    let gateway = Gateway::builder().server("alpha", &server).serve().await;
    let (one, two) = (gateway.client().connect().await, gateway.client().connect().await);
    let _streams = (one.open_get().await, two.open_get().await);
    let [_, log] = odd_messages();
    let mut first = one.start("tools/call", json!({"name": "steps"}));
    gate.reached(1).await;
    server.notify_raw(Bytes::from(log.clone()));
    assert_eq!(first.next_method("notifications/message").await.text(), log);
    let second = two.start("tools/call", json!({"name": "steps"}));
    gate.reached(2).await;
    server.notify_raw(Bytes::from(log));
    gateway.stderr().wait_for("the message in the gateway's log", |line| line.contains("1E+400")).await;
    gate.open();
    first.finish().await.result();
    second.finish().await.result();
    assert_eq!((one.count("notifications/message"), two.count("notifications/message")), (1, 0));
}

fn with_unlisted(name: &str) -> ServerBuilder {
    let text = move |call: ScriptedCall| async move { call.ok_text(&call.params()["name"].to_string()) };
    let listed = json!({"tools": [
        {"name": "shared", "inputSchema": {"type": "object"}},
        {"name": format!("only_{name}"), "inputSchema": {"type": "object"}},
    ]});
    Server::builder(name)
        .tool("shared", text)
        .tool(&format!("only_{name}"), text)
        .tool("unlisted", text)
        .instructions(&format!("How to use {name}."))
        .on_raw("tools/list", move |call| std::future::ready(call.ok(listed.clone())))
}

// S2.7
#[tokio::test]
async fn a_server_that_is_alone_speaks_for_itself() {
    for transport in TRANSPORTS {
        let server = start(with_unlisted("alpha"), transport).await;
        let gateway = Gateway::builder().server("configured", &server).serve().await;
        let client = gateway.client().connect().await;
        let introduction = client.initialize_result();
        assert_eq!(introduction["serverInfo"], json!({"name": "alpha", "version": "1.0.0"}));
        assert_eq!(introduction["instructions"], "How to use alpha.");
        assert_eq!(client.names("tools").await, ["shared", "only_alpha"]);
        for name in ["shared", "unlisted"] {
            assert_eq!(client.call_tool(name, json!({})).await.text(), format!("\"{name}\""), "{transport}");
        }
        assert_eq!(client.call_tool("configured__shared", json!({})).await.text(), "\"shared\"");
        let modern = gateway.client().modern().connect().await;
        let discovered = modern.request("server/discover", json!({})).await.result();
        assert_eq!(discovered["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "alpha");
        assert_eq!(discovered["instructions"], "How to use alpha.");
        assert_eq!(modern.call_tool("unlisted", json!({})).await.text(), "\"unlisted\"");
        server.assert_clean();
    }
}

// S2.7
#[tokio::test]
async fn several_servers_are_told_apart_by_prefix_and_other_spellings_are_understood() {
    let alpha = with_unlisted("alpha").stdio().await;
    let beta = with_unlisted("beta").http().await;
    let gateway = Gateway::builder().server("alpha", &alpha).server("beta", &beta).serve().await;
    let client = gateway.client().connect().await;
    let introduction = client.initialize_result();
    assert_eq!(introduction["serverInfo"]["name"], "tidings");
    let instructions = introduction["instructions"].as_str().unwrap_or_default().to_owned();
    let [first, second] = ["How to use alpha.", "How to use beta."].map(|text| instructions.find(text));
    assert!(first.is_some() && first < second, "{instructions}");
    let names = client.names("tools").await;
    assert_eq!(names, ["alpha__shared", "alpha__only_alpha", "beta__shared", "beta__only_beta"]);
    for (name, server, local) in [
        ("alpha__shared", &alpha, "shared"),
        ("beta__shared", &beta, "shared"),
        ("alpha:shared", &alpha, "shared"),
        ("beta:shared", &beta, "shared"),
        ("mcp_alpha_shared", &alpha, "shared"),
        ("mcp_beta_shared", &beta, "shared"),
        ("only_beta", &beta, "only_beta"),
    ] {
        let before = server.count("tools/call");
        assert_eq!(client.call_tool(name, json!({})).await.text(), format!("\"{local}\""), "{name}");
        assert_eq!(server.count("tools/call"), before + 1, "{name}");
    }
    for name in ["shared", "alpha__unlisted", "unlisted", "gamma__shared", "alpha__", "__shared"] {
        assert_eq!(client.call_tool(name, json!({})).await.error_code(), -32602, "{name}");
    }
    assert_eq!((alpha.count("tools/call"), beta.count("tools/call")), (3, 4));
}

async fn chatter(call: ScriptedCall) -> ScriptedAnswer {
    for number in 1..=250 {
        call.progress(number);
        call.log("info", number);
    }
    call.ok_text("done")
}

// S2.8
#[tokio::test]
async fn what_a_server_says_before_its_response_arrives_before_it_and_in_order() {
    let alpha = Server::builder("alpha").tool("chatter", chatter).stdio().await;
    let beta = Server::builder("beta").tool("chatter", chatter).http().await;
    let builder = || Gateway::builder().server("alpha", &alpha).server("beta", &beta);
    let gateway = builder().serve().await;
    let clients: [Client; 3] = [
        gateway.client().connect().await,
        gateway.client().modern().log_level("info").connect().await,
        builder().stdio().connect().await,
    ];
    let expected: Vec<(&str, Value)> = (1..=250)
        .flat_map(|number| [("notifications/progress", json!(number)), ("notifications/message", json!(number))])
        .collect();
    for client in &clients {
        for name in ["alpha__chatter", "beta__chatter"] {
            let request = client.call("tools/call").params(json!({"name": name})).progress_token("1");
            let exchange = request.send().await;
            assert_eq!(exchange.text(), "done");
            let heard: Vec<(&str, Value)> = exchange
                .before
                .iter()
                .map(|m| {
                    (
                        m.method.as_str(),
                        if m.method.ends_with("progress") { m.param(&["progress"]) } else { m.param(&["data"]) },
                    )
                })
                .collect();
            assert!(heard == expected, "{name} to {}: {} messages", client.revision(), heard.len());
        }
    }
}
