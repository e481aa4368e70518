//! The server that `tidings serve` shows when nothing is configured: a few tools, one of which comes and goes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tidings_engine::{LocalServer, Surroundings};
use tidings_proto::{ListKind, Method, Revision, code};
use tidings_upstream::{Connected, Hello, Sink};
use tidings_wire::{Frame, Limits, notification};
use tokio_util::sync::CancellationToken;

use crate::local::{Answers, LocalLink, Outcome, Request, unknown};

/// How often the list changes.
const EVERY: Duration = Duration::from_secs(20);

/// The demo. Each connection has a list of its own.
pub struct Demo;

struct State {
    /// Counts changes; the visiting tool is there on odd turns.
    turn: AtomicU64,
}

impl LocalServer for Demo {
    fn connect(&self, sink: Arc<dyn Sink>, _surroundings: Surroundings) -> Connected {
        let server = Arc::new(State { turn: AtomicU64::new(0) });
        let stop = CancellationToken::new();
        tokio::spawn(change_now_and_then(Arc::clone(&server), sink, stop.clone()));
        Connected {
            link: Arc::new(LocalLink { server, stop }),
            hello: Hello {
                revision: Revision::MODERN,
                capabilities: json!({ "tools": { "listChanged": true }, "resources": {} }),
                info: json!({ "name": "tidings-demo", "version": env!("CARGO_PKG_VERSION") }),
                instructions: Some("A demonstration: every 20 seconds the tool `visitor` comes or goes.".into()),
            },
        }
    }
}

/// Ends with the link.
async fn change_now_and_then(server: Arc<State>, sink: Arc<dyn Sink>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = stop.cancelled() => return,
        }
        server.turn.fetch_add(1, Ordering::Relaxed);
        let bytes = notification("notifications/tools/list_changed", None);
        if let Ok(frame) = Frame::parse(bytes, &Limits::default()) {
            sink.unowned(frame);
        }
    }
}

impl State {
    fn tools(&self) -> Value {
        let text = json!({ "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"] });
        let nothing = json!({ "type": "object", "properties": {} });
        let mut tools = vec![
            json!({ "name": "echo", "description": "Says what it is told.", "inputSchema": text }),
            json!({ "name": "clock", "description": "The time, in seconds since 1970.", "inputSchema": nothing }),
        ];
        let turn = self.turn.load(Ordering::Relaxed);
        if turn % 2 == 1 {
            let description = format!("Comes and goes. This is visit {}.", turn.div_ceil(2));
            tools.push(json!({ "name": "visitor", "description": description, "inputSchema": nothing }));
        }
        tools.into()
    }

    fn call(&self, params: &Value) -> Result<Value, (i64, String)> {
        let text = match params["name"].as_str().unwrap_or_default() {
            "echo" => params["arguments"]["text"].as_str().unwrap_or_default().to_owned(),
            "clock" => SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()).to_string(),
            "visitor" if self.turn.load(Ordering::Relaxed) % 2 == 1 => "Hello! I will be gone soon.".to_owned(),
            other => return Err((code::INVALID_PARAMS, format!("unknown tool: {other}"))),
        };
        Ok(json!({ "content": [{ "type": "text", "text": text }] }))
    }
}

const WELCOME: &str = "demo://welcome";

impl State {
    fn answer(&self, method: Method, params: &Value) -> Result<Value, (i64, String)> {
        match method {
            Method::List(kind) => {
                let items = match kind {
                    ListKind::Tools => self.tools(),
                    ListKind::Resources => json!([{ "uri": WELCOME, "name": "welcome", "mimeType": "text/plain" }]),
                    ListKind::Prompts | ListKind::Templates => json!([]),
                };
                Ok(json!({ kind.member(): items, "ttlMs": 0, "cacheScope": "public" }))
            }
            Method::ToolsCall => self.call(params),
            Method::ResourcesRead if params["uri"] == WELCOME => Ok(json!({
                "contents": [{ "uri": WELCOME, "mimeType": "text/plain", "text": "Tidings works.\n" }],
                "ttlMs": 0,
                "cacheScope": "public",
            })),
            Method::ResourcesRead => Err((code::INVALID_PARAMS, "resource not found".into())),
            other => Err(unknown(other)),
        }
    }
}

impl Answers for State {
    fn answer(self: Arc<Self>, request: Request) -> BoxFuture<'static, Outcome> {
        let outcome = State::answer(&self, request.method, &request.params());
        Box::pin(std::future::ready(outcome.into()))
    }
}
