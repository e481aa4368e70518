//! What the examination of each `[watch.X]` found.

use tidings_config::{Config, WatchConfig};
use tidings_watch::{WatchFinding, WatchVerdict, examine_watch};

use super::finding::DoctorFinding;

pub(super) async fn findings(config: &Config) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    for watch in &config.watches {
        let about = format!("watch {}", watch.id);
        if let Some(labels) = lacking(config, watch) {
            // What it is about may not be there at all on this machine, and need not be.
            let what =
                format!("is looked at by replicas that have {labels} in `labels` of [cluster]; this one has not");
            findings.push(DoctorFinding::note(&about, what, "run `tidings doctor` on the machine of one that has"));
            continue;
        }
        findings.extend(examine_watch(watch).await.into_iter().map(|found| finding(&about, found)));
    }
    findings
}

/// The labels that this replica would need to look at a watch.
fn lacking(config: &Config, watch: &WatchConfig) -> Option<String> {
    let has = &config.cluster.as_ref()?.labels;
    let lacking: Vec<String> =
        watch.placement.iter().filter(|label| !has.contains(label)).map(|label| format!("\"{label}\"")).collect();
    (!lacking.is_empty()).then(|| lacking.join(", "))
}

fn finding(about: &str, found: WatchFinding) -> DoctorFinding {
    let WatchFinding { verdict, what, sql } = found;
    let finding = match verdict {
        WatchVerdict::Fine => DoctorFinding::fine(about, what),
        WatchVerdict::Note { remedy } => DoctorFinding::note(about, what, remedy),
        WatchVerdict::Problem { remedy } => DoctorFinding::problem(about, what, remedy),
    };
    finding.with_sql(sql)
}
