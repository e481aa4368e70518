//! Browsers that were sent to the provider of the person who asked for a login, to come back with who they are: what each was sent with,
//! and for how long that counts. No I/O.

use std::time::Instant;

use tidings_config::LoginConfig;

use crate::metadata::Provider;
use crate::pending::LIFE;

/// How many browsers may be under way for one ticket. With more, the first of them goes: whoever has a ticket must not push out those of
/// others.
const MOST_OF_TICKET: usize = 4;
/// How many there may be at all: as many as that for each login that may be under way.
const MOST: usize = 1_024;

/// A browser under way.
pub(crate) struct BrowserProof {
    /// What it opened.
    pub(crate) ticket: String,
    pub(crate) state: String,
    pub(crate) nonce: String,
    pub(crate) verifier: String,
    /// What the browser was given, by which it is known again.
    pub(crate) cookie: String,
    pub(crate) provider: Provider,
    /// The client, as it was configured when the browser left.
    pub(crate) settings: LoginConfig,
    pub(crate) since: Instant,
}

/// All of them, the oldest first.
#[derive(Default)]
pub(crate) struct BrowserProofs(Vec<BrowserProof>);

impl BrowserProofs {
    pub(crate) fn insert(&mut self, proof: BrowserProof, now: Instant) {
        // Only here: nothing else makes the list longer, and `take` looks at the age by itself.
        self.0.retain(|known| now.saturating_duration_since(known.since) < LIFE);
        let is_same = |known: &BrowserProof| known.ticket == proof.ticket;
        let of_ticket = self.0.iter().filter(|known| is_same(known)).count();
        let first = match of_ticket >= MOST_OF_TICKET {
            true => self.0.iter().position(is_same),
            false => (self.0.len() >= MOST).then_some(0),
        };
        if let Some(first) = first {
            self.0.remove(first);
        }
        self.0.push(proof);
    }

    /// The one that a state belongs to, for the browser that was sent with it, once. Another browser takes nothing from it.
    pub(crate) fn take(&mut self, state: &str, cookies: &[String], now: Instant) -> Option<BrowserProof> {
        let is_it = |known: &BrowserProof| known.state == state && cookies.contains(&known.cookie);
        let taken = self.0.remove(self.0.iter().position(is_it)?);
        (now.saturating_duration_since(taken.since) < LIFE).then_some(taken)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn proof(ticket: &str, state: &str, since: Instant) -> BrowserProof {
        BrowserProof {
            ticket: ticket.to_owned(),
            state: state.to_owned(),
            nonce: format!("nonce of {state}"),
            verifier: String::new(),
            cookie: format!("cookie of {state}"),
            provider: Provider::default(),
            settings: LoginConfig::default(),
            since,
        }
    }

    // identity 1: "MUST check that who opens it is who asked"
    #[test]
    fn a_browser_comes_back_once_in_time_and_with_its_own_cookie() {
        let (now, mut proofs) = (Instant::now(), BrowserProofs::default());
        let cookie = |state: &str| vec!["of another".to_owned(), format!("cookie of {state}")];
        proofs.insert(proof("t", "one", now), now);
        proofs.insert(proof("t", "two", now), now);
        assert!(proofs.take("one", &[], now).is_none(), "without a cookie");
        assert!(proofs.take("one", &cookie("two"), now).is_none(), "with that of another");
        assert!(proofs.take("", &cookie("one"), now).is_none() && proofs.take("three", &cookie("one"), now).is_none());
        assert_eq!(proofs.take("one", &cookie("one"), now).map(|it| it.nonce).as_deref(), Some("nonce of one"));
        assert!(proofs.take("one", &cookie("one"), now).is_none(), "once");
        assert!(proofs.take("two", &cookie("two"), now + LIFE).is_none(), "too late");
        assert!(proofs.take("two", &cookie("two"), now).is_none(), "and gone with that");
    }

    #[test]
    fn a_ticket_that_is_opened_again_and_again_pushes_out_no_browser_of_another() {
        let (now, mut proofs) = (Instant::now(), BrowserProofs::default());
        proofs.insert(proof("mine", "mine", now), now);
        for number in 0..2 * MOST {
            proofs.insert(proof("theirs", &number.to_string(), now), now);
        }
        assert_eq!(proofs.0.len(), 1 + MOST_OF_TICKET);
        assert!(proofs.take("mine", &["cookie of mine".to_owned()], now).is_some());
        for number in 0..2 * MOST {
            proofs.insert(proof(&number.to_string(), &number.to_string(), now), now);
        }
        assert_eq!(proofs.0.len(), MOST);
        proofs.insert(proof("late", "late", now + LIFE), now + LIFE + Duration::from_secs(1));
        assert_eq!(proofs.0.len(), 1, "what is too old goes");
    }
}
