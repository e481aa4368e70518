//! What links and calls know of the login of one server.

use std::sync::Weak;

use futures_util::future::BoxFuture;
use tidings_upstream::{
    CredentialOwner, CredentialRefusal, CredentialRenewal, HeldCredential, PeopleLogins, SharedCredential,
};
use tokio::sync::watch;

use crate::keeper::Keeper;
use crate::logins::{Logins, LoginsShared};

/// The keeper of a server's grant, and the way to begin a login. Does not keep the logins alive: they keep it.
pub(crate) struct ServerLogin {
    pub(crate) keeper: Keeper,
    pub(crate) logins: Weak<LoginsShared>,
}

impl CredentialOwner for ServerLogin {
    fn held(&self) -> watch::Receiver<Option<HeldCredential>> {
        self.keeper.held()
    }

    fn expects_refusals(&self) -> bool {
        self.keeper.is_configured()
    }

    fn is_personal(&self) -> bool {
        // Only the shared one says so: that of a person must not lead to people again.
        self.keeper.person().is_none() && self.keeper.settings().is_personal
    }

    fn of_person(&self, person: &str) -> BoxFuture<'static, Option<SharedCredential>> {
        let (logins, server, person) = (self.logins.upgrade(), self.keeper.name().to_owned(), person.to_owned());
        Box::pin(async move {
            let logins = Logins::of(logins?);
            let keeper = logins.keeper(&server, Some(&person)).await.ok()?;
            Some(logins.owner(keeper))
        })
    }

    fn people(&self) -> PeopleLogins {
        let logins = self.logins.upgrade().map(Logins::of);
        logins.map(|logins| logins.people(self.keeper.name())).unwrap_or_default()
    }

    fn login_page(&self, asker: &str) -> BoxFuture<'static, Option<String>> {
        let (logins, server, asker) = (self.logins.upgrade(), self.keeper.name().to_owned(), asker.to_owned());
        Box::pin(async move { Logins::of(logins?).page_for(&server, &asker).await })
    }

    fn warning(&self) -> Option<&'static str> {
        self.keeper.is_unsaved().then_some(
            "its login was renewed and could not be saved: it works until the gateway ends, and is tried to be saved again; look at \
             the room and the permissions of the data directory",
        )
    }

    fn need(&self) -> Option<watch::Receiver<Option<String>>> {
        self.keeper.is_shared().then(|| self.keeper.need())
    }

    fn refused(&self, refusal: CredentialRefusal) -> BoxFuture<'static, CredentialRenewal> {
        Box::pin(self.keeper.clone().refusal(refusal))
    }
}
