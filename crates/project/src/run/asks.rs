//! Questions of running scripts to whoever called them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};

use serde_json::Value;
use tidings_proto::notifications;
use tidings_sync::Lock;
use tidings_upstream::CallQueue;
use tidings_wire::{Frame, FrameKind, RawId, notification, request};
use tokio::sync::oneshot;

use super::progress_pipe::framed;

/// An answer, or the error in its place.
pub(crate) type Answered = Result<Value, Value>;

/// The questions that are open. Each call has one at a time, so there are never more than workers.
#[derive(Default)]
pub(crate) struct OpenQuestions {
    next: AtomicU64,
    open: Lock<HashMap<RawId, oneshot::Sender<Answered>>>,
}

/// A question that was asked; dropping it forgets it.
pub(crate) struct AskedQuestion {
    id: RawId,
    answer: oneshot::Receiver<Answered>,
    asks: Arc<OpenQuestions>,
}

impl OpenQuestions {
    /// Asks. `None` when the caller does not keep up.
    pub(crate) fn ask(
        self: &Arc<Self>,
        queue: &CallQueue,
        method: &str,
        params: Option<&Value>,
    ) -> Option<AskedQuestion> {
        let id = RawId::from_raw(format!("\"script-{}\"", self.next.fetch_add(1, Ordering::Relaxed)).as_bytes())?;
        let params = params.map(Value::to_string);
        let frame = framed(request(&id, method, params.as_deref().map(str::as_bytes)))?;
        let (sender, answer) = oneshot::channel();
        // Before it is asked: the answer may come before `push` returns.
        self.lock().insert(id.clone(), sender);
        let question = AskedQuestion { id, answer, asks: Arc::clone(self) };
        // Where the queue is full, dropping the question takes it out of the table again.
        queue.push(frame.into()).is_none().then_some(question)
    }

    /// An answer came. Late ones are dropped.
    pub(crate) fn answer(&self, frame: &Frame) {
        // Taken out, so that a second answer finds nothing.
        let Some(sender) = frame.id().and_then(|id| self.lock().remove(&id)) else { return };
        let value = frame.outcome().and_then(|at| serde_json::from_slice(frame.raw(at)).ok()).unwrap_or_default();
        let _ = sender.send(if frame.kind() == FrameKind::Response { Ok(value) } else { Err(value) });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RawId, oneshot::Sender<Answered>>> {
        self.open.lock()
    }
}

impl AskedQuestion {
    /// Waits for the answer; nobody waits for ever, since the clock of the call runs.
    pub(crate) async fn answered(&mut self) -> Answered {
        (&mut self.answer).await.unwrap_or(Err(Value::Null))
    }

    /// The script does not wait any more.
    pub(crate) fn withdraw(self, queue: &CallQueue) {
        let params = format!("{{\"requestId\":{}}}", self.id);
        if let Some(frame) = framed(notification(notifications::CANCELLED, Some(params.as_bytes()))) {
            let _ = queue.push(frame.into());
        }
    }
}

impl Drop for AskedQuestion {
    fn drop(&mut self) {
        self.asks.lock().remove(&self.id);
    }
}
