//! What is told of requests and changes to whoever exports traces: spans that are over. Nothing here decides, and nothing waits.
//!
//! Where nobody exports them no span begins: what is asked on the path of a call is whether there is a sink.

use std::borrow::Cow;
use std::time::{Duration, Instant, SystemTime};

use tidings_proto::{TraceContext, TraceParent};

/// Takes spans. It is told on the path of a call, so it must not wait for anything.
pub trait TelemetrySink: Send + Sync + 'static {
    /// Whether the spans of a trace are recorded here: of one that somebody else began, or of a new one with this id.
    fn samples(&self, parent: Option<&TraceParent>, trace: &[u8; 16]) -> bool;

    /// Whether traces are exported at all. Where only measures are, servers are told what the client told them.
    fn traces(&self) -> bool;

    /// A span is over. Also told of those that are not sampled: they are measured.
    fn ended(&self, span: EndedSpan);
}

/// What a span stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpanKind {
    /// Work of the gateway itself.
    Internal,
    /// A request of a client.
    Server,
    /// A request to a server.
    Client,
    /// A notification to a client.
    Producer,
    /// A notification of a server.
    Consumer,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SpanValue {
    /// A text.
    Text(Cow<'static, str>),
    /// A number.
    Number(i64),
}

impl From<&'static str> for SpanValue {
    fn from(text: &'static str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for SpanValue {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

/// Attributes by their names.
pub type SpanAttributes = Vec<(&'static str, SpanValue)>;

/// A span that is over. Its texts are bounded.
#[derive(Clone, Debug)]
pub struct EndedSpan {
    /// What it stands for.
    pub kind: SpanKind,
    /// What it is called.
    pub name: Cow<'static, str>,
    /// Which span it is, and of which trace.
    pub context: TraceContext,
    /// The span that it is a part of.
    pub parent: Option<[u8; 8]>,
    /// Other spans that it has to do with.
    pub links: Vec<TraceParent>,
    /// When it began.
    pub began: SystemTime,
    /// How long it took.
    pub took: Duration,
    /// What is said of it. Neither arguments nor results.
    pub attributes: SpanAttributes,
    /// In a word how it failed, if it did.
    pub error: Option<Cow<'static, str>>,
}

/// How long the texts of attributes are at most: clients and servers choose them.
pub(crate) const LONGEST_VALUE: usize = 256;

/// The beginning of a text that others chose.
pub(crate) fn bounded(text: &str) -> String {
    text[..text.floor_char_boundary(LONGEST_VALUE)].to_owned()
}

/// A span that has begun.
pub(crate) struct OpenSpan {
    pub(crate) context: TraceContext,
    parent: Option<[u8; 8]>,
    began: (SystemTime, Instant),
}

impl OpenSpan {
    /// A span within another one, or the first of a new trace.
    pub(crate) fn begin(sink: &dyn TelemetrySink, parent: Option<&TraceContext>) -> Self {
        Self::begin_at(sink, parent, (SystemTime::now(), Instant::now()))
    }

    fn begin_at(sink: &dyn TelemetrySink, parent: Option<&TraceContext>, began: (SystemTime, Instant)) -> Self {
        let trace = parent.map_or_else(random, |parent| parent.parent.trace);
        let sampled = sink.samples(parent.map(|parent| &parent.parent), &trace);
        let state = parent.and_then(|parent| parent.state.clone());
        let context = TraceContext { parent: TraceParent { trace, span: random(), sampled }, state };
        Self { context, parent: parent.map(|parent| parent.parent.span), began }
    }

    /// The same, within another one than it was thought to be.
    pub(crate) fn within(&self, sink: &dyn TelemetrySink, parent: &TraceContext) -> Self {
        Self::begin_at(sink, Some(parent), self.began)
    }

    /// Whether it is a part of this span.
    pub(crate) fn is_within(&self, parent: &TraceParent) -> bool {
        self.parent == Some(parent.span) && self.context.parent.trace == parent.trace
    }

    /// A part of this span.
    pub(crate) fn part(&self) -> Self {
        let parent = TraceParent { span: random(), ..self.context.parent };
        let context = TraceContext { parent, state: self.context.state.clone() };
        Self { context, parent: Some(self.context.parent.span), began: (SystemTime::now(), Instant::now()) }
    }

    /// It is over.
    pub(crate) fn end(
        self,
        kind: SpanKind,
        name: impl Into<Cow<'static, str>>,
        attributes: SpanAttributes,
    ) -> EndedSpan {
        EndedSpan {
            kind,
            name: name.into(),
            context: self.context,
            parent: self.parent,
            links: Vec::new(),
            began: self.began.0,
            took: self.began.1.elapsed(),
            attributes,
            error: None,
        }
    }
}

/// Never all zero, which would be no id.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // Without a source of randomness there is no trace worth having, and nothing else is hurt by equal ids.
    if getrandom::fill(&mut bytes).is_err() || bytes == [0; N] {
        bytes[N - 1] = 1;
    }
    bytes
}
