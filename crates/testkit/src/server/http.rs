//! A server on HTTP: accepting, recording, and telling the eras apart.

mod exchange;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use self::exchange::{legacy_post, modern_post};
use super::answer::{RpcError, ScriptedAnswer};
use super::conn::{ClientConnection, StandaloneOutlet};
use super::core::ServerCore;
use super::event_stream::{ChannelBody, DropGuard, EventStream};
use super::script;
use crate::received::ReceivedMessage;
use crate::record::{lock, within};
use crate::revision::is_modern;

pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Closes the connection without a response.
#[derive(Debug)]
pub(crate) struct HungUp;

impl std::fmt::Display for HungUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("hung up")
    }
}

impl std::error::Error for HungUp {}

/// Listens at a free port, or at the one it had.
pub(crate) async fn listen(core: &Arc<ServerCore>, address: Option<SocketAddr>) -> SocketAddr {
    let wanted = address.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0)));
    // Once more and again: a process that is just being forked elsewhere in the test still holds the old socket.
    let listener = within(&format!("address {wanted} to be free"), async {
        loop {
            match TcpListener::bind(wanted).await {
                Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                other => return other.unwrap_or_else(|e| panic!("listening at {wanted}: {e}")),
            }
        }
    })
    .await;
    let address = listener.local_addr().expect("a listener has an address");
    let life = core.life();
    let core = core.clone();
    life.clone().spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            life.spawn(serve(core.clone(), stream));
        }
    });
    address
}

/// Ends a connection when dropped, also while a process that is just being forked elsewhere in the test still holds it.
struct ConnectionHold(std::net::TcpStream);

impl ConnectionHold {
    fn new(stream: TcpStream) -> std::io::Result<(Self, TcpStream)> {
        let stream = stream.into_std()?;
        Ok((Self(stream.try_clone()?), TcpStream::from_std(stream)?))
    }
}

impl Drop for ConnectionHold {
    fn drop(&mut self) {
        let _ = self.0.shutdown(std::net::Shutdown::Both);
    }
}

async fn serve(core: Arc<ServerCore>, stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let Ok((_hold, stream)) = ConnectionHold::new(stream) else { return };
    let service = hyper::service::service_fn(move |request| handle(core.clone(), request));
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn handle(core: Arc<ServerCore>, request: Request<Incoming>) -> Result<Response<Body>, HungUp> {
    let (head, body) = request.into_parts();
    let Ok(body) = body.collect().await else { return Err(HungUp) };
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let mut received = ReceivedMessage {
        verb: head.method.to_string(),
        path: head.uri.path().to_owned(),
        headers: head.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect(),
        ..ReceivedMessage::parse(body.to_bytes())
    };
    let conn = match core.script.sse {
        true => super::sse::find_connection(&core, &head.uri),
        false => find_connection(&core, &received),
    };
    received.connection = conn.as_ref().map_or(0, |conn| conn.number);
    // Recorded before anything is refused or held: a test sees every request that arrived.
    core.received.push(received.clone());
    core.wait_thawed().await;
    if let Some(answer) = core.script.http_hook.as_ref().and_then(|hook| hook(&received)) {
        return special(answer);
    }
    if core.script.sse {
        return Ok(super::sse::handle(&core, &head, conn, received).await);
    }
    match head.method {
        _ if head.uri.path() != "/mcp" => Ok(plain(404, "no such path")),
        Method::POST => post(&core, conn, received).await,
        Method::GET => {
            if let Some(gate) = &core.script.get_gate {
                gate.wait().await;
            }
            Ok(get(&core, conn.as_ref(), &received))
        }
        Method::DELETE => Ok(delete(&core, conn.as_ref())),
        _ => Ok(plain(405, "use POST, GET or DELETE")),
    }
}

/// The session that a request belongs to. Without session ids all share the newest.
fn find_connection(core: &ServerCore, received: &ReceivedMessage) -> Option<Arc<ClientConnection>> {
    let session = received.header("mcp-session-id");
    let mut all = core.connections().into_iter().rev();
    all.find(|conn| !core.script.sessions || (session.is_some() && conn.session.as_deref() == session))
}

async fn post(
    core: &Arc<ServerCore>,
    conn: Option<Arc<ClientConnection>>,
    received: ReceivedMessage,
) -> Result<Response<Body>, HungUp> {
    check_media(core, &received);
    if received.kind.is_none() {
        core.fault(format!("no message: {}", received.text()));
        return Ok(error(400, &RpcError::new(-32700, "no message"), None));
    }
    if core.script.modern && (script::claims_modern(&received) || core.script.revisions.is_empty()) {
        return modern_post(core, received).await;
    }
    if received.method == "initialize" {
        let number = core.next_connection();
        let session = core.script.sessions.then(|| format!("{}-session-{number}", core.name));
        let stream = Arc::new(EventStream::new(format!("get{number}")));
        let conn = ClientConnection::new(number, session, StandaloneOutlet::Http(stream));
        // Before it is answered: a client may send the next message as soon as it has the id.
        core.add_connection(conn.clone());
        return legacy_post(core, &conn, received).await;
    }
    match conn {
        Some(conn) => {
            check_version(core, &conn, &received);
            legacy_post(core, &conn, received).await
        }
        None => Ok(no_session(core, &received)),
    }
}

fn no_session(core: &ServerCore, received: &ReceivedMessage) -> Response<Body> {
    let id = received.id.as_ref();
    match (received.header("mcp-session-id"), core.script.unknown_session) {
        (Some(_), 400) => error(400, &RpcError::new(-32000, "Bad Request: No valid session ID provided"), id),
        (Some(_), 404) => error(404, &RpcError::new(-32001, "Session not found"), id),
        (Some(_), status) => plain(status, "refused"),
        (None, _) => error(400, &RpcError::new(-32000, "Bad Request: Mcp-Session-Id header is required"), id),
    }
}

fn check_media(core: &ServerCore, received: &ReceivedMessage) {
    let accept = received.header("accept").unwrap_or_default();
    if !accept.contains("application/json") || !accept.contains("text/event-stream") {
        core.fault(format!("Accept: {accept:?} at POST {}", received.method));
    }
    let content = received.header("content-type").unwrap_or_default();
    if !content.starts_with("application/json") {
        core.fault(format!("Content-Type: {content:?} at POST {}", received.method));
    }
}

/// From 2025-06-18 on every request after `initialize` carries the negotiated revision.
fn check_version(core: &ServerCore, conn: &ClientConnection, received: &ReceivedMessage) {
    let Some(revision) = conn.revision().filter(|revision| revision.as_str() >= crate::V2025_06_18) else { return };
    let header = received.header("mcp-protocol-version");
    if header != Some(&revision) {
        core.fault(format!("MCP-Protocol-Version: {header:?} in a {revision} session at {}", received.method));
    }
}

fn get(core: &ServerCore, conn: Option<&Arc<ClientConnection>>, received: &ReceivedMessage) -> Response<Body> {
    let version = received.header("mcp-protocol-version").unwrap_or_default();
    if core.script.revisions.is_empty() || is_modern(version) {
        return plain(405, "GET belongs to earlier revisions");
    }
    let Some(conn) = conn else { return no_session(core, received) };
    check_version(core, conn, received);
    let StandaloneOutlet::Http(standalone) = &conn.standalone else { return plain(405, "no stream") };
    let last = received.header("last-event-id");
    let streams = lock(&conn.state).streams.clone();
    // An event id names its stream, so the stream of a POST can be resumed by a GET.
    let resumed =
        last.and_then(|id| std::iter::once(standalone).chain(&streams).find_map(|s| Some((s, s.position(id)?))));
    let (stream, after) = match resumed {
        Some((stream, after)) => (stream, Some(after)),
        None => (standalone, None),
    };
    events(ChannelBody { chunks: stream.attach(after, false), guard: DropGuard(None) }, conn.session.as_deref())
}

fn delete(core: &ServerCore, conn: Option<&Arc<ClientConnection>>) -> Response<Body> {
    let Some(conn) = conn else { return plain(404, "Session not found") };
    core.remove_connection(conn.number);
    if let StandaloneOutlet::Http(stream) = &conn.standalone {
        stream.end();
    }
    plain(200, "")
}

fn special(answer: ScriptedAnswer) -> Result<Response<Body>, HungUp> {
    match answer {
        ScriptedAnswer::Http { status, headers, body } => {
            let mut response = Response::new(Full::new(body).boxed_unsync());
            *response.status_mut() = StatusCode::from_u16(status).expect("a status");
            for (name, value) in headers {
                let name = http::HeaderName::try_from(name).expect("a header name");
                response.headers_mut().append(name, value.parse().expect("a header value"));
            }
            Ok(response)
        }
        ScriptedAnswer::Result(body) | ScriptedAnswer::Raw(body) => Ok(json(200, body, None)),
        ScriptedAnswer::Error(failure) => Ok(error(200, &failure, None)),
        ScriptedAnswer::Silent | ScriptedAnswer::HangUp | ScriptedAnswer::Exit(_) => Err(HungUp),
    }
}

pub(super) fn plain(status: u16, text: &str) -> Response<Body> {
    build(status, "text/plain", None, Full::new(Bytes::copy_from_slice(text.as_bytes())).boxed_unsync())
}

fn json(status: u16, body: Bytes, session: Option<&str>) -> Response<Body> {
    build(status, "application/json", session, Full::new(body).boxed_unsync())
}

fn error(status: u16, failure: &RpcError, id: Option<&tidings_wire::RawId>) -> Response<Body> {
    json(status, failure.to_bytes(id), None)
}

pub(super) fn events(chunks: ChannelBody, session: Option<&str>) -> Response<Body> {
    build(200, "text/event-stream", session, chunks.boxed_unsync())
}

fn build(status: u16, media: &str, session: Option<&str>, body: Body) -> Response<Body> {
    let mut response = Response::builder().status(status).header("content-type", media);
    if let Some(session) = session {
        response = response.header("mcp-session-id", session);
    }
    response.body(body).expect("a response")
}
