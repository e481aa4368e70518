//! The spans of a change of lists: a server's signal, the look that it caused, the commit, and each notification to a client. They are one
//! trace as far as one thing causes the next; what came together is linked.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use tidings_hub::ledger::{Topic, Topics};
use tidings_proto::{Era, TraceContext, TraceParent};

use crate::observe::telemetry::{OpenSpan, SpanAttributes, SpanKind, TelemetrySink};

/// How many signals of one server are remembered until it is looked at.
const MOST_SIGNALS: usize = 16;
/// How many commits are remembered for notifications that are still owed.
const MOST_COMMITS: usize = 64;
/// How many commits one notification is linked with.
const MOST_LINKS: usize = 16;

/// Signals of one server that no look has answered yet.
#[derive(Debug, Default)]
pub(crate) struct SignalSpans(Vec<TraceParent>);

impl SignalSpans {
    /// A server says that a list has changed.
    pub(crate) fn signalled(&mut self, sink: &dyn TelemetrySink, server: &str, topic: Topic) {
        if self.0.len() >= MOST_SIGNALS {
            return;
        }
        let open = OpenSpan::begin(sink, None);
        self.0.push(open.context.parent);
        let attributes =
            vec![("tidings.server", server.to_owned().into()), ("mcp.method.name", topic.notification().into())];
        sink.ended(open.end(SpanKind::Consumer, topic.notification(), attributes));
    }
}

/// A look at the lists of a server.
pub(crate) struct LookSpan {
    open: OpenSpan,
    links: Vec<TraceParent>,
}

impl LookSpan {
    /// It answers these signals: the first one causes it, the others are linked. Without any it is a trace of its own.
    pub(crate) fn begin(sink: &dyn TelemetrySink, signals: &mut SignalSpans) -> Self {
        let mut causes = std::mem::take(&mut signals.0).into_iter();
        let first = causes.next().map(alone);
        Self { open: OpenSpan::begin(sink, first.as_ref()), links: causes.collect() }
    }

    pub(crate) fn context(&self) -> TraceContext {
        self.open.context.clone()
    }

    /// `lists`: what was asked for, and why.
    pub(crate) fn end(self, sink: &dyn TelemetrySink, server: &str, lists: String, reason: &'static str, failed: bool) {
        let attributes: SpanAttributes = vec![
            ("tidings.server", server.to_owned().into()),
            ("tidings.lists", lists.into()),
            ("tidings.reason", reason.into()),
        ];
        let mut ended = self.open.end(SpanKind::Internal, "discovery", attributes);
        ended.links = self.links;
        ended.error = failed.then_some("failed".into());
        sink.ended(ended);
    }
}

/// Commits that somebody may still be owed a notification of.
#[derive(Debug, Default)]
pub(crate) struct CommitSpans(VecDeque<CommittedSpan>);

#[derive(Debug)]
struct CommittedSpan {
    at: Instant,
    topics: Topics,
    span: TraceParent,
}

impl CommitSpans {
    /// A commit can be read from now on.
    pub(crate) fn committed(&mut self, at: Instant, topics: Topics, span: TraceParent) {
        if self.0.len() >= MOST_COMMITS {
            self.0.pop_front();
        }
        self.0.push_back(CommittedSpan { at, topics, span });
    }

    /// The commits that a notification stands for, the newest first: those of its list since the one that it was first owed for.
    pub(crate) fn since(&self, topic: Topic, first: Instant) -> Vec<TraceParent> {
        let told = |commit: &&CommittedSpan| commit.at >= first && commit.topics.contains(topic);
        self.0.iter().rev().filter(told).map(|commit| commit.span).take(1 + MOST_LINKS).collect()
    }
}

/// A commit is over.
pub(crate) fn committed(sink: &dyn TelemetrySink, open: OpenSpan, number: u64) {
    let number = i64::try_from(number).unwrap_or(i64::MAX);
    sink.ended(open.end(SpanKind::Internal, "commit", vec![("tidings.commit", number_value(number))]));
}

/// A client was handed a notification. It stands for the newest commit; the others are linked.
pub(crate) fn delivered(sink: &Arc<dyn TelemetrySink>, topic: Topic, era: Era, client: u64, commits: Vec<TraceParent>) {
    let mut causes = commits.into_iter();
    let Some(newest) = causes.next() else { return };
    let open = OpenSpan::begin(&**sink, Some(&alone(newest)));
    let attributes = vec![
        ("mcp.method.name", topic.notification().into()),
        ("tidings.client", number_value(i64::try_from(client).unwrap_or(i64::MAX))),
        ("tidings.era", era_word(era).into()),
    ];
    let mut ended = open.end(SpanKind::Producer, topic.notification(), attributes);
    ended.links = causes.collect();
    sink.ended(ended);
}

/// An era, as `tidings.era` has it.
pub(crate) fn era_word(era: Era) -> &'static str {
    if era == Era::Modern { "modern" } else { "legacy" }
}

fn number_value(number: i64) -> crate::observe::telemetry::SpanValue {
    crate::observe::telemetry::SpanValue::Number(number)
}

fn alone(parent: TraceParent) -> TraceContext {
    TraceContext { parent, state: None }
}
