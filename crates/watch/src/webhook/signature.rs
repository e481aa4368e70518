//! Whether a delivery comes from who shares the secret.
//!
//! Two conventions: `X-Hub-Signature-256` over the raw body, and the headers of Standard Webhooks, which sign an id and a
//! time as well. Comparison is in constant time.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use ring::hmac;
use tidings_sync::Lock;

use super::DeliveryOutcome;

/// How far the signed time may be from ours.
pub(super) const WINDOW: Duration = Duration::from_secs(5 * 60);
/// How many ids are remembered within the window. When there are more, nothing new is taken until some are old.
const MOST_IDS: usize = 10_000;

const HUB: &str = "x-hub-signature-256";
const ID: &str = "webhook-id";
const TIME: &str = "webhook-timestamp";
const SIGNATURES: &str = "webhook-signature";

/// Why a delivery is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSignature {
    /// The request carries no signature.
    #[error("sign the body: X-Hub-Signature-256, or webhook-id, webhook-timestamp and webhook-signature")]
    Missing,
    /// It does not fit.
    #[error("the signature does not fit the body and the secret")]
    Wrong,
    /// The signed time is too far from now.
    #[error("the signed time is more than five minutes from now")]
    TooOld,
    /// More deliveries than can be told apart.
    #[error("too many deliveries within five minutes; try again later")]
    TooMany,
}

/// What a sender calls a delivery, which it repeats with the same id.
pub(super) struct SignedId {
    pub(super) id: String,
    /// When it was signed.
    pub(super) time: SystemTime,
}

/// Checks signatures with one secret.
pub(super) struct SignatureVerifier {
    plain: hmac::Key,
    standard: hmac::Key,
    /// Ids of the window, with their times.
    seen: Lock<HashMap<String, SystemTime>>,
}

impl SignatureVerifier {
    pub(super) fn new(secret: &str) -> Self {
        let plain = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        // Standard Webhooks writes keys as `whsec_` and base64.
        let decoded = secret.strip_prefix("whsec_").and_then(|text| STANDARD.decode(text).ok());
        let standard = decoded.map_or_else(|| plain.clone(), |bytes| hmac::Key::new(hmac::HMAC_SHA256, &bytes));
        Self { plain, standard, seen: Lock::default() }
    }

    /// Whether it is signed, and whether it was here before.
    pub(super) fn verify(
        &self,
        headers: &HeaderMap,
        body: &[u8],
        now: SystemTime,
    ) -> Result<DeliveryOutcome, BadSignature> {
        match self.check(headers, body, now)? {
            // Only after the signature was right: a stranger must not fill the table of ids.
            Some(SignedId { id, time }) => self.once(&id, time, now),
            None => Ok(DeliveryOutcome::Taken),
        }
    }

    /// Whether it is signed, and as which delivery, where the sender says so. Nothing is remembered.
    pub(super) fn check(
        &self,
        headers: &HeaderMap,
        body: &[u8],
        now: SystemTime,
    ) -> Result<Option<SignedId>, BadSignature> {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        match (text(ID), text(TIME), text(SIGNATURES), text(HUB)) {
            // The stronger convention where both are sent: it protects against repetition.
            (Some(id), Some(time), Some(signatures), _) => self.standard(id, time, signatures, body, now).map(Some),
            (_, _, _, Some(signature)) => self.hub(signature, body).map(|()| None),
            _ => Err(BadSignature::Missing),
        }
    }

    fn hub(&self, signature: &str, body: &[u8]) -> Result<(), BadSignature> {
        let given = signature.strip_prefix("sha256=").and_then(unhex).ok_or(BadSignature::Wrong)?;
        hmac::verify(&self.plain, body, &given).map_err(|_| BadSignature::Wrong)
    }

    fn standard(
        &self,
        id: &str,
        time: &str,
        signatures: &str,
        body: &[u8],
        now: SystemTime,
    ) -> Result<SignedId, BadSignature> {
        let signed = [id.as_bytes(), b".", time.as_bytes(), b".", body].concat();
        let fits = |signature: &str| {
            let given = signature.strip_prefix("v1,").and_then(|text| STANDARD.decode(text).ok());
            given.is_some_and(|given| hmac::verify(&self.standard, &signed, &given).is_ok())
        };
        // Several while a key is changed.
        // Bounded, because each costs a hash over the whole body.
        if !signatures.split_ascii_whitespace().take(16).any(fits) {
            return Err(BadSignature::Wrong);
        }
        let seconds = time.parse().map_err(|_| BadSignature::Wrong)?;
        let time = UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).ok_or(BadSignature::TooOld)?;
        if apart(time, now) > WINDOW {
            return Err(BadSignature::TooOld);
        }
        Ok(SignedId { id: id.to_owned(), time })
    }

    /// Remembers an id. One that was seen is no new delivery.
    fn once(&self, id: &str, time: SystemTime, now: SystemTime) -> Result<DeliveryOutcome, BadSignature> {
        let mut seen = self.seen.lock();
        if seen.contains_key(id) {
            return Ok(DeliveryOutcome::Again);
        }
        // Cleaned only when it is full, so that a delivery usually costs one lookup.
        if seen.len() >= MOST_IDS {
            seen.retain(|_, time| apart(*time, now) <= WINDOW);
        }
        if seen.len() >= MOST_IDS {
            return Err(BadSignature::TooMany);
        }
        seen.insert(id.to_owned(), time);
        Ok(DeliveryOutcome::Taken)
    }
}

pub(super) fn apart(a: SystemTime, b: SystemTime) -> Duration {
    // Clocks differ both ways.
    a.duration_since(b).unwrap_or_else(|earlier| earlier.duration())
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok())).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| ((*name).parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn the_example_of_the_hub_convention_fits() {
        // From the documentation of GitHub.
        let verifier = SignatureVerifier::new("It's a Secret to Everybody");
        let right = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        let verify = |signature: &str, body: &[u8]| verifier.verify(&headers(&[(HUB, signature)]), body, UNIX_EPOCH);
        assert_eq!(verify(right, b"Hello, World!"), Ok(DeliveryOutcome::Taken));
        assert_eq!(verify(right, b"Hello, World?"), Err(BadSignature::Wrong));
        let damaged =
            [right.replace("757", "857"), right.replace("sha256=", ""), right[..70].to_owned(), "sha256=".into()];
        for wrong in damaged {
            assert_eq!(verify(&wrong, b"Hello, World!"), Err(BadSignature::Wrong), "{wrong}");
        }
        assert_eq!(verifier.verify(&HeaderMap::new(), b"Hello, World!", UNIX_EPOCH), Err(BadSignature::Missing));
    }

    #[test]
    fn the_example_of_standard_webhooks_fits_once_and_within_its_window() {
        // From the documentation of Standard Webhooks.
        let verifier = SignatureVerifier::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let body = br#"{"test": 2432232314}"#;
        let sign = |id: &str, time: &str| {
            let signed = [id.as_bytes(), b".", time.as_bytes(), b".", body].concat();
            format!("v1,bm9wZQ== v1,{}", STANDARD.encode(hmac::sign(&verifier.standard, &signed)))
        };
        let (id, time) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330");
        let right = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let verify = |id: &str, time: &str, signature: &str, now| {
            verifier.verify(&headers(&[(ID, id), (TIME, time), (SIGNATURES, signature)]), body, now)
        };
        assert_eq!(verify(id, time, right, at(1_614_265_330 + 301)), Err(BadSignature::TooOld));
        assert_eq!(verify(id, time, right, at(1_614_265_330 - 301)), Err(BadSignature::TooOld));
        assert_eq!(verify(id, time, right, at(1_614_265_330 + 299)), Ok(DeliveryOutcome::Taken));
        assert_eq!(verify(id, time, right, at(1_614_265_330 + 299)), Ok(DeliveryOutcome::Again));
        assert_eq!(verify("other", time, right, at(1_614_265_330)), Err(BadSignature::Wrong));
        assert_eq!(verify("other", time, &sign("other", time), at(1_614_265_330)), Ok(DeliveryOutcome::Taken));
    }

    #[test]
    fn ids_are_remembered_for_the_window_and_no_longer() {
        let verifier = SignatureVerifier::new("s");
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        for number in 0..MOST_IDS {
            assert_eq!(verifier.once(&number.to_string(), at(1_000), at(1_000)), Ok(DeliveryOutcome::Taken));
        }
        assert_eq!(verifier.once("more", at(1_000), at(1_000)), Err(BadSignature::TooMany));
        assert_eq!(verifier.once("more", at(1_400), at(1_400)), Ok(DeliveryOutcome::Taken));
        assert_eq!(verifier.seen.lock().len(), 1);
    }
}
