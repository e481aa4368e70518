//! The URLs that are told of changes, as `/status` and the metrics show them.

use serde_json::{Value, json};
use tidings_outbound_hooks::{DeliveryState, HookStatus, OutboundHooks};

use crate::metrics_text::MetricsText;

/// Each with how it stands, in the order of the configuration. Neither secrets nor paths of URLs are in it.
pub(crate) fn describe(hooks: Option<&OutboundHooks>) -> Vec<Value> {
    let one = |hook: &HookStatus| {
        json!({
            "name": hook.shown,
            "state": hook.state.as_str(),
            "pending": hook.pending,
            "seq": hook.cursor,
            "delivered": hook.delivered,
            "failed": hook.failed,
            "given_up": hook.given_up,
            "error": hook.error,
            "next_try": hook.next_try.map(|millis| millis / 1_000),
        })
    };
    hooks.map(OutboundHooks::statuses).unwrap_or_default().iter().map(one).collect()
}

pub(crate) fn measures(out: &mut MetricsText, hooks: Option<&OutboundHooks>) {
    let hooks = hooks.map(OutboundHooks::statuses).unwrap_or_default();
    if hooks.is_empty() {
        return;
    }
    type HookNumber = fn(&HookStatus) -> u64;
    let families: [(&str, &str, &str, HookNumber); 5] = [
        ("tidings_notify_delivered_total", "counter", "Changes that a URL of [[notify]] took.", |hook| hook.delivered),
        ("tidings_notify_failed_total", "counter", "Tries to tell a URL of [[notify]] that came to nothing.", |hook| {
            hook.failed
        }),
        (
            "tidings_notify_given_up_total",
            "counter",
            "Changes that a URL of [[notify]] was never told, after three days of trying or because the log no longer had them.",
            |hook| hook.given_up,
        ),
        ("tidings_notify_pending", "gauge", "Changes that wait to be told to a URL of [[notify]].", |hook| {
            hook.pending as u64
        }),
        (
            "tidings_notify_disabled",
            "gauge",
            "1 if a URL of [[notify]] answered 410 and is told nothing more.",
            |hook| u64::from(hook.state == DeliveryState::Disabled),
        ),
    ];
    for (name, kind, help, value) in families {
        out.family(name, kind, help);
        for hook in &hooks {
            out.sample(name, &[("hook", &hook.shown)], value(hook));
        }
    }
}
