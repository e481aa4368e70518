//! HTTP/1.1 from the client's side: one request at a time on one connection, and no more of the
//! protocol than the answers of the harness's servers and of the gateway need.

use std::net::SocketAddr;
use std::ops::Range;

use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Why an exchange failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    #[error("connecting to {to}: {source}")]
    Connect { to: SocketAddr, source: std::io::Error },
    #[error("the connection broke: {0}")]
    Broken(#[from] std::io::Error),
    #[error("the server closed the connection {at}")]
    Closed { at: &'static str },
    #[error("not an HTTP answer: {0}")]
    Malformed(&'static str),
}

/// A keep-alive connection.
pub(crate) struct LoadConnection {
    pub(crate) to: SocketAddr,
    stream: TcpStream,
    /// The answer as it was received; reused.
    received: Vec<u8>,
    /// The body, when it came in chunks; reused.
    joined: Vec<u8>,
}

/// An answer, valid until the next exchange.
pub(crate) struct LoadAnswer<'a> {
    pub(crate) status: u16,
    head: &'a [u8],
    pub(crate) body: &'a [u8],
}

enum BodyLength {
    Known(usize),
    Chunked,
}

impl LoadConnection {
    /// Connects, without delay for small writes.
    pub(crate) async fn open(to: SocketAddr) -> Result<Self, HttpError> {
        let connect = |source| HttpError::Connect { to, source };
        let stream = TcpStream::connect(to).await.map_err(connect)?;
        stream.set_nodelay(true).map_err(connect)?;
        Ok(Self { to, stream, received: Vec::with_capacity(16 * 1024), joined: Vec::new() })
    }

    /// Sends a request and reads the whole answer.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> Result<LoadAnswer<'_>, HttpError> {
        self.received.clear();
        self.stream.write_all(request).await?;
        let head = loop {
            self.read("before an answer").await?;
            if let Some(end) = memmem::find(&self.received, b"\r\n\r\n") {
                break end;
            }
        };
        let status = status(&self.received[..head])?;
        let start = head + 4;
        let chunked = match length(&self.received[..head])? {
            BodyLength::Known(length) => {
                while self.received.len() < start + length {
                    self.read("within a body").await?;
                }
                false
            }
            BodyLength::Chunked => {
                self.join_chunks(start).await?;
                true
            }
        };
        Ok(LoadAnswer {
            status,
            head: &self.received[..head],
            body: if chunked { &self.joined } else { &self.received[start..] },
        })
    }

    async fn read(&mut self, at: &'static str) -> Result<(), HttpError> {
        match self.stream.read_buf(&mut self.received).await? {
            0 => Err(HttpError::Closed { at }),
            _ => Ok(()),
        }
    }

    async fn join_chunks(&mut self, mut at: usize) -> Result<(), HttpError> {
        self.joined.clear();
        loop {
            let Some(chunk) = chunk(&self.received, at)? else {
                self.read("within a chunk").await?;
                continue;
            };
            if chunk.is_empty() {
                // A chunk of no bytes is the last; none of the servers sends trailers.
                return Ok(());
            }
            // Behind the line end that follows the data.
            at = chunk.end + 2;
            self.joined.extend_from_slice(&self.received[chunk]);
        }
    }
}

impl LoadAnswer<'_> {
    /// The value of a header; `name` in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(self.head, name)
    }
}

fn status(head: &[u8]) -> Result<u16, HttpError> {
    head.strip_prefix(b"HTTP/1.1 ")
        .and_then(|rest| rest.get(..3))
        .and_then(|digits| std::str::from_utf8(digits).ok())
        .and_then(|digits| digits.parse().ok())
        .ok_or(HttpError::Malformed("status line"))
}

fn header<'a>(head: &'a [u8], name: &str) -> Option<&'a str> {
    head.split(|byte| *byte == b'\n').skip(1).find_map(|line| {
        let (key, value) = std::str::from_utf8(line).ok()?.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

fn length(head: &[u8]) -> Result<BodyLength, HttpError> {
    if let Some(length) = header(head, "content-length") {
        let length = length.parse().map_err(|_| HttpError::Malformed("content-length"))?;
        return Ok(BodyLength::Known(length));
    }
    match header(head, "transfer-encoding") {
        Some("chunked") => Ok(BodyLength::Chunked),
        Some(_) => Err(HttpError::Malformed("transfer-encoding")),
        // HTTP would read to the end of the connection; the servers here leave both out only where there is no body.
        None => Ok(BodyLength::Known(0)),
    }
}

/// The data of the chunk that starts at `at`, once it and the line end after it are there.
fn chunk(received: &[u8], at: usize) -> Result<Option<Range<usize>>, HttpError> {
    let Some(line) = received.get(at..).and_then(|rest| memmem::find(rest, b"\r\n")) else {
        return Ok(None);
    };
    let size = std::str::from_utf8(&received[at..at + line])
        .ok()
        // An extension may follow the size.
        .and_then(|text| text.split(';').next())
        .and_then(|digits| usize::from_str_radix(digits.trim(), 16).ok())
        .ok_or(HttpError::Malformed("chunk size"))?;
    let start = at + line + 2;
    let whole = received.len() >= start + size + 2;
    Ok(whole.then_some(start..start + size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_counts_only_when_it_is_whole() {
        assert!(chunk(b"5\r\nhel", 0).unwrap().is_none());
        assert_eq!(chunk(b"5\r\nhello\r\n0\r\n\r\n", 0).unwrap(), Some(3..8));
        assert_eq!(chunk(b"5\r\nhello\r\n0\r\n\r\n", 10).unwrap(), Some(13..13));
        assert!(chunk(b"zz\r\n", 0).is_err());
    }

    #[test]
    fn headers_are_found_in_any_case() {
        let head = b"HTTP/1.1 200 OK\r\nMcp-Session-Id: abc\r\nContent-Length: 5";
        assert_eq!(status(head).unwrap(), 200);
        assert_eq!(header(head, "mcp-session-id"), Some("abc"));
        assert!(matches!(length(head).unwrap(), BodyLength::Known(5)));
    }
}
