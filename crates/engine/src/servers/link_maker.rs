//! What finding a link asks of whoever can make one.

use std::sync::Arc;

use tidings_hub::ServerId;
use tidings_hub::own_links::OwnLinkAttempt;

use crate::servers::own_link_table::OwnLinkUser;
use crate::servers::server::Server;
use crate::servers::server_links::CompanionAttempt;

/// Makes links in tasks of their own: whoever gives up waiting ends nothing. Must not block. How it went is read in the tables where
/// the link was looked for.
pub(crate) trait LinkMaker: Send + Sync {
    /// A link that somebody has for itself.
    fn make_own_link(self: Arc<Self>, user: OwnLinkUser, server: Arc<Server>, attempt: OwnLinkAttempt);

    /// Closes a link of a person to a server that is not in use, because another person needs one. Says whether there was any.
    fn make_room(self: Arc<Self>, server: ServerId) -> bool;

    /// The legacy link beside the modern one.
    fn make_companion(self: Arc<Self>, server: Arc<Server>, attempt: CompanionAttempt);
}
