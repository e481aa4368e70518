//! What is known of the clients people use, and what follows from it for what they are shown.
//!
//! A profile belongs to clients by what they call themselves (`clientInfo`). It never changes what a tool does or what may be
//! called: it shortens names, widens schemas, leaves out schemas of results, says how long a page is, and which notices are heard. A
//! client that is not known has no profile, and nothing here is done for it.
//!
//! Belongs here: which profile a client has, and the shaping of one name or one tool. How a whole catalogue is shaped, and kept so, is
//! in `catalogue/shaped.rs`.

mod built_in;
mod inline_refs;
mod json_tree;
mod shaped_tool;
mod short_name;
mod top_combinators;
mod version_range;

use std::collections::HashMap;
use std::sync::Arc;

use crate::ledger::{Topic, Topics};

pub use shaped_tool::VIEW_META;
pub(crate) use shaped_tool::{ShapedTool, touches};
pub(crate) use short_name::{short_name, short_name_stem};
pub use version_range::{VersionRange, VersionRangeFault};

/// The name that `tidings connect` gives the gateway in the files of clients, unless it is told another.
const REGISTERED_AS: &str = "tidings";
/// The shortest names that a budget may ask for: a hash, and enough to tell what it is of.
pub const LEAST_BUDGET: usize = 16;

/// What is known of one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientProfile {
    /// What it calls itself.
    pub client: Arc<str>,
    /// How it reads lists.
    pub pages: PageReading,
    /// What it does something about when it is told.
    pub hears: HeardNotices,
    /// What its view is made into; `None` where it is everybody's.
    pub shape: Option<Arc<ViewShape>>,
    /// How many tools it takes, where it takes only some.
    pub most_tools: Option<usize>,
    /// Whether results of its calls say that its list of tools is old, where that is not as for everybody.
    pub hint: Option<bool>,
}

/// How a client reads a list that has several pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageReading {
    /// To the end.
    Follow,
    /// The first page only, or nobody knows: it gets everything on one.
    One,
}

/// The notices that a client is known to hear.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeardNotices {
    /// Changes of lists.
    pub lists: Topics,
    /// Changes of single resources.
    pub updated: bool,
}

impl HeardNotices {
    /// Every notice there is.
    pub const ALL: Self = Self { lists: Topics::ALL, updated: true };

    /// The words for them, as the configuration has them.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        self.lists.iter().map(Topic::as_str).chain(self.updated.then_some("updated"))
    }
}

/// What a view is made into. Two clients with equal shapes share one view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ViewShape {
    /// How long the name of a tool may be, in bytes.
    pub name_budget: Option<usize>,
    /// What must not be in schemas.
    pub schema: SchemaRules,
    /// Which tools are listed, where that is not what everybody else is shown.
    pub expose: Option<ToolExposure>,
}

/// What a client can not bear in the schemas of tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchemaRules {
    /// References: they are replaced by what they refer to.
    pub inline_refs: bool,
    /// `anyOf`, `oneOf` and `allOf` at the top of an input schema: it is widened until it has none.
    pub no_top_combinators: bool,
    /// An output schema whose root is no object: it is left out.
    pub object_output: bool,
}

impl SchemaRules {
    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// Which tools a list has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolExposure {
    /// All of them.
    All,
    /// Those that find and call others.
    Search,
    /// Both.
    Both,
}

/// What somebody says about a client; what is absent is as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfileOverride {
    /// What the client calls itself.
    pub client: String,
    /// The versions that are meant.
    pub version: VersionRange,
    /// What the gateway is called in the client's own configuration: clients put it before each name.
    pub registered_as: Option<String>,
    /// How long the name of a tool may be, in bytes, without what the client puts before it.
    pub name_budget: Option<usize>,
    /// How it reads lists.
    pub pages: Option<PageReading>,
    /// What it hears.
    pub hears: Option<HeardNotices>,
    /// Which tools are listed.
    pub expose: Option<ToolExposure>,
    /// What it can not bear in schemas.
    pub schema: Option<SchemaRules>,
    /// Whether results of its calls say that its list of tools is old.
    pub hint: Option<bool>,
}

/// How long names may be: so many bytes for the client's own words, the gateway's name and that of the tool together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NameLimit {
    /// The client takes any, or makes long ones short by itself.
    None,
    /// So many bytes for the name of the tool.
    Fixed(usize),
    /// So many bytes for the gateway's name and that of the tool.
    Shared(usize),
}

impl NameLimit {
    fn budget(self, registered_as: &str) -> Option<usize> {
        match self {
            Self::None => None,
            Self::Fixed(bytes) => Some(bytes),
            // However long the gateway is called: below the least, names could not be told apart.
            Self::Shared(bytes) => Some(bytes.saturating_sub(registered_as.len()).max(LEAST_BUDGET)),
        }
    }
}

/// A row of the table of what is known.
#[derive(Clone, Debug)]
struct ClientFacts {
    client: &'static str,
    version: VersionRange,
    names: NameLimit,
    pages: PageReading,
    hears: HeardNotices,
    schema: SchemaRules,
    most_tools: Option<usize>,
}

impl ClientFacts {
    /// What is known of a client that nobody knows: nothing.
    fn unknown() -> Self {
        Self {
            client: "",
            version: VersionRange::default(),
            names: NameLimit::None,
            pages: PageReading::Follow,
            hears: HeardNotices::default(),
            schema: SchemaRules::default(),
            most_tools: None,
        }
    }

    fn profile(&self, client: &str, over: &ProfileOverride) -> ClientProfile {
        let name_budget = over.name_budget.or_else(|| {
            let registered_as = over.registered_as.as_deref().unwrap_or(REGISTERED_AS);
            self.names.budget(registered_as)
        });
        let shape = ViewShape { name_budget, schema: over.schema.unwrap_or(self.schema), expose: over.expose };
        ClientProfile {
            client: client.into(),
            pages: over.pages.unwrap_or(self.pages),
            hears: over.hears.unwrap_or(self.hears),
            // A shape that changes nothing would still cost a view of its own.
            shape: (shape != ViewShape::default()).then(|| Arc::new(shape)),
            most_tools: self.most_tools,
            hint: over.hint,
        }
    }
}

/// The profiles of all clients that have one.
#[derive(Clone, Debug, Default)]
pub struct ClientProfiles {
    /// For each name the profiles by version; the first that fits counts.
    by_name: HashMap<Box<str>, Vec<(VersionRange, Arc<ClientProfile>)>>,
}

impl ClientProfiles {
    /// What is known by itself, and what somebody says about it.
    pub fn new(overrides: &[ProfileOverride]) -> Self {
        let known = built_in::known_clients();
        let mut by_name: HashMap<Box<str>, Vec<(VersionRange, Arc<ClientProfile>)>> = HashMap::new();
        for over in overrides {
            let rows = known.iter().filter(|row| row.client == over.client);
            let rows: Vec<ClientFacts> = rows.cloned().collect();
            let rows = if rows.is_empty() { vec![ClientFacts::unknown()] } else { rows };
            // Before what is known by itself: it counts for the versions that are meant.
            let mine =
                rows.iter().map(|row| (over.version.and(&row.version), Arc::new(row.profile(&over.client, over))));
            by_name.entry(over.client.as_str().into()).or_default().extend(mine);
        }
        for row in &known {
            let profile = Arc::new(row.profile(row.client, &ProfileOverride::default()));
            by_name.entry(row.client.into()).or_default().push((row.version.clone(), profile));
        }
        Self { by_name }
    }

    /// The profile of a client, by what it calls itself. `version` is asked only where versions differ.
    #[inline]
    pub fn of<'a>(
        &self,
        name: &str,
        version: impl FnOnce() -> Option<std::borrow::Cow<'a, str>>,
    ) -> Option<&Arc<ClientProfile>> {
        let rows = self.by_name.get(name)?;
        if let Some((range, profile)) = rows.first()
            && range.is_everything()
        {
            return Some(profile);
        }
        let version = version();
        rows.iter().find(|(range, _)| range.includes(version.as_deref())).map(|(_, profile)| profile)
    }

    /// Each profile once, with the versions that it is for; by name.
    pub fn all(&self) -> Vec<(&VersionRange, &Arc<ClientProfile>)> {
        let mut all: Vec<_> = self.by_name.values().flatten().map(|(range, profile)| (range, profile)).collect();
        all.sort_by(|a, b| a.1.client.cmp(&b.1.client));
        all
    }

    /// Whether results of the calls of some client say that its list is old, though those of others may not.
    pub fn hint(&self) -> bool {
        self.by_name.values().flatten().any(|(_, profile)| profile.hint == Some(true))
    }

    /// Whether somebody is to find tools by searching.
    pub fn search(&self) -> bool {
        let exposes = self.by_name.values().flatten().filter_map(|(_, profile)| profile.shape.as_ref()?.expose);
        exposes.into_iter().any(|expose| expose != ToolExposure::All)
    }
}
