//! The four lists, and for each the words by which the protocol calls it: method, member, key.

/// A list that servers offer and clients page through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ListKind {
    /// What `tools/list` gives, by name.
    Tools,
    /// What `prompts/list` gives, by name.
    Prompts,
    /// What `resources/list` gives, by URI.
    Resources,
    /// Resource templates. Their changes are announced as changes of the resources.
    Templates,
}

impl ListKind {
    /// All four, in the order of their numbers: `kind as usize` is a place in an array.
    pub const ALL: [Self; 4] = [Self::Tools, Self::Prompts, Self::Resources, Self::Templates];

    /// The method that lists it.
    pub const fn method(self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Prompts => "prompts/list",
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
        }
    }

    /// The member of the result that holds the items.
    pub const fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }

    /// The member of an item that identifies it.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
        }
    }

    /// The server capability without which it is not asked for.
    pub const fn capability(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources | Self::Templates => "resources",
        }
    }

    /// Whether items are identified by a URI.
    pub const fn by_uri(self) -> bool {
        matches!(self, Self::Resources | Self::Templates)
    }
}
