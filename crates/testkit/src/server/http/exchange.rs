//! One POST with a request: plain JSON when nothing precedes the answer, else an event stream.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use tidings_wire::{RawId, one_line, sse};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Body, HungUp, error, events, json, plain, special};
use crate::received::{DISCONNECTED, ReceivedMessage};
use crate::record::lock;
use crate::revision::V2025_11_25;
use crate::server::answer::{RpcError, ScriptedAnswer};
use crate::server::call::ScriptedCall;
use crate::server::conn::{ChannelOut, ClientConnection};
use crate::server::core::ServerCore;
use crate::server::event_stream::{ChannelBody, DropGuard, EventStream};
use crate::server::script;

pub(super) async fn legacy_post(
    core: &Arc<ServerCore>,
    conn: &Arc<ClientConnection>,
    mut received: ReceivedMessage,
) -> Result<Response<Body>, HungUp> {
    received.connection = conn.number;
    let Some(id) = received.id.clone().filter(|_| received.is_request()) else {
        script::take(core, conn, &received);
        return Ok(plain(202, ""));
    };
    let (outlet, mut outs) = mpsc::unbounded_channel();
    let method = received.method.clone();
    let cancelled = CancellationToken::new();
    // Before the call begins: hyper drops this future when the client leaves, also before anything was sent.
    let mut guard = watch(core, &received, &id, None);
    let call = ScriptedCall {
        core: core.clone(),
        conn: Some(conn.clone()),
        id: id.clone(),
        outlet,
        modern: false,
        cancelled,
        received,
    };
    script::start(call);
    let session = conn.session.clone();
    // What is sent first decides between plain JSON and a stream.
    let first = match outs.recv().await {
        Some(ChannelOut::Last(message)) => {
            guard.disarm();
            return Ok(json(200, message, session.as_deref()));
        }
        Some(ChannelOut::Special(answer)) => {
            guard.disarm();
            return special(answer);
        }
        Some(first) => first,
        None => return Err(HungUp),
    };
    // The id of a request can be any text, and the id of an event has to stay on its line.
    let stream = Arc::new(EventStream::new(format!("{method}:{id}").replace(['"', '\n', '\r'], "_")));
    lock(&conn.state).streams.push(stream.clone());
    // The event that primes a resumption came with this revision.
    let priming = conn.revision().is_some_and(|revision| revision == V2025_11_25);
    let chunks = stream.attach(None, priming);
    // Goes on when the client is gone: it may come back and resume the stream.
    core.life().spawn(async move {
        let mut next = Some(first);
        while let Some(out) = next {
            match out {
                ChannelOut::Message(message) => stream.push(&message),
                ChannelOut::Last(message) => {
                    stream.push(&message);
                    break;
                }
                ChannelOut::CloseStream(retry) => stream.detach(retry),
                ChannelOut::Special(_) => break,
                _ => {}
            }
            next = outs.recv().await;
        }
        stream.end();
    });
    Ok(events(ChannelBody { chunks, guard }, session.as_deref()))
}

pub(super) async fn modern_post(core: &Arc<ServerCore>, received: ReceivedMessage) -> Result<Response<Body>, HungUp> {
    if !received.is_request() {
        if received.is_response() {
            // A modern client answers a question by sending its request again.
            core.fault(format!("a response was POSTed to a modern server: {}", received.text()));
            return Ok(error(400, &RpcError::new(-32600, "responses are not accepted"), None));
        }
        return Ok(plain(202, ""));
    }
    let Some(id) = received.id.clone() else { return Ok(plain(400, "no id")) };
    let (outlet, mut outs) = mpsc::unbounded_channel();
    let cancelled = CancellationToken::new();
    let mut guard = watch(core, &received, &id, Some(cancelled.clone()));
    let call =
        ScriptedCall { core: core.clone(), conn: None, id: id.clone(), outlet, modern: true, cancelled, received };
    if let Err((status, failure)) = check(&call) {
        guard.disarm();
        return Ok(error(status, &failure, Some(&id)));
    }
    script::start(call);
    let first = match outs.recv().await {
        Some(ChannelOut::Last(message)) => {
            guard.disarm();
            let status = script::http_status(&serde_json::from_slice(&message).unwrap_or_default());
            return Ok(json(status, message, None));
        }
        Some(ChannelOut::Special(answer)) => {
            guard.disarm();
            return special(answer);
        }
        Some(first) => first,
        None => return Err(HungUp),
    };
    let (writer, chunks) = mpsc::unbounded_channel();
    core.life().spawn(async move {
        let mut next = Some(first);
        while let Some(out) = next {
            let (data, last) = match out {
                ChannelOut::Message(message) => (message, false),
                ChannelOut::Last(message) => (message, true),
                ChannelOut::CloseStream(_) | ChannelOut::Special(ScriptedAnswer::HangUp) => return,
                _ => (Bytes::new(), false),
            };
            if !data.is_empty() && writer.send(sse::encode(None, None, &one_line(&data))).is_err() || last {
                return;
            }
            tokio::select! {
                out = outs.recv() => next = out,
                // A modern stream can not be resumed, so nobody will read the rest.
                () = writer.closed() => return,
            }
        }
    });
    Ok(events(ChannelBody { chunks, guard }, None))
}

/// `_meta` (−32602), headers against the body (−32020), version (−32022): in this order.
fn check(call: &ScriptedCall) -> Result<(), (u16, RpcError)> {
    let received = &call.received;
    // A test that takes over a method decides by itself what it accepts.
    if call.core.script.overrides.contains_key(&received.method) {
        return Ok(());
    }
    let meta = script::check_modern(call);
    if let Err(failure) = &meta
        && failure.code == -32602
    {
        return Err((400, failure.clone()));
    }
    let version = received.param(&["_meta", crate::revision::META_VERSION]);
    expect(call, "mcp-protocol-version", version.as_str())?;
    meta.map_err(|failure| (400, failure))?;
    expect(call, "mcp-method", Some(&received.method))?;
    let name = match received.method.as_str() {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        _ => return Ok(()),
    };
    expect(call, "mcp-name", received.param(&[name]).as_str())
}

fn expect(call: &ScriptedCall, header: &str, body: Option<&str>) -> Result<(), (u16, RpcError)> {
    let found = call.received.header(header).map(crate::client::decode_header);
    if found.as_deref() == body {
        return Ok(());
    }
    let text = format!("header {header} is {found:?}, the body says {body:?}");
    call.core.fault(format!("{}: {text}", call.received.method));
    Err((400, RpcError::new(-32020, text)))
}

/// Records a client that goes away before its response is complete.
fn watch(
    core: &Arc<ServerCore>,
    received: &ReceivedMessage,
    id: &RawId,
    cancel: Option<CancellationToken>,
) -> DropGuard {
    let lost = ReceivedMessage {
        method: DISCONNECTED.to_owned(),
        id: Some(id.clone()),
        connection: received.connection,
        ..ReceivedMessage::default()
    };
    let core = core.clone();
    DropGuard(Some(Box::new(move || {
        core.received.push(lost);
        if let Some(token) = cancel {
            token.cancel();
        }
    })))
}
