//! `webhook`: what is posted to a path.

use super::{WatchKind, checked};
use crate::error::ConfigFault;
use crate::plan::watch::WatchSource;
use crate::read::TableSection;

pub(super) const KIND: WatchKind = WatchKind { key: "webhook", keys: &["secret", "pointer"], read };

fn read(section: &mut TableSection<'_, '_>) -> Option<WatchSource> {
    section.remember("webhook");
    let name = hook_name(section);
    let secret = section.required_text("secret");
    let pointer = checked(section, "pointer", |text| text.starts_with('/'), || ConfigFault::BadPointer);
    Some(WatchSource::Webhook { name: name?, secret: secret?, pointer })
}

fn hook_name(section: &mut TableSection<'_, '_>) -> Option<String> {
    let name = section.text("webhook")?;
    if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
        return Some(name);
    }
    section.fault("webhook", ConfigFault::BadHookName);
    None
}
