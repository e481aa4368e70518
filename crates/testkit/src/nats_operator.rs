//! An operator of NATS with one account: who it is, what a server has to be told of it, and credentials of its users.
//!
//! A token of NATS is a JWT signed with Ed25519 by a key whose public half stands in it as text in base32, with what the key is of before it and a
//! checksum behind it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};

const OPERATOR: u8 = 14 << 3;
const ACCOUNT: u8 = 0;
const USER: u8 = 20 << 3;
const SEED: u8 = 18 << 3;

/// Somebody whose accounts a server knows.
pub struct NatsOperator {
    own: NatsKey,
    system: NatsKey,
    account: NatsKey,
}

struct NatsKey {
    kind: u8,
    seed: [u8; 32],
    pair: Ed25519KeyPair,
}

impl NatsOperator {
    /// A new one, with an account that may use JetStream.
    pub fn new() -> Self {
        Self { own: NatsKey::new(OPERATOR), system: NatsKey::new(ACCOUNT), account: NatsKey::new(ACCOUNT) }
    }

    /// What stands in the configuration of a server that trusts it.
    pub fn server_settings(&self) -> String {
        let operator = self.own.sign(&self.own.public(), json!({ "type": "operator" }));
        let account = |key: &NatsKey, storage: i64| {
            let limits = json!({
                "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1,
                "leaf": -1, "mem_storage": storage, "disk_storage": storage, "streams": storage, "consumer": storage,
            });
            let public = key.public();
            let token =
                self.own.sign(&public, json!({ "type": "account", "limits": limits, "default_permissions": {} }));
            format!("{public}: {token}")
        };
        let (system, used) = (account(&self.system, 0), account(&self.account, -1));
        format!(
            "operator: {operator}\nsystem_account: {}\nresolver: MEMORY\nresolver_preload {{\n{system}\n{used}\n}}\n",
            self.system.public()
        )
    }

    /// The `.creds` file of a new user of the account, and the seed in it.
    pub fn credentials(&self) -> (String, String) {
        let user = NatsKey::new(USER);
        let claims = json!({ "type": "user", "pub": {}, "sub": {}, "subs": -1, "data": -1, "payload": -1 });
        let token = self.account.sign(&user.public(), claims);
        let seed = user.written_seed();
        let file = format!(
            "-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        );
        (file, seed)
    }
}

impl Default for NatsOperator {
    fn default() -> Self {
        Self::new()
    }
}

impl NatsKey {
    fn new(kind: u8) -> Self {
        let mut seed = [0; 32];
        SystemRandom::new().fill(&mut seed).expect("the system has random numbers");
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).expect("32 bytes are a seed");
        Self { kind, seed, pair }
    }

    fn public(&self) -> String {
        written([&[self.kind], self.pair.public_key().as_ref()].concat())
    }

    fn written_seed(&self) -> String {
        written([&[SEED | (self.kind >> 5), (self.kind & 31) << 3], &self.seed[..]].concat())
    }

    /// A token about `subject`.
    fn sign(&self, subject: &str, mut claims: Value) -> String {
        claims["version"] = json!(2);
        let body = json!({
            "jti": subject, "iat": 1_600_000_000, "iss": self.public(), "name": "test", "sub": subject, "nats": claims,
        });
        let head = json!({ "typ": "JWT", "alg": "ed25519-nkey" });
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&head), part(&body));
        let signature = URL_SAFE_NO_PAD.encode(self.pair.sign(signed.as_bytes()));
        format!("{signed}.{signature}")
    }
}

/// The bytes and their CRC-16/XMODEM, in base32 without padding.
fn written(mut bytes: Vec<u8>) -> String {
    let mut crc = 0u16;
    for byte in &bytes {
        crc ^= u16::from(*byte) << 8;
        for _ in 0..8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
        }
    }
    bytes.extend(crc.to_le_bytes());
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let (mut text, mut held, mut bits) = (String::new(), 0u32, 0);
    for byte in bytes {
        held = (held << 8) | u32::from(byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            text.push(char::from(digits[(held >> bits) as usize & 31]));
        }
        held &= (1 << bits) - 1;
    }
    if bits > 0 {
        text.push(char::from(digits[(held << (5 - bits)) as usize & 31]));
    }
    text
}
