//! What is wrong with a project: facts, with their place and what to do about them.

use std::fmt;
use std::path::PathBuf;

use serde_json::{Value, json};

/// Something is wrong at a place of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectProblem {
    /// The file, relative to the project where it lies inside.
    pub file: PathBuf,
    /// The line, where one is known; the first is 1.
    pub line: Option<usize>,
    /// The fault itself, in words that name the remedy.
    pub fault: ProjectFault,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemSeverity {
    /// Something that the author meant does not work.
    Error,
    /// It works, but perhaps not as meant.
    Warning,
}

/// What is wrong at the place. Each says what to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProjectFault {
    /// The system refuses it.
    #[error("can not be read: {0}")]
    Unreadable(String),
    /// More than is taken.
    #[error("{size} bytes; at most {limit} are read")]
    TooLarge {
        /// The bytes that the file has.
        size: u64,
        /// The bytes that are read at most.
        limit: usize,
    },
    /// Bytes that are no text.
    #[error("is not UTF-8 text")]
    NotText,
    /// The file begins with a byte order mark, which JSON does not allow.
    #[error("begins with a byte order mark")]
    ByteOrderMark,
    /// It does not parse.
    #[error("is not JSON: {0}")]
    Json(String),
    /// It is JSON, but no object.
    #[error("{0} is not a JSON object")]
    NotAnObject(String),
    /// A member has the wrong type.
    #[error("`{field}` is not {wanted}")]
    Field {
        /// The member of the JSON object.
        field: String,
        /// What it should be.
        wanted: &'static str,
    },
    /// A member is missing.
    #[error("`{0}` is missing")]
    Missing(&'static str),
    /// A name that nobody could use.
    #[error("the name {0:?} is not possible")]
    Name(String),
    /// A name that some clients do not take.
    #[error("some clients refuse the name {0:?}")]
    UnusualName(String),
    /// The second of its name.
    #[error("the name {name:?} is taken by {first}")]
    Duplicate {
        /// The name that two entries claim.
        name: String,
        /// The file of the entry that keeps it.
        first: String,
    },
    /// A link, which is not followed.
    #[error("is a symbolic link, which is not followed")]
    Link,
    /// It leads out of the project.
    #[error("{0:?} leads out of the project")]
    Outside(String),
    /// It names a file that is not there.
    #[error("there is no file {0:?}")]
    NoFile(String),
    /// The folders go too deep, or there are too many files.
    #[error("{0}")]
    TooMany(String),
    /// A name with line breaks.
    #[error("has a line break in its name")]
    LineBreak,
    /// Both kinds of URI.
    #[error("has both `uri` and `uriTemplate`")]
    TwoUris,
    /// A template without anything to fill in.
    #[error("the template {0:?} has no {{variable}}")]
    NoVariable(String),
    /// Nobody reads such resources.
    #[error("there is no provider {0:?}")]
    Provider(String),
    /// A picture that can not be shown.
    #[error("the icon {src:?} {reason}")]
    Icon {
        /// As it is named.
        src: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Something that `register.json` does not have.
    #[error("the key {0:?} is not known")]
    UnknownKey(String),
    /// A version that is not there.
    #[error("`version` is not 1")]
    Version,
    /// Others could change it.
    #[error("{path:?} {reason}")]
    Unsafe {
        /// The file or folder.
        path: String,
        /// What is not safe about it.
        reason: &'static str,
    },
    /// `register.sh` is there and not permitted.
    #[error("is not run")]
    HookOff,
    /// `policy.sh` may not run.
    #[error("policy.sh is not asked, so it forbids nothing: hooks are off")]
    PolicyOff,
    /// `register.sh` did not do its work.
    #[error("{0}")]
    Hook(String),
    /// A list that is too long altogether.
    #[error("what is listed takes {size} bytes; at most {limit} are kept")]
    Registry {
        /// The bytes that all of it would take.
        size: usize,
        /// The bytes that are kept at most.
        limit: usize,
    },
    /// Without words a model does not know what it is for.
    #[error("has no description")]
    NoDescription,
}

impl ProjectFault {
    /// How bad it is.
    pub fn severity(&self) -> ProblemSeverity {
        match self {
            Self::UnusualName(_) | Self::Link | Self::HookOff | Self::PolicyOff | Self::NoDescription => {
                ProblemSeverity::Warning
            }
            _ => ProblemSeverity::Error,
        }
    }

    /// What to do about it.
    pub fn remedy(&self) -> String {
        match self {
            Self::Unreadable(_) => "check that the file is there and may be read".into(),
            Self::TooLarge { .. } => "make it smaller; long texts belong into resources".into(),
            Self::NotText => "save it as UTF-8".into(),
            Self::ByteOrderMark => "save it as UTF-8 without a byte order mark".into(),
            Self::Json(_) => "correct the JSON at this place; comments and trailing commas are not allowed".into(),
            Self::NotAnObject(_) => "write { … } with its members".into(),
            Self::Field { field, wanted } => format!("make `{field}` {wanted}, or leave it out"),
            Self::Missing(field) => format!("add `{field}`"),
            Self::Name(_) => "use 1 to 128 of the characters A-Z a-z 0-9 _ - .".into(),
            Self::UnusualName(_) => "use 1 to 64 of the characters A-Z a-z 0-9 _ -".into(),
            Self::Duplicate { .. } => "give it a `name` of its own".into(),
            Self::Link => "copy the file to this place".into(),
            Self::Outside(_) => "keep the file inside the project".into(),
            Self::NoFile(_) => "correct the path; it counts from the folder of its kind".into(),
            Self::TooMany(_) => "move what is not part of the project elsewhere".into(),
            Self::LineBreak => "rename it".into(),
            Self::TwoUris => "keep `uri` for one resource, or `uriTemplate` for a family of them".into(),
            Self::NoVariable(_) => "name what is to be filled in, such as {path}, or use `uri`".into(),
            Self::Provider(name) => format!("add providers/{name}.sh, or use file, git, https or echo"),
            Self::Icon { .. } => "name a picture inside the project, a data URI or an https URL".into(),
            Self::UnknownKey(_) => {
                "known are version, tools, resources, resourceTemplates, prompts, completions and _meta".into()
            }
            Self::Version => "write \"version\": 1".into(),
            Self::Unsafe { .. } => "own it yourself and take write permission from group and others".into(),
            Self::HookOff => "set MCPBASH_ALLOW_PROJECT_HOOKS=true if you trust it, or use register.json".into(),
            Self::PolicyOff => {
                "set allow_hooks = true in [servers.X] (or MCPBASH_ALLOW_PROJECT_HOOKS=true) if you trust it".into()
            }
            Self::Hook(_) => "run it by hand to see why".into(),
            Self::Registry { .. } => "raise MCPBASH_REGISTRY_MAX_BYTES, or split the project".into(),
            Self::NoDescription => "say in `description` what it is for".into(),
        }
    }
}

impl ProjectProblem {
    /// The problem as `tidings validate --json` prints it.
    pub fn to_json(&self) -> Value {
        json!({
            "severity": match self.fault.severity() { ProblemSeverity::Error => "error", ProblemSeverity::Warning => "warning" },
            "file": self.file.to_string_lossy(),
            "line": self.line,
            "problem": self.fault.to_string(),
            "remedy": self.fault.remedy(),
        })
    }
}

impl fmt::Display for ProjectProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}; {}", self.fault, self.fault.remedy())
    }
}
