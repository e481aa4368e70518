//! `[audit]`.

use crate::plan::audit::AuditSettings;
use crate::read::TableSection;

pub(super) fn audit(mut section: TableSection<'_, '_>) -> AuditSettings {
    let default = AuditSettings::default();
    let enabled = section.boolean("enabled").unwrap_or(default.enabled);
    let arguments = section.boolean("arguments").unwrap_or(default.arguments);
    let keep = section.positive_duration("keep").unwrap_or(default.keep);
    let max_records = section.integer("max_records", 1_000, 100_000_000).and_then(|count| u64::try_from(count).ok());
    let mut path = |key| section.text(key).map(|path| section.reading.expander.path(&path));
    let (file, syslog) = (path("file"), path("syslog"));
    section.finish();
    AuditSettings { enabled, arguments, keep, max_records: max_records.unwrap_or(default.max_records), file, syslog }
}
