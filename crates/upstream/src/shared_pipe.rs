//! What comes back where one stream carries the answers of all calls: whose it is, and what becomes of what is nobody's.
//!
//! A child process has such a stream, and so has a server behind HTTP+SSE. How the bytes come and how ours go out is theirs.

use std::sync::{Arc, MutexGuard};

use bytes::Bytes;
use tidings_proto::{MessageSubject, ServerMessage, code, notifications};
use tidings_sync::Lock;
use tidings_wire::{Frame, FrameError, FrameKind, RawId, encode_string, error_response, notification};

use crate::link::MessageSink;
use crate::log_budget::{LineAdmission, LogBudget};
use crate::pace::is_unasked;
use crate::pipe_calls::{self, PipeCalls};
use crate::{CallEvent, LinkError};

/// How many bytes of warnings about one server are logged each second.
const NOISE: usize = 24 << 10;

/// The calls of one link, and where everything else goes.
pub(crate) struct SharedPipe {
    name: String,
    calls: Lock<PipeCalls>,
    /// For warnings about what it says.
    noise: LogBudget,
    pub(crate) sink: Arc<dyn MessageSink>,
}

impl SharedPipe {
    pub(crate) fn new(name: &str, sink: Arc<dyn MessageSink>) -> Self {
        Self { name: name.to_owned(), calls: Lock::default(), noise: LogBudget::new(NOISE), sink }
    }

    /// The server's configured name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The calls that wait.
    pub(crate) fn calls(&self) -> MutexGuard<'_, PipeCalls> {
        self.calls.lock()
    }

    /// Whether a warning about something the server said may be written; says how many were not.
    pub(crate) fn may_warn(&self, text: &str) -> bool {
        match self.noise.admit(text.len()) {
            LineAdmission::LeaveOut { .. } => false,
            LineAdmission::Write { left_out } => {
                if left_out > 0 {
                    tracing::warn!(server = %self.name, left_out, "warnings about this server were left out");
                }
                true
            }
        }
    }

    /// An answer that can not be read: whoever waits for it fails now and not when its time is over.
    pub(crate) fn unreadable(&self, id: Option<&RawId>, error: &FrameError, message: &[u8]) {
        let text = excerpt(message);
        if self.may_warn(&text) {
            tracing::warn!(server = %self.name, %error, line = %text, "an answer can not be read");
        }
        let number = id.and_then(pipe_calls::number);
        let waiting = match (number, id) {
            (Some(number), _) => self.calls().answered(number),
            // An id that is no number of ours was never given to a call.
            (None, Some(_)) => None,
            // Without a readable id it can only be given to somebody if there is only one who waits.
            (None, None) => self.calls().take_sole(),
        };
        match (waiting, number) {
            (Some(queue), _) => {
                let reason = LinkError::Protocol(format!("its answer can not be read: {error}"));
                queue.finish(CallEvent::Failed(reason));
            }
            // The call was given up; the table of calls wants to know that the server is done with it.
            (None, Some(late)) => self.sink.answered_late(late),
            (None, None) => self.sink.remark(format!("sent an answer that can not be read ({error}): {text}")),
        }
    }

    /// Gives a message to whom it belongs; gives the number of things in it that nobody asked for. `reply` sends what the server
    /// has to be told at once.
    pub(crate) fn route(&self, frame: Frame, reply: impl Fn(Bytes)) -> usize {
        if matches!(frame.kind(), FrameKind::Response | FrameKind::Error) {
            self.answer(frame);
            return 0;
        }
        let message = ServerMessage::from(frame);
        let unasked = usize::from(is_unasked(message.subject()));
        self.pass_on(message, reply);
        unasked
    }

    fn answer(&self, frame: Frame) {
        let id = frame.id().and_then(|id| pipe_calls::number(&id));
        let queue = match (id, frame.id()) {
            (Some(id), _) => self.calls().answered(id),
            (None, Some(_)) => None,
            // An error about a request whose id the server did not read.
            (None, None) => self.calls().take_sole(),
        };
        let is_late = match queue {
            // The stream was dropped and the call not cancelled yet: for the server it is over all the same.
            Some(queue) => !queue.answer(frame),
            None if frame.id().is_none() => {
                self.sink.remark(format!("sent an error that answers nobody: {}", excerpt(frame.bytes())));
                false
            }
            None => {
                tracing::debug!(server = %self.name, id = ?frame.id(), "late or unknown answer dropped");
                true
            }
        };
        if let Some(id) = id.filter(|_| is_late) {
            self.sink.answered_late(id);
        }
    }

    /// Gives a message that is no answer to the call it belongs to, or to the gateway.
    fn pass_on(&self, message: ServerMessage, reply: impl Fn(Bytes)) {
        // By the token where there is one; only otherwise must the gateway guess from what is in flight.
        let owner = progress_owner(&message).or_else(|| self.sink.owner(&message));
        let refused = match owner {
            None => return self.sink.unowned(message),
            Some(id) => match self.calls().get(id) {
                Some(queue) => queue.push(message),
                // After the answer: of a task that the server goes on with, or of a call that was cancelled.
                None if message.subject() == MessageSubject::Progress => return self.sink.unowned(message),
                None => Some(message),
            },
        };
        if let Some(message) = refused
            // A question that is dropped in silence would make the server wait for ever.
            && message.subject().is_request()
        {
            let text = "the client does not keep up";
            reply(error_response(message.id().as_ref(), code::INTERNAL_ERROR, text, None));
        }
    }

    /// The link is over: nobody is answered any more.
    pub(crate) fn fail(&self, error: &LinkError) {
        // May come twice, the second time with a better reason: whoever calls from then on is given that one.
        let open = self.calls().close(error);
        for queue in open {
            queue.finish(CallEvent::Failed(error.clone()));
        }
    }
}

/// What tells a server that a call is no longer wanted.
pub(crate) fn cancellation(id: u64, reason: Option<&str>) -> Bytes {
    let reason = reason.map(|r| format!(",\"reason\":{}", encode_string(r))).unwrap_or_default();
    let params = format!("{{\"requestId\":{id}{reason}}}");
    notification(notifications::CANCELLED, Some(params.as_bytes()))
}

/// The beginning of a message, for whoever looks for the cause.
pub(crate) fn excerpt(message: &[u8]) -> String {
    String::from_utf8_lossy(&message[..message.len().min(200)]).trim_end().to_owned()
}

/// Progress names its call by the token, which is the call's id.
fn progress_owner(message: &ServerMessage) -> Option<u64> {
    if message.subject() != MessageSubject::Progress {
        return None;
    }
    RawId::from_raw(message.raw(message.param(&["progressToken"])?))?.as_u64()
}
