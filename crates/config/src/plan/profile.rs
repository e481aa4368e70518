//! `[clients.X]`: what is said about a client, beside what is known of it.

use super::gateway::ExposeSetting;

/// The notices that `hears` may name.
pub const HEARD_NOTICES: [&str; 4] = ["tools", "prompts", "resources", "updated"];
/// The rules that `schema` may name.
pub const SCHEMA_RULES: [&str; 3] = ["inline_refs", "no_top_combinators", "object_output"];

/// What is said about the clients of one name. What is absent is as it is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClientSettings {
    /// What the client calls itself (`clientInfo.name`).
    pub name: String,
    /// Bounds on its version such as `<1`, each checked; `None`: all versions.
    pub version: Option<String>,
    /// What the gateway is called in the client's own configuration.
    pub registered_as: Option<String>,
    /// How long the name of a tool may be, in bytes.
    pub name_budget: Option<usize>,
    /// Whether it reads all pages of a list, and not the first only.
    pub follows_pages: Option<bool>,
    /// Of [`HEARD_NOTICES`].
    pub hears: Option<Vec<String>>,
    /// Which tools are listed.
    pub expose: Option<ExposeSetting>,
    /// Of [`SCHEMA_RULES`].
    pub schema: Option<Vec<String>>,
    /// Whether the result of a call says once that the client's list of tools is old.
    pub hint: Option<bool>,
}
