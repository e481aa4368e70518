//! What this crate asks of whoever knows the people of the gateway: whose a token is, and whose a browser.

use std::sync::Arc;

use futures_util::future::BoxFuture;

/// Somebody who opens the page of a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TicketAsker {
    /// The principal.
    pub name: String,
    /// Whether they may log in for all.
    pub is_admin: bool,
}

/// A provider that can say whose a browser is, and the client that the gateway is to it.
#[derive(Clone, PartialEq, Eq)]
pub struct PersonProvider {
    /// The provider.
    pub issuer: String,
    /// The client.
    pub client_id: String,
    /// Its secret, if it has one.
    pub client_secret: Option<String>,
}

impl std::fmt::Debug for PersonProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PersonProvider").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

/// Knows the people of the gateway.
pub trait PeopleDoor: Send + Sync {
    /// Whose a token of the gateway is.
    fn by_token(&self, token: &str) -> Option<TicketAsker>;

    /// The provider that can say whether a browser is this person's; `None` where they have to show their token.
    fn provider_of(&self, person: &str) -> Option<PersonProvider>;

    /// Whom an ID token is about that a provider gave to the gateway, for the request with this number; or why it says nothing.
    fn by_identity<'d>(
        &'d self,
        issuer: &'d str,
        id_token: &'d str,
        nonce: &'d str,
    ) -> BoxFuture<'d, Result<TicketAsker, String>>;
}

/// Who knows them; `None` where nobody is asked, because there is one person.
pub type AskerDoor = Option<Arc<dyn PeopleDoor>>;
