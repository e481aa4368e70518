//! `[telemetry]`.

use crate::plan::telemetry::TelemetrySettings;
use crate::read::TableSection;
use crate::read::forms::{header_objection, http_url};

pub(super) fn telemetry(mut section: TableSection<'_, '_>) -> TelemetrySettings {
    let otlp = http_url(&mut section, "otlp");
    let headers = section.pairs("headers", header_objection);
    let service_name = section.text("service_name");
    section.finish();
    TelemetrySettings { otlp: otlp.map(|url| url.trim_end_matches('/').to_owned()), headers, service_name }
}
