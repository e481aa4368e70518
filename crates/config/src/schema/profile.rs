//! `[clients.X]`, for editors.

use schemars::JsonSchema;

use super::ExposeSchema;

/// What is said about a client, by what it calls itself (`clientInfo.name`). Each key overrides what is known of it; see docs/clients.md.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "Client")]
pub(super) struct ClientSchema {
    /// The versions that are meant, such as "<1" or ">=2.1, <3". Absent: all.
    version: Option<String>,
    /// What the gateway is called in the client's own configuration, where that is not "tidings": clients put it before each name.
    r#as: Option<String>,
    /// How long the name of a tool may be, in bytes, without what the client puts before it. Longer ones are cut and hashed.
    #[schemars(range(min = 16, max = 1024))]
    name_budget: Option<u32>,
    /// Whether it reads a list to the end; one: it gets everything on one page.
    pages: Option<PagesSchema>,
    /// The notices that it hears: it is told of these lists also where `notifications.suppress` silences its revision.
    hears: Option<Vec<HearsSchema>>,
    /// Which tools are listed for it, where that is not what [gateway] says.
    expose: Option<ExposeSchema>,
    /// What its view has none of: references, combinators at the top of an input schema, output schemas that are no objects.
    schema: Option<Vec<SchemaRuleSchema>>,
    /// Whether the result of a call says once, for each change, that the client's list of tools is old; absent: as [gateway] says.
    hint: Option<bool>,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[schemars(rename = "Pages")]
enum PagesSchema {
    Follow,
    One,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[schemars(rename = "Hears")]
enum HearsSchema {
    Tools,
    Prompts,
    Resources,
    Updated,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
#[schemars(rename = "SchemaRule")]
enum SchemaRuleSchema {
    InlineRefs,
    NoTopCombinators,
    ObjectOutput,
}
