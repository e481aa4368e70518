//! `[policy]`.

/// Who may have which items of which servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySettings {
    /// Whether what no rule names is permitted.
    pub allows_by_default: bool,
    /// Whether the rules hold, and are not only tried.
    pub enforced: bool,
    /// In any order.
    pub rules: Vec<PolicyRuleSettings>,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRuleSettings {
    /// What people call it.
    pub name: String,
    /// Whom it is about.
    pub who: Vec<String>,
    /// Whom it is not about all the same.
    pub except: Vec<String>,
    /// Whether it denies, and does not permit.
    pub denies: bool,
    /// Which items it is about, as `SERVER/NAME`.
    pub items: Vec<String>,
    /// Which kinds of them.
    pub kinds: PolicyKinds,
    /// What it permits or denies to do with them.
    pub to: PolicyVerbs,
    /// What tools have to say of themselves.
    pub hints: PolicyHints,
    /// A scope without which what it permits is in lists, and can not be used.
    pub scope: Option<String>,
}

/// Kinds of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyKinds {
    /// Tools.
    pub tools: bool,
    /// Prompts.
    pub prompts: bool,
    /// Resources and their templates.
    pub resources: bool,
}

/// What can be done with an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyVerbs {
    /// It is in lists.
    pub see: bool,
    /// It can be called, got, read and completed.
    pub r#use: bool,
    /// Its changes are told.
    pub follow: bool,
}

/// What a rule asks of what a tool says it does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PolicyHints {
    /// Whether it has to change nothing.
    pub read_only: Option<bool>,
    /// Whether it has to be one that may destroy something.
    pub destructive: Option<bool>,
    /// Whether it has to be one that can be repeated.
    pub idempotent: Option<bool>,
    /// Whether it has to reach beyond its server.
    pub open_world: Option<bool>,
}
