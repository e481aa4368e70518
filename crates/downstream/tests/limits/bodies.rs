//! Bodies that are too slow, too long, or too many.

use std::time::{Duration, Instant};

use tidings_downstream::http::EndpointOptions;
use tidings_wire::MessageBudget;
use tokio::io::AsyncWriteExt;

use super::{OpenEndpoint, POST, answer, status};

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;

fn quick() -> EndpointOptions {
    EndpointOptions {
        body_pause: Duration::from_millis(500),
        body_whole: Duration::from_secs(2),
        ..EndpointOptions::default()
    }
}

// edges D4, G9
#[tokio::test]
async fn a_body_that_is_never_sent_to_its_end_is_answered_in_time() {
    let endpoint = OpenEndpoint::open(quick()).await;
    for sent in [0, 10, 40_000] {
        let mut connection = endpoint.connect().await;
        connection.write_all(format!("{POST}Content-Length: 50000\r\n\r\n").as_bytes()).await.unwrap();
        connection.write_all(&vec![b' '; sent]).await.unwrap();
        let begun = Instant::now();
        let answer = answer(&mut connection).await;
        assert_eq!(status(&answer), 408, "{sent}: {answer}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{sent}: {:?}", begun.elapsed());
    }
}

// edges D4
#[tokio::test]
async fn a_body_that_comes_byte_by_byte_has_no_more_time_than_others() {
    let endpoint = OpenEndpoint::open(quick()).await;
    let (mut reader, mut writer) = tokio::io::split(endpoint.connect().await);
    writer.write_all(format!("{POST}Content-Length: 50000\r\n\r\n").as_bytes()).await.unwrap();
    let drip = tokio::spawn(async move {
        while writer.write_all(b" ").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    let mut first = [0; 12];
    let read = tokio::io::AsyncReadExt::read_exact(&mut reader, &mut first);
    tokio::time::timeout(Duration::from_secs(20), read).await.unwrap_or_else(|_| panic!("never answered")).unwrap();
    assert_eq!(&first, b"HTTP/1.1 408");
    drip.abort();
}

// edges G9
#[tokio::test]
async fn bodies_share_one_budget_and_what_does_not_fit_is_refused_until_there_is_room() {
    static BUDGET: MessageBudget = MessageBudget::new(1 << 20);
    let endpoint = OpenEndpoint::open(EndpointOptions { message_budget: &BUDGET, ..EndpointOptions::default() }).await;
    let mut stalled = Vec::new();
    for _ in 0..3 {
        let mut connection = endpoint.connect().await;
        connection.write_all(format!("{POST}Content-Length: 400000\r\n\r\n").as_bytes()).await.unwrap();
        connection.write_all(&vec![b' '; 300_000]).await.unwrap();
        stalled.push(connection);
    }
    eventually("three bodies are held", || BUDGET.used() >= 900_000).await;
    // Spaces before a message are part of the body and mean nothing.
    let long = format!("{}{INITIALIZE}", " ".repeat(300_000));
    let refused = endpoint.ask(POST, &long).await;
    assert_eq!(status(&refused), 503, "{refused}");
    assert!(refused.to_ascii_lowercase().contains("retry-after: 1"), "{refused}");
    assert_eq!(status(&endpoint.ask(POST, INITIALIZE).await), 200, "what is small is let in");
    drop(stalled);
    eventually("what is gone is free", || BUDGET.used() == 0).await;
    assert_eq!(status(&endpoint.ask(POST, &long).await), 200);
    eventually("what was answered is free", || BUDGET.used() == 0).await;
}

// edges G9
#[tokio::test]
async fn a_body_over_the_limit_is_answered_also_when_the_client_sends_before_it_looks() {
    let endpoint = OpenEndpoint::open(EndpointOptions::default()).await;
    let mut connection = endpoint.connect().await;
    let announced = tidings_downstream::LIMITS.max_bytes + 1;
    connection.write_all(format!("{POST}Content-Length: {announced}\r\n\r\n").as_bytes()).await.unwrap();
    let piece = vec![b' '; 1 << 20];
    for _ in 0..16 {
        connection.write_all(&piece).await.unwrap();
    }
    let mut head = [0; 12];
    tokio::io::AsyncReadExt::read_exact(&mut connection, &mut head).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 413");
}

async fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        assert!(Instant::now() < until, "gave up waiting until {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
