//! Credentials that change while a link lives: which token a server is sent, and who gets another when it refuses one.
//!
//! A link asks nobody on the way of a call: the header stands among those that every request carries, and is replaced there when its
//! owner has a newer one. Nothing here knows how tokens are made.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::header::{HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use tokio::sync::watch;

use crate::LinkError;

/// A token in use.
#[derive(Clone)]
pub struct HeldCredential {
    /// Its number: higher than that of every earlier one.
    pub generation: u64,
    /// The value of `Authorization`.
    pub header: HeaderValue,
}

impl std::fmt::Debug for HeldCredential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeldCredential").field("generation", &self.generation).finish_non_exhaustive()
    }
}

/// A request that a server refused because of its credentials. It did not read it.
#[derive(Clone, Debug)]
pub struct CredentialRefusal {
    /// The number of the token that it carried.
    pub generation: Option<u64>,
    /// 401 or 403.
    pub status: u16,
    /// What the server says of what it wants: `WWW-Authenticate`.
    pub challenge: Option<String>,
    /// Whether it came over a link past the replica that runs the server: another one may be let in with the same token.
    pub is_past_owner: bool,
}

/// What follows from a refusal.
#[derive(Clone, Debug)]
pub enum CredentialRenewal {
    /// There is a newer token: the request may be sent once more.
    Use(HeldCredential),
    /// A person has to log in. In words for whoever can.
    NeedsLogin(String),
    /// A person has to allow more, for this request only. In words for whoever can.
    NeedsMore(String),
    /// There is none for now; it is tried again.
    Unavailable(String),
    /// Nobody knows what would be let in.
    Unknown,
}

/// How many people are logged in to a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeopleLogins {
    /// Whose login counts.
    pub logged_in: usize,
    /// Who asked for something and has to log in first.
    pub need_login: usize,
}

/// The owner of the credentials of one server.
pub trait CredentialOwner: Send + Sync + 'static {
    /// The token in use, and when it is another.
    fn held(&self) -> watch::Receiver<Option<HeldCredential>>;

    /// Whether requests are kept until they are answered, because one may have to be sent again though nothing was known of a token
    /// when it was sent.
    fn expects_refusals(&self) -> bool;

    /// Whether each person logs in for themselves: then this owner is nobody's, and has no token.
    fn is_personal(&self) -> bool;

    /// The owner of one person's credentials, where each logs in for themselves.
    fn of_person(&self, person: &str) -> BoxFuture<'static, Option<SharedCredential>>;

    /// How many people are logged in, where each logs in for themselves.
    fn people(&self) -> PeopleLogins;

    /// A page where this person can log in; `None` where there is none.
    fn login_page(&self, asker: &str) -> BoxFuture<'static, Option<String>>;

    /// What whoever runs the gateway should know of it, though it works.
    fn warning(&self) -> Option<&'static str>;

    /// Why a person has to log in, as far as is known, and when that is otherwise; `None` while nobody has to. No receiver where that says
    /// nothing of other replicas of a cluster, because each has tokens of its own.
    fn need(&self) -> Option<watch::Receiver<Option<String>>>;

    /// The server has refused a request. Ends within a minute.
    fn refused(&self, refusal: CredentialRefusal) -> BoxFuture<'static, CredentialRenewal>;
}

/// An owner that links share.
#[derive(Clone)]
pub struct SharedCredential(pub Arc<dyn CredentialOwner>);

impl SharedCredential {
    /// The same for a link past the replica that runs the server: it takes tokens, and its refusals are no reason to renew one.
    pub(crate) fn past_owner(&self) -> Self {
        Self(Arc::new(PastOwner(Arc::clone(&self.0))))
    }

    /// The token in use.
    pub(crate) fn now(&self) -> Option<HeldCredential> {
        self.0.held().borrow().clone()
    }

    /// A request that carried this token was refused: another token, or why there is none.
    pub(crate) async fn another(
        &self,
        sent: Option<&HeldCredential>,
        status: u16,
        headers: &HeaderMap,
    ) -> Result<HeldCredential, LinkError> {
        let said: Vec<&str> = headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|said| said.to_str().ok()).collect();
        let challenge = (!said.is_empty()).then(|| said.join(", "));
        let generation = sent.map(|held| held.generation);
        match self.0.refused(CredentialRefusal { generation, status, challenge, is_past_owner: false }).await {
            CredentialRenewal::Use(held) => Ok(held),
            CredentialRenewal::NeedsLogin(words) => Err(LinkError::NeedsLogin(words)),
            CredentialRenewal::NeedsMore(words) => Err(LinkError::NeedsMore(words)),
            CredentialRenewal::Unavailable(reason) => Err(LinkError::LoginUnavailable(reason)),
            CredentialRenewal::Unknown => Err(LinkError::Unauthorized(status)),
        }
    }
}

impl PartialEq for SharedCredential {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for SharedCredential {}

/// Marks each refusal.
struct PastOwner(Arc<dyn CredentialOwner>);

impl CredentialOwner for PastOwner {
    fn held(&self) -> watch::Receiver<Option<HeldCredential>> {
        self.0.held()
    }

    fn expects_refusals(&self) -> bool {
        self.0.expects_refusals()
    }

    fn is_personal(&self) -> bool {
        self.0.is_personal()
    }

    fn of_person(&self, person: &str) -> BoxFuture<'static, Option<SharedCredential>> {
        self.0.of_person(person)
    }

    fn people(&self) -> PeopleLogins {
        self.0.people()
    }

    fn login_page(&self, asker: &str) -> BoxFuture<'static, Option<String>> {
        self.0.login_page(asker)
    }

    fn warning(&self) -> Option<&'static str> {
        self.0.warning()
    }

    fn need(&self) -> Option<watch::Receiver<Option<String>>> {
        self.0.need()
    }

    fn refused(&self, refusal: CredentialRefusal) -> BoxFuture<'static, CredentialRenewal> {
        self.0.refused(CredentialRefusal { is_past_owner: true, ..refusal })
    }
}
