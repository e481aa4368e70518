//! Tokens that a provider signs (RFC 7519, RFC 9068): which are looked at at all, by which keys, and what has to be in them. No I/O.

use jsonwebtoken::dangerous::insecure_decode_claims;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation, decode, decode_header};
use serde_json::{Map, Value};

use crate::SKEW;
use crate::resource::RefusedToken;
use crate::ring_verifier::{ALLOWED, install};

/// Keys of one provider that are looked at.
const MOST_KEYS: usize = 64;
/// What a token may call itself. Others are made for other purposes, such as to end a session.
const TYPES: [&str; 3] = ["jwt", "at+jwt", "application/at+jwt"];
/// Claims that only an ID token has: it says who somebody is to a client, and opens nothing.
const OF_ID_TOKENS: [&str; 2] = ["at_hash", "c_hash"];

/// A token as far as it can be read without a key. Nothing in it is to be believed.
pub(crate) struct UnverifiedToken<'t> {
    text: &'t str,
    header: Header,
    /// Who it says has issued it.
    pub(crate) issuer: String,
}

/// The keys that a provider publishes.
#[derive(Default)]
pub(crate) struct PublishedKeys(Vec<PublishedKey>);

struct PublishedKey {
    id: Option<String>,
    algorithms: Vec<Algorithm>,
    key: DecodingKey,
}

impl<'t> UnverifiedToken<'t> {
    /// `None` for what is no such token at all.
    pub(crate) fn read(text: &'t str) -> Option<Result<Self, RefusedToken>> {
        install();
        if text.bytes().filter(|byte| *byte == b'.').count() != 2 {
            return None;
        }
        // No error but `None`: an opaque token may have two dots, too.
        let claims = insecure_decode_claims::<Map<String, Value>>(text).ok()?;
        let issuer = claims.get("iss")?.as_str()?.to_owned();
        // Also "none": the library has no word for it.
        let Ok(header) = decode_header(text) else {
            return Some(Err(RefusedToken::Invalid("the token is not signed in a way that is accepted")));
        };
        Some(Self { text, header, issuer }.checked())
    }

    fn checked(self) -> Result<Self, RefusedToken> {
        let header = &self.header;
        let kind = header.typ.as_deref().map(str::to_ascii_lowercase);
        // Before the keys are looked for: what a stranger sends must not lead to a reading for nothing.
        if !ALLOWED.contains(&header.alg) {
            return Err(RefusedToken::Invalid("the token is not signed in a way that is accepted"));
        }
        // What a token says must be understood, is not understood here (RFC 7515, section 4.1.11).
        if header.crit.is_some() || kind.is_some_and(|kind| !TYPES.contains(&&*kind)) {
            return Err(RefusedToken::Invalid("the token is of a kind that opens nothing"));
        }
        Ok(self)
    }

    /// Whether a key that could have signed it is among these.
    pub(crate) fn is_known(&self, keys: &PublishedKeys) -> bool {
        self.candidates(keys).next().is_some()
    }

    /// A key is chosen by what was published about it, never by what the token brings along (`jwk`, `jku`, `x5u`).
    fn candidates<'k>(&self, keys: &'k PublishedKeys) -> impl Iterator<Item = &'k PublishedKey> {
        let (id, algorithm) = (self.header.kid.clone(), self.header.alg);
        keys.0.iter().filter(move |key| {
            // A key without an id fits every token, and a token without one every key: both are optional (RFC 7515,
            // 4.1.4).
            key.algorithms.contains(&algorithm) && (id.is_none() || key.id.is_none() || key.id == id)
        })
    }

    /// What it says, if one of the keys has signed it for one of these audiences, it is good now, and it may open something.
    pub(crate) fn verify(&self, keys: &PublishedKeys, audience: &[String]) -> Result<Map<String, Value>, RefusedToken> {
        let claims = self.signed_for(keys, audience)?;
        match OF_ID_TOKENS.iter().any(|claim| claims.contains_key(*claim)) {
            true => Err(RefusedToken::Invalid("this is an ID token; send an access token")),
            false => Ok(claims),
        }
    }

    /// What it says as an ID token that was given to this client for this one request (OpenID Connect Core 1.0, 3.1.3.7).
    pub(crate) fn verify_identity(
        &self,
        keys: &PublishedKeys,
        client: &str,
        nonce: &str,
    ) -> Result<Map<String, Value>, RefusedToken> {
        let kind = self.header.typ.as_deref().map(str::to_ascii_lowercase);
        // An access token (`at+jwt`) of the same provider must not pass for one.
        if kind.is_some_and(|kind| kind != "jwt") {
            return Err(RefusedToken::Invalid("this is no ID token"));
        }
        let claims = self.signed_for(keys, &[client.to_owned()])?;
        // Who it was given to, where it is meant for others, too.
        let given_to = claims.get("azp").and_then(Value::as_str);
        let is_for_others = claims.get("aud").and_then(Value::as_array).is_some_and(|all| all.len() > 1);
        if given_to.is_some_and(|party| party != client) || (is_for_others && given_to.is_none()) {
            return Err(RefusedToken::Invalid("the ID token was given to another client"));
        }
        // One of another login, which somebody may have kept and put in here.
        if claims.get("nonce").and_then(Value::as_str) != Some(nonce) {
            return Err(RefusedToken::Invalid("the ID token belongs to another login"));
        }
        Ok(claims)
    }

    /// What it says, if one of the keys has signed it for one of these audiences, and it is good now.
    fn signed_for(&self, keys: &PublishedKeys, audience: &[String]) -> Result<Map<String, Value>, RefusedToken> {
        // The algorithm of the token, which is safe: the candidates were published for that one, and symmetric ones are
        // not allowed.
        let mut rules = Validation::new(self.header.alg);
        rules.leeway = SKEW.as_secs();
        rules.validate_nbf = true;
        rules.set_audience(audience);
        // Its own word: whoever calls has chosen the keys by exactly this issuer.
        rules.set_issuer(&[&self.issuer]);
        // Without this a token without an audience would be meant for everybody.
        rules.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        let mut refused = RefusedToken::Invalid("the signature of the token is not good");
        for candidate in self.candidates(keys) {
            match decode::<Map<String, Value>>(self.text, &candidate.key, &rules) {
                Ok(token) => return Ok(token.claims),
                // Another key may have signed it.
                Err(error) if matches!(error.kind(), ErrorKind::InvalidSignature) => {}
                // Claims are looked at after the signature: what is wrong with a token that the provider has signed may
                // be told.
                Err(error) => refused = RefusedToken::Invalid(reason(error.kind())),
            }
        }
        Err(refused)
    }
}

fn reason(kind: &ErrorKind) -> &'static str {
    match kind {
        ErrorKind::ExpiredSignature => "the token has expired; if it is fresh, look at the clocks",
        ErrorKind::ImmatureSignature => "the token is not good yet; look at the clocks",
        ErrorKind::InvalidAudience => "the token is meant for somebody else",
        ErrorKind::MissingRequiredClaim(_) => "the token lacks one of exp, iss, aud and sub",
        _ => "the token is not good",
    }
}

impl PublishedKeys {
    /// Those of a document (RFC 7517) that can be used here; `None` when it is no such document.
    pub(crate) fn read(document: &[u8]) -> Option<Self> {
        let document: Value = serde_json::from_slice(document).ok()?;
        let keys = document.get("keys")?.as_array()?;
        // One that is not understood is of no use, and no harm to the others.
        let read = |key: &Value| serde_json::from_value::<Jwk>(key.clone()).ok().as_ref().and_then(published);
        // Counted after those that can not be used, of which a provider may have many.
        Some(Self(keys.iter().filter_map(read).take(MOST_KEYS).collect()))
    }
}

fn published(jwk: &Jwk) -> Option<PublishedKey> {
    // A key for encryption is no proof of who has signed.
    if !matches!(jwk.common.public_key_use, None | Some(PublicKeyUse::Signature)) {
        return None;
    }
    let fitting: &[Algorithm] = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => &[Algorithm::RS256, Algorithm::PS256],
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => &[Algorithm::ES256],
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P384 => &[Algorithm::ES384],
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => &[Algorithm::EdDSA],
        // Above all no symmetric keys: what everybody can read proves nothing.
        _ => return None,
    };
    let said = jwk.common.key_algorithm.map(|algorithm| algorithm.to_string());
    // `Ed25519` is the later word for EdDSA with this curve.
    let is_said = |algorithm: &Algorithm| {
        let name = format!("{algorithm:?}");
        said.as_ref().is_none_or(|said| *said == name || (name == "EdDSA" && said == "Ed25519"))
    };
    let algorithms: Vec<Algorithm> = fitting.iter().copied().filter(is_said).collect();
    let key = DecodingKey::from_jwk(jwk).ok().filter(|_| !algorithms.is_empty())?;
    Some(PublishedKey { id: jwk.common.key_id.clone(), algorithms, key })
}

#[cfg(test)]
#[path = "signed_token_tests.rs"]
mod tests;
