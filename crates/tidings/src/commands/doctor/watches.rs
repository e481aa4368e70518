//! What the examination of each `[watch.X]` found.

use tidings_config::Config;
use tidings_watch::{WatchFinding, WatchVerdict, examine_watch};

use super::finding::DoctorFinding;

pub(super) async fn findings(config: &Config) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    for watch in &config.watches {
        let about = format!("watch {}", watch.id);
        findings.extend(examine_watch(watch).await.into_iter().map(|found| finding(&about, found)));
    }
    findings
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
