//! Connections that are kept for the next request.
//!
//! A connection serves one request at a time. It is kept when the answer has been read to its end, and closed when the
//! answer is dropped before: to a server that is how a request is cancelled. The ready-made pool of hyper-util does the
//! same with a task of its own for every answer, which costs more than all that the gateway does for a call. A connection that is kept has
//! no task either: that its server closed it is found when it is taken out again.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, MutexGuard, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{CONNECTION, HOST, HeaderMap, HeaderValue};
use http::uri::{Authority, Scheme};
use http::{Request, Response, Uri, Version};
use http_body::{Frame, SizeHint};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tidings_sync::Lock;
use tokio::net::UnixStream;
use tokio_util::task::AbortOnDropHandle;
use tower::Service as _;

use super::dial::TlsOrPlain;
use super::driven::DrivenConnection;
use crate::{LinkError, ShownUrl};

/// How long to wait for a connection, TLS included.
const CONNECT: Duration = Duration::from_secs(10);
/// How long an unused connection is kept.
const IDLE: Duration = Duration::from_secs(60);
/// How much earlier than the server says a connection is no longer used: the request must have arrived before it is closed.
const MARGIN: Duration = Duration::from_secs(1);
/// How often those that are due are closed at most.
const SOON: Duration = Duration::from_secs(5);
/// How many unused connections are kept.
const KEPT: usize = 256;

/// Where requests go, with everything about it that every request repeats.
#[derive(Clone, Debug)]
pub(crate) struct HttpDestination {
    url: Uri,
    scheme: Scheme,
    authority: Authority,
    host: HeaderValue,
    /// Path and query, as they stand in the request.
    target: Uri,
}

impl HttpDestination {
    /// From a whole URL.
    pub(crate) fn new(url: &Uri) -> Result<Self, LinkError> {
        let invalid = || LinkError::Unreachable(format!("{}: not a URL of a server", ShownUrl::of(&url.to_string())));
        let parts = url.clone().into_parts();
        let authority = parts.authority.ok_or_else(invalid)?;
        // User and password belong into `Authorization`, never into `Host`.
        let host = authority.as_str().rsplit('@').next().unwrap_or_default();
        Ok(Self {
            scheme: parts.scheme.ok_or_else(invalid)?,
            host: HeaderValue::from_str(host).map_err(|_| invalid())?,
            target: parts.path_and_query.map(Uri::from).unwrap_or_else(|| Uri::from_static("/")),
            authority,
            url: url.clone(),
        })
    }

    fn leads_where(&self, other: &Self) -> bool {
        // The path does not count: connections lead to a host.
        self.authority == other.authority && self.scheme == other.scheme
    }
}

/// The connections of one client.
pub(super) struct ConnectionPool {
    connector: TlsOrPlain,
    /// Dialled first, whatever the destination is.
    socket: Option<PathBuf>,
    state: Lock<PoolState>,
}

#[derive(Default)]
struct PoolState {
    idle: Vec<IdleConnection>,
    /// Closes what is kept too long. Ends with the pool, or when nothing is kept.
    tending: Option<AbortOnDropHandle<()>>,
    /// Nothing is kept any more.
    closed: bool,
}

struct IdleConnection {
    to: Arc<HttpDestination>,
    connection: DrivenConnection,
    since: Instant,
}

impl ConnectionPool {
    pub(super) fn new(connector: TlsOrPlain) -> Arc<Self> {
        Arc::new(Self { connector, socket: None, state: Lock::default() })
    }

    /// The same, with a socket of the file system that leads to every destination, as long as somebody listens there.
    pub(super) fn through(connector: TlsOrPlain, socket: PathBuf) -> Arc<Self> {
        Arc::new(Self { connector, socket: Some(socket), state: Lock::default() })
    }

    pub(super) fn connector(&self) -> &TlsOrPlain {
        &self.connector
    }

    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock()
    }

    /// Sends a request and waits for the head of its answer.
    pub(super) async fn send(
        self: &Arc<Self>,
        to: &Arc<HttpDestination>,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<HttpBody>, LinkError> {
        *request.uri_mut() = to.target.clone();
        request.headers_mut().insert(HOST, to.host.clone());
        // A new connection that breaks before anything was written to it is tried once more.
        let mut once_more = true;
        loop {
            let kept = self.take(to);
            let fresh = kept.is_none();
            let mut connection = match kept {
                Some(connection) => connection,
                // Boxed: few requests dial, and every request would carry the room for it (3.8 of 4.5 KB).
                None => match Box::pin(self.dial(&to.url)).await {
                    Err(DialError::Broken(_)) if std::mem::take(&mut once_more) => continue,
                    dialed => dialed.map_err(DialError::into_error)?,
                },
            };
            // A connection that was kept may be closed by now. What was not sent is sent on another; never what was.
            match connection.ready().await {
                Ok(()) => {}
                // Of those that were kept, any number may be closed; only a new one that breaks is a sign.
                Err(_) if !fresh || std::mem::take(&mut once_more) => continue,
                Err(error) => return Err(LinkError::Unreachable(innermost(&error))),
            }
            match connection.send(request).await {
                Ok(answer) => {
                    // A server says it in every answer; once is enough.
                    if fresh {
                        connection.kept_for = kept_for(answer.headers());
                    }
                    connection.may_close =
                        answer.version() != Version::HTTP_11 || answer.headers().contains_key(CONNECTION);
                    let lease = ConnectionLease { pool: Arc::downgrade(self), to: Arc::clone(to), connection };
                    return Ok(answer.map(|incoming| HttpBody::new(incoming, lease)));
                }
                // hyper gives the request back when nothing of it was written.
                Err(mut error) => match error.take_message() {
                    Some(unsent) if !fresh || std::mem::take(&mut once_more) => request = unsent,
                    Some(_) => return Err(LinkError::Unreachable(innermost(&error.into_error()))),
                    // Something of it may have been read: it is not sent again, whatever it was.
                    None => return Err(LinkError::Broken(innermost(&error.into_error()))),
                },
            }
        }
    }

    /// A connection that is kept and still open.
    fn take(&self, to: &HttpDestination) -> Option<DrivenConnection> {
        // A request that crosses the close of its connection is lost, and no one can tell whether it was run.
        let is_good = |idle: &IdleConnection| {
            let kept_for = idle.connection.kept_for;
            // Where the server names no shorter time, `tend` closes it soon enough, and no clock is read here, on the
            // path of a call.
            kept_for == IDLE || idle.since.elapsed() < kept_for
        };
        loop {
            let mut kept = {
                let idle = &mut self.state().idle;
                // The youngest first: servers close the oldest without a word.
                let place = idle.iter().rposition(|kept| kept.to.leads_where(to) && is_good(kept))?;
                // Order does not matter much, and moving all others for it would.
                idle.swap_remove(place).connection
            };
            // Outside the lock: this reads from the socket, and a server that closed it is noticed here.
            if kept.settle() {
                return Some(kept);
            }
        }
    }

    fn keep(self: &Arc<Self>, to: Arc<HttpDestination>, mut connection: DrivenConnection) {
        // One whose server asked to close it is dropped here, which does so. The others are looked at when they are taken out.
        if connection.may_close && !connection.settle() {
            return;
        }
        let mut state = self.state();
        if state.idle.len() >= KEPT || state.closed {
            return;
        }
        state.idle.push(IdleConnection { to, connection, since: Instant::now() });
        // Started with the first connection that is kept, so that an idle client has no task.
        if state.tending.as_ref().is_none_or(AbortOnDropHandle::is_finished) {
            let tending = tokio::spawn(tend(Arc::downgrade(self)));
            state.tending = Some(AbortOnDropHandle::new(tending));
        }
    }

    /// Closes what is kept, and keeps nothing from now on.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.tending = None;
        // Dropped outside the lock: closing a connection runs code of others.
        let idle = std::mem::take(&mut state.idle);
        drop(state);
        drop(idle);
    }

    async fn dial(&self, url: &Uri) -> Result<DrivenConnection, DialError> {
        let mut connector = self.connector.clone();
        let connect = async {
            if let Some(socket) = &self.socket
                && let Ok(stream) = UnixStream::connect(socket).await
            {
                return DrivenConnection::begin(TokioIo::new(stream), IDLE)
                    .await
                    .map_err(|error| DialError::of(&error));
            }
            let io = connector.call(url.clone()).await.map_err(|error| DialError::Broken(innermost(&*error)))?;
            DrivenConnection::begin(io, IDLE).await.map_err(|error| DialError::of(&error))
        };
        let late = || DialError::Late(format!("no connection within {} s", CONNECT.as_secs()));
        tokio::time::timeout(CONNECT, connect).await.unwrap_or_else(|_| Err(late()))
    }
}

/// How long an unused connection is used again, by what its server says: `Keep-Alive: timeout=5` is what every HTTP server of Node
/// sends, and it closes the connection then without a word.
fn kept_for(headers: &HeaderMap) -> Duration {
    let said = headers.get("keep-alive").and_then(|value| value.to_str().ok());
    let seconds = said.and_then(|value| {
        let mut parameters = value.split(',').filter_map(|parameter| parameter.split_once('='));
        let (_, seconds) = parameters.find(|(name, _)| name.trim().eq_ignore_ascii_case("timeout"))?;
        seconds.trim().parse().ok()
    });
    seconds.map_or(IDLE, |seconds| Duration::from_secs(seconds).saturating_sub(MARGIN).min(IDLE))
}

/// Closes what nobody has used for long; ends when nothing is kept.
async fn tend(pool: Weak<ConnectionPool>) {
    let mut wait = IDLE;
    loop {
        tokio::time::sleep(wait).await;
        // Weak: the task must not keep a pool that nobody uses.
        let Some(pool) = pool.upgrade() else { return };
        let mut state = pool.state();
        state.idle.retain_mut(|kept| kept.since.elapsed() < IDLE && kept.connection.settle());
        let Some(oldest) = state.idle.iter().map(|kept| kept.since).min() else {
            // Under the lock: whoever keeps a connection from now on starts another task.
            let _ended = state.tending.take().map(AbortOnDropHandle::detach);
            return;
        };
        // Not before the next one is due: a connection that is in use now and then wakes nobody meanwhile.
        wait = IDLE.saturating_sub(oldest.elapsed()).max(SOON);
    }
}

/// Why there is no new connection.
enum DialError {
    /// It was refused, or broke at once.
    Broken(String),
    /// It took too long already.
    Late(String),
}

impl DialError {
    fn of(error: &hyper::Error) -> Self {
        Self::Broken(innermost(error))
    }

    fn into_error(self) -> LinkError {
        let (Self::Broken(reason) | Self::Late(reason)) = self;
        LinkError::Unreachable(reason)
    }
}

/// The innermost cause says what happened; the outer ones only that something did.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(inner) = innermost.source() {
        innermost = inner;
    }
    innermost.to_string()
}

/// A connection in use.
struct ConnectionLease {
    pool: Weak<ConnectionPool>,
    to: Arc<HttpDestination>,
    connection: DrivenConnection,
}

/// The body of an answer. Read to its end, it gives its connection back.
pub struct HttpBody {
    incoming: Incoming,
    lease: Option<ConnectionLease>,
}

impl HttpBody {
    fn new(incoming: Incoming, lease: ConnectionLease) -> Self {
        // An answer without a body is at its end already.
        let mut body = Self { incoming, lease: Some(lease) };
        body.release_at_end();
        body
    }

    fn release_at_end(&mut self) {
        if http_body::Body::is_end_stream(&self.incoming) {
            self.release();
        }
    }

    fn release(&mut self) {
        if let Some(ConnectionLease { pool, to, connection }) = self.lease.take()
            && let Some(pool) = pool.upgrade()
        {
            pool.keep(to, connection);
        }
    }
}

impl http_body::Body for HttpBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Self { incoming, lease } = &mut *self;
        let polled = match lease {
            Some(lease) => lease.connection.poll_driven(cx, |_, quiet| Pin::new(&mut *incoming).poll_frame(quiet)),
            // Given back, so all of it is here.
            None => Pin::new(incoming).poll_frame(cx),
        };
        match &polled {
            Poll::Ready(None) => self.release(),
            // Known with the last frame: the next call finds the connection without another poll of this body.
            Poll::Ready(Some(Ok(_))) => self.release_at_end(),
            // Where the answer broke off, the next one would begin in its middle.
            Poll::Ready(Some(Err(_))) => self.lease = None,
            Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
