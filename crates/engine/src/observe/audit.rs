//! What is told of calls and decisions to whoever keeps an audit log. Nothing here decides, and nothing waits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidings_proto::Method;
use tidings_wire::{Digest, Frame};

use crate::observe::call_meters::CallMeter;

/// Keeps who did what. It is told on the path of a call, so it must not wait for anything.
pub trait AuditTrail: Send + Sync + 'static {
    /// A call is over.
    fn call(&self, call: AuditedCall<'_>);

    /// Something else that somebody may have to answer for. Never on the path of a call.
    fn decision(&self, decision: AuditedDecision);

    /// Whether the arguments themselves are kept, too.
    fn keeps_arguments(&self) -> bool;
}

/// How long the name and what a client says of itself are at most in an [`AuditedCall`]. Clients choose both, and whatever waits to be
/// recorded takes the place of what others did.
pub const LONGEST_TEXT: usize = 1 << 10;
/// How long arguments are at most to be kept.
const LONGEST_ARGUMENTS: usize = 64 << 10;

/// A call that is over. Its texts are bounded, so that none is too large to be recorded.
#[derive(Clone, Debug)]
pub struct AuditedCall<'a> {
    /// When it was over.
    pub ended: Instant,
    /// How long it took.
    pub took: Duration,
    /// Who called.
    pub principal: &'a str,
    /// What the client says of itself, as raw JSON, or the beginning of it.
    pub client: Option<&'a [u8]>,
    /// How long that was, if it was cut.
    pub client_cut: Option<usize>,
    /// What was asked for: `tools/call`, `prompts/get` or `resources/read`.
    pub method: Method,
    /// The configured name of the server; none if the call did not get that far.
    pub server: Option<&'a str>,
    /// The tool, prompt or resource, as the client named it, or the beginning of it.
    pub name: &'a str,
    /// The hash of the whole name and its length, if it was cut: what was asked for can not be hidden behind a long beginning.
    pub name_cut: Option<(Digest, usize)>,
    /// The hash of the arguments' bytes, and how many there are.
    pub arguments: Option<(Digest, usize)>,
    /// The arguments themselves, where they are kept.
    pub kept_arguments: Option<KeptArguments<'a>>,
    /// The rule that would have kept it, if the rules were not only tried.
    pub would_deny: Option<&'a str>,
    /// How it ended.
    pub outcome: CallOutcome,
}

/// What is kept of arguments, besides their hash.
#[derive(Clone, Copy, Debug)]
pub enum KeptArguments<'a> {
    /// All of them.
    Whole(&'a [u8]),
    /// Nothing: there are too many.
    TooLong,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// With a result of this many bytes.
    Answered(usize),
    /// With an error of this code.
    Refused(i64),
    /// The client cancelled it.
    Cancelled,
    /// The client went away.
    Abandoned,
}

/// What is recorded besides calls.
#[derive(Clone, Debug)]
pub enum AuditedDecision {
    /// The set of servers was changed: these came or were replaced, these went.
    Servers {
        /// The names of servers that are there now in a new form.
        put: Vec<String>,
        /// The names of servers that are there no longer.
        removed: Vec<String>,
    },
    /// Definitions were approved or rejected.
    Approval {
        /// Whether they are let through.
        approved: bool,
        /// Whether it is not known if that came to hold: the bus of a cluster did not answer.
        is_unanswered: bool,
        /// The server whose definitions they are.
        server: String,
        /// What the server calls them.
        names: Vec<String>,
    },
    /// Other rules hold, or are tried, or none.
    Policy {
        /// How many there are; `None` where there is no policy any more.
        rules: Option<usize>,
        /// Whether they hold.
        enforced: bool,
    },
    /// Somebody used the API to change something, and this came of it.
    Administration {
        /// Whose token it was.
        principal: String,
        /// The method and path of the request.
        request: String,
        /// The status of the answer.
        status: u16,
    },
    /// Somebody was not let in.
    Refused {
        /// The address that the request came from.
        peer: Option<std::net::IpAddr>,
        /// The path that was asked for.
        path: String,
        /// The status of the answer: 401 without a token that is known, 403 otherwise.
        status: u16,
    },
}

/// What a call leaves behind while it runs.
pub(crate) struct CallTrace {
    started: Instant,
    pub(crate) server: Option<Arc<str>>,
    pub(crate) would_deny: Option<Box<str>>,
    /// What it counts for, once its server is known.
    pub(crate) meter: Option<Arc<CallMeter>>,
}

impl CallTrace {
    /// The trace of a request, if it is of a kind that is counted and recorded.
    pub(crate) fn begin(method: Method) -> Option<Self> {
        let recorded = matches!(method, Method::ToolsCall | Method::PromptsGet | Method::ResourcesRead);
        recorded.then(|| Self { started: Instant::now(), server: None, would_deny: None, meter: None })
    }

    /// The call is over: counts it, and says when that was.
    pub(crate) fn over(&self, outcome: CallOutcome) -> Instant {
        let ended = Instant::now();
        if let Some(meter) = &self.meter {
            meter.ended(ended.saturating_duration_since(self.started), outcome);
        }
        ended
    }

    /// Tells of the call. `client` is what a session said of itself; a modern request says it anew.
    pub(crate) fn end(
        self,
        trail: &dyn AuditTrail,
        principal: &str,
        client: Option<&[u8]>,
        (frame, method): (&Frame, Method),
        (outcome, ended): (CallOutcome, Instant),
    ) {
        let member = if method == Method::ResourcesRead { "uri" } else { "name" };
        let said = || frame.param(&["_meta", tidings_proto::meta::CLIENT_INFO]).map(|at| frame.raw(at));
        let arguments = frame.param(&["arguments"]).map(|at| frame.raw(at));
        let client = client.or_else(said);
        let name = frame.param_str(&[member]).unwrap_or_default();
        let shown = &name[..name.floor_char_boundary(LONGEST_TEXT)];
        let is_cut = shown.len() < name.len();
        let keep = |raw| match <[u8]>::len(raw) <= LONGEST_ARGUMENTS {
            true => KeptArguments::Whole(raw),
            false => KeptArguments::TooLong,
        };
        trail.call(AuditedCall {
            ended,
            took: ended.saturating_duration_since(self.started),
            principal,
            client: client.map(|said| &said[..said.len().min(LONGEST_TEXT)]),
            client_cut: client.map(<[u8]>::len).filter(|length| *length > LONGEST_TEXT),
            method,
            server: self.server.as_deref(),
            name: shown,
            name_cut: is_cut.then(|| (Digest::of_bytes(name.as_bytes()), name.len())),
            arguments: arguments.map(|raw| (Digest::of_bytes(raw), raw.len())),
            kept_arguments: arguments.filter(|_| trail.keeps_arguments()).map(keep),
            would_deny: self.would_deny.as_deref(),
            outcome,
        });
    }
}
