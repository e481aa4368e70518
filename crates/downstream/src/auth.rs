//! Who is asking: from a bearer token to the principal it stands for.
//!
//! What a principal may see is decided in `hub/scope.rs`; whether an `Origin` may come in at all, in `http/guard.rs`.

use std::sync::{Arc, LazyLock};

use ring::digest::{SHA256, digest};
use tidings_engine::{Principal, QuotaBook};

/// Tokens that open the door.
#[derive(Clone, Default)]
pub struct AccessTokens {
    /// Nothing at all: nobody is asked, and everybody on the loopback interface is one person.
    known: Option<Arc<[AccessToken]>>,
    /// That person, where it is not the usual one.
    local: Option<Arc<Principal>>,
}

/// A token that lets its bearer in, and what it may be used for.
#[derive(Clone)]
pub struct AccessToken {
    /// Whose it is, and what it is good for.
    pub principal: Principal,
    /// Its SHA-256 digest.
    pub sha256: [u8; 32],
}

/// The person when no tokens are configured.
static LOCAL: LazyLock<Principal> = LazyLock::new(Principal::local);

impl AccessToken {
    /// The token with this text.
    pub fn of(secret: &str, principal: Principal) -> Self {
        Self { principal, sha256: sha256(secret) }
    }
}

/// What is kept of a token.
pub fn sha256(secret: &str) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(digest(&SHA256, secret.as_bytes()).as_ref());
    out
}

impl AccessTokens {
    /// The given tokens, and no others: without any, nobody comes in.
    pub fn new(known: Vec<AccessToken>) -> Self {
        Self { known: Some(known.into()), local: None }
    }

    /// Nobody is asked; everybody is this person.
    pub fn open(local: Principal) -> Self {
        Self { known: None, local: Some(Arc::new(local)) }
    }

    /// Those whose things are counted.
    pub fn books(&self) -> Vec<Arc<QuotaBook>> {
        let known = self.known.iter().flat_map(|known| known.iter().map(|token| &token.principal));
        known.chain(self.local.as_deref()).filter_map(|principal| principal.book().cloned()).collect()
    }

    /// Whether nobody is asked.
    pub fn is_open(&self) -> bool {
        self.known.is_none()
    }

    /// The person behind an `Authorization` header; `None` when it opens nothing.
    pub fn principal(&self, authorization: Option<&[u8]>) -> Option<&Principal> {
        let Some(known) = &self.known else { return Some(self.local.as_deref().unwrap_or(&LOCAL)) };
        let text = std::str::from_utf8(authorization?).ok()?;
        let (scheme, secret) = text.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        // Compared as hashes: the text of a token is kept nowhere.
        let given = sha256(secret.trim());
        // Every token is compared, and each in constant time.
        known.iter().fold(None, |found, token| if same(&given, &token.sha256) { Some(&token.principal) } else { found })
    }
}

/// Compares without telling by the time it takes where two values differ.
fn same(a: &[u8; 32], b: &[u8; 32]) -> bool {
    a.iter().zip(b).fold(0, |difference, (x, y)| difference | (x ^ y)) == 0
}

#[cfg(test)]
mod tests {
    use tidings_engine::AccessScope;

    use super::*;

    fn tokens() -> AccessTokens {
        let of = |name: &str, admin| {
            let scope = AccessScope::new(vec!["*".to_owned()], admin, |_, _| true);
            AccessToken::of(&format!("secret-{name}"), Principal::new(name, scope))
        };
        AccessTokens::new(vec![of("a", true), of("b", false)])
    }

    fn name<'t>(tokens: &'t AccessTokens, authorization: &str) -> Option<&'t str> {
        tokens.principal(Some(authorization.as_bytes())).map(|principal| &*principal.name)
    }

    // issue 6.8
    #[test]
    fn a_token_opens_for_its_owner_and_nothing_else_opens() {
        let tokens = tokens();
        assert_eq!(name(&tokens, "Bearer secret-a"), Some("a"));
        assert_eq!(name(&tokens, "bearer  secret-b "), Some("b"), "the scheme in any case, spaces around");
        for wrong in ["", "Bearer", "Bearer ", "secret-a", "Basic secret-a", "Bearer secret-", "Bearer secret-ab"] {
            assert_eq!(name(&tokens, wrong), None, "{wrong:?}");
        }
        assert!(tokens.principal(None).is_none());
        assert!(tokens.principal(Some(b"Bearer \xff")).is_none());
    }

    // issue 6.8
    #[test]
    fn no_tokens_is_not_an_empty_list_of_them() {
        assert!(AccessTokens::default().principal(None).is_some_and(Principal::is_admin), "nobody is asked");
        assert!(AccessTokens::new(Vec::new()).principal(None).is_none(), "nobody comes in");
    }
}
