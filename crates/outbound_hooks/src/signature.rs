//! The signatures of Standard Webhooks.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;

/// Signs with one secret, or with two while one takes the place of the other. Without any nothing is signed.
pub struct MessageSigner(Vec<hmac::Key>);

impl MessageSigner {
    /// Of secrets as the configuration has them: `whsec_` and base64. What is none is refused there and left out here.
    pub fn new(secrets: &[String]) -> Self {
        let key = |secret: &String| {
            let bytes = STANDARD.decode(secret.strip_prefix("whsec_")?).ok()?;
            Some(hmac::Key::new(hmac::HMAC_SHA256, &bytes))
        };
        Self(secrets.iter().filter_map(key).collect())
    }

    /// The value of `webhook-signature`; `None` where nothing is signed. `seconds` is the value of `webhook-timestamp`.
    pub fn sign(&self, id: &str, seconds: u64, body: &[u8]) -> Option<String> {
        let signed = [id.as_bytes(), b".", seconds.to_string().as_bytes(), b".", body].concat();
        let one = |key: &hmac::Key| format!("v1,{}", STANDARD.encode(hmac::sign(key, &signed)));
        let all: Vec<String> = self.0.iter().map(one).collect();
        // All in one header, parted by spaces: a receiver takes the message if one of them fits, which lets secrets be
        // exchanged.
        (!all.is_empty()).then(|| all.join(" "))
    }
}

impl fmt::Debug for MessageSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MessageSigner({} secrets)", self.0.len())
    }
}
