//! The HTTP client of all links: pooled connections, TLS, and the proxies that the environment names.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Request, Response, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tower::Service;

use super::reach::{Reach, Resolver};
use crate::LinkError;

/// How long to wait for a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// How long an unused connection is kept.
const IDLE: Duration = Duration::from_secs(60);

/// A client whose clones share one pool.
#[derive(Clone)]
pub struct HttpClient {
    client: Client<HttpsConnector<Dialer>, Full<Bytes>>,
    connector: HttpsConnector<Dialer>,
}

impl HttpClient {
    /// A client that trusts what the system trusts.
    pub fn new() -> Result<Self, LinkError> {
        Self::reaching(Reach::Anywhere)
    }

    /// The same, for addresses that others may choose: names that lead into a private network are refused. An address
    /// that stands in the URL itself is used as it is.
    pub fn public_only() -> Result<Self, LinkError> {
        Self::reaching(Reach::Public)
    }

    fn reaching(reach: Reach) -> Result<Self, LinkError> {
        // Fails only when one was installed before, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let connector = |reach| {
            let mut tcp = HttpConnector::new_with_resolver(Resolver::new(reach));
            tcp.enforce_http(false);
            tcp.set_nodelay(true);
            tcp.set_connect_timeout(Some(CONNECT));
            tcp
        };
        let dialer =
            Dialer { tcp: connector(reach), proxy: connector(Reach::Anywhere), proxies: Matcher::from_env().into() };
        let connector = HttpsConnectorBuilder::new()
            .try_with_platform_verifier()
            .map_err(|error| LinkError::Unreachable(error.to_string()))?
            .https_or_http()
            .enable_http1()
            .wrap_connector(dialer);
        Ok(Self::pooling(connector))
    }

    fn pooling(connector: HttpsConnector<Dialer>) -> Self {
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .build(connector.clone());
        Self { client, connector }
    }

    /// The same with a pool of its own: a link to a server that was lost must not meet connections from before.
    pub(crate) fn with_own_pool(&self) -> Self {
        Self::pooling(self.connector.clone())
    }

    /// Sends a request; redirects are not followed.
    pub async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, LinkError> {
        self.client.request(request).await.map_err(|error| unreachable(&error))
    }

    /// Sends a request and reads the whole answer, in this time and of at most this size.
    pub async fn fetch(
        &self,
        request: Request<Full<Bytes>>,
        within: Duration,
        limit: usize,
    ) -> Result<Response<Bytes>, LinkError> {
        let whole = async {
            let (parts, body) = self.send(request).await?.into_parts();
            Ok(Response::from_parts(parts, read_all(body, limit).await?))
        };
        let late = LinkError::Unreachable(format!("no answer within {} s", within.as_secs()));
        tokio::time::timeout(within, whole).await.unwrap_or(Err(late))
    }
}

/// The next piece of a body; `None` at its end, or when the connection broke.
pub(crate) async fn chunk(body: &mut Incoming) -> Option<Result<Bytes, LinkError>> {
    loop {
        match body.frame().await? {
            Ok(frame) => {
                if let Ok(data) = frame.into_data() {
                    return Some(Ok(data));
                }
            }
            Err(_) => return Some(Err(LinkError::Lost)),
        }
    }
}

/// A whole body of bounded size. One that arrives in one piece is not copied.
pub(crate) async fn read_all(mut body: Incoming, limit: usize) -> Result<Bytes, LinkError> {
    let too_long = || LinkError::Protocol(format!("the answer exceeds {limit} bytes"));
    let Some(first) = chunk(&mut body).await.transpose()? else { return Ok(Bytes::new()) };
    let mut rest = BytesMut::new();
    while let Some(more) = chunk(&mut body).await.transpose()? {
        if rest.is_empty() {
            rest.extend_from_slice(&first);
        }
        rest.extend_from_slice(&more);
        if rest.len() > limit {
            return Err(too_long());
        }
    }
    match rest.is_empty() {
        true if first.len() > limit => Err(too_long()),
        true => Ok(first),
        false => Ok(rest.freeze()),
    }
}

/// The innermost cause says what happened; the outer ones only that something did.
fn unreachable(error: &Error) -> LinkError {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        text = inner.to_string();
        source = inner.source();
    }
    LinkError::Unreachable(text)
}

/// Opens connections, through a tunnel where `HTTPS_PROXY` and its kin say so.
#[derive(Clone)]
struct Dialer {
    tcp: HttpConnector<Resolver>,
    /// The way to a proxy, which the environment names and which looks names up by itself.
    proxy: HttpConnector<Resolver>,
    proxies: std::sync::Arc<Matcher>,
}

type Dialed = Pin<Box<dyn Future<Output = Result<TokioIo<TcpStream>, DialError>> + Send>>;
type DialError = Box<dyn std::error::Error + Send + Sync>;

impl Service<Uri> for Dialer {
    type Response = TokioIo<TcpStream>;
    type Error = DialError;
    type Future = Dialed;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), DialError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, target: Uri) -> Dialed {
        match self.proxies.intercept(&target) {
            None => {
                let mut tcp = self.tcp.clone();
                Box::pin(async move { Ok(tcp.call(target).await?) })
            }
            Some(proxy) => {
                let mut tunnel = Tunnel::new(proxy.uri().clone(), self.proxy.clone());
                if let Some(credentials) = proxy.basic_auth() {
                    tunnel = tunnel.with_auth(credentials.clone());
                }
                Box::pin(async move { Ok(tunnel.call(target).await?) })
            }
        }
    }
}
