//! Questions of servers (elicitation, sampling, roots) between the eras: who can be asked what, and the same question and
//! answer in the words of each side.
//!
//! A legacy server sends a request of its own; a modern one puts entries into an `input_required` result and gets the answers
//! with the retry. What belongs here is the wording only; whose turn it is to answer is decided in the hub.

use bytes::Bytes;
use serde_json::{Map, Value, json};
use tidings_wire::{
    ByteSpan, Frame, FrameKind, FrameLimits, ObjectEdit, Patch, RawId, check_outgoing, encode_string, error_response,
    get, get_path, is_object, request, response, string_at, validate,
};

use crate::{Era, Revision, code, extensions, meta};

/// A form, or a URL to visit.
pub const ELICIT: &str = "elicitation/create";
/// A message that the client's model is to write.
pub const SAMPLE: &str = "sampling/createMessage";
/// The folders that the client works on.
pub const ROOTS: &str = "roots/list";

/// The elicitation that nobody answered: not an error, because a server that gets one often fails the whole call.
pub const CANCEL: &[u8] = br#"{"action":"cancel"}"#;

/// What a client can be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// It shows forms.
    pub forms: bool,
    /// It sends its user to a URL.
    pub urls: bool,
    /// Its model writes messages.
    pub sampling: bool,
    /// Its model may use the tools that a request for a message brings.
    pub sampling_tools: bool,
    /// It tells its roots.
    pub roots: bool,
}

/// What a question needs of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// A form to be filled in.
    Form,
    /// A URL to be visited.
    Url,
    /// A message by the client's model.
    Sampling {
        /// Whether the model may use tools for it.
        tools: bool,
    },
    /// The client's roots.
    Roots,
    /// Nothing that the protocol knows.
    Other,
}

/// A question that can not be put to a client, by what it lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the client lacks {capability}")]
pub struct Unable {
    /// The capability, as a path of names.
    pub capability: &'static str,
}

const URLS: Unable = Unable { capability: "elicitation.url" };
const FORMS: Unable = Unable { capability: "elicitation.form" };
const SEVERAL: Unable = Unable { capability: "elicitation.form with a choice of several (2025-11-25)" };
const UNKNOWN: Unable = Unable { capability: "this kind of question" };

impl Unable {
    /// What the client would have to declare, as the modern error for it says.
    pub fn required(&self) -> Value {
        match self.capability {
            "elicitation.url" => json!({ "elicitation": { "url": {} } }),
            "sampling" => json!({ "sampling": {} }),
            "sampling.tools" => json!({ "sampling": { "tools": {} } }),
            "roots" => json!({ "roots": {} }),
            // The rest are forms, or what no capability stands for.
            _ => json!({ "elicitation": { "form": {} } }),
        }
    }
}

impl Needs {
    /// What a request of a server needs.
    pub fn of(method: &str, params: Option<&[u8]>) -> Self {
        let raw = params.unwrap_or_default();
        // What is no JSON has no members; whoever reads it later refuses it.
        let span = validate(raw, 1_024).ok();
        let member = |name: &str| span.and_then(|span| get(raw, span, name));
        match method {
            ELICIT if member("mode").is_some_and(|at| at.of(raw) == b"\"url\"") => Self::Url,
            ELICIT => Self::Form,
            SAMPLE => Self::Sampling { tools: member("tools").is_some() || member("toolChoice").is_some() },
            ROOTS => Self::Roots,
            _ => Self::Other,
        }
    }

    /// The same for a whole message.
    pub fn of_frame(frame: &Frame) -> Self {
        Self::of(&frame.method(), frame.params().map(|at| frame.raw(at)))
    }
}

impl Abilities {
    /// What a client of this revision declares that is meant by that revision.
    pub fn read(capabilities: &Value, revision: Revision) -> Self {
        let declared = |name: &str| capabilities.get(name).filter(|value| value.is_object());
        let elicitation = declared("elicitation").filter(|_| revision.has_elicitation());
        let has = |group: Option<&Value>, name: &str| {
            group.is_some_and(|group| group.get(name).is_some_and(Value::is_object))
        };
        let urls = has(elicitation, "url") && revision.has_url_elicitation();
        Self {
            // `{}` means forms, as it did before there were modes.
            forms: elicitation.is_some() && (has(elicitation, "form") || !urls),
            urls,
            sampling: declared("sampling").is_some(),
            sampling_tools: has(declared("sampling"), "tools"),
            roots: declared("roots").is_some(),
        }
    }

    /// Whether the client can be asked, or what it lacks.
    pub fn allow(&self, needs: Needs) -> Result<(), Unable> {
        let (can, unable) = match needs {
            Needs::Form => (self.forms, FORMS),
            Needs::Url => (self.urls, URLS),
            // Without sampling at all, that is what the client lacks, and not tools in it.
            Needs::Sampling { tools: true } if self.sampling => {
                (self.sampling_tools, Unable { capability: "sampling.tools" })
            }
            Needs::Sampling { .. } => (self.sampling, Unable { capability: "sampling" }),
            Needs::Roots => (self.roots, Unable { capability: "roots" }),
            Needs::Other => (false, UNKNOWN),
        };
        if can { Ok(()) } else { Err(unable) }
    }
}

/// What a session declared when it began, as a modern server is told it with each request.
pub fn declared_to_modern(capabilities: &Value, revision: Revision) -> Vec<u8> {
    let able = Abilities::read(capabilities, revision);
    let mut out = Map::new();
    if able.forms || able.urls {
        let modes = [("form", able.forms), ("url", able.urls)].into_iter().filter(|(_, can)| *can);
        out.insert("elicitation".into(), modes.map(|(mode, _)| (mode.to_owned(), json!({}))).collect());
    }
    if able.sampling {
        // `context` is not declared: through a gateway the context of one server would be that of all.
        out.insert("sampling".into(), if able.sampling_tools { json!({ "tools": {} }) } else { json!({}) });
    }
    if able.roots {
        out.insert("roots".into(), json!({}));
    }
    let declared = capabilities.get("extensions").and_then(Value::as_object).into_iter().flatten();
    let carried: Map<String, Value> = declared
        // By the era of the session: tasks, which are an extension of the new one, mean nothing in it.
        .filter(|(id, _)| extensions::is_carried(id, Era::Legacy))
        .map(|(id, is)| (id.clone(), is.clone()))
        .collect();
    if !carried.is_empty() {
        out.insert("extensions".into(), carried.into());
    }
    Value::Object(out).to_string().into_bytes()
}

/// A legacy server's question as a session gets it, or what its revision lacks to express it. `server`: who asks, where the
/// client can not know.
pub fn to_session(frame: &Frame, shown: u64, revision: Revision, server: Option<&str>) -> Result<Bytes, Unable> {
    worded(frame, shown, revision, server, None)
}

fn worded(
    frame: &Frame,
    shown: u64,
    revision: Revision,
    server: Option<&str>,
    minted: Option<&str>,
) -> Result<Bytes, Unable> {
    let bytes = frame.bytes();
    let mut patch = Patch::new();
    patch.replace(frame.id_span().ok_or(UNKNOWN)?, shown.to_string());
    if let Some(params) = frame.params() {
        let mut edit = ObjectEdit::new(bytes, params);
        guard(bytes, &mut edit, &frame.method(), server);
        if frame.method() == ELICIT {
            if !revision.has_elicitation() {
                return Err(FORMS);
            }
            let by_url = edit.get("mode").is_some_and(|at| at.of(bytes) == b"\"url\"");
            match minted.filter(|_| by_url) {
                // 2025-11-25 requires an id of every elicitation by URL; modern servers give none.
                Some(minted) if revision.has_url_elicitation() => {
                    edit.set("elicitationId", encode_string(minted));
                }
                // A form, or a question of a legacy server, which has given the id itself.
                _ if revision.has_url_elicitation() => {}
                _ if by_url => return Err(URLS),
                _ => {
                    edit.remove("mode");
                    if let Some(schema) = edit.get("requestedSchema") {
                        edit.set("requestedSchema", early_schema(schema.of(bytes)).ok_or(SEVERAL)?);
                    }
                }
            }
        }
        edit.finish(&mut patch);
    }
    Ok(patch.apply(bytes))
}

/// What is changed in every question, whoever gets it.
fn guard(bytes: &[u8], edit: &mut ObjectEdit<'_>, method: &str, server: Option<&str>) {
    match method {
        // Through a gateway `thisServer` would mean all of them.
        SAMPLE if edit.get("includeContext").is_some() => {
            edit.set("includeContext", "\"none\"");
        }
        ELICIT => {
            if let (Some(server), Some(text)) = (server, edit.get("message").and_then(|at| string_at(bytes, at))) {
                edit.set("message", encode_string(&said_by(Some(server), &text)));
            }
        }
        _ => {}
    }
}

/// What somebody says whom the client may not know.
pub(crate) fn said_by(server: Option<&str>, text: &str) -> String {
    server.map_or_else(|| text.to_owned(), |server| format!("[{server}] {text}"))
}

/// The same for an entry of `inputRequests` that stays one.
pub(crate) fn guard_entry(bytes: &[u8], entry: ByteSpan, server: Option<&str>, patch: &mut Patch) {
    let Some(method) = get(bytes, entry, "method").and_then(|at| string_at(bytes, at)) else { return };
    if let Some(params) = get(bytes, entry, "params").filter(|at| is_object(bytes, *at)) {
        let mut edit = ObjectEdit::new(bytes, params);
        guard(bytes, &mut edit, &method, server);
        edit.finish(patch);
    }
}

/// A form for 2025-06-18: titled choices in its own spelling, no multiple choice. The schema is passed as it is when
/// it has neither.
fn early_schema(raw: &[u8]) -> Option<Vec<u8>> {
    let mut schema: Value = serde_json::from_slice(raw).ok()?;
    let mut changed = false;
    for property in schema.get_mut("properties")?.as_object_mut()?.values_mut() {
        let property = property.as_object_mut()?;
        // A choice of several can not be asked in that revision; leaving it out would ask for less than the server
        // needs.
        if property.get("type").is_some_and(|kind| kind == "array") {
            return None;
        }
        let spelling = ["oneOf", "anyOf"].into_iter().find(|name| property.get(*name).is_some_and(is_titled));
        if let Some(Value::Array(choices)) = spelling.and_then(|name| property.remove(name)) {
            let pick = |name: &str, or: &str| -> Vec<Value> {
                let of = |choice: &Value| choice.get(name).or_else(|| choice.get(or)).cloned().unwrap_or_default();
                choices.iter().map(of).collect()
            };
            property.insert("enumNames".into(), pick("title", "const").into());
            property.insert("enum".into(), pick("const", "const").into());
            changed = true;
        }
    }
    Some(if changed { schema.to_string().into_bytes() } else { raw.to_vec() })
}

fn is_titled(choices: &Value) -> bool {
    choices.as_array().is_some_and(|all| all.iter().all(|choice| choice.get("const").is_some()))
}

/// A legacy server's question as an entry of `inputRequests`; `None` when it is none that a modern client can be asked.
pub fn to_input_request(frame: &Frame, server: Option<&str>) -> Option<Bytes> {
    let method = frame.method();
    if !matches!(&*method, ELICIT | SAMPLE | ROOTS) {
        return None;
    }
    let bytes = frame.bytes();
    let params = match frame.params().filter(|at| is_object(bytes, *at)) {
        None => String::new(),
        Some(at) => {
            let mut patch = Patch::new();
            let mut edit = frame.edit(at);
            guard(bytes, &mut edit, &method, server);
            // The modern era knows neither: an answer comes with a retry, and nothing is completed later.
            edit.remove("elicitationId").remove("task");
            if let Some(at) = edit.get("_meta").filter(|at| is_object(bytes, *at)) {
                let mut meta = frame.edit(at);
                meta.remove(meta::PROGRESS_TOKEN).remove_where(|key| key.starts_with(meta::RESERVED));
                meta.finish(&mut patch);
            }
            edit.finish(&mut patch);
            let params = patch.apply_within(bytes, at);
            format!(r#","params":{}"#, std::str::from_utf8(&params).ok()?)
        }
    };
    Some(format!(r#"{{"method":{}{params}}}"#, encode_string(&method)).into())
}

/// An entry of a modern server's `inputRequests`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputRequest {
    /// Under which the answer is expected.
    pub key: Box<str>,
    /// What is asked.
    pub method: Box<str>,
    /// The entry as the server wrote it.
    pub entry: Bytes,
}

impl InputRequest {
    /// What it needs of the client.
    pub fn needs(&self) -> Needs {
        let params = validate(&self.entry, 1_024).ok().and_then(|span| get(&self.entry, span, "params"));
        Needs::of(&self.method, params.map(|at| at.of(&self.entry)))
    }
}

/// What a modern server wants to know before it goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InputRequired {
    /// The entries, in the server's order.
    pub requests: Vec<InputRequest>,
    /// To be given back as it is.
    pub state: Option<Box<str>>,
}

/// Reads a result whose `resultType` is `input_required`; `None` for every other answer.
pub fn input_required(frame: &Frame) -> Option<InputRequired> {
    let bytes = frame.bytes();
    let result = frame.outcome().filter(|at| frame.kind() == FrameKind::Response && is_object(bytes, *at))?;
    if frame.get(result, "resultType")?.of(bytes) != b"\"input_required\"" {
        return None;
    }
    let state = frame.get(result, "requestState").and_then(|at| string_at(bytes, at)).map(|state| state.into());
    Some(InputRequired { requests: input_requests(frame, result), state })
}

/// What an object of a message has in its member `inputRequests`.
pub fn input_requests(frame: &Frame, at: ByteSpan) -> Vec<InputRequest> {
    let bytes = frame.bytes();
    let asked = frame.get(at, "inputRequests").filter(|at| is_object(bytes, *at));
    let entry = |member: tidings_wire::ObjectMember| {
        let key = member.key.text(bytes)?;
        let method = get(bytes, member.value, "method").and_then(|at| string_at(bytes, at)).unwrap_or_default();
        Some(InputRequest { key: key.into(), method: method.into(), entry: frame.slice(member.value) })
    };
    asked.into_iter().flat_map(|at| tidings_wire::members(bytes, at)).filter_map(entry).collect()
}

/// A modern server's question as a request to a session. A URL gets the id that its revision wants, `minted`.
pub fn from_input_request(
    entry: &[u8],
    shown: u64,
    revision: Revision,
    server: Option<&str>,
    minted: &str,
) -> Result<Bytes, Unable> {
    let whole = validate(entry, 1_024).ok().filter(|at| is_object(entry, *at)).ok_or(UNKNOWN)?;
    let method = get(entry, whole, "method").and_then(|at| string_at(entry, at)).ok_or(UNKNOWN)?;
    if !matches!(&*method, ELICIT | SAMPLE | ROOTS) {
        return Err(UNKNOWN);
    }
    let params = get(entry, whole, "params").filter(|at| is_object(entry, *at)).map(|at| at.of(entry));
    let bytes = request(&RawId::from(shown), &method, params);
    let limits = FrameLimits { max_bytes: bytes.len(), max_depth: 1_024, ..FrameLimits::default() };
    // Made a message of its own first, so that questions of both eras are worded by one function.
    let frame = Frame::parse(bytes, &limits).map_err(|_| UNKNOWN)?;
    worded(&frame, shown, revision, server, Some(minted))
}

/// A modern client's answer under the id of the legacy server that asked. One that is no answer to this question is a refusal.
pub fn answer_to_server(id: &RawId, given: &[u8], method: &str) -> Bytes {
    if !is_answer(given, method) {
        return refusal(id, method, None);
    }
    response(id, given)
}

/// What a session's answer is to a modern server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputAnswer {
    /// An entry of `inputResponses`.
    Result(Bytes),
    /// The client could not put the form, or would not: that is an answer too.
    Cancelled,
    /// There is no answer, and no way to tell the server so.
    Fatal(String),
}

/// A session's answer to a question of a modern server.
pub fn answer_to_input(frame: &Frame, method: &str) -> InputAnswer {
    let bytes = frame.bytes();
    let Some(outcome) = frame.outcome() else { return InputAnswer::Fatal("sent no result".into()) };
    let reason = match frame.kind() {
        FrameKind::Error => {
            let text = get(bytes, outcome, "message").and_then(|at| string_at(bytes, at)).unwrap_or_default();
            format!("answered with an error: {text}")
        }
        _ if is_answer(outcome.of(bytes), method) => return InputAnswer::Result(frame.slice(outcome)),
        _ => "sent an answer that is none".to_owned(),
    };
    // A user may always refuse a form; nobody can make up a message of the model, or roots, in the client's place.
    if method == ELICIT { InputAnswer::Cancelled } else { InputAnswer::Fatal(reason) }
}

/// Whether this is an answer to a question of this method, as far as its reader relies on it.
fn is_answer(raw: &[u8], method: &str) -> bool {
    // Less than the 1,024 levels of `check_outgoing`, which puts an envelope around it below.
    let Some(whole) = validate(raw, 1_000).ok().filter(|at| *at == ByteSpan { start: 0, end: raw.len() }) else {
        return false;
    };
    let starts = |name: &str, with: &[u8]| get(raw, whole, name).is_some_and(|at| at.of(raw).starts_with(with));
    let complete = match method {
        ELICIT => get_path(raw, whole, &["action"])
            .is_some_and(|at| [&b"\"accept\""[..], b"\"decline\"", b"\"cancel\""].contains(&at.of(raw))),
        SAMPLE => starts("role", b"\"") && get(raw, whole, "content").is_some(),
        ROOTS => starts("roots", b"["),
        _ => true,
    };
    // A member twice, where the protocol looks, would be read in two ways.
    complete && is_object(raw, whole) && check_outgoing(&response(&RawId::from(0), raw)).is_ok()
}

/// The refusal that each kind of question has.
pub fn refusal(id: &RawId, method: &str, why: Option<Unable>) -> Bytes {
    if method == ELICIT {
        return response(id, CANCEL);
    }
    let text = match why {
        Some(unable) => format!("{method} can not be answered here: {unable}"),
        None => format!("no client of this gateway can answer {method} here"),
    };
    // The code with which a client answers that does not have the capability at all.
    error_response(Some(id), code::METHOD_NOT_FOUND, &text, None)
}
