//! The floor of a watched URL: asks it again and again, and does nothing else.

use std::net::SocketAddr;
use std::time::Duration;

use crate::error::BenchError;
use crate::load::http::LoadConnection;

/// Options of the `poll` part.
#[derive(clap::Args)]
pub(crate) struct PollOptions {
    /// Whom to ask.
    #[arg(long)]
    to: SocketAddr,
    /// Milliseconds from one to the next.
    #[arg(long)]
    every: u64,
    /// How often, at most: a harness that dies leaves nothing behind for good.
    #[arg(long)]
    times: usize,
}

/// Asks over one connection.
pub(crate) async fn run(options: &PollOptions) -> Result<(), BenchError> {
    let mut connection = LoadConnection::open(options.to).await?;
    let request = format!("GET / HTTP/1.1\r\nhost: {}\r\n\r\n", options.to);
    for _ in 0..options.times {
        connection.exchange(request.as_bytes()).await?;
        tokio::time::sleep(Duration::from_millis(options.every)).await;
    }
    Ok(())
}
