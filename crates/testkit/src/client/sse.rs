//! The HTTP+SSE side of a client: one stream in, a POST for each message out.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tidings_wire::{RawId, sse};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::ClientShared;
use super::exchange::PendingExchange;
use super::stdio::WaitingRequests;
use crate::received::ReceivedMessage;
use crate::record::AwaitedRecord;

const EVENT_LIMIT: usize = 256 << 20;

pub(super) struct SseTransport {
    input: mpsc::UnboundedSender<Bytes>,
    pending: Arc<WaitingRequests>,
    refused: Arc<AwaitedRecord<(u16, String)>>,
    endpoint: String,
    /// Ends the stream, and with it the session.
    stream: CancellationToken,
    raw: bool,
}

/// The stream, as far as it was read.
struct EventReader {
    body: Incoming,
    decoder: sse::SseDecoder,
}

impl EventReader {
    async fn next(&mut self) -> Option<sse::SseEvent> {
        loop {
            if let Some(event) = self.decoder.next_event().ok()? {
                return Some(event);
            }
            let frame = self.body.frame().await?.ok()?;
            self.decoder.push(frame.data_ref().map_or(&[][..], |data| data));
        }
    }
}

impl SseTransport {
    /// Opens the stream and waits for the address of messages.
    pub(super) async fn open(shared: &Arc<ClientShared>, url: &str, headers: Vec<(String, String)>, raw: bool) -> Self {
        let uri: Uri = url.parse().unwrap_or_else(|e| panic!("URL {url}: {e}"));
        let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
        let with = |name: &str, value: &str| {
            let mut headers = headers.clone();
            headers.push((name.to_owned(), value.to_owned()));
            headers
        };
        let accept = with("accept", "text/event-stream");
        let response = send(&authority, "GET", uri.path(), &accept, Bytes::new()).await;
        let response = response.unwrap_or_else(|error| panic!("opening {url}: {error}"));
        assert_eq!(response.status(), 200, "opening {url}");
        let mut reader = EventReader { body: response.into_body(), decoder: sse::SseDecoder::new(EVENT_LIMIT) };
        let first = reader.next().await.unwrap_or_else(|| panic!("{url} ended before its first event"));
        assert_eq!(first.event, "endpoint", "{first:?}");
        let endpoint = String::from_utf8_lossy(&first.data).into_owned();
        let (input, messages) = mpsc::unbounded_channel();
        let transport = Self {
            pending: Arc::default(),
            refused: Arc::new(AwaitedRecord::new()),
            endpoint: endpoint.clone(),
            stream: shared.life.child_token(),
            input: input.clone(),
            raw,
        };
        let json = with("content-type", "application/json");
        let posting = post_all(authority, endpoint, json, messages, Arc::clone(&transport.refused));
        // For the life of the client and not of the stream: a test may post to a session that has ended.
        shared.spawn(&shared.life, posting);
        shared.spawn(&transport.stream, read(Arc::clone(shared), reader, input, Arc::clone(&transport.pending)));
        transport
    }

    pub(super) fn is_raw(&self) -> bool {
        self.raw
    }

    pub(super) fn write(&self, message: Bytes) {
        let _ = self.input.send(message);
    }

    pub(super) fn close(&self) {
        self.stream.cancel();
    }

    pub(super) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub(super) fn refused(&self) -> &AwaitedRecord<(u16, String)> {
        &self.refused
    }

    pub(super) fn send(&self, message: Bytes, method: &str, id: RawId) -> PendingExchange {
        let (events, receiver) = mpsc::unbounded_channel();
        let what = format!("{method} (id {id}) over HTTP+SSE");
        // Before it is posted, since the answer may be quick.
        self.pending.add(id.clone(), events);
        self.write(message);
        PendingExchange::new(id, what, receiver, None)
    }
}

/// One request on a connection of its own.
async fn send(
    authority: &str,
    verb: &str,
    target: &str,
    headers: &[(String, String)],
    body: Bytes,
) -> Result<Response<Incoming>, String> {
    let stream = TcpStream::connect(authority).await.map_err(|e| format!("connecting to {authority}: {e}"))?;
    let _ = stream.set_nodelay(true);
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|e| format!("connection: {e}"))?;
    // Ends with the body of the answer.
    tokio::spawn(connection);
    let mut request = Request::builder().method(verb).uri(target).header("host", authority);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let request = request.body(Full::new(body)).map_err(|e| format!("request: {e}"))?;
    sender.send_request(request).await.map_err(|e| format!("response: {e}"))
}

/// Posts one message after the other, and notes those that were not accepted.
async fn post_all(
    authority: String,
    endpoint: String,
    headers: Vec<(String, String)>,
    mut messages: mpsc::UnboundedReceiver<Bytes>,
    refused: Arc<AwaitedRecord<(u16, String)>>,
) {
    while let Some(message) = messages.recv().await {
        // One after the other, so that messages arrive in the order in which the test sent them.
        match send(&authority, "POST", &endpoint, &headers, message).await {
            Ok(response) => {
                let status = response.status().as_u16();
                let body = response.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
                if status != 202 {
                    refused.push((status, String::from_utf8_lossy(&body).into_owned()));
                }
            }
            Err(error) => refused.push((0, error)),
        }
    }
}

async fn read(
    shared: Arc<ClientShared>,
    mut reader: EventReader,
    input: mpsc::UnboundedSender<Bytes>,
    pending: Arc<WaitingRequests>,
) {
    loop {
        shared.wait_reading().await;
        let Some(event) = reader.next().await else { break };
        assert_eq!(event.event, "message", "{event:?}");
        let received = ReceivedMessage { stream: "sse".to_owned(), ..ReceivedMessage::parse(event.data) };
        let reply = shared.take(&received);
        pending.tell(&received);
        if let Some(reply) = reply {
            let _ = input.send(reply);
        }
    }
    pending.end("the stream ended");
}
