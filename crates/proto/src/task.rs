//! Tasks: a server answers a call with a handle, goes on with the work, and is asked for the outcome later.
//!
//! The protocol has two spellings of them. Revision 2025-11-25 has tasks in its core: the client asks for one with the member `task`,
//! gets `{"task": {…}}`, and fetches the outcome with `tasks/result`. For 2026-07-28 they are the extension [`TASKS`]: the client
//! declares it, the server decides, and `tasks/get` brings the outcome inside. Here are both, read and written, and what tools and
//! sides declare of them. Not here: whose a task is and how long it is known (`hub/tasks.rs`).

use std::borrow::Cow;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use serde_json::Value;
use tidings_wire::{
    ByteSpan, Frame, FrameKind, FrameLimits, ObjectEdit, Patch, encode_string, get, get_path, is_object, string_at,
};

use crate::{Era, code};

/// The extension of 2026-07-28.
pub const TASKS: &str = "io.modelcontextprotocol/tasks";

/// Where a message of 2025-11-25 says in its `_meta` which task it belongs to.
pub const RELATED: &str = "io.modelcontextprotocol/related-task";

/// A time for servers that leave out the members that the protocol demands.
const UNKNOWN_TIME: &str = "1970-01-01T00:00:00Z";

/// How tasks are spelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaskSpelling {
    /// As in the core of 2025-11-25.
    Core,
    /// As in the extension of 2026-07-28.
    Extension,
}

impl TaskSpelling {
    /// The one that an era has.
    pub const fn of(era: Era) -> Self {
        match era {
            Era::Legacy => Self::Core,
            Era::Modern => Self::Extension,
        }
    }

    const fn ttl(self) -> &'static str {
        match self {
            Self::Core => "ttl",
            Self::Extension => "ttlMs",
        }
    }

    const fn poll(self) -> &'static str {
        match self {
            Self::Core => "pollInterval",
            Self::Extension => "pollIntervalMs",
        }
    }
}

/// How far a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaskStatus {
    /// The server works on it.
    Working,
    /// The server waits for the client.
    InputRequired,
    /// There is a result.
    Completed,
    /// There is none, and will be none.
    Failed,
    /// It was given up.
    Cancelled,
}

impl TaskStatus {
    /// Every status.
    pub const ALL: [Self; 5] = [Self::Working, Self::InputRequired, Self::Completed, Self::Failed, Self::Cancelled];

    /// On the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// From the wire.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

    /// Whether a task never leaves it.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// What is known of a task, apart from its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskFacts {
    /// Its id, on the side that it was read from.
    pub id: Box<str>,
    /// How far it is.
    pub status: TaskStatus,
    /// The same in words.
    pub message: Option<Box<str>>,
    /// When it was made, as its server says it.
    pub created: Box<str>,
    /// When that changed last, as its server says it.
    pub updated: Box<str>,
    /// How many milliseconds after its making the server keeps it; for ever without.
    pub ttl: Option<u64>,
    /// How many milliseconds to wait before it is asked for again.
    pub poll: Option<u64>,
}

impl TaskFacts {
    /// Reads the members of an object. `None` for what is no task.
    pub fn read(bytes: &[u8], at: ByteSpan, spelling: TaskSpelling) -> Option<Self> {
        if !is_object(bytes, at) {
            return None;
        }
        let text = |name: &str| get(bytes, at, name).and_then(|at| string_at(bytes, at)).map(|text| text.into());
        let number = |name: &str| {
            let raw = std::str::from_utf8(get(bytes, at, name)?.of(bytes)).ok()?;
            // Some write `60000.0`.
            raw.parse().ok().or_else(|| raw.parse::<f64>().ok().filter(|n| *n >= 0.0).map(|n| n as u64))
        };
        let (created, updated): (Option<Box<str>>, Option<Box<str>>) = (text("createdAt"), text("lastUpdatedAt"));
        // Each stands in for the other: a client may refuse a task that lacks one.
        let created = created.or_else(|| updated.clone()).unwrap_or_else(|| UNKNOWN_TIME.into());
        Some(Self {
            id: text("taskId")?,
            status: TaskStatus::parse(&text("status")?)?,
            message: text("statusMessage"),
            updated: updated.unwrap_or_else(|| created.clone()),
            created,
            ttl: number(spelling.ttl()),
            poll: number(spelling.poll()),
        })
    }

    /// The task that a server made of a call.
    pub fn created(frame: &Frame, spelling: TaskSpelling) -> Option<Self> {
        let (bytes, result) = result(frame)?;
        match spelling {
            TaskSpelling::Core => Self::read(bytes, frame.get(result, "task")?, spelling),
            TaskSpelling::Extension if frame.get(result, "resultType")?.of(bytes) == b"\"task\"" => {
                Self::read(bytes, result, spelling)
            }
            TaskSpelling::Extension => None,
        }
    }

    /// A task that was over before anybody could ask for it: its server had answered at once.
    pub fn finished(id: &str, has_failed: bool, ttl: u64, now: SystemTime) -> Self {
        let now: Box<str> = utc(now).into();
        let status = if has_failed { TaskStatus::Failed } else { TaskStatus::Completed };
        Self { id: id.into(), status, message: None, updated: now.clone(), created: now, ttl: Some(ttl), poll: None }
    }

    /// The task that an answer to `tasks/get` or `tasks/cancel` tells of.
    pub fn told(frame: &Frame, spelling: TaskSpelling) -> Option<Self> {
        let (bytes, result) = result(frame)?;
        Self::read(bytes, result, spelling)
    }

    /// Its members under another id, without the braces around them.
    pub fn members(&self, id: &str, spelling: TaskSpelling) -> String {
        let mut out = format!(
            r#""taskId":{},"status":"{}","createdAt":{},"lastUpdatedAt":{},"{}":{}"#,
            encode_string(id),
            self.status.as_str(),
            encode_string(&self.created),
            encode_string(&self.updated),
            spelling.ttl(),
            self.ttl.map_or_else(|| "null".to_owned(), |ttl| ttl.to_string()),
        );
        if let Some(poll) = self.poll {
            out.push_str(&format!(r#","{}":{poll}"#, spelling.poll()));
        }
        if let Some(message) = &self.message {
            out.push_str(&format!(r#","statusMessage":{}"#, encode_string(message)));
        }
        out
    }

    /// The result of the call that made it.
    pub fn as_created(&self, id: &str, spelling: TaskSpelling) -> String {
        let members = self.members(id, spelling);
        match spelling {
            TaskSpelling::Core => format!(r#"{{"task":{{{members}}}}}"#),
            TaskSpelling::Extension => format!(r#"{{"resultType":"task",{members}}}"#),
        }
    }

    /// The result of `tasks/get`. The extension has the outcome inside; the core has it in the answer to `tasks/result`.
    pub fn as_told(&self, id: &str, spelling: TaskSpelling, inside: Option<&TaskInside<'_>>) -> String {
        let members = self.members(id, spelling);
        let inside = match (spelling, inside) {
            (TaskSpelling::Core, _) => return format!("{{{members}}}"),
            (TaskSpelling::Extension, None) => String::new(),
            (TaskSpelling::Extension, Some(inside)) => {
                let (name, raw) = inside.member();
                format!(r#","{name}":{}"#, String::from_utf8_lossy(raw))
            }
        };
        format!(r#"{{"resultType":"complete",{members}{inside}}}"#)
    }
}

/// What the extension has inside a task, raw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskInside<'a> {
    /// The result of the call that made it.
    Result(&'a [u8]),
    /// The error of that call.
    Error(&'a [u8]),
    /// What the server wants to know.
    Questions(&'a [u8]),
}

impl<'a> TaskInside<'a> {
    /// What the answer to `tasks/get` of the extension has inside.
    pub fn read(frame: &'a Frame) -> Option<Self> {
        let (bytes, result) = result(frame)?;
        let raw = |name: &str| get(bytes, result, name).filter(|at| is_object(bytes, *at)).map(|at| at.of(bytes));
        match TaskStatus::parse(&string_at(bytes, get(bytes, result, "status")?)?)? {
            TaskStatus::Completed => raw("result").map(Self::Result),
            TaskStatus::Failed => raw("error").map(Self::Error),
            TaskStatus::InputRequired => raw("inputRequests").map(Self::Questions),
            TaskStatus::Working | TaskStatus::Cancelled => None,
        }
    }

    const fn member(&self) -> (&'static str, &'a [u8]) {
        match self {
            Self::Result(raw) => ("result", raw),
            Self::Error(raw) => ("error", raw),
            Self::Questions(raw) => ("inputRequests", raw),
        }
    }
}

/// Whether a result says that the tool has failed. The core calls such a task `failed`; the extension says `completed`, and has
/// `failed` for errors of the protocol alone.
pub fn is_failure(bytes: &[u8], result: ByteSpan) -> bool {
    get(bytes, result, "isError").is_some_and(|at| at.of(bytes) == b"true")
}

/// What an answer to `tasks/get` of the extension says of a task, in the sense of the core.
pub fn as_core(mut facts: TaskFacts, told: &Frame) -> TaskFacts {
    if facts.status == TaskStatus::Completed
        && let Some((bytes, result)) = result(told)
        && get(bytes, result, "result").is_some_and(|at| is_failure(bytes, at))
    {
        facts.status = TaskStatus::Failed;
    }
    facts
}

/// A time as tasks have it. The calendar is that of Howard Hinnant's `civil_from_days`.
fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Counted from the first of March of the year 0: the day that may be missing is the last one of a year.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

fn result(frame: &Frame) -> Option<(&[u8], ByteSpan)> {
    let at = frame.outcome().filter(|at| frame.kind() == FrameKind::Response && is_object(frame.bytes(), *at))?;
    Some((frame.bytes(), at))
}

/// Whether a tool of 2025-11-25 can be run as a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskSupport {
    /// It can not.
    #[default]
    Forbidden,
    /// If the client likes.
    Optional,
    /// Only so.
    Required,
}

impl TaskSupport {
    /// From a tool's definition.
    pub fn of_tool(definition: &[u8]) -> Self {
        let whole = ByteSpan::new(0, definition.len());
        match get_path(definition, whole, &["execution", "taskSupport"]).map(|at| at.of(definition)) {
            Some(b"\"optional\"") => Self::Optional,
            Some(b"\"required\"") => Self::Required,
            _ => Self::Forbidden,
        }
    }
}

/// Whether a server of 2025-11-25 runs calls of tools as tasks.
pub fn declares_core(capabilities: &Value) -> bool {
    // The first look decides for nearly every server, and this is asked for every call.
    capabilities.get("tasks").is_some_and(|tasks| tasks["requests"]["tools"]["call"].is_object())
}

/// Whether a side of 2026-07-28 declares the extension.
pub fn declares_extension(capabilities: &Value) -> bool {
    capabilities.get("extensions").and_then(|extensions| extensions.get(TASKS)).is_some_and(Value::is_object)
}

/// Whether a server makes tasks of calls, in either spelling.
pub fn declares_any(capabilities: &Value) -> bool {
    declares_core(capabilities) || declares_extension(capabilities)
}

/// Whether a modern server refused a call because its client does not declare the extension. Then it was not run.
pub fn is_required_by(frame: &Frame) -> bool {
    let Some(error) = frame.outcome().filter(|_| frame.kind() == FrameKind::Error) else { return false };
    let is_missing = frame
        .get(error, "code")
        .is_some_and(|at| at.of(frame.bytes()) == code::MISSING_CLIENT_CAPABILITY.to_string().as_bytes());
    is_missing && get_path(frame.bytes(), error, &["data", "requiredCapabilities", "extensions", TASKS]).is_some()
}

/// The task that a message of 2025-11-25 says it belongs to.
pub fn related(frame: &Frame) -> Option<Cow<'_, str>> {
    frame.param_str(&["_meta", RELATED, "taskId"])
}

/// A message of the gateway's own making that belongs to a task of 2025-11-25, with the id by which its reader knows the task: in
/// the params of a request, in the result of an answer. An error has no place for it.
pub fn with_related(message: &Bytes, id: &str) -> Bytes {
    let limits = FrameLimits { max_bytes: message.len(), max_depth: 1_024, ..FrameLimits::default() };
    let Ok(frame) = Frame::parse(message.clone(), &limits) else { return message.clone() };
    let place = match frame.kind() {
        FrameKind::Response => frame.outcome(),
        FrameKind::Error => None,
        _ => frame.params(),
    };
    let bytes = frame.bytes();
    let related = format!(r#"{{"taskId":{}}}"#, encode_string(id));
    let whole = format!(r#"{{"{RELATED}":{related}}}"#);
    let mut patch = Patch::new();
    match (place.filter(|at| is_object(bytes, *at)), frame.id_span()) {
        (Some(at), _) => {
            let mut edit = ObjectEdit::new(bytes, at);
            match edit.get("_meta").filter(|at| is_object(bytes, *at)) {
                Some(at) => {
                    let mut meta = ObjectEdit::new(bytes, at);
                    meta.set(RELATED, related);
                    meta.finish(&mut patch);
                }
                None => {
                    edit.set("_meta", whole);
                }
            }
            edit.finish(&mut patch);
        }
        // A question needs no params, and this one has none.
        (None, Some(id)) if frame.kind() == FrameKind::Request => {
            patch.insert(id.end, format!(r#","params":{{"_meta":{whole}}}"#));
        }
        (None, _) => {}
    }
    patch.apply(bytes)
}
