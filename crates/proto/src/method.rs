//! The requests a client may send, and what of each the gateway has to know to route it.

use crate::Era;

/// A request method, by what the gateway does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Opens a legacy session.
    Initialize,
    /// `server/discover`, the modern introduction: versions and capabilities, without a session.
    Discover,
    /// Asks a legacy peer whether it is there; the modern era has none.
    Ping,
    /// One of the four lists.
    List(crate::ListKind),
    /// `tools/call`: runs a tool, which may have effects, so it is sent once.
    ToolsCall,
    /// `prompts/get`: the messages of a prompt, with its arguments filled in.
    PromptsGet,
    /// `resources/read`: the content of one URI.
    ResourcesRead,
    /// Legacy: follow a resource.
    ResourcesSubscribe,
    /// Legacy: stop following it.
    ResourcesUnsubscribe,
    /// `completion/complete`: values for an argument of a prompt or template.
    Complete,
    /// Legacy: how much to log.
    SetLevel,
    /// Modern: `subscriptions/listen`, whose stream tells of changes until one side ends it.
    Listen,
    /// About a task: work that a server goes on with after it has answered the call that began it.
    Task(TaskMethod),
    /// Of the extension for skills: instructions for agents, which servers have as resources.
    Skills(SkillMethod),
    /// One that the gateway does not know: a vendor's, or an extension's. Only the message has its name.
    Other,
}

/// What is asked about a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaskMethod {
    /// `tasks/get`: how far it is.
    Get,
    /// Legacy `tasks/result`: its outcome, which is waited for.
    Result,
    /// Legacy `tasks/list`: the tasks there are.
    List,
    /// `tasks/cancel`: nobody wants it any more.
    Cancel,
    /// Modern `tasks/update`: answers to what its server wants to know.
    Update,
}

/// What is asked about skills.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SkillMethod {
    /// `skills/list`: the skills there are.
    List,
    /// `skills/get`: one of them, by the URI of its `SKILL.md`.
    Get,
    /// `resources/directory/read`: what stands in a folder of one.
    ReadDirectory,
}

impl SkillMethod {
    /// The name in messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::List => "skills/list",
            Self::Get => "skills/get",
            Self::ReadDirectory => "resources/directory/read",
        }
    }
}

impl TaskMethod {
    /// The name in messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "tasks/get",
            Self::Result => "tasks/result",
            Self::List => "tasks/list",
            Self::Cancel => "tasks/cancel",
            Self::Update => "tasks/update",
        }
    }
}

impl Method {
    /// What a client of an era asks by this name; `None` when the method belongs to the other era.
    pub fn asked(text: &str, era: Era) -> Option<Self> {
        // A vendor's method may be sent in either era.
        let method = Self::parse(text).unwrap_or(Self::Other);
        let exists = match era {
            Era::Legacy => method.is_legacy(),
            Era::Modern => method.is_modern(),
        };
        exists.then_some(method)
    }

    /// From the wire; `None` when the gateway does not know it.
    pub fn parse(text: &str) -> Option<Self> {
        use crate::ListKind as K;
        Some(match text {
            "initialize" => Self::Initialize,
            "server/discover" => Self::Discover,
            "ping" => Self::Ping,
            "tools/list" => Self::List(K::Tools),
            "prompts/list" => Self::List(K::Prompts),
            "resources/list" => Self::List(K::Resources),
            "resources/templates/list" => Self::List(K::Templates),
            "tools/call" => Self::ToolsCall,
            "prompts/get" => Self::PromptsGet,
            "resources/read" => Self::ResourcesRead,
            "resources/subscribe" => Self::ResourcesSubscribe,
            "resources/unsubscribe" => Self::ResourcesUnsubscribe,
            "completion/complete" => Self::Complete,
            "logging/setLevel" => Self::SetLevel,
            "subscriptions/listen" => Self::Listen,
            "tasks/get" => Self::Task(TaskMethod::Get),
            "tasks/result" => Self::Task(TaskMethod::Result),
            "tasks/list" => Self::Task(TaskMethod::List),
            "tasks/cancel" => Self::Task(TaskMethod::Cancel),
            "tasks/update" => Self::Task(TaskMethod::Update),
            "skills/list" => Self::Skills(SkillMethod::List),
            "skills/get" => Self::Skills(SkillMethod::Get),
            "resources/directory/read" => Self::Skills(SkillMethod::ReadDirectory),
            _ => return None,
        })
    }

    /// On the wire. Empty for [`Self::Other`].
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Initialize => "initialize",
            Self::Discover => "server/discover",
            Self::Ping => "ping",
            Self::List(kind) => kind.method(),
            Self::ToolsCall => "tools/call",
            Self::PromptsGet => "prompts/get",
            Self::ResourcesRead => "resources/read",
            Self::ResourcesSubscribe => "resources/subscribe",
            Self::ResourcesUnsubscribe => "resources/unsubscribe",
            Self::Complete => "completion/complete",
            Self::SetLevel => "logging/setLevel",
            Self::Listen => "subscriptions/listen",
            Self::Task(asked) => asked.as_str(),
            Self::Skills(asked) => asked.as_str(),
            Self::Other => "",
        }
    }

    /// Whether a modern client may send it.
    pub const fn is_modern(self) -> bool {
        !matches!(
            self,
            Self::Initialize
                | Self::Ping
                | Self::ResourcesSubscribe
                | Self::ResourcesUnsubscribe
                | Self::SetLevel
                | Self::Task(TaskMethod::Result | TaskMethod::List)
        )
    }

    /// Whether a legacy client may send it.
    pub const fn is_legacy(self) -> bool {
        !matches!(self, Self::Discover | Self::Listen | Self::Task(TaskMethod::Update))
    }

    /// Whether the answer may ask for input first (modern).
    pub const fn may_require_input(self) -> bool {
        matches!(self, Self::ToolsCall | Self::PromptsGet | Self::ResourcesRead)
    }

    /// Whether a modern answer says how long it may be kept.
    pub const fn may_be_kept(self) -> bool {
        matches!(self, Self::ResourcesRead | Self::Skills(_))
    }

    /// The parameter that the `Mcp-Name` header mirrors.
    pub const fn name_param(self) -> Option<&'static str> {
        match self {
            Self::ToolsCall | Self::PromptsGet => Some("name"),
            Self::ResourcesRead => Some("uri"),
            Self::Task(TaskMethod::Get | TaskMethod::Cancel | TaskMethod::Update) => Some("taskId"),
            _ => None,
        }
    }
}
