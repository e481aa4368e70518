//! Servers that are connected once per client: nobody waits for a link that is not needed, and links do not pile up.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use tidings_testkit::*;

const ISOLATED: &str = "isolation = \"session\"\npoll_interval = \"1h\"";
const ROOTS: &str = "notifications/roots/list_changed";

/// Far below the time that a handshake may take, far above what a call needs on a busy machine.
const SOON: Duration = Duration::from_secs(15);

async fn soon<T>(what: &str, work: impl Future<Output = T>) -> T {
    let started = Instant::now();
    let done = work.await;
    assert!(started.elapsed() < SOON, "{what} took {:?}", started.elapsed());
    done
}

/// The connections on which a tool was called, in order.
fn called_on(server: &Server) -> Vec<usize> {
    server.received().iter().filter(|r| r.method == "tools/call").map(|r| r.connection).collect()
}

fn living(server: &Server) -> usize {
    server.processes().iter().filter(|process| process.alive).count()
}

// edges B2; S2.2
#[tokio::test]
async fn a_server_that_hangs_in_its_handshake_holds_up_no_call_to_another() {
    for over_http in [false, true] {
        let gate = Gate::new();
        gate.open();
        let script = |name: &str| Server::builder(name).echo("echo");
        let slow = script("slow").hold("initialize", &gate);
        let (slow, quick) = match over_http {
            true => (slow.http().await, script("quick").http().await),
            false => (slow.stdio().await, script("quick").stdio().await),
        };
        let gateway = Gateway::builder()
            .quick()
            .server_with("slow", &slow, ISOLATED)
            .server_with("quick", &quick, ISOLATED)
            .serve()
            .await;
        gate.close();
        let arrived = gate.arrived();
        let client = gateway.client().capabilities(json!({"roots": {"listChanged": true}})).connect().await;
        let waiting = client.start("tools/call", json!({"name": "slow__echo", "arguments": {"n": 1}}));
        gate.reached(arrived + 1).await;
        for round in 0..3 {
            let reply = soon("a call", client.call_tool("quick__echo", json!({ "round": round }))).await;
            assert_eq!(reply.text(), json!({ "round": round }).to_string());
        }
        assert_eq!(soon("a list", client.names("tools")).await, ["slow__echo", "quick__echo"]);
        // What the client says meanwhile reaches both, the one as soon as it can be told.
        client.notify(ROOTS, json!({})).await;
        quick.wait_for_method(ROOTS, 1).await;
        assert_eq!(slow.count(ROOTS), 0);
        gate.open();
        assert_eq!(waiting.finish().await.text(), json!({"n": 1}).to_string());
        let told = slow.wait_for_method(ROOTS, 1).await;
        assert_eq!(called_on(&slow), [told.connection]);
        assert_eq!((quick.count(ROOTS), slow.count(ROOTS)), (1, 1));
    }
}

// edges B2: one attempt at a time, with longer and longer pauses, and calls are told the reason at once.
#[tokio::test]
async fn a_link_that_can_not_be_made_is_tried_with_pauses_and_calls_are_told_why() {
    let server = Server::builder("one").echo("echo").http().await;
    let other = Server::builder("two").echo("echo").stdio().await;
    let gateway = Gateway::builder().quick().server_with("one", &server, ISOLATED).server("two", &other).serve().await;
    let client = gateway.client().connect().await;
    server.fail_next("initialize", 3);
    let before = server.count("initialize");
    let first = client.call_tool("one__echo", json!({})).await;
    let text = first.error()["message"].as_str().unwrap_or_default().to_owned();
    assert!(text.contains("refused the handshake"), "{text}");
    let calls: Vec<_> =
        (0..20).map(|_| client.start("tools/call", json!({"name": "one__echo", "arguments": {}}))).collect();
    for call in calls {
        call.finish().await;
    }
    let tried = server.count("initialize") - before;
    assert!(tried <= 4, "{tried} attempts for twenty calls");
    within("a link at last", async {
        while client.call_tool("one__echo", json!({})).await.response().error() != Value::Null {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
}

// edges B3; bridging 0.2
#[tokio::test]
async fn links_of_one_client_and_of_all_are_bounded_and_the_refusal_names_the_limit() {
    let one = Server::builder("one").echo("echo").stdio().await;
    let two = Server::builder("two").echo("echo").stdio().await;
    let limits = "[gateway]\nsession_links = 2\nsession_links_per_client = 1";
    let gateway = Gateway::builder()
        .toml(limits)
        .quick()
        .server_with("one", &one, ISOLATED)
        .server_with("two", &two, ISOLATED)
        .serve()
        .await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(gateway.client().connect().await);
    }
    let refused = async |client: &Client, tool: &str| -> String {
        client.call_tool(tool, json!({})).await.error()["message"].as_str().unwrap_or_default().to_owned()
    };
    // Which of the two servers gets the link of a client is a matter of who asks first.
    let mut got = Vec::new();
    for client in &clients[..2] {
        let first = client.call_tool("one__echo", json!({})).await;
        let second = client.call_tool("two__echo", json!({})).await;
        let errors: Vec<Value> = [&first, &second].iter().map(|reply| reply.response().error()).collect();
        assert_eq!(errors.iter().filter(|error| error.is_null()).count(), 1, "{errors:?}");
        let text = errors.iter().find(|error| !error.is_null()).unwrap()["message"].to_string();
        assert!(text.contains("session_links_per_client = 1"), "{text}");
        got.push(if first.response().error().is_null() { "one__echo" } else { "two__echo" });
    }
    let text = refused(&clients[2], "one__echo").await;
    assert!(text.contains("session_links = 2"), "{text}");
    // Lists do not need a link of one's own.
    assert_eq!(clients[2].names("tools").await, ["one__echo", "two__echo"]);
    assert_eq!(living(&one) + living(&two), 2 + 2, "one shared connection each, and two of single clients");
    // Who leaves makes room.
    assert_eq!(clients[0].delete().await, 204);
    within("room for the third", async {
        while clients[2].call_tool("one__echo", json!({})).await.response().error() != Value::Null
            && clients[2].call_tool("two__echo", json!({})).await.response().error() != Value::Null
        {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    assert_eq!(clients[1].call_tool(got[1], json!({})).await.text(), "{}");
}

// edges B3; bridging 0.2
#[tokio::test]
async fn a_link_that_nobody_uses_is_closed_and_opened_again_when_it_is_needed() {
    let gate = Gate::new();
    let held = gate.clone();
    let script = Server::builder("one").echo("echo").resource("file:///r", "text").tool("wait", move |call| {
        let gate = held.clone();
        async move {
            gate.wait().await;
            call.ok_text("waited")
        }
    });
    let server = script.stdio().await;
    let gateway = Gateway::builder()
        .toml("[gateway]\nsession_link_idle = \"300ms\"")
        .quick()
        .server_with("one", &server, ISOLATED)
        .serve()
        .await;
    let client = gateway.client().connect().await;
    let stream = client.open_get().await;
    let wait = client.start("tools/call", json!({"name": "wait"}));
    gate.reached(1).await;
    assert_eq!(living(&server), 2);
    // In use, it stays however long that takes.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(living(&server), 2);
    gate.open();
    assert_eq!(wait.finish().await.text(), "waited");
    eventually("the end of the idle link", || (living(&server) == 1).then_some(())).await;
    let spawned = server.processes().len();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(server.processes().len(), spawned, "nobody needs it, so nobody opens it");
    assert_eq!(client.call_tool("echo", json!({"again": true})).await.text(), r#"{"again":true}"#);
    assert_eq!(server.processes().len(), spawned + 1);
    // What is followed over it needs it.
    client.request("resources/subscribe", json!({"uri": "file:///r"})).await.result();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(living(&server), 2);
    client.request("resources/unsubscribe", json!({"uri": "file:///r"})).await.result();
    eventually("the end of the idle link", || (living(&server) == 1).then_some(())).await;
    drop(stream);
}

fn auth(names: &[&str]) -> String {
    let tokens = names.iter().map(|name| {
        let hash = digest(&SHA256, format!("token-{name}").as_bytes());
        let hash: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{{ name = {name:?}, sha256 = \"{hash}\", servers = [\"*\"] }},\n")
    });
    format!("[auth]\ntokens = [\n{}]\n", tokens.collect::<String>())
}

// edges B3; bridging D: a modern client has no session, so its principal stands for it.
#[tokio::test]
async fn modern_callers_of_one_principal_share_a_link_that_is_nobody_elses() {
    for over_http in [false, true] {
        let script = Server::builder("one").echo("echo");
        let server = if over_http { script.http().await } else { script.stdio().await };
        let gateway = Gateway::builder()
            .toml(&auth(&["red", "blue"]))
            .quick()
            .server_with("one", &server, ISOLATED)
            .serve()
            .await;
        let client = async |token: &str| {
            gateway.client().modern().header("authorization", &format!("Bearer token-{token}")).connect().await
        };
        for token in ["red", "red", "blue", "red", "blue"] {
            assert_eq!(client(token).await.call_tool("echo", json!({})).await.text(), "{}");
        }
        let on = called_on(&server);
        let shared = server.wait_for_method("tools/list", 1).await.connection;
        assert_eq!((on[1], on[3], on[4]), (on[0], on[0], on[2]), "{on:?}");
        assert!(on[0] != on[2] && !on.contains(&shared), "{on:?}, lists on {shared}");
        server.assert_clean();
    }
}

/// What a server was told at the beginning of the connection on which its last tool call came.
fn told_of_last_caller(server: &Server) -> Value {
    let received = server.received();
    let on = received.iter().rfind(|r| r.method == "tools/call").expect("a call").connection;
    // Over HTTP a connection has its number from the answer to this on.
    let ready = received.iter().position(|r| r.connection == on && r.method == "notifications/initialized");
    let before = &received[..ready.expect("an introduced connection")];
    before.iter().rfind(|r| r.method == "initialize").expect("an introduction").params()["capabilities"].clone()
}

// bridging D, B6: a legacy server is told once per connection what its client can do, a modern client says it in each request.
#[tokio::test]
async fn modern_callers_share_a_link_only_with_those_that_declare_the_same() {
    for over_http in [false, true] {
        let script = Server::builder("one").echo("echo");
        let server = if over_http { script.http().await } else { script.stdio().await };
        let gateway = Gateway::builder().quick().server_with("one", &server, ISOLATED).serve().await;
        let asked = json!({ "sampling": {}, "elicitation": { "form": {} }, "experimental": { "x": {} } });
        let asked_otherwise = json!({ "elicitation": { "form": {} }, "experimental": { "y": {} }, "sampling": {} });
        for (declared, told) in [
            (json!({}), json!({})),
            (asked, json!({ "sampling": {}, "elicitation": { "form": {} } })),
            (asked_otherwise, json!({ "sampling": {}, "elicitation": { "form": {} } })),
            (json!({}), json!({})),
        ] {
            let client = gateway.client().modern().capabilities(declared).connect().await;
            assert_eq!(client.call_tool("echo", json!({})).await.text(), "{}");
            assert_eq!(told_of_last_caller(&server), told);
        }
        let on = called_on(&server);
        assert_eq!((on[3], on[2]), (on[0], on[1]), "{on:?}");
        assert_ne!(on[0], on[1], "{on:?}");
        server.assert_clean();
    }
}

/// Answers everything the first time it is started; three times after that it ends right after its handshake.
const SHORT_LIVED: &str = r#"
count=$(($(cat "$1" 2>/dev/null || echo 0) + 1)); echo $count > "$1"
while read -r line; do
  id=$(sed 's/.*"id":\([0-9]*\).*/\1/' <<<"$line")
  case "$line" in
    *'"server/discover"'*) echo '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32601,"message":"no"}}' ;;
    *'"initialize"'*)
      echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}'
      if [ $count -gt 1 ] && [ $count -lt 5 ]; then exit 0; fi ;;
    *'"tools/list"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}}' ;;
    *'"tools/call"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"content":[{"type":"text","text":"start '$count'"}]}}' ;;
  esac
done
"#;

// edges B4
#[tokio::test]
async fn a_link_that_ends_before_it_is_known_is_made_again() {
    let directory = TempDir::new();
    let counter = directory.join("count");
    let args = json!(["-c", SHORT_LIVED, "server", counter.to_string_lossy()]);
    let toml = format!("[servers.one]\ncommand = \"bash\"\nargs = {args}\n{ISOLATED}\n");
    let gateway = Gateway::builder().toml(&toml).serve().await;
    let client = gateway.client().connect().await;
    let text = within("a link that holds", async {
        loop {
            let reply = client.call_tool("t", json!({})).await;
            if reply.response().error().is_null() {
                break reply.text();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    assert_eq!(text, "start 5");
}
