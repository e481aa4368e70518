//! Lines of a length that is bounded, whatever a process prints.

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// Reads lines; what is too long is cut, and says so.
pub(crate) struct BoundedLines<R> {
    reader: R,
    longest: usize,
    /// The end of what was skipped.
    tail: Vec<u8>,
}

/// How much of what is skipped is kept, in case that nothing follows it.
const TAIL: usize = 4 << 10;

impl<R: AsyncBufRead + Unpin> BoundedLines<R> {
    /// At most `longest` bytes of each line are kept, and never more are held.
    pub(crate) fn new(reader: R, longest: usize) -> Self {
        Self { reader, longest, tail: Vec::new() }
    }

    /// The next line that is not blank, without the white space at its end; `None` at the end of the input.
    pub(crate) async fn next(&mut self) -> Option<String> {
        loop {
            let (line, cut) = self.raw().await?;
            let text = String::from_utf8_lossy(&line);
            let text = text.trim_end();
            if cut > 0 {
                return Some(format!("{text} … ({cut} bytes more)"));
            }
            if !text.is_empty() {
                return Some(text.to_owned());
            }
        }
    }

    /// Passes over what is there, or comes next; gives the number of lines that ended in it, `None` at the end of the input.
    pub(crate) async fn skip(&mut self) -> Option<u64> {
        let buffer = self.reader.fill_buf().await.ok()?;
        if buffer.is_empty() {
            return None;
        }
        let lines = memchr::memchr_iter(b'\n', buffer).count();
        let read = buffer.len();
        // Kept, because the last lines before a crash are often part of the flood.
        self.tail.extend_from_slice(&buffer[read.saturating_sub(TAIL)..]);
        self.tail.drain(..self.tail.len().saturating_sub(TAIL));
        self.reader.consume(read);
        Some(lines as u64)
    }

    /// The last lines that were passed over.
    pub(crate) fn take_tail(&mut self) -> Vec<String> {
        let tail = std::mem::take(&mut self.tail);
        let text = String::from_utf8_lossy(&tail);
        text.lines().map(str::trim_end).filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    /// The beginning of the next line, and how many bytes of it were cut.
    async fn raw(&mut self) -> Option<(Vec<u8>, usize)> {
        let mut line = Vec::new();
        let mut cut = 0;
        let mut any = false;
        loop {
            let buffer = self.reader.fill_buf().await.ok()?;
            if buffer.is_empty() {
                return any.then_some((line, cut));
            }
            any = true;
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let part = &buffer[..end.unwrap_or(buffer.len())];
            let kept = part.len().min(self.longest - line.len());
            line.extend_from_slice(&part[..kept]);
            cut += part.len() - kept;
            let read = end.map_or(buffer.len(), |end| end + 1);
            self.reader.consume(read);
            if end.is_some() {
                return Some((line, cut));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::BufReader;

    use super::*;

    async fn all(input: &[u8]) -> Vec<String> {
        // A small buffer, so that lines come in parts.
        let mut lines = BoundedLines::new(BufReader::with_capacity(3, input), 8);
        let mut read = Vec::new();
        while let Some(line) = lines.next().await {
            read.push(line);
        }
        read
    }

    #[tokio::test]
    async fn lines_are_cut_at_the_bound_and_say_so() {
        let read = all(b"short\r\n\n12345678\n123456789\n \n0123456789012345678901234\nend").await;
        assert_eq!(read, ["short", "12345678", "12345678 … (1 bytes more)", "01234567 … (17 bytes more)", "end"]);
        assert!(all(b"").await.is_empty());
        assert!(all(b"\n\n").await.is_empty());
    }

    #[tokio::test]
    async fn a_line_that_never_ends_holds_no_more_than_the_bound() {
        let mut lines =
            BoundedLines::new(BufReader::new(tokio::io::AsyncReadExt::take(tokio::io::repeat(b'x'), 1 << 20)), 8);
        let (line, cut) = lines.raw().await.expect("a line");
        assert_eq!((line.len(), cut), (8, (1 << 20) - 8));
        assert!(line.capacity() < 64, "{}", line.capacity());
    }

    #[tokio::test]
    async fn a_character_that_is_cut_in_two_does_no_harm() {
        assert_eq!(all("1234567é\nok".as_bytes()).await, ["1234567\u{fffd} … (1 bytes more)", "ok"]);
    }
}
