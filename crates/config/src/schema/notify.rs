//! `[[notify]]`, for editors.

use schemars::JsonSchema;

/// A URL that is told of every change in the feed. See docs/notify.md.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "Notify")]
pub(super) struct NotifySchema {
    /// What it is called in `tidings status` and metrics; by default its host. How far it came is kept by the name, else by the URL.
    name: Option<String>,
    /// Where messages are posted.
    url: String,
    /// What messages are signed with: `whsec_` and 24 to 64 bytes in base64, best as `${env:NAME}` or `${file:PATH}`. A list of two while
    /// a new one, which stands first, takes the place of an old one.
    secret: Option<NotifySecretSchema>,
    /// CloudEvents with the signature of Standard Webhooks, or a text for an incoming webhook of Slack, which is not signed.
    #[schemars(extend("default" = "cloudevents"))]
    format: Option<NotifyFormatSchema>,
    /// Servers whose changes are told; `*` stands for any characters. Absent: all.
    servers: Option<Vec<String>>,
    /// Kinds of changes that are told. Absent: all.
    kinds: Option<Vec<NotifyKindSchema>>,
    /// Whether the host's name may lead into a private network. An address, and `localhost`, may always.
    #[schemars(extend("default" = false))]
    private: Option<bool>,
}

#[derive(JsonSchema)]
#[schemars(untagged)]
#[schemars(rename = "NotifySecret")]
enum NotifySecretSchema {
    One(String),
    Two(Vec<String>),
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[schemars(rename = "NotifyFormat")]
enum NotifyFormatSchema {
    CloudEvents,
    Slack,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[schemars(rename = "NotifyKind")]
enum NotifyKindSchema {
    Tools,
    Prompts,
    Resources,
}
