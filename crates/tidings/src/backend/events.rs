//! Server-sent events of a running gateway, with a bound on how long it may be silent.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use tidings_downstream::LIMITS;
use tidings_upstream::HttpBody;
use tidings_wire::sse;

use crate::failure::CommandFailure;

/// A stream that says nothing for this long is broken: the gateway breaks the silence more often.
pub(crate) const SILENCE: Duration = Duration::from_secs(45);

/// A stream of events.
pub(crate) struct ApiEvents {
    body: HttpBody,
    decoder: sse::SseDecoder,
}

impl ApiEvents {
    /// The events of an answer.
    pub(crate) fn of(body: HttpBody) -> Self {
        Self { body, decoder: sse::SseDecoder::new(LIMITS.max_bytes) }
    }

    /// What the next event says; `None` when the stream is over or broken.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, CommandFailure> {
        loop {
            if let Some(event) = self.decoder.next_event().map_err(CommandFailure::failed)? {
                // An event without data only carries an id, from which a stream could be resumed.
                if event.data.is_empty() {
                    continue;
                }
                return Ok(Some(event.data));
            }
            if !self.more().await {
                return Ok(None);
            }
        }
    }

    /// Waits for more bytes, whatever they are. Tells whether there are any.
    pub(crate) async fn more(&mut self) -> bool {
        let Ok(Some(Ok(frame))) = tokio::time::timeout(SILENCE, self.body.frame()).await else { return false };
        self.decoder.push(frame.data_ref().map_or(&[][..], |data| data));
        true
    }
}
