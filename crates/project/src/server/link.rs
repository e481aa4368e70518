//! The server's side of the protocol: lists, and who answers the rest.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream;
use serde_json::{Value, json};
use tidings_engine::Surroundings;
use tidings_proto::{ListKind, Method, Topic};
use tidings_upstream::in_process::{self, LinkLife, RequestError};
use tidings_upstream::{CallEvent, CallStream, Link, MessageSink, OutgoingRequest};
use tidings_wire::FrameKind;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::calls;
use super::following::{LinkFollowing, keep_up};
use super::told::ToldDigests;
use crate::registry::{ProjectRegistry, ProjectState};
use crate::run::ScriptRunner;

/// The gateway's link to a script project; its tasks end with it.
pub(super) struct ProjectLink {
    registry: Arc<ProjectRegistry>,
    runner: Arc<ScriptRunner>,
    surroundings: Surroundings,
    told: Arc<ToldDigests>,
    following: Arc<LinkFollowing>,
    life: LinkLife,
    /// They tell the gateway of changes.
    _tasks: [AbortOnDropHandle<()>; 2],
}

impl ProjectLink {
    pub(super) fn new(
        registry: Arc<ProjectRegistry>,
        runner: Arc<ScriptRunner>,
        sink: Arc<dyn MessageSink>,
        surroundings: Surroundings,
    ) -> Self {
        let told = Arc::new(ToldDigests::default());
        let life = LinkLife::new(Arc::clone(&sink));
        let telling = tokio::spawn(announce(registry.changes(), Arc::clone(&told), Arc::clone(&sink), life.stop()));
        let following = Arc::new(LinkFollowing::default());
        let following_up = tokio::spawn(keep_up(
            Arc::clone(&following),
            Arc::downgrade(&registry),
            registry.looks(),
            Arc::clone(&runner),
            sink,
            life.stop(),
        ));
        Self {
            registry,
            runner,
            surroundings,
            told,
            following,
            life,
            _tasks: [telling, following_up].map(AbortOnDropHandle::new),
        }
    }
}

impl Link for ProjectLink {
    fn call(&self, request: OutgoingRequest) -> CallStream {
        let id = request.id;
        match request.method {
            Method::List(kind) => {
                let (registry, told) = (Arc::clone(&self.registry), Arc::clone(&self.told));
                CallStream::new(stream::once(async move { answered(id, list(&registry, &told, kind).await) }))
            }
            Method::Ping => in_process::at_once(answered(id, Ok(json!({})))),
            _ => {
                let (registry, runner) = (Arc::clone(&self.registry), Arc::clone(&self.runner));
                let following = Arc::clone(&self.following);
                // Now, while the call is certain to be in the table.
                let caller = calls::caller(&self.surroundings, request.id);
                CallStream::after(async move {
                    match calls::begin(&registry, &runner, &following, &request, caller).await {
                        Ok(running) => running,
                        Err(error) => in_process::at_once(answered(id, Err(error))),
                    }
                })
            }
        }
    }

    fn cancel(&self, _id: u64, _reason: Option<&str>) {
        // The stream is dropped, and what it does with it.
    }

    fn send(&self, message: Bytes) {
        if let Ok(frame) = in_process::frame(message)
            && matches!(frame.kind(), FrameKind::Response | FrameKind::Error)
        {
            self.runner.answer(&frame);
        }
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        self.life.end();
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
        // Marked as seen before it is handled: a change meanwhile wakes this again.
        let Some(state) = changes.borrow_and_update().clone() else { continue };
        let mut topics: Vec<Topic> = told.outdated(&state).into_iter().map(Topic::of).collect();
        // Resources and templates have one notification.
        topics.dedup();
        for topic in topics {
            if let Ok(notice) = in_process::notice(topic.notification(), None) {
                sink.unowned(notice);
            }
        }
    }
}

/// A whole list: the gateway makes pages of it.
async fn list(registry: &ProjectRegistry, told: &ToldDigests, kind: ListKind) -> Result<Value, RequestError> {
    let late = || RequestError::internal("the project was not read in time");
    registry.state().await.ok_or_else(late)?;
    let state = told.answering(kind, registry).ok_or_else(late)?;
    if let Some(problem) = &state.broken {
        return Err(RequestError::internal(problem.to_string()));
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

fn answered(id: u64, outcome: Result<Value, RequestError>) -> CallEvent {
    match outcome {
        Ok(result) => in_process::answer(id, Ok(result.to_string().as_bytes())),
        Err(error) => in_process::answer(id, Err(&error)),
    }
}
