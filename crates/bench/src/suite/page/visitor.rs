//! Somebody who has the page open: the way in, and how long screens take.

use std::time::Instant;

use memchr::memmem;
use serde::Serialize;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::CLIENTS;
use crate::error::BenchError;
use crate::load::http::LoadConnection;
use crate::machine::cpu_ms;
use crate::process::GatewayProcess;

/// How often each screen is asked for.
const TIMES: usize = 300;

/// How long one screen takes, in milliseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct ScreenTimes {
    pub(super) p50: f64,
    pub(super) p99: f64,
    /// What the gateway's threads computed meanwhile, for each time: whatever else it does is in it, what others do is not.
    pub(super) cpu: f64,
    /// The size of the page.
    pub(super) bytes: usize,
}

/// Somebody with the page open, on one connection.
pub(super) struct PageVisitor {
    connection: LoadConnection,
    host: String,
    cookie: String,
}

impl PageVisitor {
    /// Makes a link and uses it.
    pub(super) async fn enter(gateway: &GatewayProcess) -> Result<Self, BenchError> {
        let token =
            std::fs::read_to_string(gateway.data.join("admin.token")).map_err(BenchError::io("reading the token"))?;
        let mut connection = LoadConnection::open(gateway.address).await?;
        let request = format!(
            "POST /api/v1/links HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}",
            gateway.address,
            token.trim()
        );
        let answer = connection.exchange(request.as_bytes()).await?;
        let link: Value = serde_json::from_slice(answer.body).unwrap_or_default();
        let url = link["url"].as_str().and_then(|url| url.strip_prefix("http://"));
        let place = url.and_then(|url| url.split_once('/'));
        let (host, path) =
            place.ok_or_else(|| BenchError::unexpected("the gateway", "a link to the page", answer.body))?;
        let (host, path) = (host.to_owned(), path.to_owned());
        let answer = connection.exchange(format!("GET /{path} HTTP/1.1\r\nhost: {host}\r\n\r\n").as_bytes()).await?;
        let cookie = answer.header("set-cookie").and_then(|cookie| cookie.split(';').next()).map(str::to_owned);
        let cookie = cookie.ok_or_else(|| BenchError::unexpected("the page", "a cookie", answer.body))?;
        Ok(Self { connection, host, cookie })
    }

    pub(super) async fn first_client(&mut self, gateway: &GatewayProcess) -> Result<u64, BenchError> {
        let token =
            std::fs::read_to_string(gateway.data.join("admin.token")).map_err(BenchError::io("reading the token"))?;
        let request = format!(
            "GET /api/v1/clients HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n\r\n",
            gateway.address,
            token.trim()
        );
        let answer = self.connection.exchange(request.as_bytes()).await?;
        let all: Value = serde_json::from_slice(answer.body).unwrap_or_default();
        let count = all["clients"].as_array().map_or(0, Vec::len);
        if count < CLIENTS {
            return Err(BenchError::unexpected("the gateway", "all clients", count.to_string().as_bytes()));
        }
        Ok(all["clients"][0]["id"].as_u64().unwrap_or_default())
    }

    /// Asks for a screen again and again, each time from the request to the last byte of the page.
    pub(super) async fn time(&mut self, gateway: &GatewayProcess, path: &str) -> Result<ScreenTimes, BenchError> {
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: {}\r\ncookie: {}\r\nsec-fetch-site: none\r\n\r\n",
            self.host, self.cookie
        );
        let busy = || gateway.pid().and_then(cpu_ms).unwrap_or(f64::NAN);
        let (before, mut took, mut bytes) = (busy(), Vec::with_capacity(TIMES), 0);
        for _ in 0..TIMES {
            let begun = Instant::now();
            let answer = self.connection.exchange(request.as_bytes()).await?;
            took.push(begun.elapsed().as_secs_f64() * 1e3);
            bytes = answer.body.len();
            // The door has no such number.
            let is_screen = memmem::find(answer.body, b"<body data-last=").is_some();
            if answer.status != 200 || !is_screen || !answer.body.ends_with(b"</html>") {
                return Err(BenchError::unexpected("the page", "a screen", path.as_bytes()));
            }
        }
        let cpu = (busy() - before) / TIMES as f64;
        took.sort_by(f64::total_cmp);
        Ok(ScreenTimes { p50: took[TIMES / 2 - 1], p99: took[TIMES * 99 / 100 - 1], cpu, bytes })
    }

    /// The stream of news that a page holds while somebody looks at it; it is read until this is dropped.
    pub(super) async fn follow(&self, gateway: &GatewayProcess) -> Result<OpenPage, BenchError> {
        let request = format!(
            "GET /live?since=0 HTTP/1.1\r\nhost: {}\r\ncookie: {}\r\nsec-fetch-site: same-origin\r\n\r\n",
            self.host, self.cookie
        );
        let opening = || BenchError::io("opening the stream of the page");
        let mut stream = TcpStream::connect(gateway.address).await.map_err(opening())?;
        stream.write_all(request.as_bytes()).await.map_err(opening())?;
        let mut received = Vec::new();
        stream.read_buf(&mut received).await.map_err(opening())?;
        if memmem::find(&received, b"text/event-stream").is_none() {
            return Err(BenchError::unexpected("the page", "a stream of events", &received));
        }
        let mut reader = JoinSet::new();
        reader.spawn(async move {
            while stream.read_buf(&mut received).await.is_ok_and(|read| read > 0) {
                received.clear()
            }
        });
        Ok(OpenPage { _reader: reader })
    }
}

/// A page that somebody looks at, while this lives.
pub(super) struct OpenPage {
    _reader: JoinSet<()>,
}
