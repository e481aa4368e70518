//! Which addresses may be dialled.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use tower::Service;

/// How far names may lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NetworkReach {
    /// Names may lead to any address.
    Anywhere,
    /// To addresses that everybody can reach.
    Public,
}

/// The system's resolver, whose answers are checked.
#[derive(Clone)]
pub(super) struct CheckedResolver {
    system: GaiResolver,
    reach: NetworkReach,
}

impl CheckedResolver {
    pub(super) fn new(reach: NetworkReach) -> Self {
        Self { system: GaiResolver::new(), reach }
    }
}

impl Service<Name> for CheckedResolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.system.poll_ready(cx)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let (answer, reach) = (self.system.call(name), self.reach);
        Box::pin(async move { checked(answer.await?.collect(), reach) })
    }
}

/// All addresses, or none: a name that also leads inside is not trusted.
fn checked(addresses: Vec<SocketAddr>, reach: NetworkReach) -> io::Result<std::vec::IntoIter<SocketAddr>> {
    match addresses.iter().find(|address| !is_public(address.ip())) {
        Some(private) if reach == NetworkReach::Public => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("the name leads to the private address {}; set `private = true` if that is meant", private.ip()),
        )),
        _ => Ok(addresses.into_iter()),
    }
}

/// Whether an address belongs to the internet at large.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation();
    // 100.64.0.0/10, which providers use behind their own translation (RFC 6598).
    let shared = a == 100 && (64..128).contains(&b);
    // 198.18.0.0/15, for benchmarks (RFC 2544).
    let benchmark = a == 198 && (18..20).contains(&b);
    // 0.0.0.0/8 means this host, 240.0.0.0/4 is reserved, 192.0.0.0/24 is for protocol assignments.
    !(special || shared || benchmark || a == 0 || a >= 240 || (a, b, c) == (192, 0, 0))
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let words = address.segments();
    let low = || {
        let [.., a, b, c, d] = address.octets();
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match words {
        // Addresses of the other kind in disguise: mapped, translated, tunnelled.
        [0, 0, 0, 0, 0, 0xffff | 0, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => low(),
        // 6to4 carries an IPv4 address in its second and third word.
        [0x2002, high, rest, ..] => {
            let ([a, b], [c, d]) = (high.to_be_bytes(), rest.to_be_bytes());
            is_public_v4(Ipv4Addr::new(a, b, c, d))
        }
        // Teredo, which tunnels to an address that can not be seen here, and documentation.
        [0x2001, 0 | 0xdb8, ..] => false,
        // Only 2000::/3 has been given out; so the translators of a single network (64:ff9b:1::/48, RFC 8215) are not public.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_internet_are_public() {
        let public =
            ["93.184.216.34", "8.8.8.8", "2606:4700::1", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"];
        let private = [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "192.0.0.8",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "192.0.2.1",
            "::1",
            "64:ff9b:1:a00:1:100:808:808",
            "::",
            "fe80::1",
            "fd00::1",
            "ff02::1",
            "::ffff:10.0.0.1",
            "::7f00:1",
            "64:ff9b::a00:1",
            "2002:a00:1::",
            "2001:db8::1",
            "2001::1",
        ];
        for text in public {
            assert!(text.parse().is_ok_and(is_public), "{text}");
        }
        for text in private {
            assert!(!text.parse().is_ok_and(is_public), "{text}");
        }
    }

    #[test]
    fn one_private_answer_spoils_all() {
        let addresses = || vec![SocketAddr::from(([8, 8, 8, 8], 80)), SocketAddr::from(([10, 0, 0, 1], 80))];
        let refused = checked(addresses(), NetworkReach::Public).map(drop).map_err(|error| error.to_string());
        assert!(refused.is_err_and(|error| error.contains("10.0.0.1")));
        assert!(checked(addresses(), NetworkReach::Anywhere).is_ok_and(|all| all.len() == 2));
    }
}
