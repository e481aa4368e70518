//! The token that a connection brought last: the next request nearly always brings the same one, and is let in without a digest.

use std::sync::Arc;

use tidings_sync::Lock;

use crate::credential::Credential;

/// What one connection showed last, and whom it let in. Kept as it was sent, for as long as the connection is open.
#[derive(Default)]
pub struct LastToken(Lock<Option<AdmittedHeader>>);

struct AdmittedHeader {
    /// The whole `Authorization` header.
    sent: Box<[u8]>,
    /// The number of the keys that let it in: others may not.
    keys: u64,
    credential: Arc<Credential>,
}

impl LastToken {
    /// Whom this header let in before, under the same keys.
    pub(crate) fn admitted(&self, sent: &[u8], keys: u64) -> Option<Arc<Credential>> {
        let last = self.0.lock();
        let last = last.as_ref().filter(|last| last.keys == keys && is_same(&last.sent, sent))?;
        last.credential.is_good().then(|| Arc::clone(&last.credential))
    }

    pub(crate) fn keep(&self, sent: &[u8], keys: u64, credential: &Arc<Credential>) {
        *self.0.lock() = Some(AdmittedHeader { sent: sent.into(), keys, credential: Arc::clone(credential) });
    }
}

/// Compared to the end in any case: behind a proxy the last token of a connection may be somebody else's, and how long it takes must not say
/// where it differs. In two loops, so that the compiler compares many bytes of the first at a time: tokens of providers are long.
fn is_same(known: &[u8], sent: &[u8]) -> bool {
    if known.len() != sent.len() {
        // The length may be told: it is no secret, and all tokens of a kind have the same.
        return false;
    }
    let (known_words, known_rest) = known.as_chunks::<8>();
    let (sent_words, sent_rest) = sent.as_chunks::<8>();
    let words = known_words.iter().zip(sent_words);
    let words = words.fold(0, |all, (a, b)| all | (u64::from_ne_bytes(*a) ^ u64::from_ne_bytes(*b)));
    let rest = known_rest.iter().zip(sent_rest).fold(0, |all, (a, b)| all | (a ^ b));
    (words | u64::from(rest)) == 0
}

#[cfg(test)]
mod tests {
    use tidings_engine::{AccessScope, Principal};

    use super::*;
    use crate::{Admission, Authenticator, AuthenticatorSettings, StaticToken};

    // identity 2
    #[test]
    fn one_byte_that_differs_is_seen_wherever_it_stands() {
        let known: Vec<u8> = (0..29).collect();
        assert!(is_same(&known, &known) && is_same(b"", b""));
        assert!(!is_same(&known, &known[..28]) && !is_same(b"", b"a"));
        for place in 0..known.len() {
            let mut sent = known.clone();
            sent[place] ^= 128;
            assert!(!is_same(&known, &sent), "{place}");
        }
    }

    // identity 2: what a connection remembers is worth nothing when the keys are others, or for another header
    #[test]
    fn the_same_header_is_let_in_again_until_the_keys_are_others() {
        let settings = |names: &[&str]| AuthenticatorSettings {
            tokens: names
                .iter()
                .map(|name| StaticToken::of(name, Principal::new(name, AccessScope::everything())))
                .collect(),
            ..AuthenticatorSettings::default()
        };
        let authenticator = Authenticator::closed(settings(&["one", "two"]));
        let last = LastToken::default();
        let enter =
            |token: &str| match authenticator.admit_again(Some(format!("Bearer {token}").as_bytes()), None, &last) {
                Admission::In(entrant) => Some(entrant.name.to_string()),
                _ => None,
            };
        for (token, expected) in
            [("one", Some("one")), ("one", Some("one")), ("two", Some("two")), ("onf", None), ("one", Some("one"))]
        {
            assert_eq!(enter(token).as_deref(), expected, "{token}");
        }
        assert!(
            matches!(authenticator.admit_again(None, None, &last), Admission::Out(_)),
            "a header is needed each time"
        );
        authenticator.change(settings(&["two"]));
        assert_eq!((enter("one"), enter("two").as_deref()), (None, Some("two")));
    }
}
