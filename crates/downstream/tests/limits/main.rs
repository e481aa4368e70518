//! Bounds on what clients may make the gateway hold: bodies, sessions. The endpoint runs in the test, with small limits.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bodies;
mod sessions;

use std::net::SocketAddr;
use std::time::Duration;

use tidings_downstream::http::{EndpointOptions, serve};
use tidings_engine::{
    Gateway, GatewayStart, ListAnnouncements, ListPages, Names, NoticePace, RefreshPace, Settings, WaitLimits,
};
use tidings_proto::FieldView;
use tidings_upstream::{LinkConnector, ProcessLauncher};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};

/// A gateway without servers behind the endpoint.
struct OpenEndpoint {
    address: SocketAddr,
    _stop: DropGuard,
}

impl OpenEndpoint {
    async fn open(options: EndpointOptions) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let connector = LinkConnector::new(ProcessLauncher::new(None)).unwrap();
        let gateway = Gateway::start(GatewayStart::new(settings(), Vec::new(), connector));
        tokio::spawn(serve(vec![listener.into()], gateway, axum::Router::new(), options, stop.clone()));
        Self { address, _stop: stop.drop_guard() }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// One request on a connection of its own, and everything that is answered until the connection closes.
    async fn ask(&self, head: &str, body: &str) -> String {
        let mut connection = self.connect().await;
        let length = body.len();
        let text = format!("{head}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}");
        connection.write_all(text.as_bytes()).await.unwrap();
        answer(&mut connection).await
    }
}

fn settings() -> Settings {
    let while_ = Duration::from_secs(10);
    Settings {
        waits: WaitLimits { start: while_, added: while_, silence: while_, call: while_ },
        pages: ListPages { size: 10, longest_bound: None },
        view: FieldView::default(),
        names: Names::Auto,
        list_pace: RefreshPace { quiet: Duration::ZERO, max_wait: Duration::ZERO },
        resource_pace: NoticePace { quiet: Duration::ZERO, max_wait: Duration::ZERO },
        poll_interval: Duration::from_secs(3_600),
        clients: Default::default(),
        announcements: ListAnnouncements { initially: true, silent: Vec::new(), hints: false },
        own_links: Default::default(),
        limits: Default::default(),
        parks: Default::default(),
        seal_key: Default::default(),
        version: "0",
        path: Default::default(),
    }
}

/// The head of a POST, as far as its length.
const POST: &str = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                    Accept: application/json, text/event-stream\r\n";

/// Everything until the connection closes, or breaks after something has come.
async fn answer(connection: &mut TcpStream) -> String {
    let mut text = Vec::new();
    let read = connection.read_to_end(&mut text);
    let read = tokio::time::timeout(Duration::from_secs(20), read).await;
    let read = read.unwrap_or_else(|_| panic!("no end of the answer"));
    assert!(read.is_ok() || !text.is_empty(), "{read:?}");
    String::from_utf8_lossy(&text).into_owned()
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_else(|| panic!("no status: {answer}"))
}
