//! Replicas that are killed under load, behind a balancer: no call runs twice, no list goes back, and at rest everybody knows the truth.
//!
//! `TIDINGS_STORM_SECONDS`, `TIDINGS_STORM_CLIENTS` and `TIDINGS_STORM_EVERY` (seconds from kill to kill) make it longer (`cargo xtask soak --cluster`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidings_testkit::{RoundRobin, Server, Tool, V2025_06_18, V2026_07_28};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::{Fleet, counting};

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// How often the server ran each call.
type Runs = Arc<Mutex<HashMap<u64, usize>>>;

#[derive(Default)]
struct StormCounts {
    asked: AtomicU64,
    answered: AtomicU64,
    may_have_run: AtomicU64,
    refused: AtomicU64,
    sessions: AtomicU64,
    lists: AtomicU64,
    over: AtomicBool,
}

/// One request over a connection of its own: the status, the session and the body. `None`: the connection broke.
async fn post(url: &str, headers: &str, body: &Value) -> Option<(u16, Option<String>, String)> {
    let address = url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
    let mut stream = TcpStream::connect(&address).await.ok()?;
    let body = body.to_string();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         {headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut answer)).await.ok()?.ok()?;
    let text = String::from_utf8_lossy(&answer).into_owned();
    let (head, rest) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let session =
        head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("mcp-session-id: ").map(str::to_owned));
    Some((status, session, rest.to_owned()))
}

fn modern(method: &str, id: u64, mut params: Value) -> (String, Value) {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": V2026_07_28, "io.modelcontextprotocol/clientCapabilities": {},
    });
    let name = params["name"].as_str().map(|name| format!("Mcp-Name: {name}\r\n")).unwrap_or_default();
    let headers = format!("MCP-Protocol-Version: {V2026_07_28}\r\nMcp-Method: {method}\r\n{name}");
    (headers, json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
}

/// The newest version that a list of tools names.
fn newest(list: &str) -> Option<u64> {
    let versions = list.match_indices("\"one__v").filter_map(|(at, found)| {
        let digits: String = list[at + found.len()..].chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    });
    versions.max()
}

/// A client of either era: calls, and lists now and then. A call is never repeated.
async fn client(url: String, place: u64, counts: Arc<StormCounts>) -> u64 {
    let (mut session, mut seen, mut turn) = (None, 0, 0);
    while !counts.over.load(Ordering::Relaxed) {
        turn += 1;
        let is_legacy = place.is_multiple_of(2);
        if is_legacy && session.is_none() {
            let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params":
                {"protocolVersion": V2025_06_18, "capabilities": {}, "clientInfo": {"name": "storm", "version": "1"}}});
            session = post(&url, "", &hello).await.and_then(|(_, session, _)| session);
            counts.sessions.fetch_add(u64::from(session.is_some()), Ordering::Relaxed);
            continue;
        }
        let (method, id) = (if turn % 4 == 0 { "tools/list" } else { "tools/call" }, place << 32 | turn);
        let params = match method {
            "tools/call" => json!({"name": "one__count", "arguments": {"number": id}}),
            _ => json!({}),
        };
        let (headers, body) = match &session {
            Some(session) => (
                format!("Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: {V2025_06_18}\r\n"),
                json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}),
            ),
            None => modern(method, id, params),
        };
        let answer = post(&url, &headers, &body).await;
        if let Some((404, ..)) = &answer {
            session = None;
        }
        match (method, answer) {
            ("tools/call", answer) => {
                counts.asked.fetch_add(1, Ordering::Relaxed);
                match answer {
                    Some((200, _, text)) if text.contains("\"ran\"") || text.contains(r#"\"ran\""#) => {
                        counts.answered.fetch_add(1, Ordering::Relaxed)
                    }
                    Some((_, _, text)) if text.contains("may have run") => {
                        counts.may_have_run.fetch_add(1, Ordering::Relaxed)
                    }
                    _ => counts.refused.fetch_add(1, Ordering::Relaxed),
                };
            }
            (_, Some((200, _, text))) => {
                counts.lists.fetch_add(1, Ordering::Relaxed);
                if let Some(version) = newest(&text) {
                    assert!(version >= seen, "client {place}: a list with version {version} after one with {seen}");
                    seen = version;
                }
            }
            _ => {}
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    seen
}

// cluster: never twice, stale lists 0
#[tokio::test(flavor = "multi_thread")]
async fn replicas_that_are_killed_repeat_no_call_and_take_no_list_back() {
    let runs = Runs::default();
    let (one, two) = (Server::builder("one").stdio().await, counting("two").stdio().await);
    one.set_tools(vec![counting_tool(&runs)]);
    let Some(mut fleet) = Fleet::begin(3, &[("one", &one), ("two", &two)]).await else { return };
    let urls: Vec<String> = fleet.replicas.iter().map(|replica| replica.base_url().to_owned()).collect();
    let balancer = RoundRobin::start(&urls.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let counts = Arc::new(StormCounts::default());
    let (seconds, clients) = (number("TIDINGS_STORM_SECONDS", 12), number("TIDINGS_STORM_CLIENTS", 24));
    let every = Duration::from_secs(number("TIDINGS_STORM_EVERY", 5));
    let crowd: Vec<_> =
        (0..clients).map(|place| tokio::spawn(client(balancer.url(), place, Arc::clone(&counts)))).collect();
    let (begun, mut killed, mut version) = (Instant::now(), 0, 0_u64);
    let mut next_kill = begun + every / 2;
    while begun.elapsed() < Duration::from_secs(seconds) {
        version += 1;
        one.set_tools(vec![counting_tool(&runs), Tool::text_tool(&format!("v{version}"), "version")]);
        one.list_changed("tools");
        tokio::time::sleep(Duration::from_millis(300)).await;
        if Instant::now() >= next_kill {
            next_kill += every;
            let place = killed % 3;
            killed += 1;
            fleet.replicas[place].kill().await;
            let again = fleet.replicas[place].again().await;
            balancer.replace(place, again.base_url());
            fleet.replicas[place] = again;
        }
    }
    counts.over.store(true, Ordering::Relaxed);
    for client in crowd {
        client.await.unwrap();
    }
    // At rest every replica knows the last version.
    for replica in &fleet.replicas {
        let reader = replica.client().modern().connect().await;
        let deadline = Instant::now() + Duration::from_secs(20);
        while !reader.names("tools").await.contains(&format!("one__v{version}")) {
            assert!(Instant::now() < deadline, "version {version}: {:?}", reader.names("tools").await);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let runs = runs.lock().unwrap_or_else(PoisonError::into_inner);
    let repeated: Vec<_> = runs.iter().filter(|(_, count)| **count > 1).collect();
    println!(
        "{clients} clients, {killed} kills, {version} versions: {} calls asked, {} answered, {} may have run, {} refused or cut, {} ran; \
         {} lists, {} sessions",
        read(&counts.asked),
        read(&counts.answered),
        read(&counts.may_have_run),
        read(&counts.refused),
        runs.len(),
        read(&counts.lists),
        read(&counts.sessions),
    );
    assert!(repeated.is_empty(), "calls that ran more than once: {repeated:?}");
    assert!(read(&counts.answered) > read(&counts.asked) / 2, "most calls are answered");
    assert!(killed > 0 && version > 0);
}

/// A tool that counts its runs.
fn counting_tool(runs: &Runs) -> Tool {
    let counted = Arc::clone(runs);
    Tool::tool("count", move |call| {
        let counted = Arc::clone(&counted);
        async move {
            let number = call.argument("number").as_u64().unwrap_or_default();
            *counted.lock().unwrap_or_else(PoisonError::into_inner).entry(number).or_default() += 1;
            call.ok_text("ran")
        }
    })
}
