//! Tokens of the configuration, known by their digests.

use std::time::SystemTime;

use ring::digest::{SHA256, digest};
use tidings_engine::Principal;

/// A token that lets its bearer in, and what it may be used for.
#[derive(Clone)]
pub struct StaticToken {
    /// Whose it is, and what it is good for.
    pub principal: Principal,
    /// Its SHA-256 digest.
    pub sha256: [u8; 32],
    /// From when on it opens nothing.
    pub until: Option<SystemTime>,
}

impl StaticToken {
    /// The token with this text, for ever.
    pub fn of(secret: &str, principal: Principal) -> Self {
        Self { principal, sha256: sha256(secret), until: None }
    }
}

/// What is kept of a token.
pub fn sha256(secret: &str) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(digest(&SHA256, secret.as_bytes()).as_ref());
    out
}
