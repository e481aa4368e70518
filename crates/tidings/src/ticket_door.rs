//! Who opens the page of a login: people by their tokens, and by what their provider says of a browser.

use futures_util::future::BoxFuture;
use tidings_engine::Principal;
use tidings_identity::{Admission, Authenticator};
use tidings_login::{PeopleDoor, PersonProvider, TicketAsker};

use crate::access::AccessControl;

pub(crate) struct TicketDoor {
    clients: Authenticator,
    admins: Authenticator,
}

impl TicketDoor {
    pub(crate) fn of(access: &AccessControl) -> Self {
        Self { clients: access.clients.clone(), admins: access.admins.clone() }
    }
}

impl PeopleDoor for TicketDoor {
    fn by_token(&self, token: &str) -> Option<TicketAsker> {
        let token = format!("Bearer {token}");
        // Tokens that are known already: a form in a browser asks no provider.
        let known =
            [&self.admins, &self.clients].into_iter().find_map(|door| match door.admit(Some(token.as_bytes())) {
                Admission::In(person) => Some(person),
                _ => None,
            });
        known.map(|person| asker(&person))
    }

    fn provider_of(&self, person: &str) -> Option<PersonProvider> {
        let (issuer, client) = self.clients.browser_client(person)?;
        Some(PersonProvider { issuer, client_id: client.id, client_secret: client.secret })
    }

    fn by_identity<'d>(
        &'d self,
        issuer: &'d str,
        id_token: &'d str,
        nonce: &'d str,
    ) -> BoxFuture<'d, Result<TicketAsker, String>> {
        Box::pin(async move {
            let known = self.clients.known_by(issuer, id_token, nonce).await;
            known.map(|person| asker(&person)).map_err(|refused| refused.to_string())
        })
    }
}

fn asker(person: &Principal) -> TicketAsker {
    TicketAsker { name: person.name.to_string(), is_admin: person.is_admin() }
}
