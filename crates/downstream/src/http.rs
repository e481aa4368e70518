//! Clients over HTTP: one endpoint, `/mcp`, for both eras, with one server alone at `/mcp/s/NAME`, and for old clients the two paths of
//! HTTP+SSE. Everything else goes to the router of the caller.

mod alone;
mod body;
mod cancel_safe;
mod connections;
mod credential_end;
mod endpoint;
mod failed_logins;
mod forwarded;
mod guard;
mod legacy;
mod modern;
mod passed_on;
mod peer;
mod reply_stream;
mod retention;
mod session_archive;
mod session_keeper;
mod sessions;
mod sse;
mod tls;

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::header::WWW_AUTHENTICATE;
use http::{HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tidings_engine::{AuditedDecision, Gateway};
use tidings_identity::{Authenticator, ClientCertificate, LastToken};
use tidings_wire::MessageBudget;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use crate::DRAIN;
use connections::{ConnectionPlace, Connections, TakenPlace};
use endpoint::HttpEndpoint;
pub use passed_on::{HomeOf, passed_on};
use peer::LoopbackPeer;
pub use retention::KeptBytes;
pub use session_archive::{ArchiveKey, ArchiveStep, SessionArchive};
use session_keeper::ArchiveSweep;
pub use tls::{TlsEntrance, TlsFault, TlsFiles};

/// Read and write buffer of a connection: also the bound on the size of request headers.
const BUFFER: usize = 16 << 10;
/// How long a client may take to send its headers, and how long a connection may be idle.
const IDLE: Duration = Duration::from_secs(60);
/// What is recorded of a path that somebody who was not let in asked for.
const LONGEST_PATH: usize = 100;
/// How a challenge says that there was a token (RFC 6750, 3.1).
const BAD_TOKEN: &[u8] = b"error=\"invalid_token\"";

/// Settings of the endpoint.
#[derive(Clone)]
pub struct EndpointOptions {
    /// Who may come in.
    pub authenticator: Authenticator,
    /// Whether only this machine can connect, so that foreign `Host` headers are an attack.
    pub loopback: bool,
    /// A host name by which only this machine reaches the gateway, besides `localhost` and the loopback addresses.
    pub own_name: Option<Arc<str>>,
    /// How many legacy sessions there may be.
    pub max_sessions: usize,
    /// How many connections there may be.
    pub max_connections: usize,
    /// After how long without a request or a stream a session ends.
    pub session_idle: Duration,
    /// After how long a request of which there is nothing to say gets its event stream nevertheless, so that nobody on the way
    /// gives up.
    pub silence: Duration,
    /// How long nothing of a body may come, once it has begun.
    pub body_pause: Duration,
    /// How long a body may take that does not come with its headers.
    pub body_whole: Duration,
    /// What messages of more than a few kilobytes may take of memory, together with everybody else's.
    pub message_budget: &'static MessageBudget,
    /// How many bytes of answers are kept for clients that have lost their connection.
    pub kept_bytes: KeptBytes,
    /// Where sessions are kept, so that they outlive the process.
    pub archive: Option<Arc<dyn SessionArchive>>,
    /// What addresses speak TLS with; sockets of the file system never do.
    pub tls: Option<TlsEntrance>,
}

impl Default for EndpointOptions {
    fn default() -> Self {
        Self {
            authenticator: Authenticator::default(),
            loopback: true,
            own_name: None,
            max_sessions: 10_000,
            max_connections: usize::MAX,
            session_idle: Duration::from_secs(60 * 60),
            silence: body::QUIET,
            body_pause: Duration::from_secs(30),
            body_whole: Duration::from_secs(5 * 60),
            message_budget: &tidings_wire::MESSAGES,
            kept_bytes: KeptBytes::default(),
            archive: None,
            tls: None,
        }
    }
}

/// Where clients connect.
pub enum EndpointListener {
    /// An address.
    Tcp(TcpListener),
    /// A socket in the file system. Only the user of the gateway, and root, are served there.
    #[cfg(unix)]
    Unix(tokio::net::UnixListener),
}

impl From<TcpListener> for EndpointListener {
    fn from(listener: TcpListener) -> Self {
        Self::Tcp(listener)
    }
}

/// A connection, and who is at its other end.
enum AcceptedStream {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(tokio::net::UnixStream),
}

impl EndpointListener {
    async fn accept(&self) -> std::io::Result<AcceptedStream> {
        match self {
            Self::Tcp(listener) => listener.accept().await.map(|(stream, _)| AcceptedStream::Tcp(stream)),
            #[cfg(unix)]
            Self::Unix(listener) => listener.accept().await.map(|(stream, _)| AcceptedStream::Unix(stream)),
        }
    }
}

/// Serves until `stop` rings; then streams end, running requests are finished, and connections close.
pub async fn serve(
    listeners: Vec<EndpointListener>,
    gateway: Gateway,
    others: Router,
    options: EndpointOptions,
    stop: CancellationToken,
) {
    let places = Connections::new(options.max_connections);
    let endpoint = Arc::new(HttpEndpoint::new(gateway.clone(), options));
    forwarded::serve(&endpoint, &others);
    let connections = TaskTracker::new();
    let closing = CancellationToken::new();
    // Before the first connection is taken: a client that comes back at once must find its session.
    endpoint.read_archive().await;
    let expiry = connections.spawn(Arc::clone(&endpoint).expire_sessions(closing.clone()));
    connections.spawn(Arc::clone(&endpoint).end_unadmitted_sessions(closing.clone()));
    connections.spawn(Arc::clone(&endpoint).end_sessions_of_removed(closing.clone()));
    connections.spawn(Arc::clone(&endpoint).keep_sessions(closing.clone()));
    if let Some(tls) = &endpoint.options.tls {
        connections.spawn(tls.clone().follow(endpoint.options.authenticator.clone(), closing.clone()));
    }
    let accept = async |listener: EndpointListener| {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                // First, so that nobody connects who would only be refused: the listener ends with this.
                () = stop.cancelled() => break,
            };
            match accepted {
                Ok(stream) => match places.enter() {
                    Some(place) => {
                        let parts = (Arc::clone(&endpoint), others.clone(), closing.clone());
                        let taken = Arc::clone(&place.place);
                        let task = match stream {
                            AcceptedStream::Tcp(stream) => match &endpoint.options.tls {
                                Some(tls) => connections.spawn(tls_connection(stream, tls.clone(), place, parts)),
                                None => connections.spawn(tcp_connection(stream, place, parts)),
                            },
                            #[cfg(unix)]
                            AcceptedStream::Unix(stream) => connections.spawn(unix_connection(stream, place, parts)),
                        };
                        taken.is_served_by(task.abort_handle());
                    }
                    // Nobody who speaks TLS could read the reason: the end of the connection has to do.
                    None if endpoint.options.tls.is_some() => {}
                    None => refuse_connection(&stream),
                },
                Err(error) => {
                    // Out of file descriptors, most likely: wait for some to be closed.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    };
    futures_util::future::join_all(listeners.into_iter().map(accept)).await;
    // Before the connections close: listens end with an answer, and not with a reset.
    gateway.drain();
    closing.cancel();
    connections.close();
    if tokio::time::timeout(DRAIN, connections.wait()).await.is_err() {
        tracing::warn!(requests = gateway.in_flight(), "not everything was finished in time");
    }
    // It ends by `closing`; only one that is stuck is still there.
    expiry.abort();
    // Last: what was delivered during the drain is part of what is kept.
    endpoint.write_archive(ArchiveSweep::All).await;
}

/// Whether a request has come in. One timer per connection and minute, where a header timeout would arm one per request.
#[derive(Default)]
struct ConnectionActivity {
    lately: AtomicBool,
    ever: AtomicBool,
}

impl ConnectionActivity {
    fn request(&self) {
        self.lately.store(true, Ordering::Relaxed);
        self.ever.store(true, Ordering::Relaxed);
    }

    /// Returns when no request has come in for a while. A long answer looks idle too, but is not cut off: the
    /// connection only takes no further request.
    async fn ends(&self) {
        loop {
            tokio::time::sleep(IDLE).await;
            if !self.lately.swap(false, Ordering::Relaxed) {
                return;
            }
        }
    }
}

/// Tells the audit log of somebody who was not let in, and slows down whoever tries too many tokens.
struct RefusalRecord {
    endpoint: Arc<HttpEndpoint>,
    peer: Option<IpAddr>,
    /// The place of its connection, as long as nobody was let in on it: later requests need no reference to it.
    place: Option<Arc<ConnectionPlace>>,
}

impl RefusalRecord {
    /// What is answered in the end.
    fn see(&self, path: &str, response: Response<Body>) -> Response<Body> {
        let status = response.status();
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            let response = self.slowed_down(response);
            let status = response.status().as_u16();
            // Anybody may choose it.
            let path = path.chars().take(LONGEST_PATH).collect();
            self.endpoint.gateway.record_decision(AuditedDecision::Refused { peer: self.peer, path, status });
            return response;
        } else if let Some(place) = &self.place
            && (alone::is_endpoint(path) || path == sse::STREAM || path.starts_with("/api/"))
        {
            place.let_in();
        }
        response
    }

    /// The refusal of a token, or the word to wait where there were too many from that address.
    fn slowed_down(&self, response: Response<Body>) -> Response<Body> {
        let challenge = response.headers().get(WWW_AUTHENTICATE).map(HeaderValue::as_bytes).unwrap_or_default();
        // A request without a token is how a client learns where to get one.
        let is_bad_token = challenge.windows(BAD_TOKEN.len()).any(|part| part == BAD_TOKEN);
        let over = self.peer.filter(|_| is_bad_token);
        match over.and_then(|peer| self.endpoint.failed_logins.failed(peer, Instant::now())) {
            Some(left) => endpoint::too_many_failed_logins(left),
            None => response,
        }
    }
}

/// Says why, as far as that can be done without waiting for whoever it is.
fn refuse_connection(stream: &AcceptedStream) {
    let text = "there are as many connections as may be; try again later";
    let head =
        "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nContent-Type: text/plain\r\n";
    let answer = format!("{head}Content-Length: {}\r\n\r\n{text}", text.len());
    let _ = match stream {
        AcceptedStream::Tcp(stream) => stream.try_write(answer.as_bytes()),
        #[cfg(unix)]
        AcceptedStream::Unix(stream) => stream.try_write(answer.as_bytes()),
    };
}

/// What every connection needs.
type ConnectionParts = (Arc<HttpEndpoint>, Router, CancellationToken);

async fn tcp_connection(stream: TcpStream, taken: TakenPlace, parts: ConnectionParts) {
    // Without this, event streams wait for acknowledgements of the peer.
    let _ = stream.set_nodelay(true);
    // Whoever needs no token here must at least be the same user.
    let peer = parts.0.is_open_to_its_user().then(|| LoopbackPeer::of(&stream));
    let address = stream.peer_addr().ok().map(|address| address.ip());
    let (endpoint, others, closing) = parts;
    let whose = ConnectionPeer { user: peer, address, certificate: None };
    connection(stream, whose, taken, (endpoint, others), closing.cancelled()).await;
}

async fn tls_connection(stream: TcpStream, tls: TlsEntrance, taken: TakenPlace, parts: ConnectionParts) {
    let _ = stream.set_nodelay(true);
    let (endpoint, others, closing) = parts;
    let user = endpoint.is_open_to_its_user().then(|| LoopbackPeer::of(&stream));
    let address = stream.peer_addr().ok().map(|address| address.ip());
    let accepted = tokio::select! {
        accepted = tls.accept(stream) => accepted,
        () = closing.cancelled() => return,
    };
    let Some(accepted) = accepted else { return };
    let whose = ConnectionPeer { user, address, certificate: accepted.certificate };
    let ends = async {
        tokio::select! {
            () = closing.cancelled() => {}
            () = accepted.signers_replaced.cancelled() => {}
        }
    };
    connection(accepted.stream, whose, taken, (endpoint, others), ends).await;
}

/// What whoever is at the other end of a connection has shown.
#[derive(Default)]
struct ShownCredentials {
    certificate: Option<Arc<ClientCertificate>>,
    last_token: LastToken,
}

/// Who is at the other end of a connection.
struct ConnectionPeer {
    /// Where only one user is served.
    user: Option<LoopbackPeer>,
    address: Option<IpAddr>,
    certificate: Option<Arc<ClientCertificate>>,
}

#[cfg(unix)]
async fn unix_connection(stream: tokio::net::UnixStream, taken: TakenPlace, parts: ConnectionParts) {
    let own = rustix::process::geteuid().as_raw();
    // Whatever the mode of the socket is: it may have been changed.
    if stream.peer_cred().is_ok_and(|peer| peer.uid() == own || peer.uid() == 0) {
        let (endpoint, others, closing) = parts;
        let whose = ConnectionPeer { user: None, address: None, certificate: None };
        connection(stream, whose, taken, (endpoint, others), closing.cancelled()).await;
    }
}

async fn connection<S: AsyncRead + AsyncWrite + Unpin + Send>(
    stream: S,
    ConnectionPeer { user: peer, address, certificate }: ConnectionPeer,
    taken: TakenPlace,
    (endpoint, others): (Arc<HttpEndpoint>, Router),
    ends: impl Future<Output = ()> + Send,
) {
    let activity = Arc::new(ConnectionActivity::default());
    let watched = Arc::clone(&activity);
    let place = Arc::clone(&taken.place);
    let shown = Arc::new(ShownCredentials { certificate, last_token: LastToken::default() });
    // Boxed as a whole, each answer in its own size: an idle connection and one that only streams keep no room for the next request.
    let service =
        service_fn(move |request: Request<Incoming>| -> BoxFuture<'static, Result<Response<Body>, Infallible>> {
            activity.request();
            // The rest is open to everybody, asks for a key of its own, or for a signature.
            let is_open = matches!(request.uri().path(), sse::STREAM | sse::MESSAGES | "/metrics")
                || alone::is_endpoint(request.uri().path());
            let is_foreign = is_open && peer.as_ref().is_some_and(|peer| !peer.is_own());
            let refusals = RefusalRecord { endpoint: Arc::clone(&endpoint), peer: address, place: place.if_unknown() };
            if is_foreign {
                let response = endpoint::foreign_user();
                let response = refusals.see(request.uri().path(), response);
                return Box::pin(std::future::ready(Ok(response)));
            }
            match request.uri().path() {
                path if alone::is_endpoint(path) => Box::pin(
                    Arc::clone(&endpoint)
                        .handle(request, Arc::clone(&shown))
                        .map(move |response| Ok(refusals.see("/mcp", response))),
                ),
                sse::STREAM | sse::MESSAGES => Box::pin(
                    Arc::clone(&endpoint)
                        .handle_sse(request, Arc::clone(&shown))
                        .map(move |response| Ok(refusals.see(sse::STREAM, response))),
                ),
                path => match endpoint.check_origin(request.headers()) {
                    Ok(()) => {
                        let path = path.to_owned();
                        let mut request = request;
                        if let Some(certificate) = &shown.certificate {
                            // For routes that have to know who asks.
                            request.extensions_mut().insert(Arc::clone(certificate));
                        }
                        let answer = others.clone().oneshot(request.map(Body::new));
                        Box::pin(answer.map(move |answer| answer.map(|response| refusals.see(&path, response))))
                    }
                    Err(refused) => {
                        let response = refused.into();
                        let response = refusals.see(path, response);
                        Box::pin(std::future::ready(Ok(response)))
                    }
                },
            }
        });
    let connection =
        hyper::server::conn::http1::Builder::new().max_buf_size(BUFFER).serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        () = ends => {}
        () = watched.ends() => {
            // Headers that never end are nobody's request.
            if !watched.ever.load(Ordering::Relaxed) {
                return;
            }
        }
    }
    // Whatever is being answered is answered first; a connection on which nothing happens closes at once.
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}
