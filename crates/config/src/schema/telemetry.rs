//! `[telemetry]`, for editors.

use std::collections::BTreeMap;

use schemars::JsonSchema;

/// Where traces and measures are sent. Absent: nowhere, unless `OTEL_EXPORTER_OTLP_ENDPOINT` says so. See docs/telemetry.md.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "Telemetry")]
pub(super) struct TelemetrySchema {
    /// The URL of a collector that speaks OTLP over HTTP, such as "http://localhost:4318"; `/v1/traces` and `/v1/metrics` are added to it.
    otlp: Option<String>,
    /// Headers of every request to it, such as a key, best as `${env:NAME}`.
    headers: Option<BTreeMap<String, String>>,
    /// What the gateway is called there: `service.name`.
    #[schemars(extend("default" = "tidings"))]
    service_name: Option<String>,
}
