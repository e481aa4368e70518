//! What a server does with a request, whichever way it came.

use serde_json::{Value, json};
use tidings_wire::notification;
use tokio_util::sync::CancellationToken;

use super::answer::{RpcError, ScriptedAnswer};
use super::call::ScriptedCall;
use super::catalogue::not_found;
use super::conn::{ChannelOut, ClientConnection, StandaloneOutlet};
use super::core::{OpenSubscription, ServerCore, tag};
use super::lists;
use crate::received::ReceivedMessage;
use crate::record::lock;
use crate::revision::{META_CAPABILITIES, META_VERSION, MODERN};

/// Whether a message says that it is modern.
pub(crate) fn claims_modern(received: &ReceivedMessage) -> bool {
    !received.param_raw(&["_meta", META_VERSION]).is_empty()
}

/// Handles a request in a task of its own and sends its answer.
pub(crate) fn start(call: ScriptedCall) {
    if let (false, Some(conn)) = (call.modern, &call.conn) {
        check_order(&call, conn);
    }
    if let Some(conn) = &call.conn {
        // Before the task starts, so that a cancellation in the next message finds the call.
        lock(&conn.state).calls.insert(call.id.as_str().to_owned(), call.cancelled.clone());
    }
    call.core.life().spawn(async move {
        call.core.wait_thawed().await;
        let answer = answer(&call).await;
        if let Some(time) = call.core.held_back(&call.received.method) {
            tokio::time::sleep(time).await;
        }
        // It may have been frozen while the answer was made.
        call.core.wait_thawed().await;
        if let Some(conn) = &call.conn {
            lock(&conn.state).calls.remove(call.id.as_str());
        }
        finish(&call, answer).await;
    });
}

fn check_order(call: &ScriptedCall, conn: &ClientConnection) {
    let mut state = lock(&conn.state);
    let method = call.received.method.as_str();
    if !state.seen_ids.insert(call.id.as_str().to_owned()) {
        call.core.fault(format!("id {} of {method} was used before on this connection", call.id));
    }
    // `server/discover` is the probe of the modern era, which a legacy server sees first.
    let early = matches!(method, "initialize" | "server/discover" | "ping");
    if !early && !state.initialized {
        call.core.fault(format!("{method} before notifications/initialized"));
    }
}

async fn finish(call: &ScriptedCall, answer: ScriptedAnswer) {
    if let Some(message) = answer.message(&call.id) {
        let _ = call.outlet.send(ChannelOut::Last(message));
        return;
    }
    let on_stdio = call.conn.as_ref().is_some_and(|conn| matches!(conn.standalone, StandaloneOutlet::Stdio(_)));
    match answer {
        ScriptedAnswer::Exit(code) if on_stdio => {
            let _ = call.outlet.send(ChannelOut::Exit(code));
        }
        ScriptedAnswer::Exit(_) => {
            let core = call.core.clone();
            // Not a task of the life that it ends.
            tokio::spawn(async move { core.kill().await });
        }
        special @ (ScriptedAnswer::HangUp | ScriptedAnswer::Http { .. }) => {
            let _ = call.outlet.send(ChannelOut::Special(special));
        }
        // Keeps the outlet, so that the response stays open.
        _ => std::future::pending().await,
    }
}

async fn answer(call: &ScriptedCall) -> ScriptedAnswer {
    let script = &call.core.script;
    let method = call.received.method.as_str();
    if let Some(trouble) = script.trouble.get(method) {
        if let Some(code) = trouble.exit {
            return ScriptedAnswer::Exit(code);
        }
        if trouble.silent {
            return ScriptedAnswer::Silent;
        }
        if let Some(gate) = &trouble.hold {
            gate.wait().await;
        }
        if let Some(delay) = trouble.delay {
            tokio::time::sleep(delay).await;
        }
    }
    if call.core.takes_a_failure(method) {
        return RpcError::new(-32603, "out of order for a moment").into();
    }
    if let Some(handler) = script.overrides.get(method) {
        return handler(call.clone()).await;
    }
    if call.modern {
        if let Err(error) = check_modern(call) {
            return error.into();
        }
    } else if script.revisions.is_empty() {
        return RpcError::new(-32602, "this server speaks the modern revision only: _meta is missing").into();
    }
    match method {
        "initialize" if !call.modern => initialize(call),
        "ping" if !call.modern => ScriptedAnswer::result(json!({})),
        "logging/setLevel" if !call.modern && has(&call.core, "logging") => set_level(call),
        "resources/subscribe" if !call.modern && has(&call.core, "resources") => subscribe(call, true),
        "resources/unsubscribe" if !call.modern && has(&call.core, "resources") => subscribe(call, false),
        "server/discover" if call.modern => discover(call),
        "subscriptions/listen" if call.modern => listen(call).await,
        _ => offered(call, method).await,
    }
}

/// The methods that both eras have.
async fn offered(call: &ScriptedCall, method: &str) -> ScriptedAnswer {
    let catalogue = call.core.catalogue();
    let unknown = |what: &str, name: &str| RpcError::new(-32602, format!("Unknown {what}: {name}")).into();
    let key = call.param_str(if method == "resources/read" { "uri" } else { "name" });
    let kind = method.split('/').next().unwrap_or_default();
    if !has(&call.core, if kind == "completion" { "completions" } else { kind }) {
        return RpcError::new(-32601, format!("Method not found: {method}")).into();
    }
    match method {
        "tools/list" => lists::page(call, "tools", &catalogue.tools),
        "resources/list" => lists::page(call, "resources", &catalogue.resources),
        "resources/templates/list" => lists::page(call, "resourceTemplates", &catalogue.templates),
        "prompts/list" => lists::page(call, "prompts", &catalogue.prompts),
        "tools/call" => match catalogue.tools.iter().find(|tool| tool.key == key) {
            Some(tool) => (tool.handler)(call.clone()).await,
            None => unknown("tool", &key),
        },
        "prompts/get" => match catalogue.prompts.iter().find(|prompt| prompt.key == key) {
            Some(prompt) => (prompt.handler)(call.clone()).await,
            None => unknown("prompt", &key),
        },
        "resources/read" => match catalogue.reader(&key) {
            Some(resource) => (resource.handler)(call.clone()).await,
            None => not_found(call, &key).into(),
        },
        "completion/complete" => match &call.core.script.completion {
            Some(handler) => handler(call.clone()).await,
            None => call.ok(json!({"completion": {"values": []}})),
        },
        _ => RpcError::new(-32601, format!("Method not found: {method}")).into(),
    }
}

fn has(core: &ServerCore, capability: &str) -> bool {
    core.script.capabilities.get(capability).is_some()
}

fn initialize(call: &ScriptedCall) -> ScriptedAnswer {
    let script = &call.core.script;
    let asked = call.param_str("protocolVersion");
    // The specification: a server that does not speak what was asked for offers the latest that it does speak.
    let latest = script.revisions.last().expect("a legacy server has a revision");
    let revision = script.revisions.iter().find(|r| **r == asked).unwrap_or(latest).clone();
    let mut result = json!({
        "protocolVersion": revision,
        "capabilities": script.capabilities,
        "serverInfo": call.core.server_info(),
    });
    if let Some(text) = &script.instructions {
        result["instructions"] = json!(text);
    }
    if let Some(conn) = &call.conn {
        let mut state = lock(&conn.state);
        if state.revision.replace(revision).is_some() {
            call.core.fault("initialize twice on one connection");
        }
        state.client = call.params();
    }
    call.core.count_initialize();
    ScriptedAnswer::result(result)
}

fn discover(call: &ScriptedCall) -> ScriptedAnswer {
    let script = &call.core.script;
    let mut result = json!({
        "supportedVersions": [MODERN],
        "capabilities": script.capabilities,
        "ttlMs": 0,
        "cacheScope": "private",
    });
    if let Some(text) = &script.instructions {
        result["instructions"] = json!(text);
    }
    call.ok(result)
}

fn set_level(call: &ScriptedCall) -> ScriptedAnswer {
    if let Some(conn) = &call.conn {
        lock(&conn.state).log_level = Some(call.param_str("level"));
    }
    ScriptedAnswer::result(json!({}))
}

fn subscribe(call: &ScriptedCall, on: bool) -> ScriptedAnswer {
    let uri = call.param_str("uri");
    if on && call.core.catalogue().reader(&uri).is_none() {
        return not_found(call, &uri).into();
    }
    if let Some(conn) = &call.conn {
        let subscriptions = &mut lock(&conn.state).subscriptions;
        if on {
            subscriptions.insert(uri);
        } else if !subscriptions.remove(&uri) {
            call.core.fault(format!("unsubscribe from {uri}, which was not subscribed"));
        }
    }
    ScriptedAnswer::result(json!({}))
}

/// Acknowledges what the capabilities allow, then stays open until either side ends it.
async fn listen(call: &ScriptedCall) -> ScriptedAnswer {
    let mut filter = call.received.param(&["notifications"]);
    let capabilities = &call.core.script.capabilities;
    if let Some(members) = filter.as_object_mut() {
        members.retain(|flag, _| {
            let (kind, feature) = match flag.as_str() {
                "resourceSubscriptions" => ("resources", "subscribe"),
                flag => (flag.strip_suffix("ListChanged").unwrap_or_default(), "listChanged"),
            };
            capabilities[kind][feature] == true
        });
    }
    let ended = CancellationToken::new();
    let listen = OpenSubscription {
        id: call.id.clone(),
        filter: filter.clone(),
        outlet: call.outlet.clone(),
        ended: ended.clone(),
    };
    let params = json!({ "notifications": filter }).to_string();
    let ack = notification("notifications/subscriptions/acknowledged", Some(params.as_bytes()));
    // Before the subscription is entered: no notification may come before its acknowledgement.
    call.notify_raw(tag(&ack, &call.id));
    call.core.listens.send_modify(|all| all.push(listen));
    tokio::select! {
        () = ended.cancelled() => {}
        () = call.cancelled() => {
            call.core.listens.send_modify(|all| all.retain(|l| !l.outlet.same_channel(&call.outlet) || l.id != call.id));
        }
    }
    // Whoever ended it has sent the result, or there is nobody to send it to.
    ScriptedAnswer::Silent
}

/// The checks of every modern request that do not concern HTTP.
pub(crate) fn check_modern(call: &ScriptedCall) -> Result<(), RpcError> {
    let version = call.received.param(&["_meta", META_VERSION]);
    let fail = |error: RpcError| {
        call.core.fault(format!("{}: {}", call.received.method, error.message));
        Err(error)
    };
    if !version.is_string() {
        return fail(RpcError::new(-32602, format!("_meta[{META_VERSION}] must be a string")));
    }
    if !call.received.param(&["_meta", META_CAPABILITIES]).is_object() {
        return fail(RpcError::new(-32602, format!("_meta[{META_CAPABILITIES}] must be an object")));
    }
    if version != MODERN {
        let data = json!({"supported": [MODERN], "requested": version});
        return fail(RpcError::with_data(-32022, "Unsupported protocol version", data));
    }
    Ok(())
}

/// A notification or a response of a client on a legacy connection, or on a process.
pub(crate) fn take(core: &ServerCore, conn: &ClientConnection, received: &ReceivedMessage) {
    if received.is_response() {
        if !conn.resolve(received) {
            core.fault(format!("a response that nobody waits for: {}", received.text()));
        }
        return;
    }
    match received.method.as_str() {
        "notifications/initialized" => {
            let mut state = lock(&conn.state);
            if state.revision.is_none() || std::mem::replace(&mut state.initialized, true) {
                core.fault("notifications/initialized out of place");
            }
        }
        "notifications/cancelled" => {
            // By raw text, so that `1` and `"1"` differ.
            conn.cancel(&received.param_raw(&["requestId"]));
        }
        _ => {}
    }
}

/// Whether the value is one of the errors that a modern server answers with a status of their own.
pub(crate) fn http_status(message: &Value) -> u16 {
    match message["error"]["code"].as_i64() {
        Some(-32601) => 404,
        Some(-32022..=-32020) => 400,
        _ => 200,
    }
}
