//! Whether each `[[notify]]` can be reached, and what a running gateway says of it.

use serde_json::Value;
use tidings_config::{Config, NotifySettings};
use tidings_outbound_hooks::probe;

use super::finding::DoctorFinding;
use crate::backend;
use crate::data::RunningGateway;

pub(super) async fn findings(config: &Config, running: Option<&RunningGateway>) -> Vec<DoctorFinding> {
    if config.notify.is_empty() {
        return Vec::new();
    }
    let status = match running {
        Some(running) => backend::api(running, "status").await.ok(),
        None => None,
    };
    let known = |hook: &NotifySettings| {
        let hooks = status.as_ref()?["notify"].as_array()?;
        hooks.iter().find(|known| known["name"].as_str() == Some(hook.shown().as_str())).cloned()
    };
    let mut findings = Vec::new();
    for hook in &config.notify {
        let about = format!("notify {}", hook.shown());
        findings.push(match (known(hook), probe(hook).await) {
            (Some(known), _) if known["state"] == "disabled" => DoctorFinding::problem(
                about,
                "answered 410 (gone), so it is told of nothing more",
                "change its url or secret, or remove this [[notify]]",
            ),
            (known, Err(fault)) => {
                let waiting = known.as_ref().and_then(|known| known["pending"].as_u64()).unwrap_or_default();
                let waiting = if waiting > 0 { format!("; {waiting} changes wait") } else { String::new() };
                let remedy =
                    "start the receiver, or correct `url`; for a name of the private network set private = true";
                DoctorFinding::problem(about, format!("can not be reached: {fault}{waiting}"), remedy)
            }
            (Some(known), Ok(_)) if known["state"] == "retrying" => {
                let error = known["error"].as_str().unwrap_or("it does not take what it is told");
                let what = format!("can be reached, but {error}; {} changes wait", number(&known, "pending"));
                DoctorFinding::problem(
                    about,
                    what,
                    "look at what the receiver says; a wrong secret is answered 401 or 403",
                )
            }
            (Some(known), Ok(_)) => {
                DoctorFinding::fine(about, format!("can be reached; {} delivered", number(&known, "delivered")))
            }
            (None, Ok(_)) => DoctorFinding::fine(about, "can be reached"),
        });
    }
    findings
}

fn number(known: &Value, key: &str) -> u64 {
    known[key].as_u64().unwrap_or_default()
}
