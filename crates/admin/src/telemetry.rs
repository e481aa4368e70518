//! How the export of traces and measures goes, as `/status` and the metrics show it.

use serde_json::{Value, json};
use tidings_telemetry::{CollectorState, Telemetry, TelemetryStatus};

use crate::metrics_text::MetricsText;

/// `null` where nothing is sent.
pub(crate) fn describe(telemetry: Option<&Telemetry>) -> Value {
    let Some(TelemetryStatus { endpoint, state, error, exported, failed, dropped, queued }) =
        telemetry.map(Telemetry::status)
    else {
        return Value::Null;
    };
    json!({
        "endpoint": endpoint,
        "state": state.as_str(),
        "error": error,
        "exported": exported,
        "failed": failed,
        "dropped": dropped,
        "queued": queued,
    })
}

pub(crate) fn measures(out: &mut MetricsText, telemetry: Option<&Telemetry>) {
    let Some(status) = telemetry.map(Telemetry::status) else { return };
    let families = [
        ("tidings_telemetry_spans_sent_total", "counter", "Spans that the collector took.", status.exported),
        (
            "tidings_telemetry_spans_dropped_total",
            "counter",
            "Spans that were dropped, because too many waited or the collector refused them.",
            status.dropped,
        ),
        ("tidings_telemetry_spans_waiting", "gauge", "Spans that wait to be sent.", status.queued as u64),
        ("tidings_telemetry_failed_total", "counter", "Requests to the collector that came to nothing.", status.failed),
        (
            "tidings_telemetry_up",
            "gauge",
            "1 if the collector took what it was sent last, or was sent nothing yet.",
            u64::from(status.state == CollectorState::Fine),
        ),
    ];
    for (name, kind, help, value) in families {
        out.family(name, kind, help);
        out.sample(name, &[], value);
    }
}
