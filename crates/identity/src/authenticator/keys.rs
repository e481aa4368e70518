//! The keys of one reading of the configuration: tokens, providers and certificates, and whom they were found to let in.
//!
//! What is taken over from the keys before them decides who goes on when the configuration changes. Who asks, and what is answered, is
//! the authenticator's.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use tidings_engine::Principal;
use tidings_sync::Lock;
use tokio_util::sync::CancellationToken;

use super::AuthenticatorSettings;
use crate::book_table::BookTable;
use crate::client_certificate::ClientCertificate;
use crate::credential::Credential;
use crate::introspection::Introspection;
use crate::person::{CERTIFIED, PeopleReader, person_with_certificate};
use crate::provider::JwtProvider;
use crate::resource::{ProtectedResource, RefusedToken};

/// How many tokens of providers are remembered.
const REMEMBERED: usize = 20_000;

/// What lets people in, of one reading of the configuration: it is replaced as a whole, and never changed but for what it remembers.
pub(super) struct AuthenticatorKeys {
    /// Tells them apart from those before them.
    pub(super) number: u64,
    pub(super) tokens: HashMap<[u8; 32], Arc<Credential>>,
    pub(super) providers: Vec<Arc<JwtProvider>>,
    pub(super) introspection: Option<Arc<Introspection>>,
    /// Rings when certificates open nothing any longer, or are looked at anew.
    pub(super) certificates: CancellationToken,
    /// Tokens of providers and certificates that were found good, and until when that is not asked again.
    pub(super) remembered: Lock<HashMap<[u8; 32], RememberedToken>>,
    pub(super) resource: ProtectedResource,
    pub(super) books: Arc<BookTable>,
    pub(super) settings: AuthenticatorSettings,
}

/// What a token was found to stand for, and until when that is not asked again, if that is before its end.
type RememberedToken = (Arc<Credential>, Option<SystemTime>);

impl AuthenticatorKeys {
    pub(super) fn new(
        settings: AuthenticatorSettings,
        books: &Arc<BookTable>,
        before: Option<&AuthenticatorKeys>,
    ) -> Self {
        let mut resource =
            ProtectedResource { base: settings.base.trim_end_matches('/').to_owned(), ..ProtectedResource::default() };
        let name = resource.name();
        let same_claims = before.is_some_and(|before| before.settings.claims == settings.claims);
        let tokens = settings.tokens.iter().map(|token| {
            let kept = before.and_then(|before| before.tokens.get(&token.sha256));
            // The same one, so that what it opened goes on.
            // A token whose rights changed is another one: what it opened has to end, and to be opened anew.
            let kept = kept.filter(|kept| kept.principal == token.principal && kept.until == token.until);
            let fresh = || {
                let (principal, until) = (books.counted(token.principal.clone()), token.until);
                Arc::new(Credential { principal, until, ended: CancellationToken::new() })
            };
            (token.sha256, kept.map_or_else(fresh, Arc::clone))
        });
        let tokens = tokens.collect();
        let providers = settings.jwt.iter().map(|jwt| {
            let mut known = before.into_iter().flat_map(|before| &before.providers);
            // The same provider with its keys and its end: what its tokens opened goes on.
            if same_claims && let Some(same) = known.clone().find(|provider| provider.settings == *jwt) {
                return Arc::clone(same);
            }
            // Only its rules changed: the keys are kept, so that no token waits for them to be read again.
            let keys = known.find_map(|provider| provider.keys_for(jwt));
            let people = PeopleReader::new(jwt.people.clone(), &settings.claims);
            Arc::new(JwtProvider::new(jwt.clone(), people, &name, keys))
        });
        let providers: Vec<Arc<JwtProvider>> = providers.collect();
        let introspection = settings.introspection.as_ref().map(|asked| {
            let same = before.and_then(|before| before.introspection.as_ref());
            match same.filter(|same| same_claims && same.settings == *asked) {
                Some(same) => Arc::clone(same),
                None => {
                    let people = PeopleReader::new(asked.people.clone(), &settings.claims);
                    Arc::new(Introspection::new(asked.clone(), people, &name))
                }
            }
        });
        let asked = settings.introspection.as_ref();
        let people = settings.jwt.iter().map(|jwt| &jwt.people).chain(asked.map(|asked| &asked.people));
        for scope in people.flat_map(|people| &people.scopes) {
            if !resource.scopes.contains(scope) {
                resource.scopes.push(scope.clone());
            }
        }
        resource.issuers = settings.jwt.iter().map(|jwt| jwt.issuer.clone()).collect();
        resource.issuers.extend(asked.and_then(|asked| asked.issuer.clone()));
        resource.issuers.dedup();
        let same_rules = before.filter(|before| before.settings.certificates == settings.certificates);
        let certificates = same_rules.map(|before| before.certificates.clone()).unwrap_or_default();
        // Nothing that was remembered is taken over: it was found under rules that may be others now, and costs one
        // check.
        let (books, remembered) = (Arc::clone(books), Lock::default());
        // Numbers never repeat in one authenticator, and a connection asks only one: its last token of earlier keys can not be
        // taken for one of these.
        let number = before.map_or(0, |before| before.number + 1);
        Self { number, tokens, providers, introspection, certificates, remembered, resource, books, settings }
    }

    /// Whether there are only tokens of the configuration.
    pub(super) fn is_alone(&self) -> bool {
        self.providers.is_empty() && self.introspection.is_none()
    }

    pub(super) fn known(&self, digest: &[u8; 32]) -> Option<Arc<Credential>> {
        if let Some(token) = self.tokens.get(digest) {
            return Some(Arc::clone(token));
        }
        // Only where there are providers: tokens of the configuration take no lock.
        if self.is_alone() {
            return None;
        }
        let remembered = self.remembered.lock();
        let (credential, kept) = remembered.get(digest)?;
        kept.is_none_or(|kept| SystemTime::now() < kept).then(|| Arc::clone(credential))
    }

    /// Whoever has a certificate.
    pub(super) fn certified(&self, certificate: &ClientCertificate) -> Result<Arc<Credential>, RefusedToken> {
        // The time of this row is not looked at: certificates are remembered without one.
        if let Some((credential, _)) = self.remembered.lock().get(&certificate.digest)
            && credential.is_good()
        {
            return Ok(Arc::clone(credential));
        }
        let person = person_with_certificate(&self.settings.certificates, &certificate.name);
        let principal = person.ok_or(RefusedToken::Invalid("the certificate is not among those of [auth]"))?;
        let (until, ended) = (certificate.until, self.certificates.child_token());
        let credential = Credential { principal, until, ended };
        if !credential.is_good() {
            return Err(RefusedToken::Invalid("the certificate has expired"));
        }
        Ok(self.remember(certificate.digest, credential, None))
    }

    pub(super) fn remember(
        &self,
        digest: [u8; 32],
        credential: Credential,
        kept: Option<SystemTime>,
    ) -> Arc<Credential> {
        let principal = self.books.counted(credential.principal);
        let credential = Arc::new(Credential { principal, ..credential });
        let mut remembered = self.remembered.lock();
        // Only when it is full: those that are over harm nobody, since whoever finds one looks at its end.
        if remembered.len() >= REMEMBERED {
            let now = SystemTime::now();
            remembered.retain(|_, (known, kept)| known.is_good() && kept.is_none_or(|kept| now < kept));
        }
        // All are good: one of them is checked again when it comes back.
        if remembered.len() >= REMEMBERED
            && let Some(one) = remembered.keys().next().copied()
        {
            remembered.remove(&one);
        }
        remembered.insert(digest, (Arc::clone(&credential), kept));
        credential
    }

    pub(super) fn still_admits(&self, principal: &Principal) -> bool {
        let is_of = |issuer: &str| principal.name.strip_prefix(issuer).is_some_and(|rest| rest.starts_with('#'));
        self.tokens.values().any(|token| token.principal == *principal && token.is_good())
            // A name of that provider is enough: whether its token is still good is found out when it comes.
            || self.providers.iter().any(|provider| is_of(&provider.settings.issuer))
            || self.introspection.as_ref().is_some_and(|asked| is_of(asked.issuer()))
            || principal.name.strip_prefix(CERTIFIED).is_some_and(|name| {
                person_with_certificate(&self.settings.certificates, name).as_ref() == Some(principal)
            })
    }

    pub(super) fn end_what_is_not_in(&self, after: &Self) {
        for (digest, token) in &self.tokens {
            // The same object, and not an equal one: `new` has taken over those that go on.
            if !after.tokens.get(digest).is_some_and(|kept| Arc::ptr_eq(kept, token)) {
                token.ended.cancel();
            }
        }
        for provider in &self.providers {
            if !after.providers.iter().any(|kept| Arc::ptr_eq(kept, provider)) {
                provider.ended.cancel();
            }
        }
        if let Some(asked) = &self.introspection
            && !after.introspection.as_ref().is_some_and(|kept| Arc::ptr_eq(kept, asked))
        {
            asked.ended.cancel();
        }
        if self.settings.certificates != after.settings.certificates {
            self.certificates.cancel();
        }
    }
}
