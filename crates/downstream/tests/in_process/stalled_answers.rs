//! Servers whose answers are large and never end.

use serde_json::{Value, json};
use tidings_testkit::{Client, ClientReply, Gate, eventually, within};
use tidings_wire::MESSAGES;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_util::task::AbortOnDropHandle;

use super::*;

/// Half a gigabyte in the life of a gateway.
const BUDGET: usize = 8 << 20;
/// What each answer brings before it stalls.
const PIECE: usize = 2 << 20;
const CALLS: usize = 20;
/// The budget is one for the process: one test at a time.
static ALONE: Mutex<()> = Mutex::const_new(());

/// A legacy server over HTTP. Its tools `json` and `events` begin a large answer and never end it.
async fn stalling() -> (String, AbortOnDropHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let accepting = tokio::spawn(async move {
        let mut connections = tokio::task::JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            connections.spawn(serve_connection(stream));
        }
    });
    (url, AbortOnDropHandle::new(accepting))
}

async fn serve_connection(stream: TcpStream) -> Option<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut verb, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await.ok().filter(|read| *read > 0)?;
            if verb.is_empty() {
                verb = line.split(' ').next()?.to_owned();
            } else if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            } else if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.ok()?;
        let message: Value = serde_json::from_slice(&body).unwrap_or_default();
        let name = message["params"]["name"].as_str().unwrap_or_default();
        let head = match name {
            "json" => "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 60000000\r\n\r\n\"",
            "events" => "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\ndata: \"",
            _ => {
                let answer = if verb == "POST" { answer_to(&message) } else { None };
                let status = if verb == "GET" { "405 Method Not Allowed" } else { "200 OK" };
                let text = answer.map(|answer| answer.to_string()).unwrap_or_default();
                let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: ");
                stream.write_all(format!("{head}{}\r\n\r\n{text}", text.len()).as_bytes()).await.ok()?;
                continue;
            }
        };
        stream.write_all(head.as_bytes()).await.ok()?;
        stream.write_all(&vec![b'a'; PIECE]).await.ok()?;
        // Until the gateway hangs up.
        let _ = stream.read_u8().await;
        return None;
    }
}

fn answer_to(message: &Value) -> Option<Value> {
    let id = message.get("id")?;
    let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
    let result = match message["method"].as_str()? {
        "initialize" => json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "stalling", "version": "1"}}),
        "tools/list" => json!({"tools": [tool("json"), tool("events"), tool("quick")]}),
        "tools/call" => json!({"content": [{"type": "text", "text": "done"}]}),
        _ => json!({}),
    };
    Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

/// What does not fit is refused with the reason; everybody else goes on, and what was taken for calls that were given up is given back as
/// soon as it is more than half, and all of it with the gateway.
// edges G9
#[tokio::test(flavor = "multi_thread")]
async fn answers_that_stall_take_no_more_memory_than_there_is_for_messages() {
    let _alone = ALONE.lock().await;
    MESSAGES.set_limit(BUDGET);
    let (url, _accepting) = stalling().await;
    let other = Server::builder("other").echo("echo").http().await;
    let mut servers = vec![plan(
        "stalling",
        TransportSpec::Http(HttpSpec { url, headers: Vec::new(), reach: NetworkReach::Anywhere, credential: None }),
    )];
    if let Source::Remote(spec) = &mut servers[0].source {
        spec.era = EraChoice::Legacy;
    }
    servers.push(plan("other", at_url(&other)));
    let gateway = Serving::start(servers, EndpointOptions::default()).await;
    let client = Client::http(&gateway.url).connect().await;
    let mut ids = Vec::new();
    let mut running = tokio::task::JoinSet::new();
    for number in 0..CALLS {
        let tool = if number % 2 == 0 { "stalling__json" } else { "stalling__events" };
        let call = client.start("tools/call", json!({"name": tool, "arguments": {}}));
        ids.push(serde_json::from_str::<Value>(call.id().as_str()).unwrap());
        running.spawn(async move { call.finish().await.error()["message"].to_string() });
    }
    for _ in 0..CALLS - BUDGET / PIECE {
        let reason = within("a refusal", running.join_next()).await.unwrap().unwrap();
        assert!(reason.contains("bytes of memory that are set aside for them"), "{reason}");
        assert!(MESSAGES.used() <= BUDGET);
    }
    assert!(MESSAGES.used() > 0, "the others take what there is");
    assert_eq!(client.call_tool("other__echo", json!({"a": 1})).await.text(), r#"{"a":1}"#);
    assert_eq!(client.call_tool("stalling__quick", json!({})).await.text(), "done");
    for id in ids {
        client.notify("notifications/cancelled", json!({ "requestId": id })).await;
    }
    // Streams of calls that were given up may be read on, as long as that leaves half of the memory to others.
    eventually("memory is given back", || (MESSAGES.used() <= BUDGET / 2).then_some(())).await;
    assert_eq!(client.call_tool("other__echo", json!({"a": 2})).await.text(), r#"{"a":2}"#);
    gateway.end().await;
    eventually("all memory is given back", || (MESSAGES.used() == 0).then_some(())).await;
}

/// Where others take the memory for messages, a call that was given up and takes none of it is still waited for: when it is answered, what its
/// server asks outside of calls reaches the next caller again.
// edges G9, B6
#[tokio::test(flavor = "multi_thread")]
async fn scarce_memory_ends_no_stream_that_takes_none_of_it() {
    let _alone = ALONE.lock().await;
    MESSAGES.set_limit(BUDGET);
    let (first, second) = (Gate::new(), Gate::new());
    let at_gate = |gate: &Gate| {
        let gate = gate.clone();
        move |call: tidings_testkit::ScriptedCall| {
            let gate = gate.clone();
            async move {
                // A stream is read on only when the server has taken the call.
                call.progress(1);
                gate.wait().await;
                call.ok_text("done")
            }
        }
    };
    let asking = Server::builder("asking").tool("one", at_gate(&first)).tool("two", at_gate(&second)).http().await;
    let (url, _accepting) = stalling().await;
    let mut servers = vec![plan(
        "stalling",
        TransportSpec::Http(HttpSpec { url, headers: Vec::new(), reach: NetworkReach::Anywhere, credential: None }),
    )];
    if let Source::Remote(spec) = &mut servers[0].source {
        spec.era = EraChoice::Legacy;
    }
    servers.push(plan("asking", at_url(&asking)));
    let gateway = Serving::start(servers, EndpointOptions::default()).await;
    let leaving = Client::http(&gateway.url).connect().await;
    let call = |client: &Client, tool: &str| client.start("tools/call", json!({"name": tool, "arguments": {}}));
    let params = json!({"name": "asking__one", "arguments": {}});
    let mut quiet = leaving.call("tools/call").params(params).progress_token("1").start();
    quiet.next_method("notifications/progress").await;
    let large = call(&leaving, "stalling__events");
    eventually("a large message that is not whole", || (MESSAGES.used() >= PIECE).then_some(())).await;
    // Messages of others.
    let mut others = MESSAGES.lease();
    others.grow_to(BUDGET / 2 + 1).unwrap();
    leaving.cancel(&quiet).await;
    leaving.cancel(&large).await;
    eventually("what was large is given back", || (MESSAGES.used() == others.taken()).then_some(())).await;
    assert!(MESSAGES.excess() > 0, "it is still scarce");
    first.open();
    let staying = Client::http(&gateway.url).capabilities(json!({"elicitation": {}})).connect().await;
    staying.on_request(|_| ClientReply::Result(json!({"action": "accept", "content": {}})));
    let waiting = call(&staying, "asking__two");
    second.reached(1).await;
    let accepted = async {
        for number in 0.. {
            let params = json!({"message": "?", "requestedSchema": {"type": "object", "properties": {}}});
            let question =
                json!({"jsonrpc": "2.0", "id": format!("q{number}"), "method": "elicitation/create", "params": params});
            asking.ask_raw(question.to_string());
            let id = format!("\"q{number}\"");
            let heard =
                asking.wait_for(|r| r.is_response() && r.id.as_ref().is_some_and(|heard| heard.as_str() == id)).await;
            if heard.result()["action"] == "accept" {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    within("a question that reaches the only caller", accepted).await;
    second.open();
    assert_eq!(waiting.finish().await.text(), "done");
    drop(others);
    gateway.end().await;
}
