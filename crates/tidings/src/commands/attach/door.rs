//! The way to the running gateway, which may end and come back at another address.

use std::sync::MutexGuard;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use tidings_downstream::{LIMITS, RELAYED};
use tidings_sync::Lock;
use tidings_upstream::{HttpBody, HttpClient};
use tokio::time::Instant;

use crate::data::{DataDir, RunningGateway, SOCKET};
use crate::failure::CommandFailure;

/// How long a request waits for a gateway that is being restarted.
const RETURN: Duration = Duration::from_secs(30);
/// How often it is looked for.
const LOOK: Duration = Duration::from_millis(200);
/// How long a gateway may take to answer what it answers by itself.
pub(super) const PROMPTLY: Duration = Duration::from_secs(30);

/// What goes over it.
pub(super) struct RelayedMessage {
    pub(super) verb: http::Method,
    /// Headers beside the usual ones.
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Bytes,
}

/// The answer to a request, and whose it is.
pub(super) type Sent = Result<(Response<HttpBody>, RunningGateway), NotAnswered>;

/// Why a request has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotAnswered {
    /// It was sent, and the connection broke: whether it took effect is not known.
    Lost,
    /// There is no gateway.
    Nobody,
}

pub(super) struct GatewayClient {
    data: DataDir,
    client: HttpClient,
    /// For one whose address speaks TLS: its certificate is for its name, and not for this machine's.
    by_socket: HttpClient,
    /// Where the last request was answered. Elsewhere it is first seen whether anybody listens.
    answered: Lock<Option<u32>>,
}

impl GatewayClient {
    pub(super) fn new(data: DataDir) -> Result<Self, CommandFailure> {
        let client = HttpClient::new().map_err(CommandFailure::failed)?;
        let by_socket = HttpClient::through(data.path().join(SOCKET)).map_err(CommandFailure::failed)?;
        Ok(Self { data, client, by_socket, answered: Lock::default() })
    }

    /// The gateway, as soon as there is one.
    pub(super) async fn gateway(&self, until: Instant) -> Option<RunningGateway> {
        loop {
            if let Some(running) = self.data.running() {
                return Some(running);
            }
            if Instant::now() >= until {
                return None;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn answered(&self) -> MutexGuard<'_, Option<u32>> {
        self.answered.lock()
    }

    /// Whether this gateway is still the one that runs.
    pub(super) fn is_running(&self, gateway: &RunningGateway) -> bool {
        self.data.running().is_some_and(|now| now.pid == gateway.pid)
    }

    /// Sends a request. One that provably was not read is sent again when the gateway is back.
    pub(super) async fn send(&self, letter: &RelayedMessage) -> Sent {
        let until = Instant::now() + RETURN;
        loop {
            let Some(gateway) = self.gateway(until).await else { return Err(NotAnswered::Nobody) };
            // A process that listens nowhere can not have read anything.
            let (is_tls, address) = match gateway.url.split_once("://") {
                Some((scheme, address)) => (scheme == "https", Some(address)),
                None => (false, None),
            };
            let listens = match address {
                // Tried once per process, not before each request.
                // A connection that is closed unused: it can not be taken for a request that was sent.
                Some(address) if *self.answered() != Some(gateway.pid) => {
                    tokio::net::TcpStream::connect(address).await.is_ok()
                }
                _ => true,
            };
            if listens {
                let client = if is_tls { &self.by_socket } else { &self.client };
                return match client.send(request(&gateway, letter)).await {
                    Ok(response) => {
                        *self.answered() = Some(gateway.pid);
                        Ok((response, gateway))
                    }
                    Err(error) => {
                        tracing::debug!(%error, "a request to the gateway failed");
                        *self.answered() = None;
                        // Not sent again: the gateway may have read it, and a call must not run twice.
                        Err(NotAnswered::Lost)
                    }
                };
            }
            if Instant::now() >= until {
                return Err(NotAnswered::Nobody);
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

fn request(gateway: &RunningGateway, letter: &RelayedMessage) -> Request<Full<Bytes>> {
    let mut request = Request::builder()
        .method(letter.verb.clone())
        .uri(format!("{}/mcp", gateway.url))
        .header("content-type", "application/json")
        .header("authorization", format!("Bearer {}", gateway.token))
        .header(RELAYED, "stdio");
    for (name, value) in &letter.headers {
        request = request.header(*name, value);
    }
    // Fails only for a header that HTTP does not allow; the empty request has no host, so sending it fails and is told.
    request.body(Full::new(letter.body.clone())).unwrap_or_default()
}

/// The whole of a short answer.
pub(super) async fn whole(mut body: HttpBody) -> Option<Bytes> {
    let mut all = Vec::new();
    while let Some(frame) = body.frame().await {
        all.extend_from_slice(frame.ok()?.data_ref().map_or(&[][..], |data| data));
        if all.len() > LIMITS.max_bytes {
            return None;
        }
    }
    Some(all.into())
}

/// Whether an answer is a stream of events.
pub(super) fn is_stream(response: &Response<HttpBody>) -> bool {
    response.headers().get("content-type").is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"))
}
