//! The keys of a cluster: everything on the bus is sealed with them, and names on it are hidden by them.

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};

/// The least that a secret may have.
const SECRET_LEAST: usize = 32;
const KEY_ID: usize = 4;
const SALT: usize = 24;
/// What sealing adds to a message.
pub(crate) const OVERHEAD: usize = KEY_ID + SALT + 16;

/// A secret is shorter than it may be, or there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the secret of a cluster needs at least {SECRET_LEAST} bytes; make one with: openssl rand -hex 32")]
pub struct SecretTooShort;

#[derive(Clone)]
struct BusKey {
    id: [u8; KEY_ID],
    seal: [u8; 32],
}

/// The keys that follow from the secrets: the first seals, all open.
#[derive(Clone)]
pub struct BusKeys {
    keys: Vec<BusKey>,
    names: [u8; 32],
}

impl std::fmt::Debug for BusKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BusKeys({})", self.keys.len())
    }
}

impl BusKeys {
    /// Derives the keys. Names stay those of the last secret, so that a new one can be put before it while replicas still run on the old.
    pub fn derive<S: AsRef<[u8]>>(secrets: &[S]) -> Result<Self, SecretTooShort> {
        if secrets.iter().any(|secret| secret.as_ref().len() < SECRET_LEAST) {
            return Err(SecretTooShort);
        }
        let last = secrets.last().ok_or(SecretTooShort)?;
        let names = blake3::derive_key("tidings 2026 cluster bus names", last.as_ref());
        let keys = secrets.iter().map(|secret| {
            let seal = blake3::derive_key("tidings 2026 cluster bus seal", secret.as_ref());
            // Derived apart: it stands in clear before each message, and tells nothing of the key.
            let id = blake3::derive_key("tidings 2026 cluster bus key id", secret.as_ref());
            BusKey { id: [id[0], id[1], id[2], id[3]], seal }
        });
        Ok(Self { keys: keys.collect(), names })
    }

    /// What stands on the bus in the place of a name: a word of one token, the same on every replica.
    pub(crate) fn hide(&self, name: &[u8]) -> String {
        // 128 bits tell names apart, and subjects stay short.
        blake3::keyed_hash(&self.names, name).to_hex()[..32].to_owned()
    }

    /// Seals a message for one place: it can not be opened as one of another.
    pub(crate) fn seal(&self, place: &str, message: &[u8]) -> Vec<u8> {
        // There is one: `derive` takes no empty list.
        let key = &self.keys[0];
        let mut salt = [0; SALT];
        // Without randomness nothing on this machine is safe, and there is nothing to do about it.
        getrandom::fill(&mut salt).expect("the system gives random bytes");
        let mut sealed = Vec::with_capacity(OVERHEAD + message.len());
        // Neither id nor salt is under the tag: one that is changed leads to another key or to none, which opens
        // nothing.
        sealed.extend_from_slice(&key.id);
        sealed.extend_from_slice(&salt);
        sealed.extend_from_slice(message);
        let tag = message_key(key, &salt)
            .seal_in_place_separate_tag(nonce(), Aad::from(place), &mut sealed[KEY_ID + SALT..])
            .expect("a message is shorter than the cipher's bound");
        sealed.extend_from_slice(tag.as_ref());
        sealed
    }

    /// Opens a message of a place; `None` if no key of this cluster sealed it there.
    pub(crate) fn open(&self, place: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        let (id, rest) = sealed.split_at_checked(KEY_ID)?;
        let (salt, rest) = rest.split_at_checked(SALT)?;
        let key = self.keys.iter().find(|key| key.id == id)?;
        let mut message = rest.to_vec();
        let length = message_key(key, salt).open_in_place(nonce(), Aad::from(place), &mut message).ok()?.len();
        message.truncate(length);
        Some(message)
    }
}

/// A key for one message. The cipher's own nonce is too short to be chosen at random for all messages of years.
fn message_key(key: &BusKey, salt: &[u8]) -> LessSafeKey {
    let key = blake3::keyed_hash(&key.seal, salt);
    LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, key.as_bytes()).expect("a hash has the length of a key"))
}

fn nonce() -> Nonce {
    // Always the same, because each key seals one message.
    Nonce::assume_unique_for_key([0; 12])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    const OLD: [u8; 32] = [1; 32];
    const NEW: [u8; 40] = [2; 40];

    // cluster
    #[test]
    fn a_message_opens_only_at_its_place_and_unchanged() {
        let keys = BusKeys::derive(&[OLD]).unwrap();
        let mut sealed = keys.seal("log", b"entry");
        assert_eq!(keys.open("log", &sealed).as_deref(), Some(b"entry".as_slice()));
        assert_eq!(keys.open("beat", &sealed), None);
        sealed[OVERHEAD - 10] ^= 1;
        assert_eq!(keys.open("log", &sealed), None);
        assert_eq!(keys.open("log", b"short"), None);
    }

    // cluster: of a list the first seals, all open.
    #[test]
    fn a_secret_is_replaced_while_replicas_run() {
        let old = BusKeys::derive(&[OLD.as_slice()]).unwrap();
        let both = BusKeys::derive(&[NEW.as_slice(), OLD.as_slice()]).unwrap();
        assert_eq!(both.open("log", &old.seal("log", b"entry")).as_deref(), Some(b"entry".as_slice()));
        assert_eq!(old.open("log", &both.seal("log", b"entry")), None);
        assert_eq!(both.hide(b"replica"), old.hide(b"replica"));
    }

    #[test]
    fn a_short_secret_is_refused() {
        assert_eq!(BusKeys::derive(&[[1_u8; 31]]).unwrap_err(), SecretTooShort);
        assert_eq!(BusKeys::derive::<[u8; 32]>(&[]).unwrap_err(), SecretTooShort);
    }
}
