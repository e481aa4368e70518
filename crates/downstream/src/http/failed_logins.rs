//! How often tokens that open nothing come from one address, and when that is too often.
//!
//! Nobody is locked out: a token that is good is let in whatever came before it from the same address, which many clients behind a
//! proxy share. What is bounded is how fast somebody can try others, or a broken client can repeat its old one. Requests without a
//! token do not count: with one of these every client begins that has to ask for its first token.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use tidings_sync::Lock;

/// How many a minute are answered as what they are.
const MOST: u32 = 60;
const WINDOW: Duration = Duration::from_secs(60);
/// How many addresses are counted at a time. What comes from further ones is not.
const ADDRESSES: usize = 4_096;

/// The counts of the last minute.
#[derive(Debug, Default)]
pub(super) struct FailedLogins {
    counts: Lock<HashMap<IpAddr, FailedCount>>,
}

#[derive(Debug)]
struct FailedCount {
    since: Instant,
    failures: u32,
}

impl FailedLogins {
    /// A token opened nothing. If that happens too often, says for how long no other is to be tried.
    pub(super) fn failed(&self, address: IpAddr, now: Instant) -> Option<Duration> {
        let address = network(address);
        let mut counts = self.counts.lock();
        if counts.len() >= ADDRESSES && !counts.contains_key(&address) {
            counts.retain(|_, count| now.duration_since(count.since) < WINDOW);
            if counts.len() >= ADDRESSES {
                return None;
            }
        }
        let count = counts.entry(address).or_insert(FailedCount { since: now, failures: 0 });
        let age = now.duration_since(count.since);
        if age >= WINDOW {
            *count = FailedCount { since: now, failures: 1 };
            return None;
        }
        count.failures = count.failures.saturating_add(1);
        (count.failures > MOST).then(|| WINDOW - age)
    }
}

/// What one subscriber of a provider has: an IPv4 address, or the 64 bits of IPv6 below which everybody chooses addresses at will.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (!0 << 64))),
        short => short,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    // identity.md 4
    #[test]
    fn an_address_is_slowed_down_for_the_rest_of_its_minute_and_others_are_not() {
        let (failed, begin) = (FailedLogins::default(), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        let (one, other) = (address("192.0.2.1"), address("192.0.2.2"));
        assert!((0..MOST).all(|_| failed.failed(one, at(10)).is_none()));
        assert_eq!(failed.failed(one, at(40)), Some(Duration::from_secs(30)));
        assert_eq!(failed.failed(other, at(40)), None);
        assert_eq!(failed.failed(one, at(70)), None, "a new minute");
    }

    #[test]
    fn addresses_that_one_subscriber_can_choose_among_count_as_one() {
        let (failed, now) = (FailedLogins::default(), Instant::now());
        assert!((0..MOST).all(|host| failed.failed(address(&format!("2001:db8::{host:x}")), now).is_none()));
        assert!(failed.failed(address("2001:db8::ffff"), now).is_some());
        assert!(failed.failed(address("2001:db8:0:1::1"), now).is_none(), "another network");
        assert_eq!(network(address("::ffff:192.0.2.1")), address("192.0.2.1"));
    }

    #[test]
    fn the_table_is_bounded_and_old_counts_make_room() {
        let (failed, now) = (FailedLogins::default(), Instant::now());
        let many = |from: u32| (0..ADDRESSES as u32).map(move |number| IpAddr::from((from + number).to_be_bytes()));
        assert!(many(0).all(|address| failed.failed(address, now).is_none()));
        assert!((0..=MOST).all(|_| failed.failed(address("203.0.113.9"), now).is_none()), "not counted");
        assert_eq!(failed.counts.lock().len(), ADDRESSES);
        assert!(failed.failed(address("203.0.113.9"), now + WINDOW).is_none());
        assert_eq!(failed.counts.lock().len(), 1);
    }
}
