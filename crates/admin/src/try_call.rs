//! Calls that people make to try a tool: `POST /calls`, and the page. Made as a modern client would, so that what a server asks in between
//! comes back as a question, and is answered by sending the call again.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::body::Bytes as RequestBody;
use axum::extract::{Extension, Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};
use tidings_downstream::LIMITS;
use tidings_engine::{Caller, Gateway, Principal, Reply};
use tidings_proto::meta::{self, ModernMeta};
use tidings_proto::{Method, Revision};
use tidings_sync::Lock;
use tidings_wire::{Frame, RawId, request, sse};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::events::{self, EventSource};
use crate::{AdminShared, problem};

/// How many run at a time, and how many are remembered.
const RUNNING: usize = 16;
const KEPT: usize = 64;
/// How many log messages of one are kept, and how long each.
const MESSAGES: usize = 100;
const LONGEST: usize = 4_000;
/// What the calls are made by.
const NAME: &str = "tidings-page";

/// How far a call is.
#[derive(Clone, Debug, PartialEq)]
pub enum TryPhase {
    /// At its server.
    Running,
    /// The server asks: what by key, and what has to come back with the answers.
    Asked {
        /// The questions, by key.
        questions: Value,
        /// What the server remembers the call by.
        state: Value,
    },
    /// Answered with a result.
    Done(Value),
    /// Answered with an error, or not sent.
    Failed(String),
    /// Ended by whoever began it.
    Cancelled,
}

/// A call at one moment.
#[derive(Clone, Debug)]
pub struct TryState {
    /// How far it is.
    pub phase: TryPhase,
    /// What was last told of its progress: how far, of how much, and words.
    pub progress: Option<(f64, Option<f64>, String)>,
    /// What the server logged for it.
    pub messages: Vec<String>,
    /// When it ended.
    pub ended: Option<Timestamp>,
}

/// One call.
#[derive(Debug)]
pub struct TriedCall {
    /// Its number.
    pub id: u64,
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: Value,
    /// When it began.
    pub started: Timestamp,
    state: watch::Sender<TryState>,
    stop: CancellationToken,
    principal: Principal,
}

/// Why nothing was done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TryFault {
    /// Too many run.
    #[error("{RUNNING} calls are being tried already; wait for one of them, or cancel it")]
    TooMany,
    /// There is none with this number.
    #[error("there is no such call; the last {KEPT} are remembered")]
    Unknown,
    /// It asks nothing.
    #[error("the call asks nothing now")]
    NotAsked,
}

/// The calls that are tried. Bounded in number and size.
#[derive(Clone, Debug, Default)]
pub struct CallDesk {
    table: Arc<Lock<DeskTable>>,
    /// Each task ends with its call, or with the gateway.
    tasks: TaskTracker,
}

#[derive(Debug, Default)]
struct DeskTable {
    last: u64,
    calls: BTreeMap<u64, Arc<TriedCall>>,
}

impl CallDesk {
    /// Begins a call.
    pub fn begin(
        &self,
        gateway: &Gateway,
        principal: Principal,
        tool: &str,
        arguments: Value,
    ) -> Result<Arc<TriedCall>, TryFault> {
        let call = {
            let mut table = self.table.lock();
            // Under the lock with the insert: two at once must not both find the last seat.
            if table.calls.values().filter(|call| !call.is_over()).count() >= RUNNING {
                return Err(TryFault::TooMany);
            }
            table.last += 1;
            let state = TryState { phase: TryPhase::Running, progress: None, messages: Vec::new(), ended: None };
            let call = Arc::new(TriedCall {
                id: table.last,
                tool: tool.to_owned(),
                arguments,
                started: Timestamp::now(),
                state: watch::Sender::new(state),
                stop: CancellationToken::new(),
                principal,
            });
            table.calls.insert(call.id, Arc::clone(&call));
            // The oldest that is over; those that run are fewer than are kept.
            while table.calls.len() > KEPT {
                let Some(oldest) = table.calls.values().find(|call| call.is_over()).map(|call| call.id) else { break };
                table.calls.remove(&oldest);
            }
            call
        };
        // After the lock: it starts a task, which may finish before this returns.
        call.send(&self.tasks, gateway, None);
        Ok(call)
    }

    /// A call by its number.
    pub fn get(&self, id: u64) -> Option<Arc<TriedCall>> {
        self.table.lock().calls.get(&id).cloned()
    }

    /// Answers what a call asks, by key.
    pub fn answer(&self, gateway: &Gateway, id: u64, answers: Value) -> Result<(), TryFault> {
        let call = self.get(id).ok_or(TryFault::Unknown)?;
        let mut asked = None;
        call.state.send_if_modified(|state| {
            let TryPhase::Asked { state: remembered, .. } = &state.phase else { return false };
            // Taken and changed in one step: of two who answer at once one is told that nothing is asked.
            asked = Some(remembered.clone());
            state.phase = TryPhase::Running;
            true
        });
        let remembered = asked.ok_or(TryFault::NotAsked)?;
        call.send(&self.tasks, gateway, Some((answers, remembered)));
        Ok(())
    }

    /// Ends a call. One that is over stays as it is.
    pub fn cancel(&self, id: u64) -> Result<(), TryFault> {
        let call = self.get(id).ok_or(TryFault::Unknown)?;
        call.stop.cancel();
        // One that asks has nobody who waits for it here.
        call.finish(TryPhase::Cancelled);
        Ok(())
    }
}

impl TriedCall {
    /// How it is now.
    pub fn state(&self) -> TryState {
        self.state.borrow().clone()
    }

    fn is_over(&self) -> bool {
        self.state.borrow().ended.is_some()
    }

    fn finish(&self, phase: TryPhase) {
        self.state.send_if_modified(|state| {
            // The first end counts: a cancel that comes after the answer changes nothing.
            if state.ended.is_some() {
                return false;
            }
            state.phase = phase;
            state.ended = Some(Timestamp::now());
            true
        });
    }

    /// Sends it, once more with answers where there are some. Ends with the call, with its cancelling, or with the gateway.
    fn send(self: &Arc<Self>, tasks: &TaskTracker, gateway: &Gateway, again: Option<(Value, Value)>) {
        let (call, gateway) = (Arc::clone(self), gateway.clone());
        tasks.spawn(async move {
            let ending = gateway.draining();
            tokio::select! {
                () = call.round(&gateway, again) => {}
                // The exchange is dropped, which cancels it at the server.
                () = call.stop.cancelled() => call.finish(TryPhase::Cancelled),
                () = ending.cancelled() => call.finish(TryPhase::Failed("the gateway ends".to_owned())),
            }
        });
    }

    async fn round(&self, gateway: &Gateway, again: Option<(Value, Value)>) {
        let info = json!({ "name": NAME, "version": env!("CARGO_PKG_VERSION") });
        let mut params = json!({ "name": self.tool, "arguments": self.arguments });
        if let Some((answers, remembered)) = again {
            params["inputResponses"] = answers;
            // A server without a state of its own is sent none: `null` is not the absence of the member.
            if !remembered.is_null() {
                params["requestState"] = remembered;
            }
        }
        params["_meta"] = meta::own(Revision::MODERN, &info, &json!({ "elicitation": { "form": {}, "url": {} } }));
        params["_meta"][meta::PROGRESS_TOKEN] = self.id.into();
        params["_meta"][meta::LOG_LEVEL] = "info".into();
        let id = RawId::from(1);
        let body = request(&id, Method::ToolsCall.as_str(), Some(params.to_string().as_bytes()));
        let frame = match Frame::parse(body, &LIMITS) {
            Ok(frame) => frame,
            Err(error) => return self.finish(TryPhase::Failed(error.to_string())),
        };
        let meta = match ModernMeta::read(&frame) {
            Ok(meta) => meta,
            Err(error) => return self.finish(TryPhase::Failed(error.to_string())),
        };
        let level = Some(tidings_proto::LogLevel::Info);
        let caller = gateway.modern_caller(None, Revision::MODERN, &self.principal, level, meta.capabilities, None);
        let mut exchange = gateway.request(Caller::Modern(caller), frame, Method::ToolsCall, id);
        let answer = loop {
            match exchange.next().await {
                Reply::Answer(answer) | Reply::Forbidden { answer, .. } => break answer.payload.to_bytes(),
                Reply::Cancelled => return self.finish(TryPhase::Cancelled),
                Reply::Message(message) => self.hear(&message),
                // Everything else is for transports: how to send it, or that it takes longer.
                _ => {}
            }
        };
        let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
        if let Some(error) = answer.get("error") {
            let (code, message) = (&error["code"], error["message"].as_str().unwrap_or("error"));
            return self.finish(TryPhase::Failed(format!("{message} ({code})")));
        }
        let result = &answer["result"];
        if result["resultType"] == "input_required" {
            let (questions, state) = (result["inputRequests"].clone(), result["requestState"].clone());
            self.state.send_modify(|now| now.phase = TryPhase::Asked { questions, state });
            return;
        }
        self.finish(TryPhase::Done(result.clone()));
    }

    fn hear(&self, message: &[u8]) {
        let Ok(message) = serde_json::from_slice::<Value>(message) else { return };
        let params = &message["params"];
        match message["method"].as_str() {
            Some("notifications/progress") => {
                let words = cut(params["message"].as_str().unwrap_or_default());
                let progress = (params["progress"].as_f64().unwrap_or_default(), params["total"].as_f64(), words);
                self.state.send_modify(|state| state.progress = Some(progress));
            }
            Some("notifications/message") => {
                let text = params["data"].as_str().map_or_else(|| params["data"].to_string(), str::to_owned);
                let line = cut(&format!("{}: {text}", params["level"].as_str().unwrap_or("log")));
                self.state.send_modify(|state| {
                    if state.messages.len() == MESSAGES {
                        state.messages.remove(0);
                    }
                    state.messages.push(line);
                });
            }
            _ => {}
        }
    }

    /// As the API shows it.
    pub fn describe(&self) -> Value {
        let state = self.state();
        let (phase, more) = match &state.phase {
            TryPhase::Running => ("running", Value::Null),
            TryPhase::Asked { questions, .. } => ("asked", questions.clone()),
            TryPhase::Done(result) => ("done", result.clone()),
            TryPhase::Failed(error) => ("failed", error.as_str().into()),
            TryPhase::Cancelled => ("cancelled", Value::Null),
        };
        let mut shown = json!({
            "id": self.id,
            "tool": self.tool,
            "state": phase,
            "messages": state.messages,
            "progress": state.progress.map(|(done, total, message)| json!({ "progress": done, "total": total, "message": message })),
        });
        let member = match phase {
            "asked" => "questions",
            "done" => "result",
            "failed" => "error",
            _ => return shown,
        };
        shown[member] = more;
        shown
    }
}

fn cut(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}

/// `POST /calls`: begins a call, and tells how it goes until it is over.
pub(crate) async fn begin(
    State(admin): State<AdminShared>,
    Extension(principal): Extension<Principal>,
    body: RequestBody,
) -> Response {
    let wish: Value = serde_json::from_slice(&body).unwrap_or_default();
    let Some(tool) = wish["name"].as_str() else {
        return problem(StatusCode::BAD_REQUEST, "`name` must be the name of a tool");
    };
    let arguments = match &wish["arguments"] {
        Value::Null => json!({}),
        Value::Object(_) => wish["arguments"].clone(),
        _ => return problem(StatusCode::BAD_REQUEST, "`arguments` must be an object"),
    };
    match admin.desk.begin(&admin.gateway, principal, tool, arguments) {
        Ok(call) => {
            let state = call.state.subscribe();
            events::respond(CallNews { call, state, told: false, over: false }, admin.gateway.draining())
        }
        Err(fault) => refused(&fault),
    }
}

/// `GET /calls/{id}`.
pub(crate) async fn show(State(admin): State<AdminShared>, Path(id): Path<u64>) -> Response {
    match admin.desk.get(id) {
        Some(call) => Json(call.describe()).into_response(),
        None => refused(&TryFault::Unknown),
    }
}

/// `POST /calls/{id}/answer`.
pub(crate) async fn answer(State(admin): State<AdminShared>, Path(id): Path<u64>, body: RequestBody) -> Response {
    let Ok(answers @ Value::Object(_)) = serde_json::from_slice(&body) else {
        return problem(StatusCode::BAD_REQUEST, "the body must be an object: an answer for each question, by its key");
    };
    match admin.desk.answer(&admin.gateway, id, answers) {
        Ok(()) => show(State(admin), Path(id)).await,
        Err(fault) => refused(&fault),
    }
}

/// `DELETE /calls/{id}`.
pub(crate) async fn cancel(State(admin): State<AdminShared>, Path(id): Path<u64>) -> Response {
    match admin.desk.cancel(id) {
        Ok(()) => show(State(admin), Path(id)).await,
        Err(fault) => refused(&fault),
    }
}

fn refused(fault: &TryFault) -> Response {
    let status = match fault {
        TryFault::TooMany => StatusCode::SERVICE_UNAVAILABLE,
        TryFault::Unknown => StatusCode::NOT_FOUND,
        TryFault::NotAsked => StatusCode::CONFLICT,
    };
    problem(status, &fault.to_string())
}

/// One call, for whoever began it.
struct CallNews {
    call: Arc<TriedCall>,
    state: watch::Receiver<TryState>,
    told: bool,
    over: bool,
}

impl EventSource for CallNews {
    async fn next(&mut self) -> Option<Bytes> {
        if self.over {
            return None;
        }
        // The state of now first, without waiting: it may have changed before anybody subscribed, or for the last time.
        if std::mem::replace(&mut self.told, true) {
            self.state.changed().await.ok()?;
        }
        self.over = self.state.borrow_and_update().ended.is_some();
        Some(sse::encode(None, None, self.call.describe().to_string().as_bytes()))
    }
}
