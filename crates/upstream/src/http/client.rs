//! The HTTP client of all links and data sources: requests that share connections.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use tidings_wire::{BudgetShare, MESSAGES};

use super::dial::connector;
use super::pool::{ConnectionPool, HttpBody, HttpDestination};
use super::reach::NetworkReach;
use crate::LinkError;

/// A client whose clones share their connections.
#[derive(Clone)]
pub struct HttpClient {
    pool: Arc<ConnectionPool>,
}

impl HttpClient {
    /// A client that trusts what the system trusts.
    pub fn new() -> Result<Self, LinkError> {
        Ok(Self { pool: ConnectionPool::new(connector(NetworkReach::Anywhere)?) })
    }

    /// The same, for addresses that others may choose: names that lead into a private network are refused. An address
    /// that stands in the URL itself is used as it is.
    pub fn public_only() -> Result<Self, LinkError> {
        Ok(Self { pool: ConnectionPool::new(connector(NetworkReach::Public)?) })
    }

    /// The same, for one peer that also listens on a socket of the file system: that is preferred, because only its user can have made
    /// it, where a port may be somebody else's by now.
    pub fn through(socket: PathBuf) -> Result<Self, LinkError> {
        Ok(Self { pool: ConnectionPool::through(connector(NetworkReach::Anywhere)?, socket) })
    }

    /// The same, for what is added while the gateway runs: see [`NetworkReach::Declared`].
    pub(crate) fn declared_only() -> Result<Self, LinkError> {
        Ok(Self { pool: ConnectionPool::new(connector(NetworkReach::Declared)?) })
    }

    /// The same with connections of its own: a link to a server that was lost must not meet those from before.
    pub(crate) fn with_own_pool(&self) -> Self {
        // The connector is shared, because it holds the trusted certificates, which are costly to load.
        Self { pool: ConnectionPool::new(self.pool.connector().clone()) }
    }

    /// Closes what is kept, now and from now on.
    pub(crate) fn close(&self) {
        self.pool.close();
    }

    /// Sends a request; redirects are not followed.
    pub async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<HttpBody>, LinkError> {
        let to = Arc::new(HttpDestination::new(request.uri())?);
        self.pool.send(&to, request).await
    }

    /// Sends a request to where many go; its own URI does not count.
    pub(crate) async fn send_to(
        &self,
        to: &Arc<HttpDestination>,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<HttpBody>, LinkError> {
        self.pool.send(to, request).await
    }

    /// Sends a request and reads the whole answer, in this time and of at most this size.
    pub async fn fetch(
        &self,
        request: Request<Full<Bytes>>,
        within: Duration,
        limit: usize,
    ) -> Result<Response<Bytes>, LinkError> {
        let to = Arc::new(HttpDestination::new(request.uri())?);
        self.fetch_from(&to, request, within, limit).await
    }

    /// The same, from where many go.
    pub(crate) async fn fetch_from(
        &self,
        to: &Arc<HttpDestination>,
        request: Request<Full<Bytes>>,
        within: Duration,
        limit: usize,
    ) -> Result<Response<Bytes>, LinkError> {
        let whole = async {
            let (parts, body) = self.send_to(to, request).await?.into_parts();
            Ok(Response::from_parts(parts, read_all(body, limit).await?))
        };
        let late = LinkError::Unreachable(format!("no answer within {} s", within.as_secs()));
        tokio::time::timeout(within, whole).await.unwrap_or(Err(late))
    }
}

/// The next piece of a body; `None` at its end, or when the connection broke.
pub(crate) async fn chunk(body: &mut HttpBody) -> Option<Result<Bytes, LinkError>> {
    loop {
        match body.frame().await? {
            Ok(frame) => {
                // A trailer is no data.
                if let Ok(data) = frame.into_data() {
                    return Some(Ok(data));
                }
            }
            Err(_) => return Some(Err(LinkError::Lost)),
        }
    }
}

/// A whole body of bounded size.
pub(crate) async fn read_all(body: HttpBody, limit: usize) -> Result<Bytes, LinkError> {
    gather(body, limit, None, |_| {}).await
}

/// A whole body of bounded size. One that arrives in one piece is not copied. `takes` is told how much of the memory for messages it takes.
pub(crate) async fn gather(
    mut body: HttpBody,
    limit: usize,
    share: Option<&Arc<BudgetShare>>,
    takes: impl Fn(usize) + Send,
) -> Result<Bytes, LinkError> {
    let too_long = || LinkError::Protocol(format!("the answer exceeds {limit} bytes"));
    let Some(first) = chunk(&mut body).await.transpose()? else { return Ok(Bytes::new()) };
    let mut rest = BytesMut::new();
    // From the one budget of memory for messages (ADR 27); a body in one piece is hyper's own buffer and takes nothing.
    let mut lease = MESSAGES.lease();
    while let Some(more) = chunk(&mut body).await.transpose()? {
        // Copied only when a second piece comes: nearly every answer is one.
        if rest.is_empty() {
            rest.extend_from_slice(&first);
        }
        lease.grow_within(rest.len() + more.len(), share).map_err(|full| LinkError::Protocol(full.to_string()))?;
        takes(lease.taken());
        rest.extend_from_slice(&more);
        if rest.len() > limit {
            return Err(too_long());
        }
    }
    match rest.is_empty() {
        true if first.len() > limit => Err(too_long()),
        true => Ok(first),
        false => Ok(lease.attach(rest.freeze())),
    }
}
