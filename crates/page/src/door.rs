//! Who may see the page: links that open it once, and the sessions they begin.
//!
//! A machine without I/O: random numbers and the time come from outside, secrets are kept as hashes.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// How long a link can be used, and how many there may be.
const LINK_SECONDS: u64 = 600;
const MOST_LINKS: usize = 16;
/// How long a session lasts, and how many there may be.
const SESSION_SECONDS: u64 = 7 * 24 * 60 * 60;
const MOST_SESSIONS: usize = 64;

/// What every answer of the page says to browsers. Nothing foreign is loaded, nothing frames it, no script makes markup out of text.
pub const DOOR_HEADERS: [(&str, &str); 7] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
         form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    // Not `no-referrer`: with that, browsers send forms with `Origin: null`, which nobody can tell from a stranger's.
    ("referrer-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
];

/// A secret of 32 bytes, as it stands in a link or a cookie: hexadecimal digits.
type Secret = String;

/// Someone's open door.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoorSession {
    /// The hash of the cookie.
    cookie: String,
    /// The host name under which it was opened: it counts under no other.
    host: String,
    /// When it ends, in seconds since 1970.
    ends: u64,
    /// Whether it may only look.
    pub read_only: bool,
}

#[derive(Clone, Debug)]
struct DoorLink {
    key: String,
    host: String,
    ends: u64,
    read_only: bool,
}

/// Two fresh secrets, from whoever has random numbers.
#[derive(Clone, Debug)]
pub struct DoorKeys {
    /// Becomes the cookie.
    pub cookie: Secret,
}

/// Why a link opens nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkFault {
    /// It was used, is too old, or never was one.
    Spent,
    /// It was made for another host name.
    OtherHost,
}

/// The links and sessions there are. Both are bounded: the oldest goes.
#[derive(Debug, Default)]
pub struct Door {
    links: VecDeque<DoorLink>,
    sessions: VecDeque<DoorSession>,
}

impl Door {
    /// Goes on with the sessions of an earlier process.
    pub fn with_sessions(sessions: Vec<DoorSession>) -> Self {
        // Of too many the newest stay: they stand at the end.
        let skip = sessions.len().saturating_sub(MOST_SESSIONS);
        Self { links: VecDeque::new(), sessions: sessions.into_iter().skip(skip).collect() }
    }

    /// The sessions, to be kept. They hold no secret.
    pub fn sessions(&self) -> Vec<DoorSession> {
        self.sessions.iter().cloned().collect()
    }

    /// A link with this key opens the page once, under this host name, within ten minutes.
    pub fn issue(&mut self, key: &str, host: &str, read_only: bool, now: u64) {
        self.links.retain(|link| link.ends > now);
        // The oldest goes, also unused: whoever asks for links without end pushes out only links.
        if self.links.len() >= MOST_LINKS {
            self.links.pop_front();
        }
        let ends = now.saturating_add(LINK_SECONDS);
        self.links.push_back(DoorLink { key: hash(key), host: host.to_owned(), ends, read_only });
    }

    /// Uses a link up: whoever has the cookie is in from now on.
    pub fn redeem(&mut self, key: &str, host: &str, keys: &DoorKeys, now: u64) -> Result<(), LinkFault> {
        self.links.retain(|link| link.ends > now);
        let key = hash(key);
        let place = self.links.iter().position(|link| link.key == key).ok_or(LinkFault::Spent)?;
        // Not used up by this: whoever opened it under the wrong name can still open it under the right one.
        if self.links[place].host != host {
            return Err(LinkFault::OtherHost);
        }
        let Some(link) = self.links.remove(place) else { return Err(LinkFault::Spent) };
        self.sessions.retain(|session| session.ends > now);
        if self.sessions.len() >= MOST_SESSIONS {
            self.sessions.pop_front();
        }
        let ends = now.saturating_add(SESSION_SECONDS);
        let read_only = link.read_only;
        self.sessions.push_back(DoorSession { cookie: hash(&keys.cookie), host: host.to_owned(), ends, read_only });
        Ok(())
    }

    /// The session of a cookie under a host name.
    pub fn session(&self, cookie: &str, host: &str, now: u64) -> Option<&DoorSession> {
        let cookie = hash(cookie);
        // Under its own host name only: somebody else's name that is made to lead here (DNS rebinding) has no session.
        self.sessions.iter().find(|session| session.cookie == cookie && session.host == host && session.ends > now)
    }

    /// Ends the session of a cookie.
    pub fn leave(&mut self, cookie: &str) {
        let cookie = hash(cookie);
        self.sessions.retain(|session| session.cookie != cookie);
    }

    /// What a form carries to prove that it is ours: only pages that the cookie opened know it.
    pub fn form_token(cookie: &str) -> String {
        hash(&format!("form {cookie}"))
    }
}

/// Equal hashes are compared where the time it takes tells nothing: they are of secrets that nobody can choose.
fn hash(secret: &str) -> String {
    // Another context than the other hashes of the program: the same secret elsewhere has another hash.
    blake3::derive_key("tidings page door 1", secret.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(cookie: &str) -> DoorKeys {
        DoorKeys { cookie: cookie.to_owned() }
    }

    #[test]
    fn a_link_opens_once_in_its_time_and_under_its_name() {
        let mut door = Door::default();
        door.issue("k", "a", false, 0);
        assert_eq!(door.redeem("x", "a", &keys("c"), 1), Err(LinkFault::Spent));
        assert_eq!(door.redeem("k", "b", &keys("c"), 1), Err(LinkFault::OtherHost));
        assert_eq!(door.redeem("k", "a", &keys("c"), 1), Ok(()));
        assert_eq!(door.redeem("k", "a", &keys("d"), 2), Err(LinkFault::Spent), "replayed");
        assert!(door.session("c", "a", 3).is_some());
        assert!(door.session("c", "b", 3).is_none(), "a cookie counts where it was given");
        assert!(door.session("d", "a", 3).is_none());
        assert!(door.session("c", "a", 1 + SESSION_SECONDS).is_none());
        door.issue("late", "a", false, 10);
        assert_eq!(door.redeem("late", "a", &keys("e"), 10 + LINK_SECONDS), Err(LinkFault::Spent));
        door.leave("c");
        assert!(door.session("c", "a", 3).is_none());
    }

    #[test]
    fn links_and_sessions_are_bounded_and_no_secret_is_kept() {
        let mut door = Door::default();
        for n in 0..1_000 {
            door.issue(&format!("k{n}"), "a", n % 2 == 0, 0);
            assert!(door.links.len() <= MOST_LINKS);
            assert_eq!(door.redeem(&format!("k{n}"), "a", &keys(&format!("cookie{n}")), 1), Ok(()));
        }
        assert_eq!(door.sessions().len(), MOST_SESSIONS);
        let kept = serde_json::to_string(&door.sessions()).expect("JSON");
        assert!(!kept.contains("cookie9"), "{kept}");
        let again = Door::with_sessions(serde_json::from_str(&kept).expect("JSON"));
        assert!(again.session("cookie999", "a", 2).is_some_and(|session| !session.read_only));
        assert!(again.session("cookie998", "a", 2).is_some_and(|session| session.read_only));
        assert!(again.session("cookie1", "a", 2).is_none(), "the oldest went");
    }
}
