//! What can be announced about lists: the one table between lists, their notifications and the flags of a listen filter.

use crate::ListKind;

/// What can be announced. Templates are announced with the resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Topic {
    /// `notifications/tools/list_changed`.
    Tools,
    /// `notifications/prompts/list_changed`.
    Prompts,
    /// `notifications/resources/list_changed`.
    Resources,
}

impl Topic {
    /// All three, in the order of their numbers: `topic as usize` is a place in an array.
    pub const ALL: [Self; 3] = [Self::Tools, Self::Prompts, Self::Resources];

    /// The topic that a notification announces, by its method.
    pub fn announced_by(method: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|topic| topic.notification() == method)
    }

    /// The method of the notification that announces it, in both eras.
    pub const fn notification(self) -> &'static str {
        match self {
            Self::Tools => "notifications/tools/list_changed",
            Self::Prompts => "notifications/prompts/list_changed",
            Self::Resources => "notifications/resources/list_changed",
        }
    }

    /// The flag of a `subscriptions/listen` filter.
    pub const fn flag(self) -> &'static str {
        match self {
            Self::Tools => "toolsListChanged",
            Self::Prompts => "promptsListChanged",
            Self::Resources => "resourcesListChanged",
        }
    }

    /// The word for it in output, which is also the name of the capability that promises it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
        }
    }

    /// The topic of a list.
    pub const fn of(kind: ListKind) -> Self {
        match kind {
            ListKind::Tools => Self::Tools,
            ListKind::Prompts => Self::Prompts,
            ListKind::Resources | ListKind::Templates => Self::Resources,
        }
    }

    /// The lists that it announces.
    pub const fn lists(self) -> &'static [ListKind] {
        match self {
            Self::Tools => &[ListKind::Tools],
            Self::Prompts => &[ListKind::Prompts],
            Self::Resources => &[ListKind::Resources, ListKind::Templates],
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn every_list_is_announced_by_the_notification_of_its_topic() {
        for kind in ListKind::ALL {
            let topic = Topic::announced_by(Topic::of(kind).notification()).unwrap();
            assert!(topic.lists().contains(&kind), "{kind:?}");
        }
        assert_eq!(Topic::announced_by("notifications/roots/list_changed"), None);
    }
}
