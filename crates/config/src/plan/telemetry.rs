//! `[telemetry]`: where traces and measures are sent.

use std::fmt;

use crate::redact::without_secrets;

/// Where traces and measures are sent. What is absent may be said by variables of OpenTelemetry.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct TelemetrySettings {
    /// A collector that speaks OTLP over HTTP, without `/v1/traces`.
    pub otlp: Option<String>,
    /// Headers of every request to it, which are keys as a rule.
    pub headers: Vec<(String, String)>,
    /// What the gateway is called there.
    pub service_name: Option<String>,
}

impl fmt::Debug for TelemetrySettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("TelemetrySettings")
            .field("otlp", &self.otlp.as_deref().map(without_secrets))
            .field("headers", &headers)
            .field("service_name", &self.service_name)
            .finish()
    }
}
