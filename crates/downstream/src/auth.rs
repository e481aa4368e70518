//! Who is asking.

use std::sync::LazyLock;

use ring::digest::{SHA256, digest};
use tidings_engine::Principal;

/// Tokens that open the door. Without any, everybody on the loopback interface is one person.
#[derive(Clone, Default)]
pub struct Tokens {
    known: Vec<Token>,
}

/// One token.
#[derive(Clone)]
pub struct Token {
    /// Whose it is, and what it is good for.
    pub principal: Principal,
    /// Its SHA-256 digest.
    pub sha256: [u8; 32],
}

/// The person when no tokens are configured.
static LOCAL: LazyLock<Principal> = LazyLock::new(Principal::local);

impl Tokens {
    /// The given tokens, and no others.
    pub fn new(known: Vec<Token>) -> Self {
        Self { known }
    }

    /// The person behind an `Authorization` header; `None` when it opens nothing.
    pub fn principal(&self, authorization: Option<&[u8]>) -> Option<&Principal> {
        if self.known.is_empty() {
            return Some(&LOCAL);
        }
        self.owner(authorization)
    }

    /// Whether an `Authorization` header holds a token that may change the gateway. Without any tokens none does.
    pub fn is_admin(&self, authorization: Option<&[u8]>) -> bool {
        self.owner(authorization).is_some_and(Principal::is_admin)
    }

    fn owner(&self, authorization: Option<&[u8]>) -> Option<&Principal> {
        let text = std::str::from_utf8(authorization?).ok()?;
        let (scheme, secret) = text.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let given = digest(&SHA256, secret.trim().as_bytes());
        // Every token is compared, and each in constant time.
        self.known.iter().fold(
            None,
            |found, token| {
                if same(given.as_ref(), &token.sha256) { Some(&token.principal) } else { found }
            },
        )
    }
}

/// Compares without telling by the time it takes where two values differ.
pub fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |difference, (x, y)| difference | (x ^ y)) == 0
}
