//! Streams of events of the running gateway.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use tidings_downstream::LIMITS;
use tidings_upstream::HttpBody;
use tidings_wire::sse;

/// A stream that says nothing for this long is broken: the gateway breaks the silence more often.
const SILENCE: Duration = Duration::from_secs(45);

/// Messages of one stream, and where to go on when it breaks.
pub(super) struct StreamMessages {
    body: HttpBody,
    decoder: sse::SseDecoder,
    /// The id of the last event.
    pub(super) last_id: Option<String>,
    /// How long to wait before going on, if that is the last that the gateway said: it has closed the stream for a while.
    pub(super) interrupted: Option<Duration>,
}

impl StreamMessages {
    pub(super) fn of(body: HttpBody) -> Self {
        Self { body, decoder: sse::SseDecoder::new(LIMITS.max_bytes), last_id: None, interrupted: None }
    }

    /// The next message; `None` when the stream is over or broken.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        loop {
            while let Some(event) = self.decoder.next_event().ok()? {
                if let Some(id) = event.id {
                    self.last_id = Some(id);
                }
                // An event with `retry` and no data is how a server of 2025-11-25 says that it closes the stream for a
                // while.
                self.interrupted = event.retry.filter(|_| event.data.is_empty()).map(Duration::from_millis);
                if !event.data.is_empty() {
                    return Some(event.data);
                }
            }
            let frame = tokio::time::timeout(SILENCE, self.body.frame()).await.ok()??.ok()?;
            self.decoder.push(frame.data_ref().map_or(&[][..], |data| data));
        }
    }
}
