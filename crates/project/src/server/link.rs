//! The server's side of the protocol: lists, and who answers the rest.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream;
use serde_json::{Value, json};
use tidings_engine::Surroundings;
use tidings_proto::{ListKind, Method, Topic, code};
use tidings_upstream::{CallEvent, CallStream, Link, LinkError, MessageSink, OutgoingRequest};
use tidings_wire::{Frame, FrameKind, FrameLimits, RawId, error_response, notification, response};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;

use super::calls;
use super::following::{LinkFollowing, keep_up};
use super::told::ToldDigests;
use crate::registry::{ProjectRegistry, ProjectState};
use crate::run::ScriptRunner;

pub(super) const LIMITS: FrameLimits =
    FrameLimits { max_bytes: tidings_upstream::MAX_MESSAGE, max_depth: 256, max_batch: 1 };

/// A link to a project.
pub(super) struct ProjectLink {
    registry: Arc<ProjectRegistry>,
    runner: Arc<ScriptRunner>,
    surroundings: Surroundings,
    told: Arc<ToldDigests>,
    following: Arc<LinkFollowing>,
    stop: CancellationToken,
    _stop_at_the_end: DropGuard,
    /// They tell the gateway of changes.
    _tasks: [AbortOnDropHandle<()>; 2],
    /// Held until the link is closed: whoever waits for its end takes the sink's for it.
    sink: Mutex<Option<Arc<dyn MessageSink>>>,
}

impl ProjectLink {
    pub(super) fn new(
        registry: Arc<ProjectRegistry>,
        runner: Arc<ScriptRunner>,
        sink: Arc<dyn MessageSink>,
        surroundings: Surroundings,
    ) -> Self {
        let told = Arc::new(ToldDigests::default());
        let stop = CancellationToken::new();
        let telling = tokio::spawn(announce(registry.changes(), Arc::clone(&told), Arc::clone(&sink), stop.clone()));
        let following = Arc::new(LinkFollowing::default());
        let following_up = tokio::spawn(keep_up(
            Arc::clone(&following),
            Arc::downgrade(&registry),
            registry.looks(),
            Arc::clone(&runner),
            Arc::clone(&sink),
            stop.clone(),
        ));
        let guard = stop.clone().drop_guard();
        Self {
            registry,
            runner,
            surroundings,
            told,
            following,
            stop,
            _stop_at_the_end: guard,
            _tasks: [telling, following_up].map(AbortOnDropHandle::new),
            sink: Mutex::new(Some(sink)),
        }
    }
}

/// What is answered in the place of a result.
pub(super) type Refused = (i64, String);

impl Link for ProjectLink {
    fn call(&self, request: OutgoingRequest) -> CallStream {
        let id = RawId::from(request.id);
        match request.method {
            Method::List(kind) => {
                let (registry, told) = (Arc::clone(&self.registry), Arc::clone(&self.told));
                CallStream::new(stream::once(async move { answered(&id, list(&registry, &told, kind).await) }))
            }
            Method::Ping => CallStream::new(stream::once(std::future::ready(answered(&id, Ok(json!({})))))),
            _ => {
                let (registry, runner) = (Arc::clone(&self.registry), Arc::clone(&self.runner));
                let following = Arc::clone(&self.following);
                let caller = calls::caller(&self.surroundings, request.id);
                CallStream::after(async move {
                    match calls::begin(&registry, &runner, &following, &request, caller).await {
                        Ok(running) => running,
                        Err(refused) => CallStream::new(stream::once(std::future::ready(answered(&id, Err(refused))))),
                    }
                })
            }
        }
    }

    fn cancel(&self, _id: u64, _reason: Option<&str>) {
        // The stream is dropped, and what it does with it.
    }

    fn send(&self, message: Bytes) {
        if let Ok(frame) = Frame::parse(message, &LIMITS)
            && matches!(frame.kind(), FrameKind::Response | FrameKind::Error)
        {
            self.runner.answer(&frame);
        }
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        self.stop.cancel();
        drop(self.sink.lock().unwrap_or_else(PoisonError::into_inner).take());
        let runner = Arc::clone(&self.runner);
        Box::pin(async move { runner.close().await })
    }
}

/// Tells of lists that differ from what was answered, until the link is closed.
async fn announce(
    mut changes: watch::Receiver<Option<Arc<ProjectState>>>,
    told: Arc<ToldDigests>,
    sink: Arc<dyn MessageSink>,
    stop: CancellationToken,
) {
    loop {
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            () = stop.cancelled() => return,
        }
        let Some(state) = changes.borrow_and_update().clone() else { continue };
        let mut topics: Vec<Topic> = told.outdated(&state).into_iter().map(Topic::of).collect();
        // Resources and templates have one notification.
        topics.dedup();
        for topic in topics {
            if let Ok(frame) = Frame::parse(notification(topic.notification(), None), &LIMITS) {
                sink.unowned(frame.into());
            }
        }
    }
}

/// A whole list: the gateway makes pages of it.
async fn list(registry: &ProjectRegistry, told: &ToldDigests, kind: ListKind) -> Result<Value, Refused> {
    let late = || (code::INTERNAL_ERROR, "the project was not read in time".to_owned());
    registry.state().await.ok_or_else(late)?;
    let state = told.answering(kind, registry).ok_or_else(late)?;
    if let Some(problem) = &state.broken {
        return Err((code::INTERNAL_ERROR, problem.to_string()));
    }
    let contents = &state.contents;
    let items: Vec<&Value> = match kind {
        ListKind::Tools => contents.tools.iter().map(|tool| &tool.definition).collect(),
        ListKind::Resources => contents.resources.iter().map(|resource| &resource.definition).collect(),
        ListKind::Templates => contents.templates.iter().map(|template| &template.definition).collect(),
        ListKind::Prompts => contents.prompts.iter().map(|prompt| &prompt.definition).collect(),
    };
    Ok(json!({ kind.member(): items }))
}

fn answered(id: &RawId, outcome: Result<Value, Refused>) -> CallEvent {
    let bytes = match outcome {
        Ok(result) => response(id, result.to_string().as_bytes()),
        Err((code, message)) => error_response(Some(id), code, &message, None),
    };
    match Frame::parse(bytes, &LIMITS) {
        Ok(frame) => CallEvent::Response(frame),
        Err(error) => CallEvent::Failed(LinkError::Protocol(error.to_string())),
    }
}
