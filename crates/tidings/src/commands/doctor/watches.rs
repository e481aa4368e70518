//! What the examination of each `[watch.X]` found.

use tidings_config::Config;
use tidings_watch::{WatchFinding, WatchVerdict, examine_watch};

use super::finding::Finding;

pub(super) async fn findings(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    for watch in &config.watches {
        let about = format!("watch {}", watch.id);
        findings.extend(examine_watch(watch).await.into_iter().map(|found| finding(&about, found)));
    }
    findings
}

fn finding(about: &str, found: WatchFinding) -> Finding {
    let WatchFinding { verdict, what, sql } = found;
    let finding = match verdict {
        WatchVerdict::Fine => Finding::fine(about, what),
        WatchVerdict::Note { remedy } => Finding::note(about, what, remedy),
        WatchVerdict::Problem { remedy } => Finding::problem(about, what, remedy),
    };
    finding.with_sql(sql)
}
