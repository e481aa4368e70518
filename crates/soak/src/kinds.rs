//! The four lists and the three notices about them.

use tidings_testkit::V2025_11_25;

/// One of the four lists, as the soak keeps its own truth of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SoakList {
    Tools,
    Prompts,
    Resources,
    Templates,
}

impl SoakList {
    pub(crate) const ALL: [Self; 4] = [Self::Tools, Self::Prompts, Self::Resources, Self::Templates];

    /// What [`tidings_testkit::Client::list`] calls it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Templates => "templates",
            other => other.member(),
        }
    }

    /// The member of the result.
    pub(crate) const fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }

    pub(crate) const fn method(self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Prompts => "prompts/list",
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
        }
    }

    /// The member that tells one item from the other.
    pub(crate) const fn key(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
        }
    }

    pub(crate) const fn topic(self) -> SoakTopic {
        match self {
            Self::Tools => SoakTopic::Tools,
            Self::Prompts => SoakTopic::Prompts,
            Self::Resources | Self::Templates => SoakTopic::Resources,
        }
    }
}

/// What a notice is about. Notices that go out together come in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SoakTopic {
    Tools,
    Prompts,
    Resources,
}

impl SoakTopic {
    pub(crate) const ALL: [Self; 3] = [Self::Tools, Self::Prompts, Self::Resources];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
        }
    }

    /// The topic that a notification is about.
    pub(crate) fn of_notice(method: &str) -> Option<Self> {
        let name = method.strip_prefix("notifications/")?.strip_suffix("/list_changed")?;
        Self::ALL.into_iter().find(|topic| topic.name() == name)
    }

    pub(crate) fn kinds(self) -> impl Iterator<Item = SoakList> {
        SoakList::ALL.into_iter().filter(move |kind| kind.topic() == self)
    }
}

/// How much of a definition a client sees, as far as the definitions made here differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DefinitionView {
    /// Without icons: revisions before 2025-11-25.
    Plain,
    /// All of it.
    Whole,
}

impl DefinitionView {
    pub(crate) const ALL: [Self; 2] = [Self::Plain, Self::Whole];

    pub(crate) fn of(revision: &str) -> Self {
        if revision < V2025_11_25 { Self::Plain } else { Self::Whole }
    }
}
