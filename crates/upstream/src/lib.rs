//! Links to servers.
//!
//! A [`Link`] carries calls to one server and brings back, for each call and in order, everything the server sent for
//! it. What belongs to no call goes to the [`MessageSink`], from the same reader and thus in the same order. A link is never
//! repaired: when it breaks it says so once, and a new one is made, so that nobody can miss a reset.
//!
//! Nothing here knows clients, names or routes.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

mod call;
mod connect;
mod container;
mod credential;
mod environment;
mod error;
mod handshake;
mod http;
pub mod in_process;
mod link;
mod log_budget;
mod pace;
mod pipe_calls;
mod remedy;
mod shared_pipe;
mod shown_url;
mod spec;
mod sse;
mod stdio;
mod web_page;

pub use call::{CallEvent, CallQueue, CallStream, ToolRedirect, call_channel};
pub use connect::{ConnectedLink, LinkConnector};
pub use container::PullProgress;
pub use credential::{
    CredentialOwner, CredentialRefusal, CredentialRenewal, HeldCredential, PeopleLogins, SharedCredential,
};
pub use environment::InheritEnv;
pub use error::LinkError;
pub use handshake::{OwnIntroduction, ServerHello, introduce_modern};
pub use http::{HttpBody, HttpClient, NetworkReach, is_public};
pub use link::{Link, MessageSink, OutgoingRequest, SharedLink};
pub use log_budget::{LineAdmission, LogBudget};
pub use shown_url::ShownUrl;
pub use spec::{EraChoice, HttpSpec, ServerSpec, StdioSpec, TransportSpec};
pub use stdio::marked_processes;
pub use stdio::process::{AdoptedGroup, ProcessLauncher, exec_helper, watchdog_helper};
pub use stdio::sandbox::SandboxSpec;

/// Request ids below this belong to the handshake of each link; callers begin here.
pub const FIRST_CALL_ID: u64 = 16;

/// The longest message accepted from a server.
pub const MAX_MESSAGE: usize = 64 << 20;

pub(crate) const LIMITS: tidings_wire::FrameLimits =
    tidings_wire::FrameLimits { max_bytes: MAX_MESSAGE, max_depth: 256, max_batch: 256 };
