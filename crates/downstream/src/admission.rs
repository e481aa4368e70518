//! Admission: whether a message of a client is let in, and as what. Era, version, method, log level and limits are decided
//! here and nowhere else, for HTTP, stdio and batches alike.
//!
//! The transports bring what only they know (headers, whether there is a session) and give each decision its form: a status
//! over HTTP, a line on stdio. Who the client is was decided before (`auth.rs`); where a request goes is decided later, by
//! the engine.

mod body;

use http::header::{HeaderMap, HeaderName};
use tidings_engine::{Caller, Gateway, Principal, RoutedTool, Session};
use tidings_hub::ClientKey;
use tidings_proto::meta::{MetaFault, ModernMeta};
use tidings_proto::refusal::RequestRefusal;
use tidings_proto::{Era, LogLevel, Method, Revision, headers};
use tidings_wire::{Frame, FrameKind};

pub(crate) use body::{BodyFault, BodyLimits, read_body};

/// Bounds on one message of a client.
// The bounds of what servers send are the same, so that what is let in on one side fits on the other.
pub const LIMITS: tidings_wire::FrameLimits =
    tidings_wire::FrameLimits { max_bytes: 64 << 20, max_depth: 256, max_batch: 256 };

pub(crate) const VERSION: HeaderName = HeaderName::from_static(headers::PROTOCOL_VERSION);
/// Says that a request was read from the standard input of `tidings stdio --attach`, where messages have no headers.
pub const RELAYED: HeaderName = HeaderName::from_static("tidings-relayed");
pub(crate) const METHOD: HeaderName = HeaderName::from_static(headers::METHOD);
const NAME: HeaderName = HeaderName::from_static(headers::NAME);

/// What a message is taken for.
pub(crate) enum MessageClass {
    /// It claims to be modern; what it says about itself may still be faulty.
    Modern(Result<ModernMeta, MetaFault>),
    /// It begins a session.
    Initialize,
    /// It belongs to the session of its client.
    InSession,
    /// It has neither a session nor the modern `_meta`, but only a modern client would send it.
    HalfModern(MetaFault),
    /// Nothing tells what it belongs to.
    Homeless,
}

/// What the transport knows beside the message.
#[derive(Clone, Copy)]
pub(crate) struct TransportClaims {
    /// There is a session that it may belong to, or one is named.
    pub(crate) session: bool,
    /// The transport says that it is of the modern era.
    pub(crate) modern: bool,
}

/// Bridging rule 0.1: the `_meta` comes before `initialize`, and that before the session.
pub(crate) fn classify(frame: &Frame, claims: TransportClaims) -> MessageClass {
    let meta = ModernMeta::read(frame);
    let absence = match meta {
        Err(fault) if fault.is_absence() => fault,
        // Modern members are believed before anything else, also when they are faulty: the client meant that era.
        claimed => return MessageClass::Modern(claimed),
    };
    if frame.kind() == FrameKind::Request && frame.has_method(Method::Initialize.as_str()) {
        return MessageClass::Initialize;
    }
    // A session id with a modern version header is a mistake, and is answered as one.
    if claims.session && !claims.modern {
        return MessageClass::InSession;
    }
    let only_modern = Method::parse(&frame.method()).is_some_and(|method| method.is_modern() && !method.is_legacy());
    if claims.modern || only_modern { MessageClass::HalfModern(absence) } else { MessageClass::Homeless }
}

/// A modern request that was let in.
pub(crate) struct AdmittedRequest {
    pub(crate) caller: Caller,
    pub(crate) method: Method,
    /// The tool that it names, where its headers had to be looked at: it need not be looked up again.
    pub(crate) tool: Option<RoutedTool>,
}

/// A modern request beside its message.
pub(crate) struct ModernRequest<'r> {
    pub(crate) principal: &'r Principal,
    /// The connection on which its id is unique, on stdio.
    pub(crate) connection: Option<ClientKey>,
    /// The headers that must say the same as the message, over HTTP.
    pub(crate) mirrors: Option<MirrorHeaders<'r>>,
}

/// The headers of a modern request.
#[derive(Clone, Copy)]
pub(crate) struct MirrorHeaders<'r> {
    pub(crate) all: &'r HeaderMap,
    /// The version, which was looked up already.
    pub(crate) version: Option<&'r str>,
}

/// Lets in a modern request. The order of the checks decides which error a request with several faults gets.
pub(crate) fn admit_modern(
    gateway: &Gateway,
    request: &ModernRequest<'_>,
    frame: &Frame,
    meta: Result<ModernMeta, MetaFault>,
) -> Result<AdmittedRequest, RequestRefusal> {
    let meta = meta.map_err(|fault| RequestRefusal::InvalidParams(fault.to_string()))?;
    if let Some(headers) = request.mirrors {
        // The version first: what the other headers have to say depends on it.
        mirrors_version(headers.version, &meta.version)?;
    }
    // After the header was compared: a client that contradicts itself is told that first.
    let Some(revision) = Revision::parse_modern(&meta.version) else {
        return Err(RequestRefusal::UnsupportedVersion(meta.version));
    };
    let name = frame.method();
    let method = Method::asked(&name, Era::Modern);
    if let Some(headers) = request.mirrors {
        mirrors(headers.all, &METHOD, "Mcp-Method", &name)?;
        if let Some(param) = method.and_then(Method::name_param) {
            let value = frame
                .param_str(&[param])
                .ok_or_else(|| RequestRefusal::InvalidParams(format!("params.{param} must be a string")))?;
            // Published clients of the extension leave it out where it would be a task; one that is there has to agree.
            if !matches!(method, Some(Method::Task(_))) || headers.all.contains_key(&NAME) {
                mirrors(headers.all, &NAME, "Mcp-Name", &value)?;
            }
        }
    }
    // Only now: the headers of unknown methods are compared too.
    let method = method.ok_or_else(|| RequestRefusal::UnknownMethod(name.into_owned()))?;
    // Needs the tool's definition, so it comes after everything that is decided without the catalogue.
    let profile = meta.client_info.and_then(|info| gateway.profile_of(frame.raw(info)));
    let mut tool = None;
    if let Some(headers) = request.mirrors.filter(|_| method == Method::ToolsCall) {
        tool = gateway.found_tool(request.principal, profile.as_ref(), frame);
        mirrors_params(tool.as_ref(), headers.all, frame)?;
    }
    let level = log_level(frame, &meta)?;
    let caller =
        gateway.modern_caller(request.connection, revision, request.principal, level, meta.capabilities, profile);
    Ok(AdmittedRequest { caller: Caller::Modern(caller), method, tool })
}

/// Lets in a request of a session: the method must be one of its era, and a session begins only once.
pub(crate) fn admit_legacy(frame: &Frame) -> Result<Method, RequestRefusal> {
    let name = frame.method();
    match Method::asked(&name, Era::Legacy) {
        Some(Method::Initialize) => Err(RequestRefusal::InvalidRequest("the session has begun already".into())),
        Some(method) => Ok(method),
        None => Err(RequestRefusal::UnknownMethod(name.into_owned())),
    }
}

/// Lets in one request of a batch.
pub(crate) fn admit_part(frame: &Frame) -> Result<Method, RequestRefusal> {
    admit_legacy(frame).map_err(|refusal| match refusal {
        RequestRefusal::InvalidRequest(_) => {
            RequestRefusal::InvalidRequest("initialize can not be part of a batch".into())
        }
        other => other,
    })
}

/// Lets in a batch: one revision has them.
pub(crate) fn admit_batch(session: Option<&Session>) -> Result<(), RequestRefusal> {
    if session.is_some_and(|session| session.revision().has_batches()) {
        return Ok(());
    }
    Err(RequestRefusal::InvalidRequest("only sessions of revision 2025-03-26 may send batches".into()))
}

/// Whether a version header is one that a session may have.
pub(crate) fn is_session_version(version: &str) -> bool {
    Revision::parse_legacy(version).is_some()
}

/// Whether a version header is that of the modern era, or of a later one: versions are dates.
pub(crate) fn is_modern_version(version: &str) -> bool {
    // Revisions are dates, so their text sorts by age: a client from the future is refused as modern, with the
    // versions that are supported.
    Revision::of_era(Era::Modern).any(|first| version >= first.as_str())
}

/// The log level a modern request asks for.
fn log_level(frame: &Frame, meta: &ModernMeta) -> Result<Option<LogLevel>, RequestRefusal> {
    let Some(span) = meta.log_level else { return Ok(None) };
    tidings_wire::string_at(frame.bytes(), span)
        .and_then(|level| LogLevel::parse(&level))
        .map(Some)
        .ok_or_else(|| RequestRefusal::InvalidParams("the log level in params._meta is unknown".into()))
}

fn mirrors_version(given: Option<&str>, version: &str) -> Result<(), RequestRefusal> {
    match given {
        None => Err(RequestRefusal::HeaderMismatch("MCP-Protocol-Version is missing".into())),
        Some(header) if header != version => {
            Err(RequestRefusal::HeaderMismatch(format!("MCP-Protocol-Version is {header}, the body says {version}")))
        }
        Some(_) => Ok(()),
    }
}

fn mirrors(given: &HeaderMap, name: &HeaderName, label: &str, body: &str) -> Result<(), RequestRefusal> {
    let Some(value) = given.get(name) else {
        return Err(RequestRefusal::HeaderMismatch(format!("{label} is missing")));
    };
    match headers::decode(value.as_bytes()) {
        Some(header) if header == body => Ok(()),
        Some(header) => Err(RequestRefusal::HeaderMismatch(format!("{label} is '{header}', the body says '{body}'"))),
        None => Err(RequestRefusal::HeaderMismatch(format!("{label} holds invalid characters"))),
    }
}

/// Tool parameters that the tool's schema mirrors into headers.
fn mirrors_params(tool: Option<&RoutedTool>, given: &HeaderMap, frame: &Frame) -> Result<(), RequestRefusal> {
    for param in tool.map(RoutedTool::headers).unwrap_or_default() {
        let label = format!("Mcp-Param-{}", param.name);
        let body = frame.param(&["arguments"]).and_then(|at| param.value(frame.bytes(), at));
        let header = match given.get(&label) {
            None => None,
            Some(value) => Some(
                headers::decode(value.as_bytes())
                    .ok_or_else(|| RequestRefusal::HeaderMismatch(format!("{label} holds invalid characters")))?,
            ),
        };
        match (header, body) {
            (None, None) => {}
            // Compared as values: a number may be written in another way in the header than in the body.
            (Some(header), Some(body)) if param.agrees(&header, &body) => {}
            (None, Some(_)) => return Err(RequestRefusal::HeaderMismatch(format!("{label} is missing"))),
            (Some(_), _) => return Err(RequestRefusal::HeaderMismatch(format!("{label} differs from the body"))),
        }
    }
    Ok(())
}
