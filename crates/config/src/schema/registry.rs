//! `[[registry]]`, and `release` of `[servers.X]`.

use std::collections::BTreeMap;

use schemars::JsonSchema;

use crate::span::SpanSchema;

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "Registry")]
pub(super) struct RegistrySchema {
    /// The name of the source, by which it can be chosen and refreshed.
    name: String,
    /// Where the API is, such as "https://registry.modelcontextprotocol.io".
    url: String,
    /// HTTP headers to send with every request, best as `${env:NAME}` or `${file:PATH}`.
    headers: Option<BTreeMap<String, String>>,
    /// How often it is asked what is new. Never at the start of the gateway.
    #[schemars(extend("default" = "1h"))]
    refresh: Option<SpanSchema>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "Release")]
pub(super) struct ReleaseSchema {
    /// The version of the entry.
    version: String,
    /// Which of the ways to run it: npm, pypi, nuget, oci, mcpb, streamable-http or sse.
    kind: String,
    /// The digest of what runs, where there is one.
    digest: Option<String>,
    /// What was given for what the entry asks for, by name. Secrets are references.
    inputs: Option<BTreeMap<String, String>>,
    /// Arguments after those of the entry.
    args: Option<Vec<String>>,
}
