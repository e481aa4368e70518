//! Whether traces and measures are sent, and where: the configuration and the environment say it.

use tidings_config::TelemetrySettings;
use tidings_telemetry::{ExportSettings, Telemetry};

/// Begins to send, where somebody wants that. What can not be sent keeps no gateway from starting.
pub(crate) fn start(configured: &TelemetrySettings) -> Option<Telemetry> {
    let (settings, warnings) = ExportSettings::read(configured, &|name| std::env::var(name).ok());
    warnings.iter().for_each(|warning| tracing::warn!("telemetry: {warning}"));
    let settings = settings?;
    let collector = settings.shown();
    match Telemetry::start(settings) {
        Ok(telemetry) => {
            tracing::info!(%collector, "traces and measures are sent");
            Some(telemetry)
        }
        Err(error) => {
            tracing::warn!(%collector, %error, "no telemetry is sent");
            None
        }
    }
}
