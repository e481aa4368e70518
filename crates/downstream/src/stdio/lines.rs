//! Lines of standard input, each of which is a message.

use bytes::{Bytes, BytesMut};
use tidings_wire::FrameError;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio_util::sync::CancellationToken;

use crate::admission::LIMITS;

/// Lines that come in.
#[derive(Default)]
pub struct InputLines {
    buffer: BytesMut,
    searched: usize,
    /// Inside a line that was too long: skip to its end.
    skipping: bool,
}

impl InputLines {
    /// The next line that is not empty; `None` at the end of the input or when told to stop.
    pub async fn next(
        &mut self,
        input: &mut (impl AsyncRead + Unpin),
        stop: &CancellationToken,
    ) -> Option<Result<Bytes, FrameError>> {
        let lines = self;
        loop {
            if let Some(at) = memchr::memchr(b'\n', &lines.buffer[lines.searched..]) {
                let mut line = lines.buffer.split_to(lines.searched + at + 1);
                // The line break frames the message and is no part of it.
                line.truncate(lines.searched + at);
                let line = line.freeze();
                lines.searched = 0;
                if !std::mem::take(&mut lines.skipping) && !line.iter().all(u8::is_ascii_whitespace) {
                    return Some(Ok(line));
                }
                continue;
            }
            if lines.buffer.len() > LIMITS.max_bytes {
                lines.buffer.clear();
                lines.searched = 0;
                // Said once per line, however long it goes on.
                if !std::mem::replace(&mut lines.skipping, true) {
                    let len = LIMITS.max_bytes + 1;
                    let fault = tidings_wire::FrameFault::TooLong { len, limit: LIMITS.max_bytes };
                    return Some(Err(fault.into()));
                }
            }
            // So that each byte is looked at once, however many reads a line takes.
            lines.searched = lines.buffer.len();
            let read = tokio::select! {
                // An error on standard input ends it, like its end.
                read = input.read_buf(&mut lines.buffer) => read.unwrap_or(0),
                // Half a message is no message: whoever sends it hears that the gateway ends.
                () = stop.cancelled() => return None,
            };
            if read == 0 {
                // A last line may lack its line break.
                let rest = lines.buffer.split().freeze();
                lines.searched = 0;
                return (!rest.iter().all(u8::is_ascii_whitespace) && !lines.skipping).then_some(Ok(rest));
            }
        }
    }
}
