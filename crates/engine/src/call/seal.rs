//! Opaque values that clients carry for us: the state of a multi-round request, and cursors.
//!
//! Both are authenticated and bound to what they were made for, so that nobody can move them elsewhere. States are sealed under a key
//! that outlives the process: after a restart one that was given before is told from one that somebody made up. Cursors name places
//! in lists of this process, and their key ends with it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use serde_json::{Value, json};
use tidings_hub::ServerId;
use tidings_hub::catalogue::PageKey;
use tidings_hub::parks::ParkId;
use tidings_proto::refusal::RequestRefusal;
use tidings_proto::{ListKind, Revision, SkillMethod};

use crate::plan::seal_key::SealKey;

/// How long a client may take to come back with input.
const STATE_TTL: Duration = Duration::from_secs(60 * 60);
const STATE: &str = "g1.";
const CURSOR: &str = "c1.";
/// Which key sealed it. There is one of each kind at a time; another number would be another way to make it.
const KEY_ID: u8 = 1;
/// What the key of states is derived for.
const CURSOR_PURPOSE: &str = "tidings 2026-11 cursor of a cluster";
const STATE_PURPOSE: &str = "tidings 2026-11 state of a request of several rounds";

pub(crate) struct Sealer {
    states: LessSafeKey,
    cursors: LessSafeKey,
    /// Tells this process from others that have the same key.
    replica: u64,
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OpenedState {
    /// The own state of a server.
    Wrap { server: String, inner: String },
    /// A call that waits here for its client, or has waited.
    Park {
        park: ParkId,
        round: u32,
        /// The time for its answers is over. The call may be here all the same: it was taken up in time, or its answer is kept.
        is_late: bool,
    },
}

/// The times of a round, from now on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ParkTimes {
    /// Until when the client is to answer it.
    pub(crate) due: Duration,
    /// Until when the call, or its answer, may be here.
    pub(crate) kept: Duration,
}

/// Why a state does not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateFault {
    /// Another request's, another principal's, or nobody's.
    Foreign,
    Damaged,
    Expired,
    /// It is good, but the call that it names waits in another process, which may be over.
    OtherReplica,
}

impl StateFault {
    /// What is said of a state whose time is over.
    pub(crate) const EXPIRED: &'static str =
        "it has expired (`input_wait`, or `max_timeout` of its server); call again without requestState";
}

impl From<StateFault> for RequestRefusal {
    fn from(fault: StateFault) -> Self {
        match fault {
            StateFault::Foreign => Self::InvalidState("it was made for another request, or changed"),
            StateFault::Damaged => Self::InvalidState("it is damaged"),
            StateFault::Expired => Self::InvalidState(StateFault::EXPIRED),
            StateFault::OtherReplica => Self::ParkLost,
        }
    }
}

impl Sealer {
    pub(crate) fn new(key: &SealKey) -> Self {
        Self::with_clock(key, SystemTime::now)
    }

    /// One of several processes with the same key, for which cursors of the others are good. `servers`: what their places in lists go by.
    pub(crate) fn of_replica(key: &SealKey, servers: &str) -> Self {
        let mut secret = key.secret().to_vec();
        secret.extend_from_slice(servers.as_bytes());
        let cursors = blake3::derive_key(CURSOR_PURPOSE, &secret);
        Self { cursors: aead(&cursors), ..Self::new(key) }
    }

    fn with_clock(key: &SealKey, clock: fn() -> SystemTime) -> Self {
        let mut replica = [0; 8];
        // Without random numbers no key can be made, and nothing else in the process would be safe either.
        getrandom::fill(&mut replica).expect("the system has random numbers");
        Self {
            states: aead(&blake3::derive_key(STATE_PURPOSE, key.secret())),
            // A fresh key: a cursor names a server by a number that the next process may give to another one.
            cursors: aead(SealKey::default().secret()),
            replica: u64::from_le_bytes(replica),
            clock,
        }
    }

    pub(crate) fn seal_state(&self, server: &str, inner: &str, binding: &Binding<'_>) -> String {
        let expires = self.now() + STATE_TTL.as_secs();
        let payload = json!({ "t": "wrap", "u": server, "x": expires, "s": inner }).to_string();
        seal(&self.states, STATE, payload.into_bytes(), &binding.bytes())
    }

    /// Names a call that waits here, and the round that its client is to answer. It opens for as long as the call may be here: who
    /// was in time may ask again for what came of it.
    pub(crate) fn seal_park(&self, park: ParkId, round: u32, times: ParkTimes, binding: &Binding<'_>) -> String {
        // Rounded up: a client that is in time must not be late for the length of a second.
        let after = |time: Duration| self.now() + time.as_secs() + 1;
        let (due, expires) = (after(times.due), after(times.kept.max(times.due)));
        let payload =
            json!({ "t": "park", "r": self.replica, "p": park.0, "n": round, "d": due, "x": expires }).to_string();
        seal(&self.states, STATE, payload.into_bytes(), &binding.bytes())
    }

    /// Whether it may be a state of ours, before it is opened.
    pub(crate) fn looks_like_state(raw: &[u8]) -> bool {
        raw.strip_prefix(b"\"").is_some_and(|text| text.starts_with(STATE.as_bytes()))
    }

    pub(crate) fn open_state(&self, sealed: &str, binding: &Binding<'_>) -> Result<OpenedState, StateFault> {
        let payload = open(&self.states, STATE, sealed, &binding.bytes()).ok_or(StateFault::Foreign)?;
        let value: Value = serde_json::from_slice(&payload).map_err(|_| StateFault::Damaged)?;
        if value["x"].as_u64().unwrap_or(0) < self.now() {
            return Err(StateFault::Expired);
        }
        let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        let number = |name: &str| value[name].as_u64().ok_or(StateFault::Damaged);
        if value["t"] != "park" {
            return Ok(OpenedState::Wrap { server: text("u"), inner: text("s") });
        }
        if number("r")? != self.replica {
            return Err(StateFault::OtherReplica);
        }
        let round = u32::try_from(number("n")?).map_err(|_| StateFault::Damaged)?;
        let is_late = number("d")? < self.now();
        Ok(OpenedState::Park { park: ParkId(number("p")?), round, is_late })
    }

    pub(crate) fn seal_cursor(&self, kind: ListKind, revision: Revision, key: &PageKey) -> String {
        let payload = json!([key.server, key.place, key.keys]).to_string();
        seal(&self.cursors, CURSOR, payload.into_bytes(), &cursor_binding(kind, revision))
    }

    pub(crate) fn open_cursor(&self, kind: ListKind, revision: Revision, sealed: &str) -> Option<PageKey> {
        let payload = open(&self.cursors, CURSOR, sealed, &cursor_binding(kind, revision))?;
        let (server, place, keys): (u32, usize, Vec<String>) = serde_json::from_slice(&payload).ok()?;
        Some(PageKey { server, keys, place })
    }

    /// Names the place from which the next page of all skills comes: the server, and its own cursor where it gave one.
    pub(crate) fn seal_skills_cursor(&self, revision: Revision, server: ServerId, own: Option<&str>) -> String {
        let payload = json!([server.0, own]).to_string();
        seal(&self.cursors, CURSOR, payload.into_bytes(), &skills_binding(revision))
    }

    pub(crate) fn open_skills_cursor(&self, revision: Revision, sealed: &str) -> Option<(ServerId, Option<String>)> {
        let payload = open(&self.cursors, CURSOR, sealed, &skills_binding(revision))?;
        let (server, own) = serde_json::from_slice(&payload).ok()?;
        Some((ServerId(server), own))
    }

    fn now(&self) -> u64 {
        (self.clock)().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
    }
}

fn aead(secret: &[u8; 32]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, secret).expect("the key has the right length"))
}

fn seal(key: &LessSafeKey, mark: &str, mut payload: Vec<u8>, binding: &[u8]) -> String {
    let mut nonce = [0; NONCE_LEN];
    getrandom::fill(&mut nonce).expect("the system has random numbers");
    // 96 random bits: a repetition is out of reach for as many states as one key will ever seal.
    let unique = Nonce::assume_unique_for_key(nonce);
    key.seal_in_place_append_tag(unique, Aad::from(binding), &mut payload)
        .expect("the payload is far below the cipher's limit");
    let sealed = [&[KEY_ID][..], &nonce, &payload].concat();
    format!("{mark}{}", URL_SAFE_NO_PAD.encode(sealed))
}

fn open(key: &LessSafeKey, mark: &str, sealed: &str, binding: &[u8]) -> Option<Vec<u8>> {
    let raw = URL_SAFE_NO_PAD.decode(sealed.strip_prefix(mark)?).ok()?;
    let (&key_id, rest) = raw.split_first()?;
    if key_id != KEY_ID {
        return None;
    }
    let (nonce, payload) = rest.split_at_checked(NONCE_LEN)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
    let mut payload = payload.to_vec();
    let opened = key.open_in_place(nonce, Aad::from(binding), &mut payload).ok()?;
    Some(opened.to_vec())
}

fn cursor_binding(kind: ListKind, revision: Revision) -> Vec<u8> {
    format!("{}\0{revision}", kind.method()).into_bytes()
}

fn skills_binding(revision: Revision) -> Vec<u8> {
    format!("{}\0{revision}", SkillMethod::List.as_str()).into_bytes()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    fn binding(principal: &'static str, arguments: &'static [u8]) -> Binding<'static> {
        Binding { principal, method: "tools/call", name: "t", arguments }
    }

    const NINE: ParkTimes = ParkTimes { due: Duration::from_secs(9), kept: Duration::from_secs(20) };

    // bridging 36
    #[test]
    fn a_park_opens_late_for_as_long_as_its_answer_may_be_kept() {
        static SECONDS: AtomicU64 = AtomicU64::new(1_000_000);
        let sealer = Sealer::with_clock(&SealKey::default(), || {
            UNIX_EPOCH + Duration::from_secs(SECONDS.load(Ordering::SeqCst))
        });
        let sealed = sealer.seal_park(ParkId(5), 2, NINE, &binding("p", b"{}"));
        let open = || sealer.open_state(&sealed, &binding("p", b"{}"));
        for (after, is_late) in [(0, false), (10, false), (1, true), (10, true)] {
            SECONDS.fetch_add(after, Ordering::SeqCst);
            assert_eq!(open(), Ok(OpenedState::Park { park: ParkId(5), round: 2, is_late }));
        }
        SECONDS.fetch_add(1, Ordering::SeqCst);
        assert_eq!(open(), Err(StateFault::Expired));
    }

    fn wrapped() -> OpenedState {
        OpenedState::Wrap { server: "a".into(), inner: "inner".into() }
    }

    // bridging 36
    #[test]
    fn a_park_opens_in_its_own_process_and_is_recognised_by_the_next_one() {
        let key = SealKey::default();
        let (before, after) = (Sealer::new(&key), Sealer::new(&key));
        let sealed = before.seal_park(ParkId(5), 2, NINE, &binding("p", b"{}"));
        assert!(Sealer::looks_like_state(format!("\"{sealed}\"").as_bytes()));
        assert_eq!(
            before.open_state(&sealed, &binding("p", b"{}")),
            Ok(OpenedState::Park { park: ParkId(5), round: 2, is_late: false })
        );
        assert_eq!(before.open_state(&sealed, &binding("q", b"{}")), Err(StateFault::Foreign));
        assert_eq!(after.open_state(&sealed, &binding("p", b"{}")), Err(StateFault::OtherReplica));
        let stranger = Sealer::new(&SealKey::default());
        assert_eq!(stranger.open_state(&sealed, &binding("p", b"{}")), Err(StateFault::Foreign));
    }

    #[test]
    fn state_opens_only_for_the_request_it_was_made_for() {
        let sealer = Sealer::new(&SealKey::default());
        let sealed = sealer.seal_state("a", "inner", &binding("p", b"{}"));
        assert_eq!(sealer.open_state(&sealed, &binding("p", b"{}")), Ok(wrapped()));
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
        let sealer = Sealer::with_clock(&SealKey::default(), || {
            UNIX_EPOCH + Duration::from_secs(SECONDS.load(Ordering::SeqCst))
        });
        let sealed = sealer.seal_state("a", "inner", &binding("p", b"{}"));
        let open = || sealer.open_state(&sealed, &binding("p", b"{}"));
        SECONDS.fetch_add(STATE_TTL.as_secs(), Ordering::SeqCst);
        assert_eq!(open(), Ok(wrapped()));
        SECONDS.fetch_add(1, Ordering::SeqCst);
        assert_eq!(open(), Err(StateFault::Expired));
        SECONDS.fetch_sub(1, Ordering::SeqCst);
        assert_eq!(open(), Ok(wrapped()), "only the clock decides");
    }

    #[test]
    fn cursor_belongs_to_its_list_and_revision() {
        let sealer = Sealer::new(&SealKey::default());
        let key = PageKey { server: 3, keys: vec!["x".into()], place: 1 };
        let sealed = sealer.seal_cursor(ListKind::Tools, Revision::MODERN, &key);
        assert_eq!(sealer.open_cursor(ListKind::Tools, Revision::MODERN, &sealed), Some(key));
        assert_eq!(sealer.open_cursor(ListKind::Prompts, Revision::MODERN, &sealed), None);
        assert_eq!(sealer.open_cursor(ListKind::Tools, Revision::V2025_06_18, &sealed), None);
        assert_eq!(sealer.open_cursor(ListKind::Tools, Revision::MODERN, "c1.AAAA"), None);
        assert_eq!(sealer.open_skills_cursor(Revision::MODERN, &sealed), None);
        for own in [None, Some(""), Some("after:x")] {
            let sealed = sealer.seal_skills_cursor(Revision::MODERN, ServerId(3), own);
            let opened = (ServerId(3), own.map(str::to_owned));
            assert_eq!(sealer.open_skills_cursor(Revision::MODERN, &sealed), Some(opened));
            assert_eq!(sealer.open_skills_cursor(Revision::LATEST_LEGACY, &sealed), None);
            assert_eq!(sealer.open_cursor(ListKind::Tools, Revision::MODERN, &sealed), None);
        }
    }
}
