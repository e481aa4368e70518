//! `[quotas]`.

use crate::plan::quotas::QuotaSettings;
use crate::read::TableSection;

/// More than any machine could serve.
const MOST: i64 = 10_000_000;
/// A tebibyte, in MiB.
const MOST_MIB: i64 = 1 << 20;

pub(super) fn quotas(mut section: TableSection<'_, '_>) -> QuotaSettings {
    let default = QuotaSettings::default();
    let mut number = |key, most| section.integer(key, 1, most).and_then(|number| usize::try_from(number).ok());
    let (calls, listens, sessions) = (number("calls", MOST), number("listens", MOST), number("sessions", MOST));
    let subscriptions = number("subscriptions", MOST);
    let message_mib = number("message_mib", MOST_MIB);
    section.finish();
    QuotaSettings {
        calls: calls.unwrap_or(default.calls),
        listens: listens.unwrap_or(default.listens),
        sessions: sessions.unwrap_or(default.sessions),
        subscriptions: subscriptions.unwrap_or(default.subscriptions),
        message_mib: message_mib.unwrap_or(default.message_mib),
    }
}
