//! A bare client of `subscriptions/listen`: a socket, one request, and what comes back.

use std::net::SocketAddr;
use std::time::Duration;

use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::echo::MODERN_REVISION;
use crate::error::BenchError;

const WITHIN: Duration = Duration::from_secs(20);
const ACKNOWLEDGED: &[u8] = b"subscriptions/acknowledged";

/// Opens a stream with this filter and reads its acknowledgement.
pub(super) async fn listen(to: SocketAddr, number: usize, filter: &str) -> Result<TcpStream, BenchError> {
    let open = async {
        let mut stream = TcpStream::connect(to).await?;
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{number},"method":"subscriptions/listen","params":{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"{MODERN_REVISION}","io.modelcontextprotocol/clientCapabilities":{{}}}},"notifications":{filter}}}}}"#
        );
        let request = format!(
            "POST /mcp HTTP/1.1\r\nhost: {to}\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\nmcp-protocol-version: {MODERN_REVISION}\r\n\
             mcp-method: subscriptions/listen\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await?;
        read_until(&mut stream, ACKNOWLEDGED).await?;
        Ok(stream)
    };
    within(open).await.map_err(BenchError::io("opening a listener"))
}

/// Posts these bytes and reads until they come back, which is how a stream of the floor begins.
pub(super) async fn listen_bare(to: SocketAddr, first: &str) -> Result<TcpStream, BenchError> {
    let open = async {
        let mut stream = TcpStream::connect(to).await?;
        let request = format!("POST /mcp HTTP/1.1\r\nhost: {to}\r\ncontent-length: {}\r\n\r\n{first}", first.len());
        stream.write_all(request.as_bytes()).await?;
        read_until(&mut stream, first.as_bytes()).await?;
        Ok(stream)
    };
    within(open).await.map_err(BenchError::io("opening a stream of the floor"))
}

async fn within<T>(work: impl Future<Output = std::io::Result<T>>) -> std::io::Result<T> {
    tokio::time::timeout(WITHIN, work).await.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()))
}

async fn read_until(stream: &mut TcpStream, wanted: &[u8]) -> std::io::Result<()> {
    let mut received = Vec::new();
    while memmem::find(&received, wanted).is_none() {
        if stream.read_buf(&mut received).await? == 0 {
            let text = String::from_utf8_lossy(&received).into_owned();
            return Err(std::io::Error::other(format!("ended early: {text}")));
        }
    }
    Ok(())
}

/// Reads a stream to its end and says each time how often `wanted` came since the last time.
pub(super) async fn each(mut stream: TcpStream, wanted: &[u8], mut came: impl FnMut(&[u8], usize)) {
    let finder = memmem::Finder::new(wanted);
    let mut received = Vec::with_capacity(512);
    while stream.read_buf(&mut received).await.is_ok_and(|read| read > 0) {
        let found = finder.find_iter(&received).collect::<Vec<_>>();
        if let Some(last) = found.last() {
            came(&received, found.len());
            // What follows the last find stays: it may be the beginning of the next one.
            received.drain(..last + wanted.len());
        }
    }
}
