//! What is told of a request to whoever exports traces. Each of these does nothing where nobody does.

use tidings_proto::{Method, TaskMethod, TraceContext, meta};
use tidings_upstream::CallEvent;

use super::{Exchange, Reply, Stage};
use crate::client::session::Caller;
use crate::observe::audit::CallOutcome;
use crate::observe::request_span::{RequestSpan, SpanAsker, SpanDestination, SpanTransport};

impl Exchange {
    /// It came on a pipe.
    pub fn came_over_pipe(&mut self) {
        if let Some(span) = &mut self.records.span {
            span.came_over(SpanTransport::Pipe);
        }
    }

    /// It came over HTTP. Asked for headers only where somebody wants to know.
    pub fn came_over_http<'h>(&mut self, header: impl Fn(&'static str) -> Option<&'h str>) {
        let Some(span) = &mut self.records.span else { return };
        span.came_over(SpanTransport::Tcp);
        if let Some(context) = TraceContext::read(header(meta::TRACE_PARENT), header(meta::TRACE_STATE)) {
            span.came_with(&context);
        }
    }

    /// The request is about to be sent: the span that its server is told.
    pub(super) fn trace_request(&mut self) -> Option<Box<TraceContext>> {
        let (Some(span), Stage::Calling(calling)) = (&mut self.records.span, &self.stage) else { return None };
        let (server, is_outcome) =
            (&calling.routed.server, self.followed.as_ref().is_some_and(|f| f.outcome.is_some()));
        let destination = SpanDestination {
            server: &server.shared_name,
            transport: SpanTransport::of_server(server.plan.source.transport()),
            revision: calling.live.hello.revision,
            method: if is_outcome { Method::Task(TaskMethod::Result) } else { self.method },
            name: calling.routed.target.local.as_str(),
            is_listed: calling.routed.is_listed,
            id: calling.call.0,
        };
        span.send(&destination).map(Box::new)
    }

    pub(super) fn end_span(&mut self, outcome: CallOutcome, reply: Option<&Reply>) {
        let Some(span) = self.records.span.take() else { return };
        let asker = SpanAsker {
            revision: self.caller.revision(),
            session: matches!(self.caller, Caller::Legacy(_)).then(|| self.caller.key().0),
        };
        let answer = match reply {
            Some(Reply::Answer(answer)) if self.method == Method::ToolsCall => Some(&answer.payload),
            _ => None,
        };
        span.end(&asker, outcome, answer);
    }
}

/// What a server did with the request.
pub(super) fn note(span: &mut RequestSpan, event: &CallEvent) {
    match event {
        CallEvent::Response(frame) | CallEvent::Refused { answer: Some(frame), .. } => span.server_said(frame),
        CallEvent::Refused { answer: None, error } | CallEvent::Unsent(error) | CallEvent::Failed(error) => {
            span.server_failed(error);
        }
        CallEvent::Redirect(_) | CallEvent::LoginWanted(_) => span.server_done(None),
        CallEvent::Accepted
        | CallEvent::Opened
        | CallEvent::Message(_)
        | CallEvent::Interrupted(_)
        | CallEvent::Broken => {}
    }
}
