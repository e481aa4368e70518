//! `[limits]`, for editors.

use schemars::JsonSchema;

/// How often one person may use what. Each person is counted by themselves.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "Limits")]
pub(super) struct LimitsSchema {
    /// What each person may use of everything together.
    principal: Option<AmountsSchema>,
    /// Limits of single servers and items.
    rule: Option<Vec<LimitRuleSchema>>,
}

/// At least one of these.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "LimitAmounts")]
struct AmountsSchema {
    /// How many in a time, such as "10/s", "600/min", "100/h"; after a pause they may come at once.
    rate: Option<String>,
    /// How many at a time.
    #[schemars(range(min = 1, max = 1_000_000))]
    concurrent: Option<u32>,
    /// How many in a day (UTC). A restart of the gateway begins anew.
    #[schemars(range(min = 1))]
    per_day: Option<u64>,
}

/// Each has at least one of `rate`, `concurrent` and `per_day`.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "LimitRule")]
struct LimitRuleSchema {
    /// What the limit is called in refusals; by default its place.
    name: Option<String>,
    /// Whom it is about, as in [[policy.rule]].
    #[schemars(extend("default" = ["*"]))]
    who: Option<Vec<String>>,
    /// Whom it is not about all the same.
    except: Option<Vec<String>>,
    /// What it is about: SERVER/NAME as the server spells the name or URI; `*` stands for any characters. All of it is counted together.
    what: Vec<String>,
    /// How many in a time, such as "10/s", "600/min", "100/h"; after a pause they may come at once.
    rate: Option<String>,
    /// How many at a time.
    #[schemars(range(min = 1, max = 1_000_000))]
    concurrent: Option<u32>,
    /// How many in a day (UTC). A restart of the gateway begins anew.
    #[schemars(range(min = 1))]
    per_day: Option<u64>,
}
