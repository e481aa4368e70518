//! An HTTP proxy on loopback that breaks what it carries: for every request a seed and a table of rates decide whether it is
//! carried, answered with a status, held up, or ended by a reset, before or after its server has seen it.
//!
//! It knows HTTP and no MCP; what the faults mean for the gateway is the business of whoever sets the rates.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::random::SplitMix;
use crate::record::lock;

/// One way to break a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyFault {
    /// The connection is reset; the server never sees the request.
    ResetUnread,
    /// The server has the whole request, and the connection is reset before its answer.
    ResetAnswer,
    /// The answer is cut in the middle of its body.
    CutBody,
    /// The request waits this long.
    Stall(Duration),
    /// The server never sees the request; the proxy answers for it.
    Status(u16),
}

/// How many of a thousand requests meet each fault. What is left over is carried as it is.
#[derive(Clone, Debug, Default)]
pub struct FaultRates(pub Vec<(u64, ProxyFault)>);

/// The proxy. It ends when it is dropped.
pub struct FaultProxy {
    address: SocketAddr,
    shared: Arc<ProxyShared>,
    life: CancellationToken,
    _tasks: TaskTracker,
}

struct ProxyShared {
    target: Mutex<SocketAddr>,
    rates: Mutex<FaultRates>,
    random: Mutex<SplitMix>,
    injected: AtomicU64,
    /// Counts up when every open stream is to be cut.
    cuts: watch::Sender<u64>,
}

type ProxyBody = UnsyncBoxBody<Bytes, BrokenConnection>;

/// Why a connection is ended without an answer.
#[derive(Debug)]
struct BrokenConnection;

impl std::fmt::Display for BrokenConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("broken on purpose")
    }
}

impl std::error::Error for BrokenConnection {}

impl FaultProxy {
    /// In front of `target`, breaking nothing yet.
    pub async fn start(target: SocketAddr, seed: u64) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        let shared = Arc::new(ProxyShared {
            target: Mutex::new(target),
            rates: Mutex::default(),
            random: Mutex::new(SplitMix::new(seed)),
            injected: AtomicU64::new(0),
            cuts: watch::Sender::new(0),
        });
        let (life, tasks) = (CancellationToken::new(), TaskTracker::new());
        let accepting = accept(listener, Arc::clone(&shared), life.clone(), tasks.clone());
        tasks.spawn(life.clone().run_until_cancelled_owned(accepting));
        Self { address, shared, life, _tasks: tasks }
    }

    /// Where it listens.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Breaks requests at these rates from now on.
    pub fn set_rates(&self, rates: FaultRates) {
        *lock(&self.shared.rates) = rates;
    }

    /// Carries everything from now on.
    pub fn behave(&self) {
        self.set_rates(FaultRates::default());
    }

    /// Carries to another server from now on, as when a new release takes the place of an old one.
    pub fn set_target(&self, target: SocketAddr) {
        *lock(&self.shared.target) = target;
    }

    /// Cuts every answer that is under way, as a balancer does with streams that are idle.
    pub fn cut_streams(&self) {
        self.shared.cuts.send_modify(|count| *count += 1);
    }

    /// How many requests met a fault so far that ends them (all but stalls).
    pub fn injected(&self) -> u64 {
        self.shared.injected.load(Ordering::SeqCst)
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.life.cancel();
    }
}

impl ProxyShared {
    fn next_fault(&self) -> Option<ProxyFault> {
        let rates = lock(&self.rates).clone();
        // Drawn for every request, also where nothing is to break: changed rates do not shift the numbers of the seed.
        let mut drawn = lock(&self.random).below(1000);
        let fault = rates.0.into_iter().find_map(|(rate, fault)| {
            if drawn < rate {
                return Some(fault);
            }
            drawn -= rate;
            None
        })?;
        if !matches!(fault, ProxyFault::Stall(_)) {
            self.injected.fetch_add(1, Ordering::SeqCst);
        }
        Some(fault)
    }
}

async fn accept(listener: TcpListener, shared: Arc<ProxyShared>, life: CancellationToken, tasks: TaskTracker) {
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        let doomed = Arc::new(AtomicBool::new(false));
        let tapped = TappedConnection { stream, doomed: Arc::clone(&doomed) };
        let shared = Arc::clone(&shared);
        let service = service_fn(move |request| carry(Arc::clone(&shared), Arc::clone(&doomed), request));
        let connection = async move {
            let mut server = hyper::server::conn::http1::Builder::new();
            // An error is a fault that was injected, or the other side's own end.
            let _ = server.timer(TokioTimer::new()).serve_connection(TokioIo::new(tapped), service).await;
        };
        tasks.spawn(life.clone().run_until_cancelled_owned(connection));
    }
}

async fn carry(
    shared: Arc<ProxyShared>,
    doomed: Arc<AtomicBool>,
    request: Request<Incoming>,
) -> Result<Response<ProxyBody>, BrokenConnection> {
    let reset = || {
        doomed.store(true, Ordering::SeqCst);
        BrokenConnection
    };
    let fault = shared.next_fault();
    match fault {
        Some(ProxyFault::ResetUnread) => return Err(reset()),
        Some(ProxyFault::Stall(time)) => tokio::time::sleep(time).await,
        Some(ProxyFault::Status(status)) => {
            let body = Full::new(Bytes::from_static(b"the proxy says no")).map_err(no_fault).boxed_unsync();
            return Response::builder().status(status).body(body).map_err(|_| reset());
        }
        Some(ProxyFault::ResetAnswer | ProxyFault::CutBody) | None => {}
    }
    let target = *lock(&shared.target);
    // A server that is not there looks as it does without a proxy.
    let response = send(target, request).await.map_err(|_| reset())?;
    if fault == Some(ProxyFault::ResetAnswer) {
        return Err(reset());
    }
    let (head, body) = response.into_parts();
    let cut_at_once = fault == Some(ProxyFault::CutBody);
    // Subscribed after the answer's head: only cuts from now on concern this stream.
    let mut cuts = shared.cuts.subscribe();
    let cut = Box::pin(async move {
        if !cut_at_once {
            let _ = cuts.changed().await;
        }
        doomed.store(true, Ordering::SeqCst);
    });
    Ok(Response::from_parts(head, CutBody { body, cut }.boxed_unsync()))
}

/// A body that ends with an error when it is cut.
struct CutBody {
    body: Incoming,
    cut: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl http_body::Body for CutBody {
    type Data = Bytes;
    type Error = BrokenConnection;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, BrokenConnection>>> {
        if self.cut.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Some(Err(BrokenConnection)));
        }
        Pin::new(&mut self.body).poll_frame(cx).map_err(|_| BrokenConnection)
    }
}

fn no_fault(never: Infallible) -> BrokenConnection {
    match never {}
}

async fn send(target: SocketAddr, request: Request<Incoming>) -> io::Result<Response<Incoming>> {
    let stream = TcpStream::connect(target).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    // It ends with the answer: the sender is dropped below, and the body holds the rest.
    tokio::spawn(connection);
    let (mut head, body) = request.into_parts();
    // Otherwise the other side would wait for more requests on a connection that is used once.
    head.headers.insert(http::header::CONNECTION, http::HeaderValue::from_static("close"));
    let mut response = sender.send_request(Request::from_parts(head, body)).await.map_err(io::Error::other)?;
    // It was about the connection to the server; the one to the client goes on.
    response.headers_mut().remove(http::header::CONNECTION);
    Ok(response)
}

/// A connection that is reset, and not closed in order, once it is doomed.
struct TappedConnection {
    stream: TcpStream,
    doomed: Arc<AtomicBool>,
}

impl Drop for TappedConnection {
    fn drop(&mut self) {
        if self.doomed.load(Ordering::SeqCst) {
            // With no linger time the kernel sends a reset where it would close in order.
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for TappedConnection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for TappedConnection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.doomed.load(Ordering::SeqCst) {
            // Otherwise hyper would close in order before the drop can reset.
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
