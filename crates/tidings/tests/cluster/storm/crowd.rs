//! The clients of the storm, of both eras: each follows the tools on a stream, lists when it is told or connects again, and calls now and then.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidings_testkit::{V2025_06_18, V2026_07_28};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};

/// Requests of all clients together in a second: more would show how busy the machine is, and nothing else.
pub(super) const RATE: u64 = 200;
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Between attempts to open a stream.
const PAUSE: Duration = Duration::from_millis(200);

/// What all clients share.
#[derive(Default)]
pub(super) struct StormCounts {
    pub(super) asked: AtomicU64,
    pub(super) answered: AtomicU64,
    pub(super) may_have_run: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) sessions: AtomicU64,
    pub(super) lists: AtomicU64,
    /// Lists that were older than one before at the same client.
    pub(super) older: AtomicU64,
    /// The newest version of the server.
    pub(super) version: AtomicU64,
    pub(super) phase: watch::Sender<StormPhase>,
    /// Streams that ended.
    pub(super) streams: Mutex<Vec<EndedStream>>,
}

/// What clients do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum StormPhase {
    #[default]
    Storm,
    /// Nobody calls any more; whoever is told lists.
    Calm,
    Over,
}

/// What a stream told while it was open.
pub(super) struct EndedStream {
    pub(super) opened: Instant,
    pub(super) closed: Instant,
    pub(super) notices: u64,
    /// As many notices as there were changes that its client had not read before.
    pub(super) due: u64,
}

/// One client.
pub(super) struct StormClient {
    url: String,
    place: u64,
    counts: Arc<StormCounts>,
    session: Mutex<Option<String>>,
    told: Notify,
    /// Whether its stream is open.
    pub(super) follows: AtomicBool,
    /// Notices on all of its streams.
    pub(super) notices: AtomicUsize,
    /// The version that its last list had.
    pub(super) last: AtomicU64,
    /// The newest that any of its lists had.
    seen: AtomicU64,
}

impl StormClient {
    pub(super) fn new(url: String, place: u64, counts: Arc<StormCounts>) -> Arc<Self> {
        let (session, told, follows) = Default::default();
        let (notices, last, seen) = Default::default();
        Arc::new(Self { url, place, counts, session, told, follows, notices, last, seen })
    }

    /// What is known of it, for people.
    pub(super) fn describe(&self) -> String {
        let era = if self.is_legacy() { "legacy" } else { "modern" };
        let (follows, last) = (self.follows.load(Ordering::Relaxed), self.last.load(Ordering::Relaxed));
        format!(
            "client {} ({era}): follows {follows}, listed {last}, {} notices",
            self.place,
            self.notices.load(Ordering::Relaxed)
        )
    }

    fn is_legacy(&self) -> bool {
        self.place.is_multiple_of(2)
    }

    fn known_session(&self) -> Option<String> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn is_over(&self) -> bool {
        *self.counts.phase.borrow() == StormPhase::Over
    }

    /// Opens a session where there is none.
    async fn begin_session(&self) -> Option<String> {
        if let Some(session) = self.known_session() {
            return Some(session);
        }
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params":
            {"protocolVersion": V2025_06_18, "capabilities": {}, "clientInfo": {"name": "storm", "version": "1"}}});
        let session = post(&self.url, "", &hello).await.and_then(|(_, session, _)| session)?;
        let greeting = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        post(&self.url, &of_session(&session), &greeting).await?;
        self.counts.sessions.fetch_add(1, Ordering::Relaxed);
        self.session.lock().unwrap_or_else(PoisonError::into_inner).replace(session.clone());
        Some(session)
    }

    /// The session is gone; one that was begun meanwhile stays.
    fn lose_session(&self, session: &str) {
        let mut known = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_deref() == Some(session) {
            *known = None;
        }
    }

    /// Sends a request: the status and the body. `None`: there was no answer.
    async fn request(&self, method: &str, id: u64, params: Value) -> Option<(u16, String)> {
        if !self.is_legacy() {
            let (headers, body) = modern(method, id, params);
            return post(&self.url, &headers, &body).await.map(|(status, _, text)| (status, text));
        }
        let session = self.begin_session().await?;
        let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let (status, _, text) = post(&self.url, &of_session(&session), &body).await?;
        if status == 404 {
            self.lose_session(&session);
        }
        Some((status, text))
    }

    /// Calls and lists until the storm is over. A call is never repeated; a list that is due is, until it is answered.
    pub(super) async fn ask(self: Arc<Self>, clients: u64) {
        let pause = Duration::from_millis((1000 * clients / RATE).max(100));
        // Not all at the same moment.
        tokio::time::sleep(pause.mul_f64(self.place as f64 / clients as f64)).await;
        let mut turn = 0;
        while !self.is_over() {
            turn += 1;
            let is_told = tokio::time::timeout(pause, self.told.notified()).await.is_ok();
            if is_told {
                while !self.list(self.place << 32 | turn).await && !self.is_over() {
                    tokio::time::sleep(PAUSE).await;
                }
            } else if *self.counts.phase.borrow() == StormPhase::Storm {
                self.call(self.place << 32 | turn).await;
            }
        }
    }

    async fn call(&self, id: u64) {
        let counts = &self.counts;
        if self.is_legacy() && self.begin_session().await.is_none() {
            return;
        }
        let params = json!({"name": "one__count", "arguments": {"number": id}});
        counts.asked.fetch_add(1, Ordering::Relaxed);
        let count = match self.request("tools/call", id, params).await {
            Some((200, text)) if text.contains("\"ran\"") || text.contains(r#"\"ran\""#) => &counts.answered,
            Some((_, text)) if text.contains("may have run") => &counts.may_have_run,
            _ => &counts.refused,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    async fn list(&self, id: u64) -> bool {
        let Some((200, text)) = self.request("tools/list", id, json!({})).await else { return false };
        let Some(version) = newest(&text) else { return false };
        self.counts.lists.fetch_add(1, Ordering::Relaxed);
        let before = self.seen.fetch_max(version, Ordering::Relaxed);
        self.counts.older.fetch_add(u64::from(version < before), Ordering::Relaxed);
        self.last.store(version, Ordering::Relaxed);
        true
    }

    /// Follows on one stream after the other until the storm is over.
    pub(super) async fn follow(self: Arc<Self>) {
        while !self.is_over() {
            let known = self.seen.load(Ordering::Relaxed);
            if let Some(stream) = self.open_stream().await {
                self.follows.store(true, Ordering::Relaxed);
                // What changed before is not told on this stream.
                self.told.notify_one();
                let (opened, notices) = (Instant::now(), self.read_stream(stream).await);
                self.follows.store(false, Ordering::Relaxed);
                // A session may be owed one notice from before its stream was open.
                let due = self.counts.version.load(Ordering::Relaxed) - known + u64::from(self.is_legacy());
                let ended = EndedStream { opened, closed: Instant::now(), notices, due };
                self.counts.streams.lock().unwrap_or_else(PoisonError::into_inner).push(ended);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Opens a stream, and reads it as far as its first bytes.
    async fn open_stream(&self) -> Option<(TcpStream, Vec<u8>)> {
        let session = match self.is_legacy() {
            true => Some(self.begin_session().await?),
            false => None,
        };
        let address = address(&self.url);
        let request = match &session {
            Some(session) => format!(
                "GET /mcp HTTP/1.1\r\nHost: {address}\r\nAccept: text/event-stream\r\n{}\r\n",
                of_session(session)
            ),
            None => {
                let (headers, body) =
                    modern("subscriptions/listen", 1, json!({"notifications": {"toolsListChanged": true}}));
                written("POST", &address, &headers, &body.to_string())
            }
        };
        let opening = async {
            let mut stream = TcpStream::connect(&address).await.ok()?;
            stream.write_all(request.as_bytes()).await.ok()?;
            let mut received = Vec::new();
            // A session's stream has nothing to say at first.
            let first: &[u8] = if session.is_some() { b"\r\n\r\n" } else { b"subscriptions/acknowledged" };
            while !received.windows(first.len()).any(|seen| seen == first) {
                stream.read_buf(&mut received).await.ok().filter(|read| *read > 0)?;
            }
            Some((stream, received))
        };
        let opened = tokio::time::timeout(ANSWER_WITHIN, opening).await.ok().flatten();
        let is_there = opened.as_ref().is_some_and(|(_, received)| received.starts_with(b"HTTP/1.1 200"));
        if let (Some(session), false) = (session, is_there) {
            let is_gone = opened.as_ref().is_some_and(|(_, received)| received.starts_with(b"HTTP/1.1 404"));
            if is_gone {
                self.lose_session(&session);
            }
        }
        opened.filter(|_| is_there)
    }

    /// Reads a stream to its end; gives how many notices came.
    async fn read_stream(&self, (mut stream, mut received): (TcpStream, Vec<u8>)) -> u64 {
        const MARK: &[u8] = b"notifications/tools/list_changed";
        let mut phase = self.counts.phase.subscribe();
        let mut notices = 0;
        loop {
            while let Some(at) = received.windows(MARK.len()).position(|seen| seen == MARK) {
                received.drain(..at + MARK.len());
                notices += 1;
                self.notices.fetch_add(1, Ordering::Relaxed);
                self.told.notify_one();
            }
            // What is left may be the beginning of a mark.
            received.drain(..received.len().saturating_sub(MARK.len()));
            let read = tokio::select! {
                read = stream.read_buf(&mut received) => read,
                _ = phase.wait_for(|phase| *phase == StormPhase::Over) => return notices,
            };
            if !read.is_ok_and(|read| read > 0) {
                return notices;
            }
        }
    }
}

fn address(url: &str) -> String {
    url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned()
}

fn of_session(session: &str) -> String {
    format!("Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: {V2025_06_18}\r\n")
}

fn written(verb: &str, address: &str, headers: &str, body: &str) -> String {
    format!(
        "{verb} /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// One request over a connection of its own: the status, the session and the body. `None`: the connection broke.
async fn post(url: &str, headers: &str, body: &Value) -> Option<(u16, Option<String>, String)> {
    let address = address(url);
    let mut stream = TcpStream::connect(&address).await.ok()?;
    stream.write_all(written("POST", &address, headers, &body.to_string()).as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    tokio::time::timeout(ANSWER_WITHIN, stream.read_to_end(&mut answer)).await.ok()?.ok()?;
    let text = String::from_utf8_lossy(&answer).into_owned();
    let (head, rest) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let session = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("mcp-session-id").then(|| value.to_owned())
    });
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
