//! A line on standard error that says what is waited for, when it takes long.

use std::pin::pin;
use std::time::Duration;

/// How long nothing is said.
const QUIET: Duration = Duration::from_secs(2);

/// Does something; after a while, says once what is waited for.
pub(in crate::commands) async fn showing<T>(what: &str, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    match tokio::time::timeout(QUIET, &mut work).await {
        Ok(done) => done,
        Err(_) => {
            eprintln!("{what}");
            work.await
        }
    }
}
