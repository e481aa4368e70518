//! A client that proves itself by a key (RFC 7523, `private_key_jwt`): a short statement, signed.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use serde_json::json;

use crate::authorization::fresh_secret;

/// For how long a statement counts, in seconds.
const LIFE: u64 = 120;

/// Why a key can not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KeyFault {
    #[error("`client_key` is not a private key in PEM (-----BEGIN PRIVATE KEY-----)")]
    NoPem,
    #[error("`client_key` must be a key for ES256, RS256 or EdDSA, in PKCS #8")]
    Unknown,
    #[error("`client_key` can not sign")]
    Failed,
}

/// The statement that this client is who it says, for one provider. `now`: seconds since 1970.
pub(crate) fn sign(pem: &str, client_id: &str, audience: &str, now: u64) -> Result<String, KeyFault> {
    let key = der(pem).ok_or(KeyFault::NoPem)?;
    // The issuer is the audience, and not the token endpoint: a provider can name the endpoint of another as its own,
    // and would be given what opens that one. The number is fresh, because one that comes twice is a replay.
    let claims = json!({
        "iss": client_id, "sub": client_id, "aud": audience, "jti": fresh_secret(), "iat": now, "exp": now + LIFE,
    });
    let signer = Signer::of(&key)?;
    let header = json!({ "alg": signer.algorithm(), "typ": "JWT" });
    let encode = |value: &serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let text = format!("{}.{}", encode(&header), encode(&claims));
    let signature = signer.sign(text.as_bytes())?;
    Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

/// The bytes between the lines of a PEM.
fn der(pem: &str) -> Option<Vec<u8>> {
    let after = pem.split_once("-----BEGIN PRIVATE KEY-----")?.1;
    let inside = after.split_once("-----END PRIVATE KEY-----")?.0;
    // A value of the configuration may carry its line ends as two characters.
    let text: String = inside.replace("\\n", "").chars().filter(|c| !c.is_whitespace()).collect();
    STANDARD.decode(text).ok()
}

enum Signer {
    Ec(Box<EcdsaKeyPair>),
    Rsa(Box<RsaKeyPair>),
    Ed(Box<Ed25519KeyPair>),
}

impl Signer {
    fn of(key: &[u8]) -> Result<Self, KeyFault> {
        if let Ok(key) = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key, &SystemRandom::new()) {
            return Ok(Self::Ec(Box::new(key)));
        }
        if let Ok(key) = RsaKeyPair::from_pkcs8(key) {
            return Ok(Self::Rsa(Box::new(key)));
        }
        // Also without the public key inside (version 1), which is what OpenSSL writes.
        Ed25519KeyPair::from_pkcs8_maybe_unchecked(key).map(Box::new).map(Self::Ed).map_err(|_| KeyFault::Unknown)
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Self::Ec(_) => "ES256",
            Self::Rsa(_) => "RS256",
            Self::Ed(_) => "EdDSA",
        }
    }

    fn sign(&self, text: &[u8]) -> Result<Vec<u8>, KeyFault> {
        let random = SystemRandom::new();
        match self {
            Self::Ec(key) => key.sign(&random, text).map(|sign| sign.as_ref().to_vec()).map_err(|_| KeyFault::Failed),
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                let signed = key.sign(&RSA_PKCS1_SHA256, &random, text, &mut signature);
                signed.map(|()| signature).map_err(|_| KeyFault::Failed)
            }
            Self::Ed(key) => Ok(key.sign(text).as_ref().to_vec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use ring::signature::{ECDSA_P256_SHA256_FIXED, KeyPair as _, UnparsedPublicKey};

    use super::*;

    #[test]
    fn the_statement_is_signed_by_the_key_and_names_whom_it_is_for() {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).expect("a key");
        let pem =
            format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", STANDARD.encode(key.as_ref()));
        let said = sign(&pem, "me", "https://login.example", 1_000).expect("a statement");
        let (text, signature) = said.rsplit_once('.').expect("three parts");
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key.as_ref(), &random).expect("a key");
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, pair.public_key().as_ref().to_vec());
        let signature = URL_SAFE_NO_PAD.decode(signature).expect("base64");
        assert!(public.verify(text.as_bytes(), &signature).is_ok());
        let claims = text.split_once('.').expect("two parts").1;
        let claims: serde_json::Value =
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).expect("base64")).expect("JSON");
        assert_eq!(
            (&claims["aud"], &claims["sub"], &claims["exp"]),
            (&json!("https://login.example"), &json!("me"), &json!(1_120))
        );
        assert_eq!(sign("nothing", "me", "x", 0), Err(KeyFault::NoPem));
        let other = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----";
        assert_eq!(sign(other, "me", "x", 0), Err(KeyFault::Unknown));
    }
}
