//! A small MCP echo server on stdin and stdout.

use std::io::{BufRead, Write};
use std::time::Duration;

use crate::echo::{EchoReply, EchoServer, OfferedEras};
use crate::error::BenchError;

/// Options of the `stdio-server` part.
#[derive(clap::Args)]
pub(crate) struct StdioOptions {
    /// The eras it answers.
    #[arg(long, value_enum, default_value = "both")]
    era: OfferedEras,
    /// Milliseconds it sleeps before it reads: a server that is slow to start.
    #[arg(long, default_value_t = 0)]
    start_delay: u64,
    /// Read everything, answer nothing.
    #[arg(long)]
    hang: bool,
}

/// Answers until stdin ends. Plain blocking I/O: the process costs as little as one can.
pub(crate) fn run(options: &StdioOptions) -> Result<(), BenchError> {
    std::thread::sleep(Duration::from_millis(options.start_delay));
    let server = EchoServer::new(options.era, 0);
    let mut stdout = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(BenchError::io("reading stdin"))?;
        if options.hang {
            continue;
        }
        let mut body = match server.answer(line.as_bytes()) {
            Ok(EchoReply::Opened(body) | EchoReply::Result(_, body) | EchoReply::Error(_, _, body)) => body,
            Ok(EchoReply::Nothing) => continue,
            Err(_) => return Err(BenchError::unexpected("stdin", "JSON-RPC", line.as_bytes())),
        };
        body.push(b'\n');
        stdout.write_all(&body).and_then(|()| stdout.flush()).map_err(BenchError::io("writing stdout"))?;
    }
    Ok(())
}
