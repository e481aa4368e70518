//! `tidings stdio --attach`: a client on standard input and output joins the gateway that is running.
//!
//! This is a relay, not a second gateway: each line goes to the running gateway as one request over HTTP, and what comes of it is
//! written as lines. The client speaks the era it likes. When the gateway is restarted the relay waits for it, and the
//! client's session goes on (ADR 26).

mod door;
mod relay;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidings_downstream::DRAIN;
use tidings_downstream::stdio::InputLines;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::cli::Cli;
use crate::data::DataDir;
use crate::failure::CommandFailure;
use crate::{ending, standard};
use relay::StdioRelay;

/// How many messages may wait for the client to read them. Whoever has more waits with it: nothing is read from the gateway
/// meanwhile, which has bounds of its own.
const WAITING: usize = 64;
/// How long the last lines may take, when everything else is over.
const LAST_LINES: Duration = Duration::from_secs(1);

pub(super) async fn run(cli: &Cli, channel: bool) -> Result<(), CommandFailure> {
    let data = DataDir::find(cli.data.as_deref())?;
    if data.running().is_none() {
        return Err(CommandFailure::Failed(format!(
            "no gateway is running for {}; start one with `tidings serve`, or leave --attach out to start the servers here",
            data.path().display()
        )));
    }
    let stop = CancellationToken::new();
    ending::stop_on_signal(stop.clone());
    let (out, lines) = mpsc::channel(WAITING);
    let writer = tokio::spawn(write(lines, standard::output(), stop.clone()));
    let relay = Arc::new(StdioRelay::new(data, out, channel)?);
    let mut input = standard::input();
    let mut read = InputLines::default();
    while let Some(line) = read.next(&mut input, &stop).await {
        tokio::select! {
            () = Arc::clone(&relay).receive(line) => {}
            () = stop.cancelled() => break,
        }
    }
    relay.finish(DRAIN).await;
    drop(relay);
    // The relay held the other end of the channel, so the writer ends when all lines are written.
    let _ = tokio::time::timeout(LAST_LINES, writer).await;
    Ok(())
}

/// Writes until nobody sends any more, or the client is gone.
async fn write(mut lines: mpsc::Receiver<Bytes>, mut output: impl AsyncWrite + Unpin, stop: CancellationToken) {
    while let Some(line) = lines.recv().await {
        let whole = [&*line, b"\n"].concat();
        if output.write_all(&whole).await.is_err() || output.flush().await.is_err() {
            // Whoever sends finds the channel closed.
            return stop.cancel();
        }
    }
}
