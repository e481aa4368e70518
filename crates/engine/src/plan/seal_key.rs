//! The secret under which clients carry the gateway's state.

use std::fmt;

/// Seals what clients carry between the rounds of one request. Kept over a restart, so that a state of before is told from one
/// that somebody made up.
#[derive(Clone)]
pub struct SealKey([u8; 32]);

impl SealKey {
    /// A key that was kept.
    pub fn new(secret: [u8; 32]) -> Self {
        Self(secret)
    }

    pub(crate) fn secret(&self) -> &[u8; 32] {
        &self.0
    }
}

impl Default for SealKey {
    /// A fresh key, for a gateway that keeps nothing.
    fn default() -> Self {
        let mut secret = [0; 32];
        // Without random numbers no key can be made, and nothing else in the process would be safe either.
        getrandom::fill(&mut secret).expect("the system has random numbers");
        Self(secret)
    }
}

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealKey(..)")
    }
}
