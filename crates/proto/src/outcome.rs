//! A server's answer on its way to the client: the client's id, its view, its era.

use bytes::Bytes;
use tidings_wire::{
    ByteSpan, Frame, FrameKind, ObjectEdit, Patch, Payload, RawId, check_outgoing, elements, encode_string,
    error_response, get, is_object, members, response, string_at,
};

use crate::content::ContentView;
use crate::{Era, Method, Revision, SkillMethod, TaskMethod, code, meta, question, task};

/// Who reads the answer, and how.
#[derive(Clone, Copy)]
pub struct AnswerReader<'a> {
    /// The method of the request: it decides which members the result may have.
    pub method: Method,
    /// The era of the link it came over.
    pub from: Era,
    /// The client's content view.
    pub content: ContentView<'a>,
    /// The gateway's `serverInfo`, raw; absent where the server's own identity shows.
    pub identity: Option<&'a [u8]>,
    /// Whether the client handles URL elicitation. Asked for errors only.
    pub url_elicitation: bool,
    /// What the server is called where the client can not know who asks.
    pub asker: Option<&'a str>,
    /// Whether clients are told apart, so that no answer may be kept for others.
    pub private: bool,
    /// Whether the server is the only one: what its extensions say in a result is the client's to understand.
    pub verbatim: bool,
    /// Wraps the server's `requestState` before the client sees it.
    pub seal: &'a dyn Fn(&str) -> String,
    /// What becomes of the server's ids of tasks.
    pub tasks: TaskIds<'a>,
    /// Set where the answer is a page of a list that is made of those of several servers.
    pub part: Option<PartOfList<'a>>,
}

/// What one server has of a list that several have parts of.
#[derive(Clone, Copy)]
pub struct PartOfList<'a> {
    /// Where the list goes on: after the server's own cursor, or after everything that it has. None at the end of the list.
    pub next: &'a dyn Fn(Option<&str>) -> Option<String>,
    /// Whether it has all of the list; otherwise it can not say how long the whole is good.
    pub is_whole: bool,
}

/// What becomes of ids of tasks in an answer.
#[derive(Clone, Copy)]
pub enum TaskIds<'a> {
    /// There are none in answers to such a request.
    Absent,
    /// The client knows no tasks: the gateway follows this one in its place.
    Hidden,
    /// The client gets ids that lead back to the server.
    Sealed(&'a dyn Fn(&str) -> String),
}

/// An answer in the client's terms.
#[derive(Clone, Debug)]
pub struct ClientAnswer {
    /// The whole response, under the client's own id.
    pub payload: Payload,
    /// The error code, if it is an error: HTTP may need it for the status.
    pub error: Option<i64>,
}

impl ClientAnswer {
    /// A response with this result.
    pub fn result(id: &RawId, result: &[u8]) -> Self {
        Self { payload: response(id, result).into(), error: None }
    }

    /// An error response of our own.
    pub fn error(id: &RawId, code: i64, message: &str) -> Self {
        Self { payload: error_response(Some(id), code, message, None).into(), error: Some(code) }
    }
}

/// Translates a response or an error response.
pub fn translate(frame: &Frame, id: &RawId, reader: &AnswerReader<'_>) -> ClientAnswer {
    let Some(outcome) = frame.outcome() else {
        return ClientAnswer::error(id, code::INTERNAL_ERROR, "the server sent no result");
    };
    let mut patch = Patch::new();
    // Also where the server gave `null`: the caller waits under its own id (edges G1).
    frame.set_id(&mut patch, id);
    if frame.kind() == FrameKind::Error {
        return translate_error(frame, outcome, id, reader, patch);
    }
    if !is_object(frame.bytes(), outcome) {
        return ClientAnswer::error(id, code::INTERNAL_ERROR, "the server's result is not an object");
    }
    // The ordinary call: nothing but the id is replaced, and the result is not even looked at.
    let same_era = reader.from == Era::Legacy && reader.era() == Era::Legacy;
    let is_own = matches!(reader.tasks, TaskIds::Absent) && reader.part.is_none();
    if same_era && reader.content.is_identity(frame.bytes()) && is_own {
        return ClientAnswer { payload: patch.apply(frame.bytes()).into(), error: None };
    }
    translate_result(frame, outcome, id, reader, patch)
}

impl AnswerReader<'_> {
    fn era(&self) -> Era {
        self.content.revision.era()
    }
}

/// What a client answers to a server's request, as the server gets it: under the server's id, and never malformed.
pub fn answer_of_client(frame: &Frame, id: &RawId) -> Bytes {
    let mut patch = Patch::new();
    frame.set_id(&mut patch, id);
    let translated = patch.apply(frame.bytes());
    match check_outgoing(&translated) {
        Ok(()) => translated,
        Err(fault) => {
            let text = format!("the client's answer can not be passed on: {fault}");
            error_response(Some(id), code::INTERNAL_ERROR, &text, None)
        }
    }
}

fn translate_result(
    frame: &Frame,
    result: ByteSpan,
    id: &RawId,
    reader: &AnswerReader<'_>,
    mut patch: Patch,
) -> ClientAnswer {
    let bytes = frame.bytes();
    let mut edit = frame.edit(result);
    let result_type = edit.get("resultType").and_then(|at| string_at(bytes, at));
    match (reader.from, result_type.as_deref()) {
        (Era::Legacy, _) | (Era::Modern, None | Some("complete")) => {}
        (Era::Modern, Some("task")) if reader.method == Method::ToolsCall && reader.era() == Era::Modern => {
            // No content is looked at: a task that was just made has none.
            edit_tasks(bytes, &mut edit, reader, &mut patch);
            edit_meta(frame, &edit, reader, &mut patch);
            edit.finish(&mut patch);
            return ClientAnswer { payload: patch.apply(bytes).into(), error: None };
        }
        (Era::Modern, Some("input_required")) => return input_required(frame, edit, id, reader, patch),
        // An extension of the only server may answer in ways that the gateway does not know.
        (Era::Modern, Some(_)) if reader.verbatim && reader.era() == Era::Modern => {
            return ClientAnswer { payload: patch.apply(bytes).into(), error: None };
        }
        // A result of an unknown type can not be translated: passing it on would have the client take it for a
        // complete one.
        (Era::Modern, Some(other)) => {
            let message = format!("the server answered with an unknown result type \"{other}\"");
            return ClientAnswer::error(id, code::INTERNAL_ERROR, &message);
        }
    }
    match reader.era() {
        Era::Modern => {
            // A legacy server, and a modern one that left it out, mean a complete result.
            if result_type.as_deref() != Some("complete") {
                edit.set("resultType", "\"complete\"");
            }
            // The modern result must say how long it may be kept. A legacy server said nothing, so: not at all.
            let says_nothing = reader.from == Era::Legacy && reader.method.may_be_kept();
            if says_nothing || reader.part.is_some_and(|part| !part.is_whole) {
                edit.set("ttlMs", "0").set("cacheScope", "\"private\"");
            }
            // What only some may see must not be kept by a cache that others share.
            if reader.private && edit.get("cacheScope").is_some_and(|at| at.of(bytes) != b"\"private\"") {
                edit.set("cacheScope", "\"private\"");
            }
        }
        Era::Legacy if reader.from == Era::Modern => {
            edit.remove("resultType").remove("ttlMs").remove("cacheScope");
        }
        Era::Legacy => {}
    }
    if let Some(part) = reader.part {
        let own = edit.get("nextCursor").and_then(|at| string_at(bytes, at));
        match (part.next)(own.as_deref()) {
            Some(next) => edit.set("nextCursor", encode_string(&next)),
            None => edit.remove("nextCursor"),
        };
    }
    edit_tasks(bytes, &mut edit, reader, &mut patch);
    edit_meta(frame, &edit, reader, &mut patch);
    edit_content(bytes, &mut edit, reader, &mut patch);
    edit.finish(&mut patch);
    ClientAnswer { payload: patch.apply(bytes).into(), error: None }
}

/// The id of a task at each place where an answer has one, and what the task has inside.
fn edit_tasks(bytes: &[u8], edit: &mut ObjectEdit<'_>, reader: &AnswerReader<'_>, patch: &mut Patch) {
    let TaskIds::Sealed(seal) = reader.tasks else { return };
    let rename = |edit: &mut ObjectEdit<'_>| {
        if let Some(id) = edit.get("taskId").and_then(|at| string_at(bytes, at)) {
            edit.set("taskId", encode_string(&seal(&id)));
        }
    };
    match reader.method {
        Method::ToolsCall if reader.from == Era::Legacy => {
            if let Some(at) = edit.get("task").filter(|at| is_object(bytes, *at)) {
                let mut task = ObjectEdit::new(bytes, at);
                rename(&mut task);
                task.finish(patch);
            }
        }
        Method::ToolsCall => rename(edit),
        Method::Task(TaskMethod::Get | TaskMethod::Cancel) => {
            rename(edit);
            // The extension has the outcome, or the questions, inside.
            if let Some(at) = edit.get("result").filter(|at| is_object(bytes, *at)) {
                let mut result = ObjectEdit::new(bytes, at);
                edit_tool_result(bytes, &mut result, reader, patch);
                result.finish(patch);
            }
            let asked = edit.get("inputRequests").filter(|at| reader.asker.is_some() && is_object(bytes, *at));
            for entry in asked.into_iter().flat_map(|at| members(bytes, at)) {
                question::guard_entry(bytes, entry.value, reader.asker, patch);
            }
        }
        _ => {}
    }
}

fn input_required(
    frame: &Frame,
    mut edit: ObjectEdit<'_>,
    id: &RawId,
    reader: &AnswerReader<'_>,
    mut patch: Patch,
) -> ClientAnswer {
    let bytes = frame.bytes();
    // What a method of an extension may do only its two ends know.
    let may = reader.method.may_require_input() || (reader.verbatim && reader.method == Method::Other);
    // The dialogue of several rounds does not exist in that era, so the client could not go on.
    if reader.era() == Era::Legacy || !may {
        let message = "the server asks for input where the protocol has no way to give it";
        return ClientAnswer::error(id, code::INTERNAL_ERROR, message);
    }
    let inner = edit.get("requestState").and_then(|at| string_at(bytes, at));
    if let Some(inner) = inner {
        // Sealed, so that the state comes back to the server that gave it, and to no other.
        edit.set("requestState", encode_string(&(reader.seal)(&inner)));
    }
    let asked = edit.get("inputRequests").filter(|at| reader.asker.is_some() && is_object(bytes, *at));
    for entry in asked.into_iter().flat_map(|at| members(bytes, at)) {
        question::guard_entry(bytes, entry.value, reader.asker, &mut patch);
    }
    edit_meta(frame, &edit, reader, &mut patch);
    edit.finish(&mut patch);
    ClientAnswer { payload: patch.apply(bytes).into(), error: None }
}

fn edit_meta(frame: &Frame, result: &ObjectEdit<'_>, reader: &AnswerReader<'_>, patch: &mut Patch) {
    let bytes = frame.bytes();
    let Some(span) = result.get("_meta").filter(|span| is_object(bytes, *span)) else { return };
    let mut edit = frame.edit(span);
    // It names a subscription between the gateway and the server.
    edit.remove(meta::SUBSCRIPTION_ID);
    match (reader.tasks, edit.get(task::RELATED).filter(|at| is_object(bytes, *at))) {
        (TaskIds::Sealed(seal), Some(at)) => {
            let mut related = ObjectEdit::new(bytes, at);
            if let Some(id) = related.get("taskId").and_then(|at| string_at(bytes, at)) {
                related.set("taskId", encode_string(&seal(&id)));
            }
            related.finish(patch);
        }
        (TaskIds::Hidden, Some(_)) => {
            edit.remove(task::RELATED);
        }
        (_, None) | (TaskIds::Absent, _) => {}
    }
    match (reader.era(), reader.identity) {
        (Era::Legacy, _) if reader.from == Era::Modern => {
            edit.remove_where(|key| key.starts_with(meta::RESERVED));
        }
        (Era::Modern, Some(identity)) => {
            if let Some(theirs) = edit.get(meta::SERVER_INFO) {
                let theirs = theirs.of(bytes).to_vec();
                // Moved and not dropped: who wants to know which server it was still finds it.
                edit.set(meta::SERVER_INFO, identity.to_vec()).set(meta::UPSTREAM_INFO, theirs);
            }
        }
        _ => {}
    }
    edit.finish(patch);
}

fn edit_content(bytes: &[u8], edit: &mut ObjectEdit<'_>, reader: &AnswerReader<'_>, patch: &mut Patch) {
    // A legacy reader is looked at all the same: `is_identity` says nothing about structured output.
    if reader.content.is_identity(bytes) && reader.era() == Era::Modern {
        return;
    }
    match reader.method {
        Method::ToolsCall | Method::Task(TaskMethod::Result) => edit_tool_result(bytes, edit, reader, patch),
        Method::PromptsGet => {
            for message in edit.get("messages").into_iter().flat_map(|at| elements(bytes, at)) {
                if let Some(content) = get(bytes, message, "content") {
                    reader.content.blocks(bytes, content, patch);
                }
            }
        }
        Method::ResourcesRead => {
            for contents in edit.get("contents").into_iter().flat_map(|at| elements(bytes, at)) {
                reader.content.uri_member(bytes, contents, patch);
            }
        }
        Method::Skills(SkillMethod::List) => {
            edit.get("skills")
                .into_iter()
                .flat_map(|at| elements(bytes, at))
                .for_each(|at| skill(bytes, at, reader, patch));
        }
        Method::Skills(SkillMethod::Get) => {
            edit.get("skill").into_iter().for_each(|at| skill(bytes, at, reader, patch));
        }
        Method::Skills(SkillMethod::ReadDirectory) => {
            for child in edit.get("resources").into_iter().flat_map(|at| elements(bytes, at)) {
                reader.content.uri_member(bytes, child, patch);
            }
        }
        _ => {}
    }
}

/// A skill and the files that it has. Nothing but URIs is touched: digests are over the bytes of the files, and the frontmatter must
/// be what stands in one of them.
fn skill(bytes: &[u8], entry: ByteSpan, reader: &AnswerReader<'_>, patch: &mut Patch) {
    reader.content.uri_member(bytes, entry, patch);
    for file in get(bytes, entry, "resources").into_iter().flat_map(|at| elements(bytes, at)) {
        reader.content.uri_member(bytes, file, patch);
    }
}

fn edit_tool_result(bytes: &[u8], edit: &mut ObjectEdit<'_>, reader: &AnswerReader<'_>, patch: &mut Patch) {
    if let Some(content) = edit.get("content") {
        reader.content.blocks(bytes, content, patch);
    }
    map_ui_resource(bytes, edit, reader, patch);
    strip_structured(bytes, edit, reader, patch);
}

/// The resource that an app of this result is shown with.
fn map_ui_resource(bytes: &[u8], edit: &ObjectEdit<'_>, reader: &AnswerReader<'_>, patch: &mut Patch) {
    if let Some(meta) = edit.get("_meta") {
        reader.content.uris.map_ui_resource(bytes, meta, patch);
    }
}

/// Structured output that the client's revision can not have becomes text, unless there is text already.
fn strip_structured(bytes: &[u8], edit: &mut ObjectEdit<'_>, reader: &AnswerReader<'_>, patch: &mut Patch) {
    let Some(structured) = edit.get("structuredContent") else { return };
    let too_old = reader.content.hides(Revision::V2025_06_18);
    // Before 2026-07-28 structured content had to be an object.
    let not_an_object = reader.content.hides(Revision::V2026_07_28) && !is_object(bytes, structured);
    if !too_old && !not_an_object {
        return;
    }
    edit.remove("structuredContent");
    let text = std::str::from_utf8(structured.of(bytes)).unwrap_or_default();
    let block = format!(r#"{{"type":"text","text":{}}}"#, encode_string(text));
    match edit.get("content") {
        None => {
            edit.set("content", format!("[{block}]"));
        }
        Some(content) => {
            let is_text = |at: ByteSpan| get(bytes, at, "type").is_some_and(|t| t.of(bytes) == b"\"text\"");
            let mut blocks = elements(bytes, content).peekable();
            let comma = if blocks.peek().is_some() { "," } else { "" };
            // A server that followed the rules has put the same as text there already.
            if !blocks.any(is_text) && bytes.get(content.start) == Some(&b'[') {
                // Put in and not set as a whole: blocks of this list may be patched as well.
                patch.insert(content.start + 1, format!("{block}{comma}"));
            }
        }
    }
}

fn translate_error(
    frame: &Frame,
    error: ByteSpan,
    id: &RawId,
    reader: &AnswerReader<'_>,
    mut patch: Patch,
) -> ClientAnswer {
    let bytes = frame.bytes();
    let mut edit = ObjectEdit::new(bytes, error);
    let code = edit.get("code").and_then(|at| std::str::from_utf8(at.of(bytes)).ok()?.parse::<i64>().ok());
    let Some(code) = code else {
        // JSON-RPC demands a code; a client could not tell it from a result.
        return ClientAnswer::error(id, code::INTERNAL_ERROR, "the server sent an error without a code");
    };
    let message = edit.get("message").and_then(|at| string_at(bytes, at));
    // Half a surrogate pair is no text, but it is a string, and passes as it is.
    if !edit.get("message").is_some_and(|at| at.of(bytes).starts_with(b"\"")) {
        edit.set("message", "\"the server sent an error without a message\"");
    }
    let message = message.unwrap_or_default();
    // Also inside the error's data: a URI that a client is shown must be one it can use.
    let data_uri = tidings_wire::get_path(bytes, error, &["data", "uri"]);
    if let Some(at) = data_uri
        && let Some(uri) = string_at(bytes, at)
        && !reader.content.uris.leaves(&uri)
    {
        patch.replace(at, encode_string(&reader.content.uris.outward(&uri)));
    }
    let modern = reader.era() == Era::Modern;
    let shown = match code {
        // The modern era has no code of its own for it.
        code::RESOURCE_NOT_FOUND if modern => code::INVALID_PARAMS,
        code::INVALID_PARAMS
            // And the other way round, where `data.uri` shows that a resource is meant and not any parameter.
            if !modern
                && reader.from == Era::Modern
                && reader.method == Method::ResourcesRead
                && data_uri.is_some() =>
        {
            code::RESOURCE_NOT_FOUND
        }
        code::URL_ELICITATION_REQUIRED if modern => return visit_first(bytes, error, id, reader, &message),
        code::URL_ELICITATION_REQUIRED if !reader.url_elicitation => {
            return as_tool_error(bytes, error, id, reader, &message);
        }
        // Between the gateway and the server; the client's own headers were right.
        code::HEADER_MISMATCH | code::UNSUPPORTED_VERSION => code::INTERNAL_ERROR,
        code::MISSING_CLIENT_CAPABILITY if !modern => return as_tool_error(bytes, error, id, reader, &message),
        other => other,
    };
    if shown != code {
        edit.set("code", shown.to_string());
    }
    edit.finish(&mut patch);
    ClientAnswer { payload: patch.apply(bytes).into(), error: Some(shown) }
}

/// Pages that the user has to visit before the call is made again, as a modern client is asked for that. There is no state: the
/// server has given the call up, and the next one is a new one.
fn visit_first(bytes: &[u8], error: ByteSpan, id: &RawId, reader: &AnswerReader<'_>, message: &str) -> ClientAnswer {
    let text_of = |at: ByteSpan, name: &str| get(bytes, at, name).and_then(|at| string_at(bytes, at));
    let asked = tidings_wire::get_path(bytes, error, &["data", "elicitations"]);
    // The keys only have to differ: the server never sees the answers, because the next call is a new one.
    let entry = |(nth, at): (usize, ByteSpan)| {
        let url = encode_string(&text_of(at, "url")?);
        let text = text_of(at, "message").unwrap_or_else(|| message.into());
        let text = encode_string(&question::said_by(reader.asker, &text));
        Some(format!(
            r#""url-{nth}":{{"method":"{}","params":{{"mode":"url","url":{url},"message":{text}}}}}"#,
            question::ELICIT
        ))
    };
    let entries: Vec<String> =
        asked.into_iter().flat_map(|at| elements(bytes, at)).enumerate().filter_map(entry).collect();
    if entries.is_empty() || !reader.method.may_require_input() {
        return as_tool_error(bytes, error, id, reader, message);
    }
    if !reader.url_elicitation {
        let required = r#"{"requiredCapabilities":{"elicitation":{"url":{}}}}"#;
        let code = code::MISSING_CLIENT_CAPABILITY;
        let payload = error_response(Some(id), code, message, Some(required.as_bytes())).into();
        return ClientAnswer { payload, error: Some(code) };
    }
    let result = format!(r#"{{"resultType":"input_required","inputRequests":{{{}}}}}"#, entries.join(","));
    ClientAnswer::result(id, result.as_bytes())
}

/// An error that the client's era can not express: a failed tool result that says it in words, or an internal error.
fn as_tool_error(bytes: &[u8], error: ByteSpan, id: &RawId, reader: &AnswerReader<'_>, message: &str) -> ClientAnswer {
    if reader.method != Method::ToolsCall {
        return ClientAnswer::error(id, code::INTERNAL_ERROR, message);
    }
    let mut text = message.to_owned();
    let asked = tidings_wire::get_path(bytes, error, &["data", "elicitations"]);
    // A person can still visit the address, though the client can not ask for it.
    for elicitation in asked.into_iter().flat_map(|at| elements(bytes, at)) {
        if let Some(url) = get(bytes, elicitation, "url").and_then(|at| string_at(bytes, at)) {
            text.push('\n');
            text.push_str(&url);
        }
    }
    failed_tool(id, &text, reader.era())
}

/// The result of a tool that failed, in words.
pub fn failed_tool(id: &RawId, text: &str, era: Era) -> ClientAnswer {
    let result_type = if era == Era::Modern { r#""resultType":"complete","# } else { "" };
    let text = encode_string(text);
    ClientAnswer::result(
        id,
        format!(r#"{{{result_type}"content":[{{"type":"text","text":{text}}}],"isError":true}}"#).as_bytes(),
    )
}
