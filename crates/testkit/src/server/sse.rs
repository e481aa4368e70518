//! A server on HTTP+SSE, the transport of revision 2024-11-05: one stream carries everything, a POST brings each message.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Response};
use tidings_wire::{one_line, sse};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::answer::ScriptedAnswer;
use super::call::ScriptedCall;
use super::conn::{ChannelOut, ClientConnection, StandaloneOutlet};
use super::core::ServerCore;
use super::event_stream::{ChannelBody, DropGuard};
use super::http::{Body, events, plain};
use super::script;
use crate::received::{DISCONNECTED, ReceivedMessage};

pub(crate) async fn handle(
    core: &Arc<ServerCore>,
    head: &http::request::Parts,
    conn: Option<Arc<ClientConnection>>,
    received: ReceivedMessage,
) -> Response<Body> {
    match (head.method.clone(), head.uri.path()) {
        (Method::GET, "/sse") => open(core, &received),
        (Method::POST, "/messages") => post(core, conn, received).await,
        (_, "/sse" | "/messages") => plain(405, "Method Not Allowed"),
        _ => plain(404, "Not Found"),
    }
}

/// The session that the address of a message names.
pub(crate) fn find_connection(core: &ServerCore, uri: &http::Uri) -> Option<Arc<ClientConnection>> {
    let session = uri.query().unwrap_or_default().split('&').find_map(|part| part.strip_prefix("session="))?;
    core.connections().into_iter().find(|conn| conn.session.as_deref() == Some(session))
}

fn open(core: &Arc<ServerCore>, received: &ReceivedMessage) -> Response<Body> {
    let accept = received.header("accept").unwrap_or_default();
    if !accept.contains("text/event-stream") {
        core.fault(format!("Accept: {accept:?} at GET /sse"));
    }
    let number = core.next_connection();
    let (outlet, mut outs) = mpsc::unbounded_channel();
    let session = format!("s{number}");
    // Kept by the stream: a session that is forgotten leaves it open.
    let held = outlet.clone();
    let conn = ClientConnection::new(number, Some(session.clone()), StandaloneOutlet::Sse(outlet));
    core.add_connection(conn);
    let (writer, chunks) = mpsc::unbounded_channel();
    let endpoint = format!("{}?session={session}", core.script.sse_endpoint);
    let _ = writer.send(Bytes::from(format!("event: endpoint\ndata: {endpoint}\n\n")));
    let ending = Arc::clone(core);
    core.life().spawn(async move {
        loop {
            let out = tokio::select! {
                out = outs.recv() => out,
                () = writer.closed() => None,
            };
            match out {
                Some(ChannelOut::Message(message) | ChannelOut::Last(message)) => {
                    let _ = writer.send(sse::encode(None, None, &one_line(&message)));
                }
                None | Some(ChannelOut::CloseStream(_) | ChannelOut::Special(ScriptedAnswer::HangUp)) => break,
                Some(_) => {}
            }
        }
        drop(held);
        // The session is the stream.
        let conn = ending.connections().into_iter().find(|conn| conn.number == number);
        for call in conn.iter().flat_map(|conn| conn.running()) {
            call.cancel();
        }
        ending.remove_connection(number);
    });
    let lost = ReceivedMessage { method: DISCONNECTED.to_owned(), connection: number, ..ReceivedMessage::default() };
    let core = Arc::clone(core);
    events(ChannelBody { chunks, guard: DropGuard(Some(Box::new(move || core.received.push(lost)))) }, None)
}

async fn post(
    core: &Arc<ServerCore>,
    conn: Option<Arc<ClientConnection>>,
    received: ReceivedMessage,
) -> Response<Body> {
    let Some(conn) = conn else { return plain(core.script.unknown_session, "Could not find session") };
    let content = received.header("content-type").unwrap_or_default();
    if !content.starts_with("application/json") {
        core.fault(format!("Content-Type: {content:?} at POST {}", received.method));
    }
    let StandaloneOutlet::Sse(outlet) = &conn.standalone else { return plain(404, "Could not find session") };
    let gate = core.script.sse_posts.as_ref().filter(|_| received.method == "tools/call");
    match received.id.clone().filter(|_| received.is_request()) {
        Some(id) => script::start(ScriptedCall {
            core: Arc::clone(core),
            outlet: outlet.clone(),
            conn: Some(Arc::clone(&conn)),
            cancelled: CancellationToken::new(),
            modern: false,
            received,
            id,
        }),
        None => script::take(core, &conn, &received),
    }
    if let Some(gate) = gate {
        gate.wait().await;
    }
    plain(202, "Accepted")
}
