//! `[vault]`.

use std::fmt;

/// What seals the logins to servers. Never in its `Debug` output.
#[derive(Clone, PartialEq, Eq)]
pub struct VaultKey(pub [u8; 32]);

impl fmt::Debug for VaultKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VaultKey")
    }
}
