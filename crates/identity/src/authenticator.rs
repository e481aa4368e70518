//! The authenticator: whom a request's `Authorization` header lets in, and what changes when the configuration does.
//!
//! Known tokens are a lookup by digest, without a lock for those of the configuration and without waiting for all. Only a token that was not
//! seen before may have to wait for its provider ([`TokenQuestion`]).

mod browsers;
mod keys;

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use serde_json::Value;
use tidings_config::{CertificateSettings, IntrospectionSettings, JwtSettings};
use tidings_engine::{Principal, QuotaBook, QuotaLimits};
use tidings_sync::Lock;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::book_table::BookTable;
use crate::client_certificate::ClientCertificate;
use crate::credential::Credential;
use crate::introspection::KEPT;
use crate::last_token::LastToken;
use crate::resource::{ProtectedResource, RefusedToken};
use crate::signed_token::UnverifiedToken;
use crate::static_token::{StaticToken, sha256};
use keys::AuthenticatorKeys;

/// How long a token may be: more than any provider makes, and less than the headers of a request.
const LONGEST: usize = 12 << 10;

/// What an authenticator lets people in by.
#[derive(Clone, Default)]
pub struct AuthenticatorSettings {
    /// Tokens of the configuration.
    pub tokens: Vec<StaticToken>,
    /// Providers whose signed tokens are let in.
    pub jwt: Vec<JwtSettings>,
    /// A provider that is asked about the others.
    pub introspection: Option<IntrospectionSettings>,
    /// Who comes in with a certificate.
    pub certificates: Vec<CertificateSettings>,
    /// The address of the gateway as clients know it, without a path.
    pub base: String,
    /// Claims that rules ask for.
    pub claims: BTreeSet<String>,
    /// What one person may have at a time, where that is counted. It stays as it is when the authenticator is changed.
    pub quotas: Option<QuotaLimits>,
}

/// Who comes in. Clones are one authenticator.
#[derive(Clone)]
pub struct Authenticator(Arc<AuthenticatorState>);

struct AuthenticatorState {
    /// Nothing: nobody is asked, and everybody on the loopback interface is one person.
    keys: Option<ArcSwap<AuthenticatorKeys>>,
    local: Principal,
    books: Arc<BookTable>,
    /// Held while it is changed.
    changing: Lock<()>,
    changes: watch::Sender<()>,
}

/// Hears when what an authenticator lets in changes.
pub struct AuthenticatorFollower {
    authenticator: Authenticator,
    changes: watch::Receiver<()>,
}

/// Somebody who was let in.
pub enum Entrant<'d> {
    /// The person at this machine, whom nobody asked.
    Local(&'d Principal),
    /// Whoever has this.
    Known(Arc<Credential>),
}

/// What a header leads to.
pub enum Admission<'d> {
    /// Somebody comes in.
    In(Entrant<'d>),
    /// Nobody does.
    Out(RefusedToken),
    /// The provider knows.
    Ask(TokenQuestion),
}

/// A token that nobody has asked about yet.
pub struct TokenQuestion {
    keys: Arc<AuthenticatorKeys>,
    token: String,
    digest: [u8; 32],
}

impl Default for Authenticator {
    fn default() -> Self {
        Self::open(Principal::local(), None)
    }
}

impl Authenticator {
    /// Nobody is asked; everybody is this person, who may have so much.
    pub fn open(local: Principal, quotas: Option<QuotaLimits>) -> Self {
        let books = Arc::new(BookTable::new(quotas));
        let local = books.counted(local);
        Self(Arc::new(AuthenticatorState {
            keys: None,
            local,
            books,
            changing: Lock::default(),
            changes: watch::Sender::default(),
        }))
    }

    /// These are let in, and nobody else.
    pub fn closed(settings: AuthenticatorSettings) -> Self {
        let books = Arc::new(BookTable::new(settings.quotas));
        let keys = Some(ArcSwap::from_pointee(AuthenticatorKeys::new(settings, &books, None)));
        let (local, changing, changes) = (Principal::local(), Lock::default(), watch::Sender::default());
        Self(Arc::new(AuthenticatorState { keys, local, books, changing, changes }))
    }

    /// What those have who came in, where that is counted.
    pub fn books(&self) -> Vec<Arc<QuotaBook>> {
        self.0.books.all()
    }

    /// Whether nobody is asked.
    pub fn is_open(&self) -> bool {
        self.0.keys.is_none()
    }

    /// Whom a header lets in, as far as that is known already.
    pub fn admit(&self, authorization: Option<&[u8]>) -> Admission<'_> {
        let Some(keys) = &self.0.keys else { return Admission::In(Entrant::Local(&self.0.local)) };
        Self::admit_by(&keys.load(), authorization)
    }

    fn admit_by<'d>(keys: &Arc<AuthenticatorKeys>, authorization: Option<&[u8]>) -> Admission<'d> {
        let Some(token) = authorization.and_then(bearer) else { return Admission::Out(RefusedToken::Missing) };
        // Compared as hashes: the text of a token is kept nowhere, and the time of a lookup says nothing about it.
        let digest = sha256(token);
        match keys.known(&digest) {
            Some(credential) if credential.is_good() => Admission::In(Entrant::Known(credential)),
            Some(_) => Admission::Out(RefusedToken::Invalid("the token has expired")),
            None if keys.is_alone() || token.len() > LONGEST => {
                Admission::Out(RefusedToken::Invalid("the token is not known"))
            }
            None => Admission::Ask(TokenQuestion { keys: Arc::clone(keys), token: token.to_owned(), digest }),
        }
    }

    /// The same for a client that showed a certificate. A token says more than a certificate, also a wrong one.
    pub fn admit_with(&self, authorization: Option<&[u8]>, certificate: Option<&ClientCertificate>) -> Admission<'_> {
        match (&self.0.keys, authorization, certificate) {
            (Some(keys), None, Some(certificate)) => match keys.load().certified(certificate) {
                Ok(credential) => Admission::In(Entrant::Known(credential)),
                Err(refused) => Admission::Out(refused),
            },
            _ => self.admit(authorization),
        }
    }

    /// The same for a connection that may have shown the same token before.
    pub fn admit_again(
        &self,
        authorization: Option<&[u8]>,
        certificate: Option<&ClientCertificate>,
        last: &LastToken,
    ) -> Admission<'_> {
        let (Some(keys), Some(sent)) = (&self.0.keys, authorization) else {
            return self.admit_with(authorization, certificate);
        };
        let keys = keys.load();
        if let Some(credential) = last.admitted(sent, keys.number) {
            return Admission::In(Entrant::Known(credential));
        }
        let admission = Self::admit_by(&keys, authorization);
        // What a provider was asked about is asked again before its end, so it is not kept here.
        if let Admission::In(Entrant::Known(credential)) = &admission
            && keys.introspection.is_none()
        {
            last.keep(sent, keys.number, credential);
        }
        admission
    }

    /// The same, with its provider asked where that is needed.
    pub async fn enter(
        &self,
        authorization: Option<&[u8]>,
        certificate: Option<&ClientCertificate>,
    ) -> Result<Entrant<'_>, RefusedToken> {
        match self.admit_with(authorization, certificate) {
            Admission::In(entrant) => Ok(entrant),
            Admission::Out(refused) => Err(refused),
            Admission::Ask(question) => question.answer().await.map(Entrant::Known),
        }
    }

    /// What opens it from now on. What is good no longer is taken back. Only for an authenticator that asks.
    pub fn change(&self, settings: AuthenticatorSettings) {
        let Some(keys) = &self.0.keys else { return };
        // Two changes at once would each take over what the same one had before, and one of them would be lost with its
        // ends.
        let _alone = self.0.changing.lock();
        let before = keys.load_full();
        let after = Arc::new(AuthenticatorKeys::new(settings, &self.0.books, Some(&before)));
        keys.store(Arc::clone(&after));
        // After the store: whoever hears of its end and asks again finds the new keys.
        before.end_what_is_not_in(&after);
        self.0.changes.send_replace(());
    }

    /// Certificates are trusted by others from now on: what they opened ends, and whoever still has a good one comes in again.
    pub fn look_at_certificates_anew(&self) {
        let Some(keys) = &self.0.keys else { return };
        let _alone = self.0.changing.lock();
        let before = keys.load_full();
        let mut after = AuthenticatorKeys::new(before.settings.clone(), &self.0.books, Some(&before));
        // New for all: what `new` took over is about the rules, which are the same; whom the handshake trusts is not.
        after.certificates = CancellationToken::new();
        keys.store(Arc::new(after));
        before.certificates.cancel();
        self.0.changes.send_replace(());
    }

    /// Whether somebody who came in could come in again.
    pub fn still_admits(&self, principal: &Principal) -> bool {
        let Some(keys) = &self.0.keys else { return true };
        keys.load().still_admits(principal)
    }

    /// The person of a token of the configuration, by its name.
    pub fn person_of_token(&self, name: &str) -> Option<Principal> {
        let keys = self.0.keys.as_ref()?.load();
        let is_named =
            |credential: &&Arc<Credential>| credential.principal.scope.facts().token.as_deref() == Some(name);
        keys.tokens.values().find(is_named).map(|credential| credential.principal.clone())
    }

    /// The people of all tokens of the configuration.
    pub fn people_of_tokens(&self) -> Vec<Principal> {
        let Some(keys) = &self.0.keys else { return Vec::new() };
        keys.load().tokens.values().map(|credential| credential.principal.clone()).collect()
    }

    /// Hears of those who may not be able to come in any longer, from now on.
    pub fn follow(&self) -> AuthenticatorFollower {
        AuthenticatorFollower { authenticator: self.clone(), changes: self.0.changes.subscribe() }
    }

    /// What somebody who was not let in is told beside the status.
    pub fn challenge(&self, refused: &RefusedToken) -> String {
        let plain = || ProtectedResource::default().challenge(refused);
        self.0.keys.as_ref().map_or_else(plain, |keys| keys.load().resource.challenge(refused))
    }

    /// The document that says where tokens come from, where a provider gives them.
    pub fn resource_metadata(&self) -> Option<Value> {
        self.0.keys.as_ref()?.load().resource.document()
    }
}

impl AuthenticatorFollower {
    /// Returns when something was changed, or a token has ended. Nothing is missed between two calls.
    pub async fn moved(&mut self) {
        let Some(keys) = &self.authenticator.0.keys else { return std::future::pending().await };
        let now = SystemTime::now();
        let keys = keys.load_full();
        let ends = keys.tokens.values().filter_map(|token| token.until?.duration_since(now).ok());
        // The time of day may be set meanwhile.
        let next = ends.min().map(|left| left.min(Duration::from_secs(60)));
        let ended = async {
            match next {
                Some(left) => tokio::time::sleep(left).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // An error can not come: the sender lives in the authenticator, which this holds.
            _ = self.changes.changed() => {}
            () = ended => {}
        }
    }
}

impl Deref for Entrant<'_> {
    type Target = Principal;

    fn deref(&self) -> &Principal {
        match self {
            Self::Local(principal) => principal,
            Self::Known(credential) => &credential.principal,
        }
    }
}

impl Entrant<'_> {
    /// What let them in, if anything had to: it may end.
    pub fn credential(&self) -> Option<&Arc<Credential>> {
        match self {
            Self::Local(_) => None,
            Self::Known(credential) => Some(credential),
        }
    }
}

impl TokenQuestion {
    /// Asks the provider, or checks what it signed.
    pub async fn answer(self) -> Result<Arc<Credential>, RefusedToken> {
        let Self { keys, token, digest } = self;
        // Read without a key, to know whose key is needed. What it says is believed only after the check.
        if let Some(signed) = UnverifiedToken::read(&token) {
            let issuer = signed.as_ref().ok().map(|signed| signed.issuer.clone());
            let provider = keys.providers.iter().find(|provider| Some(&provider.settings.issuer) == issuer.as_ref());
            match (signed, provider) {
                (Ok(signed), Some(provider)) => return Ok(keys.remember(digest, provider.check(&signed).await?, None)),
                (Err(refused), _) if keys.introspection.is_none() => return Err(refused),
                (Ok(_), None) if keys.introspection.is_none() => {
                    return Err(RefusedToken::Invalid("the token was issued by somebody else"));
                }
                // A provider that is asked may sign its tokens, too, in whatever way.
                _ => {}
            }
        }
        let Some(introspection) = &keys.introspection else {
            return Err(RefusedToken::Invalid("the token is not known"));
        };
        let turn = introspection.turn(digest);
        let _turn = turn.lock().await;
        // Somebody else with the same token may have asked meanwhile.
        // Again `is_good`: what is remembered for a while may have reached its own end.
        if let Some(credential) = keys.known(&digest).filter(|credential| credential.is_good()) {
            return Ok(credential);
        }
        if introspection.was_refused(&digest) {
            return Err(RefusedToken::Invalid("the token is not good, or no longer"));
        }
        let credential = introspection.check(digest, &token).await?;
        // Not until its end: the provider may take it back, and is asked again after this.
        Ok(keys.remember(digest, credential, Some(SystemTime::now() + KEPT)))
    }
}

/// The token of a header.
fn bearer(authorization: &[u8]) -> Option<&str> {
    let (scheme, token) = std::str::from_utf8(authorization).ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use tidings_engine::AccessScope;

    use super::*;

    fn token(name: &str, until: Option<SystemTime>) -> StaticToken {
        let scope = AccessScope::new(vec!["*".to_owned()], name == "a", |_, _| true);
        StaticToken { until, ..StaticToken::of(&format!("secret-{name}"), Principal::new(name, scope)) }
    }

    fn settings(tokens: Vec<StaticToken>) -> AuthenticatorSettings {
        AuthenticatorSettings { tokens, ..AuthenticatorSettings::default() }
    }

    fn name(authenticator: &Authenticator, authorization: &str) -> Option<String> {
        match authenticator.admit(Some(authorization.as_bytes())) {
            Admission::In(entrant) => Some(entrant.name.to_string()),
            _ => None,
        }
    }

    // issue 6.8
    #[test]
    fn a_token_opens_for_its_owner_and_nothing_else_opens() {
        let authenticator = Authenticator::closed(settings(vec![token("a", None), token("b", None)]));
        assert_eq!(name(&authenticator, "Bearer secret-a").as_deref(), Some("a"));
        assert_eq!(
            name(&authenticator, "bearer  secret-b ").as_deref(),
            Some("b"),
            "the scheme in any case, spaces around"
        );
        for wrong in ["", "Bearer", "Bearer ", "secret-a", "Basic secret-a", "Bearer secret-", "Bearer secret-ab"] {
            assert_eq!(name(&authenticator, wrong), None, "{wrong:?}");
        }
        assert!(matches!(authenticator.admit(None), Admission::Out(RefusedToken::Missing)));
        assert!(matches!(authenticator.admit(Some(b"Bearer \xff")), Admission::Out(_)));
    }

    // issue 6.8
    #[test]
    fn no_tokens_is_not_an_empty_list_of_them() {
        assert!(
            matches!(Authenticator::default().admit(None), Admission::In(person) if person.is_admin()),
            "nobody is asked"
        );
        let shut = Authenticator::closed(AuthenticatorSettings::default());
        assert!(matches!(shut.admit(None), Admission::Out(_)), "nobody comes in");
    }

    // trust T8; identity 4
    #[test]
    fn a_person_has_one_count_also_after_the_door_was_changed() {
        let quotas = QuotaLimits { calls: 1, listens: 1, sessions: 1, subscriptions: 1, message_memory: 0 };
        let with = |until| AuthenticatorSettings { quotas: Some(quotas), ..settings(vec![token("a", until)]) };
        let authenticator = Authenticator::closed(with(None));
        let book = |authenticator: &Authenticator| match authenticator.admit(Some(b"Bearer secret-a")) {
            Admission::In(entrant) => Arc::clone(entrant.book().expect("a book")),
            _ => panic!("a is not let in"),
        };
        let before = book(&authenticator);
        authenticator.change(with(Some(SystemTime::now() + Duration::from_secs(60))));
        assert!(Arc::ptr_eq(&before, &book(&authenticator)) && authenticator.books().len() == 1);
        assert!(Authenticator::default().books().is_empty(), "nobody is counted who is alone");
    }

    // identity 2
    #[test]
    fn a_certificate_opens_for_the_first_rule_that_fits_its_name_and_only_without_a_token() {
        let rule = |name: &str, admin| CertificateSettings {
            name: name.to_owned(),
            servers: vec!["*".to_owned()],
            admin,
            groups: vec!["ci".to_owned()],
        };
        let shown = |name: &str, until| ClientCertificate { name: name.to_owned(), until, digest: sha256(name) };
        let with = |rules: Vec<CertificateSettings>| AuthenticatorSettings {
            certificates: rules,
            ..settings(vec![token("a", None)])
        };
        let authenticator = Authenticator::closed(with(vec![rule("ops", true), rule("*.ci", false)]));
        let enter = |certificate: &ClientCertificate, authorization: Option<&str>| match authenticator
            .admit_with(authorization.map(str::as_bytes), Some(certificate))
        {
            Admission::In(Entrant::Known(credential)) => Some(credential),
            _ => None,
        };
        let ops = enter(&shown("ops", None), None).expect("it is let in");
        assert!(ops.principal.is_admin() && &*ops.principal.name == "cert:ops");
        let one = enter(&shown("one.ci", None), None).expect("it is let in");
        assert!(!one.principal.is_admin() && one.principal.scope.facts().groups.contains("ci"));
        assert!(enter(&shown("other", None), None).is_none());
        let late = SystemTime::now() - Duration::from_secs(1);
        assert!(enter(&shown("late.ci", Some(late)), None).is_none());
        assert!(enter(&shown("ops", None), Some("Bearer wrong")).is_none(), "the token counts");
        assert_eq!(
            enter(&shown("ops", None), Some("Bearer secret-a")).map(|it| it.principal.name.to_string()).as_deref(),
            Some("a")
        );
        // Other rules end what the certificates opened, and no token.
        assert!(authenticator.still_admits(&ops.principal));
        authenticator.change(with(vec![rule("ops", true), rule("*.ci", false)]));
        assert!(!ops.ended.is_cancelled(), "the same rules");
        authenticator.look_at_certificates_anew();
        assert!(ops.ended.is_cancelled() && authenticator.still_admits(&ops.principal));
        authenticator.change(with(vec![rule("ops", false)]));
        assert!(!authenticator.still_admits(&ops.principal), "with other rights they are somebody else");
        assert!(matches!(
            Authenticator::default().admit_with(None, Some(&shown("ops", None))),
            Admission::In(Entrant::Local(_))
        ));
    }

    // identity 2
    #[tokio::test(start_paused = true)]
    async fn a_token_that_is_taken_away_ends_what_it_opened_and_the_others_go_on() {
        let authenticator = Authenticator::closed(settings(vec![token("a", None), token("b", None)]));
        let of = |name: &str| match authenticator.admit(Some(format!("Bearer secret-{name}").as_bytes())) {
            Admission::In(Entrant::Known(credential)) => credential,
            _ => panic!("{name} is not let in"),
        };
        let (a, b) = (of("a"), of("b"));
        let mut follower = authenticator.follow();
        authenticator.change(settings(vec![token("a", None)]));
        follower.moved().await;
        b.over().await;
        assert!(!a.ended.is_cancelled());
        assert!(authenticator.still_admits(&a.principal) && !authenticator.still_admits(&b.principal));
        assert_eq!(
            (name(&authenticator, "Bearer secret-a").is_some(), name(&authenticator, "Bearer secret-b")),
            (true, None)
        );
        let ended = SystemTime::now() - Duration::from_secs(1);
        authenticator.change(settings(vec![token("a", Some(ended))]));
        assert!(a.ended.is_cancelled(), "the same token with another end is another");
        assert!(!authenticator.still_admits(&a.principal));
        assert!(matches!(
            authenticator.admit(Some(b"Bearer secret-a")),
            Admission::Out(RefusedToken::Invalid("the token has expired"))
        ));
    }
}
