//! The accept loop that the HTTP parts share.

use std::net::SocketAddr;

use hyper_util::rt::TokioIo;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};

use crate::error::BenchError;

/// Where an HTTP part listens, and how long it lives.
#[derive(clap::Args)]
pub(crate) struct PartListener {
    /// Address to listen on; port 0 takes a free one. The address is the first line of output.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// End when stdin ends: a harness that dies leaves no part behind.
    #[arg(long)]
    until_stdin_ends: bool,
}

/// Accepts connections until the process is ended, and hands each to `serve` on a task of its own.
pub(crate) async fn accept<F, S>(options: &PartListener, serve: S) -> Result<(), BenchError>
where
    S: Fn(TokioIo<TcpStream>) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind(options.listen).await.map_err(BenchError::io("listening"))?;
    let address = listener.local_addr().map_err(BenchError::io("reading the listening address"))?;
    // The harness reads this line to learn which port was free.
    println!("{address}");

    let parent_gone = parent_gone(options.until_stdin_ends);
    tokio::pin!(parent_gone);
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted.map_err(BenchError::io("accepting"))?.0,
            () = &mut parent_gone => return Ok(()),
        };
        stream.set_nodelay(true).map_err(BenchError::io("setting TCP_NODELAY"))?;
        // Ends with its connection, at the latest with the process.
        tokio::spawn(serve(TokioIo::new(stream)));
    }
}

async fn parent_gone(watched: bool) {
    if !watched {
        return std::future::pending().await;
    }
    let mut sink = [0; 64];
    let mut stdin = tokio::io::stdin();
    while matches!(stdin.read(&mut sink).await, Ok(read) if read > 0) {}
}
