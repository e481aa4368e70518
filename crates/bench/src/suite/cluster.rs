//! Cases 31 to 38: several replicas on a NATS server. Without `nats-server` they are left out, and that is said.

mod deaths;
mod fleet;
mod forwarded;
mod joins;
mod notices;
mod outages;

use tidings_testkit::NatsServer;

use super::BenchContext;
use crate::report::ReportRow;

/// The rows of those cases that are wanted.
pub(super) async fn rows(bench: &BenchContext, wanted: impl Fn(u8) -> bool) -> Vec<ReportRow> {
    let mut rows = Vec::new();
    if !(31..=38).any(&wanted) {
        return rows;
    }
    if NatsServer::start().is_none() {
        eprintln!("cases 31 to 38 are left out: they need nats-server, which `cargo xtask peers` installs");
        return rows;
    }
    if wanted(31) {
        rows.extend(forwarded::small(bench).await);
    }
    if wanted(32) {
        rows.push(forwarded::large(bench).await);
    }
    if wanted(33) {
        rows.push(notices::delivery(bench).await);
    }
    if wanted(34) {
        rows.push(notices::stale(bench).await);
    }
    if wanted(35) {
        rows.extend(deaths::rows(bench).await);
    }
    if wanted(36) {
        rows.extend(outages::restart(bench).await);
    }
    if wanted(37) {
        rows.push(outages::partition(bench).await);
    }
    if wanted(38) {
        rows.push(joins::long_log(bench).await);
    }
    rows
}
