//! `/mcp/s/NAME`: one server alone, under its own names, as if it were the only one behind the gateway.
//!
//! What is checked before is as on `/mcp`, and so is all that comes after. Here is only what differs: which server a path means for
//! whoever asks, and that sessions end with their server. What is seen of one server alone is the hub's (`hub/catalogue/alone.rs`).

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::Body;
use http::Response;
use percent_encoding::percent_decode_str;
use tidings_engine::Principal;
use tidings_proto::code;
use tokio_util::sync::CancellationToken;

use super::body;
use super::endpoint::HttpEndpoint;

/// What stands before the name of the server.
pub(super) const ALONE: &str = "/mcp/s/";
/// How many servers are named to somebody who asks for one that is not there.
const NAMED: usize = 20;

/// Whether requests for this path are requests of clients.
pub(super) fn is_endpoint(path: &str) -> bool {
    path == "/mcp" || path.starts_with(ALONE)
}

impl HttpEndpoint {
    /// Who asks, at this path; the answer where it leads to no server of theirs.
    pub(super) fn at_path<'p>(
        &self,
        path: &str,
        principal: &'p Principal,
    ) -> Result<Cow<'p, Principal>, Box<Response<Body>>> {
        let Some(name) = path.strip_prefix(ALONE) else { return Ok(Cow::Borrowed(principal)) };
        // Names of servers may hold anything; what is no text names none.
        let name = percent_decode_str(name).decode_utf8().unwrap_or_default();
        let alone = self.gateway.alone_with(principal, &name);
        alone.map(Cow::Owned).ok_or_else(|| Box::new(self.no_such_server(principal)))
    }

    /// The same words for a server that is not there and for one that is not theirs: nobody finds out which there are.
    fn no_such_server(&self, principal: &Principal) -> Response<Body> {
        let mut servers = self.gateway.servers_for(principal);
        let more = servers.len().saturating_sub(NAMED);
        servers.truncate(NAMED);
        let theirs = match (servers.is_empty(), more) {
            (true, _) => "there is no server that you may use".to_owned(),
            (false, 0) => format!("those you may use are {}", servers.join(", ")),
            (false, more) => format!("those you may use are {} and {more} more", servers.join(", ")),
        };
        let text = format!("no server of this name is here for you; {theirs}; all together are at /mcp");
        body::error(404, None, code::INVALID_REQUEST, &text)
    }

    /// Ends the sessions that asked for one server alone, when it is there no longer: what their clients ask next is answered as for
    /// every session that is over.
    pub(super) async fn end_sessions_of_removed(self: Arc<Self>, closing: CancellationToken) {
        let mut catalogue = self.gateway.catalogue();
        loop {
            let changed = tokio::select! {
                changed = catalogue.changed() => changed,
                () = closing.cancelled() => return,
            };
            if changed.is_err() {
                return;
            }
            let known = Arc::clone(&catalogue.borrow_and_update());
            let is_gone =
                |principal: &Principal| principal.scope.alone().is_some_and(|server| !known.has_external(server));
            for session in self.sessions.take_out(is_gone) {
                self.end(&session);
            }
        }
    }
}
