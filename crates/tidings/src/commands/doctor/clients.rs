//! What known clients are shown otherwise than everybody, and whether it fits them.

use serde_json::{Value, json};
use tidings_config::Config;
use tidings_hub::client_profile::{ClientProfile, ClientProfiles, ToolExposure};

use super::finding::DoctorFinding;
use crate::backend::Backend;
use crate::client_profiles;
use crate::commands::terminal::plural;

/// Above every version of a client: older ones are shown less, and are not what somebody would install.
const NEWEST: &str = "999999";

pub(super) async fn findings(backend: &Backend, config: Option<&Config>) -> Vec<DoctorFinding> {
    let profiles = config.map_or_else(|| ClientProfiles::new(&[]), client_profiles::of);
    let mut known: Vec<&ClientProfile> = Vec::new();
    for (range, profile) in profiles.all() {
        if range.includes(Some(NEWEST)) && !known.iter().any(|other| other.client == profile.client) {
            known.push(profile);
        }
    }
    let mut findings = Vec::new();
    for profile in known {
        // One that is shown what everybody is can not be shown it wrongly, unless it is too much.
        if profile.shape.is_none() && profile.most_tools.is_none() {
            continue;
        }
        let info = json!({ "name": &*profile.client, "version": NEWEST });
        let Ok(tools) = backend.tools_seen_by(&info).await else { continue };
        findings.extend(changed(profile, &tools));
        findings.extend(too_many(profile, tools.len()));
    }
    findings
}

fn about(profile: &ClientProfile) -> String {
    format!("client {}", profile.client)
}

fn changed(profile: &ClientProfile, tools: &[Value]) -> Option<DoctorFinding> {
    let count = tools.iter().filter(|tool| !client_profiles::changes(tool).is_empty()).count();
    if count == 0 {
        return None;
    }
    let (tools, client) = (plural(tools.len() as u64, "tool"), &profile.client);
    let hears: Vec<&str> = profile.hears.words().collect();
    let hears = if hears.is_empty() { "nothing".to_owned() } else { hears.join(", ") };
    let what = format!(
        "{count} of {tools} are shown in a form that it takes (`tidings tools --as \"{client}\"`); it hears {hears}"
    );
    Some(DoctorFinding::fine(about(profile), what))
}

fn too_many(profile: &ClientProfile, tools: usize) -> Option<DoctorFinding> {
    let most = profile.most_tools.filter(|most| tools > *most)?;
    // Who chose to see all of them knows.
    if profile.shape.as_ref().is_some_and(|shape| shape.expose == Some(ToolExposure::All)) {
        return None;
    }
    let what = format!("takes {most} tools in a request, and there are {tools}");
    let remedy = format!("let it search for them: [clients.\"{}\"] expose = \"search\"", profile.client);
    Some(DoctorFinding::note(about(profile), what, remedy))
}
