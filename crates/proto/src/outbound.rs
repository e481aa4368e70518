//! A client's request on its way to a server: our id and token, the server's own names, the server's era.

use bytes::Bytes;
use tidings_wire::{ByteSpan, Frame, ObjectEdit, Patch, encode_string, is_object, members, string_at};

use crate::{Era, LocalName, LogLevel, Method, Revision, TraceContext, extensions, meta};

/// Who asks, as far as the server is told.
#[derive(Clone, Copy, Debug)]
pub struct RequestingClient<'a> {
    /// The era in which the client wrote the request.
    pub era: Era,
    /// The client's `clientInfo`, raw (legacy clients; modern ones say it in each request).
    pub info: Option<&'a [u8]>,
    /// Capabilities to declare for a legacy client on a modern link, raw.
    pub capabilities: &'a [u8],
    /// The session's log level (legacy).
    pub log_level: Option<LogLevel>,
    /// Whether the server is the only one, so that everything the client declares is meant for it.
    pub alone: bool,
}

/// Where the request goes.
#[derive(Clone, Copy, Debug)]
pub struct RequestDestination {
    /// The revision of the link that carries it, which decides what `_meta` has to hold.
    pub revision: Revision,
    /// The request id upstream, which is the progress token too.
    pub id: u64,
}

/// What the request names, on the server's side.
#[derive(Clone, Debug)]
pub struct RequestTarget {
    /// Which member of the params (or of their `ref`) names it; empty when the request names nothing that we know.
    pub member: &'static str,
    /// Whether that member is inside `ref`.
    pub in_ref: bool,
    /// What the server calls it.
    pub local: LocalName,
}

impl RequestTarget {
    /// For a request that names nothing that the gateway knows.
    pub fn nothing() -> Self {
        Self { member: "", in_ref: false, local: LocalName::default() }
    }
}

/// What becomes of something that a request carries from one round of a call, or one page of a list, to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StateChange<'a> {
    /// It stays as the client wrote it.
    #[default]
    Keep,
    /// The server gave none, so the member goes.
    Remove,
    /// The server's own in the place of the client's.
    Set(&'a str),
}

/// What becomes of the wish to have a call run as a task (2025-11-25).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskChange {
    /// The server was not told of tasks, and runs the call in the ordinary way.
    #[default]
    Remove,
    /// It stays as the client wrote it.
    Keep,
    /// The client wrote none, and the server has it no other way.
    Set,
}

/// What a server gets in the place of what the client wrote.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestChanges<'a> {
    /// The server's own state.
    pub state: StateChange<'a>,
    /// The server's own place in a list that several servers have parts of.
    pub cursor: StateChange<'a>,
    /// Answers to what the server asked, by its keys: a raw object. `None` leaves the client's own.
    pub responses: Option<&'a [u8]>,
    /// Whether the call becomes a task.
    pub task: TaskChange,
    /// The span that the request belongs to, in the place of the client's. `None` leaves what the client wrote.
    pub trace: Option<&'a TraceContext>,
}

/// The request as the server gets it.
pub fn translate(
    frame: &Frame,
    method: Method,
    target: Option<&RequestTarget>,
    requester: &RequestingClient<'_>,
    destination: RequestDestination,
    changes: RequestChanges<'_>,
) -> Bytes {
    let bytes = frame.bytes();
    let mut patch = Patch::new();
    if let Some(span) = frame.id_span() {
        // The client's id may be used by another client at the same time; ours is unique in the process.
        patch.replace(span, destination.id.to_string());
    }
    match frame.params().filter(|span| is_object(bytes, *span)) {
        Some(params) => {
            let mut edit = frame.edit(params);
            if let Some(target) = target.filter(|target| !target.member.is_empty()) {
                edit_target(bytes, &mut edit, target, &mut patch);
            }
            edit_params(&mut edit, method, requester, destination, changes);
            edit_meta(frame, &mut edit, requester, destination, changes.trace, &mut patch);
            edit.finish(&mut patch);
        }
        // Behind the id, which every request has: there a member goes in with a comma before it. Params that are no object stay.
        None if frame.params().is_none() => {
            if let Some(meta) = new_meta(requester, destination.revision, changes.trace) {
                let at = frame.id_span().map_or(1, |span| span.end);
                patch.insert(at, format!(r#","params":{{"_meta":{meta}}}"#));
            }
        }
        None => {}
    }
    patch.apply(bytes)
}

/// `set`, not a replaced span: of a repeated key only one may be left, or two readers could see two names.
fn edit_target(bytes: &[u8], params: &mut ObjectEdit<'_>, target: &RequestTarget, patch: &mut Patch) {
    let rename = |edit: &mut ObjectEdit<'_>| {
        let current = edit.get(target.member).and_then(|at| string_at(bytes, at));
        // An edit copies the message; where the names are equal there is nothing to copy for.
        if current.as_deref() != Some(target.local.as_str()) {
            edit.set(target.member, encode_string(target.local.as_str()));
        }
    };
    match params.get("ref").filter(|_| target.in_ref) {
        Some(span) => {
            let mut reference = ObjectEdit::new(bytes, span);
            rename(&mut reference);
            reference.finish(patch);
        }
        None => rename(params),
    }
}

fn edit_params(
    edit: &mut ObjectEdit<'_>,
    method: Method,
    requester: &RequestingClient<'_>,
    destination: RequestDestination,
    changes: RequestChanges<'_>,
) {
    match changes.task {
        TaskChange::Remove => {
            edit.remove("task");
        }
        TaskChange::Keep => {}
        TaskChange::Set => {
            edit.set("task", "{}");
        }
    }
    match changes.cursor {
        StateChange::Keep => {}
        StateChange::Remove => {
            edit.remove("cursor");
        }
        StateChange::Set(cursor) => {
            edit.set("cursor", encode_string(cursor));
        }
    }
    // Strict servers of the older revisions refuse members that they do not know.
    if method == Method::Complete && !destination.revision.has_completion_context() {
        edit.remove("context");
    }
    if destination.revision.era() == Era::Legacy {
        if requester.era == Era::Modern {
            // They belong to a dialogue that the old era does not have.
            edit.remove("requestState").remove("inputResponses");
        }
        return;
    }
    match changes.state {
        StateChange::Keep => {}
        StateChange::Remove => {
            edit.remove("requestState");
        }
        StateChange::Set(state) => {
            edit.set("requestState", encode_string(state));
        }
    }
    if let Some(responses) = changes.responses {
        edit.set("inputResponses", Bytes::copy_from_slice(responses));
    }
}

fn edit_meta(
    frame: &Frame,
    params: &mut ObjectEdit<'_>,
    requester: &RequestingClient<'_>,
    destination: RequestDestination,
    trace: Option<&TraceContext>,
    patch: &mut Patch,
) {
    let bytes = frame.bytes();
    let Some(span) = params.get("_meta").filter(|span| is_object(bytes, *span)) else {
        if let Some(meta) = new_meta(requester, destination.revision, trace) {
            params.set("_meta", meta);
        }
        return;
    };
    let mut edit = frame.edit(span);
    // Only where the client wants progress: a token that was not asked for would make servers send what nobody reads.
    if edit.get(meta::PROGRESS_TOKEN).is_some() {
        edit.set(meta::PROGRESS_TOKEN, destination.id.to_string());
    }
    match (requester.era, destination.revision.era()) {
        // With one server behind the gateway, what client and server agree on is their own business.
        (Era::Modern, Era::Modern) if requester.alone => {}
        (Era::Modern, Era::Modern) => strip_extensions(bytes, &edit, patch),
        // Reserved keys are those of the modern envelope; they mean nothing there.
        (_, Era::Legacy) => {
            edit.remove_where(|key| key.starts_with(meta::RESERVED));
        }
        (Era::Legacy, Era::Modern) => {
            edit.remove_where(|key| key.starts_with(meta::RESERVED));
            for (key, value) in authored_members(requester, destination.revision) {
                edit.set(key, value);
            }
        }
    }
    if let Some(trace) = trace {
        // A state of another trace than the parent's would be worse than none.
        edit.remove(meta::TRACE_STATE);
        for (key, value) in trace_members(trace) {
            edit.set(key, value);
        }
    }
    edit.finish(patch);
}

fn trace_members(trace: &TraceContext) -> impl Iterator<Item = (&'static str, String)> {
    let state = trace.state.as_deref().map(|state| (meta::TRACE_STATE, encode_string(state)));
    [(meta::TRACE_PARENT, encode_string(&trace.parent.to_string()))].into_iter().chain(state)
}

/// The `_meta` of a request that came without: a modern server needs one in every request.
fn new_meta(requester: &RequestingClient<'_>, revision: Revision, trace: Option<&TraceContext>) -> Option<String> {
    let traced = trace.into_iter().flat_map(trace_members).map(|(key, value)| (key, Bytes::from(value)));
    let members: Vec<_> = match revision.era() {
        Era::Modern => authored_members(requester, revision).into_iter().chain(traced).collect(),
        Era::Legacy => traced.collect(),
    };
    (!members.is_empty()).then(|| object(members))
}

/// Among several servers an extension counts only when both ends and the gateway have it.
fn strip_extensions(bytes: &[u8], meta: &ObjectEdit<'_>, patch: &mut Patch) {
    let Some(span) = meta.get(meta::CLIENT_CAPABILITIES) else { return };
    let mut capabilities = ObjectEdit::new(bytes, span);
    // What is experimental between this client and one server would be heard by all of them.
    capabilities.remove("experimental");
    let carried = |id: &str| extensions::is_carried(id, Era::Modern);
    // An empty `extensions` says the same as none, so the member goes as a whole.
    let any = |at: &ByteSpan| members(bytes, *at).any(|member| member.key.text(bytes).is_some_and(|id| carried(&id)));
    match capabilities.get("extensions").filter(|at| is_object(bytes, *at)).filter(any) {
        Some(at) => {
            let mut extensions = ObjectEdit::new(bytes, at);
            extensions.remove_where(|id| !carried(id));
            extensions.finish(patch);
        }
        None => {
            capabilities.remove("extensions");
        }
    }
    capabilities.finish(patch);
}

fn authored_members(requester: &RequestingClient<'_>, revision: Revision) -> Vec<(&'static str, Bytes)> {
    let mut members = vec![
        (meta::PROTOCOL_VERSION, Bytes::from(encode_string(revision.as_str()))),
        (meta::CLIENT_CAPABILITIES, Bytes::copy_from_slice(requester.capabilities)),
    ];
    if let Some(info) = requester.info {
        members.push((meta::CLIENT_INFO, Bytes::copy_from_slice(info)));
    }
    if let Some(level) = requester.log_level {
        members.push((meta::LOG_LEVEL, Bytes::from(encode_string(level.as_str()))));
    }
    members
}

/// An object of raw members.
fn object(members: Vec<(&'static str, Bytes)>) -> String {
    let members: Vec<String> = members
        .into_iter()
        // Values are JSON that was read before or is made here, so nothing is lost by the conversion.
        .map(|(key, value)| format!("{}:{}", encode_string(key), String::from_utf8_lossy(&value)))
        .collect();
    format!("{{{}}}", members.join(","))
}
