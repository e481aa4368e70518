//! Resources that somebody follows: read again when the folder changes and now and then, told of when they differ.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use serde_json::json;
use tidings_proto::{code, notifications};
use tidings_sync::Lock;
use tidings_upstream::MessageSink;
use tidings_upstream::in_process::{self, RequestError};
use tidings_wire::{Frame, FrameKind};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::calls;
use crate::registry::ProjectRegistry;
use crate::run::{ScriptCaller, ScriptRunner};

/// How many resources one link follows; each is read again and again.
const MOST: usize = 1_000;

/// A hash of what was read; `None` when it could not be.
type Content = Option<[u8; 32]>;

/// What is followed over one link.
#[derive(Default)]
pub(super) struct LinkFollowing {
    followed: Lock<BTreeMap<String, Content>>,
    bell: Notify,
}

impl LinkFollowing {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Content>> {
        self.followed.lock()
    }

    /// Follows a resource from what it is now on.
    pub(super) async fn add(
        &self,
        registry: &ProjectRegistry,
        runner: &Arc<ScriptRunner>,
        uri: &str,
    ) -> Result<(), RequestError> {
        if self.lock().len() >= MOST {
            return Err(RequestError::internal(format!("at most {MOST} resources of a project are followed")));
        }
        // Read before it is promised: what can not be read can not be compared, and the client is told why.
        let answer = read(registry, runner, uri).await.ok_or_else(|| RequestError::internal("can not be read"))?;
        // What can not be read now can not be compared later either.
        if answer.kind() == FrameKind::Error {
            let error = answer.outcome().map(|at| answer.raw(at)).unwrap_or_default();
            let error: serde_json::Value = serde_json::from_slice(error).unwrap_or_default();
            let message = error["message"].as_str().unwrap_or("can not be read").to_owned();
            return Err(RequestError::new(error["code"].as_i64().unwrap_or(code::INTERNAL_ERROR), message));
        }
        self.lock().insert(uri.to_owned(), content(&answer));
        // The loop may be waiting with nothing to follow; it looks at its conditions again.
        self.bell.notify_one();
        Ok(())
    }

    pub(super) fn remove(&self, uri: &str) {
        self.lock().remove(uri);
    }

    /// Says whether a resource that is still followed differs from what it was.
    fn differs(&self, uri: &str, content: Content) -> bool {
        match self.lock().get_mut(uri) {
            // It may have been unsubscribed while it was read.
            Some(known) if *known != content => {
                *known = content;
                true
            }
            _ => false,
        }
    }
}

/// Looks at what is followed, until the link is closed.
pub(super) async fn keep_up(
    following: Arc<LinkFollowing>,
    registry: std::sync::Weak<ProjectRegistry>,
    mut looks: watch::Receiver<u64>,
    runner: Arc<ScriptRunner>,
    sink: Arc<dyn MessageSink>,
    stop: CancellationToken,
) {
    let every = runner.resource_poll();
    loop {
        let idle = following.lock().is_empty();
        tokio::select! {
            () = stop.cancelled() => return,
            // Only to look at `idle` again; what was just read needs no second look.
            () = following.bell.notified() => continue,
            looked = looks.changed(), if !idle => if looked.is_err() { return },
            () = pause(every), if !idle => {}
        }
        // Weak: this task must not keep the folder watched after the link is gone.
        let Some(registry) = registry.upgrade() else { return };
        let uris: Vec<String> = following.lock().keys().cloned().collect();
        for uri in uris {
            let answer = tokio::select! {
                () = stop.cancelled() => return,
                answer = read(&registry, &runner, &uri) => answer,
            };
            if following.differs(&uri, answer.as_ref().and_then(content))
                && let Ok(notice) = in_process::notice(notifications::UPDATED, Some(&json!({ "uri": uri })))
            {
                sink.unowned(notice);
            }
        }
    }
}

async fn pause(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

/// The answer to reading a resource. `None` when there is none in time.
async fn read(registry: &ProjectRegistry, runner: &Arc<ScriptRunner>, uri: &str) -> Option<Frame> {
    let state = registry.state().await?;
    // As a client would read it, so that what is compared is what clients see.
    let reading = calls::reading(&state.contents, runner, uri);
    // Nobody can be asked: this read belongs to no call.
    let stream = runner.read_resource(0, reading, ScriptCaller::default());
    tokio::time::timeout(runner.subscribe_timeout(), stream.answer()).await.ok()?.ok()
}

fn content(answer: &Frame) -> Content {
    let result = answer.outcome().filter(|_| answer.kind() == FrameKind::Response)?;
    Some(blake3::hash(answer.raw(result)).into())
}
