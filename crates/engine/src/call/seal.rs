//! Opaque values that clients carry for us: the state of a multi-round request, and cursors.
//!
//! Both are authenticated and bound to what they were made for, so that nobody can move them elsewhere.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use serde_json::{Value, json};
use tidings_hub::catalogue::PageKey;
use tidings_proto::{ListKind, Revision};

/// How long a client may take to come back with input.
const STATE_TTL: Duration = Duration::from_secs(60 * 60);
const STATE: &str = "g1.";
const CURSOR: &str = "c1.";
/// Which key sealed it; there is one as long as there is one process.
const KEY_ID: u8 = 1;

pub(crate) struct Sealer {
    key: LessSafeKey,
    clock: fn() -> SystemTime,
}

/// What a state was made for.
pub(crate) struct Binding<'a> {
    pub(crate) principal: &'a str,
    pub(crate) method: &'a str,
    pub(crate) name: &'a str,
    pub(crate) arguments: &'a [u8],
}

impl Binding<'_> {
    fn bytes(&self) -> Vec<u8> {
        let digest = blake3::hash(self.arguments);
        let mut out = Vec::new();
        for part in [self.principal, self.method, self.name] {
            // Lengths first, so that two different triples can never give the same bytes.
            out.extend_from_slice(&(part.len() as u64).to_le_bytes());
            out.extend_from_slice(part.as_bytes());
        }
        out.extend_from_slice(digest.as_bytes());
        out
    }
}

/// What was inside a state.
pub(crate) struct Opened {
    pub(crate) server: String,
    pub(crate) inner: String,
}

impl Sealer {
    pub(crate) fn new() -> Self {
        Self::with_clock(SystemTime::now)
    }

    fn with_clock(clock: fn() -> SystemTime) -> Self {
        let mut secret = [0; 32];
        // Without random numbers no key can be made, and nothing else in the process would be safe either.
        getrandom::fill(&mut secret).expect("the system has random numbers");
        let key = UnboundKey::new(&CHACHA20_POLY1305, &secret).expect("the key has the right length");
        Self { key: LessSafeKey::new(key), clock }
    }

    pub(crate) fn seal_state(&self, server: &str, inner: &str, binding: &Binding<'_>) -> String {
        let expires = self.now() + STATE_TTL.as_secs();
        let payload = json!({ "t": "wrap", "u": server, "x": expires, "s": inner }).to_string();
        self.seal(STATE, payload.into_bytes(), &binding.bytes())
    }

    pub(crate) fn open_state(&self, sealed: &str, binding: &Binding<'_>) -> Result<Opened, &'static str> {
        let payload =
            self.open(STATE, sealed, &binding.bytes()).ok_or("it was made for another request, or changed")?;
        let value: Value = serde_json::from_slice(&payload).map_err(|_| "it is damaged")?;
        if value["x"].as_u64().unwrap_or(0) < self.now() {
            return Err("it has expired");
        }
        let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        Ok(Opened { server: text("u"), inner: text("s") })
    }

    pub(crate) fn seal_cursor(&self, kind: ListKind, revision: Revision, key: &PageKey) -> String {
        let payload = json!([key.server, key.place, key.keys]).to_string();
        self.seal(CURSOR, payload.into_bytes(), &cursor_binding(kind, revision))
    }

    pub(crate) fn open_cursor(&self, kind: ListKind, revision: Revision, sealed: &str) -> Option<PageKey> {
        let payload = self.open(CURSOR, sealed, &cursor_binding(kind, revision))?;
        let (server, place, keys): (u32, usize, Vec<String>) = serde_json::from_slice(&payload).ok()?;
        Some(PageKey { server, keys, place })
    }

    fn now(&self) -> u64 {
        (self.clock)().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
    }

    fn seal(&self, mark: &str, mut payload: Vec<u8>, binding: &[u8]) -> String {
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).expect("the system has random numbers");
        // 96 random bits for a key that lives as long as the process: a repetition is out of reach.
        let unique = Nonce::assume_unique_for_key(nonce);
        self.key
            .seal_in_place_append_tag(unique, Aad::from(binding), &mut payload)
            .expect("the payload is far below the cipher's limit");
        let sealed = [&[KEY_ID][..], &nonce, &payload].concat();
        format!("{mark}{}", URL_SAFE_NO_PAD.encode(sealed))
    }

    fn open(&self, mark: &str, sealed: &str, binding: &[u8]) -> Option<Vec<u8>> {
        let raw = URL_SAFE_NO_PAD.decode(sealed.strip_prefix(mark)?).ok()?;
        let (&key_id, rest) = raw.split_first()?;
        if key_id != KEY_ID {
            return None;
        }
        let (nonce, payload) = rest.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut payload = payload.to_vec();
        let opened = self.key.open_in_place(nonce, Aad::from(binding), &mut payload).ok()?;
        Some(opened.to_vec())
    }
}

fn cursor_binding(kind: ListKind, revision: Revision) -> Vec<u8> {
    format!("{}\0{revision}", kind.method()).into_bytes()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    fn binding(principal: &'static str, arguments: &'static [u8]) -> Binding<'static> {
        Binding { principal, method: "tools/call", name: "t", arguments }
    }

    #[test]
    fn state_opens_only_for_the_request_it_was_made_for() {
        let sealer = Sealer::new();
        let sealed = sealer.seal_state("a", "inner", &binding("p", b"{}"));
        assert_eq!(sealer.open_state(&sealed, &binding("p", b"{}")).map(|o| o.inner), Ok("inner".to_owned()));
        assert!(sealer.open_state(&sealed, &binding("q", b"{}")).is_err());
        assert!(sealer.open_state(&sealed, &binding("p", b"{ }")).is_err());
        let mut tampered = sealed.into_bytes();
        let last = tampered.len() - 1;
        tampered[last] ^= 1;
        let tampered = String::from_utf8(tampered).expect("still text");
        assert!(sealer.open_state(&tampered, &binding("p", b"{}")).is_err());
    }

    // bridging 36
    #[test]
    fn a_state_opens_until_its_time_is_over() {
        static SECONDS: AtomicU64 = AtomicU64::new(1_000_000);
        let sealer = Sealer::with_clock(|| UNIX_EPOCH + Duration::from_secs(SECONDS.load(Ordering::SeqCst)));
        let sealed = sealer.seal_state("a", "inner", &binding("p", b"{}"));
        let open = || sealer.open_state(&sealed, &binding("p", b"{}")).map(|opened| opened.inner);
        SECONDS.fetch_add(STATE_TTL.as_secs(), Ordering::SeqCst);
        assert_eq!(open(), Ok("inner".to_owned()));
        SECONDS.fetch_add(1, Ordering::SeqCst);
        assert_eq!(open(), Err("it has expired"));
        SECONDS.fetch_sub(1, Ordering::SeqCst);
        assert_eq!(open(), Ok("inner".to_owned()), "only the clock decides");
    }

    #[test]
    fn cursor_belongs_to_its_list_and_revision() {
        let sealer = Sealer::new();
        let key = PageKey { server: 3, keys: vec!["x".into()], place: 1 };
        let sealed = sealer.seal_cursor(ListKind::Tools, Revision::MODERN, &key);
        assert_eq!(sealer.open_cursor(ListKind::Tools, Revision::MODERN, &sealed), Some(key));
        assert_eq!(sealer.open_cursor(ListKind::Prompts, Revision::MODERN, &sealed), None);
        assert_eq!(sealer.open_cursor(ListKind::Tools, Revision::V2025_06_18, &sealed), None);
        assert_eq!(sealer.open_cursor(ListKind::Tools, Revision::MODERN, "c1.AAAA"), None);
    }
}
