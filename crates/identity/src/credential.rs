//! What a token stands for, and until when.

use std::fmt;
use std::time::SystemTime;

use tidings_engine::Principal;
use tokio_util::sync::CancellationToken;

/// Somebody's token that was found good.
pub struct Credential {
    /// Whose it is.
    pub principal: Principal,
    /// Until when it is good.
    pub(crate) until: Option<SystemTime>,
    /// Rings when it is taken back.
    pub(crate) ended: CancellationToken,
}

impl Credential {
    /// Whether its end has not come. One that was taken back is known to no authenticator any longer.
    pub(crate) fn is_good(&self) -> bool {
        // A token without an end costs no look at the clock.
        self.until.is_none_or(|until| SystemTime::now() < until)
    }

    /// Returns when it is good no longer: streams that it opened end then.
    pub async fn over(&self) {
        let late = async {
            // The time of day may be set meanwhile: it is looked at again at least every minute.
            while let Some(left) = self.until.and_then(|until| until.duration_since(SystemTime::now()).ok()) {
                tokio::time::sleep(left.min(std::time::Duration::from_secs(60))).await;
            }
            if self.until.is_none() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = late => {}
            () = self.ended.cancelled() => {}
        }
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").field("principal", &self.principal.name).finish_non_exhaustive()
    }
}
