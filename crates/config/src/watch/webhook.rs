//! `webhook`: what is posted to a path.

use std::fmt;

use schemars::JsonSchema;

use super::{WatchKind, WatchSource};
use crate::error::ConfigFault;
use crate::read::TableSection;
use crate::read::forms::checked;

pub(super) const KIND: WatchKind =
    WatchKind { key: "webhook", required: &["secret"], optional: &["pointer"], read, schema: WebhookKeys::json_schema };

/// What is posted to `/hooks/NAME`.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookWatch {
    /// The NAME of `/hooks/NAME`, where deliveries are posted.
    pub name: String,
    /// What the poster signs with.
    pub secret: String,
    /// Where in a JSON body the name of the part stands that it concerns, as a JSON pointer.
    pub pointer: Option<String>,
}

#[derive(JsonSchema)]
#[allow(dead_code, reason = "only its shape is used")]
struct WebhookKeys {
    /// The NAME of POST /hooks/NAME; the body is the content.
    #[schemars(regex(pattern = r"^[A-Za-z0-9_.-]+$"))]
    webhook: Option<String>,
    /// What the poster signs with (HMAC-SHA256).
    secret: Option<String>,
    /// Where in a JSON body the name of the part stands that it concerns; each part is a resource of its own.
    #[schemars(regex(pattern = r"^/"))]
    pointer: Option<String>,
}

fn read(section: &mut TableSection<'_, '_>) -> Option<WatchSource> {
    section.remember("webhook");
    let name = hook_name(section);
    let secret = section.required_text("secret");
    let pointer = checked(section, "pointer", |text| text.starts_with('/'), || ConfigFault::BadPointer);
    Some(WatchSource::Webhook(WebhookWatch { name: name?, secret: secret?, pointer }))
}

fn hook_name(section: &mut TableSection<'_, '_>) -> Option<String> {
    let name = section.text("webhook")?;
    if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
        return Some(name);
    }
    section.fault("webhook", ConfigFault::BadHookName);
    None
}

impl fmt::Debug for WebhookWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookWatch").field("name", &self.name).finish_non_exhaustive()
    }
}
