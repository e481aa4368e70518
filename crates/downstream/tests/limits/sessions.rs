//! More sessions than there is room for.

use tidings_downstream::http::EndpointOptions;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{OpenEndpoint, POST, status};

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;
const PING: &str = r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#;

async fn begin(endpoint: &OpenEndpoint) -> Result<String, u16> {
    let answer = endpoint.ask(POST, INITIALIZE).await;
    let id = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
    id.map(|id| id.trim().to_owned()).ok_or_else(|| status(&answer))
}

async fn ping(endpoint: &OpenEndpoint, session: &str) -> u16 {
    status(&endpoint.ask(&format!("{POST}Mcp-Session-Id: {session}\r\n"), PING).await)
}

/// A GET stream that has begun.
async fn follow(endpoint: &OpenEndpoint, session: &str) -> TcpStream {
    let mut connection = endpoint.connect().await;
    let head = format!(
        "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nMcp-Session-Id: {session}\r\n\r\n"
    );
    connection.write_all(head.as_bytes()).await.unwrap();
    let mut begun = [0; 12];
    connection.read_exact(&mut begun).await.unwrap();
    assert_eq!(&begun, b"HTTP/1.1 200");
    connection
}

// edges G8
#[tokio::test]
async fn a_new_client_gets_in_when_the_table_is_full_of_abandoned_sessions() {
    let endpoint = OpenEndpoint::open(EndpointOptions { max_sessions: 100, ..EndpointOptions::default() }).await;
    let listening = begin(&endpoint).await.unwrap();
    let stream = follow(&endpoint, &listening).await;
    let mut abandoned = Vec::new();
    for _ in 1..100 {
        abandoned.push(begin(&endpoint).await.unwrap());
    }
    assert_eq!(ping(&endpoint, &abandoned[0]).await, 200, "it was not idle longest");
    let mut fresh = Vec::new();
    for _ in 0..98 {
        fresh.push(begin(&endpoint).await.unwrap());
    }
    assert_eq!(ping(&endpoint, &listening).await, 200, "a live stream does not give way");
    assert_eq!(ping(&endpoint, &abandoned[1]).await, 404, "the oldest one went");
    assert_eq!(ping(&endpoint, &abandoned[98]).await, 404);
    assert_eq!(ping(&endpoint, &abandoned[0]).await, 200, "it was used lately");
    for session in &fresh {
        assert_eq!(ping(&endpoint, session).await, 200);
    }
    drop(stream);
}

// edges G8
#[tokio::test]
async fn where_all_sessions_are_in_use_the_next_is_refused() {
    let endpoint = OpenEndpoint::open(EndpointOptions { max_sessions: 2, ..EndpointOptions::default() }).await;
    let (first, second) = (begin(&endpoint).await.unwrap(), begin(&endpoint).await.unwrap());
    let streams = (follow(&endpoint, &first).await, follow(&endpoint, &second).await);
    assert_eq!(begin(&endpoint).await, Err(503));
    drop(streams);
    for _ in 0..200 {
        if begin(&endpoint).await.is_ok() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("sessions that nobody uses any more do not give way");
}
