//! `[[notify]]`: who outside is told of changes.

use std::fmt;

use super::filter::glob_matches;
use crate::redact::without_secrets;

/// The kinds of changes that `kinds` may name. Templates are resources to whoever reads the configuration.
pub const NOTIFY_KINDS: [&str; 3] = ["tools", "prompts", "resources"];

/// One URL that is told of changes.
#[derive(Clone, PartialEq, Eq)]
pub struct NotifySettings {
    /// What people call it; by default nothing, and it is shown by its host.
    pub name: Option<String>,
    /// Where messages are posted. Its path may be a secret, so it is never shown as a whole.
    pub url: String,
    /// What messages are signed with, `whsec_…`: the first is the one that stays, a second one goes. None where nothing is signed.
    pub secrets: Vec<String>,
    /// What a message says, and how.
    pub format: NotifyFormat,
    /// Patterns of server names; empty: all of them.
    pub servers: Vec<String>,
    /// Of [`NOTIFY_KINDS`]; empty: all, also those that are not named there.
    pub kinds: Vec<String>,
    /// Whether a host name may lead into a private network.
    pub private: bool,
}

/// The form of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum NotifyFormat {
    /// CloudEvents 1.0 in structured mode, signed as Standard Webhooks.
    #[default]
    CloudEvents,
    /// What incoming webhooks of Slack take: a text, unsigned.
    Slack,
}

impl NotifySettings {
    /// Whether a change of this server and kind is told there.
    pub fn wants(&self, server: &str, kind: &str) -> bool {
        let kind = if kind == "resource_templates" { "resources" } else { kind };
        (self.servers.is_empty() || self.servers.iter().any(|pattern| glob_matches(pattern, server)))
            && (self.kinds.is_empty() || self.kinds.iter().any(|wanted| wanted == kind))
    }

    /// What is shown of it: its name, else scheme and host. The path of such a URL is often its password.
    pub fn shown(&self) -> String {
        match &self.name {
            Some(name) => name.clone(),
            None => {
                let bare = without_secrets(&self.url);
                let host = bare.find("://").map_or(0, |place| place + 3);
                bare[..bare[host..].find('/').map_or(bare.len(), |end| host + end)].to_owned()
            }
        }
    }

    /// What tells two of them apart: the name, else the URL. Not to be shown.
    pub fn identity(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.url)
    }
}

impl fmt::Debug for NotifySettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotifySettings")
            .field("shown", &self.shown())
            .field("format", &self.format)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notify(url: &str) -> NotifySettings {
        NotifySettings {
            name: None,
            url: url.to_owned(),
            secrets: vec!["whsec_hunter2".to_owned()],
            format: NotifyFormat::CloudEvents,
            servers: Vec::new(),
            kinds: Vec::new(),
            private: false,
        }
    }

    // reach 3
    #[test]
    fn neither_path_nor_secret_is_shown() {
        for (url, shown) in [
            ("https://hooks.slack.com/services/T0/B0/XYZ", "https://hooks.slack.com"),
            ("https://me:hunter2@example.com:8443/a?b=c", "https://example.com:8443"),
            ("http://127.0.0.1:1", "http://127.0.0.1:1"),
        ] {
            let notify = notify(url);
            assert_eq!(notify.shown(), shown);
            let debug = format!("{notify:?}");
            assert!(!debug.contains("hunter2") && !debug.contains("XYZ"), "{debug}");
        }
        let named = NotifySettings { name: Some("ops".into()), ..notify("https://example.com/secret") };
        assert_eq!(named.shown(), "ops");
    }

    #[test]
    fn servers_and_kinds_choose_what_is_told() {
        let all = notify("http://x");
        assert!(all.wants("a", "tools") && all.wants("b", "resource_templates") && all.wants("b", "something_new"));
        let some = NotifySettings { servers: vec!["git*".into()], kinds: vec!["resources".into()], ..all };
        assert!(some.wants("github", "resources") && some.wants("github", "resource_templates"));
        assert!(!some.wants("github", "tools") && !some.wants("notes", "resources"));
    }
}
