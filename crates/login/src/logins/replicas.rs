//! The logins of a replica: what the log of its cluster says of grants, and where logins that were begun live.
//!
//! A login under way stays in the process where it was begun. That process stands in its ticket and in the `state` that the provider gives back, so
//! whichever replica a browser reaches can pass it on; what makes them single use, and whose browser it is, is decided in one place.

use std::sync::Arc;

use super::Logins;
use crate::authorization::{fresh_secret, state_of};
use crate::shared_grants::GrantLog;

/// Where a browser comes with a ticket.
const CONNECT: &str = "/connect/";
/// Where it comes back to.
const RETURNS: [&str; 2] = ["/oauth/callback", "/oauth/whoami"];

impl Logins {
    /// From now on grants are written there, and followed.
    pub fn attach_log(&self, log: Arc<dyn GrantLog>) {
        if let Some(shared) = &self.0.tools.shared {
            shared.attach(log);
        }
    }

    /// The log says this of a grant: a value with its number, or nothing any more. In the order of the log.
    pub fn told(&self, subject: &str, value: Option<(u64, &[u8])>) {
        let Some(told) = self.0.tools.shared.as_ref().and_then(|shared| shared.told(subject, value)) else { return };
        // Whoever logs in or out here has it connected anew, and hears how that went.
        if told.is_own {
            return;
        }
        let server = told.about.server.clone();
        let connecting = match &told.about.person {
            // Also without a keeper here: whether anybody is logged in is shown.
            Some(person) if told.is_other => {
                self.0.person_moved.get().map(|moved| moved(server, person.clone(), false))
            }
            None if told.has_moved => self.0.reconnect.get().map(|reconnect| reconnect(server)),
            _ => None,
        };
        if let Some(connecting) = connecting {
            self.0.tools.tasks.spawn(async move {
                if let Err(reason) = connecting.await {
                    tracing::debug!(reason, "a server was not connected after a login at another replica");
                }
            });
        }
    }

    /// A secret for a browser, with the process that knows it.
    pub(super) fn fresh_ticket(&self) -> String {
        match self.0.tools.shared.as_ref().and_then(|shared| shared.process()) {
            Some(process) => format!("{}.{process:016x}", fresh_secret()),
            None => fresh_secret(),
        }
    }

    /// Whether logins can be begun: what comes of them is told to all replicas.
    pub(super) async fn is_connected(&self) -> bool {
        match &self.0.tools.shared {
            Some(shared) => shared.confirm().await,
            None => true,
        }
    }

    /// The process in which the login lives that a browser comes with.
    pub fn home_of(path: &str, query: Option<&str>) -> Option<u64> {
        let ticket = match path.strip_prefix(CONNECT) {
            Some(ticket) => ticket.to_owned(),
            None if RETURNS.contains(&path) => state_of(query?)?,
            None => return None,
        };
        u64::from_str_radix(ticket.rsplit_once('.')?.1, 16).ok()
    }
}
