//! Connections are kept when an answer was read, and only then; what was never sent is sent on another.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use tidings_upstream::HttpClient;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

const WHOLE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const UNFINISHED: &str = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok";
const LAST: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";

const SHORT: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nkeep-alive: max=9, timeout=1\r\n\r\nok";
const LONG: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nKeep-Alive: Timeout=3600\r\n\r\nok";

/// A server that gives every request the next of these answers.
struct Scripted {
    url: String,
    connections: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
    closed: mpsc::Receiver<()>,
}

impl Scripted {
    async fn new(answers: &'static [&'static str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp?x=1", listener.local_addr().unwrap());
        let (connections, requests) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let (gone, closed) = mpsc::channel(8);
        let (accepted, served) = (Arc::clone(&connections), Arc::clone(&requests));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                accepted.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream, answers, Arc::clone(&served), gone.clone()));
            }
        });
        Self { url, connections, requests, closed }
    }

    fn counts(&self) -> (usize, usize) {
        (self.connections.load(Ordering::SeqCst), self.requests.load(Ordering::SeqCst))
    }

    /// Waits until a connection has ended.
    async fn wait_closed(&mut self) {
        tokio::time::timeout(Duration::from_secs(5), self.closed.recv()).await.unwrap();
    }
}

async fn serve(mut stream: TcpStream, answers: &[&str], served: Arc<AtomicUsize>, gone: mpsc::Sender<()>) {
    let mut read = Vec::new();
    while stream.read_buf(&mut read).await.is_ok_and(|bytes| bytes > 0) {
        if !read.ends_with(b"\r\n\r\n") {
            continue;
        }
        let head = String::from_utf8(std::mem::take(&mut read)).unwrap();
        assert!(head.starts_with("GET /mcp?x=1 HTTP/1.1\r\n") && head.contains("host: 127.0.0.1:"), "{head}");
        let answer = answers[served.fetch_add(1, Ordering::SeqCst)];
        stream.write_all(answer.as_bytes()).await.unwrap();
        if answer == LAST {
            break;
        }
    }
    drop(stream);
    let _ = gone.send(()).await;
}

fn get(url: &str) -> Request<Full<Bytes>> {
    Request::get(url).body(Full::default()).unwrap()
}

async fn fetch(client: &HttpClient, url: &str) -> Bytes {
    client.fetch(get(url), Duration::from_secs(5), 100).await.unwrap().into_body()
}

#[tokio::test]
async fn one_connection_serves_requests_that_follow_each_other() {
    let server = Scripted::new(&[WHOLE; 3]).await;
    let client = HttpClient::new().unwrap();
    for _ in 0..3 {
        assert_eq!(fetch(&client, &server.url).await, "ok");
    }
    assert_eq!(server.counts(), (1, 3));
}

#[tokio::test]
async fn an_answer_that_is_dropped_closes_its_connection() {
    let mut server = Scripted::new(&[UNFINISHED, WHOLE]).await;
    let client = HttpClient::new().unwrap();
    let mut answer = client.send(get(&server.url)).await.unwrap();
    assert_eq!(answer.frame().await.unwrap().unwrap().into_data().unwrap(), "ok");
    drop(answer);
    server.wait_closed().await;
    assert_eq!(fetch(&client, &server.url).await, "ok");
    assert_eq!(server.counts(), (2, 2));
}

#[tokio::test]
async fn a_connection_that_the_server_closed_is_not_used_again() {
    let mut server = Scripted::new(&[LAST, LAST, WHOLE]).await;
    let client = HttpClient::new().unwrap();
    for round in 1..=2 {
        assert_eq!(fetch(&client, &server.url).await, "ok");
        server.wait_closed().await;
        assert_eq!(server.counts(), (round, round));
    }
    assert_eq!(fetch(&client, &server.url).await, "ok");
    assert_eq!(server.counts(), (3, 3), "each request was sent once");
}

#[tokio::test]
async fn requests_at_a_time_have_a_connection_each() {
    let server = Scripted::new(&[UNFINISHED, UNFINISHED, WHOLE]).await;
    let client = HttpClient::new().unwrap();
    let one = client.send(get(&server.url)).await.unwrap();
    let two = client.send(get(&server.url)).await.unwrap();
    assert_eq!(server.counts(), (2, 2));
    drop((one, two));
    assert_eq!(fetch(&client, &server.url).await, "ok");
    assert_eq!(server.counts().1, 3);
}

// edges A3
#[tokio::test]
async fn a_connection_that_its_server_will_close_soon_is_not_used_again() {
    let (short, long) = (Scripted::new(&[SHORT, SHORT]).await, Scripted::new(&[LONG, LONG]).await);
    let client = HttpClient::new().unwrap();
    for server in [&short, &long] {
        for _ in 0..2 {
            assert_eq!(fetch(&client, &server.url).await, "ok");
        }
    }
    assert_eq!((short.counts(), long.counts()), ((2, 2), (1, 2)));
}
