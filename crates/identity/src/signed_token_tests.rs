//! Tokens that somebody made who must not come in.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use serde_json::json;

use super::*;

const ISSUER: &str = "https://login.example";
const AUDIENCE: &str = "https://gateway.example/mcp";

struct TokenSigner(EcdsaKeyPair);

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl TokenSigner {
    fn new() -> Self {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).expect("a key");
        Self(EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key.as_ref(), &random).expect("a key"))
    }

    fn jwk(&self, id: &str) -> Value {
        let point = self.0.public_key().as_ref();
        json!({"kty": "EC", "crv": "P-256", "kid": id, "use": "sig", "x": encoded(&point[1..33]), "y": encoded(&point[33..])})
    }

    fn token(&self, header: &Value, claims: &Value) -> String {
        let message = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
        let signature = self.0.sign(&SystemRandom::new(), message.as_bytes()).expect("a signature");
        format!("{message}.{}", encoded(signature))
    }
}

fn now() -> i64 {
    i64::try_from(jsonwebtoken::get_current_timestamp()).expect("a time")
}

fn claims() -> Value {
    json!({"iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "exp": now() + 300, "iat": now(), "scope": "mcp"})
}

fn with(changes: &Value) -> Value {
    let mut claims = claims();
    for (name, value) in changes.as_object().expect("an object") {
        match value.is_null() {
            true => drop(claims.as_object_mut().expect("an object").remove(name)),
            false => claims[name] = value.clone(),
        }
    }
    claims
}

fn header() -> Value {
    json!({"alg": "ES256", "typ": "at+jwt", "kid": "1"})
}

fn keys(list: &[Value]) -> PublishedKeys {
    PublishedKeys::read(json!({ "keys": list }).to_string().as_bytes()).expect("keys")
}

fn check(token: &str, keys: &PublishedKeys) -> Result<Map<String, Value>, RefusedToken> {
    let read = UnverifiedToken::read(token).expect("a token")?;
    assert_eq!(read.issuer, ISSUER, "the provider is chosen by this");
    read.verify(keys, &[AUDIENCE.to_owned()])
}

fn reason(refused: Result<Map<String, Value>, RefusedToken>) -> &'static str {
    match refused {
        Err(RefusedToken::Invalid(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

// identity 8.4
#[test]
fn a_token_that_its_provider_signed_for_us_is_good() {
    let signer = TokenSigner::new();
    let keys = keys(&[signer.jwk("1"), json!({"kty": "oct", "k": "AAAA"}), json!({"kty": "later"}), json!(3)]);
    assert_eq!(keys.0.len(), 1, "what is not understood is left out, and so is what everybody could sign with");
    assert_eq!(check(&signer.token(&header(), &claims()), &keys).expect("good")["sub"], "ada");
    let several = with(&json!({"aud": ["x", AUDIENCE], "nbf": now() + 20, "exp": now() - 20}));
    assert!(check(&signer.token(&header(), &several), &keys).is_ok(), "clocks may differ by half a minute");
    let unnamed = signer.token(&json!({"alg": "ES256"}), &claims());
    assert!(check(&unnamed, &keys).is_ok(), "neither a kind nor the name of a key is needed");
}

// identity 8.4
#[test]
fn an_edwards_key_is_good_too() {
    let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("a key");
    let key = Ed25519KeyPair::from_pkcs8(document.as_ref()).expect("a key");
    let jwk = json!({"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "kid": "e", "x": encoded(key.public_key())});
    let message =
        format!("{}.{}", encoded(json!({"alg": "EdDSA", "kid": "e"}).to_string()), encoded(claims().to_string()));
    let token = format!("{message}.{}", encoded(key.sign(message.as_bytes())));
    assert!(check(&token, &keys(&[jwk])).is_ok());
}

// identity 8.4
#[test]
fn forged_tokens_are_refused() {
    let (signer, thief) = (TokenSigner::new(), TokenSigner::new());
    let published = keys(&[signer.jwk("1")]);
    let unsigned = |algorithm: &str| {
        let header = json!({"alg": algorithm, "kid": "1"});
        format!("{}.{}.", encoded(header.to_string()), encoded(claims().to_string()))
    };
    for algorithm in ["none", "None", "NONE"] {
        assert!(check(&unsigned(algorithm), &published).is_err(), "{algorithm}");
    }
    // The public key as a secret that everybody knows.
    let message =
        format!("{}.{}", encoded(json!({"alg": "HS256", "kid": "1"}).to_string()), encoded(claims().to_string()));
    let secrets = [signer.0.public_key().as_ref().to_vec(), signer.jwk("1").to_string().into_bytes(), Vec::new()];
    for secret in secrets {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &secret);
        let token = format!("{message}.{}", encoded(ring::hmac::sign(&key, message.as_bytes())));
        assert!(check(&token, &published).is_err());
    }
    assert!(check(&thief.token(&header(), &claims()), &published).is_err(), "signed by another key of the same name");
    // A key that the token brings along.
    for member in ["jwk", "jku", "x5u", "x5c"] {
        let mut header = header();
        header[member] = match member {
            "jwk" => thief.jwk("1"),
            "x5c" => json!(["AAAA"]),
            _ => json!("https://evil.example/keys"),
        };
        assert!(check(&thief.token(&header, &claims()), &published).is_err(), "{member}");
    }
    // Names of keys that lead elsewhere.
    for id in ["../1", "1\u{0}", "' OR 1=1 --", "/dev/null", "https://evil.example/keys", "2", ""] {
        let header = json!({"alg": "ES256", "kid": id});
        assert!(check(&thief.token(&header, &claims()), &published).is_err(), "{id:?}");
        let named = signer.token(&header, &claims());
        let read = UnverifiedToken::read(&named).expect("a token").expect("readable");
        assert!(!read.is_known(&published), "{id:?} is no key that was published");
    }
    // The signature of another token, and none.
    let (good, other) = (signer.token(&header(), &claims()), signer.token(&header(), &with(&json!({"sub": "eve"}))));
    let (body, _) = other.rsplit_once('.').expect("parts");
    let (_, signature) = good.rsplit_once('.').expect("parts");
    assert!(check(&format!("{body}.{signature}"), &published).is_err());
    assert!(check(&format!("{body}."), &published).is_err());
    // Another algorithm than the key's.
    let es384 = signer.token(&json!({"alg": "ES384", "kid": "1"}), &claims());
    assert!(check(&es384, &published).is_err());
    let rs256 = signer.token(&json!({"alg": "RS256", "kid": "1"}), &claims());
    assert!(check(&rs256, &published).is_err());
}

// identity 8.4
#[test]
fn good_signatures_under_wrong_claims_are_refused() {
    let signer = TokenSigner::new();
    let published = keys(&[signer.jwk("1")]);
    let refused = |changes: Value| reason(check(&signer.token(&header(), &with(&changes)), &published));
    for audience in
        [json!("https://other.example/mcp"), json!([]), json!("https://gateway.example/mcp/"), json!({"a": 1})]
    {
        let reason = refused(json!({ "aud": audience }));
        assert!(reason.contains("somebody else") || reason.contains("lacks"), "{audience}: {reason}");
    }
    assert!(refused(json!({"exp": now() - 31})).contains("expired"));
    assert!(refused(json!({"nbf": now() + 40})).contains("not good yet"));
    for lacking in ["exp", "aud", "sub"] {
        assert!(refused(json!({ lacking: null })).contains("lacks"), "{lacking}");
    }
    assert!(refused(json!({"exp": "tomorrow"})).contains("lacks"));
    assert!(refused(json!({"at_hash": "x"})).contains("ID token"));
    for kind in ["logout+jwt", "dpop+jwt", "secevent+jwt"] {
        let token = signer.token(&json!({"alg": "ES256", "kid": "1", "typ": kind}), &claims());
        assert!(reason(check(&token, &published)).contains("kind"), "{kind}");
    }
    let critical = signer.token(&json!({"alg": "ES256", "kid": "1", "crit": ["exp"]}), &claims());
    assert!(reason(check(&critical, &published)).contains("kind"));
    let anonymous = signer.token(&header(), &with(&json!({"iss": null})));
    assert!(UnverifiedToken::read(&anonymous).is_none(), "nobody's key could be looked for");
    for text in ["", "a.b", "a.b.c", "a.b.c.d", ".."] {
        assert!(UnverifiedToken::read(text).is_none(), "{text:?}");
    }
}

// identity 1: "the page knows the browser by the provider of `[auth] jwt`"
#[test]
fn an_id_token_says_who_somebody_is_to_its_own_client_for_its_own_login_alone() {
    let (signer, thief) = (TokenSigner::new(), TokenSigner::new());
    let published = keys(&[signer.jwk("1")]);
    let identity = |signer: &TokenSigner, kind: &str, changes: Value| {
        let mut claims = with(&json!({"aud": "us", "nonce": "n", "at_hash": "x", "scope": null}));
        for (name, value) in changes.as_object().expect("an object") {
            claims[name] = value.clone();
        }
        let token = signer.token(&json!({"alg": "ES256", "typ": kind, "kid": "1"}), &claims);
        UnverifiedToken::read(&token).expect("a token")?.verify_identity(&published, "us", "n")
    };
    for good in [json!({}), json!({"aud": ["us"]}), json!({"azp": "us"}), json!({"aud": ["us", "b"], "azp": "us"})] {
        assert_eq!(identity(&signer, "JWT", good.clone()).expect("good")["sub"], "ada", "{good}");
    }
    for bad in [
        json!({"nonce": "of another login"}),
        json!({"nonce": null}),
        json!({"nonce": ["n"]}),
        json!({"aud": AUDIENCE}),
        json!({"aud": ["us", "b"]}),
        json!({"aud": ["us", "b"], "azp": "b"}),
        json!({"azp": "b"}),
        json!({"exp": now() - 31}),
        json!({"sub": null}),
    ] {
        assert!(identity(&signer, "JWT", bad.clone()).is_err(), "{bad}");
    }
    assert!(identity(&thief, "JWT", json!({})).is_err(), "signed by somebody else");
    assert!(identity(&signer, "at+jwt", json!({})).is_err(), "an access token, which others have, too");
    let unsigned = format!("{}.{}.", encoded(json!({"alg": "none"}).to_string()), encoded(claims().to_string()));
    assert!(UnverifiedToken::read(&unsigned).expect("a token").is_err());
}
