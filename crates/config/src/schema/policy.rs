//! `[policy]`, for editors.

use schemars::JsonSchema;

/// Who may see, use and follow which items. A denial beats a permission, and the order of rules means nothing.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "Policy")]
pub(super) struct PolicySchema {
    /// What holds for what no rule names.
    #[schemars(extend("default" = "allow"))]
    default: Option<EffectSchema>,
    /// Whether the rules hold, or are only tried: "report" keeps nothing from anybody, and counts and records what would be kept.
    #[schemars(extend("default" = "enforce"))]
    mode: Option<ModeSchema>,
    /// The rules, in any order.
    rule: Option<Vec<PolicyRuleSchema>>,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[schemars(rename = "PolicyEffect")]
enum EffectSchema {
    Allow,
    Deny,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[schemars(rename = "PolicyMode")]
enum ModeSchema {
    Enforce,
    Report,
}

/// Each rule has either `allow` or `deny`.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "PolicyRule")]
struct PolicyRuleSchema {
    /// What the rule is called in records and by `tidings explain`; by default its place.
    name: Option<String>,
    /// Whom it is about: "*", "group:NAME", "scope:NAME", "token:NAME", "claim:NAME=VALUE".
    who: Vec<String>,
    /// Whom it is not about all the same.
    except: Option<Vec<String>>,
    /// What it permits: SERVER/NAME as the server spells the name or URI; `*` stands for any characters.
    allow: Option<Vec<String>>,
    /// What it denies, whatever else permits it.
    deny: Option<Vec<String>>,
    /// The kinds of items it is about; "resources" are also their templates. With one of the four keys below: tools.
    #[schemars(extend("default" = ["tools", "prompts", "resources"]))]
    kinds: Option<Vec<KindSchema>>,
    /// What it permits or denies: to be in lists; to call, get, read and complete; to be told of changes.
    #[schemars(extend("default" = ["see", "use", "follow"]))]
    to: Option<Vec<VerbSchema>>,
    /// Only tools that say they change nothing; false: only those that do not say so. Believed only with `annotations = "trust"` of the server.
    read_only: Option<bool>,
    /// Only tools that may destroy something, as all do that do not deny it; false: only those that deny it.
    destructive: Option<bool>,
    /// Only tools that say they can be repeated; false: only those that do not say so.
    idempotent: Option<bool>,
    /// Only tools that may reach beyond their server, as all do that do not deny it; false: only those that deny it.
    open_world: Option<bool>,
    /// A scope that tokens need to use what the rule permits: without it the items are in lists, and a call is refused with HTTP 403 and
    /// `insufficient_scope`, so that the client asks its provider for more. Only with `allow`.
    scope: Option<String>,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[schemars(rename = "PolicyKind")]
enum KindSchema {
    Tools,
    Prompts,
    Resources,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[schemars(rename = "PolicyVerb")]
enum VerbSchema {
    See,
    Use,
    Follow,
}
