//! What the Model Context Protocol means: revisions and eras, error tables, names, capabilities, and the pure
//! translation of a message from one side of the gateway to the other.
//!
//! Everything here works on spans of a [`tidings_wire::Frame`]: only the members that must change are touched. Nothing
//! here does I/O or keeps state.

pub mod capabilities;
pub mod channel;
pub mod code;
pub mod content;
pub mod extensions;
pub mod gateway_path;
pub mod headers;
pub mod identity;
pub mod item;
pub mod kind;
pub mod level;
pub mod meta;
pub mod method;
pub mod names;
pub mod notifications;
pub mod outbound;
pub mod outcome;
pub mod question;
pub mod refusal;
pub mod revision;
pub mod server_message;
pub mod stale_hint;
pub mod task;
pub mod topic;
pub mod trace_context;
pub mod uri;

pub use kind::ListKind;
pub use level::LogLevel;
pub use method::{Method, SkillMethod, TaskMethod};
pub use names::{LocalName, PublicName};
pub use revision::{Era, Revision};
pub use server_message::{MessageSubject, ServerMessage};
pub use topic::Topic;
pub use trace_context::{TraceContext, TraceParent};
pub use uri::UriMap;

/// How much of a newer server's fields an older client is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FieldView {
    /// Only fields that the client's revision defines.
    #[default]
    Strict,
    /// Everything; schemas are open, so this is legal too.
    Pass,
}
