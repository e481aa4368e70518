//! The spans of one request: what its client asked of the gateway, and in it what the gateway asked of the server. Named and described by
//! the conventions of OpenTelemetry for MCP.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use tidings_proto::{Method, Revision, TaskMethod, TraceContext, TraceParent, meta, task};
use tidings_upstream::LinkError;
use tidings_wire::{Frame, FrameKind, FrameLimits, Payload, RawId};

use crate::observe::audit::CallOutcome;
use crate::observe::telemetry::{OpenSpan, SpanAttributes, SpanKind, SpanValue, TelemetrySink, bounded};

/// A method that the gateway does not know, whose name anybody may choose.
const OTHER: &str = "_OTHER";
/// What a tool says with `isError`.
const TOOL_ERROR: &str = "tool_error";

/// How a request came or went, in the words of the conventions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpanTransport {
    Pipe,
    Tcp,
}

impl SpanTransport {
    /// By what a plan says of its server; what is in the process has none.
    pub(crate) fn of_server(transport: &str) -> Option<Self> {
        match transport {
            "stdio" | "container" => Some(Self::Pipe),
            "http" | "sse" => Some(Self::Tcp),
            _ => None,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Pipe => "pipe",
            Self::Tcp => "tcp",
        }
    }
}

/// A request of a client, from its arrival to its answer.
pub(crate) struct RequestSpan {
    sink: Arc<dyn TelemetrySink>,
    open: OpenSpan,
    /// Whether its message says which span it belongs to.
    is_told: bool,
    links: Vec<TraceParent>,
    subject: RequestSubject,
    id: RawId,
    transport: Option<SpanTransport>,
    /// Where it went.
    server: Option<Arc<str>>,
    /// Whether what it names is something that a server lists.
    is_known: bool,
    sent: Option<SentRequest>,
    /// Whether the tool failed, by the last answer of a server.
    failed: Option<bool>,
}

/// What a request is about.
struct RequestSubject {
    method: Method,
    /// The tool, prompt or resource.
    name: Option<String>,
}

/// The same request on its way to a server.
struct SentRequest {
    open: OpenSpan,
    method: Method,
    name: Cow<'static, str>,
    attributes: SpanAttributes,
}

/// Where the requests of a look at a server's lists belong.
pub(crate) struct ListTrace<'a> {
    pub(crate) sink: &'a dyn TelemetrySink,
    /// The look.
    pub(crate) within: Option<&'a TraceContext>,
    pub(crate) transport: Option<SpanTransport>,
}

/// A request for a page of a list, which the gateway makes by itself.
pub(crate) struct ListRequestSpan<'a> {
    trace: &'a ListTrace<'a>,
    open: OpenSpan,
    attributes: SpanAttributes,
    method: Method,
}

impl ListTrace<'_> {
    pub(crate) fn begin(&self, server: &str, revision: Revision, method: Method, id: u64) -> ListRequestSpan<'_> {
        let mut attributes = described(method, None);
        attributes.push(("tidings.server", server.to_owned().into()));
        attributes.push(("mcp.protocol.version", revision.as_str().into()));
        attributes.push(("jsonrpc.request.id", id.to_string().into()));
        attributes.extend(self.transport.map(|transport| ("network.transport", transport.as_str().into())));
        ListRequestSpan { trace: self, open: OpenSpan::begin(self.sink, self.within), attributes, method }
    }
}

impl ListRequestSpan<'_> {
    /// The span that the server is told, if it is.
    pub(crate) fn context(&self) -> Option<Box<TraceContext>> {
        self.trace.sink.traces().then(|| Box::new(self.open.context.clone()))
    }

    /// `None`: it was waited for long enough.
    pub(crate) fn end(mut self, answer: Option<&Result<Frame, LinkError>>) {
        let error: Option<Cow<'static, str>> = match answer {
            None => Some("timeout".into()),
            Some(Err(error)) => Some(word_for(error).into()),
            Some(Ok(frame)) if frame.kind() == FrameKind::Error => {
                let code = error_code(frame);
                self.attributes.push(("rpc.response.status_code", code.clone().into()));
                Some(code.into())
            }
            Some(Ok(_)) => None,
        };
        let mut ended = self.open.end(SpanKind::Client, method_name(self.method), self.attributes);
        ended.error = error;
        self.trace.sink.ended(ended);
    }
}

/// The code of an error: a number, or it is not told. What stands there is the server's to choose.
fn error_code(frame: &Frame) -> String {
    let code = frame.outcome().and_then(|at| frame.get(at, "code"));
    let code = code.and_then(|at| std::str::from_utf8(frame.raw(at)).ok()?.parse::<i64>().ok());
    code.map_or_else(|| OTHER.to_owned(), |code| code.to_string())
}

/// Who asks, as far as it is told.
pub(crate) struct SpanAsker {
    pub(crate) revision: Revision,
    /// The number of the session, as people are shown it. Not the id that its client sends, which is a key.
    pub(crate) session: Option<u64>,
}

/// A request that is about to be sent.
pub(crate) struct SpanDestination<'a> {
    pub(crate) server: &'a Arc<str>,
    pub(crate) transport: Option<SpanTransport>,
    pub(crate) revision: Revision,
    pub(crate) method: Method,
    /// What the server calls what is asked for.
    pub(crate) name: &'a str,
    /// Whether the server lists it: what only a client says is told to nobody.
    pub(crate) is_listed: bool,
    pub(crate) id: u64,
}

impl RequestSubject {
    fn method_name(&self) -> &'static str {
        method_name(self.method)
    }

    fn attributes(&self) -> SpanAttributes {
        described(self.method, self.name.as_deref())
    }
}

fn method_name(method: Method) -> &'static str {
    if method == Method::Other { OTHER } else { method.as_str() }
}

fn span_name(method: Method, name: Option<&str>) -> Cow<'static, str> {
    // A URI is not part of a name: there are too many of them.
    let name = name.filter(|_| matches!(method, Method::ToolsCall | Method::PromptsGet));
    match name {
        Some(name) => Cow::Owned(format!("{} {name}", method_name(method))),
        None => Cow::Borrowed(method_name(method)),
    }
}

fn described(method: Method, name: Option<&str>) -> SpanAttributes {
    let mut attributes: SpanAttributes = vec![("mcp.method.name", method_name(method).into())];
    if method == Method::ToolsCall {
        attributes.push(("gen_ai.operation.name", "execute_tool".into()));
    }
    let key = match method {
        Method::ToolsCall => Some("gen_ai.tool.name"),
        Method::PromptsGet => Some("gen_ai.prompt.name"),
        Method::ResourcesRead | Method::ResourcesSubscribe | Method::ResourcesUnsubscribe => Some("mcp.resource.uri"),
        _ => None,
    };
    if let (Some(key), Some(name)) = (key, name) {
        attributes.push((key, name.to_owned().into()));
    }
    attributes
}

impl RequestSpan {
    /// Begins with the arrival of a request.
    pub(crate) fn begin(sink: &Arc<dyn TelemetrySink>, frame: &Frame, method: Method, id: &RawId) -> Box<Self> {
        let text = |key| frame.param_str(&["_meta", key]);
        let (parent, state) = (text(meta::TRACE_PARENT), text(meta::TRACE_STATE));
        let told = TraceContext::read(parent.as_deref(), state.as_deref());
        let member = match method {
            Method::ToolsCall | Method::PromptsGet => Some("name"),
            Method::ResourcesRead | Method::ResourcesSubscribe | Method::ResourcesUnsubscribe => Some("uri"),
            _ => None,
        };
        let name = member.and_then(|member| frame.param_str(&[member])).map(|name| bounded(&name));
        Box::new(Self {
            sink: Arc::clone(sink),
            open: OpenSpan::begin(&**sink, told.as_ref()),
            is_told: told.is_some(),
            links: Vec::new(),
            subject: RequestSubject { method, name },
            id: id.clone(),
            transport: None,
            server: None,
            is_known: false,
            sent: None,
            failed: None,
        })
    }

    pub(crate) fn came_over(&mut self, transport: SpanTransport) {
        self.transport = Some(transport);
    }

    /// The HTTP request that brought it belongs to this span. What its message says goes first: then this is only linked.
    pub(crate) fn came_with(&mut self, header: &TraceContext) {
        if !self.is_told {
            self.open = self.open.within(&*self.sink, header);
        } else if !self.open.is_within(&header.parent) {
            self.links.push(header.parent);
        }
    }

    /// It is sent to a server, perhaps once more. Gives the span that the server is told, if it is.
    pub(crate) fn send(&mut self, to: &SpanDestination<'_>) -> Option<TraceContext> {
        // Its server asked something, named another tool or refused it unread, and now there is another round.
        self.server_done(None);
        let open = self.open.part();
        let context = open.context.clone();
        let name = (!to.name.is_empty()).then(|| bounded(to.name));
        let is_chosen = !to.is_listed && matches!(to.method, Method::ToolsCall | Method::PromptsGet);
        let name = name.filter(|_| !is_chosen);
        self.is_known |= !is_chosen;
        let mut attributes = described(to.method, name.as_deref());
        attributes.push(("tidings.server", to.server.to_string().into()));
        attributes.push(("mcp.protocol.version", to.revision.as_str().into()));
        attributes.push(("jsonrpc.request.id", to.id.to_string().into()));
        attributes.extend(to.transport.map(|transport| ("network.transport", transport.as_str().into())));
        self.server = Some(Arc::clone(to.server));
        self.failed = None;
        self.sent =
            Some(SentRequest { open, method: to.method, name: span_name(to.method, name.as_deref()), attributes });
        self.sink.traces().then_some(context)
    }

    /// The server has answered.
    pub(crate) fn server_said(&mut self, frame: &Frame) {
        let Some(method) = self.sent.as_ref().map(|sent| sent.method) else { return };
        let outcome = frame.outcome();
        if frame.kind() == FrameKind::Error {
            let code = error_code(frame);
            if let Some(sent) = &mut self.sent {
                sent.attributes.push(("rpc.response.status_code", code.clone().into()));
            }
            return self.server_done(Some(code.into()));
        }
        let is_call = matches!(method, Method::ToolsCall | Method::Task(TaskMethod::Result));
        let failed = is_call && outcome.is_some_and(|at| task::is_failure(frame.bytes(), at));
        self.failed = Some(failed);
        self.server_done(failed.then_some(Cow::Borrowed(TOOL_ERROR)));
    }

    /// There will be no answer of the server.
    pub(crate) fn server_failed(&mut self, error: &LinkError) {
        self.server_done(Some(Cow::Borrowed(word_for(error))));
    }

    /// It was waited for long enough.
    pub(crate) fn timed_out(&mut self) {
        self.server_done(Some(Cow::Borrowed("timeout")));
    }

    /// The server has no part in it any more, or for now.
    pub(crate) fn server_done(&mut self, error: Option<Cow<'static, str>>) {
        let Some(SentRequest { open, name, attributes, .. }) = self.sent.take() else { return };
        let mut ended = open.end(SpanKind::Client, name, attributes);
        ended.error = error;
        self.sink.ended(ended);
    }

    /// The request is over. `answer`: a result that may not be the word of a server.
    pub(crate) fn end(mut self: Box<Self>, asker: &SpanAsker, outcome: CallOutcome, answer: Option<&Payload>) {
        let error: Option<Cow<'static, str>> = match outcome {
            CallOutcome::Refused(code) => Some(code.to_string().into()),
            CallOutcome::Cancelled => Some("cancelled".into()),
            CallOutcome::Abandoned => Some("client_gone".into()),
            CallOutcome::Answered(_) if self.subject.method == Method::ToolsCall => {
                let failed =
                    self.failed.unwrap_or_else(|| answer.is_some_and(|answer| says_failure(answer.to_bytes())));
                failed.then_some(TOOL_ERROR.into())
            }
            CallOutcome::Answered(_) => None,
        };
        // What its server still works on is not waited for any more.
        let is_given_up = matches!(outcome, CallOutcome::Cancelled | CallOutcome::Abandoned);
        self.server_done(error.clone().filter(|_| is_given_up));
        // A name that nobody has is anybody's choice: it would be a series of its own.
        let known = self.is_known;
        let name = if known {
            span_name(self.subject.method, self.subject.name.as_deref())
        } else {
            self.subject.method_name().into()
        };
        let mut attributes = self.subject.attributes();
        if !known {
            attributes.retain(|(key, _)| !matches!(*key, "gen_ai.tool.name" | "gen_ai.prompt.name"));
        }
        attributes.extend(self.server.as_ref().map(|server| ("tidings.server", server.to_string().into())));
        attributes.push(("mcp.protocol.version", asker.revision.as_str().into()));
        attributes.extend(asker.session.map(|session| ("mcp.session.id", SpanValue::from(session.to_string()))));
        attributes.push(("jsonrpc.request.id", bounded(self.id.as_str().trim_matches('"')).into()));
        attributes.extend(self.transport.map(|transport| ("network.transport", transport.as_str().into())));
        if let CallOutcome::Refused(code) = outcome {
            attributes.push(("rpc.response.status_code", code.to_string().into()));
        }
        let mut ended = self.open.end(SpanKind::Server, name, attributes);
        (ended.links, ended.error) = (self.links, error);
        self.sink.ended(ended);
    }
}

/// Whether a result that the gateway itself wrote says that the tool has failed.
fn says_failure(answer: Bytes) -> bool {
    let frame = Frame::parse(answer, &FrameLimits::default()).ok();
    frame.is_some_and(|frame| frame.outcome().is_some_and(|at| task::is_failure(frame.bytes(), at)))
}

/// One word of a few for what went wrong with a link.
fn word_for(error: &LinkError) -> &'static str {
    match error.cause() {
        LinkError::Unreachable(_) => "unreachable",
        LinkError::Spawn { .. } | LinkError::Exited { .. } => "exited",
        LinkError::Broken(_) | LinkError::Lost | LinkError::AnswerLost(_) => "connection_lost",
        LinkError::Status { .. } | LinkError::SessionRefused(_) | LinkError::WrongEra(_) => "refused",
        LinkError::Unauthorized(_)
        | LinkError::NeedsLogin(_)
        | LinkError::NeedsMore(_)
        | LinkError::LoginUnavailable(_) => "unauthorized",
        LinkError::HandshakeTimeout(_) | LinkError::Silent(_) => "timeout",
        LinkError::Stopped => "stopped",
        _ => OTHER,
    }
}
