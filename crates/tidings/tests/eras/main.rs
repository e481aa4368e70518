//! Both eras on both sides: who is let in and how, what each revision is shown, and which errors it gets.

mod admission;
mod apps;
mod batches;
mod errors;
mod header_mirror;
mod introductions;
mod logging;
mod passthrough;
mod principals;
mod probing;
mod skills;
#[path = "../tasks/crossed.rs"]
mod task_crossed;
#[path = "../tasks/followed.rs"]
mod task_followed;
#[path = "../tasks/jobs.rs"]
mod task_jobs;
#[path = "../tasks/listened.rs"]
mod task_listened;
#[path = "../tasks/principals.rs"]
mod task_principals;
#[path = "../tasks/proxied.rs"]
mod task_proxied;
mod views;

use tidings_testkit::{Client, Gateway, LEGACY, V2026_07_28};

/// A client of each revision, oldest first.
async fn every_revision(gateway: &Gateway) -> Vec<Client> {
    let mut clients = Vec::new();
    for revision in LEGACY.into_iter().chain([V2026_07_28]) {
        clients.push(gateway.client().revision(revision).connect().await);
    }
    clients
}
